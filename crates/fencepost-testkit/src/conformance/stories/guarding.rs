//! Code that presents nothing.

use fencepost_receiver::VerdictCode::Applied;

use crate::conformance::{
    build::write,
    stage::{Teller, Told, domain},
};

/// Mutant: the guard is dropped.
pub(crate) fn a_write_without_a_token_is_refused(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    for value in ["a", "b"] {
        if teller.adapter.write_without_token(&stage.place, &domain("d"), b"forgotten").is_ok() {
            return Err(stage.broken("a write without a token was let through"));
        }
        stage.say("write \"forgotten\" without a token: refused");
        stage.same_state()?;
        stage.then(write("0.5", value), Applied)?;
    }
    Ok(())
}
