//! The processes that a command consists of: all descendants, whatever group or session they have moved to.
//!
//! A subreaper gets every orphan below it, so nothing leaves the tree by losing its parent.

use std::{collections::HashMap, fs, io, os::fd::OwnedFd, path::Path};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open, pidfd_send_signal, waitid,
    },
};

/// A living process, told from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: Pid,
    /// `None` where `/proc` hides it. It is a child of this process then, and its number its own until its end is taken
    /// note of.
    started: Option<u64>,
}

/// A process that is told from all later ones with its number, also where `/proc` does not show it.
#[derive(Debug)]
pub(crate) struct Known {
    member: Member,
    /// `None` where the system has no such descriptors.
    process: Option<OwnedFd>,
}

impl Known {
    /// One that lives now.
    pub(crate) fn new(member: Member) -> Self {
        Self { member, process: pidfd_open(member.pid, PidfdFlags::empty()).ok() }
    }

    /// `None` once it has ended.
    pub(crate) fn alive(&self) -> Option<Member> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let has_ended = self
            .process
            .as_ref()
            .is_some_and(|process| matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&at_once)), Ok(1..)));
        (!has_ended).then_some(self.member)
    }
}

impl Member {
    /// Whether both are the same process, as far as either was seen.
    fn is(&self, other: &Self) -> bool {
        let started = self.started.zip(other.started);
        self.pid == other.pid && started.is_none_or(|(one, other)| one == other)
    }
}

pub(super) struct Seen {
    pub(super) parent: i32,
    pub(super) started: u64,
    /// Zero where its group, the session, or the group that its terminal serves began outside of this namespace.
    group: i32,
    session: i32,
    foreground: i32,
    is_alive: bool,
}

/// The living descendants of a process, without itself, and without `except` and what is below them.
///
/// # Errors
/// When the system does not show its processes.
pub(crate) fn members(root: Pid, except: &[Member]) -> io::Result<Vec<Member>> {
    // A look at every process of a machine takes milliseconds, and mostly there is nobody.
    if root == getpid() && is_childless() {
        return Ok(Vec::new());
    }
    let mut children: HashMap<i32, Vec<(i32, Seen)>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // What has ended since the folder was read is no member.
        let Some(seen) = look(pid)? else { continue };
        children.entry(seen.parent).or_default().push((pid, seen));
    }
    let mut found = Vec::new();
    let mut to_visit = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = to_visit.pop() {
        for (number, seen) in children.remove(&parent).unwrap_or_default() {
            let Some(pid) = Pid::from_raw(number) else { continue };
            let member = Member { pid, started: Some(seen.started) };
            if except.iter().any(|one| one.is(&member)) {
                continue;
            }
            to_visit.push(number);
            if seen.is_alive {
                found.push(member);
            }
        }
    }
    if root == getpid() {
        for pid in children_of_this_process()?.unwrap_or_default() {
            let member = match look(pid.as_raw_nonzero().get())? {
                Some(seen) if seen.is_alive => Member { pid, started: Some(seen.started) },
                None if !has_an_end(pid) => Member { pid, started: None },
                Some(_) | None => continue,
            };
            if !found.iter().chain(except).any(|one| one.is(&member)) {
                found.push(member);
            }
        }
    }
    Ok(found)
}

/// Whether a living child of this process could be hidden from [`members`]: some systems hide processes, and keep no list
/// of children.
///
/// # Errors
/// When the system does not show that.
pub(crate) fn may_hide_children() -> io::Result<bool> {
    Ok(children_of_this_process()?.is_none() && hides(&fs::read_to_string("/proc/self/mountinfo")?))
}

/// Whether `/proc` is mounted so that it hides processes of other rights, or nobody knows how.
fn hides(mounts: &str) -> bool {
    let proc = mounts.lines().rev().find(|line| line.split(' ').nth(4) == Some("/proc"));
    let Some((_, options)) = proc.and_then(|line| line.rsplit_once(" - ")) else { return true };
    let mut hiding = options.split([' ', ',']).filter_map(|option| option.strip_prefix("hidepid="));
    hiding.any(|how| how != "0" && how != "off")
}

/// The children of all threads of this process, those too that `/proc` hides (`hidepid`) because they have other rights.
/// `None` where the kernel keeps no such list.
fn children_of_this_process() -> io::Result<Option<Vec<Pid>>> {
    let mut all = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        match fs::read_to_string(task?.path().join("children")) {
            Ok(numbers) => {
                all.extend(numbers.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)))
            }
            // Of a thread that has just ended, another has the children.
            Err(error) if has_ended(&error) && Path::new("/proc/thread-self/children").exists() => {
                return Err(error);
            }
            Err(error) if has_ended(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(all))
}

/// Whether this is no child that lives.
fn has_an_end(child: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(child), look), Ok(None))
}

/// Whether this process has no child, not even one that has ended, and so no descendant either.
pub(crate) fn is_childless() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

/// Whether the system shows its processes, under the numbers by which they are signalled: what cannot be seen could not be
/// stopped.
///
/// # Errors
/// When it does not.
pub(crate) fn is_shown() -> io::Result<()> {
    let status = match fs::read("/proc/self/status") {
        Err(error) if !has_ended(&error) => return Err(error),
        status => status.unwrap_or_default(),
    };
    // Its name may be of any bytes.
    if is_known_as(&String::from_utf8_lossy(&status), getpid().as_raw_nonzero().get()) {
        Ok(())
    } else {
        Err(io::Error::other("/proc does not show the processes of this namespace (mount -t proc proc /proc)"))
    }
}

/// Whether the process with this status has this number there and no other, as it has in the namespaces below.
fn is_known_as(status: &str, pid: i32) -> bool {
    let numbers = |name| status.lines().find_map(|line| line.strip_prefix(name));
    // Kernels without namespaces for processes have no such line.
    let numbers = numbers("NSpid:").or_else(|| numbers("Pid:")).unwrap_or_default();
    numbers.split_ascii_whitespace().eq([pid.to_string().as_str()])
}

/// Whether this process leads its session.
///
/// # Errors
/// As [`is_shown`].
pub(crate) fn leads_its_session() -> io::Result<bool> {
    let this = getpid().as_raw_nonzero().get();
    Ok(look(this)?.is_some_and(|seen| seen.session == this))
}

/// Whether this process is of the job that its terminal serves; not where that is not known.
pub(crate) fn is_in_foreground() -> bool {
    let seen = look(getpid().as_raw_nonzero().get());
    seen.is_ok_and(|seen| seen.is_some_and(|seen| seen.group == seen.foreground))
}

/// Sends these signals to every descendant but `except` and what is below them, and says how many there were.
///
/// # Errors
/// As [`members`].
pub(crate) fn signal_all(root: Pid, except: &[Member], signals: &[Signal]) -> io::Result<usize> {
    let members = members(root, except)?;
    for member in &members {
        for signal in signals {
            send(*member, *signal);
        }
    }
    Ok(members.len())
}

/// Sends a signal to this very process. Where it has ended, or may not be signalled, nothing happens: whoever calls
/// looks again.
fn send(member: Member, signal: Signal) {
    match pidfd_open(member.pid, PidfdFlags::empty()) {
        Ok(process) => {
            // The number cannot change its owner while the descriptor is open, so this look decides.
            let is_it = match member.started {
                Some(started) => {
                    let seen = look(member.pid.as_raw_nonzero().get()).ok().flatten();
                    seen.is_some_and(|seen| seen.started == started)
                }
                None => !has_an_end(member.pid),
            };
            if is_it {
                let _ = pidfd_send_signal(process, signal);
            }
        }
        Err(Errno::SRCH) => {}
        // Some sandboxes know no such descriptors.
        Err(_) => {
            let _ = kill_process(member.pid, signal);
        }
    }
}

/// A process; `None` when it has ended. Not being able to look, for want of a descriptor say, is no end.
fn look(pid: i32) -> io::Result<Option<Seen>> {
    let stat = match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if has_ended(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // Its name may be of any bytes.
    let Some(mut seen) = parse(&String::from_utf8_lossy(&stat)) else {
        return Err(io::Error::other(format!("/proc/{pid}/stat is not understood")));
    };
    if !seen.is_alive {
        // A process whose first thread has ended looks like one that is gone while the others run on.
        seen.is_alive = match fs::read_dir(format!("/proc/{pid}/task")) {
            Ok(tasks) => tasks.count() > 1,
            Err(error) if has_ended(&error) => false,
            Err(error) => return Err(error),
        };
    }
    Ok(Some(seen))
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// One line of `/proc/PID/stat`. The name in parentheses may itself have spaces and parentheses.
pub(super) fn parse(stat: &str) -> Option<Seen> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let is_alive = !matches!(*fields.first()?, "Z" | "X" | "x");
    let number = |at: usize| fields.get(at)?.parse().ok();
    Some(Seen {
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        foreground: number(5)?,
        started: fields.get(19)?.parse().ok()?,
        is_alive,
    })
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsStr,
        os::unix::ffi::OsStrExt,
        process::{Command, Stdio},
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_moves_no_field() {
        let stat = "12 (a) S 1 (b) R 7 12 13 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        let seen = parse(stat).unwrap();
        assert_eq!((seen.parent, seen.session, seen.started, seen.is_alive), (7, 13, 4711, true));
        let gone = parse("12 (x) Z 7 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9").unwrap();
        assert!(!gone.is_alive);
        assert!(parse("12 (x").is_none() && parse("").is_none());
    }

    /// Mutant: what cannot be found out hides nothing.
    #[test]
    fn a_mount_that_hides_is_told_by_its_options() {
        let mount = |options: &str| format!("22 1 0:20 / /proc rw,nosuid - proc proc rw{options}\n");
        let other = "23 1 0:21 / /proc/sys ro - proc proc rw,hidepid=invisible\n";
        assert!(!hides(&(mount("") + other)) && !hides(&mount(",hidepid=0")) && !hides(&mount(",hidepid=off")));
        for how in ["1", "2", "4", "noaccess", "invisible", "ptraceable"] {
            assert!(hides(&mount(&format!(",hidepid={how}"))), "{how}");
        }
        assert!(hides(&(mount("") + &mount(",hidepid=2"))), "the last one is the one that is seen");
        assert!(hides(other) && hides(""));
    }

    /// Mutant: one of its numbers is enough.
    #[test]
    fn a_process_that_has_two_numbers_is_of_another_namespace() {
        let status = |numbers: &str| format!("Name:\tx\nPid:\t7\nNSpid:\t{numbers}\nNSpgid:\t7\n");
        assert!(is_known_as(&status("7"), 7) && is_known_as("Name:\tx\nPid:\t7\n", 7));
        for (status, pid) in [(status("4711\t7"), 7), (status("7\t7"), 7), (status("4711"), 7), (String::new(), 7)] {
            assert!(!is_known_as(&status, pid), "{status}");
        }
    }

    /// Mutant: a name that is no text is taken for a process that has ended.
    #[test]
    fn a_name_of_any_bytes_is_a_members() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(OsStr::from_bytes(b"sl\xff) ep"));
        fs::copy("/bin/sleep", &odd).unwrap();
        let mut child = Command::new(&odd).arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let is_there =
            members(getpid(), &[]).unwrap().iter().any(|member| member.pid.as_raw_nonzero().get() as u32 == child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_there);
    }

    #[test]
    fn a_child_in_a_session_of_its_own_is_a_member_until_it_is_killed() {
        let mut child =
            Command::new("setsid").args(["--fork", "--wait", "sleep", "1000"]).stdin(Stdio::null()).spawn().unwrap();
        let is_child = |member: &Member| u32::try_from(member.pid.as_raw_nonzero().get()) == Ok(child.id());
        let member = members(getpid(), &[]).unwrap().into_iter().find(is_child).unwrap();
        let other = Member { started: member.started.map(|started| started + 1), ..member };
        send(other, Signal::KILL);
        assert!(members(getpid(), &[]).unwrap().contains(&member), "an earlier process of that number was meant");
        let started = Instant::now();
        while members(member.pid, &[]).unwrap().is_empty() && started.elapsed() < Duration::from_secs(10) {}
        signal_all(member.pid, &[], &[Signal::KILL]).unwrap();
        assert!(!child.wait().unwrap().success(), "setsid mirrors the child that was killed");
    }
}
