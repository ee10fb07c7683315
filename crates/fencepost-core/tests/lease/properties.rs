//! Random lives of a coordinator, checked against what its records and answers say, by code that knows no rules but
//! the invariants.

use std::collections::BTreeMap;

use fencepost_core::{
    Contract, LeaseId, LockDelay, MaxHold, MinHold, Token,
    lease::{Acquired, Command, Credential, Query, Record, Terms},
};
use proptest::prelude::*;

use crate::world::{TTL, Wanted, World, boot, request, want};

#[derive(Clone, Debug)]
enum Act {
    Acquire {
        who: usize,
        wanted: Wanted,
        number: u64,
    },
    /// In a session of its own.
    Open {
        who: usize,
        wanted: Wanted,
        number: u64,
    },
    Heartbeat {
        who: usize,
        forget_one: bool,
    },
    Release {
        who: usize,
    },
    Break {
        domain: u8,
    },
    End {
        who: usize,
    },
    Disconnect {
        who: usize,
    },
    Pass {
        ms: u64,
    },
    Restart {
        reboot: bool,
        snapshot: bool,
    },
}

/// Shorter and longer than a TTL, and none.
fn time() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![3 => Just(None), 1 => Just(Some(1_000)), 1 => Just(Some(TTL + 1_000))]
}

fn terms() -> impl Strategy<Value = Terms> {
    (time(), time(), time(), 1..3_u32).prop_map(|(max, min, delay, reentrancy_limit)| Terms {
        max_hold: max.map(|ms| MaxHold::from_millis(ms).unwrap()),
        min_hold: min.map(|ms| MinHold::from_millis(ms).unwrap()),
        lock_delay: delay.map(|ms| LockDelay::from_millis(ms).unwrap()),
        reentrancy_limit,
    })
}

fn contract() -> impl Strategy<Value = Contract> {
    prop_oneof![4 => Just(Contract::Safety), 1 => Just(Contract::Admission), 1 => Just(Contract::Advisory)]
}

/// An acquire of one of two domains, with few enough numbers that they come again.
fn wanted() -> impl Strategy<Value = (u64, Wanted)> {
    let wait = prop_oneof![Just(0), Just(2_000)];
    (0..2_u8, 0..12_u64, contract(), terms(), any::<bool>(), wait).prop_map(
        |(domain, number, contract, terms, renew, wait)| {
            (number, Wanted { contract, terms, renew, wait, ..want(&format!("d{domain}"), number) })
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let who = 0..3_usize;
    prop_oneof![
        6 => (who.clone(), wanted()).prop_map(|(who, (number, wanted))| Act::Acquire { who, wanted, number }),
        2 => (who.clone(), wanted()).prop_map(|(who, (number, wanted))| Act::Open { who, wanted, number }),
        4 => (who.clone(), any::<bool>()).prop_map(|(who, forget_one)| Act::Heartbeat { who, forget_one }),
        3 => who.clone().prop_map(|who| Act::Release { who }),
        1 => (0..2_u8).prop_map(|domain| Act::Break { domain }),
        1 => who.clone().prop_map(|who| Act::End { who }),
        1 => who.prop_map(|who| Act::Disconnect { who }),
        6 => (1..1_500_u64).prop_map(|ms| Act::Pass { ms }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(reboot, snapshot)| Act::Restart { reboot, snapshot }),
    ]
}

/// What a holder believes: until when it has a domain, by the rule send + elapsed + remaining with no time on the
/// way and no margin.
#[derive(Clone, Debug)]
struct Belief {
    lease: LeaseId,
    domain: String,
    request: u64,
    until: u64,
}

#[derive(Default)]
struct Holder {
    key: Option<Credential>,
    beliefs: Vec<Belief>,
    waiting: Option<(fencepost_core::lease::Ticket, u64)>,
}

impl Holder {
    fn learn(&mut self, now: u64, number: u64, acquired: &Acquired) {
        let domain = acquired.domain.as_str().to_owned();
        self.beliefs.retain(|belief| belief.lease != acquired.lease);
        self.beliefs.push(Belief {
            lease: acquired.lease,
            domain,
            request: number,
            until: now + acquired.remaining_ms,
        });
    }
}

fn live(acts: Vec<Act>) -> World {
    let mut world = World::new();
    let mut holders = [Holder::default(), Holder::default(), Holder::default()];
    let mut boots = 1;
    for act in acts {
        match act {
            Act::Acquire { who, wanted, number } => {
                let key = key(&mut world, &mut holders[who]);
                let command = world.command(fencepost_core::lease::Caller::Session(key), &wanted);
                let ticket = world.send(command);
                match world.acquired_by(ticket) {
                    Some(Ok(acquired)) => holders[who].learn(world.now, number, &acquired),
                    Some(Err(_)) => {}
                    None => holders[who].waiting = Some((ticket, number)),
                }
            }
            Act::Open { who, wanted, number } => {
                // Nobody else sends this request again: its answer would be another holder's.
                let number = 100 * (who as u64 + 1) + number;
                let wanted = Wanted { request: request(number), wait: 0, ..wanted };
                if let Ok((acquired, key)) = world.acquire_opening(&wanted)
                    && key.secret.is_some()
                {
                    holders[who] = Holder { key: Some(key), ..Holder::default() };
                    holders[who].learn(world.now, number, &acquired);
                }
            }
            Act::Heartbeat { who, forget_one } => {
                let Some(key) = holders[who].key else { continue };
                let mut held: Vec<LeaseId> = holders[who].beliefs.iter().map(|belief| belief.lease).collect();
                if forget_one {
                    held.pop();
                }
                let Ok(heartbeat) = world.heartbeat(key, &held) else { continue };
                for confirmed in heartbeat.leases.unwrap_or_default() {
                    for belief in holders[who].beliefs.iter_mut().filter(|belief| belief.lease == confirmed.lease) {
                        belief.until = belief.until.max(world.now + confirmed.remaining_ms);
                    }
                }
                let gone: Vec<LeaseId> = heartbeat.ended.iter().map(|ended| ended.lease).collect();
                holders[who].beliefs.retain(|belief| !gone.contains(&belief.lease));
            }
            Act::Release { who } => {
                let (Some(key), Some(belief)) = (holders[who].key, holders[who].beliefs.pop()) else { continue };
                let _ = world.release(key, belief.lease, request(belief.request));
            }
            Act::Break { domain } => {
                let Some(row) = world.holder_of(&format!("d{domain}")) else { continue };
                world.break_lease(row.lease).unwrap();
                holders.iter_mut().for_each(|holder| holder.beliefs.retain(|belief| belief.lease != row.lease));
            }
            Act::End { who } => {
                if let Some(key) = holders[who].key.take() {
                    let _ = world.end(key);
                    holders[who] = Holder::default();
                }
            }
            Act::Disconnect { who } => {
                if let Some((ticket, _)) = holders[who].waiting.take() {
                    world.leases.disconnect(ticket, fencepost_core::Moment::from_millis(world.now));
                }
            }
            Act::Pass { ms } => {
                world.at(world.now + ms);
            }
            Act::Restart { reboot, snapshot } => {
                boots += u8::from(reboot);
                let now = world.now;
                match snapshot {
                    true => world.restart_from_snapshot(boot(boots), now),
                    false => world.restart(boot(boots), now),
                }
                holders.iter_mut().for_each(|holder| holder.waiting = None);
            }
        }
        for holder in &mut holders {
            if let Some((ticket, number)) = holder.waiting
                && let Some(answer) = world.acquired_by(ticket)
            {
                holder.waiting = None;
                if let Ok(acquired) = answer {
                    holder.learn(world.now, number, &acquired);
                }
            }
        }
        nobody_believes_wrongly(&mut world, &holders);
        memory_is_what_the_disk_says(&world);
    }
    world
}

fn key(world: &mut World, holder: &mut Holder) -> Credential {
    let alive = holder.key.filter(|key| world.read(*key).is_ok());
    *holder.key.insert(alive.unwrap_or_else(|| {
        holder.beliefs.clear();
        world.open("h")
    }))
}

/// I9: whoever still believes that it holds a domain is the one that the coordinator has given it to.
fn nobody_believes_wrongly(world: &mut World, holders: &[Holder]) {
    let now = world.now;
    for holder in holders {
        for belief in holder.beliefs.iter().filter(|belief| belief.until > now) {
            let row = world.holder_of(&belief.domain);
            let known = row.is_some_and(|row| row.lease == belief.lease && row.remaining_ms >= belief.until - now);
            assert!(known, "at {now} somebody believes {belief:?}, the coordinator does not");
        }
    }
}

/// Replaying the log gives the coordinator that is running, as far as callers can see.
fn memory_is_what_the_disk_says(world: &World) {
    let mut running = world.clone();
    let mut replayed = world.clone();
    running.restart_from_snapshot(boot(1), world.now);
    replayed.restart(boot(1), world.now);
    assert_eq!(running.snapshot(), replayed.snapshot());
    let query = || {
        let filter = fencepost_core::lease::Filter::Prefix(String::new());
        Command::Query(Query::List { filter, after: None, limit: 100 })
    };
    let (a, b) = (running.send(query()), replayed.send(query()));
    assert_eq!(format!("{:?}", running.answer_to(a)), format!("{:?}", replayed.answer_to(b)));
}

/// I1 and I2, read off the records in commit order.
fn records_keep_order(records: &[Record]) {
    let mut last: Option<Token> = None;
    let mut rises = |token: Token| {
        assert!(Some(token) > last, "{token} after {last:?}");
        last = Some(token);
    };
    let mut held: BTreeMap<LeaseId, (String, fencepost_core::SessionId)> = BTreeMap::new();
    for record in records {
        match record {
            Record::Granted { lease, domain, token, session, .. } => {
                rises(*token);
                assert!(held.values().all(|(name, _)| name != domain.as_str()), "{domain} granted twice at a time");
                held.insert(*lease, (domain.as_str().to_owned(), *session));
            }
            Record::Regranted { lease, token, .. } => {
                rises(*token);
                assert!(held.contains_key(lease));
            }
            Record::LeaseBroken { lease, fence_to, .. } => {
                rises(*fence_to);
                assert!(held.remove(lease).is_some());
            }
            Record::LeaseEnded { lease, .. } => assert!(held.remove(lease).is_some(), "a lease ends once"),
            Record::SessionEnded { session, .. } => held.retain(|_, (_, owner)| owner != session),
            Record::Started { .. }
            | Record::SequenceReserved { .. }
            | Record::SessionOpened { .. }
            | Record::SecretReplaced { .. }
            | Record::SessionClaimed { .. }
            | Record::SessionHeard { .. }
            | Record::HoldAdded { .. }
            | Record::HoldEnded { .. } => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_tokens_rise_one_session_holds_and_no_holder_believes_too_long(
        acts in prop::collection::vec(act(), 1..60)
    ) {
        let world = live(acts);
        records_keep_order(&world.disk);
    }

    #[test]
    fn records_survive_their_encoding(acts in prop::collection::vec(act(), 1..30)) {
        let world = live(acts);
        let bytes = postcard::to_stdvec(&world.disk).unwrap();
        let read: Vec<Record> = postcard::from_bytes(&bytes).unwrap();
        prop_assert_eq!(format!("{read:?}"), format!("{:?}", world.disk));
        let snapshot = postcard::to_stdvec(&world.leases.snapshot()).unwrap();
        let mut copy = world.clone();
        copy.leases = fencepost_core::lease::Leases::from_snapshot(postcard::from_bytes(&snapshot).unwrap());
prop_assert_eq!(postcard::to_stdvec(&copy.leases.snapshot()).unwrap(), snapshot);
    }
}

/// The tools above must be able to fail: a belief that is one millisecond too long is found.
#[test]
#[should_panic(expected = "somebody believes")]
fn a_holder_that_believes_a_millisecond_too_long_is_found() {
    let mut world = World::new();
    let mut holder = Holder { key: Some(world.open("a")), ..Holder::default() };
    let acquired = world.acquire(holder.key.unwrap(), &want("d0", 1)).unwrap();
    holder.learn(world.now, 1, &acquired);
    holder.beliefs[0].until = TTL + 1;
    world.at(TTL);
    nobody_believes_wrongly(&mut world, &[holder]);
}
