//! A control group around the command, where this process may make one: there the kernel kills all members in one
//! step, however fast they multiply. Where it may not, members are found and killed one by one.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process,
};

use rustix::process::Pid;

/// A group that is removed with its value; the kernel refuses that while anybody is in it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// One below the group of this process, or nothing where that is not allowed or of no use.
    pub(crate) fn create() -> Option<Self> {
        let group = Self { folder: folder_of(process::id())? };
        make(&group.folder).ok()?;
        // Older kernels have groups and no way to kill one.
        group.folder.join("cgroup.kill").exists().then_some(group)
    }

    /// Removes what a warden that was killed has left, once nobody is in it.
    pub(crate) fn remove_left_by(warden: u32) {
        drop(folder_of(warden).map(|folder| Self { folder }));
    }

    /// Moves a process into it, with whatever it starts from then on. The kernel may take ten milliseconds for that.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn take_in(&self, process: Pid) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.as_raw_nonzero().to_string())
    }

    /// Kills every member. Whether it worked shows in who is left.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Where `run` and its warden were killed in one moment they have left an empty one, and numbers of processes come again.
/// One that somebody is in cannot be removed.
fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir(folder)?;
            fs::create_dir(folder)
        }
        made => made,
    }
}

/// In another namespace for processes another warden has the same number, and may have a group at the same place.
fn folder_of(warden: u32) -> Option<PathBuf> {
    let own = own_folder(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))?;
    // Without such namespaces there is nothing to tell apart.
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    Some(own.join(format!("fencepost-run-{namespace}-{warden}")))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The folder of this process's group in the unified hierarchy.
pub(super) fn own_folder(mounts: &str, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        after.starts_with("cgroup2 ").then(|| before.split(' ').nth(4)).flatten()
    })?;
    Some(Path::new(mount).join(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutant: a group that is there already is no group for this command.
    #[test]
    fn an_empty_group_that_was_left_behind_is_made_anew_and_one_in_use_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let group = folder.path().join("group");
        make(&group).unwrap();
        make(&group).unwrap();
        assert!(group.is_dir());
        fs::write(group.join("member"), "").unwrap();
        assert!(make(&group).is_err() && group.join("member").exists());
    }

    #[test]
    fn the_group_is_found_below_the_mount_of_the_unified_hierarchy() {
        let mounts = "25 18 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      26 18 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let found = own_folder(mounts, "3:cpu:/x\n0::/user.slice/a b.scope\n");
        assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/user.slice/a b.scope")));
        assert_eq!(own_folder(mounts, "0::/\n"), Some(PathBuf::from("/sys/fs/cgroup/")));
        assert_eq!(own_folder(mounts, "3:cpu:/x\n"), None);
        assert_eq!(own_folder("", "0::/x\n"), None);
    }
}
