use fencepost_coordinator::{Coordinator, HistoryQuery};
use fencepost_core::{
    Contract, Domain,
    lease::{Filter, LeaseView, ReservedKind},
};
use fencepost_wire::{HistoryItem, LeaseItem, QueueItem, QueueList};

use super::{Asking, Explained, token_words};
use crate::{
    command::history::about,
    coordinator::{break_line, wait_for},
    duration::{readable, readable_left},
    failure::Failure,
    shell,
};

/// Most waiters, and most entries of the history, that are looked at.
const ROWS: usize = 10;

pub(super) async fn explain(asking: &Asking, domain: &Domain) -> Result<Explained, Failure> {
    let coordinator = &asking.coordinator;
    let page = coordinator.list(Filter::Domain(domain.clone()), None, 1).await;
    let lease = page.map_err(|error| asking.failed(error))?.rows.pop();
    let queue = coordinator.queue(domain, ROWS).await.map_err(|error| asking.failed(error))?;
    let query = HistoryQuery { filter: Filter::Domain(domain.clone()), token: None, before: None, limit: ROWS };
    let history = coordinator.history(&query).await.map_err(|error| asking.failed(error))?;
    let head = asking.head().await.map_err(|error| asking.failed(error))?;

    let option = asking.url.option();
    let line = |command: &str, options: &str| shell::line(command, &[domain.as_str()], &format!("{options}{option}"));
    let mut explained = Explained::new(domain.as_str());
    explained.fact("domain", domain);
    explained.fact("lease", lease.clone().map(LeaseItem::from));
    explained.fact("queue", &queue);
    explained.fact("history", &history.items);
    explained.fact("issuer", &head.issuer);
    explained.fact("epoch", head.epoch);
    match (&lease, queue.reserved) {
        (Some(lease), _) => {
            explained.fact("state", "held");
            held(&mut explained, lease, &history.items);
        }
        (None, Some(kind)) => {
            explained.fact("state", "reserved");
            reserved(&mut explained, kind, queue.remaining_ms.unwrap_or_default(), &history.items);
        }
        (None, None) => {
            explained.fact("state", if history.items.is_empty() { "unknown" } else { "free" });
            free(&mut explained, domain, &history.items);
        }
    }
    waiters(&mut explained, &queue);
    match &lease {
        Some(lease) => {
            explained.then(line("fencepost acquire", " --wait 60s"));
            explained.then(break_line(domain, lease.lease, &option));
        }
        None => match queue.remaining_ms {
            Some(ms) => match wait_for(ms) {
                Some(wait) => explained.then(line("fencepost acquire", &format!(" --wait {wait}"))),
                None => explained.then(line("fencepost show", "")),
            },
            None => explained.then(line("fencepost acquire", "")),
        },
    }
    if history.items.is_empty() {
        explained.then(format!("fencepost ls --all{option}"));
    } else {
        explained.then(line("fencepost history", ""));
    }
    Ok(explained)
}

fn held(explained: &mut Explained, lease: &LeaseView, history: &[HistoryItem]) {
    let granted = history.iter().find(|item| item.event == "granted" && item.lease.lease == lease.lease);
    let at = granted.and_then(|item| item.at.as_deref()).map(|at| format!(" (granted at {at})")).unwrap_or_default();
    explained.say(format!(
        "{} holds it for {} now{at}, under contract {}. Unless it is renewed it ends in {}; then the next in line gets it.",
        lease.holder,
        readable(lease.held_ms),
        lease.contract,
        readable_left(lease.remaining_ms)
    ));
    match (lease.contract, lease.token) {
        (Contract::Safety, Some(token)) => {
            explained.say(token_words(token));
            explained.say(format!(
                "A receiver whose fence stands at {token} rejects every smaller token as `stale`: that write was of \
                 somebody whose lease is over, and nothing was changed."
            ));
            explained.say(format!(
                "Should a write under {token} itself be rejected as `stale`, a greater token has been there: then this \
                 lease is lost whatever its holder believes, and it has to acquire anew."
            ));
        }
        (Contract::Safety | Contract::Admission, _) => explained.say(
            "It has no token: contract admission decides who may start, and no receiver accepts its correlation string.",
        ),
        (Contract::Advisory, _) => explained
            .say("It has no token: contract advisory is an optimisation, and two holders at once must be harmless."),
    }
}

fn reserved(explained: &mut Explained, kind: ReservedKind, ms: u64, history: &[HistoryItem]) {
    let why = match kind {
        ReservedKind::MinHold => "its last lease asked for a least holding time, counted from its grant (min_hold)",
        ReservedKind::LockDelay => "its last lease ended uncleanly and had asked for a delay after that (lock_delay)",
    };
    explained.say(format!("Nobody holds it, and nobody may for {} more: {why}.", readable_left(ms)));
    before(explained, history);
}

fn free(explained: &mut Explained, domain: &Domain, history: &[HistoryItem]) {
    explained.say("Nobody holds it; the next acquire gets it at once, with a greater token than any before.");
    if history.is_empty() {
        explained.say(format!(
            "Nothing is remembered of {domain}: it was never acquired at this coordinator, or long ago. Names are \
             compared byte by byte, so a letter of another case is another domain."
        ));
    } else {
        before(explained, history);
    }
}

/// How it was held last.
fn before(explained: &mut Explained, history: &[HistoryItem]) {
    let Some(last) = history.iter().find(|item| item.event != "granted") else { return };
    let at = last.at.as_deref().unwrap_or("an unknown time");
    let token = last.lease.token.map_or_else(String::new, |token| format!(" under token {token}"));
    explained.say(format!(
        "{} had it last{token}. That lease ended at {at}: {}, {}.",
        last.lease.holder,
        last.event,
        about(last)
    ));
    match last.event.as_str() {
        "released" => explained.say("That was a clean end: its holder gave it back."),
        "expired" => explained.say(
            "It was not renewed in time. Its holder may still be in the middle of a write: a receiver refuses that once \
             a greater token has been there, at the latest with the next acquire that advances it.",
        ),
        "revoked" => explained.say(match last.lease.fence_to {
            Some(token) => format!(
                "An operator took it away. Receivers whose fence was raised to the burned token {token} refuse its \
                 holder's writes already."
            ),
            None => "An operator took it away.".to_owned(),
        }),
        _ => explained.say("The coordinator was recovered; leases from before are over."),
    }
}

fn waiters(explained: &mut Explained, queue: &QueueList) {
    if queue.items.is_empty() {
        return explained.say("Nobody waits for it.");
    }
    let one = |item: &QueueItem| {
        let there = if item.connected { "" } else { ", without a connection and passed over" };
        format!("{} for {}{there}", item.holder, readable(item.waited_ms))
    };
    let rest = u64::from(queue.waiting).saturating_sub(queue.items.len() as u64);
    let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    let list: Vec<String> = queue.items.iter().map(one).collect();
    explained.say(format!("{} wait, the first in line first: {}{rest}.", queue.waiting, list.join("; ")));
}
