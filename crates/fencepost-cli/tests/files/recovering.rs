//! `recover`: a receiver whose storage is another, or has lost its records, is opened again, and nothing old gets in.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

use crate::{
    common::{Ran, Server, Shell, send},
    grant,
};

const TABLE: &str = "CREATE TABLE t (d TEXT, n INT); INSERT INTO t VALUES ('d', 0)";

/// A guarded database, and a grant of `d` that is not live any more.
fn database(server: &Server) -> (Shell, String) {
    let shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    shell.run(&["guard", &resource, "t", "--domain", "d"]).exits(0);
    let old = grant(&shell, "d");
    shell.run(&["advance", "sqlite:x.db", "--grant", &old]).exits(0);
    (shell, old)
}

/// A guarded file with content, and a grant of `f` that is not live any more.
fn file(server: &Server) -> (Shell, String) {
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let old = grant(&shell, "f");
    fs::write(shell.path("input"), "one\n").unwrap();
    write(&shell, &old).exits(0);
    (shell, old)
}

fn write(shell: &Shell, grant: &str) -> Ran {
    let mut command = shell.command(&["write", "file:f", "--grant", grant]);
    Ran::of(command.stdin(fs::File::open(shell.path("input")).unwrap()).output().unwrap())
}

/// A grant that stays live.
fn live(shell: &Shell, domain: &str) -> String {
    shell
        .sh(&format!("eval \"$(fencepost acquire {domain} --ttl 10m --export)\"; printf %s \"$FENCEPOST_GRANT\" >live"))
        .exits(0);
    fs::read_to_string(shell.path("live")).unwrap()
}

fn status(shell: &Shell, resource: &str) -> Value {
    shell.run(&["status", resource, "--json"]).exits(0).json()
}

/// The file is gone and comes back as another one, as from a backup. The old one stays under another name, so that the
/// new one cannot get its inode.
fn copied_back(shell: &Shell, name: &str) {
    let kept = (0..).map(|number| shell.path(&format!("kept-{number}"))).find(|path| !path.exists()).unwrap();
    fs::rename(shell.path(name), &kept).unwrap();
    fs::copy(&kept, shell.path(name)).unwrap();
}

/// Mutant: the closed receiver's failure names no command.
#[test]
fn a_closed_database_names_the_command_that_opens_it() {
    let server = Server::start();
    let (shell, old) = database(&server);
    let live = live(&shell, "d");
    copied_back(&shell, "x.db");
    for command in [&["status", "sqlite:x.db"][..], &["advance", "sqlite:x.db", "--grant", &live]] {
        let closed = shell.run(command).exits(81);
        assert!(closed.stderr.contains("other_incarnation"), "{}", closed.stderr);
        assert_eq!(closed.next("fencepost recover"), "fencepost recover sqlite:x.db");
    }
    let told = shell.sh("fencepost recover sqlite:x.db").exits(0).stdout;
    assert!(told.contains("it was closed: other_incarnation") && told.contains("next: fencepost audit"), "{told}");
    // Whoever holds the lease goes on; whoever held it before does not.
    shell.run(&["advance", "sqlite:x.db", "--grant", &live]).exits(0);
    shell.run(&["advance", "sqlite:x.db", "--grant", &old]).exits(81);
    shell.run(&["audit", "sqlite:x.db"]).exits(0);
}

#[test]
fn recovering_twice_changes_no_bound_and_shuts_nobody_out() {
    let server = Server::start();
    let (shell, old) = database(&server);
    let live = live(&shell, "d");
    copied_back(&shell, "x.db");
    let first = shell.run(&["recover", "sqlite:x.db", "--json"]).exits(0).json();
    assert_eq!((&first["was"], &first["why"]), (&json!("closed"), &json!("other_incarnation")));
    let bounds = |status: Value| {
        ["known_epoch", "floor", "unfenced_floor", "horizon", "fences"].map(|name| status[name].clone())
    };
    let before = bounds(status(&shell, "sqlite:x.db"));
    let again = shell.run(&["recover", "sqlite:x.db", "--json"]).exits(0).json();
    assert_eq!((&again["was"], &again["why"], &again["refused"]), (&json!("open"), &json!(null), &json!([])));
    assert_eq!(bounds(status(&shell, "sqlite:x.db")), before);
    shell.run(&["advance", "sqlite:x.db", "--grant", &live]).exits(0);
    shell.run(&["advance", "sqlite:x.db", "--grant", &old]).exits(81);
}

#[test]
fn lost_records_raise_the_horizon_and_the_fence_of_a_dead_owner_goes() {
    let server = Server::start();
    let (shell, old) = database(&server);
    shell.sqlite("x.db", "DROP TABLE fencepost_operation").unwrap();
    let closed = shell.run(&["status", "sqlite:x.db"]).exits(81);
    assert!(closed.stderr.contains("metadata_missing"), "{}", closed.stderr);
    let recovered = shell.run(&["recover", "sqlite:x.db", "--json"]).exits(0).json();
    assert_eq!(recovered["horizon"], recovered["unfenced_floor"]);
    assert!(recovered["horizon"].is_string(), "{recovered}");
    assert_eq!(recovered["fences"], 1);
    let stale = shell.run(&["advance", "sqlite:x.db", "--grant", &old, "--json"]).exits(81).json();
    assert_eq!(stale["by"], "unfenced_floor");
    shell.run(&["advance", "sqlite:x.db", "--grant", &grant(&shell, "d")]).exits(0);
}

#[test]
fn a_file_without_its_sidecar_asks_for_the_domain_that_was_lost_with_it() {
    let server = Server::start();
    let (shell, old) = file(&server);
    let live = live(&shell, "f");
    for name in [".f.fence", ".f.fence-spare"] {
        let _ = fs::remove_file(shell.path(name));
    }
    let closed = write(&shell, &live).exits(81);
    assert_eq!(closed.next("fencepost recover"), "fencepost recover file:f --domain NAME");
    let asks = shell.run(&["recover", "file:f"]).exits(64);
    assert!(asks.stderr.contains("its sidecar is lost"), "{}", asks.stderr);
    assert_eq!(asks.next("fencepost recover"), "fencepost recover file:f --domain NAME");
    shell.run(&["status", "file:f"]).exits(81);
    let recovered = shell.run(&["recover", "file:f", "--domain", "f", "--json"]).exits(0).json();
    assert_eq!(recovered["why"], "metadata_missing");
    assert_eq!(recovered["horizon"], recovered["unfenced_floor"]);
    fs::write(shell.path("input"), "two\n").unwrap();
    write(&shell, &old).exits(81);
    write(&shell, &live).exits(0);
    assert_eq!(fs::read_to_string(shell.path("f")).unwrap(), "two\n");
    // What the sidecar names from now on cannot be talked out of it.
    let other = shell.run(&["recover", "file:f", "--domain", "g"]).exits(81);
    assert!(other.stderr.contains("belongs to domain f"), "{}", other.stderr);
    assert_eq!(other.next("fencepost "), "fencepost recover file:f --domain f");
    shell.run(&["recover", "file:f"]).exits(0);
}

#[test]
fn a_copied_file_is_opened_where_it_lies_now() {
    let server = Server::start();
    let (shell, old) = file(&server);
    copied_back(&shell, ".f.lock");
    let closed = shell.run(&["status", "file:f"]).exits(81);
    assert_eq!(closed.next("fencepost recover"), "fencepost recover file:f");
    let told = shell.run(&["recover", "file:f"]).exits(0).stdout;
    assert!(told.contains("unfenced floor") && told.contains("horizon         none"), "{told}");
    write(&shell, &old).exits(81);
    write(&shell, &grant(&shell, "f")).exits(0);
}

#[test]
fn what_it_must_know_it_does_not_guess() {
    let mut server = Server::start();
    let (shell, _) = database(&server);
    copied_back(&shell, "x.db");
    let other = Server::start();
    let foreign = shell.run(&["recover", "sqlite:x.db", "--url", &other.url]).exits(81);
    assert!(foreign.stderr.contains("takes grants of issuer"), "{}", foreign.stderr);
    server.kill();
    let unknown = shell.run(&["recover", "sqlite:x.db"]).exits(69);
    assert!(unknown.stderr.contains("nothing was changed"), "{}", unknown.stderr);
    shell.run(&["status", "sqlite:x.db"]).exits(81);
    server.restart();
    // A receiver that never was is guarded, not recovered.
    shell.database("new.db", TABLE);
    let never = shell.run(&["recover", "sqlite:new.db"]).exits(81);
    assert!(never.stderr.contains("fencepost guard sqlite:new.db TABLE --domain EXPR"), "{}", never.stderr);
    let never = shell.run(&["recover", "file:new", "--domain", "d"]).exits(81);
    assert!(never.stderr.contains("fencepost guard file:new --domain NAME"), "{}", never.stderr);
    shell.run(&["recover", "sqlite:gone.db"]).exits(78);
    shell.run(&["recover", "sqlite:x.db", "--domain", "d"]).exits(64);
    shell.run(&["recover", "redis:x"]).exits(64);
    shell.run(&["recover", "sqlite:x.db"]).exits(0);
}

/// A receiver without records believes whoever answers, for ever.
/// Mutant: nobody has to have named the coordinator.
#[test]
fn who_becomes_the_issuer_of_a_receiver_without_records_is_named_and_not_guessed() {
    let server = Server::start();
    let (shell, _) = database(&server);
    let issuer = status(&shell, "sqlite:x.db")["issuer"].as_str().unwrap().to_owned();
    shell.sqlite("x.db", "DROP TABLE fencepost_receiver").unwrap();
    let unnamed = |arguments: &[&str]| {
        let mut command = shell.command(arguments);
        command.env_remove("FENCEPOST_URL");
        Ran::of(command.output().unwrap())
    };
    let refused = unnamed(&["recover", "sqlite:x.db"]).exits(64);
    assert!(refused.stderr.contains("nothing was changed"), "{}", refused.stderr);
    assert_eq!(refused.next("fencepost recover"), "fencepost recover sqlite:x.db --url URL");
    let other = shell.run(&["recover", "sqlite:x.db", "--issuer", "somebody-else"]).exits(64);
    assert!(other.stderr.contains(&format!("is {issuer}, not somebody-else")), "{}", other.stderr);
    shell.run(&["status", "sqlite:x.db"]).exits(81);
    unnamed(&["recover", "sqlite:x.db", "--url", &server.url, "--issuer", &issuer]).exits(0);
    assert_eq!(status(&shell, "sqlite:x.db")["issuer"], issuer.as_str());
    // The same for a file.
    let (shell, _) = file(&server);
    for name in [".f.fence", ".f.fence-spare"] {
        let _ = fs::remove_file(shell.path(name));
    }
    let mut command = shell.command(&["recover", "file:f", "--domain", "f"]);
    let refused = Ran::of(command.env_remove("FENCEPOST_URL").output().unwrap()).exits(64);
    assert_eq!(refused.next("fencepost recover"), "fencepost recover file:f --domain f --url URL");
    shell.run(&["recover", "file:f", "--domain", "f"]).exits(0);
}

/// Mutant: what the receiver knew is not compared with what the coordinator says.
#[test]
fn a_coordinator_that_remembers_less_than_the_receiver_is_named_as_one_that_was_restored() {
    let server = Server::start();
    let (shell, old) = database(&server);
    let recover = || shell.run(&["recover", "sqlite:x.db", "--json"]).exits(0).json();
    assert_eq!(recover()["coordinator_behind"], false);
    // A token that this coordinator has not granted yet, as from before its restore.
    let mut ahead: Value = serde_json::from_str(&old).unwrap();
    let token = ahead["token"].as_str().unwrap().parse::<u64>().unwrap();
    ahead["token"] = (token + 1_000_000).to_string().into();
    shell.run(&["advance", "sqlite:x.db", "--grant", &ahead.to_string()]).exits(0);
    assert_eq!(recover()["coordinator_behind"], true);
    let told = shell.run(&["recover", "sqlite:x.db"]).exits(0).stdout;
    assert!(told.contains("the coordinator is behind this receiver"), "{told}");
    // An epoch that it was told of by hand, as by the coordinator that was there before.
    let (shell, _) = file(&server);
    let issuer = status(&shell, "file:f")["issuer"].as_str().unwrap().to_owned();
    let recover = || shell.run(&["recover", "file:f", "--json"]).exits(0).json();
    assert_eq!(recover()["coordinator_behind"], false);
    shell.run(&["guard", "file:f", "--domain", "f", "--issuer", &issuer, "--epoch", "5"]).exits(0);
    assert_eq!(recover()["coordinator_behind"], true);
}

/// Something in the database takes its fences away as soon as it is opened.
/// Mutant: it is said to accept tokens without looking.
#[test]
fn a_receiver_that_is_closed_again_when_it_is_looked_at_is_not_said_to_be_open() {
    let server = Server::start();
    let (shell, _) = database(&server);
    let live = live(&shell, "d");
    shell.run(&["advance", "sqlite:x.db", "--grant", &live]).exits(0);
    let trigger =
        "CREATE TRIGGER tidy AFTER UPDATE OF recovery ON fencepost_receiver BEGIN DELETE FROM fencepost_fence; END";
    shell.sqlite("x.db", trigger).unwrap();
    copied_back(&shell, "x.db");
    let closed = shell.run(&["recover", "sqlite:x.db"]).exits(81);
    assert_eq!(closed.stdout, "");
    assert!(closed.stderr.contains("fence_missing") && closed.stderr.contains("closed again"), "{}", closed.stderr);
    shell.sqlite("x.db", "DROP TRIGGER tidy").unwrap();
    shell.run(&["recover", "sqlite:x.db"]).exits(0);
}

/// The storage is replaced again while the recovery of the one before waits for the coordinator.
/// Mutant: the incarnation is noted after the coordinator was asked.
#[test]
fn a_recovery_that_hung_does_not_open_another_storage_than_the_one_it_was_begun_for() {
    let server = Server::start();
    let (shell, _) = database(&server);
    copied_back(&shell, "x.db");
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gate.local_addr().unwrap());
    let recovering = shell.command(&["recover", "sqlite:x.db", "--json", "--url", &url]).spawn().unwrap();
    let (client, _) = gate.accept().unwrap();
    copied_back(&shell, "x.db");
    let upstream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let (mut asked, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    thread::spawn(move || pass(&mut asked, &mut to));
    let (mut from, mut back) = (upstream, client);
    thread::spawn(move || pass(&mut from, &mut back));
    let overtaken = Ran::of(recovering.wait_with_output().unwrap()).exits(69).problem();
    assert_eq!((&overtaken["may_have_happened"], &overtaken["retryable"]), (&json!(false), &json!(true)));
    assert_eq!(overtaken["fix"], "run the same command again (fencepost recover …)");
    shell.run(&["status", "sqlite:x.db"]).exits(81);
    shell.run(&["recover", "sqlite:x.db"]).exits(0);
}

fn pass(from: &mut TcpStream, to: &mut TcpStream) {
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..length]).is_err() {
            return;
        }
    }
}

/// Killed wherever it is, a recovery leaves a receiver that is closed or open, and never one that takes an old token.
#[test]
fn a_recovery_that_is_killed_half_way_is_run_again() {
    let server = Server::start();
    let (shell, old) = database(&server);
    for round in 0..12 {
        copied_back(&shell, "x.db");
        let mut recovering = shell.command(&["recover", "sqlite:x.db"]).spawn().unwrap();
        // bounded: by the round
        thread::sleep(std::time::Duration::from_millis(round * 3));
        send("KILL", recovering.id());
        recovering.wait().unwrap();
        shell.run(&["advance", "sqlite:x.db", "--grant", &old]).exits(81);
        shell.run(&["recover", "sqlite:x.db"]).exits(0);
        shell.run(&["advance", "sqlite:x.db", "--grant", &old]).exits(81);
        shell.run(&["advance", "sqlite:x.db", "--grant", &grant(&shell, "d")]).exits(0);
    }
}

/// The same at every step that a file's recovery has, in a build that can be stopped there.
#[cfg(feature = "sabotage")]
#[test]
fn a_recovery_of_a_file_that_dies_at_any_step_is_run_again() {
    let server = Server::start();
    let mut died = Vec::new();
    for step in fencepost_receiver::file::STEPS {
        let (shell, old) = file(&server);
        for name in [".f.fence", ".f.fence-spare"] {
            let _ = fs::remove_file(shell.path(name));
        }
        let recover = ["recover", "file:f", "--domain", "f"];
        let ran = Ran::of(shell.command(&recover).env("FENCEPOST_FILE_ABORT_AFTER", step).output().unwrap());
        if ran.code.is_none() {
            died.push(step);
        }
        write(&shell, &old).exits(81);
        shell.run(&recover).exits(0);
        write(&shell, &old).exits(81);
        write(&shell, &grant(&shell, "f")).exits(0);
    }
    assert!(died.len() > 2, "{died:?}");
}
