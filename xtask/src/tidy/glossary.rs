//! One word, one meaning: the synonyms that `GLOSSARY.md` bans do not occur in docs and documentation comments.

use super::{Finding, markdown, rust_source, tree::Tree};

const GLOSSARY: &str = "GLOSSARY.md";
const HEADING: &str = "Banned words";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(glossary) = tree.text(GLOSSARY) else {
        return vec![Finding::new(GLOSSARY, 0, "does not exist")];
    };
    let (banned, table) = banned(glossary);
    if banned.is_empty() {
        return vec![Finding::new(GLOSSARY, 0, format!("has no table under `## {HEADING}`"))];
    }
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for line in markdown::lines(text) {
            if path != GLOSSARY || !table.contains(&line.number) {
                findings.extend(used(&line.prose, &banned).map(|why| Finding::new(path, line.number, why)));
            }
        }
    }
    for (path, text) in tree.ending(".rs") {
        let (numbers, documentation) = rust_source::documentation(text);
        for line in markdown::lines(&documentation) {
            findings.extend(used(&line.prose, &banned).map(|why| Finding::new(path, numbers[line.number - 1], why)));
        }
    }
    findings
}

struct Banned {
    words: Vec<String>,
    instead: String,
}

/// The table and the numbers of its lines.
fn banned(glossary: &str) -> (Vec<Banned>, Vec<usize>) {
    let (mut found, mut numbers, mut here) = (Vec::new(), Vec::new(), false);
    for line in markdown::lines(glossary) {
        if let Some(heading) = line.heading() {
            here = heading.trim() == HEADING;
        }
        if !here || !line.prose.starts_with('|') {
            continue;
        }
        numbers.push(line.number);
        let cells: Vec<&str> = line.prose.trim_matches('|').split('|').map(str::trim).collect();
        let [banned, instead, ..] = cells[..] else { continue };
        if banned == "banned" || banned.starts_with('-') {
            continue;
        }
        for phrase in banned.split(',') {
            let words = tokens(phrase).into_iter().map(|token| token.word).collect();
            found.push(Banned { words, instead: instead.to_owned() });
        }
    }
    (found, numbers)
}

fn used<'a>(prose: &str, banned: &'a [Banned]) -> impl Iterator<Item = String> + use<'a> {
    let tokens = tokens(prose);
    banned.iter().filter_map(move |banned| {
        let hit = tokens.windows(banned.words.len()).find(|window| matches(window, &banned.words))?;
        let phrase: Vec<&str> = hit.iter().map(|token| token.word.as_str()).collect();
        Some(format!("\"{}\" is banned by the glossary: say {}", phrase.join(" "), banned.instead))
    })
}

fn matches(window: &[Token], words: &[String]) -> bool {
    let last = words.len() - 1;
    window.iter().zip(words).enumerate().all(|(at, (token, word))| {
        let same = token.word == *word || (at == last && token.word.strip_suffix('s') == Some(word));
        same && (at == last || token.joined)
    })
}

struct Token {
    word: String,
    /// Whether only a blank or a hyphen stands between it and the next word.
    joined: bool,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut between = String::new();
    let mut inside = false;
    for c in text.chars() {
        if c.is_alphanumeric() || c == '_' {
            if !inside {
                if let Some(last) = tokens.last_mut() {
                    last.joined = between == "-" || between.chars().all(char::is_whitespace);
                }
                tokens.push(Token { word: String::new(), joined: false });
                between.clear();
                inside = true;
            }
            if let Some(last) = tokens.last_mut() {
                last.word.extend(c.to_lowercase());
            }
        } else {
            inside = false;
            between.push(c);
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "# Glossary\n\n## Banned words\n\n| banned | say |\n|---|---|\n| fencing number, lock token | token |\n| force release | break |\n";

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of([(GLOSSARY, WORDS), (path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_banned_word_is_found_in_docs_and_documentation() {
        let said = "is banned by the glossary: say";
        assert_eq!(messages("a.md", "x\nthe Lock-Tokens of"), [format!("a.md:2: \"lock tokens\" {said} token")]);
        let code = "fn f() {}\n/// A force\n/// Then force-release it.\n";
        assert_eq!(messages("a.rs", code), [format!("a.rs:3: \"force release\" {said} break")]);
    }

    #[test]
    fn words_have_boundaries_and_code_is_exempt() {
        for fine in ["a clock token", "a lock. Token", "`lock token`", "```\nlock token\n```", "fencing numbering"] {
            assert!(messages("a.md", fine).is_empty(), "{fine}");
        }
        assert!(messages("a.rs", "// force release\nlet x = \"lock token\";\n/// `lock token`\n").is_empty());
    }

    #[test]
    fn a_missing_table_is_not_an_empty_one() {
        assert!(check(&Tree::of([(GLOSSARY, "# Glossary\n")]))[0].message.contains("has no table"));
        assert!(check(&Tree::of([]))[0].message.contains("does not exist"));
    }
}
