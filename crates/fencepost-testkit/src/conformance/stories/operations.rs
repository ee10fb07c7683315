//! Effects that happen once.

use fencepost_core::{Epoch, fence::Verdict};
use fencepost_receiver::{
    VerdictCode::{Applied, Malformed, OperationConflict, Replayed, StaleToken, UnknownEpoch, WrongIssuer},
    WriteError,
};

use crate::conformance::{
    build::{advance, operation, reopen, token, write},
    stage::{Teller, Told, domain},
    step::{Claim, shown},
};

/// Mutant: operations are not recorded, or forgotten when the resource is closed.
pub(crate) fn a_retry_is_replayed_and_runs_nothing(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a").operation("x"), Applied)?;
    stage.then(write("0.5", "b"), Applied)?;
    stage.then(write("0.5", "a").operation("x"), Replayed)?;
    stage.then(write("0.5", "a").operation("x").through_another_handle(), Replayed)?;
    stage.done(reopen())?;
    stage.then(write("0.5", "a").operation("x"), Replayed)
}

/// Mutant: staleness is checked before the records. `Stale` would lie: the effect has happened.
pub(crate) fn a_retry_is_replayed_to_the_next_owner_and_to_the_last(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a").operation("x"), Applied)?;
    stage.then(write("0.6", "a").operation("x"), Replayed)?;
    stage.then(write("0.6", "b"), Applied)?;
    stage.then(write("0.5", "a").operation("x"), Replayed)?;
    stage.then(write("0.5", "late"), StaleToken)?;
    stage.then(write("2.1", "a").operation("x"), Replayed)?;
    stage.then(write("2.1", "too early"), UnknownEpoch)
}

/// Mutant: `Replayed` does not raise, so that the owner before can write after the new owner has been told.
pub(crate) fn a_replay_raises_the_fence(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a").operation("x"), Applied)?;
    stage.then(write("0.6", "a").operation("x"), Replayed)?;
    stage.then(write("0.5", "late"), StaleToken)
}

/// Mutant: a replay sets the fence to whatever was presented.
pub(crate) fn a_replay_under_a_stale_token_lowers_nothing(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a").operation("x"), Applied)?;
    stage.then(advance("0.8"), Applied)?;
    stage.then(write("0.5", "a").operation("x"), Replayed)?;
    stage.then(write("0.7", "late"), StaleToken)?;
    stage.then(write("2.1", "a").operation("x"), Replayed)?;
    stage.then(write("0.8", "b"), Applied)
}

/// Mutants: the fingerprint is not looked at; a conflict raises the fence.
pub(crate) fn one_id_for_two_requests_is_refused(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a").operation("x").request("pay 5"), Applied)?;
    stage.then(write("0.5", "b").operation("x").request("pay 6"), OperationConflict)?;
    stage.then(write("0.9", "b").operation("x").request("pay 6"), OperationConflict)?;
    stage.then(write("0.4", "b").operation("x").request("pay 6"), OperationConflict)?;
    stage.then(write("0.5", "a").operation("x").request("pay 5"), Replayed)?;
    stage.then(write("0.6", "b"), Applied)
}

/// Mutant: the operation is recorded before it is decided.
pub(crate) fn a_refused_operation_is_not_recorded(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(advance("0.7"), Applied)?;
    stage.then(write("0.6", "a").operation("x"), StaleToken)?;
    stage.then(write("0.9", "a").operation("x").issued_by("other"), WrongIssuer)?;
    stage.then(write("0.7", "b").operation("x").request("another"), Applied)
}

/// Mutant: records without their domain.
pub(crate) fn one_id_in_two_domains_is_two_operations(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage_with(Epoch::ZERO, &[domain("d"), domain("e")])?;
    stage.then(write("0.5", "a").operation("x"), Applied)?;
    stage.then(write("0.5", "b").operation("x").of("e"), Applied)?;
    stage.then(write("0.5", "a").operation("x"), Replayed)?;
    stage.then(write("0.5", "b").operation("x").of("e"), Replayed)
}

/// Mutant: a result that is the same for every operation.
pub(crate) fn each_operation_has_its_own_result(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let large = "x".repeat(fencepost_core::limits::RESULT_BYTES);
    let grant = Claim::new(&domain("d"), token("0.5")).grant();
    let mut results = Vec::new();
    for (id, value) in [("x", "first"), ("y", "second"), ("z", &large)] {
        let step = write("0.5", value).operation(id);
        stage.then(step, Applied)?;
        let named = operation(id, id);
        let replay = stage.handle(0)?.write(&domain("d"), &grant, Some(&named), value.as_bytes());
        match replay {
            Ok(Verdict::Replayed(result)) if !results.contains(&result) => results.push(result),
            Ok(Verdict::Replayed(result)) => {
                let broke = format!("two operations have the result {}", shown(&result));
                return Err(stage.broken(broke));
            }
            Ok(verdict) => return Err(stage.broken(format!("a retry of {id} must be replayed, not {verdict:?}"))),
            Err(error) => return Err(stage.broken(format!("a retry of {id} must be replayed, not an error: {error}"))),
        }
    }
    Ok(())
}

/// Mutant: `born` is taken as it comes.
pub(crate) fn an_operation_born_after_the_presented_token_is_invalid(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a").operation("x").born("0.6"), Malformed)?;
    stage.then(write("0.5", "a").operation("x").born("0.5"), Applied)?;
    stage.then(write("0.6", "a").operation("x").born("0.5"), Replayed)
}

/// Mutant: record and effect are two commits.
pub(crate) fn a_lost_answer_is_settled_by_a_retry(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let step = write("0.5", "a").operation("x");
    let grant = Claim::new(&domain("d"), token("0.5")).grant();
    let operation = operation("x", "x");
    match stage.handle(0)?.write_and_lose_the_answer(&grant, &operation, b"a") {
        Err(WriteError::Unknown { operation: Some(id), .. }) if id == operation.id => {}
        Err(error) => {
            return Err(
                stage.broken(format!("a lost answer must be the error Unknown with the operation, not: {error}"))
            );
        }
        Ok(verdict) => return Err(stage.broken(format!("the answer was to be lost, and was {verdict:?}"))),
    }
    stage.say(format!("{step}: the answer was lost"));
    // The effect has happened, so the reference has it too.
    let _ = stage.reference.ask(&step.ask);
    stage.same_state()?;
    stage.then(step, Replayed)?;
    stage.then(write("0.6", "b"), Applied)?;
    stage.then(write("0.6", "a").operation("x"), Replayed)
}

/// Mutants: the value, or the record, is committed although the mutation failed.
pub(crate) fn a_mutation_that_fails_leaves_nothing_behind(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    let grant = Claim::new(&domain("d"), token("0.6")).grant();
    let operation = operation("x", "x");
    for named in [None, Some(&operation)] {
        match stage.handle(0)?.write_then_fail(&grant, named, b"half") {
            Err(WriteError::Mutation(_)) => {
                stage.say("write \"half\" under token 0.6 of \"d\" by a mutation that fails")
            }
            Err(error) => {
                return Err(stage.broken(format!("a failed mutation must be the error Mutation, not: {error}")));
            }
            Ok(verdict) => return Err(stage.broken(format!("the mutation failed, and the verdict was {verdict:?}"))),
        }
        stage.same_state()?;
    }
    if teller.has(crate::conformance::Ability::OperationRecords) {
        stage.then(write("0.6", "b").operation("x"), Applied)?;
    }
    stage.then(write("0.6", "c"), Applied)
}
