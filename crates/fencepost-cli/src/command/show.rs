use clap::Args;
use fencepost_coordinator::Coordinator;
use fencepost_core::lease::{Filter, LeaseView, Page};
use fencepost_wire::LeaseList;

use crate::{
    coordinator::{Call, UrlArgs, break_line, failed},
    duration::readable,
    exit::Exit,
    failure::Failure,
    names,
    output::Output,
    shell,
};

/// Show who holds a domain, and since when
#[derive(Args, Debug)]
#[command(after_long_help = "\
Prints the holder, the token, the times, how many wait, and the line that takes the lease away. \
A domain that nobody holds is no error. What it shows may be over when you read it: it decides nothing.

With --json: {\"items\":[…],\"next_cursor\":null}, with one row or none.")]
pub(crate) struct ShowArgs {
    /// The domain
    domain: std::ffi::OsString,
    #[command(flatten)]
    url: UrlArgs,
}

pub(crate) async fn run(args: ShowArgs, output: Output) -> Result<Exit, Failure> {
    let domain = names::domain(&args.domain)?;
    let coordinator = args.url.connect()?;
    let page = coordinator.list(Filter::Domain(domain.clone()), None, 1).await;
    let page = page.map_err(|error| failed(Call::Read, &args.url.url, error))?;
    if output.json {
        output.json(&LeaseList::from(Page { next: None, ..page }))?;
        return Ok(Exit::Done);
    }
    match page.rows.first() {
        None => {
            output.line(&format!("nobody holds {domain}"))?;
            output.line(&format!("next: fencepost acquire {}{}", shell::word(domain.as_str()), args.url.option()))?;
        }
        Some(lease) => {
            output.line(&output.strong(domain.as_str()))?;
            for (name, value) in facts(lease) {
                output.line(&format!("  {name:<9} {value}"))?;
            }
            output.line(&format!("take it away: {}", break_line(&domain, lease.lease, &args.url.option())))?;
        }
    }
    Ok(Exit::Done)
}

fn facts(lease: &LeaseView) -> Vec<(&'static str, String)> {
    let mut facts = vec![("holder", lease.holder.to_string()), ("contract", lease.contract.to_string())];
    if let Some(token) = lease.token {
        facts.push(("token", format!("{token} (decimal {})", token.to_decimal())));
    }
    facts.extend([
        ("held for", readable(lease.held_ms)),
        ("ends in", format!("{} unless renewed", readable(lease.remaining_ms))),
        ("holds", lease.holds.to_string()),
        ("waiting", lease.queue.to_string()),
        ("lease", lease.lease.to_string()),
        ("session", lease.session.to_string()),
    ]);
    facts.extend(lease.metadata.entries().iter().map(|(name, value)| ("metadata", format!("{name}={value}"))));
    facts
}
