//! Markdown taken apart far enough for rules about text: lines outside code blocks, their code spans, links and
//! paragraphs.

/// One line outside a code block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    /// Which paragraph it belongs to; a blank line and a heading begin a new one.
    pub(super) paragraph: usize,
    /// The line without its code spans.
    pub(super) prose: String,
    /// What stands between backticks.
    pub(super) spans: Vec<&'a str>,
}

impl Line<'_> {
    /// The text of a heading.
    pub(super) fn heading(&self) -> Option<&str> {
        let text = self.prose.trim_start_matches('#');
        (text.len() < self.prose.len()).then(|| text.strip_prefix(' ')).flatten()
    }

    /// The targets of the links on this line.
    pub(super) fn links(&self) -> impl Iterator<Item = &str> {
        let after_text = self.prose.match_indices("](").map(|(at, found)| &self.prose[at + found.len()..]);
        let targets = after_text.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
        targets.filter_map(|target| target.split_whitespace().next())
    }
}

/// The lines of a text outside its code blocks.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let (mut found, mut fence, mut paragraph) = (Vec::new(), None::<&str>, 0);
    for (at, raw) in text.lines().enumerate() {
        let start = raw.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, Some(mark)) => fence = Some(mark),
            (None, None) => {
                if start.is_empty() || start.starts_with('#') {
                    paragraph += 1;
                }
                let (prose, spans) = without_code_spans(raw);
                found.push(Line { number: at + 1, paragraph, prose, spans });
            }
        }
    }
    found
}

fn without_code_spans(line: &str) -> (String, Vec<&str>) {
    let mut parts: Vec<&str> = line.split('`').collect();
    // A backtick without its partner opens nothing.
    let open = if parts.len().is_multiple_of(2) { parts.pop() } else { None };
    let prose: Vec<&str> = parts.iter().step_by(2).copied().chain(open).collect();
    (prose.join("`"), parts.iter().skip(1).step_by(2).copied().collect())
}

/// The anchor that a heading gets.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_no_prose() {
        let text = "see `a.rs` and [b](c.md#d \"title\")\n```\n[no](link)\n```\n# Head `x`\nodd ` tick";
        let all = lines(text);
        assert_eq!(all.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 5, 6]);
        assert_eq!(all[0].spans, ["a.rs"]);
        assert_eq!(all[0].links().collect::<Vec<_>>(), ["c.md#d"]);
        assert_eq!((all[0].heading(), all[1].heading()), (None, Some("Head `")));
        assert!(all[0].paragraph < all[1].paragraph);
        assert_eq!((all[2].prose.as_str(), all[2].spans.len()), ("odd ` tick", 0));
    }

    #[test]
    fn anchors_are_those_of_the_forges() {
        assert_eq!(anchor("What is *not* promised, and why?"), "what-is-not-promised-and-why");
    }
}
