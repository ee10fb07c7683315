use std::{
    ffi::{OsStr, OsString},
    iter::once,
    os::unix::ffi::OsStrExt,
};

pub fn taken() {
    let grant = r#"{"issuer":"i","domain":"d","token":"7","lease":"02020202020202020202020202020202","session":"01010101010101010101010101010101","contract":"safety"}"#;
    let lines = [
        "run|d|--advance|sqlite:x.db|--wait|1m|--if-held|skip|--|true",
        "acquire|d|--ttl|2s|--max-hold|1s|--metadata|a=b|--contract|advisory",
        "renew",
        "release",
        "--json|ls|--prefix|a/|--limit|1000|--cursor|d161",
        "show|a/b",
        "history|--prefix|a|--token|0.7|--cursor|h7.1|--limit|9",
        "watch|--prefix|a/|--count|3",
        "explain|d|--token|8016.3|--receiver|sqlite:x.db",
        "break|d|--lease|02020202020202020202020202020202|--reason|r|--advance|file:x",
        "guard|sqlite:a.db|t|--domain|'a'|--issuer|x|--epoch|7|--floor|7.1",
        "guard|file:a|--domain|d",
        "unguard|sqlite:a.db|t",
        "audit|sqlite:a.db|--all-tables",
        "status|sqlite:a.db|--fences|--observations",
        "collect|file:a|--horizon|0.7",
        "recover|file:a|--domain|d|--issuer|x",
        "check|-",
        "prove|http://127.0.0.1:8/a|--domain|a|--also|DELETE:/a|--header|a: b|--advance|POST:/a/fence",
        "serve|--data|x|--init|--epoch|3|--issuer|x",
        "demo|--keep",
        "completions|bash",
        "man|--dir|x",
        "help|exit-codes",
    ];
    let lines = lines.into_iter().map(|line| line.replace('|', "\n"));
    let with_a_grant = ["read\nfile:a", "write\nfile:a\n--operation\no\n--born\n0.7", "advance\nfile:a"];
    let with_a_grant = with_a_grant.into_iter().map(|line| format!("{line}\n--grant\n{grant}"));
    for line in lines.chain(with_a_grant) {
        assert_eq!(fencepost_cli::fuzzing::command_line(&arguments(line.as_bytes())), Ok(()), "{line}");
    }
}

/// A command line, its arguments between line ends: it is understood, or refused in words.
pub fn command(bytes: &[u8]) {
    if let Err(told) = fencepost_cli::fuzzing::command_line(&arguments(bytes)) {
        assert!(told.is_object() || told.as_str().is_some_and(|text| !text.is_empty()), "{told}");
    }
}

fn arguments(bytes: &[u8]) -> Vec<OsString> {
    let arguments = bytes.split(|byte| *byte == b'\n').map(|argument| OsStr::from_bytes(argument).to_owned());
    once(OsString::from("fencepost")).chain(arguments).collect()
}
