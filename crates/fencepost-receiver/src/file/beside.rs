//! The door to the files beside a guarded one: how they are opened, and how ours are told from others of the same name.
//!
//! Whoever may write into the folder can put anything under such a name, and so can somebody who has never heard of
//! Fencepost. A link is not followed, a pipe is not waited for, and what is not ours is neither taken nor written over.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;

use super::{
    Trouble,
    held::MARK,
    place::{Place, other_than_a_file},
    sidecar::HEADS,
};

/// What stands under a name that no guard of ours has put there.
const NOT_OURS: &str = "a file that no guard has made";

/// Opens a file beside the guarded one. `None` where there is none.
///
/// # Errors
/// When anything but a plain file is there.
pub(crate) fn open(options: &mut OpenOptions, doing: &'static str, path: &Path) -> Result<Option<File>, Trouble> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    match options.custom_flags(flags.cast_signed()).open(path) {
        Ok(file) => {
            let metadata = file.metadata().map_err(Trouble::io("looking at", path))?;
            refuse_other_kinds(path, &metadata)?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            if let Ok(metadata) = fs::symlink_metadata(path) {
                refuse_other_kinds(path, &metadata)?;
            }
            Err(Trouble::io(doing, path)(error))
        }
    }
}

/// Opens one for reading.
pub(crate) fn read(path: &Path) -> Result<Option<File>, Trouble> {
    open(OpenOptions::new().read(true), "opening", path)
}

/// What there is under the name of a file beside the guarded one. `None` where there is nothing.
///
/// # Errors
/// When anything but a plain file is there.
pub(crate) fn metadata(path: &Path) -> Result<Option<Metadata>, Trouble> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => refuse_other_kinds(path, &metadata).map(|()| Some(metadata)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Trouble::io("looking at", path)(error)),
    }
}

fn refuse_other_kinds(path: &Path, metadata: &Metadata) -> Result<(), Trouble> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let found = if kind.is_symlink() { "a symbolic link" } else { other_than_a_file(kind) };
    Err(Trouble::NotOurs { path: path.to_owned(), found })
}

pub(crate) fn not_ours(path: &Path) -> Trouble {
    Trouble::NotOurs { path: path.to_owned(), found: NOT_OURS }
}

/// Who has written a file, as far as its first bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// We, perhaps not to the end.
    Us,
    /// Nobody, or we, and a power failure took it: it is empty, or its first bytes are zero.
    Nobody,
    Another,
}

fn writer(file: &File, heads: &[&[u8]]) -> io::Result<Writer> {
    let most = heads.iter().map(|head| head.len()).max().unwrap_or_default();
    let mut bytes = vec![0; most];
    let mut length = 0;
    while length < most {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let bytes = &bytes[..length];
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Writer::Nobody);
    }
    let ours = heads.iter().any(|head| head.starts_with(bytes));
    Ok(if ours { Writer::Us } else { Writer::Another })
}

fn writer_of_sidecar(file: &File, path: &Path) -> Result<Writer, Trouble> {
    writer(file, &HEADS).map_err(Trouble::io("reading", path))
}

fn writer_of_lock(file: &File, path: &Path) -> Result<Writer, Trouble> {
    let metadata = file.metadata().map_err(Trouble::io("looking at", path))?;
    if metadata.len() > MARK.len() as u64 || (metadata.len() == 0 && metadata.nlink() > 1) {
        return Ok(Writer::Another);
    }
    writer(file, &[MARK]).map_err(Trouble::io("reading", path))
}

/// Whether a sidecar, spare or not, can be ours: whole, torn or empty.
pub(crate) fn is_sidecar(file: &File, path: &Path) -> Result<bool, Trouble> {
    Ok(writer_of_sidecar(file, path)? != Writer::Another)
}

/// The same for a lock file. One that is empty has yet to be marked, so it must not have a second name elsewhere.
pub(crate) fn is_lock(file: &File, path: &Path) -> Result<bool, Trouble> {
    Ok(writer_of_lock(file, path)? != Writer::Another)
}

/// Whether sidecar or lock file say that a file is guarded, or was.
pub(crate) fn is_guarded(place: &Place) -> Result<bool, Trouble> {
    let (sidecar, lock) = (place.sidecar(), place.lock());
    Ok(by_us(&sidecar, writer_of_sidecar)? || by_us(&lock, writer_of_lock)?)
}

fn by_us(path: &Path, writer: fn(&File, &Path) -> Result<Writer, Trouble>) -> Result<bool, Trouble> {
    match read(path) {
        Ok(Some(file)) => Ok(writer(&file, path)? == Writer::Us),
        // What is no plain file was not made by a guard.
        Ok(None) | Err(Trouble::NotOurs { .. }) => Ok(false),
        Err(trouble) => Err(trouble),
    }
}

/// Refuses a first guard over files that no guard has made, and over names that are guarded themselves.
///
/// A guard that was interrupted has left a spare sidecar at most. Staged content has nothing to tell it by, and without a
/// sidecar nobody has announced any.
pub(crate) fn refuse_others(place: &Place) -> Result<(), Trouble> {
    for path in [place.sidecar(), place.spare_sidecar()] {
        if let Some(file) = read(&path)?
            && !is_sidecar(&file, &path)?
        {
            return Err(not_ours(&path));
        }
    }
    if metadata(&place.staged())?.is_some() {
        return Err(not_ours(&place.staged()));
    }
    for path in [place.sidecar(), place.spare_sidecar(), place.lock(), place.staged()] {
        if is_guarded(&place.named(&path))? {
            return Err(Trouble::NotOurs { path, found: "a guarded file" });
        }
    }
    Ok(())
}
