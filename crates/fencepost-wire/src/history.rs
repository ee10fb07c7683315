use serde::{Deserialize, Serialize};

use fencepost_coordinator::{HistoryNumber, HistoryPage, HistoryQuery};
use fencepost_core::{Invalid, Token};

use crate::{LeaseData, ListQuery, event::EventData, event_data, instant::rfc3339, query};

/// Query of `GET /v1/history`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryListQuery {
    /// Domain or prefix, and how many entries, as for leases. The cursor is another kind.
    pub list: ListQuery,
    /// Only what this token was granted, burned or ended under: decimal, or `epoch.sequence`.
    pub token: Option<String>,
}

impl HistoryListQuery {
    /// Reads a query string.
    ///
    /// # Errors
    /// When it has a parameter that is unknown, given twice, malformed or not UTF-8.
    pub fn read(text: &str) -> Result<Self, Invalid> {
        let [domain, prefix, limit, cursor, token] =
            query::read(text, ["domain", "prefix", "limit", "cursor", "token"])?;
        let limit = limit.map(|limit| limit.parse().map_err(|_| Invalid::form("limit", "a whole number, 1 to 1000")));
        Ok(Self { list: ListQuery { domain, prefix, limit: limit.transpose()?, cursor }, token })
    }

    /// What to send.
    #[must_use]
    pub fn new(asked: &HistoryQuery) -> Self {
        let list = ListQuery { cursor: asked.before.map(cursor), ..ListQuery::new(&asked.filter, None, asked.limit) };
        Self { list, token: asked.token.map(Token::to_decimal) }
    }

    /// The query string.
    #[must_use]
    pub fn write(&self) -> String {
        let list = self.list.write();
        let token = query::write(&[("token", self.token.as_deref())]);
        [list, token].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&")
    }

    /// What was asked for.
    ///
    /// # Errors
    /// Names the field, the rule and the limit.
    pub fn parse(self) -> Result<HistoryQuery, Invalid> {
        let before = self.list.cursor.as_deref().map(parse_history_cursor).transpose()?;
        let token = self.token.map(|token| token.parse()).transpose()?;
        let (filter, _, limit) = ListQuery { cursor: None, ..self.list }.parse()?;
        Ok(HistoryQuery { filter, token, before, limit })
    }
}

fn cursor(before: HistoryNumber) -> String {
    format!("h{:x}.{:x}", before.commit, before.place)
}

/// Where a page of the history starts, by the `next_cursor` of the page before.
///
/// # Errors
/// When it is none.
pub fn parse_history_cursor(text: &str) -> Result<HistoryNumber, Invalid> {
    let number = || {
        let (commit, place) = text.strip_prefix('h')?.split_once('.')?;
        let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if !is_plain(commit) || !is_plain(place) {
            return None;
        }
        let commit = u64::from_str_radix(commit, 16).ok()?;
        Some(HistoryNumber { commit, place: u32::from_str_radix(place, 16).ok()? })
    };
    number().ok_or_else(|| Invalid::form("cursor", "the next_cursor of an earlier page"))
}

/// A page of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryList {
    /// The entries, the newest first.
    pub items: Vec<HistoryItem>,
    /// What to send as `cursor` for older ones; `null` on the last page.
    pub next_cursor: Option<String>,
}

/// Something that happened and became durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryItem {
    /// Its place among all, the same at every look.
    pub id: String,
    /// About when, RFC 3339, for display only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// `granted`, `released`, `expired`, `revoked` or `recovered`.
    pub event: String,
    /// The lease. A grant has no `waited_ms` here.
    #[serde(flatten)]
    pub lease: LeaseData,
}

impl From<HistoryPage> for HistoryList {
    fn from(page: HistoryPage) -> Self {
        let items = page.entries.into_iter().filter_map(|entry| {
            let (event, data) = event_data(&entry.event);
            let lease = match data {
                EventData::Lease(lease) => LeaseData { waited_ms: None, ..lease },
                EventData::Rejected(_) | EventData::Epoch { .. } | EventData::Gap { .. } => return None,
            };
            let at = entry.unix_ms.map(rfc3339);
            Some(HistoryItem { id: cursor(entry.number), at, event: event.to_owned(), lease })
        });
        Self { items: items.collect(), next_cursor: page.next.map(cursor) }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::{Domain, lease::Filter};

    use super::*;

    #[test]
    fn a_query_is_read_as_it_was_written() {
        let asked = HistoryQuery {
            filter: Filter::Domain(Domain::new("a&b=c%20+/é").unwrap()),
            token: Some("8016.3".parse().unwrap()),
            before: Some(HistoryNumber { commit: 0x1f, place: 10 }),
            limit: 1_000,
        };
        let written = HistoryListQuery::new(&asked).write();
        assert!(written.ends_with("&cursor=h1f.a&token=70509481666019331"), "{written}");
        assert_eq!(HistoryListQuery::read(&written).unwrap().parse().unwrap(), asked);
        for cursor in ["", "h", "h1", "h1.", "h.1", "h+1.0", "h1.100000000", "d161", "h1.0 "] {
            let refused = parse_history_cursor(cursor);
            assert!(refused.is_err(), "{cursor:?}: {refused:?}");
        }
        for query in ["limit=0", "limit=1001", "token=0", "token=1.5.2", "domain=a&prefix=b", "since=1", "domain=%00"] {
            assert!(HistoryListQuery::read(query).and_then(HistoryListQuery::parse).is_err(), "{query}");
        }
    }
}
