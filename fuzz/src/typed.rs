use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use fencepost_cli::fuzzing as cli;
use fencepost_testkit::conformance::fuzzing as suite;

pub fn taken() {
    let word = |text| OsStr::new(text);
    assert_eq!(cli::resource(word("sqlite:/var/lib/it's.db")).as_deref(), Ok(r"'sqlite:/var/lib/it'\''s.db'"));
    assert_eq!(cli::resource(word("file:a")).as_deref(), Ok("file:a"));
    let lease = "02020202020202020202020202020202";
    assert_eq!(cli::names(word(lease)), [(); 5].map(|()| Some(lease.to_owned())));
    assert!(cli::metadata(&["a=b".into(), "c=d".into()]).is_some());
    let kept =
        format!(r#"{{"layout":1,"url":"http://h","session":"{lease}","secret":"{}","ttl_ms":15000,"#, "07".repeat(32))
            + &format!(
                r#""asked":{{"domain":"d","request_id":"{lease}"}},"granted":{{"lease":"{lease}","token":"7"}}}}"#
            );
    assert!(cli::session_file(kept.as_bytes()).is_ok(), "{kept}");
    assert_eq!(cli::durations("15s"), [(); 5].map(|()| Ok("15s".to_owned())));
    assert_eq!(cli::milliseconds("2m").map(|(ms, _)| ms), Some(120_000));
    let grant = format!(
        r#"{{"issuer":"i","domain":"d","token":"7","lease":"{lease}","session":"{lease}","contract":"safety"}}"#
    );
    assert!(matches!(cli::grant(&grant), Ok(Some(_))), "{grant}");
    let start = r#"start {"until":9,"variables":[["A","b"]]}"#;
    for line in [start, "until 12", "forward 15", "stop"] {
        assert_eq!(cli::message(line)[0].as_deref(), Some(line));
    }
    for line in [
        "opening 7",
        "started",
        "too-late",
        "not-started no such file",
        "unusable 127 x",
        "exited 255",
        "killed 9",
        "gone lost",
    ] {
        assert_eq!(cli::message(line)[1].as_deref(), Some(line));
    }
    assert!(cli::opens_the_gate(&format!("{start}\n")));
    for line in [
        r#"{"do":"acquire","item":"i","fenced":"on_acquire","ttl":1000,"wait":0}"#,
        r#"{"reply":"held","holder":"h"}"#,
        r#"{"Ok":{"status":200,"verdict":null,"body":[1]}}"#,
    ] {
        assert!(cli::own_line(line), "{line}");
    }
    let stat = "12 (a) S 1 (b) R 7 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
    assert_eq!(cli::process(stat), Some((7, 4711)));
    assert_eq!(cli::ignored_signals("Name:\tx\nSigIgn:\t0000000000001006\n"), 0x1006);
    let group = cli::control_group("26 18 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw", "0::/a b.scope");
    assert_eq!(group.as_deref(), Some(Path::new("/sys/fs/cgroup/a b.scope")));
    assert_eq!(cli::lock_holder(LOCKS, 4711), Some(12));
    let job = r#"{"place":"p","domain":"d","token":"7","name":null,"writes":3,"looks_on":true}"#;
    assert_eq!(suite::is_understood(job), [true, false]);
    assert_eq!(suite::is_understood(r#"{"Applied":7}"#), [false, true]);
    assert_eq!((suite::mark(b"7:x"), suite::mark(b"7"), suite::mark(b"x")), (7, 7, 0));
}

const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 11 fd:01:4711 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 fd:01:4711 0 EOF\n";

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
    let mark = suite::mark(bytes);
    let digits = bytes.split(|byte| *byte == b':').next().unwrap_or_default();
    assert!(mark == 0 || digits.ends_with(mark.to_string().as_bytes()), "{mark} is read out of {bytes:?}");
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
    let _ = suite::is_understood(text);
    if let Some(pid) = cli::lock_holder(text, 4711) {
        let is_told = |line: &str| line.contains("FLOCK") && line.contains("4711") && line.contains(&pid.to_string());
        assert!(pid > 0 && text.lines().any(is_told), "{pid} has no lock in {text:?}");
    }
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
