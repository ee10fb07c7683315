use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use fencepost_core::{
    fence::{Closure, Condition},
    sabotage,
};

use rustix::{
    fs::{CWD, RenameFlags},
    io::Errno,
};

use super::{
    Trouble,
    place::{Identity, Place},
    sidecar::{LAYOUT, Replaced, SETTLED, STATE_AT, Sidecar, Unreadable},
    staged::{Staged, content_of, remove},
    step,
};

/// A poll that finds the lock taken comes again after this; the pause doubles up to the second figure.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
const SIDECAR_MODE: u32 = 0o644;
/// How often a sidecar has to be found damaged by who looks without the lock.
const GLANCES: u32 = 3;

/// The lock of one guarded file. It is given back when this is dropped or the process ends.
pub(crate) struct Lock {
    _file: File,
    pub(crate) identity: Identity,
    /// Whether the file was ever guarded, as the lock file says: a sidecar that is missing then was removed.
    pub(crate) marked: bool,
}

/// The sidecar of an open receiver, under its lock.
pub(crate) struct Held {
    pub(crate) sidecar: Sidecar,
    pub(crate) lock: Lock,
}

pub(crate) enum Entrance {
    Open(Box<Held>),
    Closed(Closure),
}

/// Whether a failed save can have reached the disk.
pub(crate) enum Unsaved {
    Nothing(Trouble),
    Perhaps(Trouble),
}

impl From<Unsaved> for Trouble {
    fn from(unsaved: Unsaved) -> Self {
        match unsaved {
            Unsaved::Nothing(trouble) | Unsaved::Perhaps(trouble) => trouble,
        }
    }
}

/// Takes the lock; `None` where there is no lock file.
///
/// # Errors
/// When somebody else has it for all of `wait`.
pub(crate) fn lock(place: &Place, wait: Duration) -> Result<Option<Lock>, Trouble> {
    let path = place.lock();
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Trouble::io("opening", &path)(error)),
        };
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if start.elapsed() < wait => {}
                Err(TryLockError::WouldBlock) => return Err(Trouble::Busy { path, waited: wait }),
                Err(TryLockError::Error(error)) => return Err(Trouble::io("locking", &path)(error)),
            }
            thread::sleep(pause);
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        let metadata = file.metadata().map_err(Trouble::io("looking at", &path))?;
        let identity = Identity::of(&metadata);
        // A lock on a file that was removed meanwhile keeps nobody out.
        if fs::metadata(&path).is_ok_and(|found| Identity::of(&found) == identity) {
            return Ok(Some(Lock { _file: file, identity, marked: metadata.len() > 0 }));
        }
        if start.elapsed() >= wait {
            return Err(Trouble::Busy { path, waited: wait });
        }
    }
}

/// Makes the lock file where there is none, and takes the lock.
pub(crate) fn make_lock(place: &Place, wait: Duration) -> Result<Lock, Trouble> {
    let path = place.lock();
    loop {
        if let Some(lock) = lock(place, wait)? {
            return Ok(lock);
        }
        place.folder_metadata()?;
        let made = OpenOptions::new().write(true).create_new(true).mode(SIDECAR_MODE).open(&path);
        match made {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Trouble::io("making", &path)(error)),
        }
    }
}

/// Writes into the lock file that the file is guarded, so that a sidecar that is gone later is missed.
pub(crate) fn mark(place: &Place, lock: &Lock) -> Result<(), Trouble> {
    if lock.marked {
        return Ok(());
    }
    let path = place.lock();
    let said = "Fencepost guards the file beside this one. Never remove or replace this file.\n";
    OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| file.write_all(said.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(Trouble::io("writing", &path))
}

/// The sidecar without its lock, for looking only.
///
/// A writer who comes in between gives the file that is being read to the next one as its spare, who writes over it. What
/// is read then is damaged, while the sidecar is not, so it is read again; it has to happen every time to be believed.
pub(crate) fn glance(place: &Place) -> Result<Option<Result<Sidecar, Closure>>, Trouble> {
    for _ in 1..GLANCES {
        match read_sidecar(place)? {
            Some(Err(_)) => {}
            read => return Ok(read),
        }
    }
    read_sidecar(place)
}

/// The sidecar as it is. Without the lock it may be torn: see [`glance`].
pub(crate) fn read_sidecar(place: &Place) -> Result<Option<Result<Sidecar, Closure>>, Trouble> {
    read_at(place.sidecar())
}

fn read_at(path: PathBuf) -> Result<Option<Result<Sidecar, Closure>>, Trouble> {
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Trouble::io("reading", &path)(error)),
    };
    match Sidecar::decode(&bytes) {
        Ok(sidecar) => Ok(Some(Ok(sidecar))),
        Err(Unreadable::Damaged) => Ok(Some(Err(Closure::MetadataMissing))),
        Err(Unreadable::Newer(found)) => Err(Trouble::NewerLayout { path, found, known: LAYOUT }),
    }
}

/// For a deliberate defect: reads the sidecar outside of the lock, and leaves others the time to replace it.
fn read_too_early(place: &Place) -> Result<Option<Result<Sidecar, Closure>>, Trouble> {
    let found = read_sidecar(place)?;
    thread::sleep(FIRST_PAUSE);
    Ok(found)
}

/// Takes the lock and reads the sidecar under it. A write that somebody left pending is finished or dropped.
pub(crate) fn enter(place: &Place, wait: Duration, seen: u64) -> Result<Entrance, Trouble> {
    place.metadata()?;
    let early = if sabotage::active("check_outside_transaction") { read_too_early(place)? } else { None };
    let Some(lock) = lock(place, wait)? else {
        let sidecar = fs::symlink_metadata(place.sidecar()).is_ok();
        return Ok(Entrance::Closed(if sidecar { Closure::OtherIncarnation } else { Closure::NotGuarded }));
    };
    step::passed("locked");
    let (mut found, mut seen) = match early {
        Some(early) => (Some(early), seen),
        None => (read_sidecar(place)?, seen),
    };
    if sabotage::active("lost_records_not_noticed") && !matches!(found, Some(Ok(_))) {
        // The sidecar before this one stands beside it, and says less.
        (found, seen) = (read_at(place.spare_sidecar())?, 0);
    }
    let sidecar = match found {
        Some(Ok(sidecar)) => sidecar,
        Some(Err(why)) => return Ok(Entrance::Closed(why)),
        None if lock.marked => return Ok(Entrance::Closed(Closure::MetadataMissing)),
        None => return Ok(Entrance::Closed(Closure::NotGuarded)),
    };
    match sidecar.condition(lock.identity, seen) {
        Condition::Open => {}
        Condition::Closed(why) => return Ok(Entrance::Closed(why)),
    }
    let mut held = Held { sidecar, lock };
    held.settle(place)?;
    Ok(Entrance::Open(Box::new(held)))
}

impl Held {
    /// Replaces the sidecar by what is in memory now, durably.
    pub(crate) fn save(&mut self, place: &Place) -> Result<(), Unsaved> {
        self.publish(place)?;
        place.sync_folder().map_err(Unsaved::Perhaps)?;
        step::passed("sidecar_durable");
        Ok(())
    }

    /// The same, for a sidecar that announces content which is not durable yet: both are when it returns. One sync of the
    /// journal does for the content, its name and the sidecar's; a power failure between them leaves an announcement
    /// whose content is not whole, and that is dropped.
    pub(crate) fn announce(&mut self, place: &Place, staged: &Staged) -> Result<(), Unsaved> {
        self.publish(place)?;
        staged.sync(place).map_err(Unsaved::Perhaps)?;
        step::passed("content_synced");
        place.sync_folder().map_err(Unsaved::Perhaps)?;
        step::passed("sidecar_durable");
        Ok(())
    }

    /// Writes the spare sidecar, syncs it, and lets the two change names.
    fn publish(&mut self, place: &Place) -> Result<(), Unsaved> {
        self.sidecar.counter += 1;
        let text = self.sidecar.encode();
        let spare = place.spare_sidecar();
        let published = write_spare(place, &text)
            .map_err(Trouble::io("writing", &spare))
            .and_then(|()| self.still_ours(place))
            .and_then(|()| exchange(place).map_err(Trouble::io("writing", &place.sidecar())));
        published.map_err(Unsaved::Nothing)?;
        step::passed("sidecar_renamed");
        Ok(())
    }

    /// Somebody who removes the lock file lets two writers in at once; the one who notices stops.
    fn still_ours(&self, place: &Place) -> Result<(), Trouble> {
        let path = place.lock();
        let gone = || io::Error::other("the lock file was removed or replaced meanwhile");
        match fs::metadata(&path) {
            Ok(found) if Identity::of(&found) == self.lock.identity => Ok(()),
            Ok(_) | Err(_) => Err(Trouble::io("keeping the lock of", &path)(gone())),
        }
    }

    /// Puts the staged content, which is durable, in the file's place.
    pub(crate) fn replace(&self, place: &Place) -> Result<(), Trouble> {
        fs::rename(place.staged(), &place.file).map_err(Trouble::io("replacing", &place.file))
    }

    /// Notes that the announced rename is durable. It need not be: whoever opens the sidecar next would find out again.
    pub(crate) fn mark_settled(&mut self, place: &Place) {
        let turned = OpenOptions::new().write(true).open(place.sidecar());
        let _ = turned.and_then(|file| file.write_all_at(SETTLED, STATE_AT));
        self.sidecar.take_in_pending();
        step::passed("settled");
    }

    /// Finishes or drops a write that was announced and not settled.
    ///
    /// The staged file has its name before it is announced and loses it only by the rename or here. So it tells: if it is
    /// whole, the write is finished; if it is damaged, dropped. If it is gone, the rename has happened, unless the file
    /// is plainly still the one from before.
    pub(crate) fn settle(&mut self, place: &Place) -> Result<(), Trouble> {
        let Some(pending) = &self.sidecar.pending else { return Ok(()) };
        let announced = pending.stored;
        if let Some(staged) = content_of(&place.staged())? {
            if staged.content == announced.content {
                // The writer may have died before it synced its content.
                let path = place.staged();
                File::open(&path).and_then(|file| file.sync_all()).map_err(Trouble::io("syncing", &path))?;
                self.replace(place)?;
                step::passed("finished");
                place.sync_folder()?;
                self.mark_settled(place);
                return Ok(());
            }
            remove(&place.staged())?;
            return self.drop_pending(place);
        }
        let replaces = pending.replaces;
        if place.metadata()?.as_ref().map(Replaced::of) == replaces {
            return self.drop_pending(place);
        }
        // The rename may be in memory only, if the process died between it and the sync.
        place.sync_folder()?;
        self.mark_settled(place);
        Ok(())
    }

    fn drop_pending(&mut self, place: &Place) -> Result<(), Trouble> {
        self.sidecar.pending = None;
        self.save(place)?;
        Ok(())
    }
}

/// The former sidecar is written over where it lies: nothing is allocated and nothing freed, which spares a commit of the
/// file system's journal and a discard.
fn write_spare(place: &Place, text: &[u8]) -> io::Result<()> {
    let path = place.spare_sidecar();
    let rights = fs::metadata(place.sidecar()).ok();
    let mode = rights.as_ref().map_or(SIDECAR_MODE, |rights| rights.mode() & 0o777);
    let open = || OpenOptions::new().write(true).create(true).truncate(false).mode(mode).open(&path);
    let file = match open() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // It belongs to another owner, who may write into this folder like us.
            fs::remove_file(&path)?;
            open()?
        }
        opened => opened?,
    };
    let own = file.metadata()?;
    file.write_all_at(text, 0)?;
    if own.len() != text.len() as u64 {
        file.set_len(text.len() as u64)?;
    }
    if let Some(rights) = &rights {
        // Who may read it is decided once, whatever the mask of this process. Where the owner cannot be kept, the folder
        // decides who may write it anyway.
        if (own.uid(), own.gid()) != (rights.uid(), rights.gid()) {
            let _ = std::os::unix::fs::fchown(&file, Some(rights.uid()), Some(rights.gid()));
        }
        if own.mode() & 0o777 != mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
    }
    step::passed("sidecar_written");
    file.sync_data()?;
    step::passed("sidecar_synced");
    Ok(())
}

/// Puts the spare sidecar into the sidecar's place, and the sidecar into the spare's where the file system can.
fn exchange(place: &Place) -> io::Result<()> {
    let (spare, sidecar) = (place.spare_sidecar(), place.sidecar());
    match rustix::fs::renameat_with(CWD, &spare, CWD, &sidecar, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(spare, sidecar),
        Err(error) => Err(error.into()),
    }
}
