//! Programs that tests and benchmarks start, where the distribution and not a package registry has them.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::command::{on_path, output, run};

/// A program and the Debian package that brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The SQLite shell: plain SQL from code that knows nothing of Fencepost.
    Sqlite3,
    /// Sends the signals of tests.
    Kill,
    /// A shell whose completions are read by it.
    Zsh,
    /// Another one.
    Fish,
    /// Shows the manual pages.
    Man,
    /// Reads the units of the recipes.
    SystemdAnalyze,
    /// etcd, a peer in the benchmarks.
    Etcd,
    /// The command line of etcd, a peer in the benchmarks.
    Etcdctl,
    /// Redis, a peer in the benchmarks.
    Redis,
    /// The compiler that libFuzzer is built with.
    Cxx,
    /// Drops packets in the torture's own network namespace.
    Nft,
    /// Steps the wall clock of the torture's processes.
    Faketime,
}

impl Program {
    const fn binary(self) -> &'static str {
        match self {
            Self::Sqlite3 => "sqlite3",
            Self::Kill => "kill",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Man => "man",
            Self::SystemdAnalyze => "systemd-analyze",
            Self::Etcd => "etcd",
            Self::Etcdctl => "etcdctl",
            Self::Redis => "redis-server",
            Self::Cxx => "c++",
            Self::Nft => "nft",
            Self::Faketime => "faketime",
        }
    }

    const fn package(self) -> &'static str {
        match self {
            Self::Sqlite3 => "sqlite3",
            Self::Kill => "procps",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Man => "man-db",
            Self::SystemdAnalyze => "systemd",
            Self::Etcd => "etcd-server",
            Self::Etcdctl => "etcd-client",
            Self::Redis => "redis-server",
            Self::Cxx => "g++",
            Self::Nft => "nftables",
            Self::Faketime => "faketime",
        }
    }

    fn is_there(self) -> bool {
        // Only root has the second folder on its path.
        on_path(self.binary()) || Path::new("/usr/sbin").join(self.binary()).is_file()
    }
}

/// Sees to it that these programs are there where that is possible, and says so where it is not: what needs one of them
/// is skipped then, by name.
pub(crate) fn wish(programs: &[Program]) -> Vec<String> {
    ensure(programs).unwrap_or_else(|error| vec![format!("skipped for want of a program: {error:#}")])
}

/// Sees to it that these programs are there; installs what is missing where that is possible.
///
/// # Errors
/// When something is missing and cannot be installed; the error says what to install.
pub(crate) fn ensure(programs: &[Program]) -> Result<Vec<String>> {
    let missing: Vec<Program> = programs.iter().copied().filter(|program| !program.is_there()).collect();
    if missing.is_empty() {
        return Ok(vec!["all there".to_owned()]);
    }
    let packages: Vec<&str> = missing.iter().map(|program| program.package()).collect();
    let advice = advice(&missing);
    if !on_path("apt-get") || !is_root() {
        bail!("{advice}");
    }
    let apt_get = || {
        let mut command = Command::new("apt-get");
        // At runlevel 1 the packages' scripts do not start the servers as services of the machine.
        command.env("RUNLEVEL", "1").env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(apt_get().arg("update")).context(advice.clone())?;
    run(apt_get().args(["install", "-y", "--no-install-recommends", "--no-upgrade"]).args(&packages))
        .context(advice.clone())?;
    if let Some(program) = missing.iter().find(|program| !program.is_there()) {
        bail!("`{}` was installed and is still not on the PATH", program.binary());
    }
    Ok(vec![format!("installed {}", packages.join(", "))])
}

fn advice(missing: &[Program]) -> String {
    let binaries: Vec<String> = missing.iter().map(|program| format!("`{}`", program.binary())).collect();
    let packages: Vec<&str> = missing.iter().map(|program| program.package()).collect();
    format!(
        "the tests need {}; install {} (Debian package names) and run this again",
        binaries.join(", "),
        packages.join(" ")
    )
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_program_and_the_package() {
        let text = advice(&[Program::Sqlite3]);
        assert!(text.contains("need `sqlite3`; install sqlite3 "), "{text}");
    }
}
