//! A coordinator of this command's own: a real one, in a folder that is gone afterwards.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use fencepost_coordinator::{
    AcquireRequest, Coordinator as _, SessionKey,
    embedded::{Embedded, InitOptions, Options, SystemWallClock, WallClock},
};
use fencepost_core::{Domain, Epoch, Holder, Issuer, LeaseId, RequestId, Token, Ttl, Wait};
use fencepost_testkit::prove::Trouble;
use tempfile::TempDir;

use crate::{exit::Exit, failure::Failure, path};

/// The least there is, so that a lease that nobody renews is soon over.
const TTL_MS: u64 = 1_000;
/// Long enough for a lease of [`TTL_MS`] to end on a machine that has much else to do.
const WAIT_MS: u64 = 60_000;

pub(super) struct Grants {
    folder: TempDir,
    /// `None` while it is restarted, and after a restart that failed.
    coordinator: RefCell<Option<Embedded>>,
    leases: RefCell<BTreeMap<Domain, Held>>,
}

struct Held {
    key: SessionKey,
    lease: LeaseId,
    request: RequestId,
}

/// A wall clock that has run at sixteen times the speed since [`FIRST_PROOF_MS`]. A start pushes the sequence
/// to the age of the store, so tokens of a later proof are greater than those of an earlier one, although each skips a
/// block of ten thousand numbers when it restarts its coordinator: the service may keep its fences.
struct FastClock {
    stands_still: bool,
}

/// In milliseconds since 1970. Any moment before the first proof of all would do; once chosen it stays, or a later proof's
/// tokens would be smaller.
const FIRST_PROOF_MS: u64 = 1_767_225_600_000;
const SPEED: u64 = 16;
/// A clock that was set back meanwhile is not waited for.
const MOST_WAITED_MS: u64 = 10_000;

impl WallClock for FastClock {
    fn unix_millis(&self) -> u64 {
        let age = SystemWallClock.unix_millis().saturating_sub(FIRST_PROOF_MS);
        FIRST_PROOF_MS + if self.stands_still { 0 } else { age.saturating_mul(SPEED) }
    }
}

fn trouble(what: &str, why: impl std::fmt::Display) -> Trouble {
    Trouble(format!("the coordinator of this command {what}: {why}"))
}

impl Grants {
    /// # Errors
    /// When there is no place for its store.
    pub(super) fn open(epoch: Epoch) -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::new(Exit::CannotWrite, format!("the coordinator of this command has no store: {why}"))
                .then("set TMPDIR to a folder with some room")
        };
        let folder =
            tempfile::tempdir().map_err(|error| failed(&error).ending_in(path::exit(&error, Exit::CannotWrite)))?;
        let data = folder.path().join("coordinator");
        let issuer = Some(Issuer::new("fencepost-prove")?);
        let options =
            InitOptions { issuer, epoch: Some(epoch), wall_clock: Some(Arc::new(FastClock { stands_still: true })) };
        Embedded::init(&data, options).map_err(|error| failed(&error))?;
        let grants = Self { folder, coordinator: RefCell::default(), leases: RefCell::default() };
        grants.start().map_err(|error| failed(&error))?;
        Ok(grants)
    }

    fn start(&self) -> Result<(), Trouble> {
        let wall_clock: Option<Arc<dyn WallClock>> = Some(Arc::new(FastClock { stands_still: false }));
        let options = Options { push_far: true, wall_clock, ..Options::default() };
        let data = self.folder.path().join("coordinator");
        let coordinator = Embedded::open(&data, options).map_err(|error| trouble("does not start", error))?;
        self.coordinator.replace(Some(coordinator));
        Ok(())
    }

    pub(super) async fn restart(&self) -> Result<(), Trouble> {
        self.shutdown().await;
        self.start()
    }

    /// The end of the proof. A quick one has skipped more numbers than its clock has run through, and a next one at
    /// once would begin below them, so the clock is waited for.
    pub(super) async fn close(&self) {
        let next = self.next_token().await.ok();
        self.shutdown().await;
        let Some(next) = next else { return };
        let due = FIRST_PROOF_MS + u64::from(next.sequence()) / SPEED + 1;
        let left = due.saturating_sub(SystemWallClock.unix_millis());
        tokio::time::sleep(std::time::Duration::from_millis(left.min(MOST_WAITED_MS))).await;
    }

    async fn shutdown(&self) {
        let coordinator = self.coordinator.take();
        if let Some(coordinator) = coordinator {
            coordinator.shutdown().await;
        }
    }

    fn coordinator(&self) -> Result<Embedded, Trouble> {
        let coordinator = self.coordinator.borrow().clone();
        coordinator.ok_or_else(|| trouble("is not there", "it did not start again"))
    }

    /// Gives the domain back for whoever has it, and acquires it for somebody else.
    pub(super) async fn next(&self, domain: &Domain) -> Result<Token, Trouble> {
        let held = self.leases.borrow_mut().remove(domain);
        if let Some(held) = held {
            // Where the lease is over already, there is nothing to give back.
            let _ = self.coordinator()?.release(&held.key.secret, held.lease, held.request).await;
        }
        self.acquire(domain).await
    }

    /// Acquires it once the lease of whoever has it is over.
    pub(super) async fn after_expiry(&self, domain: &Domain) -> Result<Token, Trouble> {
        self.leases.borrow_mut().remove(domain);
        self.acquire(domain).await
    }

    async fn acquire(&self, domain: &Domain) -> Result<Token, Trouble> {
        let coordinator = self.coordinator()?;
        let holder = Holder::new("fencepost-prove").expect("it is a name");
        let ttl = Ttl::from_millis(TTL_MS).expect("it is allowed");
        // A machine so busy that a session is over before it has acquired anything gets another try.
        let mut last = None;
        for _ in 0..5 {
            let opened = coordinator.open_session(holder.clone(), ttl).await;
            let opened = opened.map_err(|error| trouble("opens no session", error))?;
            let key = opened.answer.key();
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|error| trouble("has no random bytes", error))?;
            let request = RequestId::from_bytes(bytes);
            let wait = Wait::from_millis(WAIT_MS).expect("it is allowed");
            let acquire = AcquireRequest { wait, ..AcquireRequest::new(&key, domain.clone(), request) };
            // A session that waits has nothing that keeps it alive but its own heartbeat.
            let acquire = coordinator.acquire(acquire);
            let granted = self.kept_alive(&coordinator, &key, acquire).await;
            match granted {
                Ok(granted) => {
                    let acquired = granted.answer.acquired;
                    let token = acquired.permission.grant().map(|grant| grant.token);
                    let held = Held { key, lease: acquired.lease, request };
                    self.leases.borrow_mut().insert(domain.clone(), held);
                    return token.ok_or_else(|| trouble("grants without a token", domain));
                }
                Err(error) => last = Some(error.to_string()),
            }
        }
        Err(trouble("grants nothing", last.unwrap_or_default()))
    }

    async fn kept_alive<T>(&self, coordinator: &Embedded, key: &SessionKey, work: impl Future<Output = T>) -> T {
        let alive = async {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(TTL_MS / 3)).await;
                let claim = fencepost_core::lease::Claim::Held(Vec::new());
                // A heartbeat that fails shows in the acquire.
                let _ = coordinator.heartbeat(key, claim).await;
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = alive => unreachable!("it beats without end"),
        }
    }

    pub(super) async fn next_token(&self) -> Result<Token, Trouble> {
        let snapshot = self.coordinator()?.snapshot(String::new()).await;
        let snapshot = snapshot.map_err(|error| trouble("tells no next token", error))?;
        snapshot.next_token.ok_or_else(|| trouble("has no next token", "its token space is used up"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutant: whoever asks a coordinator that did not start again ends the whole command.
    #[tokio::test]
    async fn a_coordinator_that_did_not_start_again_is_trouble_of_the_scenario() {
        let grants = Grants::open(Epoch::new(0).unwrap()).unwrap();
        let domain = Domain::new("d").unwrap();
        grants.next(&domain).await.unwrap();
        grants.shutdown().await;
        std::fs::remove_dir_all(grants.folder.path()).unwrap();
        assert!(grants.restart().await.is_err());
        for found in [grants.next(&domain).await, grants.after_expiry(&domain).await, grants.next_token().await] {
            let Err(Trouble(why)) = found else { panic!("{found:?}") };
            assert!(why.contains("did not start again"), "{why}");
        }
    }

    /// Mutant: without the wait in `close` the second proof begins below the first one's last token.
    #[tokio::test]
    async fn a_proof_that_follows_at_once_has_greater_tokens() {
        let domain = Domain::new("d").unwrap();
        let first = Grants::open(Epoch::ZERO).unwrap();
        for _ in 0..2 {
            first.next(&domain).await.unwrap();
            first.restart().await.unwrap();
        }
        let last = first.next(&domain).await.unwrap();
        first.close().await;
        let second = Grants::open(Epoch::ZERO).unwrap();
        assert!(second.next(&domain).await.unwrap() > last);
    }
}
