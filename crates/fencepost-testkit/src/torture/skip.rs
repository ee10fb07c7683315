use std::{env, fs::OpenOptions, io::Write as _};

/// Says that a test, or a part of one, could not run where it stands: on standard error, and in the file that
/// `FENCEPOST_SKIPS` names, which the summary of `cargo xtask ci` reads. A skip that nobody sees is a test that nobody has.
///
/// # Panics
/// When that file cannot be written.
pub fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {}\n", reason.replace('\n', " "));
    eprint!("{line}");
    if let Some(path) = env::var_os("FENCEPOST_SKIPS") {
        let mut file =
            OpenOptions::new().append(true).create(true).open(path).expect("the file of skips can be opened");
        file.write_all(line.as_bytes()).expect("the file of skips can be written");
    }
}
