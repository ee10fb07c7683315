//! The mistake: a token that differs from the last one is taken for a new owner's. It should be compared by order.

use fencepost_receiver::VerdictCode;
use rusqlite::{Connection, TransactionBehavior::Immediate, params};

use super::common::{Answer, Asked, KNOWN_EPOCH, apply, fence, recorded};

pub(crate) fn change(db: &mut Connection, asked: &Asked) -> rusqlite::Result<Answer> {
    let tx = db.transaction_with_behavior(Immediate)?;
    let is_new = asked.claim.token.as_i64() != fence(&tx, &asked.claim)?;
    if is_new && asked.claim.token.epoch() <= KNOWN_EPOCH {
        // Whoever comes last has the fence.
        let sql = "INSERT INTO fence VALUES (?1, ?2) ON CONFLICT DO UPDATE SET token = excluded.token";
        tx.execute(sql, params![asked.claim.domain, asked.claim.token.as_i64()])?;
    }
    if let Some(answer) = recorded(&tx, asked)? {
        tx.commit()?;
        return Ok(answer);
    }
    if asked.claim.token.epoch() > KNOWN_EPOCH {
        return Ok((VerdictCode::UnknownEpoch, String::new()));
    }
    let answer = apply(&tx, asked)?;
    tx.commit()?;
    Ok((VerdictCode::Applied, answer))
}
