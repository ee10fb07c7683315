use std::ffi::OsString;

use clap::Args;
use fencepost_client::HttpCoordinator;
use fencepost_coordinator::{CallError, Coordinator};
use fencepost_core::{
    Domain, Grant, LeaseId, Reason, SessionId, Token,
    fence::{Rejection, Verdict},
    lease::{BreakRefusal, Broken, Filter},
    limits,
};
use fencepost_receiver::AdvanceError;
use fencepost_wire::BreakAnswer;
use serde_json::json;

use crate::{
    coordinator::{Call, UrlArgs, asking, break_line, failed, patiently},
    exit::Exit,
    failure::{AGAIN, Failure},
    names,
    output::Output,
    resource::Resource,
    shell, verdict,
};

/// Take a lease away from its holder
#[derive(Args, Debug)]
#[command(
    name = "break",
    after_long_help = "\
The line to type is printed by every refused `acquire` and by `show`. It names the lease and not only the domain, so it \
can never hit a successor. The holder's next renewal fails, and one token is used up to fence it with: name the \
receivers of the domain with --advance, and writes of the old holder are refused there from then on.

Safe to repeat, also to reach a receiver that was not reached before:
  fencepost break invoices/2026-11 --lease ID --reason 'host is gone' \\
    --advance sqlite:/var/lib/shop.db"
)]
pub(crate) struct BreakArgs {
    /// The domain
    domain: OsString,
    /// The lease, as `acquire`, `show` and `ls` print it
    #[arg(long, value_name = "ID")]
    lease: OsString,
    /// Why; kept in the coordinator's log
    #[arg(long, value_name = "TEXT")]
    reason: OsString,
    /// Raise the domain's fence there; may be repeated
    #[arg(long, value_name = "RESOURCE")]
    advance: Vec<OsString>,
    #[command(flatten)]
    url: UrlArgs,
}

/// What became of one receiver.
struct Reached {
    receiver: String,
    outcome: Result<(), Failure>,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &BreakArgs) -> Result<(Domain, LeaseId, Reason, Vec<Resource>), Failure> {
    let domain = names::domain(&args.domain)?;
    let lease = names::lease(&args.lease)?;
    let reason = names::reason(&args.reason)?;
    let receivers = args.advance.iter().map(|typed| Resource::parse(typed)).collect::<Result<_, _>>()?;
    Ok((domain, lease, reason, receivers))
}

pub(crate) async fn run(args: BreakArgs, output: Output) -> Result<Exit, Failure> {
    let (domain, lease, reason, receivers) = understand(&args)?;
    let coordinator = args.url.connect()?;
    let asking = asking(&args.url.url);
    refuse_another_domain(&coordinator, &args, &domain, lease).await?;
    let settle = std::time::Duration::from_secs(5);
    let broken = patiently(std::time::Duration::ZERO, settle, |_| coordinator.break_lease(lease, reason.clone())).await;
    let broken = broken.map_err(|(error, happened)| not_broken(error, happened, &args, &domain, lease))?;
    if broken.domain != domain {
        return Err(another_domain(&broken.domain, lease, &args.url.option()));
    }
    asking.now(format!("raising the fences of {domain}"));
    let reached = advance(&coordinator, &args, &broken, lease, receivers).await?;
    tell(&args, &broken, lease, &reached, output)
}

/// An id with the domain of another lease is a slip of the hand: it must not end that other lease.
async fn refuse_another_domain(
    coordinator: &HttpCoordinator,
    args: &BreakArgs,
    domain: &Domain,
    lease: LeaseId,
) -> Result<(), Failure> {
    let read_failed = |error| failed(Call::Read, &args.url.url, error);
    let here = coordinator.list(Filter::Domain(domain.clone()), None, 1).await.map_err(read_failed)?;
    if here.rows.iter().any(|row| row.lease == lease) {
        return Ok(());
    }
    let mut after = None;
    loop {
        let page = coordinator.list(Filter::Prefix(String::new()), after, limits::PAGE_MOST).await;
        let page = page.map_err(read_failed)?;
        if let Some(row) = page.rows.iter().find(|row| row.lease == lease && row.domain != *domain) {
            return Err(another_domain(&row.domain, lease, &args.url.option()));
        }
        after = page.next;
        if after.is_none() {
            // It is not live. Whether it was broken before, only the call itself tells.
            return Ok(());
        }
    }
}

fn another_domain(of: &Domain, lease: LeaseId, url_option: &str) -> Failure {
    Failure::new(Exit::Usage, format!("lease {lease} is on {of}, which is not the domain that was named"))
        .then(break_line(of, lease, url_option))
}

fn not_broken(
    error: CallError<BreakRefusal>,
    happened: bool,
    args: &BreakArgs,
    domain: &Domain,
    lease: LeaseId,
) -> Failure {
    let is_answered = matches!(error, CallError::Refused(_) | CallError::Invalid(_));
    let failure = failed(Call::Change, &args.url.url, error);
    if happened && !is_answered {
        return failure
            .ending_in(Exit::Unknown)
            .detail("the lease may have been ended by it; asking again tells, and ends no other")
            .then(same_line(args, domain, lease));
    }
    failure.detail("no lease was ended and no token used up").then(format!(
        "see who holds it now: {}",
        shell::line("fencepost show", &[domain.as_str()], &args.url.option())
    ))
}

/// The command as it was typed.
fn same_line(args: &BreakArgs, domain: &Domain, lease: LeaseId) -> String {
    let reason = shell::option("--reason", &args.reason.to_string_lossy());
    let receivers: String =
        args.advance.iter().map(|typed| shell::option("--advance", &typed.to_string_lossy())).collect();
    let options = format!(" --lease {lease}{reason}{receivers}{}", args.url.option());
    shell::line("fencepost break", &[domain.as_str()], &options)
}

async fn advance(
    coordinator: &HttpCoordinator,
    args: &BreakArgs,
    broken: &Broken,
    lease: LeaseId,
    receivers: Vec<Resource>,
) -> Result<Vec<Reached>, Failure> {
    let (Some(token), false) = (broken.fence_to, receivers.is_empty()) else { return Ok(Vec::new()) };
    let snapshot = coordinator.snapshot(broken.domain.as_str().to_owned()).await;
    let issuer = snapshot.map_err(|error| {
        failed(Call::Read, &args.url.url, error).detail("the lease is broken; no receiver was advanced").then(AGAIN)
    })?;
    // Nobody holds this token, so there is no session to name.
    let session = SessionId::from_bytes([0; 16]);
    let grant = Grant { issuer: issuer.issuer, domain: broken.domain.clone(), token, lease, session };
    let advance = |receiver: Resource| {
        let outcome = receiver.is_writable().and_then(|()| match receiver.advance_blocking(&grant) {
            Ok(Verdict::Applied(()) | Verdict::Replayed(())) => Ok(()),
            // What shuts out this token shuts out the old holder's smaller one.
            Ok(Verdict::Rejected(Rejection::Stale { .. })) => Ok(()),
            Ok(Verdict::Rejected(rejection)) => Err(verdict::refusal(&receiver, &rejection).guarding(&grant.domain)),
            Err(AdvanceError::Unavailable(cause)) => Err(receiver.unavailable(&cause)),
            Err(error @ (AdvanceError::Invalid(_) | AdvanceError::Unknown(_))) => {
                Err(Failure::new(Exit::CannotWrite, format!("{}: {error}", receiver.typed())).then(AGAIN))
            }
        });
        Reached { receiver: receiver.typed().to_owned(), outcome }
    };
    Ok(receivers.into_iter().map(advance).collect())
}

fn tell(
    args: &BreakArgs,
    broken: &Broken,
    lease: LeaseId,
    reached: &[Reached],
    output: Output,
) -> Result<Exit, Failure> {
    if output.json {
        let mut value = serde_json::to_value(BreakAnswer::from(broken.clone())).expect("an answer is JSON");
        let names = |ok: bool| reached.iter().filter(move |one| one.outcome.is_ok() == ok);
        value["advanced"] = names(true).map(|one| one.receiver.as_str()).collect();
        value["not_reached"] = names(false)
            .map(|one| json!({"receiver": one.receiver, "why": one.outcome.as_ref().err().map(Failure::what)}))
            .collect();
        output.json(&value)?;
    } else {
        let already = if broken.already { ", which had been broken before" } else { "" };
        output.line(&format!("broke the lease on {}{already}", broken.domain))?;
        if let Some(token) = broken.fence_to {
            output.line(&format!("  fence to  {token} (decimal {})", token.to_decimal()))?;
        }
        for one in reached.iter().filter(|one| one.outcome.is_ok()) {
            output.line(&format!("  advanced  {}", one.receiver))?;
        }
        if let (Some(token), true) = (broken.fence_to, args.advance.is_empty()) {
            output.line(&reminder(broken, lease, token, &args.url.option()))?;
        }
    }
    let missed: Vec<&Failure> = reached.iter().filter_map(|one| one.outcome.as_ref().err()).collect();
    let what = format!("the lease is broken, and {} of {} receivers not reached", missed.len(), reached.len());
    let Some(failure) = missed.into_iter().cloned().reduce(Failure::and) else { return Ok(Exit::Done) };
    Err(failure
        .within(what)
        .detail("the old holder's writes are accepted there until a greater token comes")
        .then(same_line(args, &broken.domain, lease)))
}

fn reminder(broken: &Broken, lease: LeaseId, token: Token, url_option: &str) -> String {
    format!(
        "receivers accept the old token until one above it comes; raise their fences to {token} now:\nnext: {}",
        break_line(&broken.domain, lease, &format!("{url_option} --advance RESOURCE"))
    )
}
