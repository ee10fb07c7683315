//! `watch`: events while they happen, over a coordinator that goes away and comes back.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

use crate::common::{Ran, Server, Shell, until};

/// A `watch` that runs, and what it has said until now.
struct Watcher {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    besides: Arc<Mutex<Vec<String>>>,
}

impl Watcher {
    /// Starts it and waits until it is told of what happens.
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (said, besides) = (Arc::default(), Arc::default());
        follow(BufReader::new(child.stdout.take().unwrap()), &said);
        follow(BufReader::new(child.stderr.take().unwrap()), &besides);
        let watcher = Self { child, said, besides };
        until("the stream is open", || watcher.lines().iter().any(|line| line.contains("epoch")));
        watcher
    }

    fn lines(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    fn events(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Names of events of one domain, or without one.
    fn names(&self, domain: Option<&str>) -> Vec<String> {
        let events = self.events().into_iter().filter(|event| event["domain"].as_str() == domain);
        events.map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(mut from: impl BufRead + Send + 'static, into: &Arc<Mutex<Vec<String>>>) {
    let into = into.clone();
    thread::spawn(move || {
        let mut line = String::new();
        while from.read_line(&mut line).is_ok_and(|read| read > 0) {
            into.lock().unwrap().push(line.trim_end().to_owned());
            line.clear();
        }
    });
}

fn acquire_and_release(shell: &Shell, domain: &str) {
    shell.run(&["acquire", domain]).exits(0);
    shell.run(&["release"]).exits(0);
}

#[test]
fn events_arrive_in_order_and_only_those_that_were_asked_for() {
    let server = Server::start();
    let shell = server.shell();
    let watcher = Watcher::start(shell.command(&["watch", "--json", "--prefix", "a/"]));
    for domain in ["a/1", "b/1", "a/2", "a/ö 'x' $(id)"] {
        acquire_and_release(&shell, domain);
    }
    until("six events", || watcher.events().len() == 7);
    let events: Vec<(String, String)> = watcher.events()[1..]
        .iter()
        .map(|event| (event["event"].as_str().unwrap().to_owned(), event["domain"].as_str().unwrap().to_owned()))
        .collect();
    let expected = ["a/1", "a/2", "a/ö 'x' $(id)"]
        .map(|domain| ["granted", "released"].map(|name| (name.to_owned(), domain.to_owned())));
    assert_eq!(events, expected.concat());
    let tokens: Vec<u64> =
        watcher.events()[1..].iter().map(|event| event["token"].as_str().unwrap().parse().unwrap()).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] <= pair[1]), "{tokens:?}");
}

/// Falls when the last id is not sent, or an answer that does not come ends the command.
#[test]
fn a_coordinator_that_was_killed_is_waited_for_and_what_may_be_missing_is_called_a_gap() {
    let mut server = Server::start();
    let shell = server.shell();
    let watcher = Watcher::start(shell.command(&["watch", "--json"]));
    acquire_and_release(&shell, "before");
    until("it is seen", || watcher.names(Some("before")).len() == 2);
    server.kill();
    until("the loss is told", || !watcher.besides.lock().unwrap().is_empty());
    server.restart();
    until("the new stream is open", || watcher.names(None).iter().filter(|name| *name == "epoch").count() == 2);
    acquire_and_release(&shell, "after");
    until("what happens now is seen", || watcher.names(Some("after")).len() == 2);
    assert_eq!(watcher.names(None), ["epoch", "epoch", "gap"], "a run that has ended leaves a gap");
    assert_eq!(watcher.names(Some("before")), ["granted", "released"], "nothing comes twice");
    let told = watcher.besides.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "an outage is told once: {told:?}");
    let history = shell.run(&["history", "before", "--json"]).exits(0).json();
    assert_eq!(history["items"].as_array().unwrap().len(), 2, "the history has what the stream may have missed");
}

/// Falls when the first frame of a stream carries no id.
#[test]
fn a_watcher_that_had_seen_nothing_yet_is_told_of_a_gap_as_well() {
    let mut server = Server::start();
    let watcher = Watcher::start(server.shell().command(&["watch", "--json"]));
    server.kill();
    server.restart();
    until("the new stream is open", || watcher.names(None).len() == 3);
    assert_eq!(watcher.names(None), ["epoch", "epoch", "gap"]);
}

#[test]
fn people_get_lines_and_a_count_ends_it() {
    let server = Server::start();
    let shell = server.shell();
    let mut watcher = Watcher::start(shell.command(&["watch", "--count", "2"]));
    let grant = shell.run(&["acquire", "d", "--holder", "worker-a", "--json"]).exits(0).json();
    shell.run(&["break", "d", "--lease", grant["lease"].as_str().unwrap(), "--reason", "it's stuck"]).exits(0);
    let status = watcher.child.wait().unwrap();
    assert!(status.success());
    until("everything is read", || watcher.lines().len() == 3);
    let lines = watcher.lines();
    assert!(lines[0].ends_with("epoch     the coordinator is in epoch 0"), "{lines:?}");
    assert!(lines[1].contains("granted   d  worker-a  token 0."), "{lines:?}");
    assert!(lines[2].contains("revoked   d  worker-a") && lines[2].ends_with("because: it's stuck"), "{lines:?}");
}

#[test]
fn without_a_coordinator_it_says_so_at_once() {
    let shell = Shell::at("http://127.0.0.1:1");
    let ran = shell.run(&["watch"]).exits(69);
    assert!(ran.stderr.contains("next: see that it runs: fencepost serve"), "{}", ran.stderr);
    let server = Server::start();
    let refused: Ran = server.shell().run(&["watch", "--prefix", "a\nb"]).exits(64);
    assert!(refused.stderr.contains("prefix"), "{}", refused.stderr);
}

/// What `/metrics` says of this series.
fn counted(shell: &Shell, series: &str) -> f64 {
    let address = shell.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_else(|| panic!("no {series} in {text}")).trim().parse().unwrap()
}

/// The coordinator sees neither the file nor the work: both happen in other processes.
/// Mutants: `report::rejected` left out of `verdict::rejected`; `report::work_failed` left out of `run`.
#[test]
fn a_late_write_and_work_that_fails_are_seen_at_the_coordinator() {
    let server = Server::start();
    let shell = server.shell();
    let watcher = Watcher::start(shell.command(&["watch", "--json"]));
    shell.sh("fencepost guard file:report --domain report").exits(0);
    let first = r#"echo "$FENCEPOST_GRANT" >late; echo first | fencepost write file:report"#;
    shell.sh(&format!("fencepost run report -- sh -c '{first}'")).exits(0);
    shell.run(&["run", "report", "--advance", "file:report", "--", "true"]).exits(0);
    let rejections = r#"fencepost_rejections_total{reason="stale"}"#;
    assert_eq!(counted(&shell, rejections), 0.0);
    shell.sh(r#"echo late | FENCEPOST_GRANT=$(cat late) fencepost write file:report --operation bill-1"#).exits(81);
    assert_eq!(counted(&shell, rejections), 1.0);
    until("the watcher is told", || watcher.names(Some("report")).contains(&"rejected".to_owned()));
    let told = watcher.events().into_iter().find(|event| event["event"] == "rejected").unwrap();
    assert_eq!((&told["rejected"], &told["operation"]), (&"stale".into(), &"bill-1".into()));

    let failures = "fencepost_work_failures_total";
    assert_eq!(counted(&shell, failures), 0.0, "a refused write is not a failure of the work");
    shell.run(&["run", "other", "--", "false"]).exits(1);
    assert_eq!(counted(&shell, failures), 1.0);
    shell.run(&["run", "other", "--", "sh", "-c", "kill -9 $$"]).exits(137);
    assert_eq!(counted(&shell, failures), 2.0);

    // Nobody waits for a coordinator that is gone: the verdict is the receiver's.
    drop(server);
    shell.sh("echo late | FENCEPOST_GRANT=$(cat late) fencepost write file:report").exits(81);
}
