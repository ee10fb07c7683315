use serde::{Deserialize, Serialize};

use fencepost_core::{BootId, Domain, Epoch, Issuer, Token, fence::LiveLease, lease::LiveSnapshot};

use crate::{Malformed, decode};

/// The first line of `GET /v1/leases/snapshot`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    issuer: Issuer,
    next_token: Option<Token>,
    epoch: Epoch,
    boot: BootId,
}

/// A line for a live lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    domain: Domain,
    token: Token,
}

/// The last line. Without it the snapshot was cut and is not to be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    end: bool,
}

/// The lines of a snapshot, one JSON object each, with their line ends.
pub fn snapshot_lines(snapshot: LiveSnapshot) -> impl Iterator<Item = String> + Send {
    let LiveSnapshot { issuer, next_token, epoch, boot, leases } = snapshot;
    let header = line(&Header { issuer, next_token, epoch, boot });
    let rows = leases.into_iter().map(|LiveLease { domain, token }| line(&Line { domain, token }));
    std::iter::once(header).chain(rows).chain(std::iter::once(line(&End { end: true })))
}

fn line(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).expect("a struct of strings and numbers is JSON");
    text.push('\n');
    text
}

/// Reads a whole snapshot.
///
/// # Errors
/// When it was cut, goes on behind its end, is out of order, or a line is not understood. A cut snapshot is refused
/// because a lease that is missing from it would be treated as ended.
pub fn parse_snapshot(body: &[u8]) -> Result<LiveSnapshot, Malformed> {
    let body = body.strip_suffix(b"\n").ok_or_else(cut)?;
    let mut lines = body.split(|byte| *byte == b'\n');
    let Header { issuer, next_token, epoch, boot } = decode(lines.next().unwrap_or_default())?;
    let mut leases: Vec<LiveLease> = Vec::new();
    let mut ended = false;
    for text in lines {
        if ended {
            return Err(Malformed::new("end", "is followed by more lines"));
        }
        match decode::<Line>(text) {
            Ok(Line { domain, token }) => {
                if leases.last().is_some_and(|last| last.domain >= domain) {
                    return Err(Malformed::new("domain", "is out of order"));
                }
                if next_token.is_some_and(|next| token >= next) {
                    return Err(Malformed::new("token", "is not below next_token"));
                }
                leases.push(LiveLease { domain, token });
            }
            Err(why) => match decode::<End>(text) {
                Ok(End { end: true }) => ended = true,
                Ok(End { end: false }) | Err(_) => return Err(why),
            },
        }
    }
    if ended { Ok(LiveSnapshot { issuer, next_token, epoch, boot, leases }) } else { Err(cut()) }
}

fn cut() -> Malformed {
    Malformed::new("end", "is missing: the snapshot was cut")
}
