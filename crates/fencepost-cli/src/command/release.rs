use std::time::Duration;

use clap::Args;
use fencepost_client::HttpCoordinator;
use fencepost_coordinator::{CallError, Coordinator, SessionKey};
use fencepost_core::{
    Domain, LeaseId,
    lease::{LeaseEnd, ReleaseRefusal, Released, SessionRefusal},
};
use fencepost_wire::ReleaseAnswer;

use crate::{
    command::renew::settle,
    coordinator::{Call, UrlArgs, asking, connect, failed, patiently},
    exit::Exit,
    failure::{AGAIN, Failure},
    output::Output,
    session_file::{GivenBack, Kept, Locked, SessionFile},
    shell,
};

/// Give the lease of the session file back
#[derive(Args, Debug)]
#[command(after_long_help = "\
The session file says which lease (FENCEPOST_SESSION_FILE, or fencepost/session.json under XDG_RUNTIME_DIR); it is \
removed when the lease has ended. Settle every write whose outcome is unknown first: the next holder may start at once.

Safe to repeat: the same command again gets the same answer, until another acquire is tried with that file. Where the \
answer is lost (82), the file stays and the same command asks for it. Exits 80 when the lease had been lost before, so that \
a script learns that its work may have overlapped with another's, and 78 where nothing was acquired with the file.")]
pub(crate) struct ReleaseArgs {}

pub(crate) async fn run(output: Output) -> Result<Exit, Failure> {
    let file = SessionFile::find()?;
    if file.read()?.is_none() && !file.was_used() {
        return Err(file.nothing_kept());
    }
    let locked = file.lock().await?;
    // Somebody else may have released it while this command waited.
    let Some(kept) = locked.file.read()? else { return again(&locked, output) };
    let coordinator = connect(&kept.url)?;
    let (key, domain) = (kept.key()?, kept.domain()?);
    let _asking = asking(&kept.url);
    match kept.granted {
        None => give_up_unanswered(&coordinator, &kept, &key, &domain, &locked, output).await,
        Some(granted) => give_back(&coordinator, &kept, &key, &domain, granted.lease, &locked, output).await,
    }
}

/// The same answer once more.
fn again(locked: &Locked, output: Output) -> Result<Exit, Failure> {
    let given = locked.given_back().ok_or_else(|| locked.file.nothing_kept())?;
    if let (true, Some(answer)) = (output.json, &given.answer) {
        output.json(answer)?;
    }
    match (given.lost, given.lease) {
        (Some(how), Some(lease)) => Err(lost(&given.url, &given.domain, lease, &how)),
        (Some(_) | None, lease) => {
            if !output.json {
                let what = if lease.is_some() { "released" } else { "gave up the unanswered acquire of" };
                output.line(&format!("{what} {}, and had done so before", given.domain))?;
            }
            Ok(Exit::Done)
        }
    }
}

fn given(kept: &Kept, answer: Option<ReleaseAnswer>, lost: Option<String>) -> GivenBack {
    let lease = kept.granted.map(|granted| granted.lease);
    GivenBack { url: kept.url.clone(), domain: kept.asked.domain.clone(), lease, answer, lost }
}

/// Whatever the unanswered acquire got hangs on its session, so its end is the end of both.
async fn give_up_unanswered(
    coordinator: &HttpCoordinator,
    kept: &Kept,
    key: &SessionKey,
    domain: &Domain,
    locked: &Locked,
    output: Output,
) -> Result<Exit, Failure> {
    end_session(coordinator, kept, key).await?;
    let answer = ReleaseAnswer { ended: None, holds_left: 0 };
    locked.remove_given_back(&given(kept, Some(answer), None))?;
    if output.json {
        output.json(&answer)?;
    } else {
        output.line(&format!("gave up the acquire of {domain}, which was never answered"))?;
    }
    Ok(Exit::Done)
}

async fn give_back(
    coordinator: &HttpCoordinator,
    kept: &Kept,
    key: &SessionKey,
    domain: &Domain,
    lease: LeaseId,
    locked: &Locked,
    output: Output,
) -> Result<Exit, Failure> {
    let request = kept.request()?;
    let call = |_| coordinator.release(&key.secret, lease, request);
    let released = match patiently(Duration::ZERO, settle(kept), call).await {
        Ok(released) => released,
        Err((error, happened)) => return Err(not_released(kept, domain, lease, error, happened, locked)),
    };
    // The session has nothing left to do. Where this call is lost, it ends by itself within one TTL.
    let _ = coordinator.end_session(key).await;
    let lost = match released.ended {
        None | Some(LeaseEnd::Released) => None,
        Some(end @ (LeaseEnd::Expired | LeaseEnd::Revoked | LeaseEnd::Recovered)) => Some(end.as_str().to_owned()),
    };
    locked.remove_given_back(&given(kept, Some(ReleaseAnswer::from(released)), lost))?;
    tell(kept, domain, lease, released, output)
}

fn tell(kept: &Kept, domain: &Domain, lease: LeaseId, released: Released, output: Output) -> Result<Exit, Failure> {
    if output.json {
        output.json(&ReleaseAnswer::from(released))?;
    }
    match released.ended {
        None | Some(LeaseEnd::Released) => {
            if !output.json {
                output.line(&format!("released {domain}"))?;
            }
            Ok(Exit::Done)
        }
        Some(end @ (LeaseEnd::Expired | LeaseEnd::Revoked | LeaseEnd::Recovered)) => {
            Err(lost(&kept.url, domain.as_str(), lease, end.as_str()))
        }
    }
}

fn lost(url: &str, domain: &str, lease: LeaseId, how: &str) -> Failure {
    Failure::new(Exit::Lost, format!("the lease on {domain} had ended before ({how})"))
        .detail(format!("lease {lease}; the work may have overlapped with another's, which receivers refuse"))
        .then(shell::line("fencepost show", &[domain], &UrlArgs { url: url.to_owned() }.option()))
}

fn not_released(
    kept: &Kept,
    domain: &Domain,
    lease: LeaseId,
    error: CallError<ReleaseRefusal>,
    happened: bool,
    locked: &Locked,
) -> Failure {
    match &error {
        CallError::Refused(ReleaseRefusal::Session(
            refusal @ (SessionRefusal::SessionEnded(_) | SessionRefusal::UnknownSession),
        )) => {
            let how = refusal.to_string();
            match locked.remove_given_back(&given(kept, None, Some(how.clone()))) {
                Ok(()) => lost(&kept.url, domain.as_str(), lease, &how),
                Err(failure) => failure,
            }
        }
        CallError::Refused(_)
        | CallError::Invalid(_)
        | CallError::Unavailable { .. }
        | CallError::Unreachable { .. }
        | CallError::Protocol { .. } => {
            let failure = failed(Call::Change, &kept.url, error).where_kept();
            let failure = if happened { failure.ending_in(Exit::Unknown) } else { failure };
            failure
                .detail(format!("the lease on {domain} is not renewed any more and ends by itself within one TTL"))
                .then("ask again: fencepost release")
        }
    }
}

/// Ends the session of an acquire that nobody got the answer of.
///
/// # Errors
/// When it is not known to have ended.
pub(crate) async fn end_session(coordinator: &HttpCoordinator, kept: &Kept, key: &SessionKey) -> Result<(), Failure> {
    let ended = patiently(Duration::ZERO, settle(kept), |_| coordinator.end_session(key)).await;
    match ended {
        Ok(()) => Ok(()),
        // Nothing of it is left, which is what was wanted.
        Err((CallError::Refused(SessionRefusal::SessionEnded(_) | SessionRefusal::UnknownSession), _)) => Ok(()),
        Err((error, _)) => Err(failed(Call::Change, &kept.url, error).then(AGAIN)),
    }
}
