use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use fencepost_core::{
    OperationId,
    fence::{Fingerprint, Operation},
};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use sha2::{Digest, Sha256};

use super::{Content, Trouble, attributes, beside, place::Place, sidecar::Stored, step};

const CHUNK: usize = 128 * 1024;
/// Content up to this size is synced together with its announcement, under the lock; more would keep others waiting and
/// is synced before.
const LATE_SYNC: u64 = 4 * 1024 * 1024;
/// What a new file may be opened for before the process's own mask is taken off.
const NEW_FILE: u32 = 0o666;
/// Content that is to replace a file is nobody else's until it has that file's rights.
const REPLACEMENT: u32 = 0o600;

/// New content of a guarded file: written beside it, not yet in its place.
///
/// Dropping it leaves nothing behind. Where the file system can, it has no name until its turn comes, so that a process
/// that is killed leaves nothing behind either.
#[derive(Debug)]
pub struct Staged {
    file: File,
    name: Option<PathBuf>,
    content: Content,
}

/// Why content was not staged.
pub(crate) enum Unstaged {
    Source(io::Error),
    Trouble(Trouble),
}

impl From<Trouble> for Unstaged {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Staged {
    /// Copies everything that `source` gives, without holding more than a small part of it in memory.
    pub(crate) fn read(place: &Place, mut source: impl Read) -> Result<Self, Unstaged> {
        let target = place.metadata()?;
        let mode = if target.is_some() { REPLACEMENT } else { NEW_FILE };
        let (file, name) = create(place, mode)?;
        let empty = Content { bytes: 0, digest: Fingerprint::of(b"") };
        let mut staged = Self { file, name, content: empty };
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Unstaged::Source(error)),
            };
            hasher.update(&chunk[..read]);
            staged.file.write_all(&chunk[..read]).map_err(Trouble::io("writing content for", &place.file))?;
            staged.content.bytes += read as u64;
        }
        staged.content.digest = Fingerprint::from_digest(hasher.finalize().into());
        step::passed("content_written");
        if let Some(target) = target {
            attributes::take_over(place, &staged.file, &target)?;
        }
        if staged.content.bytes > LATE_SYNC {
            staged.sync(place)?;
        }
        Ok(staged)
    }

    /// What it holds.
    #[must_use]
    pub const fn content(&self) -> Content {
        self.content
    }

    /// The operation `id` whose request is exactly this content: the same id with another content is a conflict.
    #[must_use]
    pub fn operation(&self, id: OperationId) -> Operation {
        Operation { id, fingerprint: self.content.digest, born: None }
    }

    pub(crate) fn stored(&self, place: &Place) -> Result<Stored, Trouble> {
        let metadata = self.file.metadata().map_err(Trouble::io("looking at content for", &place.file))?;
        Ok(Stored { content: self.content, inode: metadata.ino() })
    }

    pub(crate) fn sync(&self, place: &Place) -> Result<(), Trouble> {
        self.file.sync_all().map_err(Trouble::io("syncing content for", &place.file))
    }

    /// Gives it the one name under which a pending write is looked for. The caller holds the lock.
    pub(crate) fn name_it(&mut self, place: &Place, target: Option<&Metadata>) -> Result<(), Trouble> {
        if let Some(target) = target {
            attributes::take_over(place, &self.file, target)?;
        }
        let staged = place.staged();
        // What is left of a writer that died before its announcement.
        if beside::metadata(&staged)?.is_some() {
            remove(&staged)?;
        }
        let named = match self.name.take() {
            Some(name) => fs::rename(name, &staged),
            None => {
                let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(CWD, unnamed, CWD, &staged, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
            }
        };
        named.map_err(Trouble::io("naming", &staged))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::remove_file(name);
        }
    }
}

/// Removes a file that need not be there.
pub(crate) fn remove(path: &Path) -> Result<(), Trouble> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Trouble::io("removing", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A file without a name, which gets one through `/proc`; one with a name of its own where that is not possible.
fn create(place: &Place, mode: u32) -> Result<(File, Option<PathBuf>), Trouble> {
    if Path::new("/proc/self/fd").exists() {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::open(&place.folder, flags, Mode::from_raw_mode(mode)) {
            Ok(file) => return Ok((file.into(), None)),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(Trouble::io("writing beside", &place.file)(error.into())),
        }
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    let name = place.staged_under_way(u64::from_le_bytes(random));
    let file = beside::open(OpenOptions::new().write(true).create_new(true).mode(mode), "making", &name)?
        .ok_or_else(|| Trouble::NoFolder { folder: place.folder.clone() })?;
    Ok((file, Some(name)))
}

/// The length and digest of what the file holds.
pub(crate) fn content_of(path: &Path) -> Result<Option<Stored>, Trouble> {
    match File::open(path) {
        Ok(file) => content_in(&file, path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Trouble::io("reading", path)(error)),
    }
}

/// The same of a file that is open.
pub(crate) fn content_in(mut file: &File, path: &Path) -> Result<Stored, Trouble> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                hasher.update(&chunk[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Trouble::io("reading", path)(error)),
        }
    }
    let digest = Fingerprint::from_digest(hasher.finalize().into());
    let inode = file.metadata().map_err(Trouble::io("looking at", path))?.ino();
    Ok(Stored { content: Content { bytes, digest }, inode })
}
