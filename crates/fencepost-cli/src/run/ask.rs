//! What was asked for, checked before anything is sent or started.

use std::{ffi::OsString, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, ValueEnum, value_parser};
use fencepost_core::{
    Contract, Domain, Holder, Invalid, Issuer, LockDelay, MaxHold, MinHold, Rule, Ttl, Wait, lease::Terms, limits,
};

use super::{environment, plan::Limits, resource::Resource};
use crate::{
    coordinator::UrlArgs,
    duration::{Typed, refuse_unusable, refused},
    exit::Exit,
    failure::Failure,
    names,
};

/// What to do when another has the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfHeld {
    /// Do not run the command, and exit with 0
    Skip,
    /// Wait until it is free, or as long as --wait says; then exit with 75
    Wait,
    /// Do not run the command, and exit with 75
    Fail,
}

/// Run a command while holding a lease
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  fencepost run nightly -- ./nightly.sh
  fencepost run shop --advance sqlite:shop.db --wait 1m -- ./import
  fencepost run report --if-held skip --min-hold 50m -- ./report        # from cron, on many machines

The command gets FENCEPOST_DOMAIN, FENCEPOST_TOKEN, FENCEPOST_GRANT (the grant as JSON), FENCEPOST_GRANTS (an array \
of all), FENCEPOST_URL and FENCEPOST_DEADLINE; never the session's secret. It is started only on a clear grant. Without \
--advance an older token still works until the new owner's first write (FencedOnFirstWrite); with it it is refused there \
before the command starts (FencedOnAcquire). Several domains are acquired one after the other in the byte order of their \
names, so that no two runs wait for each other in a circle.

When the lease is lost, or may be, every process of the command gets TERM and after --stop-after KILL, in time for \
none of them to run past the end of the lease; then `run` exits 80. It gives the lease back when no process of the \
command lives any more: what the command leaves in the background gets TERM, and KILL after --stop-after. TERM, INT, \
HUP and QUIT are passed on to the command. A coordinator that takes the call and answers nothing is given up 5 seconds \
after --wait (in the queue a third of the TTL, 10 seconds at most), with 69. Where nobody can know whether the command \
was started `run` exits 82. Otherwise it exits with what the command exits with, 128+n where signal n killed it, and \
126 or 127 where it could not be started; see `fencepost help exit-codes`.")]
pub(crate) struct RunArgs {
    /// The domains, e.g. invoices/2026-11; where one begins with -, all of them behind a -- of their own, that one first
    #[arg(required = true, value_name = "DOMAIN")]
    domains: Vec<OsString>,
    /// Raise the fence of this resource before the command starts; may be repeated
    #[arg(long, value_name = "RESOURCE")]
    advance: Vec<OsString>,
    /// What to do when another has the domain [default: fail, or wait where --wait is given]
    #[arg(long, value_name = "WHAT")]
    if_held: Option<IfHeld>,
    /// Wait for at most this long, up to 10m: for the coordinator, and in the queue; then do what --if-held says
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    wait: Option<String>,
    /// How long the lease lives without a heartbeat: 1s to 24h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "15s")]
    ttl: String,
    /// How long the command has to end after TERM [default: a quarter of the TTL, 5s at most]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    stop_after: Option<String>,
    /// End the lease, and the command, this long after the grant; a good part of the TTL, or nothing is left to work in
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    max_hold: Option<String>,
    /// Grant the domain to nobody else before this long after the grant, even when the command has ended
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    min_hold: Option<String>,
    /// After an unclean end, grant the domain to nobody for this long
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    lock_delay: Option<String>,
    /// What the lease is for: safety (a token), admission (who may start) or advisory (an optimisation)
    #[arg(long, default_value = "safety")]
    contract: String,
    /// What to call the holder, for people [default: USER@HOST:PID]
    #[arg(long, value_name = "TEXT")]
    holder: Option<OsString>,
    /// Exit with this instead of 75 when another has the domain
    #[arg(long, value_name = "N", value_parser = names::held_exit_code, allow_hyphen_values = true)]
    held_exit_code: Option<u8>,
    /// Write one line of JSON about what happened to this descriptor
    #[arg(long, value_name = "N", value_parser = names::status_fd, allow_hyphen_values = true)]
    pub(crate) status_fd: Option<u32>,
    #[command(flatten)]
    pub(crate) url: UrlArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How long to wait for a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    For(Duration),
    /// As long as it takes.
    Endless,
}

impl Patience {
    pub(crate) fn longest(self) -> Duration {
        match self {
            Self::For(wait) => wait,
            Self::Endless => Duration::MAX,
        }
    }
}

/// Whether a command can be told of all grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fits {
    Surely,
    /// Only where the issuer's name is short enough.
    WithAShortIssuer,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Ask {
    /// In byte order, each once.
    pub(crate) domains: Vec<Domain>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) is_skipped_when_held: bool,
    pub(crate) patience: Patience,
    pub(crate) ttl: Ttl,
    pub(crate) limits: Limits,
    pub(crate) terms: Terms,
    pub(crate) contract: Contract,
    pub(crate) holder: Holder,
    pub(crate) held_exit_code: Option<u8>,
    pub(crate) url: UrlArgs,
    pub(crate) command: Vec<OsString>,
}

impl Ask {
    /// # Errors
    /// Names the argument with its rule.
    pub(crate) fn parse(args: RunArgs) -> Result<Self, Failure> {
        let ttl = Ttl::typed(&args.ttl)?;
        let terms = Terms {
            max_hold: args.max_hold.as_deref().map(MaxHold::typed).transpose()?,
            min_hold: args.min_hold.as_deref().map(MinHold::typed).transpose()?,
            lock_delay: args.lock_delay.as_deref().map(LockDelay::typed).transpose()?,
            ..Terms::default()
        };
        let contract: Contract = args.contract.parse()?;
        if contract != Contract::Safety && !args.advance.is_empty() {
            let what = format!("--advance needs a token, and contract {contract} has none");
            return Err(Failure::new(Exit::Usage, what).then("leave out --contract, or --advance"));
        }
        let limits = stopping(args.stop_after.as_deref(), ttl, terms.max_hold)?;
        refuse_unusable(terms.max_hold, ttl, |shortest_ms| {
            // An unusable grace is refused by itself, so that what is typed fits here.
            let stop_after = args.stop_after.as_ref().map(|_| limits.stop_after_ms);
            Limits::new(stop_after.unwrap_or(usual_grace(shortest_ms)), shortest_ms).least_ms()
        })?;
        let wait = args.wait.as_deref().map(Wait::typed).transpose()?.map(Wait::get);
        let if_held = args.if_held.unwrap_or(if wait.is_some() { IfHeld::Wait } else { IfHeld::Fail });
        let resources = args.advance.iter().map(|typed| Resource::parse(typed)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            domains: domains(&args.domains)?,
            resources,
            is_skipped_when_held: if_held == IfHeld::Skip,
            patience: match (wait, if_held) {
                (Some(wait), _) => Patience::For(wait),
                (None, IfHeld::Wait) => Patience::Endless,
                (None, IfHeld::Skip | IfHeld::Fail) => Patience::For(Duration::ZERO),
            },
            limits,
            ttl,
            terms,
            contract,
            holder: names::holder_is(args.holder.as_deref(), std::process::id())?,
            held_exit_code: args.held_exit_code,
            url: args.url,
            command: args.command,
        })
    }

    /// Refuses more domains than a command can be told of, before any of them is acquired: what is too many whoever the
    /// issuer is.
    ///
    /// # Errors
    /// Names the domains with their limit.
    pub(crate) fn refuse_too_many(&self) -> Result<Fits, Failure> {
        let named = |name: &str| Issuer::new(name).expect("it is within the limits of an issuer");
        // A quotation mark takes two bytes in JSON.
        let longest = named(&"\"".repeat(limits::ISSUER_BYTES));
        if self.refuse_too_many_of(&longest).is_ok() {
            return Ok(Fits::Surely);
        }
        self.refuse_too_many_of(&named("i")).map(|()| Fits::WithAShortIssuer)
    }

    /// The same once the issuer is known.
    ///
    /// # Errors
    /// Names the domains with their limit.
    pub(crate) fn refuse_too_many_of(&self, issuer: &Issuer) -> Result<(), Failure> {
        let found = environment::grants_bytes(&self.domains, issuer);
        let fits = self.contract != Contract::Safety || found <= environment::GRANTS_BYTES;
        if fits { Ok(()) } else { Err(too_many(found)) }
    }

    /// What is left of a typed line when somebody wants to wait.
    pub(crate) fn again(&self, wait: &str) -> String {
        let domains: Vec<&str> = self.domains.iter().map(Domain::as_str).collect();
        let options = format!(" --wait {wait}{}", self.url.option());
        format!("{} -- …", crate::shell::line("fencepost run", &domains, &options))
    }
}

/// By which option the domains come to the parser that stand behind dashes of their own. Nobody is to type it, so only
/// the parser of such a line has it.
const DASHED: &str = "behind-dashes";

/// The parser of what [`with_dashed_domains`] gives.
pub(crate) fn taking_dashed_domains(whole: Command) -> Command {
    let names =
        Arg::new(DASHED).long(DASHED).hide(true).action(ArgAction::Append).value_parser(value_parser!(OsString));
    // Made of its own words: those of the whole are made only when it parses. An argument that is changed becomes the last
    // one, so both are changed, in their order.
    let run = RunArgs::augment_args(Command::new("run"));
    let run = run.mut_arg("domains", |domains| domains.required(false)).mut_arg("command", |command| command);
    whole.mut_subcommand("run", |_| run.arg(names))
}

impl RunArgs {
    /// Takes in what that parser has found, if it was that one.
    pub(crate) fn take_dashed_domains(&mut self, whole: &ArgMatches) {
        let run = whole.subcommand_matches("run");
        let names = run.and_then(|run| run.try_get_many::<OsString>(DASHED).ok().flatten());
        self.domains.extend(names.into_iter().flatten().cloned());
    }
}

/// `run [OPTION]… -- -DOMAIN [DOMAIN]… -- COMMAND`, as the parser takes it: for it everything behind the first dashes is
/// the command. `None` for every other line. Only a name that begins with a dash says that names are meant, for no
/// command is called so.
pub(crate) fn with_dashed_domains(typed: &[OsString]) -> Option<Vec<OsString>> {
    let is_dashes = |word: &OsString| word == "--";
    let first = typed.iter().position(is_dashes)?;
    let (options, rest) = (&typed[..first], &typed[first + 1..]);
    let second = rest.iter().position(is_dashes)?;
    let (names, command) = rest.split_at(second);
    let is_meant = names.first().is_some_and(|name| name.as_encoded_bytes().starts_with(b"-"));
    if !is_meant || !options.iter().any(|word| word == "run") {
        return None;
    }
    let named = names.iter().map(|name| {
        let mut word = OsString::from(format!("--{DASHED}="));
        word.push(name);
        word
    });
    Some(options.iter().cloned().chain(named).chain(command.iter().cloned()).collect())
}

/// The line that somebody meant who has typed the command of `run` without the dashes before it.
pub(crate) fn without_dashes(typed: &[OsString]) -> Option<String> {
    let words: Vec<String> = typed.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let (name, rest) = words.split_first()?;
    if name != "run" || rest.iter().any(|word| word == "--") {
        return None;
    }
    // An option stays as it was typed: quoting it would hide that it is one.
    let word = |word: &String| match word.strip_prefix('-') {
        Some(option) if option == crate::shell::word(option) => word.clone(),
        Some(_) | None => crate::shell::word(word),
    };
    let quoted = |words: &[String]| words.iter().map(word).collect::<Vec<_>>().join(" ");
    match rest {
        [domain, command, ..] if !domain.starts_with('-') && !command.starts_with('-') => {
            Some(format!("fencepost run {} -- {}", quoted(&rest[..1]), quoted(&rest[1..])))
        }
        _ => Some("fencepost run DOMAIN… [OPTIONS] -- COMMAND, with the command behind `--`".to_owned()),
    }
}

fn too_many(found: usize) -> Failure {
    let (most, unit) = (environment::GRANTS_BYTES as u64, "bytes of FENCEPOST_GRANTS");
    let failure: Failure =
        Invalid::new("domains", Rule::Range { least: 1, most, found: Some(found as u64), unit }).into();
    failure
        .detail("the command gets all grants in that variable, and the system gives a variable no more; nothing was acquired")
        .then_only("name fewer domains, or a domain for all of them: fencepost help run")
}

fn domains(typed: &[OsString]) -> Result<Vec<Domain>, Failure> {
    let mut domains = typed.iter().map(|typed| names::domain(typed)).collect::<Result<Vec<_>, _>>()?;
    // Whoever takes several in one order never waits for somebody who waits for them.
    domains.sort_by(|a, b| a.as_str().as_bytes().cmp(b.as_str().as_bytes()));
    match domains.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::new(Exit::Usage, format!("domain {:?} is named twice", pair[0].as_str()))
            .then("name every domain once")),
        None => Ok(domains),
    }
}

/// The grace between TERM and KILL. It has to leave time for heartbeats: half of what a renewal gives at most.
fn stopping(typed: Option<&str>, ttl: Ttl, max_hold: Option<MaxHold>) -> Result<Limits, Failure> {
    let shortest_ms = max_hold.map_or(u64::MAX, MaxHold::as_millis).min(ttl.as_millis());
    let stop_after_ms = match typed {
        None => usual_grace(shortest_ms),
        Some(typed) => {
            let StopAfter(ms) = StopAfter::typed(typed)?;
            let most = shortest_ms / 2;
            if ms > most {
                let rule = Rule::Range { least: 0, most, found: Some(ms), unit: "ms" };
                return Err(refused::<StopAfter>(typed, &Invalid::new(StopAfter::FIELD, rule)));
            }
            ms
        }
    };
    Ok(Limits::new(stop_after_ms, shortest_ms))
}

fn usual_grace(shortest_ms: u64) -> u64 {
    (shortest_ms / 4).min(5_000)
}

struct StopAfter(u64);

impl Typed for StopAfter {
    const OPTION: &'static str = "--stop-after";
    const FIELD: &'static str = "stop_after_ms";

    fn from_ms(ms: u64) -> Result<Self, Invalid> {
        Ok(Self(ms))
    }
}

/// The longest wait of one call that fits into what is left.
pub(crate) fn one_wait(left: Duration) -> Wait {
    let ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(limits::WAIT_MOST_MS);
    Wait::from_millis(ms).expect("it is within the limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ttl(ms: u64) -> Ttl {
        Ttl::from_millis(ms).unwrap()
    }

    #[test]
    fn the_grace_is_a_quarter_of_the_shortest_time_and_five_seconds_at_most() {
        assert_eq!(stopping(None, ttl(15_000), None).unwrap().stop_after_ms, 3_750);
        assert_eq!(stopping(None, ttl(60_000), None).unwrap().stop_after_ms, 5_000);
        assert_eq!(stopping(Some("0s"), ttl(1_000), None).unwrap().stop_after_ms, 0);
    }

    #[test]
    fn a_grace_that_leaves_no_time_for_heartbeats_is_refused() {
        assert_eq!(stopping(Some("7500ms"), ttl(15_000), None).unwrap().stop_after_ms, 7_500);
        let refused = stopping(Some("8s"), ttl(15_000), None).unwrap_err().json();
        assert_eq!(refused["what"], "--stop-after: must be 0s to 7500ms, found 8s");
        assert!(stopping(Some("8"), ttl(15_000), None).is_err());
    }

    #[test]
    fn domains_are_taken_in_byte_order_and_each_once() {
        let typed = |names: &[&str]| domains(&names.iter().map(OsString::from).collect::<Vec<_>>());
        let sorted = typed(&["b", "Z", "a"]).unwrap();
        assert_eq!(sorted.iter().map(Domain::as_str).collect::<Vec<_>>(), ["Z", "a", "b"]);
        assert!(typed(&["a", "b", "a"]).is_err());
    }
}
