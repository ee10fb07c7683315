//! A terminal, and somebody at it.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex},
    thread,
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{PATIENCE, Shell, until};

/// What is typed there, and what it shows.
#[derive(Debug)]
pub struct Terminal {
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// A command with a new terminal as its own for what is typed and for standard error, leading a session there as a
    /// login shell does.
    pub fn with(shell: &Shell, words: &[&str]) -> (Self, Command) {
        let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
        grantpt(&ours).expect("it is ours");
        unlockpt(&ours).expect("it is ours");
        let name = ptsname(&ours, Vec::new()).expect("it has a name").into_string().expect("of ASCII");
        let theirs = File::options().read(true).write(true).open(name).expect("it is ours");
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).args(words).current_dir(shell.folder.path());
        command.env("FENCEPOST_URL", &shell.url).env("FENCEPOST_SESSION_FILE", shell.session_file());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        command.stdin(theirs.try_clone().expect("a descriptor")).stderr(theirs);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, kept) = (File::from(ours.try_clone().expect("a descriptor")), shown.clone());
        thread::spawn(move || {
            let mut piece = [0; 1024];
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                kept.lock().expect("nobody panics with it").extend_from_slice(&piece[..length]);
            }
        });
        (Self { keys: File::from(ours), shown }, command)
    }

    /// Types this.
    pub fn types(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("somebody reads it");
    }

    /// Everything that it was sent.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("nobody panics with it")).into_owned()
    }

    pub fn shows(&self, text: &str) -> bool {
        self.shown().contains(text)
    }
}

/// A `fencepost` at a terminal of its own; killed with the value. Its standard output goes nowhere.
#[derive(Debug)]
pub struct AtTerminal {
    pub terminal: Terminal,
    child: Child,
}

impl AtTerminal {
    pub fn start(shell: &Shell, arguments: &[&str]) -> Self {
        Self::start_in(shell, arguments, &[])
    }

    /// The same with more in its environment.
    pub fn start_in(shell: &Shell, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let (terminal, mut command) = Terminal::with(shell, &[&[env!("CARGO_BIN_EXE_fencepost")], arguments].concat());
        let child = command.envs(environment.iter().copied()).stdout(std::process::Stdio::null()).spawn();
        Self { terminal, child: child.expect("there is a setsid") }
    }

    /// Waits until the terminal shows this.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        let started = std::time::Instant::now();
        while !self.terminal.shows(text) {
            assert!(started.elapsed() < PATIENCE, "no {text:?} in {:?}", self.terminal.shown());
            // bounded: by PATIENCE
            thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let mut ended: io::Result<Option<ExitStatus>> = Ok(None);
        until("it ends", || {
            ended = self.child.try_wait();
            !matches!(ended, Ok(None))
        });
        ended.expect("it is our child").expect("it has ended")
    }
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        // Nobody here leads a group, so `setsid` has become the command itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
