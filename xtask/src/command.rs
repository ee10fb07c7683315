//! Running other programs: echoed before they start, their failure an error that names them.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// The cargo that runs this program, without what it told this program about its own package: a build script that
/// watches such a variable would be run again for nothing.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root);
    for (name, _) in env::vars_os() {
        if is_about_this_package(&name) {
            command.env_remove(name);
        }
    }
    command
}

fn is_about_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_BIN_")
}

/// Runs it, its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs it and gives what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` wrote something that is not UTF-8"))
}

/// Runs it, passes every line of one of its streams on, and gives those that `keep` wants.
pub(crate) fn watch(command: &mut Command, stream: Stream, keep: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let line = line(command);
    println!("$ {line}");
    match stream {
        Stream::Output => command.stdout(Stdio::piped()),
        Stream::Errors => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
    let mut kept = Vec::new();
    match stream {
        Stream::Output => {
            let stdout = child.stdout.take().expect("the stream was asked for");
            pass_on(BufReader::new(stdout), |text| println!("{text}"), &keep, &mut kept)?;
        }
        Stream::Errors => {
            let stderr = child.stderr.take().expect("the stream was asked for");
            pass_on(BufReader::new(stderr), |text| eprintln!("{text}"), &keep, &mut kept)?;
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(kept)
}

/// Which stream of a program is watched.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

fn pass_on(
    mut from: impl BufRead,
    show: impl Fn(&str),
    keep: &impl Fn(&str) -> bool,
    kept: &mut Vec<String>,
) -> Result<()> {
    let mut bytes = Vec::new();
    while from.read_until(b'\n', &mut bytes)? > 0 {
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        show(text);
        if keep(text) {
            kept.push(text.trim().to_owned());
        }
        bytes.clear();
    }
    Ok(())
}

/// The program with this name that a shell would find.
pub(crate) fn on_path(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
