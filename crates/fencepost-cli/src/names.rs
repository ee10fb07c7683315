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

/// How many rows of a list.
pub(crate) fn rows(typed: &str) -> Result<usize, Invalid> {
    if typed.is_empty() || !typed.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Invalid::form("limit", "a whole number"));
    }
    let (most, found) = (limits::PAGE_MOST, typed.parse().ok());
    let rows = found.and_then(|rows| usize::try_from(rows).ok()).filter(|rows| (1..=most).contains(rows));
    rows.ok_or_else(|| Invalid::new("limit", Rule::Range { least: 1, most: most as u64, found, unit: "rows" }))
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
