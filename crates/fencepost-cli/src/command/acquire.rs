use std::{cell::Cell, ffi::OsString, time::Duration};

use clap::Args;
use fencepost_client::{BootClock, Clock, HttpCoordinator};
use fencepost_coordinator::{AcquireRequest, Answered, CallError, Coordinator, Granted, SessionKey};
use fencepost_core::{
    Contract, Domain, Holder, LeaseId, LockDelay, MaxHold, Metadata, MinHold, Moment, RequestId, Ttl, Wait,
    holder::Confirmed,
    lease::{AcquireRefusal, Claim, Filter, SessionRefusal, Terms},
};
use fencepost_wire::AcquireBody;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use crate::{
    command::{
        handing::{Handed, hand_over},
        release::end_session,
    },
    coordinator::{ANSWER, Call, UrlArgs, asking, break_line, connect_to_wait, failed, held, patiently},
    duration::{Typed, refuse_unusable},
    exit::Exit,
    failure::{AGAIN, Failure},
    names,
    output::Output,
    progress,
    run::one_wait,
    session_file::{Kept, KeptGrant, Locked, SessionFile},
    shell,
};

/// Take a lease and leave it to `renew` and `release`
#[derive(Args, Debug)]
#[command(after_long_help = "\
In a shell:
  eval \"$(fencepost acquire nightly --export)\" || exit $?
  (while sleep 5; do fencepost renew >&2 || kill $$; done) & renewing=$!
  …                                         # write with $FENCEPOST_GRANT
  kill $renewing; fencepost release

Nothing renews the lease but `fencepost renew`: without it the lease ends after one TTL. \
Session, secret and request id stay in a file of mode 600 (FENCEPOST_SESSION_FILE, or fencepost/session.json under \
XDG_RUNTIME_DIR), one lease each. The secret never appears in the output. fish refuses what --export prints, as a whole, \
and with an error: use `run` there. Where the answer was lost (exit 82), the same \
command asks for it again under the same request id.

A coordinator that takes the call and answers nothing is given up 5 seconds after --wait, or after its last answer \
where that came later: with 82 where it may have granted, with 69 where it has not. Exits 75 when another has the domain; see `fencepost help exit-codes`.")]
pub(crate) struct AcquireArgs {
    /// The domain, e.g. invoices/2026-11
    domain: OsString,
    /// How long the lease lives without `renew`: 1s to 24h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "15s")]
    ttl: String,
    /// Wait for at most this long, up to 10m: for the coordinator, and in the queue
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "0s")]
    wait: String,
    /// What the lease is for: safety (a token), admission (who may start) or advisory (an optimisation)
    #[arg(long, default_value = "safety")]
    contract: String,
    /// What to call the holder, for people [default: USER@HOST:PID of the caller]
    #[arg(long, value_name = "TEXT")]
    holder: Option<OsString>,
    /// End the lease this long after the grant, whatever the renewals; more than a tenth of the TTL
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    max_hold: Option<String>,
    /// Grant the domain to nobody else before this long after the grant
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    min_hold: Option<String>,
    /// After an unclean end, grant the domain to nobody for this long
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    lock_delay: Option<String>,
    /// Show this beside the lease; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    metadata: Vec<OsString>,
    /// Print commands for sh, bash and zsh, not fish, that export the grant, for eval; on failure, ones that fail
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
    /// Exit with this instead of 75 when another has the domain
    #[arg(long, value_name = "N", value_parser = names::held_exit_code, allow_hyphen_values = true)]
    held_exit_code: Option<u8>,
    #[command(flatten)]
    url: UrlArgs,
}

/// What is asked for, checked before anything is sent.
struct Ask {
    domain: Domain,
    holder: Holder,
    ttl: Ttl,
    wait: Wait,
    contract: Contract,
    terms: Terms,
    metadata: Metadata,
}

impl Ask {
    fn parse(args: &AcquireArgs) -> Result<Self, Failure> {
        let terms = Terms {
            max_hold: args.max_hold.as_deref().map(MaxHold::typed).transpose()?,
            min_hold: args.min_hold.as_deref().map(MinHold::typed).transpose()?,
            lock_delay: args.lock_delay.as_deref().map(LockDelay::typed).transpose()?,
            ..Terms::default()
        };
        let ttl = Ttl::typed(&args.ttl)?;
        refuse_unusable(terms.max_hold, ttl, |_| 0)?;
        Ok(Self {
            domain: names::domain(&args.domain)?,
            holder: names::holder(args.holder.as_deref())?,
            ttl,
            wait: Wait::typed(&args.wait)?,
            contract: args.contract.parse()?,
            terms,
            metadata: names::metadata(&args.metadata)?,
        })
    }

    fn request(&self, key: &SessionKey, request: RequestId) -> AcquireRequest {
        AcquireRequest {
            contract: self.contract,
            terms: self.terms,
            metadata: self.metadata.clone(),
            ..AcquireRequest::new(key, self.domain.clone(), request)
        }
    }
}

/// Whether what was typed is understood.
#[cfg(feature = "fuzzing")]
pub(crate) fn understand(args: &AcquireArgs) -> Result<(), Failure> {
    Ask::parse(args).map(drop)
}

pub(crate) async fn run(args: AcquireArgs, output: Output) -> Result<Exit, Failure> {
    let ask = Ask::parse(&args)?;
    let coordinator = args.url.connect_to_wait()?;
    let locked = SessionFile::find()?.lock().await?;
    let started = Instant::now();
    let kept = prepare(&coordinator, &ask, &args, &locked).await?;
    let key = kept.key()?;
    let request = ask.request(&key, kept.request()?);
    let left = ask.wait.get().saturating_sub(started.elapsed());
    let acquiring = acquire(&coordinator, &request, left, ask.ttl);
    let answered = tokio::select! {
        biased;
        answered = acquiring => answered,
        signal = interrupted() => {
            let _ = end_session(&coordinator, &kept, &key).await;
            locked.remove()?;
            return Err(Failure::new(Exit::Signal(signal), format!("gave up waiting for {}", ask.domain)).then(AGAIN));
        }
        () = stay_in_the_queue(&coordinator, &key, &ask) => unreachable!("it waits for ever"),
    };
    let (answered, sent) = match answered {
        Ok(answered) => answered,
        Err(error) => return Err(not_granted(&coordinator, &ask, &args, &kept, &key, &locked, error).await),
    };
    let lease = answered.answer.acquired.lease;
    let deadline = confirm(&coordinator, &ask, &kept, &key, lease, &answered, sent).await?;
    let token = answered.answer.acquired.permission.grant().map(|grant| grant.token);
    locked.write(&kept.granted(KeptGrant { lease, token }))?;
    let remaining = deadline.since(BootClock.now());
    if remaining.is_zero() {
        return Err(lost_before_hand_over(&ask.domain));
    }
    let handed =
        Handed { answered, remaining, url: &args.url.url, url_option: args.url.option(), file: locked.file.path() };
    hand_over(handed, args.export, output)
}

/// Leaves the session in the file before anything is asked for: an earlier acquire's, where it was the same and was
/// never answered, or else a new one.
async fn prepare(
    coordinator: &HttpCoordinator,
    ask: &Ask,
    args: &AcquireArgs,
    locked: &Locked,
) -> Result<Kept, Failure> {
    if let Some(kept) = locked.file.read()? {
        if kept.granted.is_none() && is_the_same(&kept, ask, args)? && is_alive(coordinator, &kept).await {
            return Ok(kept);
        }
        settle_earlier(&kept, ask, args, locked).await?;
    }
    let _asking = asking(&args.url.url);
    let (wait, settle) = (ask.wait.get(), Duration::ZERO);
    let opened = patiently(wait, settle, |_| coordinator.open_session(ask.holder.clone(), ask.ttl)).await;
    // A session without a lease ends by itself, so a lost answer leaves nothing behind.
    let opened = opened.map_err(|(error, _)| failed(Call::Read, &args.url.url, error))?;
    let key = opened.answer.key();
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(Exit::Bug, format!("the system gives no random bytes: {error}")).then(AGAIN))?;
    let asked = AcquireBody::from(&ask.request(&key, RequestId::from_bytes(bytes)));
    let kept = Kept::asking(&args.url.url, &key, ask.ttl, asked);
    locked.write(&kept)?;
    Ok(kept)
}

fn is_the_same(kept: &Kept, ask: &Ask, args: &AcquireArgs) -> Result<bool, Failure> {
    let again = AcquireBody::from(&ask.request(&kept.key()?, kept.request()?));
    let text = |body: &AcquireBody| serde_json::to_string(body).expect("a body is JSON");
    Ok(kept.url == args.url.url && kept.ttl_ms == ask.ttl && text(&kept.asked) == text(&again))
}

/// Whether the session of an unanswered acquire is still there to be asked in. A doubt counts as yes: asking tells.
async fn is_alive(coordinator: &HttpCoordinator, kept: &Kept) -> bool {
    let Ok(key) = kept.key() else { return false };
    !matches!(
        coordinator.read_session(&key).await,
        Err(CallError::Refused(
            SessionRefusal::UnknownSession
                | SessionRefusal::SessionEnded(_)
                | SessionRefusal::Unauthenticated
                | SessionRefusal::NotYours
        ))
    )
}

/// What the file has of an earlier acquire must be over before it is written over.
async fn settle_earlier(kept: &Kept, ask: &Ask, args: &AcquireArgs, locked: &Locked) -> Result<(), Failure> {
    let coordinator = connect_to_wait(&kept.url)?;
    let key = kept.key()?;
    if let Some(granted) = kept.granted {
        match coordinator.read_session(&key).await {
            Ok(session) if session.answer.leases.iter().any(|live| live.lease == granted.lease) => {
                return Err(still_held(kept, granted, ask, args, locked));
            }
            Ok(_) | Err(CallError::Refused(_)) => {}
            Err(error) => {
                return Err(failed(Call::Read, &kept.url, error)
                    .detail(format!("the session file has a lease on {} at that coordinator", kept.asked.domain))
                    .then(format!("where that coordinator is gone for good: rm {}", locked.file.word())));
            }
        }
    }
    // Nobody has been told of a grant in it, or its lease is over: ending it takes nothing from anybody.
    match coordinator.end_session(&key).await {
        Ok(()) | Err(CallError::Refused(_)) => Ok(()),
        Err(error) => Err(failed(Call::Change, &kept.url, error).then(AGAIN)),
    }
}

fn still_held(kept: &Kept, granted: KeptGrant, ask: &Ask, args: &AcquireArgs, locked: &Locked) -> Failure {
    let domain = &kept.asked.domain;
    let path = locked.file.path().display();
    if *domain != ask.domain.as_str() {
        return Failure::new(Exit::Configuration, format!("the session file {path} has the live lease on {domain}"))
            .then("fencepost release")
            .then("give each job a file of its own: FENCEPOST_SESSION_FILE=PATH");
    }
    let failure = Failure::new(Exit::Held, format!("{domain} is held already, through the session file {path}"))
        .detail("whoever acquired it may be at work: it is not handed out a second time")
        .then("give it back: fencepost release")
        .then(break_line(&ask.domain, granted.lease, &args.url.option()));
    match args.held_exit_code {
        Some(code) => failure.with_code(code),
        None => failure,
    }
}

type Acquired = Result<(Answered<Granted>, Moment), (CallError<Box<AcquireRefusal>>, bool)>;

/// Asks under one request id until it is decided, and says when the answered attempt was sent.
async fn acquire(coordinator: &HttpCoordinator, request: &AcquireRequest, wait: Duration, ttl: Ttl) -> Acquired {
    let sent = Cell::new(BootClock.now());
    let settle = (ttl.get() / 3).min(ANSWER);
    let attempt = |left: Duration| {
        sent.set(BootClock.now());
        coordinator.acquire(AcquireRequest { wait: one_wait(left), ..request.clone() })
    };
    let answered = patiently(wait, settle, attempt).await?;
    Ok((answered, sent.get()))
}

/// A waiting acquire does not keep its session alive, so this does; and it tells people what is being waited for.
async fn stay_in_the_queue(coordinator: &HttpCoordinator, key: &SessionKey, ask: &Ask) {
    let alive = async {
        loop {
            sleep(ask.ttl.get() / 3).await;
            // Where it fails, the next one may not; if none gets through, the acquire is told that its session ended.
            let _ = coordinator.heartbeat(key, Claim::Held(Vec::new())).await;
        }
    };
    let waiting = progress::doing(format!("waiting for {}", ask.domain));
    let tell = async {
        let mut pause = Duration::from_secs(1);
        loop {
            sleep(pause).await;
            pause = Duration::from_secs(10);
            if waiting.is_seen() {
                let page = coordinator.list(Filter::Domain(ask.domain.clone()), None, 1).await;
                let by = page.ok().and_then(|page| page.rows.first().map(|row| format!(", held by {}", row.holder)));
                waiting.now(format!("waiting for {}{}", ask.domain, by.unwrap_or_default()));
            }
        }
    };
    tokio::join!(alive, tell);
}

/// Waits for a signal that asks to stop, and says which.
async fn interrupted() -> u8 {
    progress::leave_signals();
    let on = |kind| signal(kind).expect("a current-thread runtime can listen for signals");
    let (mut int, mut term, mut hup) =
        (on(SignalKind::interrupt()), on(SignalKind::terminate()), on(SignalKind::hangup()));
    tokio::select! {
        _ = int.recv() => 2,
        _ = term.recv() => 15,
        _ = hup.recv() => 1,
    }
}

/// What is left of an acquire that was not granted, and what to say. The file stays where a grant is possible.
async fn not_granted(
    coordinator: &HttpCoordinator,
    ask: &Ask,
    args: &AcquireArgs,
    kept: &Kept,
    key: &SessionKey,
    locked: &Locked,
    (error, happened): (CallError<Box<AcquireRefusal>>, bool),
) -> Failure {
    let decided = matches!(error, CallError::Refused(_) | CallError::Invalid(_));
    if happened && !decided {
        return failed(Call::Change, &args.url.url, error)
            .ending_in(Exit::Unknown)
            .detail(format!("whether {} was granted is not known; nothing may be started", ask.domain))
            .then("ask again: run the same command")
            .then("give up whatever it got: fencepost release");
    }
    let told = match &error {
        CallError::Refused(refusal) => {
            let option = args.url.option();
            let again = |wait: &str| {
                shell::line("fencepost acquire", &[ask.domain.as_str()], &format!(" --wait {wait}{option}"))
            };
            held(&ask.domain, refusal, &option, args.held_exit_code, again)
        }
        CallError::Invalid(_)
        | CallError::Unavailable { .. }
        | CallError::Unreachable { .. }
        | CallError::Protocol { .. } => None,
    };
    let failure = told.unwrap_or_else(|| failed(Call::Change, &args.url.url, error));
    // The session holds nothing. Where it cannot be ended now, it ends by itself.
    let _ = coordinator.end_session(key).await;
    match locked.remove() {
        Ok(()) => failure,
        Err(_) => failure.detail(format!("the session file of {} could not be removed", kept.asked.domain)),
    }
}

/// Until when the lease may be believed in. Where much of the TTL is gone, one renewal gives the caller a whole one.
///
/// # Errors
/// When it is over by now.
async fn confirm(
    coordinator: &HttpCoordinator,
    ask: &Ask,
    kept: &Kept,
    key: &SessionKey,
    lease: LeaseId,
    answered: &Answered<Granted>,
    sent: Moment,
) -> Result<Moment, Failure> {
    let remaining_ms = answered.answer.acquired.remaining_ms;
    let confirmed = Confirmed { sent, elapsed: answered.elapsed, remaining_ms };
    let deadline = confirmed.deadline(kept.ttl_ms, BootClock.now());
    if remaining_ms >= ask.ttl.as_millis() / 10 * 9 {
        return Ok(deadline);
    }
    let sent = BootClock.now();
    match coordinator.heartbeat(key, Claim::Held(vec![lease])).await {
        Ok(renewed) => {
            let live = renewed.answer.leases.iter().flatten().find(|live| live.lease == lease);
            let live = live.ok_or_else(|| lost_before_hand_over(&ask.domain))?;
            let confirmed = Confirmed { sent, elapsed: renewed.elapsed, remaining_ms: live.remaining_ms };
            Ok(confirmed.deadline(kept.ttl_ms, BootClock.now()))
        }
        Err(CallError::Refused(_)) => Err(lost_before_hand_over(&ask.domain)),
        // The grant's own deadline still holds.
        Err(_) => Ok(deadline),
    }
}

fn lost_before_hand_over(domain: &Domain) -> Failure {
    Failure::new(Exit::Lost, format!("{domain} was granted, and lost before it could be handed over"))
        .then(shell::line("fencepost acquire", &[domain.as_str()], ""))
}
