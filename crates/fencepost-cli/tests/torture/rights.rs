//! What this machine lets the nemesis do, and why not the rest.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use fencepost_testkit::torture::{Direction, now_us};

use crate::arena::Placed;

/// How far a worker in a time namespace is ahead.
pub(crate) const SHIFT_S: u64 = 86_400;

pub(crate) struct Rights {
    pub(crate) nft: Option<PathBuf>,
    pub(crate) faketime: Option<PathBuf>,
    pub(crate) time_namespace: bool,
    pub(crate) small_disks: bool,
    pub(crate) skipped: BTreeMap<String, String>,
}

impl Rights {
    pub(crate) fn found(placed: &Placed) -> Self {
        let mut skipped = BTreeMap::new();
        let mut skip = |what: &str, why: &str| {
            skipped.insert(what.to_owned(), why.to_owned());
        };
        if !placed.is_apart {
            skip("full disks", "no rights for namespaces of its own (unshare, ip)");
        }
        let nft =
            ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"].into_iter().map(PathBuf::from).find(|nft| nft.exists());
        let nft = match nft {
            None => {
                skip("packets dropped by nftables", "no nft: Debian package nftables");
                None
            }
            Some(_) if !placed.is_apart => {
                skip("packets dropped by nftables", "no rights for a network namespace of its own");
                None
            }
            Some(nft) => match chain(&nft) {
                Ok(()) => Some(nft),
                Err(why) => {
                    skip("packets dropped by nftables", &why);
                    None
                }
            },
        };
        let faketime = match library() {
            None => {
                skip("wall clock stepped", "no libfaketimeMT.so.1: Debian package faketime");
                None
            }
            // It leaves shared memory behind where its process is killed, which a mount of one's own takes away.
            Some(_) if !placed.is_apart => {
                skip("wall clock stepped", "no rights for mounts of its own");
                None
            }
            Some(library) => Some(library),
        };
        let time_namespace = placed.is_apart && shifts_the_clock();
        if !time_namespace {
            skip("a worker with other monotonic clocks", "no rights for a time namespace of its own");
        }
        let small_disks = placed.is_apart;
        Self { nft, faketime, time_namespace, small_disks, skipped }
    }

    /// The variables under which a process sees the wall clock that the file says.
    pub(crate) fn faked_clock(&self, root: &Path) -> Vec<(String, String)> {
        let Some(library) = &self.faketime else { return Vec::new() };
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        // Monotonic clocks stay as they are: what is stepped is the wall clock.
        [
            ("LD_PRELOAD", text(library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&root.join("clock"))),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    pub(crate) fn drop_packets(&self, port: u16, direction: Direction) {
        let Some(nft) = &self.nft else { return };
        let (requests, answers) = (format!("tcp dport {port} drop"), format!("tcp sport {port} drop"));
        let rules = match direction {
            Direction::Requests => vec![requests],
            Direction::Answers => vec![answers],
            Direction::Both => vec![requests, answers],
        };
        for rule in rules {
            run(nft, &format!("add rule inet torture input {rule}")).unwrap();
        }
    }

    pub(crate) fn drop_none(&self) {
        if let Some(nft) = &self.nft {
            run(nft, "flush chain inet torture input").unwrap();
        }
    }
}

/// From now on processes with a faked clock see the wall clock this many seconds off.
pub(crate) fn set_wall_clock(root: &Path, seconds: i64) {
    let beside = root.join("clock.new");
    fs::write(&beside, format!("{seconds:+}")).unwrap();
    fs::rename(beside, root.join("clock")).unwrap();
}

fn chain(nft: &Path) -> Result<(), String> {
    run(nft, "add table inet torture")?;
    run(nft, "add chain inet torture input { type filter hook input priority 0 ; }")
}

fn run(nft: &Path, words: &str) -> Result<(), String> {
    let output = Command::new(nft).args(words.split(' ')).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}

/// Whether a program that is started in a time namespace has its clocks at once, and not only its children.
fn shifts_the_clock() -> bool {
    let shift = SHIFT_S.to_string();
    let uptime = Command::new("unshare").args(["--time", "--boottime", &shift, "cat", "/proc/uptime"]).output();
    let seconds = uptime.ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.split('.').next()?.parse::<u64>().ok()
    });
    seconds.is_some_and(|seconds| seconds >= now_us(0) / 1_000_000 + SHIFT_S - 60) && env::consts::OS == "linux"
}
