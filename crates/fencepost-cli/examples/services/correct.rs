//! Correct: the operation is looked for, the token compared, the account changed, the operation recorded and the fence
//! raised in one transaction that has the write lock before it reads anything.

use fencepost_receiver::VerdictCode;
use rusqlite::{Connection, TransactionBehavior::Immediate};

use super::common::{Answer, Asked, KNOWN_EPOCH, apply, fence, raise, recorded};

pub(crate) fn change(db: &mut Connection, asked: &Asked) -> rusqlite::Result<Answer> {
    let tx = db.transaction_with_behavior(Immediate)?;
    let is_known = asked.claim.token.epoch() <= KNOWN_EPOCH;
    // First: what has happened has happened, however old the token is by now.
    if let Some(answer) = recorded(&tx, asked)? {
        if answer.0 == VerdictCode::Replayed && is_known {
            raise(&tx, &asked.claim)?;
            tx.commit()?;
        }
        return Ok(answer);
    }
    if !is_known {
        return Ok((VerdictCode::UnknownEpoch, String::new()));
    }
    if asked.claim.token.as_i64() < fence(&tx, &asked.claim)? {
        return Ok((VerdictCode::StaleToken, String::new()));
    }
    raise(&tx, &asked.claim)?;
    let answer = apply(&tx, asked)?;
    tx.commit()?;
    Ok((VerdictCode::Applied, answer))
}
