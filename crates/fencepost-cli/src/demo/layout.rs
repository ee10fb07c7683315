//! Where on a line things stand. Pure: text and a width in, text out.

use std::time::Duration;

use super::script::Actor;

/// What is between two columns.
const GAP: &str = "  ";
const TIME: usize = 6;
const HOLDER: usize = 6;
const TOKEN: usize = 5;
const GOT: usize = 22;
/// The narrowest and the widest text column.
const SAYS: (usize, usize) = (24, 56);
/// What stands before the text column: time, holder, actor and their gaps.
const BEFORE: usize = 1 + TIME + GAP.len() + HOLDER + GAP.len() + 1 + GAP.len();
const AFTER: usize = GAP.len() + TOKEN + GAP.len() + GOT;

/// How a piece of a line is to look where there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Strong,
    Faint,
    Kept,
    Broken,
    Actor(Actor),
}

pub(super) type Piece = (Paint, String);

/// One entry of the timeline, in columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry<'a> {
    pub(super) at: Duration,
    pub(super) holder: Option<Actor>,
    pub(super) actor: Option<Actor>,
    pub(super) says: &'a str,
    pub(super) token: String,
    pub(super) got: &'a str,
    /// Whether a promise was kept, where there was one.
    pub(super) kept: Option<bool>,
}

fn says_width(width: usize) -> usize {
    width.saturating_sub(BEFORE + AFTER).clamp(SAYS.0, SAYS.1)
}

/// The line above the entries of a scene.
pub(super) fn heading(width: usize) -> String {
    let says = says_width(width);
    let got = "what it got";
    format!(
        " {:>TIME$}{GAP}{:HOLDER$}{GAP}{:1}{GAP}{:says$}{GAP}{:>TOKEN$}{GAP}{got}",
        "time", "holder", "", "", "token"
    )
}

/// An entry, on as many lines as its text needs.
pub(super) fn entry(entry: &Entry<'_>, width: usize) -> Vec<Vec<Piece>> {
    let says = says_width(width);
    let mut texts = wrapped(entry.says, says).into_iter();
    let seconds = format!("{:.2}", entry.at.as_secs_f64());
    let actor = |actor: Option<Actor>| actor.map_or((Paint::Plain, "-"), |actor| (Paint::Actor(actor), actor.as_str()));
    let (holder_paint, holder) = actor(entry.holder);
    let (actor_paint, who) = entry.actor.map_or((Paint::Plain, ""), |by| actor(Some(by)));
    let (mark_paint, mark) = mark(entry.kept);
    let first = vec![
        (Paint::Faint, format!(" {seconds:>TIME$}{GAP}")),
        (holder_paint, format!("{holder:HOLDER$}")),
        (actor_paint, format!("{GAP}{who:1}{GAP}")),
        (Paint::Plain, format!("{:says$}", texts.next().unwrap_or_default())),
        (Paint::Plain, format!("{GAP}{:>TOKEN$}{GAP}", entry.token)),
        (mark_paint, mark.to_owned()),
        (Paint::Plain, format!(" {}", entry.got)),
    ];
    let rest = texts.map(|text| vec![(Paint::Plain, format!("{:BEFORE$}{text}", ""))]);
    std::iter::once(first).chain(rest).collect()
}

/// A row of the table at the end.
#[derive(Clone, Debug)]
pub(super) struct Cells<'a> {
    pub(super) act: &'a str,
    pub(super) claim: &'a str,
    pub(super) promised: &'a str,
    pub(super) seen: &'a str,
    /// `None` in the heading.
    pub(super) kept: Option<bool>,
}

const ACT: usize = 3;
const PROMISED: usize = 20;
/// The narrowest and the widest column of claims.
const CLAIM: (usize, usize) = (20, 56);

/// A row, on as many lines as its longest cell needs.
pub(super) fn row(cells: &Cells<'_>, width: usize) -> Vec<Vec<Piece>> {
    let claim_width = width.saturating_sub(1 + ACT + 3 * GAP.len() + 2 * PROMISED + 2).clamp(CLAIM.0, CLAIM.1);
    let claim = wrapped(cells.claim, claim_width);
    let (promised, seen) = (wrapped(cells.promised, PROMISED), wrapped(cells.seen, PROMISED));
    let lines = claim.len().max(promised.len()).max(seen.len());
    let at = |cell: &[String], line: usize| cell.get(line).cloned().unwrap_or_default();
    (0..lines)
        .map(|line| {
            let act = if line == 0 { cells.act } else { "" };
            let (claim, promised, seen) = (at(&claim, line), at(&promised, line), at(&seen, line));
            let (paint, mark) = mark(cells.kept.filter(|_| line == 0));
            vec![
                (Paint::Plain, format!(" {act:ACT$}{GAP}{claim:claim_width$}{GAP}{promised:PROMISED$}{GAP}")),
                (paint, mark.to_owned()),
                (Paint::Plain, format!(" {seen}")),
            ]
        })
        .collect()
}

fn mark(kept: Option<bool>) -> (Paint, &'static str) {
    match kept {
        None => (Paint::Plain, " "),
        Some(true) => (Paint::Kept, "✓"),
        Some(false) => (Paint::Broken, "✗"),
    }
}

/// The text in lines of at most `width` characters, broken between words where that is possible.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one from the start");
        let fits = line.chars().count() + 1 + word.chars().count() <= width;
        if line.is_empty() {
            line.push_str(word);
        } else if fits {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(says: &str, got: &str, width: usize) -> Vec<String> {
        let shown = Entry {
            at: Duration::from_millis(12_345),
            holder: Some(Actor::B),
            actor: Some(Actor::A),
            says,
            token: "0.12".to_owned(),
            got,
            kept: Some(true),
        };
        let lines = entry(&shown, width);
        lines.into_iter().map(|line| line.into_iter().map(|(_, text)| text).collect::<String>()).collect()
    }

    #[test]
    fn the_longest_words_of_the_timeline_fit_eighty_columns() {
        let longest = "REPLACE INTO stock VALUES ('pears', 1, 'me')";
        for got in ["refused by the guard", "OperationConflict", "Stale: needs 0.123", "not a byte changed"] {
            for line in text(longest, got, 80).into_iter().chain([heading(80)]) {
                assert!(line.chars().count() <= 80, "{line:?}");
            }
        }
    }

    #[test]
    fn a_wide_terminal_needs_one_line() {
        assert_eq!(text("REPLACE INTO stock VALUES ('pears', 1, 'me')", "Applied", 120).len(), 1);
    }

    #[test]
    fn columns_stand_where_the_heading_says() {
        let (heading, line) = (heading(80), &text("writes 90", "Applied", 80)[0]);
        let place = |text: &str, part: &str| text.find(part).map(|at| text[..at].chars().count());
        assert_eq!(place(&heading, "holder"), place(line, "B"));
        assert_eq!(place(&heading, "token").map(|at| at + TOKEN), place(line, "0.12").map(|at| at + 4));
    }

    #[test]
    fn the_table_fits_eighty_columns_and_wraps_what_is_longer() {
        let claim = "no fence on acquire: A's write during B's first";
        let cells = Cells {
            act: "all",
            claim,
            promised: "refused by the guard",
            seen: "Rejected: OperationConflict",
            kept: Some(false),
        };
        let lines: Vec<String> =
            row(&cells, 80).into_iter().map(|line| line.into_iter().map(|(_, text)| text).collect()).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[0].contains("✗ Rejected:") && lines[1].ends_with(" OperationConflict"), "{lines:#?}");
    }

    #[test]
    fn text_is_broken_between_words_and_a_long_word_stays_whole() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 4), ["unbreakable"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
