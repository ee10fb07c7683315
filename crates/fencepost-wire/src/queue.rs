use serde::{Deserialize, Serialize};

use fencepost_core::{
    Domain, Holder, Invalid, SessionId,
    lease::{Filter, QueueView, ReservedKind, WaiterView},
};

use crate::{ListQuery, query};

/// Query of `GET /v1/queue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueQuery {
    /// The domain that is waited for.
    pub domain: Option<String>,
    /// At most this many rows, 1 to 1000; 100 when not named.
    pub limit: Option<u64>,
}

impl QueueQuery {
    /// Reads a query string.
    ///
    /// # Errors
    /// When it has a parameter that is unknown, given twice, malformed or not UTF-8.
    pub fn read(text: &str) -> Result<Self, Invalid> {
        let [domain, limit] = query::read(text, ["domain", "limit"])?;
        let limit = limit.map(|limit| limit.parse().map_err(|_| Invalid::form("limit", "a whole number, 1 to 1000")));
        Ok(Self { domain, limit: limit.transpose()? })
    }

    /// The query string.
    #[must_use]
    pub fn write(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        query::write(&[("domain", self.domain.as_deref()), ("limit", limit.as_deref())])
    }

    /// The domain, and how many rows.
    ///
    /// # Errors
    /// Names the field, the rule and the limit.
    pub fn parse(self) -> Result<(Domain, usize), Invalid> {
        let list = ListQuery { domain: self.domain, limit: self.limit, ..ListQuery::default() };
        match list.parse()? {
            (Filter::Domain(domain), _, limit) => Ok((domain, limit)),
            (Filter::Prefix(_), _, _) => Err(Invalid::form("domain", "given")),
        }
    }
}

/// Who waits for a domain. It has no further pages: the first in line are what matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueList {
    /// The first in line, in their order.
    pub items: Vec<QueueItem>,
    /// Always `null`.
    pub next_cursor: Option<String>,
    /// The domain.
    pub domain: Domain,
    /// How many places there are, those without a row included.
    pub waiting: u32,
    /// How many of them have a connection; the others are passed over.
    pub connected: u32,
    /// Why nobody may have the domain yet, where it is free and reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ReservedKind>,
    /// For how many milliseconds more it is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueItem {
    /// What the waiting process calls itself.
    pub holder: Holder,
    /// Its session, where it has one already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Milliseconds since it came.
    pub waited_ms: u64,
    /// Milliseconds until it gives up; without a connection, until its place is given away.
    pub remaining_ms: u64,
    /// Whether somebody is there to take the grant; if not, the place is passed over.
    pub connected: bool,
}

impl From<QueueView> for QueueList {
    fn from(view: QueueView) -> Self {
        let QueueView { domain, reserved, waiters, waiting, connected } = view;
        let items = waiters.into_iter().map(|waiter| {
            let WaiterView { holder, session, waited_ms, remaining_ms, connected } = waiter;
            QueueItem { holder, session, waited_ms, remaining_ms, connected }
        });
        Self {
            items: items.collect(),
            next_cursor: None,
            domain,
            waiting,
            connected,
            reserved: reserved.map(|(kind, _)| kind),
            remaining_ms: reserved.map(|(_, remaining_ms)| remaining_ms),
        }
    }
}

impl From<QueueList> for QueueView {
    fn from(list: QueueList) -> Self {
        let waiters = list.items.into_iter().map(|item| {
            let QueueItem { holder, session, waited_ms, remaining_ms, connected } = item;
            WaiterView { holder, session, waited_ms, remaining_ms, connected }
        });
        Self {
            domain: list.domain,
            reserved: list.reserved.map(|kind| (kind, list.remaining_ms.unwrap_or_default())),
            waiters: waiters.collect(),
            waiting: list.waiting,
            connected: list.connected,
        }
    }
}
