//! Storage that is closed, opened, robbed and put back.

use fencepost_core::{
    Issuer,
    fence::{Rejection, Verdict},
};
use fencepost_receiver::{
    ReceiverSeed,
    VerdictCode::{Applied, OperationTooOld, Replayed, StaleToken},
};

use crate::conformance::{
    Ability,
    build::{advance, collect, live, operation, reopen, tell, token, write},
    stage::{Answer, Failure, Stage, Teller, Told, domain, of_write},
    step::{Claim, ISSUER},
};

/// Mutant: the fence is kept in memory.
pub(crate) fn fences_survive_reopening(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.done(reopen())?;
    stage.then(write("0.4", "late"), StaleToken)?;
    stage.then(advance("0.7"), Applied)?;
    stage.done(reopen())?;
    stage.then(write("0.6", "late"), StaleToken)?;
    stage.then(write("0.7", "b"), Applied)
}

/// Mutant: floor and known epoch are kept in memory.
pub(crate) fn floors_survive_reopening(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("1.1", "a"), Applied)?;
    stage.done(tell(2, "2.3"))?;
    stage.done(reopen())?;
    stage.then(write("2.2", "late"), StaleToken)?;
    stage.then(write("2.3", "b"), Applied)
}

/// Mutant: the floor of domains without a fence is kept in memory.
pub(crate) fn unfenced_floors_survive_reopening(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.done(collect("0.9", &[]))?;
    stage.done(reopen())?;
    stage.then(write("0.8", "late"), StaleToken)?;
    stage.then(write("0.9", "a"), Applied)
}

fn ask(stage: &mut Stage<'_>, text: &str, value: &str) -> Result<Answer, Failure> {
    let (d, grant) = (domain("d"), Claim::new(&domain("d"), token(text)).grant());
    let answer = of_write(stage.handle(0)?.write(&d, &grant, None, value.as_bytes()), Some);
    stage.say(format!("write {value:?} under token {text} of \"d\": {answer}"));
    Ok(answer)
}

/// Every call is answered `Closed`, and the value stays.
fn is_closed(stage: &mut Stage<'_>, reads: bool) -> Told {
    let before = stage.value(&domain("d"))?;
    for text in ["0.4", "0.7", "0.9"] {
        let answer = ask(stage, text, "must not be")?;
        if !matches!(answer, Answer::Verdict(Verdict::Rejected(Rejection::Closed(_)))) {
            return Err(stage.broken("a receiver that cannot know its fences must refuse everything: Closed"));
        }
    }
    let grant = Claim::new(&domain("d"), token("0.9")).grant();
    let advanced = stage.handle(0)?.advance(&grant);
    if !matches!(advanced, Ok(Verdict::Rejected(Rejection::Closed(_)))) {
        return Err(stage.broken(format!("an advance must be refused as Closed, not: {advanced:?}")));
    }
    if reads {
        let read = stage.handle(0)?.read(&grant);
        if !matches!(read, Ok(Verdict::Rejected(Rejection::Closed(_)))) {
            return Err(stage.broken(format!("a fenced read must be refused as Closed, not: {read:?}")));
        }
    }
    let after = stage.value(&domain("d"))?;
    if after != before {
        return Err(stage.broken("a refused write changed the value"));
    }
    Ok(())
}

fn seed() -> ReceiverSeed {
    let issuer = Issuer::new(ISSUER).expect("a name");
    let known = fencepost_core::Epoch::new(1).expect("an epoch");
    ReceiverSeed::new(issuer, known).with_snapshot(token("0.9"), vec![live("d", "0.8")])
}

/// After a recovery the live holder writes on and nobody older does.
fn recovers(stage: &mut Stage<'_>) -> Told {
    let recovered = stage.handle(0)?.recover(&seed());
    recovered.map_err(|cause| stage.broken(format!("the receiver must open again, but: {cause}")))?;
    stage.say("recover, next token 0.9, live [0.8 of \"d\"]");
    for (text, value, right) in
        [("0.5", "late", StaleToken), ("0.7", "late", StaleToken), ("0.8", "alive", Applied), ("0.9", "next", Applied)]
    {
        let answer = ask(stage, text, value)?;
        let found = match &answer {
            Answer::Verdict(verdict) => Some(fencepost_receiver::VerdictCode::of(verdict)),
            Answer::Invalid(_) | Answer::Nothing(_) | Answer::Unknown(_) | Answer::Done => None,
        };
        if found != Some(right) {
            return Err(stage.broken(format!("after the recovery the answer must be: {right}")));
        }
    }
    Ok(())
}

/// An operation that took effect before the loss has no second effect after it.
fn has_no_second_effect(stage: &mut Stage<'_>) -> Told {
    let grant = Claim::new(&domain("d"), token("0.9")).grant();
    let operation = operation("x", "x").born(token("0.5"));
    let answer = of_write(stage.handle(0)?.write(&domain("d"), &grant, Some(&operation), b"again"), Some);
    stage.say(format!("write \"again\" under token 0.9 as operation \"x\" born 0.5: {answer}"));
    match &answer {
        Answer::Verdict(verdict)
            if [OperationTooOld, Replayed].contains(&fencepost_receiver::VerdictCode::of(verdict)) =>
        {
            Ok(())
        }
        Answer::Verdict(_) | Answer::Invalid(_) | Answer::Nothing(_) | Answer::Unknown(_) | Answer::Done => {
            Err(stage.broken("the operation took effect before its record was lost: it must be replayed or too old"))
        }
    }
}

/// Ways to lose records that are tried; an adapter that always knows one more would keep the suite for ever.
const WAYS: usize = 100;

/// Mutant: missing state is a first write.
pub(crate) fn lost_records_close_the_receiver(teller: &Teller<'_>) -> Told {
    for way in 0..WAYS {
        let mut stage = teller.stage()?;
        if teller.has(Ability::OperationRecords) {
            stage.then(write("0.5", "a").operation("x").born("0.5"), Applied)?;
        }
        stage.then(write("0.7", "b"), Applied)?;
        stage.close();
        let lost = teller.adapter.lose_records(&stage.place, way);
        let lost = lost.map_err(|cause| stage.broken(format!("the records were not lost: {cause}")))?;
        let Some(lost) = lost else {
            return if way > 0 {
                Ok(())
            } else {
                Err(stage.broken("there is no way to lose records, so it lacks them"))
            };
        };
        stage.say(format!("lost: {lost}"));
        is_closed(&mut stage, teller.has(Ability::FencedRead))?;
        stage.close();
        stage.say("close every handle and open the resource again");
        is_closed(&mut stage, teller.has(Ability::FencedRead))?;
        if teller.has(Ability::Recovery) {
            recovers(&mut stage)?;
            if teller.has(Ability::OperationRecords) {
                has_no_second_effect(&mut stage)?;
            }
        }
    }
    Err(teller.stage()?.broken(format!("it knows more than {WAYS} ways to lose records: `None` is the end of them")))
}

/// Mutant: a copied-back resource is taken for itself, and tokens that were shut out after the backup write again.
pub(crate) fn a_restored_backup_closes_the_receiver(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.close();
    let kept = teller.adapter.back_up(&stage.place);
    kept.map_err(|cause| stage.broken(format!("no backup was made: {cause}")))?;
    stage.say("back up");
    stage.then(write("0.7", "b"), Applied)?;
    stage.close();
    let restored = teller.adapter.restore(&stage.place);
    restored.map_err(|cause| stage.broken(format!("the backup was not restored: {cause}")))?;
    stage.say("restore the backup");
    is_closed(&mut stage, teller.has(Ability::FencedRead))?;
    if teller.has(Ability::Recovery) {
        recovers(&mut stage)?;
    }
    Ok(())
}
