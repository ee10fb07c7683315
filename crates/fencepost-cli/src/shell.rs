//! Words for a POSIX shell.

/// The text as one word that a shell gives back byte for byte. Plain words stay as they are, for people to read.
pub(crate) fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+,".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(plain) { text.to_owned() } else { quoted(text) }
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
