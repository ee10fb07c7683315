use clap::Args;
use fencepost_coordinator::HistoryQuery;
use fencepost_core::{lease::Filter, limits};
use fencepost_wire::{HistoryItem, parse_history_cursor};

use crate::{
    coordinator::{Call, UrlArgs, asking, failed},
    duration::readable,
    exit::Exit,
    failure::Failure,
    names,
    output::Output,
    shell,
};

/// Show what happened to a domain, the newest first
#[derive(Args, Debug)]
#[command(
    override_usage = "fencepost history [OPTIONS] <DOMAIN>\n       fencepost history [OPTIONS] --prefix <TEXT>\n       fencepost history [OPTIONS] --token <TOKEN>",
    after_long_help = "\
Grants and ends are kept across restarts and crashes of the coordinator, up to a number; what is older is forgotten. \
Times are the coordinator's wall clock, for display only: the order is that of the rows.

Examples:
  fencepost history invoices/2026-11
  fencepost history --prefix invoices/ --limit 20
  fencepost history --token 8016.3 --json

With --json: {\"items\":[…],\"next_cursor\":…}, as the API answers."
)]
pub(crate) struct HistoryArgs {
    /// The domain
    #[arg(required_unless_present_any = ["prefix", "token"], conflicts_with = "prefix")]
    domain: Option<std::ffi::OsString>,
    /// All domains that start with this
    #[arg(long, value_name = "TEXT")]
    prefix: Option<std::ffi::OsString>,
    /// Only what this token was granted or burned for, as epoch.sequence or decimal
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    token: Option<String>,
    /// At most this many rows, 1 to 1000
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = limits::PAGE_DEFAULT.to_string())]
    limit: String,
    /// Start where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    url: UrlArgs,
}

pub(crate) fn understand(args: &HistoryArgs) -> Result<HistoryQuery, Failure> {
    Ok(HistoryQuery {
        filter: match (&args.domain, &args.prefix) {
            (Some(domain), _) => Filter::Domain(names::domain(domain)?),
            (None, Some(prefix)) => Filter::Prefix(names::prefix(prefix)?),
            (None, None) => Filter::Prefix(String::new()),
        },
        token: args.token.as_deref().map(str::parse).transpose()?,
        before: args.cursor.as_deref().map(parse_history_cursor).transpose()?,
        limit: names::rows(&args.limit)?,
    })
}

pub(crate) async fn run(args: HistoryArgs, output: Output) -> Result<Exit, Failure> {
    let query = understand(&args)?;
    let coordinator = args.url.connect()?;
    let _asking = asking(&args.url.url);
    let page = coordinator.history(&query).await.map_err(|error| failed(Call::Read, &args.url.url, error))?;
    if output.json {
        output.json(&page)?;
        return Ok(Exit::Done);
    }
    if page.items.is_empty() {
        output.line("nothing is remembered of that")?;
        let url = args.url.option();
        let next = match &args.domain {
            Some(domain) => shell::line("fencepost show", &[&*domain.to_string_lossy()], &url),
            None => format!("fencepost ls{url}"),
        };
        output.line(&format!("next: {next}"))?;
        return Ok(Exit::Done);
    }
    output.table(&["WHEN", "WHAT", "DOMAIN", "TOKEN", "HOLDER", "ABOUT"], page.items.iter().map(row).collect())?;
    if let Some(cursor) = &page.next_cursor {
        output.command("more", &next_page(&args, cursor))?;
    }
    Ok(Exit::Done)
}

fn next_page(args: &HistoryArgs, cursor: &str) -> String {
    let domain = args.domain.as_ref().map(|domain| domain.to_string_lossy());
    let prefix = args.prefix.as_ref().map(|prefix| shell::option("--prefix", &prefix.to_string_lossy()));
    let token = args.token.as_ref().map(|token| format!(" --token {token}"));
    let which: String = [prefix, token].into_iter().flatten().collect();
    let options = format!("{which} --limit {} --cursor {cursor}{}", args.limit, args.url.option());
    shell::line("fencepost history", &domain.as_deref().into_iter().collect::<Vec<_>>(), &options)
}

fn row(item: &HistoryItem) -> Vec<String> {
    let lease = &item.lease;
    vec![
        item.at.clone().unwrap_or_else(|| "?".to_owned()),
        item.event.clone(),
        lease.domain.to_string(),
        lease.token.map_or_else(|| lease.contract.to_string(), |token| token.to_string()),
        lease.holder.to_string(),
        about(item),
    ]
}

/// What else is known of an entry: how long it was held, what was burned and why; of a grant, the lease.
pub(crate) fn about(item: &HistoryItem) -> String {
    let lease = &item.lease;
    let held = lease.held_ms.map(|ms| format!("after {}", readable(ms)));
    let burned = lease.fence_to.map(|token| format!("burned {token}"));
    let reason = lease.reason.as_ref().map(|reason| format!("because: {reason}"));
    let words: Vec<String> = [held, burned, reason].into_iter().flatten().collect();
    if words.is_empty() { format!("lease {}", lease.lease) } else { words.join(", ") }
}
