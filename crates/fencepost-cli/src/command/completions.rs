use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{exit::Exit, failure::Failure, help, output::Output, shell};

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

pub(crate) fn completions(args: &CompletionsArgs, output: Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "fencepost", &mut script);
    output.line(String::from_utf8_lossy(&script).trim_end())?;
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
        Failure::new(Exit::CannotWrite, format!("{}: {error}", path.display()))
            .then(format!("ls -ld {}", shell::word(&dir.to_string_lossy())))
    })?;
    if output.json {
        output.json(&serde_json::json!({ "pages": pages }))?;
    } else {
        output.line(&format!("{} pages in {}", pages.len(), dir.display()))?;
        output.line(&format!("next: man -l {}", shell::word(&dir.join("fencepost.1").to_string_lossy())))?;
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
        title.render(&mut page).and_then(|()| fs::write(&path, page)).map_err(|error| (path, error))?;
        pages.push(file);
        Ok(())
    };
    for command in whole.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = format!("fencepost-{}", command.get_name());
        write(name, command.clone())?;
    }
    write("fencepost".to_owned(), whole)?;
    pages.sort_unstable();
    Ok(pages)
}

/// The command line without what is hidden: neither of these is to offer what nobody should type.
fn shown() -> Command {
    let full = help::plain();
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
