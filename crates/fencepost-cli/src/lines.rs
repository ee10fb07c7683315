//! Long lines on a terminal: broken between words and never inside one, so that an id can be copied.

use std::borrow::Cow;

/// The text in lines of at most `width` columns where its words allow it; those after the first are indented.
pub(crate) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    joined(text.split(' '), width, &format!("\n{}", " ".repeat(indent)))
}

/// A command in lines that a shell takes as one, broken only before its options.
pub(crate) fn command(text: &str, width: usize, indent: usize) -> String {
    // Two columns are for the mark that the line goes on.
    let width = width.saturating_sub(2);
    let mut pieces = Vec::new();
    for piece in split(text, |rest| rest.starts_with("--")) {
        // An option with a long value goes over two lines before the value does.
        let is_too_long = columns(piece) + indent > width;
        pieces.extend(if is_too_long { split(piece, |rest| !rest.starts_with(' ')) } else { vec![piece] });
    }
    joined(pieces.into_iter(), width, &format!(" \\\n{}", " ".repeat(indent)))
}

/// The text with its marks of direction, and what else is never shown by itself, spelled out: on a terminal they would
/// show a name as another one. What a terminal should leave out is Unicode's `Default_Ignorable_Code_Point`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| {
        matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}')
            || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}')
            || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}')
            || matches!(c, '\u{e0000}'..='\u{e0fff}')
    };
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let spelled = |c: char| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(spelled).collect())
}

/// How many columns the text takes. Exact for what is half a column or one; nothing is cut by it.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().count()
}

fn joined<'a>(pieces: impl Iterator<Item = &'a str>, width: usize, break_with: &str) -> String {
    let indent = break_with.rsplit('\n').next().map_or(0, columns);
    let mut lines = String::new();
    let mut used = 0;
    for (at, piece) in pieces.enumerate() {
        let length = columns(piece);
        if at == 0 {
            used = length;
        } else if used + 1 + length <= width {
            lines.push(' ');
            used += 1 + length;
        } else {
            lines.push_str(break_with);
            used = indent + length;
        }
        lines.push_str(piece);
    }
    lines
}

/// The pieces between the spaces outside quotes after which the rest begins as it should, spaces at the front aside.
fn split(text: &str, begins: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut quote = None;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match (character, quote) {
            ('\\', None | Some('"')) => is_escaped = true,
            ('\'' | '"', None) => quote = Some(character),
            (end, Some(open)) if end == open => quote = None,
            (' ', None) if begins(&text[at + 1..]) && !text[start..at].trim().is_empty() => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_what_fits_stays_on_its_line() {
        assert_eq!(wrapped("one two three", 80, 2), "one two three");
        assert_eq!(wrapped("one two three", 8, 2), "one two\n  three");
        assert_eq!(wrapped("a 0123456789abcdef b", 8, 2), "a\n  0123456789abcdef\n  b");
        assert_eq!(wrapped("", 8, 2), "");
    }

    #[test]
    fn a_broken_command_is_the_same_to_a_shell() {
        let line =
            "printf %s, 'a --b' 'it'\\''s -- me' --lease 0123456789abcdef0123456789abcdef --reason TEXT --url http://x";
        for width in [10, 40, 60, 200] {
            let broken = command(line, width, 4);
            assert!(broken.contains("'a --b'") && broken.contains("0123456789abcdef0123456789abcdef"));
            let run = |script: &str| std::process::Command::new("sh").args(["-c", script]).output().unwrap().stdout;
            assert_eq!(run(&broken), run(line), "{broken}");
        }
        assert_eq!(command(line, 200, 4), line);
        for width in [40, 60, 80] {
            assert!(command(line, width, 4).lines().all(|line| columns(line) <= width), "{}", command(line, width, 4));
        }
    }
}
