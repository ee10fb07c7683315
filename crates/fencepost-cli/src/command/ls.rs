use clap::Args;
use fencepost_coordinator::Coordinator;
use fencepost_core::{
    Domain, Invalid,
    lease::{Filter, LeaseView, Page},
    limits,
};
use fencepost_wire::LeaseList;

use crate::{
    coordinator::{Call, UrlArgs, asking, failed},
    duration::{readable, readable_left},
    exit::Exit,
    failure::Failure,
    names,
    output::Output,
    shell,
};

/// List the live leases
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  fencepost ls --prefix invoices/
  fencepost ls --all --json | jq -r '.items[].domain'

With --json: {\"items\":[…],\"next_cursor\":…}, as the API answers.")]
pub(crate) struct LsArgs {
    /// Only domains that start with this
    #[arg(long, value_name = "TEXT")]
    prefix: Option<std::ffi::OsString>,
    /// At most this many rows, 1 to 1000
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = limits::PAGE_DEFAULT.to_string())]
    limit: String,
    /// Start where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Every page, one after another
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    all: bool,
    #[command(flatten)]
    url: UrlArgs,
}

/// Which rows are asked for: a prefix, how many at a time, and the domain to go on after.
pub(crate) fn understand(args: &LsArgs) -> Result<(String, usize, Option<Domain>), Failure> {
    let prefix = match &args.prefix {
        None => String::new(),
        Some(prefix) => names::prefix(prefix)?,
    };
    let limit = if args.all { limits::PAGE_MOST } else { names::rows(&args.limit)? };
    Ok((prefix, limit, args.cursor.clone().map(cursor).transpose()?.flatten()))
}

pub(crate) async fn run(args: LsArgs, output: Output) -> Result<Exit, Failure> {
    let (prefix, limit, mut after) = understand(&args)?;
    let coordinator = args.url.connect()?;
    let asking = asking(&args.url.url);
    let mut rows = Vec::new();
    loop {
        let page = coordinator.list(Filter::Prefix(prefix.clone()), after, limit).await;
        let page = page.map_err(|error| failed(Call::Read, &args.url.url, error))?;
        rows.extend(page.rows);
        asking.now(format!("asking for all leases, {} so far", rows.len()));
        after = page.next;
        if after.is_none() || !args.all {
            break;
        }
    }
    let list = LeaseList::from(Page { rows: rows.clone(), next: after });
    if output.json {
        output.json(&list)?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        output.line("no live leases")?;
    } else {
        output.table(
            &["DOMAIN", "HOLDER", "TOKEN", "HELD", "ENDS IN", "WAITING", "LEASE"],
            rows.iter().map(row).collect(),
        )?;
    }
    if let Some(cursor) = list.next_cursor {
        let prefix = if prefix.is_empty() { String::new() } else { shell::option("--prefix", &prefix) };
        let next = format!("fencepost ls{prefix} --limit {} --cursor {cursor}{}", args.limit, args.url.option());
        output.command("more", &next)?;
    }
    Ok(Exit::Done)
}

fn row(lease: &LeaseView) -> Vec<String> {
    vec![
        lease.domain.to_string(),
        lease.holder.to_string(),
        lease.token.map_or_else(|| lease.contract.to_string(), |token| token.to_string()),
        readable(lease.held_ms),
        readable_left(lease.remaining_ms),
        lease.queue.to_string(),
        lease.lease.to_string(),
    ]
}

/// Where a page starts, by the cursor that an earlier one ended with.
fn cursor(text: String) -> Result<Option<Domain>, Failure> {
    let page = Page::try_from(LeaseList { items: Vec::new(), next_cursor: Some(text) });
    page.map(|page| page.next).map_err(|_| Invalid::form("cursor", "the next_cursor of an earlier page").into())
}
