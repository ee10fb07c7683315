//! The mistake: the highest token is kept in the process, and every restart forgets it. Everything else is as it should
//! be, and nothing shows until the first restart.

use std::{collections::HashMap, sync::Mutex};

use fencepost_core::Token;
use fencepost_receiver::VerdictCode;
use rusqlite::{Connection, TransactionBehavior::Immediate};

use super::common::{Answer, Asked, KNOWN_EPOCH, apply, recorded};

static FENCES: Mutex<Option<HashMap<String, Token>>> = Mutex::new(None);

pub(crate) fn change(db: &mut Connection, asked: &Asked) -> rusqlite::Result<Answer> {
    let tx = db.transaction_with_behavior(Immediate)?;
    let mut fences = FENCES.lock().expect("no request panics");
    let fences = fences.get_or_insert_default();
    let is_known = asked.claim.token.epoch() <= KNOWN_EPOCH;
    let is_stale = fences.get(&asked.claim.domain).is_some_and(|fence| asked.claim.token < *fence);
    if let Some(answer) = recorded(&tx, asked)? {
        if answer.0 == VerdictCode::Replayed && is_known && !is_stale {
            fences.insert(asked.claim.domain.clone(), asked.claim.token);
        }
        return Ok(answer);
    }
    if !is_known {
        return Ok((VerdictCode::UnknownEpoch, String::new()));
    }
    if is_stale {
        return Ok((VerdictCode::StaleToken, String::new()));
    }
    let answer = apply(&tx, asked)?;
    tx.commit()?;
    fences.insert(asked.claim.domain.clone(), asked.claim.token);
    Ok((VerdictCode::Applied, answer))
}
