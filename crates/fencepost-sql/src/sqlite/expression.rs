use std::fmt;

use fencepost_core::{Invalid, Rule};

/// Longest domain expression, in bytes.
const MOST_BYTES: usize = 1024;

/// Words that make an expression depend on something else than the row, or end a guard's own statement.
const FORBIDDEN: [&str; 8] =
    ["select", "raise", "current_date", "current_time", "current_timestamp", "over", "new", "old"];

/// The SQL expression that computes a row's domain from its columns, e.g. `'invoices/' || month`, or `'jobs'` where the
/// whole table is one domain.
///
/// This door checks the form: one expression, closed in itself, without comments, parameters and subqueries. Whether its
/// columns exist and whether it always gives the same answer for the same row only a database can say; an adapter asks
/// one before it guards.
///
/// Columns stand in it as plain values: a comparison between a number and a text is made without the column's affinity.
#[derive(Clone, PartialEq, Eq)]
pub struct DomainExpression(String);

impl DomainExpression {
    /// Takes the text of an expression.
    ///
    /// # Errors
    /// When it is not one expression closed in itself.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        if text.trim().is_empty() || text.len() > MOST_BYTES {
            let rule = Rule::Bytes { least: 1, most: MOST_BYTES, found: text.trim().len() };
            return Err(Invalid::new("domain expression", rule));
        }
        if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
            return Err(Invalid::new("domain expression", Rule::ControlCharacter { at }));
        }
        scan(text).map_err(|expected| Invalid::form("domain expression", expected))?;
        Ok(Self(text.trim().to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DomainExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DomainExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn scan(text: &str) -> Result<(), &'static str> {
    let mut rest = text.char_indices().peekable();
    let mut depth = 0_u32;
    while let Some((at, c)) = rest.next() {
        match c {
            '\'' | '"' | '`' | '[' => {
                let close = if c == '[' { ']' } else { c };
                if !rest.by_ref().any(|(_, c)| c == close) {
                    return Err("an expression whose quotes are closed");
                }
            }
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("an expression whose parentheses match")?,
            ',' if depth == 0 => return Err("one expression, not a list"),
            ';' => return Err("one expression, not a statement"),
            '?' | ':' | '@' | '$' | '#' => return Err("an expression without parameters"),
            '-' if text[at..].starts_with("--") => return Err("an expression without comments"),
            '/' if text[at..].starts_with("/*") => return Err("an expression without comments"),
            c if is_word(c) => {
                while rest.next_if(|(_, c)| is_word(*c)).is_some() {}
                let end = rest.peek().map_or(text.len(), |(end, _)| *end);
                if FORBIDDEN.iter().any(|word| text[at..end].eq_ignore_ascii_case(word)) {
                    return Err("an expression over the row's own columns, without subqueries and clocks");
                }
            }
            _ => {}
        }
    }
    if depth > 0 { Err("an expression whose parentheses match") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_over_the_row_are_taken_as_they_are() {
        for text in [
            "'jobs'",
            "domain",
            "'invoices/' || month",
            "\"odd;name\"",
            "[a)b]",
            "CASE WHEN kind = 'a' THEN 'x' ELSE coalesce(owner, 'y') END",
            "'it''s -- no comment'",
            "a - -b",
            "selected || oldest",
            "printf('%s/%s', a, b)",
        ] {
            assert_eq!(DomainExpression::new(text).unwrap().as_str(), text, "{text}");
        }
    }

    #[test]
    fn what_could_leave_its_parentheses_or_look_elsewhere_is_refused() {
        for text in [
            "",
            "   ",
            "a) , (b",
            "a))",
            "((a)",
            "a, b",
            "a; DROP TABLE t",
            "a -- b",
            "a /* b */",
            "'open",
            "\"open",
            "[open",
            "(SELECT max(token) FROM fencepost_fence)",
            "?1",
            ":a",
            "current_timestamp",
            "NEW.a",
            "raise(ignore)",
            "a\nb",
        ] {
            assert!(DomainExpression::new(text).is_err(), "{text:?}");
        }
        assert!(DomainExpression::new(&"x".repeat(1025)).is_err());
    }
}
