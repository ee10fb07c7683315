use std::time::Duration;

use clap::Args;
use fencepost_coordinator::{CallError, Coordinator};
use fencepost_core::lease::{Claim, HeartbeatRefusal};
use fencepost_wire::HeartbeatAnswer;

use crate::{
    coordinator::{Call, asking, connect, failed, patiently},
    duration::readable_left,
    exit::Exit,
    failure::Failure,
    output::Output,
    session_file::{Kept, KeptGrant, SessionFile},
    shell,
};

/// Keep the lease of the session file for one more TTL
#[derive(Args, Debug)]
#[command(after_long_help = "\
The session file says which lease (FENCEPOST_SESSION_FILE, or fencepost/session.json under XDG_RUNTIME_DIR). \
Renew every third of the TTL, and stop the work as soon as this exits with anything but 0:

  (while sleep 5; do fencepost renew >&2 || kill $$; done) & renewing=$!

Exits 80 when the lease is gone. A renewal that comes late fails even if nobody else has taken the domain.")]
pub(crate) struct RenewArgs {}

pub(crate) async fn run(output: Output) -> Result<Exit, Failure> {
    let file = SessionFile::find()?;
    let kept = file.read()?.ok_or_else(|| file.nothing_kept())?;
    let Some(KeptGrant { lease, token }) = kept.granted else {
        return Err(never_answered(&kept));
    };
    let coordinator = connect(&kept.url)?;
    let (key, domain) = (kept.key()?, kept.domain()?);
    let _asking = asking(&kept.url);
    let call = |_| coordinator.heartbeat(&key, Claim::Held(vec![lease]));
    let answered = patiently(Duration::ZERO, settle(&kept), call).await;
    let line = shell::line("fencepost acquire", &[domain.as_str()], "");
    let anew = format!("stop the work, then acquire anew: {line}");
    let answered = answered.map_err(|(error, _)| not_renewed(&kept, error, &anew))?;
    let ended = answered.answer.ended.iter().find(|ended| ended.lease == lease);
    let live = answered.answer.leases.iter().flatten().find(|live| live.lease == lease).cloned();
    let Some(live) = live.filter(|_| ended.is_none()) else {
        let end = ended.and_then(|ended| ended.end).map_or("no longer remembered how", |end| end.as_str());
        return Err(Failure::new(Exit::Lost, format!("the lease on {domain} has ended ({end})"))
            .detail(format!("lease {lease}"))
            .then(anew));
    };
    if output.json {
        output.json(&HeartbeatAnswer::from(answered))?;
    } else {
        let token = token.map_or_else(String::new, |token| format!(" with token {token}"));
        output.line(&format!("renewed {domain}{token}: {} from now", readable_left(live.remaining_ms)))?;
    }
    Ok(Exit::Done)
}

fn not_renewed(kept: &Kept, error: CallError<HeartbeatRefusal>, anew: &str) -> Failure {
    let is_over = matches!(error, CallError::Refused(_));
    let failure = failed(Call::Read, &kept.url, error).where_kept();
    if is_over {
        failure.then(anew)
    } else {
        failure.then("renew again before the TTL is over, or stop the work by then")
    }
}

/// How long a lost answer is worth asking for again.
pub(crate) fn settle(kept: &Kept) -> Duration {
    (kept.ttl_ms.get() / 3).min(Duration::from_secs(10))
}

/// The acquire was sent, or was about to be, and nothing is known of its answer.
fn never_answered(kept: &Kept) -> Failure {
    let line = shell::line("fencepost acquire", &[&kept.asked.domain], "");
    Failure::new(Exit::Lost, format!("the acquire of {} was never answered: nothing is held", kept.asked.domain))
        .then(format!("ask again for its answer, with the same options: {line}"))
        .then("give up whatever it may have got: fencepost release")
}
