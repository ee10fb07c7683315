use clap::Args;
use fencepost_coordinator::Coordinator;
use fencepost_core::{
    Domain,
    lease::{Filter, LeaseView, Page},
};
use fencepost_wire::{LeaseList, QueueItem, QueueList};

use crate::{
    coordinator::{Call, UrlArgs, asking, break_line, failed, wait_for},
    duration::{readable, readable_left},
    exit::Exit,
    failure::Failure,
    names,
    output::Output,
    shell,
};

/// Most waiters that are shown.
const WAITERS: usize = 100;

/// Show who holds a domain, since when, and who waits
#[derive(Args, Debug)]
#[command(after_long_help = "\
Prints the holder, the token, the times, who waits and for how long (at most 100), and the line that takes the lease away. \
A domain that nobody holds is no error. What it shows may be over when you read it: it decides nothing.

With --json: {\"items\":[…],\"next_cursor\":null}, with one row or none, and \"queue\" where somebody waits.")]
pub(crate) struct ShowArgs {
    /// The domain
    domain: std::ffi::OsString,
    #[command(flatten)]
    url: UrlArgs,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &ShowArgs) -> Result<Domain, Failure> {
    Ok(names::domain(&args.domain)?)
}

pub(crate) async fn run(args: ShowArgs, output: Output) -> Result<Exit, Failure> {
    let domain = understand(&args)?;
    let coordinator = args.url.connect()?;
    let _asking = asking(&args.url.url);
    let page = coordinator.list(Filter::Domain(domain.clone()), None, 1).await;
    let page = page.map_err(|error| failed(Call::Read, &args.url.url, error))?;
    let queue = coordinator.queue(&domain, WAITERS).await;
    let queue = queue.map_err(|error| failed(Call::Read, &args.url.url, error))?;
    if output.json {
        let mut value = serde_json::to_value(LeaseList::from(Page { next: None, ..page })).expect("a list is JSON");
        if queue.waiting > 0 || queue.reserved.is_some() {
            value["queue"] = serde_json::to_value(&queue).expect("a queue is JSON");
        }
        output.json(&value)?;
        return Ok(Exit::Done);
    }
    match page.rows.first() {
        None => {
            output.line(&format!("nobody holds {domain}"))?;
            let option = args.url.option();
            let line =
                |command: &str, options: &str| shell::line(command, &[domain.as_str()], &format!("{options}{option}"));
            let next = match queue.reserved.zip(queue.remaining_ms) {
                None => line("fencepost acquire", ""),
                Some((kind, ms)) => {
                    output.line(&format!("  reserved  {} for {} more", kind.as_str(), readable_left(ms)))?;
                    match wait_for(ms) {
                        Some(wait) => line("fencepost acquire", &format!(" --wait {wait}")),
                        None => line("fencepost explain", ""),
                    }
                }
            };
            output.command("next", &next)?;
        }
        Some(lease) => {
            output.line(&output.strong(domain.as_str()))?;
            output.facts(2, &facts(lease, &queue))?;
            output.command("take it away", &break_line(&domain, lease.lease, &args.url.option()))?;
        }
    }
    waiting(&queue, output)?;
    Ok(Exit::Done)
}

/// The queue, where somebody stands in it.
fn waiting(queue: &QueueList, output: Output) -> Result<(), Failure> {
    if queue.items.is_empty() {
        return Ok(());
    }
    let row = |(place, item): (usize, &QueueItem)| {
        let connected = if item.connected { "yes" } else { "no, passed over" };
        vec![
            place.to_string(),
            item.holder.to_string(),
            readable(item.waited_ms),
            readable_left(item.remaining_ms),
            connected.to_owned(),
        ]
    };
    let rows = (1..).zip(&queue.items).map(row).collect();
    output.table(&["PLACE", "WHO WAITS", "WAITED", "GIVES UP IN", "CONNECTED"], rows)?;
    let more = u64::from(queue.waiting).saturating_sub(queue.items.len() as u64);
    if more > 0 {
        output.line(&format!("and {more} more"))?;
    }
    Ok(())
}

/// How many wait, and how many of those are places whose connection is gone.
fn places(queue: &QueueList) -> String {
    match queue.waiting.saturating_sub(queue.connected) {
        0 => queue.waiting.to_string(),
        gone => format!("{}, {gone} of them without a connection", queue.waiting),
    }
}

fn facts(lease: &LeaseView, queue: &QueueList) -> Vec<(&'static str, String)> {
    let mut facts = vec![("holder", lease.holder.to_string()), ("contract", lease.contract.to_string())];
    if let Some(token) = lease.token {
        facts.push(("token", format!("{token} (decimal {})", token.to_decimal())));
    }
    facts.extend([
        ("held for", readable(lease.held_ms)),
        ("ends in", format!("{} unless renewed", readable_left(lease.remaining_ms))),
        ("holds", lease.holds.to_string()),
        ("waiting", places(queue)),
        ("lease", lease.lease.to_string()),
        ("session", lease.session.to_string()),
    ]);
    facts.extend(lease.metadata.entries().iter().map(|(name, value)| ("metadata", format!("{name}={value}"))));
    facts
}
