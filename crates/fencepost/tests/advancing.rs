//! Acquiring that includes advancing: what the new owner may rely on, and what becomes of the lease when a receiver
//! does not play along.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use fencepost::{
    Advance, AdvanceError, AdvancingError, Capabilities, Domain, Epoch, Grant, Guarantee, Guaranteed, Holder, Invalid,
    Issuer, MemoryReceiver, Operation, OperationId, Receiver, ReceiverSeed, RecordedResult, Rejection, Session, Ttl,
    Verdict,
    coordinator::{
        Coordinator,
        embedded::{Embedded, Options, testing::MemoryStore},
    },
};
use fencepost_core::lease::Filter;

fn coordinator() -> Embedded {
    MemoryStore::new().open(Options::default()).unwrap()
}

fn receiver(coordinator: &Embedded) -> MemoryReceiver {
    MemoryReceiver::guard(&ReceiverSeed::new(coordinator.issuer().clone(), coordinator.epoch()))
}

async fn session(coordinator: &Embedded) -> Session {
    let ttl = Ttl::from_millis(1_000).unwrap();
    Session::open(coordinator.clone(), Holder::new("a").unwrap(), ttl).await.unwrap()
}

fn domain() -> Domain {
    Domain::new("d").unwrap()
}

async fn is_held(coordinator: &Embedded) -> bool {
    !coordinator.list(Filter::Domain(domain()), None, 1).await.unwrap().rows.is_empty()
}

fn write(receiver: &MemoryReceiver, grant: &Grant, id: &str) -> Verdict<RecordedResult> {
    let operation = Operation::new(OperationId::new(id).unwrap(), b"");
    receiver.write::<Invalid>(grant, &operation, || Ok(RecordedResult::default())).unwrap()
}

/// A receiver that does something else first.
struct Odd<F> {
    inner: MemoryReceiver,
    advances: AtomicU32,
    behaves: F,
    strongest: Guarantee,
}

fn odd<F>(coordinator: &Embedded, behaves: F) -> Odd<F> {
    Odd { inner: receiver(coordinator), advances: AtomicU32::new(0), behaves, strongest: Guarantee::FencedOnAcquire }
}

impl<F, A> Receiver for Odd<F>
where
    F: Fn(u32) -> A + Send + Sync,
    A: Future<Output = Result<(), AdvanceError>> + Send,
{
    fn name(&self) -> &str {
        "odd:"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { strongest: self.strongest, ..self.inner.capabilities() }
    }

    async fn advance(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        (self.behaves)(self.advances.fetch_add(1, Relaxed) + 1).await?;
        self.inner.advance(grant).await
    }
}

fn unavailable() -> Result<(), AdvanceError> {
    Err(AdvanceError::Unavailable("out of order".into()))
}

/// Mutant: the deliberate defect `no_advance`, tried below.
#[tokio::test]
async fn a_late_write_is_refused_even_before_the_new_owners_first() {
    let coordinator = coordinator();
    let receiver = receiver(&coordinator);
    let a = session(&coordinator).await;
    let first = a.acquire(domain()).advance(&receiver).await.unwrap();
    let old = first.grant().clone();
    assert!(matches!(write(&receiver, &old, "in time"), Verdict::Applied(_)));
    first.release().await.unwrap();
    let second = a.acquire(domain()).advance(&receiver).await.unwrap();
    assert_eq!(second.guarantee(), Guarantee::FencedOnAcquire);
    assert_eq!(second.advanced(), ["memory:"]);
    assert!(matches!(write(&receiver, &old, "late"), Verdict::Rejected(Rejection::Stale { .. })));
    assert!(matches!(write(&receiver, second.grant(), "new"), Verdict::Applied(_)));
}

#[cfg(feature = "sabotage")]
#[test]
fn the_test_above_fails_when_nothing_is_advanced() {
    let sabotaged = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_late_write_is_refused_even_before_the_new_owners_first", "--nocapture"])
        .env("FENCEPOST_SABOTAGE", "no_advance")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&sabotaged.stderr) + String::from_utf8_lossy(&sabotaged.stdout);
    assert!(!sabotaged.status.success(), "the defect was not noticed");
    assert!(said.contains("Rejected(Rejection::Stale"), "it failed for another reason: {said}");
}

/// Without advancing, the gap is there, and the type does not hide it.
#[tokio::test]
async fn a_plain_lease_says_that_it_is_fenced_on_the_first_write_and_is() {
    let coordinator = coordinator();
    let receiver = receiver(&coordinator);
    let a = session(&coordinator).await;
    let first = a.acquire(domain()).await.unwrap();
    let old = first.grant().clone();
    first.release().await.unwrap();
    let second = a.acquire(domain()).await.unwrap();
    assert_eq!(second.guarantee(), Guarantee::FencedOnFirstWrite);
    assert!(matches!(write(&receiver, &old, "late, and still in the gap"), Verdict::Applied(_)));
    assert!(matches!(write(&receiver, second.grant(), "first"), Verdict::Applied(_)));
    assert!(matches!(write(&receiver, &old, "late"), Verdict::Rejected(Rejection::Stale { .. })));
}

#[tokio::test]
async fn every_named_receiver_is_advanced() {
    let coordinator = coordinator();
    let (one, two) = (receiver(&coordinator), odd(&coordinator, async |_| Ok(())));
    let lease = session(&coordinator).await.acquire(domain()).advance(&one).advance(&two).await.unwrap();
    assert_eq!(lease.advanced(), ["memory:", "odd:"]);
    for receiver in [&one, &two.inner] {
        let register = receiver.register();
        assert_eq!(register.fence(&domain()), Some(lease.token()));
    }
}

/// Mutant: the `continue` arm for retryable errors turned into a return in `advance`.
#[tokio::test]
async fn a_failed_and_an_unknown_advance_are_repeated() {
    let coordinator = coordinator();
    let flaky = odd(&coordinator, async |attempt| match attempt {
        1 => unavailable(),
        2 => Err(AdvanceError::Unknown("the answer was lost".into())),
        _ => Ok(()),
    });
    let lease = session(&coordinator).await.acquire(domain()).advance(&flaky).await.unwrap();
    assert_eq!(flaky.advances.load(Relaxed), 3);
    assert!(lease.state().is_held());
}

#[tokio::test]
async fn a_receiver_that_stays_out_of_order_costs_the_lease_within_its_first_deadline() {
    let coordinator = coordinator();
    let broken = odd(&coordinator, async |_| unavailable());
    let started = Instant::now();
    let error = session(&coordinator).await.acquire(domain()).advance(&broken).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_millis(1_500), "{:?}", started.elapsed());
    assert_eq!(
        error.to_string(),
        "odd: could not be advanced in time: the fence was not raised, the receiver cannot be used now: out of \
         order; the lease was given back"
    );
    assert!(error.is_worth_repeating());
    assert!(!is_held(&coordinator).await);
}

#[tokio::test]
async fn a_receiver_that_hangs_costs_the_lease_within_its_first_deadline() {
    let coordinator = coordinator();
    let hangs = odd(&coordinator, |_| pending());
    let started = Instant::now();
    let error = session(&coordinator).await.acquire(domain()).advance(&hangs).await.unwrap_err();
    assert!(matches!(error, AdvancingError::NotAdvanced { error: None, released: true, .. }), "{error}");
    assert!(started.elapsed() < Duration::from_millis(1_500), "{:?}", started.elapsed());
    assert!(!is_held(&coordinator).await);
}

#[tokio::test]
async fn a_refusal_is_final_and_the_lease_is_given_back() {
    let coordinator = coordinator();
    let foreign = MemoryReceiver::guard(&ReceiverSeed::new(Issuer::new("another").unwrap(), Epoch::MAX));
    let error = session(&coordinator).await.acquire(domain()).advance(&foreign).await.unwrap_err();
    assert!(
        matches!(error, AdvancingError::Rejected { rejection: Rejection::WrongIssuer, released: true, .. }),
        "{error}"
    );
    assert!(!is_held(&coordinator).await);
}

#[tokio::test]
async fn a_receiver_that_cannot_be_advanced_is_refused_before_anything_is_acquired() {
    let coordinator = coordinator();
    let weak = Odd { strongest: Guarantee::FencedOnFirstWrite, ..odd(&coordinator, async |_| Ok(())) };
    let session = session(&coordinator).await;
    let recorded = coordinator.statistics().records;
    let error = session.acquire(domain()).advance(&weak).await.unwrap_err();
    assert!(matches!(error, AdvancingError::Incapable { strongest: Guarantee::FencedOnFirstWrite, .. }), "{error}");
    assert_eq!(weak.advances.load(Relaxed), 0);
    assert_eq!(coordinator.statistics().records, recorded, "nothing was granted");
}

/// Mutant: the last `match` of `Advancing::made` always hands the lease over.
#[tokio::test]
async fn a_lease_lost_while_advancing_is_not_handed_over() {
    let coordinator = coordinator();
    let session = session(&coordinator).await;
    let breaking = {
        let coordinator = coordinator.clone();
        odd(&coordinator.clone(), move |_| {
            let coordinator = coordinator.clone();
            async move {
                let page = coordinator.list(Filter::Domain(domain()), None, 1).await.unwrap();
                let reason = fencepost_core::Reason::new("test").unwrap();
                coordinator.break_lease(page.rows[0].lease, reason).await.unwrap();
                // bounded: longer than it takes to the next heartbeat, which tells of the break
                tokio::time::sleep(Duration::from_millis(600)).await;
                Ok(())
            }
        })
    };
    let error = session.acquire(domain()).advance(&breaking).await.unwrap_err();
    assert!(matches!(error, AdvancingError::Lost(_)), "{error}");
}

#[tokio::test]
async fn a_caller_who_leaves_while_a_receiver_is_advanced_leaves_no_lease_behind() {
    let coordinator = coordinator();
    let session = session(&coordinator).await;
    let hangs = Arc::new(odd(&coordinator, |_| pending()));
    let task = {
        let (session, hangs) = (session.clone(), hangs.clone());
        tokio::spawn(async move { session.acquire(domain()).advance(&*hangs).await.map(drop) })
    };
    while hangs.advances.load(Relaxed) == 0 {
        // bounded: until the receiver is asked, or the assertion above ends it
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(is_held(&coordinator).await);
    task.abort();
    let started = Instant::now();
    while is_held(&coordinator).await {
        assert!(started.elapsed() < Duration::from_millis(500), "it was not given back");
        // bounded: until the receiver is asked, or the assertion above ends it
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
