//! `serve`: a store is never taken for new by itself, and a stop answers what is under way.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixDatagram, process::CommandExt},
    process::Stdio,
    sync::Arc,
};

use fencepost_coordinator::{
    AcquireRequest, Coordinator,
    embedded::{Embedded, InitOptions, Options, testing::ManualWallClock},
};
use fencepost_core::{Domain, Epoch, Holder, RequestId, Sequence, Ttl};

use crate::common::{Ran, Server, fencepost, until};

fn serve(arguments: &[&str]) -> Ran {
    Ran::of(fencepost().args(["serve", "--listen", "127.0.0.1:0"]).args(arguments).output().unwrap())
}

/// Mutants: `Embedded::init` called where there is no store; the advice to put an old directory back, on which the same
/// tokens would be granted once more.
#[test]
fn an_empty_directory_is_never_taken_for_a_new_coordinator() {
    let folder = tempfile::tempdir().unwrap();
    for data in [folder.path().join("missing"), folder.path().to_owned()] {
        let data = data.to_str().unwrap();
        let ran = serve(&["--data", data]).exits(78);
        let line = ran.next("fencepost serve --data");
        assert!(line.starts_with(&format!("fencepost serve --data {data} --init")), "{line}");
        ran.next("never copy an old directory back");
    }
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing was made");
}

#[test]
fn a_lost_store_that_is_begun_anew_grants_greater_tokens() {
    let mut server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    server.kill();
    fs::remove_dir_all(server.data()).unwrap();
    let data = server.data().to_str().unwrap().to_owned();
    serve(&["--data", &data]).exits(78);
    // Its epoch is the hours since 2026, so it is above the old one's.
    let mut child = fencepost();
    child.args(["serve", "--json", "--init", "--listen", "127.0.0.1:0", "--data", &data]).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready["epoch"].as_u64().unwrap() > 0, "{ready}");
}

/// Mutant: the issuer not handed to `Embedded::init`; the receiver then refuses the coordinator that came back.
#[test]
fn a_lost_store_comes_back_under_its_name_and_receivers_are_told_by_guarding_again() {
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, epoch: &str| {
        let data = folder.path().join(name);
        let mut command = fencepost();
        command.args(["serve", "--json", "--init", "--issuer", "prod", "--epoch", epoch, "--listen", "127.0.0.1:0"]);
        let mut child = command.arg("--data").arg(data).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        (child, crate::common::Shell::at(ready["url"].as_str().unwrap()))
    };
    let (mut lost, before) = start("old", "3");
    let resource = before.database("x.db", "CREATE TABLE t (d TEXT)");
    let guard = |url: &str| before.run(&["guard", &resource, "t", "--domain", "d", "--url", url]);
    guard(&before.url).exits(0);
    lost.kill().unwrap();
    lost.wait().unwrap();
    let (mut new, after) = start("new", "4");
    let work = |code| after.run(&["run", "d", "--advance", &resource, "--", "true"]).exits(code);
    work(81);
    guard(&after.url).exits(0);
    work(0);
    new.kill().unwrap();
    new.wait().unwrap();
    serve(&["--data", folder.path().to_str().unwrap(), "--init", "--issuer", "prod"]).exits(64);
}

#[test]
fn a_store_that_is_there_is_not_initialised_again() {
    let mut server = Server::start();
    server.kill();
    let data = server.data().to_str().unwrap();
    let ran = serve(&["--data", data, "--init"]).exits(78);
    assert!(ran.stderr.contains("leave --init out"), "{}", ran.stderr);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("something"), "else").unwrap();
    let ran = serve(&["--data", folder.path().to_str().unwrap(), "--init"]).exits(78);
    assert!(ran.stderr.contains("something is in it"), "{}", ran.stderr);
}

#[test]
fn a_store_in_use_names_the_process_that_has_it() {
    let server = Server::start();
    let ran = serve(&["--data", server.data().to_str().unwrap()]).exits(78);
    let pid = server.pid();
    assert!(
        ran.stderr.contains(&format!("process {pid}")) && ran.stderr.contains(&format!("kill {pid}")),
        "{}",
        ran.stderr
    );
    assert!(server.shell().run(&["ls"]).code == Some(0), "and that one goes on");
}

#[test]
fn a_damaged_store_is_not_served() {
    let mut server = Server::start();
    server.kill();
    for entry in fs::read_dir(server.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "db") || path.to_string_lossy().contains("sqlite") {
            fs::write(path, "not a database\n".repeat(1_000)).unwrap();
        }
    }
    let ran = serve(&["--data", server.data().to_str().unwrap()]).exits(78);
    assert!(ran.stderr.contains("damaged") || ran.stderr.contains("not a database"), "{}", ran.stderr);
}

#[test]
fn a_taken_port_is_found_before_a_store_is_made() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new");
    let address = server.url.trim_start_matches("http://");
    let arguments = ["serve", "--listen", address, "--init", "--data", data.to_str().unwrap()];
    let ran = Ran::of(fencepost().args(arguments).output().unwrap()).exits(78);
    assert!(ran.stderr.contains("--listen 127.0.0.1:0"), "{}", ran.stderr);
    assert!(!data.exists());
    serve(&["--data", data.to_str().unwrap(), "--listen"]).exits(64);
    let nowhere = ["serve", "--listen", "nowhere", "--data", data.to_str().unwrap()];
    Ran::of(fencepost().args(nowhere).output().unwrap()).exits(78);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_a_failure_to_write() {
    serve(&["--init", "--data", "/proc/nowhere/data"]).exits(73);
}

/// Whether there is a store is not known then, so a new one is not the cure.
#[test]
fn a_data_directory_that_cannot_be_looked_into_is_not_taken_for_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    for data in ["/dev/null/data", file.to_str().unwrap()] {
        for init in [&[][..], &["--init"]] {
            let ran = serve(&[&["--data", data], init].concat()).exits(78);
            assert!(ran.stderr.contains("is not a directory") && !ran.stderr.contains("--init"), "{}", ran.stderr);
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");

    let mut server = Server::start();
    server.kill();
    fs::set_permissions(server.data().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("fencepost");
    fs::copy(fencepost().get_program(), &program).unwrap();
    // A user that owns nothing. Whoever may not become another one looks at its own store, as before.
    for init in [&[][..], &["--init"]] {
        let mut command = std::process::Command::new(&program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(server.data()).args(init);
        let Ok(output) = command.current_dir("/").uid(65_534).gid(65_534).output() else { return };
        let ran = Ran::of(output).exits(77);
        assert!(ran.stderr.contains("Permission denied") && !ran.stderr.contains("--init"), "{}", ran.stderr);
    }
}

#[test]
fn told_to_stop_it_answers_who_waits_and_exits_0() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start();
        let (a, b) = (server.shell(), server.shell());
        a.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
        let waiting = b.command(&["acquire", "d", "--wait", "2s"]).spawn().unwrap();
        until("the other stands in the queue", || {
            a.run(&["show", "d", "--json"]).exits(0).json()["items"][0]["queue"] == 1
        });
        assert_eq!(server.terminate(signal).code(), Some(0));
        let ran = Ran::of(waiting.wait_with_output().unwrap());
        assert!(matches!(ran.code, Some(69 | 82)), "{ran:?}");
        server.restart();
        a.run(&["renew"]).exits(0);
    }
}

#[test]
fn it_says_where_it_listens_and_logs_in_the_form_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let data = folder.path().join("data");
    let mut command = fencepost();
    command.args(["serve", "--init", "--epoch", "5", "--listen", "127.0.0.1:0", "--log", "json", "--data"]).arg(&data);
    let child = command.env("NOTIFY_SOCKET", &socket).spawn().unwrap();
    let mut told = [0; 64];
    let length = manager.recv(&mut told).unwrap();
    assert_eq!(&told[..length], b"READY=1");
    crate::common::send("TERM", child.id());
    let ran = Ran::of(child.wait_with_output().unwrap()).exits(0);
    assert!(
        ran.stdout.starts_with("listening on http://127.0.0.1:") && ran.stdout.contains("epoch 5"),
        "{}",
        ran.stdout
    );
    for line in ran.stderr.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
    }
    assert!(ran.stderr.contains("\"message\":\"stopping\""), "{}", ran.stderr);
    let mut wrong = fencepost();
    wrong.args(["serve", "--data"]).arg(&data).env("FENCEPOST_LOG", "=,=[");
    Ran::of(wrong.output().unwrap()).exits(78);
}

#[test]
fn a_broken_lease_leaves_a_line_with_who_lost_what_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = fencepost();
    command.args(["serve", "--init", "--json", "--listen", "127.0.0.1:0", "--log", "json", "--data"]);
    let mut child = command.arg(folder.path().join("data")).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let shell = crate::common::Shell::at(ready["url"].as_str().unwrap());
    let grant = shell.run(&["acquire", "d", "--json"]).exits(0).json();
    let lease = grant["lease"].as_str().unwrap();
    shell.run(&["break", "d", "--lease", lease, "--reason", "the host is gone"]).exits(0);
    crate::common::send("TERM", child.id());
    let log = Ran::of(child.wait_with_output().unwrap()).exits(0).stderr;
    let told = log.lines().find(|line| line.contains("the host is gone")).unwrap_or_else(|| panic!("{log}"));
    for part in [lease, "revoked", "\"domain\":\"d\""] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!log.contains(shell.kept()["secret"].as_str().unwrap()), "{log}");
}

#[test]
fn an_epoch_past_the_last_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let ran = serve(&["--init", "--epoch", "1048576", "--data", data.to_str().unwrap()]).exits(64);
    assert!(ran.stderr.contains("epoch: must be 0 to 1048575, found 1048576"), "{}", ran.stderr);
    serve(&["--init", "--epoch", "-1", "--data", data.to_str().unwrap()]).exits(64);
}

/// A store with three numbers left, of an epoch of its own: its clock once stood 278 years ahead, and one number of a
/// block was used then.
fn nearly_used_up(data: &std::path::Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let wall = ManualWallClock::new(Sequence::MAX.get() - 10_003);
    let init = InitOptions {
        epoch: Some(Epoch::new(9).unwrap()),
        wall_clock: Some(Arc::new(ManualWallClock::new(0))),
        ..InitOptions::default()
    };
    Embedded::init(data, init).unwrap();
    let options = Options { wall_clock: Some(Arc::new(wall)), push_far: true, ..Options::default() };
    let coordinator = Embedded::open(data, options).unwrap();
    runtime.block_on(async {
        let key = coordinator.open_session(Holder::new("early").unwrap(), Ttl::default()).await.unwrap().answer.key();
        let (domain, request) = (Domain::new("early").unwrap(), RequestId::from_bytes([0xe; 16]));
        coordinator.acquire(AcquireRequest::new(&key, domain, request)).await.unwrap();
        coordinator.end_session(&key).await.unwrap();
        coordinator.shutdown().await;
    });
}

/// Mutant: `Sequence::checked_add` that begins again at one.
#[test]
fn at_the_end_of_its_numbers_it_refuses_by_name_and_begins_no_epoch_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    nearly_used_up(&data);
    let mut command = fencepost();
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]).arg(&data).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let shells: Vec<_> = (0..8).map(|_| crate::common::Shell::at(ready["url"].as_str().unwrap())).collect();
    let mut granted = 0;
    let refused = loop {
        let ran = shells[granted].run(&["acquire", &format!("d/{granted}"), "--ttl", "60s", "--json"]);
        if ran.code != Some(0) {
            break ran.exits(69).problem();
        }
        assert_eq!(ran.json()["epoch"], 9);
        granted += 1;
    };
    assert!(granted > 0, "{refused}");
    assert_eq!((&refused["code"], &refused["may_have_happened"]), (&"token_space_exhausted".into(), &false.into()));
    shells[0].run(&["renew"]).exits(0);
    shells[0].run(&["release"]).exits(0);
    shells[7].run(&["ls"]).exits(0);
    shells[7].run(&["acquire", "again"]).exits(69);
    child.kill().unwrap();
    child.wait().unwrap();
}
