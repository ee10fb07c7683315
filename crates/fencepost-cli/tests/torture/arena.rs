//! Where a run takes place: in namespaces of its own for network, mounts and processes where rights allow, so that packets
//! can be dropped and disks filled, and so that the kernel takes everything away with the arena's first process, however
//! it ends.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicI32, Ordering},
    thread,
};

use fencepost_testkit::torture::{Scene, Verdict, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{binary, clock, common::CHOSEN, nemesis::Nemesis};

const ORDERS: &str = "TORTURE_ARENA";

/// The process id of the server that runs now; 0 where none does.
static SERVER: AtomicI32 = AtomicI32::new(0);

/// Notes which server runs, so that it ends with the arena however that ends.
pub(crate) fn server_runs(pid: Option<u32>) {
    SERVER.store(pid.map_or(0, |pid| i32::try_from(pid).unwrap()), Ordering::SeqCst);
}

/// What a run is to be like.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) chaos_blocks: usize,
    /// Subjects of scenes, by their numbers.
    pub(crate) overtakes: Vec<usize>,
    pub(crate) races: Vec<usize>,
    pub(crate) kills: Vec<usize>,
    pub(crate) losses: Vec<usize>,
    pub(crate) copy_back: bool,
    /// What the operator gets wrong when the coordinator's store is lost.
    pub(crate) mistake: Option<Mistake>,
    /// Nothing of all that, but a wall clock that jumps.
    pub(crate) only_the_clock: bool,
    /// The defect that every process of the run has.
    pub(crate) defect: Option<String>,
    /// Whether to tell on standard error what happens.
    pub(crate) aloud: bool,
}

/// A way to begin again after a loss that no page allows. A run has to show that it breaks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mistake {
    /// In the epoch that was lost.
    SameEpoch,
    /// While somebody may believe in a lease of before.
    TooEarly,
    /// Receivers are told of the new epoch and of no floor.
    NoFloor,
    /// An older copy of the store is put back and served, under a wall clock that is wrong.
    OlderCopy,
}

impl Orders {
    pub(crate) fn scenes(&self) -> Vec<Scene> {
        let scenes = self.overtakes.iter().copied().map(Scene::Overtake);
        let races = self.races.iter().copied().map(Scene::NeckAndNeck);
        let kills = self.kills.iter().copied().map(Scene::KillInTheAct);
        let losses = self.losses.iter().copied().map(Scene::LoseTheStore);
        scenes.chain(races).chain(kills).chain(losses).chain(self.copy_back.then_some(Scene::CopyBack)).collect()
    }
}

/// Orders with the place where they are carried out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Placed {
    pub(crate) root: PathBuf,
    pub(crate) orders: Orders,
    pub(crate) is_apart: bool,
}

/// Ways to have namespaces of one's own: as root, and where users may make them.
const APART: [&[&str]; 2] = [
    &["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
    &["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
];

fn way_to_be_apart(root: &Path) -> Option<&'static [&'static str]> {
    APART.into_iter().find(|flags| {
        let mut probe = Command::new("unshare");
        probe.args(*flags).args(["sh", "-c", "ip link set lo up && mount -t tmpfs tmpfs \"$0\""]).arg(root);
        probe.stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    })
}

/// The first process of an arena. It is killed, and with it everything in there, when this is dropped.
struct Arena {
    child: Child,
    /// Open as long as somebody wants the run.
    _wanted: Option<ChildStdin>,
    folder: TempDir,
}

impl Drop for Arena {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!("what was noted is in {}", self.folder.path().display());
        }
    }
}

/// Carries out the orders in an arena, and says what it has come to. Histories are kept where something was broken.
pub(crate) fn torture(orders: &Orders) -> Verdict {
    let folder = tempfile::Builder::new().prefix("fencepost-torture-").tempdir().unwrap();
    for name in ["data", "resources", "histories", "gates", "backup"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    binary::put_into(folder.path());
    let apart = way_to_be_apart(folder.path());
    let this = env::current_exe().unwrap();
    let mut command = match apart {
        Some(flags) => {
            let mut command = Command::new("unshare");
            command.args(flags).arg(this);
            command
        }
        None => Command::new(this),
    };
    let placed = Placed { root: folder.path().to_owned(), orders: orders.clone(), is_apart: apart.is_some() };
    command.args(["arena::the_arena", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ORDERS, serde_json::to_string(&placed).unwrap()).env_remove("FENCEPOST_SABOTAGE");
    command.envs(orders.defect.iter().map(|defect| ("FENCEPOST_SABOTAGE", defect)));
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut arena = Arena { _wanted: child.stdin.take(), child, folder };
    let status = arena.child.wait().unwrap();
    let verdict = fs::read(arena.folder.path().join("verdict.json"));
    assert!(status.success(), "the arena ended with {status}");
    let verdict: Verdict = serde_json::from_slice(&verdict.unwrap()).unwrap();
    if !verdict.broken.is_empty() && orders.defect.is_none() && orders.mistake.is_none() {
        arena.folder.disable_cleanup(true);
        eprintln!("what was noted is in {}", arena.folder.path().display());
    }
    for (what, why) in &verdict.skipped {
        skip(&format!("torture: {what}"), why);
    }
    verdict
}

/// The first process of an arena. Not a test by itself: [`torture`] starts it.
#[test]
fn the_arena() {
    let Ok(placed) = env::var(ORDERS) else { return };
    let placed: Placed = serde_json::from_str(&placed).unwrap();
    CHOSEN.set(binary::inside(&placed.root)).expect("nobody has chosen yet");
    if placed.is_apart {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.is_ok_and(|status| status.success()), "loopback can be brought up");
        // Libraries that fake a clock leave shared memory behind when they are killed.
        for (name, size) in [("data", "48m"), ("resources", "24m")] {
            mount(&placed.root.join(name), size);
        }
        mount(Path::new("/dev/shm"), "8m");
    }
    end_with_whoever_asked(&placed);
    let root = placed.root.clone();
    let verdict = if placed.orders.only_the_clock { clock::story(&placed) } else { Nemesis::rise(placed).run() };
    fs::write(root.join("verdict.json"), serde_json::to_vec(&verdict).unwrap()).unwrap();
}

fn mount(folder: &Path, size: &str) {
    let options = format!("size={size}");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder).status();
    assert!(mounted.is_ok_and(|status| status.success()), "{} can be mounted", folder.display());
}

/// Standard input ends when whoever asked for the run is gone, killed or interrupted. Nobody else removes the files then.
fn end_with_whoever_asked(placed: &Placed) {
    let (root, is_apart) = (placed.root.clone(), placed.is_apart);
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        if is_apart {
            let _ = Command::new("umount").arg("-l").args([root.join("data"), root.join("resources")]).status();
        }
        // Workers go with their parent. The server is everybody's, and nothing else ends it where there are no namespaces.
        if let Some(pid) = Pid::from_raw(SERVER.load(Ordering::SeqCst)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = fs::remove_dir_all(&root);
        std::process::exit(1);
    });
}
