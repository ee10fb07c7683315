//! The nemesis: carries out a plan against a server and workers, and has what they noted judged in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fencepost_client::HttpCoordinator;
use fencepost_coordinator::Coordinator as _;
use fencepost_testkit::{
    history::{self, History},
    proxy::{Fault, Proxy},
    torture::{Block, Deed, Disk, Plan, Random, Step, Tally, Target, Verdict, Weather, Wishes, lost},
};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;

use crate::{
    arena::{Orders, Placed, server_runs},
    common::{Server, Shell, until},
    gates::Gates,
    losing::{Told, database_line, file_line},
    rights::{Rights, SHIFT_S, set_wall_clock},
    subject::{Kind, SUBJECTS, Store, database, make_database},
    worker::{self, TTL_MS},
};

/// How long a worker may take to end when it is told to.
const FAREWELL: Duration = Duration::from_secs(60);

/// A worker's process. It is killed when this is dropped.
struct Worker {
    child: Child,
    life: u32,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Nemesis {
    pub(crate) root: PathBuf,
    pub(crate) orders: Orders,
    pub(crate) gates: Gates,
    rights: Rights,
    pub(crate) server: Server,
    pub(crate) server_is_up: bool,
    proxies: Vec<Proxy>,
    workers: Vec<Worker>,
    pub(crate) coordinator: HttpCoordinator,
    pub(crate) generation: u32,
    /// What stood in the sets when a generation ended, by resource and domain.
    pub(crate) found: BTreeMap<(String, String), BTreeSet<String>>,
    pub(crate) seen: BTreeMap<String, u64>,
    /// Which receivers were told of which epoch, after the coordinator's store was lost.
    pub(crate) told: Vec<Told>,
    pub(crate) verdict: Verdict,
    /// Whether no worker and no fault is left that an intruder could run into.
    is_calm: bool,
    began: Instant,
    /// Last, so that proxies go before it.
    pub(crate) runtime: Runtime,
}

impl Nemesis {
    /// Starts the server, guards the resources, and starts the workers.
    pub(crate) fn rise(placed: Placed) -> Self {
        let Placed { root, orders, .. } = &placed;
        let rights = Rights::found(&placed);
        set_wall_clock(root, 0);
        let mut environment = rights.faked_clock(root);
        environment.extend(orders.defect.iter().map(|defect| ("FENCEPOST_SABOTAGE".to_owned(), defect.clone())));
        let server = Server::with_store_in(&root.join("data"), 0, environment);
        server_runs(Some(server.pid()));
        guard(root, &server.shell(), orders.defect.as_deref());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = server.url.strip_prefix("http://").unwrap().parse().unwrap();
        let proxies =
            (0..orders.workers).map(|_| runtime.block_on(Proxy::start(address, Vec::new())).unwrap()).collect();
        let verdict = Verdict { seed: orders.seed, skipped: rights.skipped.clone(), ..Verdict::default() };
        let mut nemesis = Self {
            root: root.clone(),
            orders: orders.clone(),
            gates: Gates::of(root),
            rights,
            coordinator: HttpCoordinator::new(&server.url).unwrap(),
            server,
            server_is_up: true,
            proxies,
            workers: Vec::new(),
            generation: 0,
            found: BTreeMap::new(),
            seen: BTreeMap::new(),
            told: Vec::new(),
            verdict,
            is_calm: false,
            began: Instant::now(),
            runtime,
        };
        for index in 0..orders.workers {
            let worker = nemesis.start(index, 0);
            nemesis.workers.push(worker);
        }
        nemesis
    }

    pub(crate) fn run(mut self) -> Verdict {
        let wishes = Wishes {
            workers: self.orders.workers,
            pause_ms: TTL_MS + TTL_MS / 4,
            chaos_blocks: self.orders.chaos_blocks,
            scenes: self.orders.scenes(),
            ..Wishes::default()
        };
        for block in Plan::draw(self.orders.seed, &wishes).blocks {
            match block {
                Block::Chaos(steps) => self.chaos(&steps),
                Block::Scene(scene) => {
                    self.calm();
                    self.play(scene);
                }
            }
        }
        self.calm();
        self.dismiss();
        // Not only where the plan came to it: a guard that is gone has to be noticed by every run.
        self.is_calm = true;
        self.perform(Deed::Intrude);
        self.end_generation();
        self.judge();
        self.verdict
    }

    pub(crate) fn tell(&self, what: impl std::fmt::Display) {
        if self.orders.aloud {
            eprintln!("{:>8.3} s  {what}", self.began.elapsed().as_secs_f64());
        }
    }

    fn start(&self, index: usize, life: u32) -> Worker {
        let this = std::env::current_exe().unwrap();
        // One worker lives as if on another machine: its clocks cannot be compared with the server's.
        let is_elsewhere = index == 1 && self.rights.time_namespace;
        let shift = SHIFT_S.to_string();
        let mut command = if is_elsewhere {
            let mut command = Command::new("unshare");
            command.args(["--time", "--boottime", &shift, "--monotonic", &shift]).arg(this);
            command
        } else {
            Command::new(this)
        };
        let orders = worker::Orders {
            root: self.root.clone(),
            url: format!("http://{}", self.proxies[index].address()),
            index,
            life,
            seed: Random::new(self.orders.seed ^ (index as u64) << 32 ^ u64::from(life)).next(),
            shift_us: if is_elsewhere { SHIFT_S * 1_000_000 } else { 0 },
            seen: self.seen.clone(),
        };
        command.args(["worker::the_worker", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(worker::ORDERS, serde_json::to_string(&orders).unwrap());
        command.envs(self.rights.faked_clock(&self.root));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Worker { child: command.spawn().unwrap(), life }
    }

    fn chaos(&mut self, steps: &[Step]) {
        let began = Instant::now();
        for step in steps {
            let due = Duration::from_millis(step.at_ms);
            // bounded: by the plan
            thread::sleep(due.saturating_sub(began.elapsed()));
            if self.perform(step.deed) {
                self.tell(step.deed);
                if let Some(kind) = step.deed.kind() {
                    self.verdict.deeds.count(kind.as_str());
                }
            }
        }
    }

    /// False where it cannot be done here.
    pub(crate) fn perform(&mut self, deed: Deed) -> bool {
        match deed {
            Deed::Stop(Target::Worker(index)) => {
                self.wait_until_it_thinks(index);
                self.send(Target::Worker(index), Signal::STOP);
            }
            Deed::Stop(Target::Server) => self.send(Target::Server, Signal::STOP),
            Deed::Continue(target) => self.send(target, Signal::CONT),
            Deed::Kill(Target::Server) => {
                server_runs(None);
                self.server.kill();
                self.server_is_up = false;
            }
            Deed::Kill(Target::Worker(index)) => self.replace(index),
            Deed::Restart => self.restart(),
            Deed::Cut(index) => self.proxies[index].cut(),
            Deed::Weather(index, weather) => self.proxies[index].meanwhile(Some(fault(weather))),
            Deed::Clear(index) => self.clear(index),
            Deed::Partition(index, direction) => {
                self.rights.drop_packets(self.proxies[index].address().port(), direction);
                return self.rights.nft.is_some();
            }
            Deed::Heal => self.rights.drop_none(),
            Deed::StepClock(seconds) => {
                set_wall_clock(&self.root, seconds);
                return self.rights.faketime.is_some();
            }
            Deed::Fill(disk) => {
                if self.rights.small_disks {
                    fill(&self.ballast(disk));
                }
                return self.rights.small_disks;
            }
            Deed::Free(disk) => {
                let _ = fs::remove_file(self.ballast(disk));
            }
            Deed::Intrude => self.intrude(),
        }
        true
    }

    fn ballast(&self, disk: Disk) -> PathBuf {
        let folder = match disk {
            Disk::Server => "data",
            Disk::Resources => "resources",
        };
        self.root.join(folder).join("ballast")
    }

    fn send(&self, target: Target, signal: Signal) {
        let pid = match target {
            Target::Server => self.server_is_up.then(|| self.server.pid()),
            Target::Worker(index) => Some(self.workers[index].child.id()),
        };
        // It may have ended meanwhile.
        let _ = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).unwrap())).map(|pid| kill_process(pid, signal));
    }

    /// A pause hurts most between reading and writing. Where that does not come soon, any moment will do.
    fn wait_until_it_thinks(&self, index: usize) {
        let thinking = format!("thinking.w{index}.{}", self.workers[index].life);
        let until = Instant::now() + Duration::from_millis(400);
        while !self.gates.is_there(&thinking) && Instant::now() < until {
            // bounded: by the line above
            thread::sleep(Duration::from_micros(500));
        }
    }

    /// Kills a worker where it stands, and starts another one in its place.
    fn replace(&mut self, index: usize) {
        let life = self.workers[index].life + 1;
        let _ = self.workers[index].child.kill();
        let _ = self.workers[index].child.wait();
        self.workers[index] = self.start(index, life);
    }

    fn restart(&mut self) {
        if !self.server_is_up {
            self.server.restart();
            server_runs(Some(self.server.pid()));
            self.server_is_up = true;
        }
    }

    fn clear(&self, index: usize) {
        self.proxies[index].meanwhile(None);
        // What was swallowed is never answered.
        self.proxies[index].cut();
    }

    /// A program that knows nothing of Fencepost writes to the guarded table. The guard has to refuse it.
    fn intrude(&mut self) {
        let intruded = Connection::open(database(&self.root))
            .and_then(|connection| connection.execute("UPDATE guarded SET elements = elements || 'intruder\n'", []));
        match intruded {
            Err(error) if error.to_string().starts_with("fencepost:") => self.verdict.notes.count("intruder refused"),
            // A full disk and a lock are no answer of the guard; the last attempt of a run meets neither.
            Err(error) if self.is_calm => {
                self.verdict.broken.push(format!("I5: a write without a token was not refused by the guard: {error}"));
            }
            Err(_) => self.verdict.notes.count("intruder kept off by a fault"),
            Ok(_) => self.verdict.broken.push("I5: a write without a token was not refused".to_owned()),
        }
    }

    /// Ends every fault, and waits until the server answers.
    pub(crate) fn calm(&mut self) {
        for index in 0..self.workers.len() {
            self.send(Target::Worker(index), Signal::CONT);
            self.clear(index);
        }
        self.rights.drop_none();
        for disk in [Disk::Server, Disk::Resources] {
            let _ = fs::remove_file(self.ballast(disk));
        }
        self.send(Target::Server, Signal::CONT);
        self.restart();
        until("the server answers", || self.runtime.block_on(self.coordinator.snapshot(String::new())).is_ok());
        // A worker that ended by itself has met a bug, which its own words on standard error tell.
        for index in 0..self.workers.len() {
            if let Ok(Some(status)) = self.workers[index].child.try_wait() {
                self.verdict.broken.push(format!("worker {index} ended by itself with {status}"));
                self.replace(index);
            }
        }
    }

    pub(crate) fn stop_worker(&self, name: &str) {
        self.send(Target::Worker(self.index_of(name)), Signal::STOP);
    }

    pub(crate) fn continue_worker(&self, name: &str) {
        self.send(Target::Worker(self.index_of(name)), Signal::CONT);
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server.pid()
    }

    fn index_of(&self, name: &str) -> usize {
        name[1..].split('.').next().and_then(|index| index.parse().ok()).unwrap()
    }

    pub(crate) fn worker_names(&self) -> Vec<String> {
        self.workers.iter().enumerate().map(|(index, worker)| format!("w{index}.{}", worker.life)).collect()
    }

    /// What the sets hold is what a generation has come to.
    pub(crate) fn end_generation(&mut self) {
        let store = Store::open(&self.root, &BTreeMap::new()).unwrap();
        self.found.extend(store.all(self.generation).unwrap());
    }

    fn dismiss(&mut self) {
        self.gates.put("stop");
        for worker in &mut self.workers {
            let until = Instant::now() + FAREWELL;
            let ended = loop {
                let ended = worker.child.try_wait().unwrap();
                if ended.is_some() || Instant::now() > until {
                    break ended;
                }
                // bounded: by FAREWELL
                thread::sleep(Duration::from_millis(5));
            };
            // A panic in its last seconds is as much of a bug as one before.
            match ended {
                Some(status) if status.success() => {}
                Some(status) => self.verdict.broken.push(format!("a worker ended with {status} when it was dismissed")),
                None => self.verdict.broken.push(format!("a worker did not end within {FAREWELL:?} of its dismissal")),
            }
        }
        self.workers.clear();
    }

    fn judge(&mut self) {
        let (checked, unfenced) = (self.history("history"), self.history("unfenced"));
        let report = history::check(&checked);
        self.verdict.judge(&report);
        self.tell(format!("{} calls at {} registers checked", report.calls, report.registers));
        self.judge_lost_epochs(&checked.calls);
        self.verdict.answers = Tally::of_answers(&checked);
        for history in [&checked, &unfenced] {
            for lost in lost(history, &self.found) {
                let subject = SUBJECTS.into_iter().find(|subject| subject.domain().as_str() == lost.domain).unwrap();
                self.verdict.lose(subject.discipline, &lost);
            }
        }
        for note in self.texts("notes").lines() {
            match note.strip_prefix("BROKEN ") {
                Some(broken) => self.verdict.broken.push(broken.to_owned()),
                None => self.verdict.notes.count(note),
            }
        }
    }

    pub(crate) fn texts(&self, kind: &str) -> String {
        let mut all = String::new();
        for entry in fs::read_dir(self.root.join("histories")).unwrap().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == kind) {
                let text = fs::read_to_string(entry.path()).unwrap();
                // Its process may be in the middle of a line.
                all.push_str(&text[..text.rfind('\n').map_or(0, |end| end + 1)]);
            }
        }
        all
    }

    /// Everything that all processes have noted of a kind, put together by the clock that they share.
    pub(crate) fn history(&self, kind: &str) -> History {
        let text = self.texts(kind);
        fs::write(self.root.join(format!("{kind}.jsonl")), &text).unwrap();
        history::read(BufReader::new(text.as_bytes())).unwrap_or_else(|malformed| panic!("{kind}: {malformed}"))
    }
}

fn fault(weather: Weather) -> Fault {
    match weather {
        Weather::SlowRequests(ms) => Fault::DelayRequest(Duration::from_millis(ms)),
        Weather::SlowAnswers(ms) => Fault::DelayReply(Duration::from_millis(ms)),
        Weather::Repeating => Fault::RepeatRequest,
        Weather::AnswersLost => Fault::DropReply,
        Weather::Blackhole => Fault::SwallowRequest,
    }
}

/// Writes until there is no room left, to the last byte.
fn fill(ballast: &Path) {
    let mut file = fs::File::create(ballast).unwrap();
    let mut piece = vec![7; 64 * 1024];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
}

/// Makes the resources and guards them through the real command.
fn guard(root: &Path, shell: &Shell, defect: Option<&str>) {
    make_database(root).unwrap();
    let run = |arguments: &[String]| {
        let mut command = shell.command(arguments);
        command.envs(defect.map(|defect| ("FENCEPOST_SABOTAGE", defect)));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&database_line(root));
    for subject in SUBJECTS.into_iter().filter(|subject| subject.kind == Kind::File && subject.is_fenced()) {
        run(&file_line(root, subject));
    }
}
