use std::{
    ffi::{OsStr, OsString},
    iter::once,
    os::unix::ffi::OsStrExt,
};

/// A command line, its arguments between line ends: it is understood, or refused in words.
pub fn command(bytes: &[u8]) {
    let arguments = bytes.split(|byte| *byte == b'\n').map(|argument| OsStr::from_bytes(argument).to_owned());
    let arguments: Vec<OsString> = once(OsString::from("fencepost")).chain(arguments).collect();
    if let Err(told) = fencepost_cli::fuzzing::command_line(&arguments) {
        assert!(told.is_object() || told.as_str().is_some_and(|text| !text.is_empty()), "{told}");
    }
}
