//! What was promised, what was seen, and whether they agree.

use std::fmt;

use fencepost_core::{Token, fence::RejectedBy};
use serde::Serialize;

use super::script::Actor;

/// What the design promises for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// A lease, with a token above every earlier one of the domain.
    Granted,
    Applied,
    /// Nothing new happened, and this is the result of the first time.
    Replayed(&'static str),
    /// Refused, because of the fence at this actor's token.
    Stale {
        fenced_by: Actor,
    },
    OperationConflict,
    RefusedByGuard,
    /// The database file has not changed by one byte.
    Untouched,
    Amount(i64),
    LostUpdates(i64),
    /// No lease: this actor has it.
    HeldBy(Actor),
    /// The worker's own lease is held.
    StillHeld,
    /// A worker whose domain is another's by now knows that it has lost its lease.
    LeaseLost,
}

/// What a step got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Granted(Token),
    HeldBy(String),
    Applied,
    Replayed(String),
    Stale {
        presented: Token,
        least_accepted: Token,
        by: RejectedBy,
    },
    /// Any other rejection, by its code.
    Rejected(String),
    RefusedByGuard,
    /// A plain statement went through and changed this many rows.
    NotRefused(usize),
    /// A plain statement failed for a reason of its own.
    SqlFailed(String),
    Untouched,
    Changed,
    Amount(i64),
    LostUpdates(i64),
    StillHeld,
    LeaseLost(String),
}

/// The tokens that the promises of a scene speak of.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens(Vec<(Actor, Token)>);

impl Tokens {
    /// Takes note of a grant. Whether it is above all that were granted before.
    pub(super) fn granted(&mut self, actor: Actor, token: Token) -> bool {
        let rises = self.0.iter().all(|(_, earlier)| *earlier < token);
        self.0.push((actor, token));
        rises
    }

    /// What the actor was granted last.
    pub(super) fn of(&self, actor: Actor) -> Option<Token> {
        self.0.iter().rev().find(|(other, _)| *other == actor).map(|(_, token)| *token)
    }
}

impl Promise {
    /// Whether it was kept. `by` is who wrote or asked; a grant's token is to be noted after this.
    pub(super) fn is_kept(self, seen: &Seen, by: Option<Actor>, tokens: &Tokens) -> bool {
        match (self, seen) {
            (Self::Granted, Seen::Granted(token)) => tokens.clone().granted(by.unwrap_or(Actor::A), *token),
            (Self::Applied, Seen::Applied)
            | (Self::RefusedByGuard, Seen::RefusedByGuard)
            | (Self::Untouched, Seen::Untouched)
            | (Self::StillHeld, Seen::StillHeld) => true,
            (Self::LeaseLost, Seen::LeaseLost(_)) => true,
            (Self::OperationConflict, Seen::Rejected(code)) => code == "operation_conflict",
            (Self::Replayed(result), Seen::Replayed(recorded)) => result == recorded,
            (Self::Stale { fenced_by }, Seen::Stale { presented, least_accepted, by: RejectedBy::Fence }) => {
                tokens.of(fenced_by) == Some(*least_accepted) && by.and_then(|by| tokens.of(by)) == Some(*presented)
            }
            (Self::Amount(promised), Seen::Amount(found)) | (Self::LostUpdates(promised), Seen::LostUpdates(found)) => {
                promised == *found
            }
            (Self::HeldBy(actor), Seen::HeldBy(holder)) => holder == actor.as_str(),
            _ => false,
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Applied => f.write_str("Applied"),
            Self::Replayed(result) => write!(f, "Replayed: {result}"),
            Self::Stale { .. } => f.write_str("Rejected: Stale"),
            Self::OperationConflict => f.write_str("Rejected: OperationConflict"),
            Self::RefusedByGuard => f.write_str("refused by the guard"),
            Self::Untouched => f.write_str("not a byte changed"),
            Self::Amount(amount) => write!(f, "{amount}"),
            Self::LostUpdates(count) => write!(f, "{count} lost"),
            Self::HeldBy(actor) => write!(f, "held by {actor}"),
            Self::StillHeld => f.write_str("held"),
            Self::LeaseLost => f.write_str("lost"),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted(_) => f.write_str("granted"),
            Self::HeldBy(holder) => write!(f, "held by {holder}"),
            Self::Applied => f.write_str("Applied"),
            Self::Replayed(result) => write!(f, "Replayed: {result}"),
            Self::Stale { .. } => f.write_str("Rejected: Stale"),
            Self::Rejected(code) => write!(f, "Rejected: {}", camel(code)),
            Self::RefusedByGuard => f.write_str("refused by the guard"),
            Self::NotRefused(rows) => write!(f, "{rows} rows changed"),
            Self::SqlFailed(why) => write!(f, "failed: {why}"),
            Self::Untouched => f.write_str("not a byte changed"),
            Self::Changed => f.write_str("changed"),
            Self::Amount(amount) => write!(f, "{amount}"),
            Self::LostUpdates(count) => write!(f, "{count} lost"),
            Self::StillHeld => f.write_str("held"),
            Self::LeaseLost(_) => f.write_str("lost"),
        }
    }
}

/// The name of a rejection as the docs write it.
pub(super) fn camel(code: &str) -> String {
    code.split('_').filter_map(|word| word.split_at_checked(1)).map(|(head, tail)| head.to_uppercase() + tail).collect()
}

/// One promise of the script and what became of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Checked {
    pub(super) act: u8,
    pub(super) claim: &'static str,
    pub(super) promised: String,
    pub(super) seen: String,
    pub(super) kept: bool,
}

/// A row of the table: neighbours that claim the same and came to the same are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// `None` for what is promised throughout.
    pub(super) act: Option<u8>,
    pub(super) claim: &'static str,
    pub(super) promised: String,
    pub(super) seen: String,
    pub(super) kept: bool,
    pub(super) times: usize,
}

/// What is promised `throughout` comes first, once, whatever the act.
pub(super) fn rows(checked: &[Checked], throughout: &[&str]) -> Vec<Row> {
    let (general, special): (Vec<_>, Vec<_>) = checked.iter().partition(|checked| throughout.contains(&checked.claim));
    let mut general_rows: Vec<Row> = Vec::new();
    for checked in general {
        add(&mut general_rows, None, checked, usize::MAX);
    }
    let mut rows: Vec<Row> = Vec::new();
    for checked in special {
        add(&mut rows, Some(checked.act), checked, 1);
    }
    general_rows.extend(rows);
    general_rows
}

/// Counts it in a row that says the same, among the last ones, or adds a row.
fn add(rows: &mut Vec<Row>, act: Option<u8>, checked: &Checked, among: usize) {
    let Checked { claim, promised, seen, kept, .. } = checked;
    let same = |row: &&mut Row| {
        (row.act, row.claim, &row.promised, &row.seen, row.kept) == (act, *claim, promised, seen, *kept)
    };
    match rows.iter_mut().rev().take(among).find(same) {
        Some(row) => row.times += 1,
        None => {
            let (promised, seen) = (promised.clone(), seen.clone());
            rows.push(Row { act, claim, promised, seen, kept: *kept, times: 1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(sequence: u64) -> Token {
        Token::from_integer(sequence).unwrap()
    }

    fn two_owners() -> Tokens {
        let mut tokens = Tokens::default();
        assert!(tokens.granted(Actor::A, token(5)));
        assert!(tokens.granted(Actor::B, token(6)));
        tokens
    }

    fn stale(presented: u64, least_accepted: u64) -> Seen {
        Seen::Stale { presented: token(presented), least_accepted: token(least_accepted), by: RejectedBy::Fence }
    }

    #[test]
    fn stale_is_kept_only_for_the_right_pair_of_tokens() {
        let promise = Promise::Stale { fenced_by: Actor::B };
        assert!(promise.is_kept(&stale(5, 6), Some(Actor::A), &two_owners()));
        assert!(!promise.is_kept(&stale(5, 7), Some(Actor::A), &two_owners()));
        assert!(!promise.is_kept(&stale(6, 6), Some(Actor::A), &two_owners()));
        assert!(!promise.is_kept(&Seen::Applied, Some(Actor::A), &two_owners()));
    }

    #[test]
    fn a_grant_keeps_its_promise_only_above_all_earlier_ones() {
        for (sequence, kept) in [(4, false), (6, false), (7, true)] {
            let seen = Seen::Granted(token(sequence));
            assert_eq!(Promise::Granted.is_kept(&seen, Some(Actor::A), &two_owners()), kept);
        }
    }

    #[test]
    fn a_replay_has_to_bring_the_first_result() {
        let tokens = two_owners();
        assert!(Promise::Replayed("97").is_kept(&Seen::Replayed("97".to_owned()), None, &tokens));
        assert!(!Promise::Replayed("97").is_kept(&Seen::Replayed("94".to_owned()), None, &tokens));
        assert!(!Promise::Replayed("97").is_kept(&Seen::Applied, None, &tokens));
    }

    #[test]
    fn one_rejection_does_not_stand_for_another() {
        let conflict =
            |code: &str| Promise::OperationConflict.is_kept(&Seen::Rejected(code.to_owned()), None, &Tokens::default());
        assert!(conflict("operation_conflict"));
        assert!(!conflict("operation_too_old"));
        assert_eq!(Seen::Rejected("operation_too_old".to_owned()).to_string(), "Rejected: OperationTooOld");
    }

    #[test]
    fn neighbours_that_agree_become_one_row_and_a_broken_one_stands_out() {
        let checked = |act, claim, seen: &str| {
            let (promised, seen, kept) = ("Applied".to_owned(), seen.to_owned(), seen == "Applied");
            Checked { act, claim, promised, seen, kept }
        };
        let story = [
            checked(1, "always", "Applied"),
            checked(5, "w", "Applied"),
            checked(5, "always", "Applied"),
            checked(5, "w", "Applied"),
            checked(5, "w", "Stale"),
            checked(5, "v", "Applied"),
        ];
        let rows = rows(&story, &["always"]);
        let short: Vec<_> = rows.iter().map(|row| (row.act, row.claim, row.times, row.kept)).collect();
        let five = Some(5);
        assert_eq!(
            short,
            [(None, "always", 2, true), (five, "w", 2, true), (five, "w", 1, false), (five, "v", 1, true)]
        );
    }
}
