//! Calls in words.

use super::call::{Action, Call, Outcome};

/// The calls as a story, in order of time.
pub(super) fn tell(calls: &[&Call]) -> Vec<String> {
    let mut moments: Vec<(usize, String)> = Vec::new();
    for call in calls {
        let who = if call.who.is_empty() { "somebody" } else { &call.who };
        moments.push((call.called, format!("{who} calls {}", wish(call))));
        if let Some(answered) = call.answered {
            moments.push((answered, format!("{who} is answered {} to {}", answer(call), call.action.name())));
        }
    }
    moments.sort_by_key(|(time, _)| *time);
    moments.into_iter().map(|(_, text)| text).collect()
}

fn wish(call: &Call) -> String {
    let resource = if call.resource.is_empty() { String::new() } else { format!(" at {}", call.resource) };
    let domain = &call.domain;
    match &call.action {
        Action::Open | Action::Heartbeat | Action::End => call.action.name().to_owned(),
        Action::Acquire | Action::Renew | Action::Release => format!("{} {domain}", call.action.name()),
        Action::Write { token, value, operation, .. } => {
            let operation = operation.as_ref().map(|id| format!(", operation {id}")).unwrap_or_default();
            format!("write {domain} = {value} under {token}{operation}{resource}")
        }
        Action::Read { token: Some(token) } => format!("read {domain} under {token}{resource}"),
        Action::Read { token: None } => format!("read {domain}{resource}"),
        Action::Advance { token } => format!("advance {domain} to {token}{resource}"),
    }
}

fn answer(call: &Call) -> String {
    match &call.outcome {
        Outcome::Granted { token } => format!("granted {token}"),
        Outcome::Done => "done".to_owned(),
        Outcome::Applied => "applied".to_owned(),
        Outcome::Replayed => "replayed".to_owned(),
        Outcome::Rejected { reason } => format!("rejected ({reason})"),
        Outcome::Value(value) => format!("the value {value}"),
        Outcome::Refused => "that it did not happen".to_owned(),
        Outcome::Unknown => "nothing certain".to_owned(),
    }
}
