//! How the nemesis and the workers wait for each other in scenes: by the names of empty files, which a stopped or killed
//! process cannot spoil.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long a worker stands at a gate before it goes on by itself: a nemesis that has lost its way must not hold up a run.
const AT_MOST: Duration = Duration::from_secs(90);

#[derive(Clone, Debug)]
pub(crate) struct Gates(PathBuf);

impl Gates {
    pub(crate) fn of(root: &Path) -> Self {
        Self(root.join("gates"))
    }

    pub(crate) fn put(&self, name: &str) {
        fs::write(self.0.join(name), "").unwrap();
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        // In one step, so that nobody reads half of it.
        let beside = self.0.join(format!("new.{name}"));
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.0.join(name)).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }

    pub(crate) fn take_away(&self, name: &str) {
        let _ = fs::remove_file(self.0.join(name));
    }

    pub(crate) fn is_there(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    /// What comes after `prefix` in the names of all gates that begin with it.
    pub(crate) fn all(&self, prefix: &str) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap().flatten();
        names.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix).map(str::to_owned)).collect()
    }

    /// Stands still as long as `closed` is there and `open` is not.
    pub(crate) fn stand(&self, closed: &str, open: Option<&str>) {
        let until = Instant::now() + AT_MOST;
        while self.is_there(closed) && !open.is_some_and(|open| self.is_there(open)) && Instant::now() < until {
            // bounded: by AT_MOST
            thread::sleep(Duration::from_millis(1));
        }
    }
}
