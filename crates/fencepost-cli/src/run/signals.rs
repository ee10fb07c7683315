//! The signals that ask `run` to end, and who sent them.

use std::{
    fs, io,
    sync::{Arc, atomic::AtomicBool},
    thread,
};

use signal_hook::{
    flag,
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
    low_level::siginfo::Cause,
};
use tokio::sync::mpsc;

use super::tree;

const HUP: i32 = 1;
const INT: i32 = 2;
const QUIT: i32 = 3;
const TERM: i32 = 15;
const TSTP: i32 = 20;
const TTIN: i32 = 21;
const TTOU: i32 = 22;

/// What is forwarded to the command.
const FORWARDED: [i32; 4] = [HUP, INT, QUIT, TERM];

/// What must not end or stop the warden: it hears of the end from `run`, and a stopped one could not stop the command.
const SURVIVED: [i32; 7] = [HUP, INT, QUIT, TERM, TSTP, TTIN, TTOU];

/// One signal that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) number: i32,
    /// A terminal sends to the whole foreground group, so the command has it already. It hangs up to the leader of the
    /// session alone.
    pub(crate) is_from_terminal: bool,
}

/// Signals as they arrive. What whoever called has set to be ignored stays ignored, here and in the command: that is
/// what `nohup` means.
#[derive(Debug)]
pub(crate) struct Signals {
    arrived: mpsc::UnboundedReceiver<Arrived>,
}

impl Signals {
    /// # Errors
    /// When the system takes no handlers, or does not show its processes.
    pub(crate) fn listen() -> io::Result<Self> {
        let (sender, arrived) = mpsc::unbounded_channel();
        let mut signals = SignalsInfo::<WithOrigin>::new(unless_ignored(&FORWARDED))?;
        let is_leader = tree::leads_its_session()?;
        thread::Builder::new().name("fencepost-signals".to_owned()).spawn(move || {
            for origin in signals.forever() {
                let is_mine_alone = is_leader && origin.signal == HUP;
                let is_from_terminal = matches!(origin.cause, Cause::Kernel) && !is_mine_alone;
                if sender.send(Arrived { number: origin.signal, is_from_terminal }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { arrived })
    }

    /// The next one. Safe to drop and to call again.
    pub(crate) async fn next(&mut self) -> Arrived {
        match self.arrived.recv().await {
            Some(arrived) => arrived,
            None => std::future::pending().await,
        }
    }
}

/// Takes the signals that would end or stop this process, and does nothing with them. What it executes gets the
/// defaults back.
///
/// # Errors
/// When the system takes no handlers.
pub(crate) fn survive() -> io::Result<()> {
    let mut signals = SignalsInfo::<WithOrigin>::new(unless_ignored(&SURVIVED))?;
    thread::Builder::new().name("fencepost-signals".to_owned()).spawn(move || signals.forever().for_each(drop))?;
    Ok(())
}

/// Has this process end by QUIT as by any other signal: it is no program of the user's, and nobody wants an image of it.
/// What it executes gets the default back.
///
/// # Errors
/// When the system takes no handlers.
pub(crate) fn end_without_a_trace() -> io::Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    let mut deadly = unless_ignored(&[QUIT]).into_iter();
    deadly.try_for_each(|quit| flag::register_conditional_shutdown(quit, 128 + quit, always.clone()).map(drop))
}

/// Those of them that were not set to be ignored by whoever called.
pub(crate) fn unless_ignored(numbers: &[i32]) -> Vec<i32> {
    let ignored = ignored();
    numbers.iter().copied().filter(|number| ignored & (1 << (number - 1)) == 0).collect()
}

/// The set of ignored signals, as the system shows it. Nothing, where it does not.
fn ignored() -> u64 {
    ignored_in(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

pub(crate) fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
