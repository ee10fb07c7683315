use crate::{
    BootId, Contract, Domain, Epoch, Holder, Issuer, LeaseId, Metadata, Moment, RequestId, Secret, Sequence, SessionId,
    Ttl, Wait,
    lease::{
        Acquire, AcquireRefusal, Answer, Caller, Command, Fresh, Leases, LimitReached, Start, Terms, Ticket,
        state::Place,
    },
    limits,
};

/// An acquire that opens its session, waits for ten minutes at most and differs from others by its request id only.
fn wanted(domain: &str, number: u8) -> Command {
    Command::Acquire(Box::new(Acquire {
        caller: Caller::Opening {
            holder: Holder::new("h").unwrap(),
            ttl: Ttl::from_millis(limits::TTL_MOST_MS).unwrap(),
        },
        domain: Domain::new(domain).unwrap(),
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

fn started(at: Moment) -> Leases {
    let mut leases = Leases::new(Issuer::new("test").unwrap(), Epoch::ZERO);
    let start = Start { number: 1, boot: BootId::from_bytes([1; 16]), at, least: Sequence::FIRST };
    let _ = leases.start(start).committed();
    leases
}

/// A domain has a place as long as it is held, reserved or waited for, so this bounds leases and reservations alike.
/// Mutant: without the look at the number of places in `grant_or_queue` the last acquire is granted.
#[test]
fn there_is_an_end_to_domains_and_those_there_are_can_be_waited_for() {
    let begun = Moment::from_millis(0);
    let mut leases = started(begun);
    let answer = |leases: &mut Leases, command| leases.step(Ticket(1), command, begun).committed().answers.pop();
    assert!(matches!(answer(&mut leases, wanted("d", 0)), Some((_, Answer::Acquired(Ok(_))))));
    let others = 1..limits::DOMAINS;
    leases.state.places.extend(others.map(|n| (Domain::new(&format!("e{n:07}")).unwrap(), Place::default())));
    assert!(answer(&mut leases, wanted("d", 1)).is_none(), "it waits");
    let Some((_, Answer::Acquired(Err(refusal)))) = answer(&mut leases, wanted("f", 2)) else { panic!("granted") };
    assert_eq!(*refusal, AcquireRefusal::LimitReached(LimitReached { limit: "domains" }));
    leases.state.places.pop_last();
    assert!(matches!(answer(&mut leases, wanted("f", 2)), Some((_, Answer::Acquired(Ok(_))))));
}

/// A client that goes and comes back leaves a timer each time, and the one left by its going stays for up to a day.
/// Mutants: without `drop_void_timers` there are a hundred thousand of them; without `schedule_places` in it nobody ends
/// the last wait.
#[test]
fn timers_of_a_client_that_comes_and_goes_do_not_pile_up_and_its_wait_still_ends() {
    let begun = Moment::from_millis(0);
    let mut leases = started(begun);
    assert_eq!(leases.step(Ticket(0), wanted("d", 0), begun).committed().answers.len(), 1);
    let mut most = 0;
    for number in 1..=50_000 {
        let told = leases.step(Ticket(number), wanted("d", 1), begun).committed();
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
