//! Folders, names, kinds, rights and space: what the world around a file does to a write.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, chown, symlink},
    },
    path::Path,
    process::Command,
};

use fencepost_core::fence::Verdict;
use fencepost_receiver::{
    WriteError,
    file::{FileReceiver, MaintenanceError, Trouble},
};
use tempfile::TempDir;

use crate::{
    children::{NOBODY, Running},
    support::{Guarded, content, domain, grant, seed, skip, token},
};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The trouble of a write that must not have happened.
fn trouble(receiver: &FileReceiver) -> (Trouble, String) {
    let error = receiver.write(&grant("0.5"), None, &b"new"[..]).unwrap_err();
    assert!(!error.may_have_happened(), "{error}");
    let text = error.to_string();
    let WriteError::Unavailable(cause) = error else { panic!("{text}") };
    (*cause.downcast::<Trouble>().unwrap(), text)
}

fn untouched(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_missing_folder_is_named_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = FileReceiver::new(folder.path().join("missing/f.txt"));
    let (trouble, text) = trouble(&receiver);
    assert!(matches!(&trouble, Trouble::NoFolder { folder } if folder.ends_with("missing")), "{trouble:?}");
    assert!(trouble.cannot_write() && text.contains("make it first"), "{text}");
    let error = receiver.guard(&domain("f"), Some(&seed())).unwrap_err();
    assert!(matches!(error, MaintenanceError::Unavailable(Trouble::NoFolder { .. })), "{error}");
    fs::write(folder.path().join("missing"), "a file").unwrap();
    assert!(matches!(self::trouble(&receiver).0, Trouble::NoFolder { .. }));
}

#[test]
fn a_folder_a_pipe_and_a_path_without_a_name_are_no_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    for name in ["sub", "pipe"] {
        let receiver = FileReceiver::new(folder.path().join(name));
        assert!(matches!(trouble(&receiver).0, Trouble::NotAFile { .. }), "{name}");
        assert!(receiver.guard(&domain("f"), Some(&seed())).is_err(), "{name}");
    }
    for path in ["", "/", "..", "sub/.."] {
        assert!(matches!(trouble(&FileReceiver::new(path)).0, Trouble::Name { .. }), "{path:?}");
    }
    assert_eq!(untouched(folder.path()).len(), 2);
}

#[test]
fn a_symbolic_link_is_refused_and_its_target_named_and_one_above_the_file_is_followed() {
    let file = Guarded::new();
    let link = file.folder.path().join("link");
    symlink("f.txt", &link).unwrap();
    let (trouble, text) = trouble(&FileReceiver::new(&link));
    let Trouble::Link { target, .. } = &trouble else { panic!("{trouble:?}") };
    assert_eq!(*target, fs::canonicalize(file.path()).unwrap());
    assert!(text.contains("use the file itself"), "{text}");
    symlink("nowhere", file.folder.path().join("dangling")).unwrap();
    let dangling = FileReceiver::new(file.folder.path().join("dangling"));
    assert!(matches!(self::trouble(&dangling).0, Trouble::Link { .. }));

    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().join("folder");
    symlink(file.folder.path(), &folder).unwrap();
    let through = FileReceiver::new(folder.join("f.txt"));
    assert!(matches!(through.write(&grant("0.5"), None, &b"x"[..]).unwrap(), Verdict::Applied(_)));
    assert_eq!(file.receiver.status().unwrap().fence, Some(token("0.5")), "one file, one fence");
}

#[test]
fn a_link_that_replaces_the_file_later_is_refused_too() {
    let file = Guarded::new();
    fs::rename(file.path(), file.folder.path().join("other")).unwrap();
    symlink("other", file.path()).unwrap();
    assert!(matches!(trouble(&file.receiver).0, Trouble::Link { .. }));
    assert_eq!(fs::read(file.folder.path().join("other")).unwrap(), b"old");
}

#[test]
fn names_of_odd_bytes_and_of_the_greatest_length_are_taken_and_longer_ones_refused() {
    let folder = tempfile::tempdir().unwrap();
    let longest = "n".repeat(230);
    let names: [&[u8]; 7] =
        [b"\xff\xfe", b"a b\n;'\"", b"-rf", b".hidden", b"f.fence", longest.as_bytes(), "\u{1f980}".as_bytes()];
    for name in names {
        let receiver = FileReceiver::new(folder.path().join(OsStr::from_bytes(name)));
        receiver.guard(&domain("f"), Some(&seed())).unwrap();
        let verdict = receiver.write(&grant("0.5"), None, name).unwrap();
        assert_eq!(verdict, Verdict::Applied(content(name)));
        assert_eq!(fs::read(receiver.path()).unwrap(), name);
    }
    // The file, its lock, its sidecar and the spare one each: no two names share one.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4 * names.len());
    let (trouble, text) = trouble(&FileReceiver::new(folder.path().join("n".repeat(231))));
    assert!(matches!(trouble, Trouble::Name { .. }) && text.contains("at most 230 bytes"), "{text}");
}

#[test]
fn a_relative_path_means_the_same_file() {
    let place = std::env::current_dir().unwrap();
    let folder = tempfile::tempdir_in(&place).unwrap();
    let relative = Path::new(folder.path().file_name().unwrap()).join("./f.txt");
    let receiver = FileReceiver::new(relative);
    receiver.guard(&domain("f"), Some(&seed())).unwrap();
    let absolute = FileReceiver::new(folder.path().join("f.txt"));
    assert!(matches!(absolute.write(&grant("0.5"), None, &b"x"[..]).unwrap(), Verdict::Applied(_)));
    assert_eq!(receiver.status().unwrap().fence, Some(token("0.5")));
}

#[test]
fn a_replaced_file_keeps_its_mode_and_a_new_one_takes_the_mask() {
    for mode in [0o600, 0o640, 0o664, 0o4755, 0o400] {
        let file = Guarded::new();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        let _ = file.write("0.5", b"new");
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o7777, mode);
    }
    let file = Guarded::unguarded(&std::env::temp_dir());
    file.receiver.guard(&domain("f"), Some(&seed())).unwrap();
    let _ = file.write("0.5", b"new");
    let plain = file.folder.path().join("plain");
    fs::write(&plain, "x").unwrap();
    assert_eq!(fs::metadata(file.path()).unwrap().mode(), fs::metadata(plain).unwrap().mode());
}

#[test]
fn a_replaced_file_keeps_its_attributes() {
    let file = Guarded::new();
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::setxattr(file.path(), "user.note", b"kept", flags) {
        return skip("a_replaced_file_keeps_its_attributes", &error.to_string());
    }
    let _ = file.write("0.5", b"new");
    let mut value = Vec::with_capacity(64);
    rustix::fs::getxattr(file.path(), "user.note", rustix::buffer::spare_capacity(&mut value)).unwrap();
    assert_eq!(value, b"kept");
}

#[test]
fn root_keeps_the_owner_and_somebody_else_is_refused() {
    let name = "root_keeps_the_owner_and_somebody_else_is_refused";
    if !is_root() {
        return skip(name, "only root can give files away");
    }
    let file = Guarded::new();
    chown(file.path(), Some(1), Some(1)).unwrap();
    let _ = file.write("0.5", b"new");
    let metadata = fs::metadata(file.path()).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (1, 1));

    // Nobody may write into the folder and read the file, but could only replace it by a file of another owner.
    fs::set_permissions(file.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let before = file.dump();
    let said = Running::as_nobody(file.path(), "try:0.5:x").said().join("");
    assert!(said.contains("keeping owner and rights of") && said.ends_with("may_have_happened=false"), "{said}");
    assert_eq!(file.dump(), before);
    chown(file.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    assert_eq!(Running::as_nobody(file.path(), "try:0.6:x advance:0.7").said(), ["applied", "applied"]);
    assert_eq!(file.write("0.7", b"root again"), Verdict::Applied(content(b"root again")));
}

#[test]
fn a_folder_that_may_not_be_written_is_a_clear_answer() {
    let file = Guarded::new();
    fs::set_permissions(file.folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let before = file.dump();
    let said = if is_root() {
        Running::as_nobody(file.path(), "try:0.5:x").said()
    } else {
        Running::start(file.path(), "try:0.5:x").said()
    };
    assert!(said[0].contains("is not permitted") && said[0].ends_with("may_have_happened=false"), "{said:?}");
    assert_eq!(file.dump(), before);
    fs::set_permissions(file.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

/// A file system of its own.
struct Disk {
    folder: TempDir,
}

impl Disk {
    fn mount(size: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let options = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        match mount {
            Ok(output) if output.status.success() => Ok(Self { folder }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(Command::new("mount").args(["-o", &options]).arg(self.folder.path()).status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

#[test]
fn on_a_full_disk_nothing_is_changed_and_writes_go_on_when_there_is_room() {
    let disk = match Disk::mount("256k") {
        Ok(disk) => disk,
        Err(reason) => {
            return skip("on_a_full_disk_nothing_is_changed_and_writes_go_on_when_there_is_room", &reason);
        }
    };
    let file = Guarded::under(disk.folder.path());
    let _ = file.write("0.5", b"five");
    let before = file.dump();
    // The content does not fit.
    let error = file.receiver.write(&grant("0.6"), None, &vec![7; 300_000][..]).unwrap_err();
    let WriteError::Unavailable(cause) = &error else { panic!("{error}") };
    assert!(matches!(Trouble::of(cause), Some(Trouble::Full { .. })), "{cause:?}");
    assert_eq!(file.dump(), before);
    // The content fits and the sidecar does not: at some size of the ballast there is one page left.
    let ballast = disk.folder.path().join("ballast");
    let mut refused = 0;
    for pages in 1..64 {
        fs::write(&ballast, vec![7; pages * 4096]).ok();
        match file.receiver.write(&grant("0.6"), None, &b"six"[..]) {
            Ok(verdict) => assert!(matches!(verdict, Verdict::Applied(_))),
            Err(error) => {
                assert!(!error.may_have_happened(), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1, "{refused}");
    fs::remove_file(&ballast).unwrap();
    assert_eq!(file.write("0.7", b"seven"), Verdict::Applied(content(b"seven")));
    assert!(!file.beside("staged").exists());
}

#[test]
fn on_a_read_only_file_system_the_file_is_read_and_not_written() {
    let disk = match Disk::mount("256k") {
        Ok(disk) => disk,
        Err(reason) => return skip("on_a_read_only_file_system_the_file_is_read_and_not_written", &reason),
    };
    let file = Guarded::under(disk.folder.path());
    let _ = file.write("0.5", b"five");
    disk.remount("ro");
    assert!(matches!(trouble(&file.receiver).0, Trouble::ReadOnly { .. }));
    assert!(file.receiver.read(&grant("0.5")).unwrap().result().unwrap().is_some(), "an equal token raises nothing");
    let error = file.receiver.advance_blocking(&grant("0.6")).unwrap_err();
    assert!(!error.may_have_happened() && error.retryable(), "{error}");
    assert_eq!(file.receiver.status().unwrap().fence, Some(token("0.5")));
    disk.remount("rw");
}
