//! Words for a POSIX shell.

/// The text as one word that a shell gives back byte for byte. Plain words stay as they are, for people to read.
pub(crate) fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+,".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(plain) { text.to_owned() } else { quoted(text) }
}

/// A command line with names and options. Names that would be taken for options stand last, behind `--`.
pub(crate) fn line(command: &str, names: &[&str], options: &str) -> String {
    let (dashed, plain): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.starts_with('-'));
    // `run` takes names behind dashes for names where the first one looks like an option.
    let words: String = dashed.iter().chain(&plain).map(|name| format!(" {}", word(name))).collect();
    if !dashed.is_empty() { format!("{command}{options} --{words}") } else { format!("{command}{words}{options}") }
}

/// An option with its value, behind a space; in one word where the value would be taken for an option.
pub(crate) fn option(name: &str, value: &str) -> String {
    format!(" {name}{}{}", if value.starts_with('-') { "=" } else { " " }, word(value))
}

/// The text in single quotes, which no shell looks into.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_that_looks_like_an_option_is_kept_from_being_one() {
        assert_eq!(line("show", &["d"], " --url u"), "show d --url u");
        assert_eq!(line("show", &["-d"], " --url u"), "show --url u -- '-d'");
        assert_eq!(line("run", &["a b", "-d"], ""), "run -- '-d' 'a b'");
        assert_eq!([option("--prefix", "p"), option("--prefix", "-p")], [" --prefix p", " --prefix='-p'"]);
    }

    #[test]
    fn a_shell_gives_every_word_back_byte_for_byte() {
        for text in [
            "plain/1", "", "-n", "a b", "it's", "$(id)", "`id`", "\\", "\"", "';--", "🦀", "~", "*", "a\nb", "!x",
            "a=b",
        ] {
            let script = format!("printf %s {}; printf %s {}", word(text), quoted(text));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{text}{text}"), "{text:?}");
        }
    }
}
