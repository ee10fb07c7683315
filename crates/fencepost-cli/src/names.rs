//! Names as they are typed. The command line takes any bytes; the rules are those of the vocabulary, so that API,
//! library and command line refuse the same names in the same words.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs,
};

use fencepost_core::{Domain, Holder, Invalid, LeaseId, Metadata, Reason, Rule, limits};

fn text<'a>(field: &'static str, typed: &'a OsStr) -> Result<&'a str, Invalid> {
    typed.to_str().ok_or_else(|| Invalid::form(field, "UTF-8"))
}

pub(crate) fn domain(typed: &OsStr) -> Result<Domain, Invalid> {
    Domain::new(text("domain", typed)?)
}

/// What a domain may start with.
pub(crate) fn prefix(typed: &OsStr) -> Result<String, Invalid> {
    let text = text("prefix", typed)?;
    if !text.is_empty() {
        Domain::new(text).map_err(|invalid| invalid.named("prefix"))?;
    }
    Ok(text.to_owned())
}

pub(crate) fn reason(typed: &OsStr) -> Result<Reason, Invalid> {
    Reason::new(text("reason", typed)?)
}

pub(crate) fn lease(typed: &OsStr) -> Result<LeaseId, Invalid> {
    text("lease", typed)?.parse()
}

/// A whole number with its limits. A sign is none of its digits, so what has one is refused in words that name the limits.
struct Whole {
    field: &'static str,
    form: &'static str,
    least: u64,
    most: u64,
    unit: &'static str,
}

impl Whole {
    fn read<T: TryFrom<u64>>(&self, typed: &str) -> Result<T, Invalid> {
        let Self { field, form, least, most, unit } = *self;
        if typed.is_empty() || !typed.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Invalid::form(field, form));
        }
        let found = typed.parse().ok();
        let number = found.filter(|number| (least..=most).contains(number)).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| Invalid::new(field, Rule::Range { least, most, found, unit }))
    }
}

/// How many rows of a list.
pub(crate) fn rows(typed: &str) -> Result<usize, Invalid> {
    let form = "a whole number of rows, 1 to 1000";
    Whole { field: "limit", form, least: 1, most: limits::PAGE_MOST as u64, unit: "rows" }.read(typed)
}

/// The number to exit with where another has the domain.
pub(crate) fn held_exit_code(typed: &str) -> Result<u8, Invalid> {
    Whole { field: "held_exit_code", form: "a whole number, 1 to 255", least: 1, most: 255, unit: "" }.read(typed)
}

/// A descriptor.
pub(crate) fn status_fd(typed: &str) -> Result<u32, Invalid> {
    let most = i32::MAX.unsigned_abs().into();
    Whole { field: "status_fd", form: "a whole number, 0 to 2147483647", least: 0, most, unit: "" }.read(typed)
}

/// An epoch.
pub(crate) fn epoch(typed: &str) -> Result<u32, Invalid> {
    let most = (1 << limits::EPOCH_BITS) - 1;
    Whole { field: "epoch", form: "a whole number, 0 to 1048575", least: 0, most, unit: "" }.read(typed)
}

/// How often something is done at one time.
pub(crate) fn rounds(typed: &str) -> Result<u32, Invalid> {
    Whole { field: "rounds", form: "a whole number, 1 to 1000", least: 1, most: 1_000, unit: "" }.read(typed)
}

/// How many events are waited for.
pub(crate) fn count(typed: &str) -> Result<u64, Invalid> {
    let form = "a whole number of events, at least 1";
    Whole { field: "count", form, least: 1, most: u64::MAX, unit: "events" }.read(typed)
}

/// Who is holding: the user, the machine and the process that typed the command, unless it is said.
pub(crate) fn holder(typed: Option<&OsStr>) -> Result<Holder, Invalid> {
    // The command itself is gone when the lease is used; what called it is what holds.
    holder_is(typed, std::os::unix::process::parent_id())
}

/// Who is holding: the user, the machine and this process, unless it is said.
pub(crate) fn holder_is(typed: Option<&OsStr>, process: u32) -> Result<Holder, Invalid> {
    if let Some(typed) = typed {
        return Holder::new(text("holder", typed)?);
    }
    let user = env::var("USER").unwrap_or_else(|_| format!("uid{}", rustix::process::getuid().as_raw()));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "localhost" } else { host };
    Holder::new(&format!("{user}@{host}:{process}"))
}

/// `name=value` pairs.
pub(crate) fn metadata(typed: &[OsString]) -> Result<Metadata, Invalid> {
    let mut entries = BTreeMap::new();
    for pair in typed {
        let (name, value) = text("metadata", pair)?
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Invalid::form("metadata", "name=value"))?;
        if entries.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Invalid::form("metadata", "without a name given twice"));
        }
    }
    let sent = serde_json::to_string(&entries).expect("a map of strings is JSON");
    Metadata::new(entries, sent.len())
}
