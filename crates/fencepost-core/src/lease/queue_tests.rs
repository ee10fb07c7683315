use crate::{
    BootId, Contract, Domain, Epoch, Holder, Issuer, LeaseId, Metadata, Moment, RequestId, Secret, Sequence, SessionId,
    Ttl, Wait,
    lease::{Acquire, Answer, Caller, Command, Fresh, Leases, Start, Terms, Ticket},
    limits,
};

/// An acquire that opens its session, waits for ten minutes at most and differs from others by its request id only.
fn wanted(number: u8) -> Command {
    Command::Acquire(Box::new(Acquire {
        caller: Caller::Opening {
            holder: Holder::new("h").unwrap(),
            ttl: Ttl::from_millis(limits::TTL_MOST_MS).unwrap(),
        },
        domain: Domain::new("d").unwrap(),
        request: RequestId::from_bytes([number; 16]),
        contract: Contract::Safety,
        terms: Terms::default(),
        metadata: Metadata::default(),
        renew: false,
        wait: Wait::from_millis(limits::WAIT_MOST_MS).unwrap(),
        fresh: Fresh {
            lease: LeaseId::from_bytes([number; 16]),
            session: SessionId::from_bytes([number; 16]),
            secret: Secret::from_bytes([number; 32]).hash(),
        },
    }))
}

/// A client that goes and comes back leaves a timer each time, and the one left by its going stays for up to a day.
/// Mutants: without `drop_void_timers` there are a hundred thousand of them; without `schedule_places` in it nobody ends
/// the last wait.
#[test]
fn timers_of_a_client_that_comes_and_goes_do_not_pile_up_and_its_wait_still_ends() {
    let mut leases = Leases::new(Issuer::new("test").unwrap(), Epoch::ZERO);
    let begun = Moment::from_millis(0);
    let start = Start { number: 1, boot: BootId::from_bytes([1; 16]), at: begun, least: Sequence::FIRST };
    let _ = leases.start(start).committed();
    assert_eq!(leases.step(Ticket(0), wanted(0), begun).committed().answers.len(), 1);
    let mut most = 0;
    for number in 1..=50_000 {
        let told = leases.step(Ticket(number), wanted(1), begun).committed();
        assert!(told.answers.is_empty(), "it waits");
        if number < 50_000 {
            leases.disconnect(Ticket(number), begun);
        }
        most = most.max(leases.state.timers.len());
    }
    assert!(most < 5_000, "{most} timers for one waiter and one session");
    let over = begun.after_millis(limits::WAIT_MOST_MS);
    let told = leases.tick(over).committed().answers;
    assert!(matches!(told[..], [(Ticket(50_000), Answer::Acquired(Err(_)))]), "{told:?}");
    // What is left is the session's own: its lease ends by it.
    let end = leases.next_wakeup().unwrap();
    assert_eq!(end, begun.after_millis(limits::TTL_MOST_MS));
    assert_eq!(leases.tick(end).committed().events.len(), 1);
}
