//! What the kernel does not show, or shows of others: processes that `/proc` hides, another namespace's `/proc`, a control
//! group that two namespaces share.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use fencepost_testkit::torture::skip;

use crate::{
    common::{Server, Shell, send, until},
    processes::Running,
    standby::own_group,
};

/// A script in namespaces of its own for mounts and processes; `None` where that is not allowed.
fn in_namespaces(shell: &Shell, options: &[&str], script: &str) -> Option<Command> {
    let unshared = |script: &str| {
        let mut command = shell.command(&[] as &[&str]);
        let (folder, environment) = (command.get_current_dir()?.to_owned(), command.get_envs());
        let environment: Vec<_> =
            environment.map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
        command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).args(options).args(["--", "sh", "-c", script]);
        command.current_dir(folder);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Some(command)
    };
    let is_allowed = unshared("true")?.output().is_ok_and(|output| output.status.success());
    if is_allowed { unshared(script) } else { None }
}

/// A script that ends with its exit code in `ended`, where `/proc` hides from `powerless` what has the rights of another,
/// as `./other` has; `None` where that is not allowed.
fn hiding(shell: &Shell, script: &str) -> Option<Command> {
    let set = |name: &str, mode| {
        fs::set_permissions(shell.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    // Where others cannot come, this copy can.
    fs::copy(env!("CARGO_BIN_EXE_fencepost"), shell.path("fencepost")).unwrap();
    fs::copy("/bin/sleep", shell.path("other")).unwrap();
    set("other", 0o4755);
    set(".", 0o777);
    let script = format!(
        "mount -t proc -o remount,hidepid=2 proc /proc || exit 1
        powerless() {{ setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; }}
        ! powerless test -e /proc/1 || exit 1
        {script}
        echo $? >ended; exec sleep 1000"
    );
    in_namespaces(shell, &["--mount", "--mount-proc"], &script)
}

fn quoted(script: &str) -> String {
    format!("'{}'", script.replace('\'', r"'\''"))
}

fn command_line(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// `hidepid` hides from a user what runs with the rights of another one: here a set-uid program of the command, which
/// comes to `run` when the warden is killed.
///
/// Mutant: `members` knows none but those that `/proc` shows; `run` says that it was ended, and gives the lease back.
#[test]
fn a_member_that_proc_hides_is_ended_before_the_lease_is_given_back() {
    let server = Server::start();
    let shell = server.shell();
    let script = "powerless ./fencepost run d --ttl 60s -- sh -c './other 1000; true'";
    let Some(command) = hiding(&shell, script) else {
        return skip("a member that /proc hides", "no rights for a process namespace of its own");
    };
    let running = Running::of_quiet(command);
    let other = || running.all().into_iter().find(|pid| command_line(*pid).starts_with("./other "));
    until("the member runs", || other().is_some());
    let other_runs_as = fs::read_to_string(format!("/proc/{}/status", other().unwrap())).unwrap();
    assert!(other_runs_as.lines().any(|line| line.starts_with("Uid:\t65534\t0\t")), "{other_runs_as}");
    send("KILL", running.warden());
    until("`run` has ended", || fs::read_to_string(shell.path("ended")).is_ok_and(|code| code.ends_with('\n')));
    assert_eq!(other(), None, "nothing of the command lives");
    assert_eq!(fs::read_to_string(shell.path("ended")).unwrap(), "137\n");
    assert_eq!(shell.run(&["ls", "--json"]).exits(0).json()["items"], serde_json::json!([]));
}

/// Mutant: an earlier child is known by what `/proc` has shown of it alone; it is killed at the end of the run.
#[test]
fn an_earlier_child_that_proc_begins_to_hide_is_left_alone() {
    let server = Server::start();
    let shell = server.shell();
    let earlier = "(until test -e here; do sleep 0.05; done; exec ./other 1000) & exec ./fencepost run d -- \
                   sh -c 'echo >here; until test -e done; do sleep 0.05; done'";
    let script = format!("powerless sh -c {}", quoted(earlier));
    let Some(command) = hiding(&shell, &script) else {
        return skip("an earlier child that /proc hides", "no rights for a process namespace of its own");
    };
    let running = Running::of_quiet(command);
    let other = || running.all().into_iter().find(|pid| command_line(*pid).starts_with("./other "));
    until("the earlier child is hidden", || other().is_some());
    fs::write(shell.path("done"), "").unwrap();
    until("`run` has ended", || fs::read_to_string(shell.path("ended")).is_ok_and(|code| code.ends_with('\n')));
    assert_eq!(fs::read_to_string(shell.path("ended")).unwrap(), "0\n");
    assert!(other().is_some(), "it was no member of the command");
}

/// Where `/proc` is another namespace's, a number in it is somebody else.
///
/// Mutant: it is enough that somebody has the number of this process there.
#[test]
fn where_proc_is_of_another_namespace_nothing_is_started() {
    let server = Server::start();
    let shell = server.shell();
    let Some(mut command) = in_namespaces(&shell, &[], "exec \"$FENCEPOST\" run d -- touch ran") else {
        return skip("another namespace's /proc", "no rights for a process namespace of its own");
    };
    let output = command.env("FENCEPOST", env!("CARGO_BIN_EXE_fencepost")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{told}");
    assert!(told.contains("/proc") && told.contains("mount -t proc"), "{told}");
    assert!(!shell.path("ran").exists());
    assert_eq!(shell.run(&["history", "d", "--json"]).exits(0).json()["items"], serde_json::json!([]));
}

/// In two namespaces two wardens have the same number.
///
/// Mutant: the group is named by the warden's number alone; the end of one command ends the other.
#[test]
fn two_namespaces_that_share_a_control_group_do_not_share_that_of_a_command() {
    let Some(own) = own_group() else {
        return skip("control groups of two namespaces", "no rights to make one");
    };
    let server = Server::start();
    let shell = server.shell();
    let run = |name: &str| {
        let script = format!("exec \"$FENCEPOST\" run {name} -- sh -c 'echo >{name}; exec sleep 1000'");
        let mut command = in_namespaces(&shell, &["--mount-proc"], &script)?;
        command.env("FENCEPOST", env!("CARGO_BIN_EXE_fencepost"));
        let running = Running::of_quiet(command);
        until("it runs", || shell.path(name).exists());
        Some(running)
    };
    let (Some(one), Some(other)) = (run("one"), run("other")) else {
        return skip("control groups of two namespaces", "no rights for a process namespace of its own");
    };
    let group = |running: &Running| {
        let sleeps = |pid: &u32| command_line(*pid).starts_with("sleep 1000 ");
        let mut first = None;
        until("the command is there", || {
            first = running.all().into_iter().find(sleeps);
            first.is_some()
        });
        let first = first.unwrap();
        let groups = fs::read_to_string(format!("/proc/{first}/cgroup")).unwrap();
        groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap().to_owned()
    };
    let number = |running: &Running| {
        let status = fs::read_to_string(format!("/proc/{}/status", running.warden())).unwrap();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
        numbers.split_ascii_whitespace().last().unwrap().to_owned()
    };
    assert_eq!(number(&one), number(&other), "by its own namespace's count");
    assert_ne!(group(&one), group(&other));
    for running in [&one, &other] {
        assert!(own.join(Path::new(&group(running)).file_name().unwrap()).is_dir(), "{}", group(running));
    }
}
