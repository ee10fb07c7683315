use fencepost_coordinator::{CallError, Coordinator, HistoryQuery, Refused};
use fencepost_core::{
    Domain, Token,
    lease::{Filter, LiveSnapshot},
};
use fencepost_wire::HistoryItem;

use super::{Asking, Explained, receiver::Asked, token_words};
use crate::{command::history::about, failure::Failure, shell};

/// What the coordinator knows of a token.
struct Known {
    head: LiveSnapshot,
    entries: Vec<HistoryItem>,
    domain: Option<Domain>,
    current: bool,
}

pub(super) async fn explain(
    asking: &Asking,
    token: Token,
    domain: Option<Domain>,
    receiver: Option<Asked>,
) -> Result<Explained, Failure> {
    let mut explained = Explained::new(format!("token {token}"));
    explained.fact("token", token);
    explained.fact("epoch", token.epoch());
    explained.fact("sequence", token.sequence());
    explained.say(token_words(token));
    let known = match (known(asking, token, domain.clone()).await, &receiver) {
        (Ok(known), _) => Some(known),
        (Err(error), None) => return Err(asking.failed(error)),
        // A receiver decides without asking anybody, and so can be explained without.
        (Err(error), Some(_)) => {
            explained.say(format!("The coordinator at {} is left out: {error}.", asking.url.url));
            None
        }
    };
    if let Some(known) = &known {
        tell(&mut explained, asking, token, known);
    }
    if let Some(receiver) = receiver {
        let domain = domain.or_else(|| known.as_ref().and_then(|known| known.domain.clone()));
        let issuer = known.as_ref().map(|known| known.head.issuer.clone());
        receiver.explain(&mut explained, token, domain, issuer)?;
    }
    Ok(explained)
}

async fn known(asking: &Asking, token: Token, domain: Option<Domain>) -> Result<Known, CallError<Refused>> {
    let coordinator = &asking.coordinator;
    let filter = domain.clone().map_or_else(|| Filter::Prefix(String::new()), Filter::Domain);
    let query = HistoryQuery { filter, token: Some(token), before: None, limit: 10 };
    let entries = coordinator.history(&query).await?.items;
    let told = entries.first().map(|item| item.lease.domain.clone());
    let (head, domain) = match domain.or(told) {
        Some(domain) => (asking.head().await?, Some(domain)),
        // Only the list of all can tell whether a token that nothing is remembered of is somebody's.
        None => {
            let all = coordinator.snapshot(String::new()).await?;
            let live = all.leases.iter().find(|lease| lease.token == token).map(|lease| lease.domain.clone());
            (all, live)
        }
    };
    let current = match &domain {
        Some(domain) => coordinator.check(domain.clone(), token).await?,
        None => false,
    };
    Ok(Known { head, entries, domain, current })
}

fn tell(explained: &mut Explained, asking: &Asking, token: Token, known: &Known) {
    let option = asking.url.option();
    explained.fact("current", known.current);
    explained.fact("domain", &known.domain);
    explained.fact("history", &known.entries);
    explained.fact("issuer", &known.head.issuer);
    explained.fact("next_token", known.head.next_token);
    for item in known.entries.iter().rev() {
        let at = item.at.as_deref().unwrap_or("an unknown time");
        let lease = &item.lease;
        if lease.fence_to == Some(token) {
            explained.say(format!(
                "It was burned at {at} when the lease {} on {} was taken from {}: nobody was ever granted it, and a \
                 fence that stands at it refuses that holder.",
                lease.lease, lease.domain, lease.holder
            ));
        } else if item.event == "granted" {
            explained.say(format!(
                "It was granted at {at} on {} to {} (lease {}).",
                lease.domain, lease.holder, lease.lease
            ));
        } else {
            explained.say(format!("Its lease on {} ended at {at}: {}, {}.", lease.domain, item.event, about(item)));
        }
    }
    match (&known.domain, known.current) {
        (Some(domain), true) => explained.say(format!("It is the current token of {domain}: its lease is live.")),
        (Some(domain), false) => explained.say(format!("It is not the current token of {domain}.")),
        (None, _) => explained.say("It is not the current token of any domain."),
    }
    if known.entries.is_empty() && !known.current {
        explained.say(never_seen(token, &known.head));
    }
    if let Some(domain) = &known.domain {
        explained.then(shell::line("fencepost explain", &[domain.as_str()], &option));
        explained.then(shell::line("fencepost history", &[domain.as_str()], &option));
    }
    let names: Vec<&str> = known.domain.iter().map(Domain::as_str).collect();
    let options = format!(" --token {token} --receiver sqlite:PATH{option}");
    explained.then(shell::line("fencepost explain", &names, &options));
}

/// Why nothing is remembered of a token.
fn never_seen(token: Token, head: &LiveSnapshot) -> String {
    let epoch = head.epoch;
    if token.epoch() > epoch {
        format!(
            "This coordinator is in epoch {epoch} and cannot have granted it: it is another coordinator's, or this one \
             was restored from a backup. A receiver that does not know the epoch rejects it as `unknown_epoch`."
        )
    } else if token.epoch() < epoch {
        format!(
            "This coordinator is in epoch {epoch}: a grant under it was of an earlier life, and its lease is over. A \
             receiver whose floor was raised by the recovery rejects it as `stale`."
        )
    } else if head.next_token.is_some_and(|next| token >= next) {
        "It has not been granted yet. A write that presents it presents a number that somebody made up.".to_owned()
    } else {
        "Nothing is remembered of it: it was granted long ago, or it is one of the numbers that a start skips."
            .to_owned()
    }
}
