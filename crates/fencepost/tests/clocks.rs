//! Both ends measure with the clock that goes on while a machine sleeps. No machine is put to sleep here: in a time
//! namespace of its own a process has that clock far ahead of the monotonic one, as after a sleep of a day.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{env, fs, process::Command};

use fencepost::Clock as _;
use fencepost_coordinator::embedded::Clock as _;

const SLEPT_S: u64 = 86_400;
const CHILD: &str = "FENCEPOST_CLOCKS_CHILD";

/// Seconds since the boot as the kernel tells them, the time in which the machine slept included.
fn uptime_s() -> u64 {
    fs::read_to_string("/proc/uptime").unwrap().split('.').next().unwrap().parse().unwrap()
}

/// The process in the namespace. Not a test by itself: the story below starts it.
#[test]
fn the_process_that_has_slept() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let before = uptime_s();
    let holder = fencepost::BootClock.now().as_millis() / 1_000;
    let coordinator = fencepost_coordinator::embedded::BootClock::new().unwrap().now().as_secs();
    let after = uptime_s();
    assert!((before..=after).contains(&holder), "the holder's clock is at {holder}, the kernel's at {before}");
    assert!((before..=after).contains(&coordinator), "the coordinator's is at {coordinator}, the kernel's at {before}");
}

/// Mutants: `Monotonic` for `Boottime` in either `BootClock`.
#[test]
fn a_sleeping_machine_counts_as_time_for_holder_and_coordinator() {
    let slept = uptime_s() + SLEPT_S;
    let shift = SLEPT_S.to_string();
    let in_namespace = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--boottime", &shift, "--", program]);
        command
    };
    let shown = in_namespace("cat").arg("/proc/uptime").output();
    let has_slept = shown.is_ok_and(|output| {
        let text = String::from_utf8(output.stdout).unwrap_or_default();
        text.split('.').next().and_then(|text| text.parse::<u64>().ok()).is_some_and(|seconds| seconds >= slept)
    });
    if !has_slept {
        return fencepost_testkit::torture::skip(
            "a machine that has slept",
            "no rights for a time namespace of its own",
        );
    }
    let this = env::current_exe().unwrap();
    let told = in_namespace(this.to_str().unwrap())
        .args(["the_process_that_has_slept", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
}
