//! What is forgotten, and what must not come back by it.

use fencepost_receiver::VerdictCode::{Applied, OperationTooOld, Replayed, StaleToken};

use crate::conformance::{
    build::{advance, collect, live, reopen, write},
    stage::{Teller, Told},
};

/// Mutant: live leases are not given their fence, so that whoever has not written yet is refused.
pub(crate) fn a_live_holder_who_has_not_written_yet_survives_a_collection(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.done(collect("0.9", &[live("d", "0.5")]))?;
    stage.then(write("0.4", "late"), StaleToken)?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.done(collect("0.9", &[live("d", "0.5")]))?;
    stage.then(write("0.5", "b"), Applied)
}

/// Mutant: fences are removed and the unfenced floor is not raised.
pub(crate) fn a_collected_fence_lets_no_older_token_in(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.then(advance("0.7"), Applied)?;
    stage.done(collect("0.9", &[]))?;
    stage.then(write("0.5", "late"), StaleToken)?;
    stage.then(write("0.7", "its lease had ended"), StaleToken)?;
    stage.then(write("0.8", "late"), StaleToken)?;
    stage.done(reopen())?;
    stage.then(advance("0.8"), StaleToken)?;
    stage.then(write("0.9", "b"), Applied)
}

/// Mutants: live leases are inserted unchecked, so that an older fence replaces a newer one; the floor is set, not raised.
pub(crate) fn a_late_collection_lets_no_older_token_in(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.7", "a"), Applied)?;
    stage.done(collect("0.6", &[live("d", "0.5")]))?;
    stage.then(write("0.5", "late"), StaleToken)?;
    stage.then(write("0.6", "late"), StaleToken)?;
    stage.then(write("0.7", "b"), Applied)?;
    stage.done(collect("0.9", &[]))?;
    stage.done(collect("0.6", &[]))?;
    stage.then(write("0.8", "late"), StaleToken)?;
    stage.then(write("0.9", "c"), Applied)
}

/// Mutant: records go without a horizon, and the owner who retries has a second effect.
pub(crate) fn an_operation_whose_record_was_collected_is_too_old(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a").operation("x").born("0.5"), Applied)?;
    stage.then(write("0.8", "b").operation("y").born("0.7"), Applied)?;
    stage.done(collect("0.9", &[live("d", "0.8")]).horizon("0.7"))?;
    stage.then(write("0.8", "a").operation("x").born("0.5"), OperationTooOld)?;
    stage.then(write("0.5", "a").operation("x").born("0.5"), OperationTooOld)?;
    stage.then(write("0.8", "b").operation("y").born("0.7"), Replayed)?;
    stage.done(collect("0.9", &[live("d", "0.8")]).horizon("0.2"))?;
    stage.done(reopen())?;
    stage.then(write("0.8", "a").operation("x").born("0.5"), OperationTooOld)
}
