use serde::{Deserialize, Serialize};

use fencepost_core::{
    Contract, Domain, Holder, Invalid, LeaseId, Metadata, Rule, SessionId, Token,
    lease::{Filter, LeaseView, Page},
    limits,
};

use crate::{Malformed, query};

/// Query of `GET /v1/leases`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only the lease on this domain.
    pub domain: Option<String>,
    /// Only leases on domains that start with this.
    pub prefix: Option<String>,
    /// At most this many rows, 1 to 1000; 100 when not named.
    pub limit: Option<u64>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl ListQuery {
    /// Reads a query string.
    ///
    /// # Errors
    /// When it has a parameter that is unknown, given twice, malformed or not UTF-8.
    pub fn read(query: &str) -> Result<Self, Invalid> {
        let [domain, prefix, limit, cursor] = query::read(query, ["domain", "prefix", "limit", "cursor"])?;
        let limit = limit.map(|limit| limit.parse().map_err(|_| Invalid::form("limit", "a whole number, 1 to 1000")));
        Ok(Self { domain, prefix, limit: limit.transpose()?, cursor })
    }

    /// The query string.
    #[must_use]
    pub fn write(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        query::write(&[
            ("domain", self.domain.as_deref()),
            ("prefix", self.prefix.as_deref()),
            ("limit", limit.as_deref()),
            ("cursor", self.cursor.as_deref()),
        ])
    }

    /// What to send.
    #[must_use]
    pub fn new(filter: &Filter, after: Option<&Domain>, limit: usize) -> Self {
        let (domain, prefix) = match filter {
            Filter::Domain(domain) => (Some(domain.as_str().to_owned()), None),
            Filter::Prefix(prefix) => (None, (!prefix.is_empty()).then(|| prefix.clone())),
        };
        Self { domain, prefix, limit: Some(limit as u64), cursor: after.map(cursor) }
    }

    /// What was asked for: which leases, after which domain, how many.
    ///
    /// # Errors
    /// Names the field, the rule and the limit.
    pub fn parse(self) -> Result<(Filter, Option<Domain>, usize), Invalid> {
        let filter = match (self.domain, self.prefix) {
            (Some(_), Some(_)) => return Err(Invalid::form("domain", "left out where prefix is given")),
            (Some(domain), None) => Filter::Domain(Domain::new(&domain)?),
            (None, prefix) => Filter::Prefix(prefix.map_or(Ok(String::new()), parse_prefix)?),
        };
        let after = self.cursor.as_deref().map(parse_cursor).transpose()?;
        Ok((filter, after, self.limit.map_or(Ok(limits::PAGE_DEFAULT), parse_limit)?))
    }
}

/// Query of the calls that take nothing but a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixQuery {
    /// Only domains that start with this.
    pub prefix: Option<String>,
}

impl PrefixQuery {
    /// Reads a query string.
    ///
    /// # Errors
    /// When it has a parameter that is unknown, given twice, malformed or not UTF-8.
    pub fn read(query: &str) -> Result<Self, Invalid> {
        let [prefix] = query::read(query, ["prefix"])?;
        Ok(Self { prefix })
    }

    /// The query string.
    #[must_use]
    pub fn write(&self) -> String {
        query::write(&[("prefix", self.prefix.as_deref())])
    }

    /// The prefix; empty for all.
    ///
    /// # Errors
    /// When no domain can start with it.
    pub fn parse(self) -> Result<String, Invalid> {
        self.prefix.map_or(Ok(String::new()), parse_prefix)
    }
}

/// A prefix is the start of a domain, so what cannot start one is a mistake and not an empty list.
fn parse_prefix(prefix: String) -> Result<String, Invalid> {
    if !prefix.is_empty() {
        Domain::new(&prefix).map_err(|invalid| invalid.named("prefix"))?;
    }
    Ok(prefix)
}

fn parse_limit(limit: u64) -> Result<usize, Invalid> {
    let most = limits::PAGE_MOST;
    usize::try_from(limit).ok().filter(|limit| (1..=most).contains(limit)).ok_or_else(|| {
        let rule = Rule::Range { least: 1, most: most as u64, found: Some(limit), unit: "rows" };
        Invalid::new("limit", rule)
    })
}

/// Clients are to treat a cursor as opaque, so it does not look like a domain that could be edited.
fn cursor(after: &Domain) -> String {
    use std::fmt::Write as _;

    after.as_str().bytes().fold(String::from("d1"), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

fn parse_cursor(text: &str) -> Result<Domain, Invalid> {
    let malformed = || Invalid::form("cursor", "the next_cursor of an earlier page");
    let digits = text.strip_prefix("d1").filter(|digits| digits.len() % 2 == 0).ok_or_else(malformed)?;
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| !text.starts_with('+'))?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes = digits.as_bytes().chunks_exact(2).map(pair).collect::<Option<Vec<u8>>>().ok_or_else(malformed)?;
    let domain = String::from_utf8(bytes).map_err(|_| malformed())?;
    Domain::new(&domain).map_err(|_| malformed())
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseList {
    /// The rows, in byte order of their domains.
    pub items: Vec<LeaseItem>,
    /// What to send as `cursor` for the next page; `null` on the last.
    pub next_cursor: Option<String>,
}

/// A live lease, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseItem {
    /// The lease.
    pub lease: LeaseId,
    /// Its domain.
    pub domain: Domain,
    /// Its contract.
    pub contract: Contract,
    /// Its token, under contract `safety` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The public id of the session that holds it.
    pub session: SessionId,
    /// What the holder calls itself.
    pub holder: Holder,
    /// Milliseconds since the grant.
    pub held_ms: u64,
    /// Milliseconds until its end unless it is renewed.
    pub remaining_ms: u64,
    /// How many holds it has.
    pub holds: u32,
    /// How many places there are in the queue of the domain, those without a connection included.
    pub queue: u32,
    /// What its holder wants to be shown.
    pub metadata: Metadata,
}

impl From<Page> for LeaseList {
    fn from(page: Page) -> Self {
        Self {
            items: page.rows.into_iter().map(LeaseItem::from).collect(),
            next_cursor: page.next.as_ref().map(cursor),
        }
    }
}

impl TryFrom<LeaseList> for Page {
    type Error = Malformed;

    fn try_from(list: LeaseList) -> Result<Self, Malformed> {
        let next = list.next_cursor.as_deref().map(parse_cursor).transpose();
        let next = next.map_err(|invalid| Malformed::from(invalid.named("next_cursor")))?;
        Ok(Self { rows: list.items.into_iter().map(LeaseView::from).collect(), next })
    }
}

impl From<LeaseView> for LeaseItem {
    fn from(view: LeaseView) -> Self {
        let LeaseView {
            lease,
            domain,
            contract,
            token,
            session,
            holder,
            held_ms,
            remaining_ms,
            holds,
            queue,
            metadata,
        } = view;
        Self { lease, domain, contract, token, session, holder, held_ms, remaining_ms, holds, queue, metadata }
    }
}

impl From<LeaseItem> for LeaseView {
    fn from(item: LeaseItem) -> Self {
        let LeaseItem {
            lease,
            domain,
            contract,
            token,
            session,
            holder,
            held_ms,
            remaining_ms,
            holds,
            queue,
            metadata,
        } = item;
        Self { lease, domain, contract, token, session, holder, held_ms, remaining_ms, holds, queue, metadata }
    }
}
