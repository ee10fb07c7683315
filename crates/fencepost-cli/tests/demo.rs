//! The demo as a person or a script meets it: the real binary, in a folder of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod playing;

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use playing::{FENCEPOST, demo, objects, text};
use serde_json::Value;

/// The verdict that each promise has to get at the least; whoever weakens the script weakens this list.
const SEEN: &[(u8, &str)] = &[
    (1, "Applied"),
    (1, "Rejected: Stale"),
    (1, "not a byte changed"),
    (2, "Applied"),
    (2, "Rejected: Stale"),
    (3, "Replayed: 97"),
    (3, "Replayed: 94"),
    (3, "Rejected: OperationConflict"),
    (3, "Rejected: Stale"),
    (4, "refused by the guard"),
    (4, "not a byte changed"),
    (5, "2 lost"),
    (5, "0 lost"),
    (5, "held by A"),
];

#[test]
fn every_promise_is_kept_and_nothing_is_left_behind() {
    let room = tempfile::tempdir().unwrap();
    let output = demo(room.path()).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(output.stderr.is_empty(), "{}", text(&output));

    let events = objects(&output);
    let finished = events.last().unwrap();
    assert_eq!((&finished["event"], &finished["passed"]), (&"finished".into(), &true.into()));
    for (act, seen) in SEEN {
        let checked = finished["checked"].as_array().unwrap();
        let found = checked.iter().any(|checked| checked["act"] == *act && checked["seen"] == *seen);
        assert!(found, "act {act} shows no {seen:?}");
    }

    check_steps(&events);

    let workers: Vec<u64> = all(&events, "worker").filter_map(|worker| worker["process"].as_u64()).collect();
    assert_eq!(workers.len(), 3);
    assert!(workers.iter().all(|worker| !alive(*worker)), "a worker outlived the demo");
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0, "files were left behind");
}

/// The page about the demo shows a run; it has to be one of this demo.
fn check_page(said: &str) {
    const BEGIN: &str = "<!-- output:begin -->\n```text\n";
    const END: &str = "```\n<!-- output:end -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/demo.md");
    let page = fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once(END).unwrap();
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, format!("{before}{BEGIN}{said}{END}{after}")).unwrap();
    } else {
        let why = "docs/demo.md shows another demo; UPDATE_GOLDEN=1 puts this run there";
        assert_eq!(without_numbers(shown), without_numbers(said), "{why}");
    }
}

/// A run without what differs from run to run: numbers, the name of the folder, and how wide a column is for them.
fn without_numbers(run: &str) -> Vec<String> {
    let word = |word: &str| match word.split_once("fencepost-demo-") {
        Some((before, after)) => format!("{before}{}", after.split_once('/').map_or("", |(_, file)| file)),
        None => word.chars().filter(|c| !c.is_ascii_digit()).collect(),
    };
    run.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")).collect()
}

/// Each step is an object that says who had what.
fn check_steps(events: &[Value]) {
    let stale = all(events, "step").find(|step| step["verdict"]["reason"] == "stale").unwrap();
    assert_eq!((&stale["actor"], &stale["holder"]), (&"A".into(), &"B".into()));
    // Tokens are decimal strings in JSON, so that no reader rounds them.
    let [presented, least] = ["presented", "least_accepted"]
        .map(|field| stale["verdict"][field].as_str().and_then(|digits| digits.parse::<u64>().ok()).unwrap());
    assert!(presented < least);
    assert_eq!(stale["token"].as_str(), stale["verdict"]["presented"].as_str());
    assert_eq!(stale["domain"], "stock/apples");

    let pauses = all(events, "step").filter(|step| step["what"] == "pause").count();
    assert!(pauses >= 8, "{pauses}");
    let per_act = all(events, "act").fold(BTreeMap::new(), |mut acts, act| {
        *acts.entry(act["act"].as_u64()).or_insert(0) += 1;
        acts
    });
    assert_eq!(per_act.len(), 5);
}

/// In a folder where nothing can be written, on a terminal or not, and beside another demo.
#[test]
fn two_demos_run_at_the_same_time_from_a_folder_that_is_read_only() {
    let (room, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let demos: Vec<_> = (0..2)
        .map(|_| {
            let mut demo = demo(room.path());
            demo.current_dir(here.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
            demo.spawn().unwrap()
        })
        .collect();
    for demo in demos {
        let output = demo.wait_with_output().unwrap();
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("promises were kept"), "{said}");
        assert!(!said.contains('\u{1b}'), "no colours, and nothing written over, where there is no terminal");
        check_page(&said.replace(FENCEPOST, "fencepost").replace(&*room.path().to_string_lossy(), "/tmp"));
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0, "files were left behind");
}

#[test]
fn an_interrupt_in_the_middle_takes_everything_along() {
    for (signal, name) in [(2, "INT"), (15, "TERM"), (1, "HUP")] {
        let room = tempfile::tempdir().unwrap();
        let mut demo = demo(room.path());
        demo.arg("--json").stdout(Stdio::piped());
        let mut demo = Running(demo.spawn().unwrap());
        let mut lines = BufReader::new(demo.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut workers = Vec::new();
        // While A is stopped and B waits for its lease.
        for line in lines.by_ref() {
            let event: Value = serde_json::from_str(&line).unwrap();
            workers.extend(event["process"].as_u64());
            if event["what"] == "wait" {
                break;
            }
        }
        assert_eq!(workers.len(), 3);
        let kill = Command::new("kill").args([&format!("-{name}"), &demo.0.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let ended = demo.0.wait().unwrap();
        assert_eq!((ended.code(), ended.signal()), (Some(128 + signal), None), "{name}");
        assert!(workers.iter().all(|worker| !alive(*worker)), "a worker outlived SIG{name}");
        assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0, "SIG{name} left files behind");
    }
}

/// Nobody can clean up after SIGKILL, but no process may stay: least of all a stopped one.
#[test]
fn workers_die_with_a_demo_that_is_killed() {
    let room = tempfile::tempdir().unwrap();
    let mut demo = demo(room.path());
    demo.arg("--json").stdout(Stdio::piped());
    let mut demo = Running(demo.spawn().unwrap());
    let mut lines = BufReader::new(demo.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut workers = Vec::new();
    for line in lines.by_ref() {
        let event: Value = serde_json::from_str(&line).unwrap();
        workers.extend(event["process"].as_u64());
        if event["what"] == "pause" {
            break;
        }
    }
    assert_eq!(workers.len(), 3);
    drop(demo);
    patiently("the workers to end", || workers.iter().all(|worker| !alive(*worker)));
}

#[test]
fn a_reader_that_has_had_enough_ends_it_without_a_trace() {
    let room = tempfile::tempdir().unwrap();
    let mut demo = demo(room.path());
    demo.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut demo = demo.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let ended = demo.wait().unwrap();
    assert_eq!(ended.signal(), Some(13));
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0, "files were left behind");
}

#[test]
fn a_folder_for_temporary_files_that_is_not_there_is_named() {
    let room = tempfile::tempdir().unwrap();
    let output = demo(&room.path().join("gone")).output().unwrap();
    assert_eq!(output.status.code(), Some(73));
    let said = text(&output);
    assert!(said.contains("gone") && said.contains("TMPDIR"), "{said}");
}

#[test]
fn keep_leaves_a_server_that_still_knows_the_leases_and_a_way_to_stop_it() {
    let room = tempfile::tempdir().unwrap();
    let output = demo(room.path()).args(["--keep", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let events = objects(&output);
    let kept = all(&events, "kept").next().unwrap();
    let (url, process) = (kept["url"].as_str().unwrap(), kept["process"].as_u64().unwrap());
    let stop = Stop(process);
    assert!(alive(process));

    let shop = all(&events, "started").next().unwrap()["database"].as_str().unwrap().to_owned();
    let fencepost = |arguments: &[&str]| {
        let output = Command::new(FENCEPOST).args(arguments).env("FENCEPOST_URL", url).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        text(&output)
    };
    fencepost(&["ls", "--json"]);
    let status = fencepost(&["status", &format!("sqlite:{shop}"), "--json"]);
    assert!(status.contains("stock"), "{status}");

    drop(stop);
    patiently("the server to end", || !alive(process));
}

/// What is printed is what somebody types next: the lines are pasted as they stand, in their order.
///
/// Mutants: the server is started on an empty store; the folder stays when the server is stopped.
#[test]
fn what_keep_prints_can_be_pasted_line_by_line_and_the_last_one_ends_it_all() {
    let room = tempfile::tempdir().unwrap();
    let output = demo(room.path()).arg("--keep").output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let runs_on = said.lines().find(|line| line.starts_with("The server runs on at ")).unwrap();
    let url = runs_on.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let process: u64 =
        runs_on.split("(process ").nth(1).and_then(|rest| rest.split(')').next()).unwrap().parse().unwrap();
    let mut stop = StopUnlessGone(Some(process));

    // The store is the one that the demo has played on: what it has shown is known there.
    let fencepost = |words: &[&str]| {
        let output = Command::new(FENCEPOST).args(words).env("FENCEPOST_URL", url).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        objects_of(&output)
    };
    let history = fencepost(&["history", "--prefix", "stock/", "--limit", "1000", "--json"]);
    let items = history["items"].as_array().unwrap();
    let granted: Vec<&Value> = items.iter().filter(|item| item["event"] == "granted").collect();
    assert!(granted.len() >= 17, "as many as the demo tells of: {}", granted.len());
    let shown: Vec<&str> = said.lines().filter(|line| line.contains("granted")).collect();
    let is_shown = |item: &Value| {
        let token: u64 = item["token"].as_str().unwrap().parse().unwrap();
        let token = format!("{}.{}", token >> 43, token & ((1 << 43) - 1));
        shown.iter().any(|line| line.split_whitespace().any(|word| word == token))
    };
    assert!(granted.iter().filter(|item| is_shown(item)).count() >= 10, "{shown:?}");

    let next: Vec<&str> =
        said.lines().skip_while(|line| *line != "Next").filter_map(|line| line.strip_prefix("  ")).collect();
    let next: Vec<&str> = next.into_iter().filter(|line| !line.starts_with('#')).collect();
    let (end, before) = next.split_last().unwrap();
    assert!(end.starts_with("rm -r ") && end.contains("; kill ") && before.len() >= 5, "{next:?}");
    let sh = |lines: &[&str]| {
        let mut sh = Command::new("sh");
        sh.args(["-c", &lines.join("\n")]).env_remove("FENCEPOST_URL").env_remove("XDG_RUNTIME_DIR");
        sh.env("FENCEPOST_SESSION_FILE", room.path().join("session.json")).output().unwrap()
    };
    let (looks, tries): (Vec<&str>, Vec<&str>) = before.iter().partition(|line| !line.starts_with("sqlite3 "));
    let pasted = sh(&looks);
    let told = text(&pasted);
    assert!(pasted.status.success(), "{told}");
    let row = told.lines().find(|line| line.trim_start().starts_with("stock/apples") && line.contains("@"));
    let row = row.unwrap_or_else(|| panic!("ls shows the lease: {told}"));
    let fenced = told.lines().find(|line| line.contains("is fenced at")).unwrap();
    let token = fenced.rsplit(' ').next().unwrap();
    assert!(row.split_whitespace().any(|word| word == token), "{row}: {token}");
    let held = fencepost(&["ls", "--json"]);
    assert_eq!(held["items"][0]["domain"], "stock/apples", "{held}");
    // `sqlite3` is what the set-up of these tests brings.
    let refused = sh(&tries);
    assert!(!refused.status.success() && text(&refused).contains("fencepost:"), "{}", text(&refused));

    assert!(alive(process));
    assert!(sh(&[end]).status.success());
    patiently("the server to end", || !alive(process));
    stop.0 = None;
    let left: Vec<_> = fs::read_dir(room.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with("session.json")), "{left:?}");
}

fn objects_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Ends a server whose stop line was not reached.
struct StopUnlessGone(Option<u64>);

impl Drop for StopUnlessGone {
    fn drop(&mut self) {
        if let Some(process) = self.0 {
            let _ = Command::new("kill").arg(process.to_string()).status();
        }
    }
}

/// A demo that ends at the latest with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends a server that a test has left running, whatever becomes of the test.
struct Stop(u64);

impl Drop for Stop {
    fn drop(&mut self) {
        let stopped = Command::new("kill").arg(self.0.to_string()).status();
        assert!(stopped.is_ok_and(|status| status.success()) || thread::panicking());
    }
}

fn all<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["event"] == kind)
}

/// Whether there is such a process, and it runs or could. One that has ended stays in the list for as long as whoever
/// inherited it does not wait for it, which not every first process of a container does.
fn alive(process: u64) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X"))
}

fn patiently(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10)); // bounded: looks again for twenty seconds at most
    }
}
