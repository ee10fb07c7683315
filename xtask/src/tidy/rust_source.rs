//! Rust source split into code and comments, line by line: enough for rules about text, far from a parser.

/// One line, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The code, without comments and without what stands between quotes.
    pub(super) code: String,
    /// The comments, with their slashes.
    pub(super) comment: String,
    /// Whether it belongs to an item that only tests compile.
    pub(super) test: bool,
}

impl Line {
    /// The text of a documentation comment.
    pub(super) fn doc(&self) -> Option<&str> {
        let text = self.comment.trim_start();
        let text =
            text.strip_prefix("//!").or_else(|| text.strip_prefix("///").filter(|rest| !rest.starts_with('/')))?;
        Some(text.strip_prefix(' ').unwrap_or(text))
    }
}

/// Whether all of this file is tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.ends_with("_tests.rs") || path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Whether `word` stands in `text` as a word of its own.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(part) && !text[at + word.len()..].chars().next().is_some_and(part)
    })
}

/// The lines of a file.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut lines = split(text);
    mark_tests(&mut lines);
    lines
}

/// The documentation comments of a file as one text, with the number that each of its lines has in the file.
pub(super) fn documentation(text: &str) -> (Vec<usize>, String) {
    let lines = lines(text);
    let docs = lines.iter().enumerate().filter_map(|(at, line)| Some((at + 1, line.doc()?)));
    let (numbers, docs): (Vec<usize>, Vec<&str>) = docs.unzip();
    (numbers, docs.join("\n"))
}

enum State {
    Code,
    LineComment,
    BlockComment(usize),
    Text { raw: Option<usize> },
}

fn split(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let ahead = |at: usize, word: &str| word.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let (mut lines, mut line, mut state, mut at) = (Vec::new(), Line::default(), State::Code, 0);
    while let Some(&c) = chars.get(at) {
        if c == '\n' {
            lines.push(std::mem::take(&mut line));
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            at += 1;
            continue;
        }
        let taken = match &mut state {
            State::LineComment => {
                line.comment.push(c);
                1
            }
            State::BlockComment(depth) => {
                let (change, taken) = if ahead(at, "/*") {
                    (1, 2)
                } else if ahead(at, "*/") {
                    (-1, 2)
                } else {
                    (0, 1)
                };
                line.comment.extend(&chars[at..at + taken]);
                *depth = depth.saturating_add_signed(change);
                if *depth == 0 {
                    state = State::Code;
                }
                taken
            }
            State::Text { raw: None } if c == '\\' && chars.get(at + 1) != Some(&'\n') => 2,
            State::Text { raw } => {
                let hashes = raw.unwrap_or(0);
                if c == '"' && (0..hashes).all(|i| chars.get(at + 1 + i) == Some(&'#')) {
                    line.code.push('"');
                    state = State::Code;
                    1 + hashes
                } else {
                    1
                }
            }
            State::Code if ahead(at, "//") => {
                line.comment.push_str("//");
                state = State::LineComment;
                2
            }
            State::Code if ahead(at, "/*") => {
                line.comment.push_str("/*");
                state = State::BlockComment(1);
                2
            }
            State::Code if c == '"' => {
                line.code.push('"');
                state = State::Text { raw: None };
                1
            }
            State::Code if c == 'r' => match raw_text(&chars, at) {
                Some((hashes, taken)) => {
                    line.code.push('"');
                    state = State::Text { raw: Some(hashes) };
                    taken
                }
                None => {
                    line.code.push(c);
                    1
                }
            },
            State::Code if c == '\'' => {
                let taken = character(&chars, at);
                line.code.push_str(if taken > 1 { "' '" } else { "'" });
                taken
            }
            State::Code => {
                line.code.push(c);
                1
            }
        };
        at += taken;
    }
    if !line.code.is_empty() || !line.comment.is_empty() {
        lines.push(line);
    }
    lines
}

/// The hashes and the length of the opening of a raw text at `at`, if one opens there.
fn raw_text(chars: &[char], at: usize) -> Option<(usize, usize)> {
    let before = at.checked_sub(1).map(|i| chars[i]);
    if before.is_some_and(|c| (c.is_alphanumeric() && c != 'b' && c != 'c') || c == '_') {
        return None;
    }
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    (chars.get(at + 1 + hashes) == Some(&'"')).then_some((hashes, hashes + 2))
}

/// The length of the character literal at `at`; 1 when it is a lifetime.
fn character(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), Some(_)) => {
            let rest = chars[at + 3..].iter().take_while(|c| **c != '\'' && **c != '\n').count();
            3 + rest + 1
        }
        (Some(_), Some('\'')) => 3,
        _ => 1,
    }
}

/// Marks each item under `#[cfg(test)]`, from the attribute to its closing brace or semicolon.
fn mark_tests(lines: &mut [Line]) {
    let (mut inside, mut braces, mut brackets) = (false, 0usize, 0usize);
    for line in lines {
        let mut rest = line.code.as_str();
        if !inside {
            let Some(at) = rest.find("#[cfg(test)]") else { continue };
            (inside, braces, brackets) = (true, 0, 0);
            rest = &rest[at..];
        }
        line.test = true;
        for c in rest.chars() {
            match c {
                '{' => braces += 1,
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                '}' => {
                    braces = braces.saturating_sub(1);
                    inside &= braces > 0;
                }
                ';' if braces == 0 && brackets == 0 => inside = false,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code.trim().to_owned()).collect()
    }

    #[test]
    fn comments_and_quoted_text_are_no_code() {
        assert_eq!(code("let a = 1; // sleep()\n/* b /* c */ d\n*/ let e = 2;"), ["let a = 1;", "", "let e = 2;"]);
        assert_eq!(code(r#"f("// not a \" comment"); g()"#), [r#"f(""); g()"#]);
        assert_eq!(code("f(r#\"a \"quoted\" // word\"#); g(br\"x\")"), ["f(\"\"); g(b\"\")"]);
        assert_eq!(
            code("match c { '\"' => 1, '\\'' => 2, '{' => 3 } // x"),
            ["match c { ' ' => 1, ' ' => 2, ' ' => 3 }"]
        );
        assert_eq!(code("fn f<'a>(x: &'a str) -> char { 'x' }"), ["fn f<'a>(x: &'a str) -> char { ' ' }"]);
        assert_eq!(code("let s = \"two\nlines\"; g()"), ["let s = \"", "\"; g()"]);
    }

    #[test]
    fn documentation_is_told_from_other_comments() {
        let all = lines("/// doc\n//! inner\n// why\n//// line\nf(); /// odd");
        let docs: Vec<Option<&str>> = all.iter().map(Line::doc).collect();
        assert_eq!(docs, [Some("doc"), Some("inner"), None, None, Some("odd")]);
    }

    #[test]
    fn an_item_under_cfg_test_ends_where_it_ends() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { x[1]; }\n}\nfn c() {}\n#[cfg(test)]\n#[path = \"t.rs\"]\nmod t;\nfn d() {}";
        let marked: Vec<bool> = lines(text).iter().map(|line| line.test).collect();
        assert_eq!(marked, [false, true, true, true, true, false, true, true, true, false]);
    }

    #[test]
    fn a_word_is_not_a_part_of_a_word() {
        assert!(
            has_word("fn decide(", "decide") && !has_word("fn decided(", "decide") && !has_word("re_decide", "decide")
        );
    }
}
