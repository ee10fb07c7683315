use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, FileType, Metadata},
    io::ErrorKind,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::{Trouble, beside};

/// The longest name that common file systems take.
const NAME_BYTES: usize = 255;
/// The longest of the suffixes below, with a dot on either side of the name and the random part.
const ROOM_BYTES: usize = "..staged-0123456789abcdef".len();

/// A guarded file and the files beside it. No two guarded names share one of them, because no suffix has a dot.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) folder: PathBuf,
    name: OsString,
}

/// What tells one place from another: the lock file, which stays while the file and its sidecar are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The device that it lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl Place {
    /// # Errors
    /// When the path ends in no name, or in one without room for the names beside it.
    pub(crate) fn of(path: &Path) -> Result<Self, Trouble> {
        let wrong = |rule| Trouble::Name { path: path.to_owned(), rule };
        let name = path.file_name().ok_or_else(|| wrong("it must end in the name of a file"))?;
        if name.len() + ROOM_BYTES > NAME_BYTES {
            return Err(wrong("its name must be at most 230 bytes, to leave room for the names beside it"));
        }
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            Some(_) | None => PathBuf::from("."),
        };
        Ok(Self { file: folder.join(name), folder, name: name.to_owned() })
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(".");
        name.push(suffix);
        self.folder.join(name)
    }

    pub(crate) fn sidecar(&self) -> PathBuf {
        self.beside("fence")
    }

    /// The sidecar before the last, which the next one is written over.
    pub(crate) fn spare_sidecar(&self) -> PathBuf {
        self.beside("fence-spare")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.beside("lock")
    }

    pub(crate) fn staged(&self) -> PathBuf {
        self.beside("staged")
    }

    pub(crate) fn staged_under_way(&self, random: u64) -> PathBuf {
        self.beside(&format!("staged-{random:016x}"))
    }

    /// The place of another file in the folder.
    pub(crate) fn named(&self, path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default();
        Self { file: self.folder.join(name), folder: self.folder.clone(), name: name.to_owned() }
    }

    /// The file that this one lies beside, going by the name alone.
    fn kept_for(&self) -> Option<Self> {
        let name = self.name.as_bytes().strip_prefix(b".")?;
        let dot = name.iter().rposition(|byte| *byte == b'.')?;
        let (name, suffix) = (&name[..dot], &name[dot + 1..]);
        let is_ours = [&b"fence"[..], b"fence-spare", b"lock", b"staged"].contains(&suffix);
        let is_beside = !name.is_empty() && (is_ours || suffix.starts_with(b"staged-"));
        is_beside.then(|| self.named(Path::new(OsStr::from_bytes(name))))
    }

    /// Whether a name in the folder is that of content that somebody was staging without a nameless file.
    pub(crate) fn is_staged_under_way(&self, name: &OsStr) -> bool {
        let prefix = self.beside("staged-");
        let prefix = prefix.file_name().unwrap_or_default().as_encoded_bytes();
        name.as_encoded_bytes().starts_with(prefix)
    }

    /// The file as it is now; `None` where nobody has written it.
    ///
    /// # Errors
    /// When the folder is missing, there is anything but a plain file, or the file lies beside a guarded one and belongs
    /// to its guard.
    pub(crate) fn metadata(&self) -> Result<Option<Metadata>, Trouble> {
        if let Some(guarded) = self.kept_for()
            && beside::is_guarded(&guarded)?
        {
            return Err(Trouble::Kept { path: self.file.clone(), guarded: guarded.file });
        }
        let metadata = match fs::symlink_metadata(&self.file) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.folder_metadata()?;
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(Trouble::NoFolder { folder: self.folder.clone() });
            }
            Err(error) => return Err(Trouble::io("looking at", &self.file)(error)),
        };
        let kind = metadata.file_type();
        if kind.is_symlink() {
            let target = fs::canonicalize(&self.file).or_else(|_| fs::read_link(&self.file));
            return Err(Trouble::Link { path: self.file.clone(), target: target.unwrap_or_default() });
        }
        if !kind.is_file() {
            return Err(Trouble::NotAFile { path: self.file.clone(), found: other_than_a_file(kind) });
        }
        Ok(Some(metadata))
    }

    pub(crate) fn folder_metadata(&self) -> Result<Metadata, Trouble> {
        match fs::metadata(&self.folder) {
            Ok(metadata) if metadata.is_dir() => Ok(metadata),
            Ok(_) => Err(Trouble::NoFolder { folder: self.folder.clone() }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Trouble::NoFolder { folder: self.folder.clone() }),
            Err(error) => Err(Trouble::io("looking at", &self.folder)(error)),
        }
    }

    /// Makes every rename in the folder durable.
    pub(crate) fn sync_folder(&self) -> Result<(), Trouble> {
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(Trouble::io("syncing", &self.folder))
    }
}

/// What to call something that is neither a plain file nor a link.
pub(crate) fn other_than_a_file(kind: FileType) -> &'static str {
    if kind.is_dir() { "a folder" } else { "a device, pipe or socket" }
}
