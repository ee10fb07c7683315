use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use fencepost_client::{CoordinatorEvent, EventStream, HttpCoordinator};
use fencepost_coordinator::{CallError, Refused};
use fencepost_wire::{EventData, LeaseData, RejectedData, rfc3339};
use serde_json::{Value, json};

use crate::{
    coordinator::{Call, UrlArgs, asking, failed},
    duration::readable,
    exit::Exit,
    failure::Failure,
    names,
    output::{Output, aside, counted},
    progress,
};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Show what happens, while it happens
#[derive(Args, Debug)]
#[command(after_long_help = "\
Goes on until it is stopped. When the coordinator goes away it tries again until it is back, and takes up where it \
left off; where that is not possible it says `gap`, and `fencepost history` knows more. Times are those of this \
machine. What it shows are hints: it decides nothing.

Examples:
  fencepost watch --prefix invoices/
  fencepost watch --json | jq -c 'select(.event == \"expired\")'

With --json: one object a line, {\"event\":…,\"id\":…} with the fields of the API.")]
pub(crate) struct WatchArgs {
    /// Only domains that start with this
    #[arg(long, value_name = "TEXT")]
    prefix: Option<std::ffi::OsString>,
    /// Stop after this many events of leases and rejections
    #[arg(long, value_name = "N", value_parser = names::count, allow_hyphen_values = true)]
    count: Option<u64>,
    #[command(flatten)]
    url: UrlArgs,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &WatchArgs) -> Result<String, Failure> {
    Ok(args.prefix.as_deref().map(names::prefix).transpose()?.unwrap_or_default())
}

pub(crate) async fn run(args: WatchArgs, output: Output) -> Result<Exit, Failure> {
    let prefix = understand(&args)?;
    let coordinator = args.url.connect()?;
    let mut last_seen: Option<String> = None;
    let mut left = args.count.unwrap_or(u64::MAX);
    let connecting = asking(&args.url.url);
    let first = coordinator.events(&prefix, None).await;
    drop(connecting);
    let mut stream = first.map_err(|error| failed(Call::Read, &args.url.url, error))?;
    if !output.json {
        aside(&format!("watching {} (Ctrl-C stops)", args.url.url));
    }
    loop {
        let ended = match stream.next().await {
            Ok(Some(event)) => {
                show(&event, output)?;
                last_seen = event.id.clone().or(last_seen);
                left -= u64::from(counts(&event));
                if left == 0 {
                    return Ok(Exit::Done);
                }
                continue;
            }
            Ok(None) => "the coordinator has ended the stream".to_owned(),
            Err(error) => error.to_string(),
        };
        if output.json {
            aside(&json!({"detail": ended, "reconnecting": true}).to_string())
        } else {
            aside(&format!("{ended}; trying again until it is back"));
        }
        stream = again(&coordinator, &prefix, last_seen.as_deref())
            .await
            .map_err(|error| failed(Call::Read, &args.url.url, error))?;
    }
}

/// Opens the stream again, behind what was seen last. Gives up only where trying again cannot help.
async fn again(
    coordinator: &HttpCoordinator,
    prefix: &str,
    last_seen: Option<&str>,
) -> Result<EventStream, CallError<Refused>> {
    let _waiting = progress::doing("waiting for the coordinator to be back");
    let mut pause = FIRST_PAUSE;
    loop {
        match coordinator.events(prefix, last_seen).await {
            Ok(stream) => return Ok(stream),
            Err(error) if !error.is_worth_repeating() => return Err(error),
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn counts(event: &CoordinatorEvent) -> bool {
    !matches!(event.name.as_str(), "epoch" | "gap")
}

fn show(event: &CoordinatorEvent, output: Output) -> Result<(), Failure> {
    if output.json {
        return output.json(&in_one_object(event));
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = rfc3339(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    let time = now.get(11..19).unwrap_or(&now);
    output.line(&format!("{time}Z  {:<9} {}", event.name, words(event)))
}

pub(crate) fn in_one_object(event: &CoordinatorEvent) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("event".to_owned(), event.name.clone().into());
    if let Some(id) = &event.id {
        object.insert("id".to_owned(), id.clone().into());
    }
    match serde_json::from_str(&event.json) {
        Ok(Value::Object(fields)) => object.extend(fields),
        Ok(other) => drop(object.insert("data".to_owned(), other)),
        Err(_) => drop(object.insert("data".to_owned(), event.json.clone().into())),
    }
    Value::Object(object)
}

pub(crate) fn words(event: &CoordinatorEvent) -> String {
    match &event.data {
        Some(EventData::Lease(lease)) => lease_words(lease),
        Some(EventData::Rejected(rejected)) => rejected_words(rejected),
        Some(EventData::Epoch { epoch }) => format!("the coordinator is in epoch {epoch}"),
        Some(EventData::Gap { missed: Some(missed) }) => {
            let missed = counted(*missed, "event is", "events are");
            format!("{missed} missing here; fencepost history knows more")
        }
        Some(EventData::Gap { missed: None }) => "events may be missing here; fencepost history knows more".to_owned(),
        None => event.json.clone(),
    }
}

fn lease_words(lease: &LeaseData) -> String {
    let token = lease.token.map_or_else(|| lease.contract.to_string(), |token| format!("token {token}"));
    let mut words = format!("{}  {}  {token}", lease.domain, lease.holder);
    let waited = lease.waited_ms.filter(|ms| *ms > 0).map(|ms| format!("after a wait of {}", readable(ms)));
    let held = lease.held_ms.map(|ms| format!("held {}", readable(ms)));
    let burned = lease.fence_to.map(|token| format!("burned {token}"));
    let reason = lease.reason.as_ref().map(|reason| format!("because: {reason}"));
    for more in [waited, held, burned, reason].into_iter().flatten() {
        words = format!("{words}  {more}");
    }
    words
}

fn rejected_words(rejected: &RejectedData) -> String {
    let presented = rejected.presented.map(|token| format!("  token {token}"));
    let least = rejected.least_accepted.map(|token| format!("  least accepted {token}"));
    let operation = rejected.operation.as_ref().map(|operation| format!("  operation {operation}"));
    let more: String = [presented, least, operation].into_iter().flatten().collect();
    format!("{}  {}{more}", rejected.domain, rejected.rejected)
}
