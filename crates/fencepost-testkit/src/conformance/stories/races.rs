//! Several threads at once, each with a handle of its own.
//!
//! What is looked at is what anybody can see: answers, and values read without a token. After a write was answered
//! `Applied`, nobody sees a value of an older token again.

use std::{
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use fencepost_core::{
    Domain, Token,
    fence::{LiveLease, Rejection, Verdict},
};
use fencepost_receiver::AdvanceError;

use crate::conformance::{
    Handle, Written,
    build::{self, operation, token},
    stage::{Failure, Stage, Teller, Told, domain},
    step::Claim,
};

/// How often a call is made again that says that nothing happened, or that the operation is still running.
const PATIENCE: usize = 1_000;

/// A value that tells which token wrote it.
fn marked(token: Token, what: impl std::fmt::Display) -> Vec<u8> {
    format!("{}:{what}", token.as_u64()).into_bytes()
}

pub(in crate::conformance) fn mark(value: Option<&[u8]>) -> u64 {
    let text = value.map(String::from_utf8_lossy).unwrap_or_default();
    text.split(':').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// What went wrong in a thread, for all of them.
#[derive(Default)]
struct Wrong(Mutex<Vec<String>>);

impl Wrong {
    fn say(&self, what: String) {
        self.0.lock().expect("nobody panics while it holds this").push(what);
    }

    fn told(self, stage: &mut Stage<'_>) -> Told {
        let mut wrong = self.0.into_inner().expect("nobody panics while it holds this").into_iter();
        match wrong.next() {
            None => Ok(()),
            Some(first) => {
                wrong.take(9).for_each(|more| stage.say(format!("also: {more}")));
                Err(stage.broken(first))
            }
        }
    }
}

/// Writes until there is a verdict.
pub(in crate::conformance) fn settled(mut write: impl FnMut() -> Written) -> Result<Verdict<Vec<u8>>, String> {
    for _ in 0..PATIENCE {
        match write() {
            Ok(Verdict::Rejected(Rejection::OperationInProgress)) => thread::yield_now(),
            Ok(verdict) => return Ok(verdict),
            Err(error) if error.retryable() => thread::yield_now(),
            Err(error) => return Err(format!("a write under load had no verdict: {error}")),
        }
    }
    Err(format!("a write had no verdict after {PATIENCE} attempts"))
}

fn advanced(handle: &mut dyn Handle, claim: &Claim) -> Result<Verdict<()>, String> {
    for _ in 0..PATIENCE {
        match handle.advance(&claim.grant()) {
            Err(AdvanceError::Unavailable(_) | AdvanceError::Unknown(_)) => thread::yield_now(),
            Ok(verdict) => return Ok(verdict),
            Err(error @ AdvanceError::Invalid(_)) => return Err(format!("an advance had no verdict: {error}")),
        }
    }
    Err(format!("an advance had no verdict after {PATIENCE} attempts"))
}

fn opened(stage: &mut Stage<'_>, count: usize) -> Result<Vec<Box<dyn Handle>>, Failure> {
    (0..count).map(|_| stage.open_one_more()).collect()
}

fn number(text: u64) -> Token {
    Token::from_integer(text).expect("a small number is a token")
}

/// Mutant: the fence is checked before the transaction and not in it.
pub(crate) fn owners_who_write_at_once_leave_the_newest_value(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let d = domain("d");
    let mut handles = opened(&mut stage, teller.settings.threads)?;
    for round in 0..teller.settings.rounds as u64 {
        let first = 1 + round * handles.len() as u64;
        stage.say(format!("round {round}: {} owners write at once, with tokens from 0.{first} on", handles.len()));
        let (wrong, start, newest) = (Wrong::default(), Barrier::new(handles.len()), first + handles.len() as u64 - 1);
        thread::scope(|scope| {
            for (handle, own) in handles.iter_mut().zip(first..) {
                let (wrong, start, d) = (&wrong, &start, &d);
                scope.spawn(move || {
                    start.wait();
                    if let Err(what) = write_and_look(handle.as_mut(), d, number(own), own == newest) {
                        wrong.say(what);
                    }
                });
            }
        });
        wrong.told(&mut stage)?;
        let left = stage.value(&d)?;
        if mark(left.as_deref()) != newest {
            let left = number(mark(left.as_deref()).max(1));
            return Err(stage.broken(format!("the newest token has written, and the value is that of token {left}")));
        }
    }
    Ok(())
}

/// One write: whoever comes late with an older token would have the last word.
fn write_and_look(handle: &mut dyn Handle, d: &Domain, own: Token, newest: bool) -> Result<(), String> {
    let grant = Claim::new(d, own).grant();
    match settled(|| handle.write(d, &grant, None, &marked(own, "once")))? {
        Verdict::Applied(_) => {}
        Verdict::Rejected(Rejection::Stale { .. }) if !newest => return Ok(()),
        verdict => return Err(format!("token {own} was answered {verdict:?}")),
    }
    let seen = handle.value(d).map_err(|cause| format!("the value could not be read: {cause}"))?;
    let seen = mark(seen.as_deref());
    if seen < own.as_u64() {
        return Err(format!("after {own} was applied, the value of the older token {} was seen", number(seen.max(1))));
    }
    Ok(())
}

/// Mutants: effect and record are two commits; the records are looked at before the transaction.
pub(crate) fn one_operation_asked_for_at_once_happens_once(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let d = domain("d");
    let mut handles = opened(&mut stage, teller.settings.threads)?;
    for round in 0..teller.settings.rounds as u64 {
        let id = format!("x{round}");
        stage.say(format!("round {round}: {} owners ask at once for operation {id:?}", handles.len()));
        let answers = asked_at_once(&mut handles, |handle, nth| {
            // Two owners, so that a retry comes under an equal, an older and a newer token.
            let claim = Claim::new(&d, number(1 + 2 * round + (nth % 2) as u64));
            settled(|| handle.write(&d, &claim.grant(), Some(&operation(&id, "same")), &marked(claim.token, nth)))
        });
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>().map_err(|what| stage.broken(what))?;
        let applied: Vec<_> = answers.iter().filter(|answer| matches!(answer, Verdict::Applied(_))).collect();
        let [Verdict::Applied(result)] = applied[..] else {
            return Err(stage.broken(format!("the operation was applied {} times", applied.len())));
        };
        for answer in &answers {
            match answer {
                Verdict::Applied(found) | Verdict::Replayed(found) if found == result => {}
                other => return Err(stage.broken(format!("every other owner must get the same result, not {other:?}"))),
            }
        }
    }
    Ok(())
}

/// Mutant: the fingerprint is compared before the transaction.
pub(crate) fn two_requests_under_one_id_at_once_are_one_and_a_conflict(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let d = domain("d");
    let mut handles = opened(&mut stage, teller.settings.threads)?;
    let own = token("0.5");
    for round in 0..teller.settings.rounds {
        let id = format!("x{round}");
        stage.say(format!("round {round}: {} requests at once under the id {id:?}", handles.len()));
        let answers = asked_at_once(&mut handles, |handle, nth| {
            let operation = operation(&id, &format!("request {nth}"));
            settled(|| {
                handle.write(&d, &Claim::new(&d, own).grant(), Some(&operation), format!("{id} {nth}").as_bytes())
            })
        });
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>().map_err(|what| stage.broken(what))?;
        let mut applied = None;
        for (nth, answer) in answers.iter().enumerate() {
            match answer {
                Verdict::Applied(_) if applied.is_none() => applied = Some(nth),
                Verdict::Applied(_) => return Err(stage.broken("two requests were applied under one id")),
                Verdict::Rejected(Rejection::OperationConflict) => {}
                other => return Err(stage.broken(format!("the other requests must be a conflict, not {other:?}"))),
            }
        }
        let Some(nth) = applied else { return Err(stage.broken("none of the requests was applied")) };
        if stage.value(&d)? != Some(format!("{id} {nth}").into_bytes()) {
            return Err(stage.broken("the value is not that of the request that was applied"));
        }
    }
    Ok(())
}

fn asked_at_once<T: Send>(handles: &mut [Box<dyn Handle>], ask: impl Fn(&mut dyn Handle, usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(handles.len());
    thread::scope(|scope| {
        let threads: Vec<_> = handles
            .iter_mut()
            .enumerate()
            .map(|(nth, handle)| {
                let (ask, start) = (&ask, &start);
                scope.spawn(move || {
                    start.wait();
                    ask(handle.as_mut(), nth)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// The promise of `FencedOnAcquire`. Mutants: an advance that does nothing, or that another owner's lowers.
pub(crate) fn a_value_read_after_the_advance_loses_no_update(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let d = domain("d");
    let (next, applied, wrong) = (AtomicU64::new(1), AtomicU64::new(0), Wrong::default());
    let mut handles = opened(&mut stage, teller.settings.threads)?;
    let (rounds, count) = (teller.settings.rounds, handles.len());
    stage.say(format!(
        "{count} owners, {rounds} times each: a greater token, advance, read the number, write it plus one"
    ));
    let own_turn = |handle: &mut dyn Handle| -> Result<(), String> {
        let claim = Claim::new(&d, number(next.fetch_add(1, Ordering::AcqRel)));
        if let Verdict::Rejected(_) = advanced(handle, &claim)? {
            return Ok(());
        }
        let read = handle.value(&d).map_err(|cause| format!("the value could not be read: {cause}"))?;
        let more = (mark(read.as_deref()) + 1).to_string();
        match settled(|| handle.write(&d, &claim.grant(), None, more.as_bytes()))? {
            Verdict::Applied(_) => {
                applied.fetch_add(1, Ordering::AcqRel);
            }
            Verdict::Rejected(Rejection::Stale { .. }) => {}
            verdict => return Err(format!("token {} was answered {verdict:?}", claim.token)),
        }
        Ok(())
    };
    thread::scope(|scope| {
        for handle in &mut handles {
            let (own_turn, wrong) = (&own_turn, &wrong);
            scope.spawn(move || {
                for _ in 0..rounds {
                    if let Err(what) = own_turn(handle.as_mut()) {
                        wrong.say(what);
                    }
                }
            });
        }
    });
    // Nobody is in the way of this one, so at least one update is applied.
    if let Err(what) = own_turn(handles[0].as_mut()) {
        wrong.say(what);
    }
    wrong.told(&mut stage)?;
    let (applied, left) = (applied.into_inner(), mark(stage.value(&d)?.as_deref()));
    if left != applied {
        return Err(stage.broken(format!("{applied} updates were applied, and the number is {left}")));
    }
    Ok(())
}

/// Mutants: fence and floor are read apart; the collector works outside of the lock.
pub(crate) fn a_collection_beside_writers_lets_nobody_old_in_and_shuts_nobody_out(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let (d, rounds) = (domain("d"), teller.settings.rounds);
    let live = [LiveLease { domain: d.clone(), token: token("0.10") }];
    stage.done(build::collect("0.11", &live))?;
    stage.say(format!("{rounds} collections, and all the while writes under the live token 0.10 and under token 0.5"));
    let (done, wrong) = (AtomicBool::new(false), Wrong::default());
    let mut handles = opened(&mut stage, 3)?;
    let [collector, owner, late] = &mut handles[..] else { unreachable!("three were opened") };
    let writes_until_done = |handle: &mut dyn Handle, text: &str| {
        let (claim, mut written) = (Claim::new(&d, token(text)), 0);
        while !done.load(Ordering::Acquire) {
            written += 1;
            match (settled(|| handle.write(&d, &claim.grant(), None, &marked(claim.token, written))), text) {
                (Ok(Verdict::Applied(_)), "0.10") | (Ok(Verdict::Rejected(Rejection::Stale { .. })), "0.5") => {}
                (Ok(verdict), _) => return wrong.say(format!("token {text} was answered {verdict:?}")),
                (Err(what), _) => return wrong.say(what),
            }
        }
    };
    thread::scope(|scope| {
        let writes_until_done = &writes_until_done;
        scope.spawn(move || writes_until_done(owner.as_mut(), "0.10"));
        scope.spawn(move || writes_until_done(late.as_mut(), "0.5"));
        for _ in 0..rounds {
            if let Err(cause) = collector.collect(token("0.11"), &live, None) {
                wrong.say(format!("a collection beside writers failed: {cause}"));
                break;
            }
        }
        done.store(true, Ordering::Release);
    });
    wrong.told(&mut stage)
}
