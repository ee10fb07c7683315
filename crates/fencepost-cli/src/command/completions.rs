use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command, builder::PossibleValuesParser};
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;

use crate::{exit::Exit, failure::Failure, help, output::Output, path};

/// Print completions for a shell
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  fencepost completions bash > ~/.local/share/bash-completion/completions/fencepost
  fencepost completions fish > ~/.config/fish/completions/fencepost.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// The condition of fish for what stands behind `help`, by the function that the script has.
const IN_HELP: &str = "__fish_fencepost_using_subcommand help";

pub(crate) fn completions(args: &CompletionsArgs, output: Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut completed(), "fencepost", &mut script);
    if args.shell == Shell::Fish {
        // What stands behind a command is not in what the library makes for this shell.
        let topics = help::topics().collect::<Vec<_>>().join(" ");
        script.extend(format!("complete -c fencepost -n \"{IN_HELP}\" -f -a \"{topics}\"\n").into_bytes());
    }
    let script = String::from_utf8_lossy(&script);
    let script = script.trim_end();
    if output.json {
        output.json(&json!({"shell": args.shell.to_string(), "script": script}))?;
    } else {
        output.line(script)?;
    }
    Ok(Exit::Done)
}

/// Write the manual pages into a folder
#[derive(Args, Debug)]
#[command(after_long_help = "\
Example:
  fencepost man --dir ~/.local/share/man/man1 && man fencepost-acquire")]
pub(crate) struct ManArgs {
    /// The folder; it is made where it is missing
    #[arg(long, value_name = "DIR")]
    dir: OsString,
}

pub(crate) fn man(args: &ManArgs, output: Output) -> Result<Exit, Failure> {
    let dir = Path::new(&args.dir);
    let pages = write_pages(dir).map_err(|(path, error)| {
        let failure = path::failed(format!("{}: {error}", path.display()), &path, &error, Exit::CannotWrite);
        if path == dir { failure } else { failure.then(format!("ls -ld {}", path::word(dir))) }
    })?;
    if output.json {
        output.json(&json!({ "pages": pages }))?;
    } else {
        output.line(&format!("{} pages in {}", pages.len(), dir.display()))?;
        output.line(&format!("next: man -l {}", path::word(&dir.join("fencepost.1"))))?;
    }
    Ok(Exit::Done)
}

/// Every page in a file of its own; the names of the files.
fn write_pages(dir: &Path) -> Result<Vec<String>, (PathBuf, io::Error)> {
    fs::create_dir_all(dir).map_err(|error| (dir.to_owned(), error))?;
    let mut whole = shown();
    whole.build();
    let mut pages = Vec::new();
    let mut write = |name: String, command: Command| {
        let file = format!("{name}.1");
        let path = dir.join(&file);
        let mut page = Vec::new();
        let title = Man::new(command).title(name.to_uppercase()).section("1").manual("Fencepost");
        let written = title.render(&mut page).and_then(|()| plain(&path)).and_then(|()| fs::write(&path, page));
        written.map_err(|error| (path, error))?;
        pages.push(file);
        Ok(())
    };
    for command in whole.get_subcommands() {
        let name = format!("fencepost-{}", command.get_name());
        write(name, command.clone())?;
    }
    write("fencepost".to_owned(), whole)?;
    pages.sort_unstable();
    Ok(pages)
}

/// A pipe would be waited for until somebody reads from it.
fn plain(path: &Path) -> io::Result<()> {
    let is_other = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if is_other { Err(io::Error::other("is no plain file")) } else { Ok(()) }
}

/// The same with every word that `help` explains: for a shell to offer, where the parser takes any word and says what is
/// wrong with it.
fn completed() -> Command {
    let topics = PossibleValuesParser::new(help::topics());
    shown().mut_subcommand("help", |help| help.mut_arg("words", |words| words.value_parser(topics)))
}

/// The command line without what is hidden: neither of these is to offer what nobody should type.
fn shown() -> Command {
    let full = help::plain(help::WIDEST);
    let visible = full.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("fencepost")
        .version(env!("CARGO_PKG_VERSION"))
        .about(full.get_about().cloned().unwrap_or_default())
        .long_about(full.get_long_about().cloned().unwrap_or_default())
        .after_help(full.get_after_help().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(full.get_arguments().cloned())
        .subcommands(visible)
}
