//! What the stories have in common: a guarded file in a folder of its own, and grants out of thin air.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId, Token,
    fence::{Fingerprint, LiveLease, Operation, RejectedBy, Rejection, Verdict},
};
use fencepost_receiver::{
    ReceiverSeed,
    file::{Content, FileReceiver},
};
use tempfile::TempDir;

pub(crate) fn issuer() -> Issuer {
    Issuer::new("prod").unwrap()
}

pub(crate) fn domain(name: &str) -> Domain {
    Domain::new(name).unwrap()
}

pub(crate) fn token(text: &str) -> Token {
    text.parse().unwrap()
}

/// A grant of the fixture's domain `f`.
pub(crate) fn grant(text: &str) -> Grant {
    let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([3; 16]));
    Grant { issuer: issuer(), domain: domain("f"), token: token(text), lease, session }
}

pub(crate) fn live(name: &str, text: &str) -> LiveLease {
    LiveLease { domain: domain(name), token: token(text) }
}

pub(crate) fn operation(id: &str, request: &[u8]) -> Operation {
    Operation::new(OperationId::new(id).unwrap(), request)
}

/// An issuer in epoch 1, so that tokens `0.x` and `1.x` are known and `2.x` are not.
pub(crate) fn seed() -> ReceiverSeed {
    ReceiverSeed::new(issuer(), Epoch::new(1).unwrap())
}

pub(crate) fn content(bytes: &[u8]) -> Content {
    Content { bytes: bytes.len() as u64, digest: Fingerprint::of(bytes) }
}

pub(crate) fn stale(presented: &str, least: &str, by: RejectedBy) -> Rejection {
    Rejection::Stale { presented: token(presented), least_accepted: token(least), by }
}

pub(crate) fn rejected<T>(verdict: &Verdict<T>) -> Option<Rejection> {
    verdict.rejection().cloned()
}

/// Where memory is a file system, for stories with many writes; else the ordinary place.
pub(crate) fn in_memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// The file systems on which a writer is killed, as `statfs` tells them: one with a journal, and one without a disk.
const FILE_SYSTEMS: [(&str, u64); 2] = [("ext4", 0xef53), ("tmpfs", 0x0102_1994)];

/// A folder on each of the file systems, where this machine has one; the ordinary place besides, where that is none of
/// them. What is not to be had is a skip with its name.
pub(crate) fn file_systems(story: &str) -> Vec<PathBuf> {
    let ordinary = std::env::temp_dir();
    let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let candidates = [ordinary.clone(), built, PathBuf::from("/var/tmp"), in_memory()];
    let mut found = Vec::new();
    for (name, magic) in FILE_SYSTEMS {
        let can_be_used = |folder: &&PathBuf| file_system_of(folder) == magic && tempfile::tempdir_in(folder).is_ok();
        match candidates.iter().find(can_be_used) {
            Some(folder) => {
                println!("{name}: {}", folder.display());
                found.push(folder.clone());
            }
            None => skip(&format!("{story} on {name}"), "no folder that can be written lies on it"),
        }
    }
    if !FILE_SYSTEMS.iter().any(|(_, magic)| file_system_of(&ordinary) == *magic) {
        found.push(ordinary);
    }
    found
}

/// The number that tells the kind of a folder's file system.
fn file_system_of(folder: &Path) -> u64 {
    rustix::fs::statfs(folder).map_or(0, |found| found.f_type as u64 & 0xffff_ffff)
}

pub(crate) struct Guarded {
    pub(crate) receiver: FileReceiver,
    pub(crate) folder: TempDir,
}

impl Guarded {
    /// A guarded file that holds `old`.
    pub(crate) fn new() -> Self {
        Self::under(&std::env::temp_dir())
    }

    pub(crate) fn under(parent: &Path) -> Self {
        let guarded = Self::unguarded(parent);
        fs::write(guarded.path(), "old").unwrap();
        fs::set_permissions(guarded.path(), fs::Permissions::from_mode(0o644)).unwrap();
        guarded.receiver.guard(&domain("f"), Some(&seed())).unwrap();
        guarded
    }

    /// No file yet, and no guard.
    pub(crate) fn unguarded(parent: &Path) -> Self {
        let folder = tempfile::tempdir_in(parent).unwrap();
        Self { receiver: FileReceiver::new(folder.path().join("f.txt")), folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.receiver.path()
    }

    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!(".f.txt.{suffix}"))
    }

    pub(crate) fn write(&self, text: &str, bytes: &[u8]) -> Verdict<Content> {
        self.receiver.write(&grant(text), None, bytes).unwrap()
    }

    pub(crate) fn write_as(&self, text: &str, operation: &Operation, bytes: &[u8]) -> Verdict<Content> {
        self.receiver.write(&grant(text), Some(operation), bytes).unwrap()
    }

    pub(crate) fn holds(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Every file of the folder with what it holds: what a refused write must leave as it was.
    pub(crate) fn dump(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    }
}

/// Says that a story could not be told here.
pub(crate) fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {}\n", reason.replace('\n', " "));
    eprint!("{line}");
    if let Some(path) = std::env::var_os("FENCEPOST_SKIPS") {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}
