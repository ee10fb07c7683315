//! Paths that somebody has named, and what the system says of them: which exit code that is, and what changes it.

use std::{fs, io, path::Path};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    shell,
};

/// The path as one word of a command line, which no command takes for an option.
pub(crate) fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.starts_with('-') { shell::word(&format!("./{text}")) } else { shell::word(&text) }
}

/// The folder that it is in, as one word.
fn folder_word(path: &Path) -> String {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or_else(|| ".".to_owned(), word)
}

/// A failure of the system at this path, with an exit code of its own where only the rights are missing.
pub(crate) fn failed(what: String, path: &Path, error: &io::Error, otherwise: Exit) -> Failure {
    Failure::new(exit(error, otherwise), what).then(advice(path, error))
}

/// What it means for whoever calls the command.
pub(crate) fn exit(error: &io::Error, otherwise: Exit) -> Exit {
    if error.kind() == io::ErrorKind::PermissionDenied { Exit::Denied } else { otherwise }
}

/// What changes it. The same command again, only where time alone can help.
pub(crate) fn advice(path: &Path, error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => format!("ls -ld {}", word(path)),
        Some(Errno::ROFS) => {
            format!("findmnt -T {}: it takes no writes; name a place on another disk", folder_word(path))
        }
        Some(Errno::NOSPC | Errno::DQUOT) => {
            format!("df {}; make room there, or name a place on another disk; then {AGAIN}", folder_word(path))
        }
        Some(Errno::LOOP) => format!("ls -l {} shows where the link leads: name the file itself", word(path)),
        Some(Errno::NAMETOOLONG) => {
            "give it a shorter name: at most 255 bytes between two slashes, and 4095 in all".to_owned()
        }
        Some(Errno::ISDIR) => format!("ls -ld {} shows a folder: name a file", word(path)),
        Some(Errno::NOENT | Errno::NOTDIR) => {
            format!("ls -ld {}: make that folder, or correct the path", folder_word(path))
        }
        Some(Errno::EXIST) => format!("ls -ld {} shows what is in the way: name another place", word(path)),
        Some(Errno::NXIO) => format!("ls -ld {}; then name a plain file", word(path)),
        Some(Errno::MFILE | Errno::NFILE) => format!("allow more open files (ulimit -n); then {AGAIN}"),
        Some(Errno::IO) => format!("see what `dmesg` says of the disk; then {AGAIN}"),
        _ => AGAIN.to_owned(),
    }
}

/// Why a file that is there cannot be written to, as far as the system tells: it, or what is written beside it.
pub(crate) fn cannot_be_written(path: &Path) -> Option<io::Error> {
    if let Err(error) = fs::metadata(path) {
        return Some(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = access(path, Access::WRITE_OK).err().map(io::Error::from);
    refused.or_else(|| folder_cannot_be_written(folder))
}

/// Why nothing can be made in a folder, as far as the system tells.
pub(crate) fn folder_cannot_be_written(folder: &Path) -> Option<io::Error> {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).err().map(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutant: every error is worth another try.
    #[test]
    fn what_does_not_pass_by_itself_is_not_answered_with_another_try_alone() {
        let errors =
            [Errno::ACCESS, Errno::NOSPC, Errno::ROFS, Errno::LOOP, Errno::NAMETOOLONG, Errno::ISDIR, Errno::NOENT];
        for errno in errors {
            let error = io::Error::from(errno);
            assert!(!advice(Path::new("a/b"), &error).starts_with(AGAIN), "{error}");
        }
        assert_eq!(advice(Path::new("a/b"), &Errno::AGAIN.into()), AGAIN);
        assert!(advice(Path::new("b"), &Errno::NOSPC.into()).starts_with("df .; "));
    }

    #[test]
    fn a_path_is_never_an_option() {
        assert_eq!(word(Path::new("-rf")), "./-rf");
        assert_eq!(word(Path::new("a b")), "'a b'");
    }
}
