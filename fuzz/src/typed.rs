use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use fencepost_cli::fuzzing as cli;

/// One word of a command line, or of a file or a variable that the program reads: what is taken says the same when it is
/// written again, and whatever is printed to be typed next is what it stands for.
pub fn typed(bytes: &[u8]) {
    let word = OsStr::from_bytes(bytes);
    if let Ok(again) = cli::resource(word) {
        assert_eq!(unquoted(&again), word.to_string_lossy(), "{again}");
    }
    let taken = cli::names(word);
    for name in taken.iter().flatten() {
        assert_eq!(name.as_bytes(), bytes, "a name was changed");
    }
    let _ = cli::metadata(
        &bytes.split(|byte| *byte == 0).map(|pair| OsStr::from_bytes(pair).to_owned()).collect::<Vec<_>>(),
    );
    if let Ok(kept) = cli::session_file(bytes) {
        assert_eq!(cli::session_file(&kept).as_ref(), Ok(&kept), "a session file changes by being written and read");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for again in cli::durations(text).into_iter().flatten() {
        assert!(cli::milliseconds(&again).is_some() && cli::milliseconds(&again) == cli::milliseconds(text), "{again}");
    }
    if let Some((ms, [again, ..])) = cli::milliseconds(text) {
        assert_eq!(cli::milliseconds(&again).map(|(ms, _)| ms), Some(ms), "{text:?}");
    }
    if let Ok(Some(grant)) = cli::grant(text) {
        assert!(grant.token.as_i64() > 0);
    }
    for again in cli::message(text).into_iter().flatten() {
        assert!(cli::message(&again).contains(&Some(again.clone())), "{text:?} is {again:?}");
    }
    let _ = (cli::own_line(text), cli::process(text), cli::ignored_signals(text), cli::opens_the_gate(text));
    let _ = fencepost_testkit::conformance::fuzzing::is_understood(text);
    let (mounts, groups) = text.split_once('\0').unwrap_or((text, text));
    let _ = cli::control_group(mounts, groups);
    for again in cli::shell_words(text) {
        assert_eq!(unquoted(&again), text, "{again}");
    }
    for width in [0, 1, 7, 80] {
        let [wrapped, command] = cli::broken(text, width, 2);
        let plain = |text: &str| text.split(['\n', ' ']).collect::<String>();
        assert_eq!(plain(&wrapped), plain(text), "words are lost at {width} columns");
        if !text.contains('\n') {
            let whole = command.replace(" \\\n", " ");
            assert_eq!(plain(&whole), plain(text), "a command is changed at {width} columns");
        }
    }
}

/// What a POSIX shell makes of a word of ours, which has single quotes and backslashes outside of them only.
fn unquoted(word: &str) -> String {
    let (mut text, mut is_quoted, mut rest) = (String::new(), false, word.chars());
    while let Some(character) = rest.next() {
        match (character, is_quoted) {
            ('\'', _) => is_quoted = !is_quoted,
            ('\\', false) => text.extend(rest.next()),
            (character, true) => text.push(character),
            (character, false) => {
                assert!(character.is_ascii_alphanumeric() || "-_./:@%+,".contains(character), "{word} is not plain");
                text.push(character);
            }
        }
    }
    assert!(!is_quoted, "{word} has an open quote");
    text
}
