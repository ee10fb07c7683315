//! The mistake: the token is compared before the operation is looked for, so that an owner who has lost the lease and
//! only the answer is told that its write never happened.

use fencepost_receiver::VerdictCode;
use rusqlite::{Connection, TransactionBehavior::Immediate};

use super::common::{Answer, Asked, KNOWN_EPOCH, apply, fence, raise, recorded};

pub(crate) fn change(db: &mut Connection, asked: &Asked) -> rusqlite::Result<Answer> {
    let tx = db.transaction_with_behavior(Immediate)?;
    if asked.claim.token.epoch() > KNOWN_EPOCH {
        return Ok((VerdictCode::UnknownEpoch, String::new()));
    }
    if asked.claim.token.as_i64() < fence(&tx, &asked.claim)? {
        return Ok((VerdictCode::StaleToken, String::new()));
    }
    raise(&tx, &asked.claim)?;
    let answer = match recorded(&tx, asked)? {
        Some((VerdictCode::Replayed, answer)) => (VerdictCode::Replayed, answer),
        Some(conflict) => return Ok(conflict),
        None => (VerdictCode::Applied, apply(&tx, asked)?),
    };
    tx.commit()?;
    Ok(answer)
}
