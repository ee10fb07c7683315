use std::{
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    io::{self, Read as _},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
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
    Trouble, beside,
    place::{Identity, Place},
    sidecar::{LAYOUT, Replaced, SETTLED, STATE_AT, Sidecar, Unreadable},
    staged::{Staged, content_in, remove},
    step,
};

/// A poll that finds the lock taken comes again after this; the pause doubles up to the second figure.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
const SIDECAR_MODE: u32 = 0o644;
/// What a lock file says once the file is guarded.
pub(crate) const MARK: &[u8] = b"Fencepost guards the file beside this one. Never remove or replace this file.\n";
/// How often a sidecar has to be found damaged by who looks without the lock.
const GLANCES: u32 = 3;

/// The lock of one guarded file. It is given back when this is dropped or the process ends.
pub(crate) struct Lock {
    _file: File,
    pub(crate) identity: Identity,
    /// Whether the file was ever guarded, as the lock file says: a sidecar that is missing then was removed.
    pub(crate) marked: bool,
    /// The place, as long as the lock file was made for this lock and no sidecar has come of it.
    fresh: Option<Place>,
}

/// A call that comes to nothing leaves no lock file behind. The lock is held here, so nobody is at work; who waits for it
/// finds that its file is gone and begins anew.
impl Drop for Lock {
    fn drop(&mut self) {
        let Some(place) = &self.fresh else { return };
        let is_alone = matches!(beside::metadata(&place.sidecar()), Ok(None));
        let found = beside::metadata(&place.lock());
        let is_it = matches!(found, Ok(Some(found)) if Identity::of(&found) == self.identity && found.len() == 0);
        if is_alone && is_it {
            // An empty lock file says nothing to anybody.
            let _ = remove(&place.lock());
        }
    }
}

/// What reading a sidecar comes to; `None` where there is none.
pub(crate) type Read = Option<Result<Sidecar, Closure>>;

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
/// When somebody else has it for all of `wait`, or the file is not ours.
pub(crate) fn lock(place: &Place, wait: Duration) -> Result<Option<Lock>, Trouble> {
    let path = place.lock();
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(file) = beside::read(&path)? else { return Ok(None) };
        // Before the wait: another program may hold a lock on a file of its own.
        refuse_other_lock(place, &file)?;
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
        if beside::metadata(&path)?.is_some_and(|found| Identity::of(&found) == identity) {
            return Ok(Some(Lock { _file: file, identity, marked: metadata.len() > 0, fresh: None }));
        }
        if start.elapsed() >= wait {
            return Err(Trouble::Busy { path, waited: wait });
        }
    }
}

/// Makes the lock file where there is none, and takes the lock.
pub(crate) fn make_lock(place: &Place, wait: Duration) -> Result<Lock, Trouble> {
    let path = place.lock();
    let start = Instant::now();
    let (mut made, mut is_ours) = (false, false);
    loop {
        if let Some(mut lock) = lock(place, wait)? {
            lock.fresh = is_ours.then(|| place.clone());
            return Ok(lock);
        }
        // Somebody takes it away as often as it is made.
        if made && start.elapsed() >= wait {
            return Err(Trouble::Busy { path, waited: wait });
        }
        made = true;
        is_ours = make_lock_file(place)?;
    }
}

/// Whether it was made by this call.
fn make_lock_file(place: &Place) -> Result<bool, Trouble> {
    place.folder_metadata()?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(SIDECAR_MODE);
    match beside::open(&mut options, "making", &place.lock()) {
        Ok(Some(_)) => Ok(true),
        // A folder that was removed is still there for whoever is in it, and takes no file.
        Ok(None) => Err(Trouble::NoFolder { folder: place.folder.clone() }),
        Err(Trouble::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(trouble) => Err(trouble),
    }
}

/// A lock file is known by its words, or by its number where the sidecar has it.
fn refuse_other_lock(place: &Place, file: &File) -> Result<(), Trouble> {
    let path = place.lock();
    if beside::is_lock(file, &path)? {
        return Ok(());
    }
    let identity = Identity::of(&file.metadata().map_err(Trouble::io("looking at", &path))?);
    match glance(place)? {
        Some(Ok(sidecar)) if sidecar.identity() == identity => Ok(()),
        Some(_) | None => Err(beside::not_ours(&path)),
    }
}

/// Writes into the lock file that the file is guarded, so that a sidecar that is gone later is missed.
pub(crate) fn mark(place: &Place, lock: &Lock) -> Result<(), Trouble> {
    if lock.marked {
        return Ok(());
    }
    let path = place.lock();
    let failed = || Trouble::io("writing", &path);
    let file = beside::open(OpenOptions::new().write(true), "writing", &path)?.ok_or_else(|| gone(&path))?;
    if Identity::of(&file.metadata().map_err(failed())?) != lock.identity {
        return Err(gone(&path));
    }
    file.write_all_at(MARK, 0).and_then(|()| file.sync_all()).map_err(failed())
}

fn gone(lock: &Path) -> Trouble {
    Trouble::io("keeping the lock of", lock)(io::Error::other("the lock file was removed or replaced meanwhile"))
}

/// The sidecar without its lock, for looking only.
///
/// A writer who comes in between gives the file that is being read to the next one as its spare, who writes over it. What
/// is read then is damaged, while the sidecar is not, so it is read again; it has to happen every time to be believed.
pub(crate) fn glance(place: &Place) -> Result<Read, Trouble> {
    look_again(|| read_sidecar(place))
}

fn look_again(mut look: impl FnMut() -> Result<Read, Trouble>) -> Result<Read, Trouble> {
    for _ in 1..GLANCES {
        match look()? {
            Some(Err(_)) => {}
            read => return Ok(read),
        }
    }
    look()
}

/// The sidecar as it is. Without the lock it may be torn: see [`glance`].
pub(crate) fn read_sidecar(place: &Place) -> Result<Read, Trouble> {
    read_at(place.sidecar())
}

/// A file that cannot be ours is no sidecar: there is none then.
fn read_at(path: PathBuf) -> Result<Read, Trouble> {
    let Some(mut file) = beside::read(&path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(Trouble::io("reading", &path))?;
    match Sidecar::decode(&bytes) {
        Err(Unreadable::Damaged) if !beside::is_sidecar(&file, &path)? => Ok(None),
        Ok(sidecar) => Ok(Some(Ok(sidecar))),
        Err(Unreadable::Damaged) => Ok(Some(Err(Closure::MetadataMissing))),
        Err(Unreadable::Newer(found)) => Err(Trouble::NewerLayout { path, found, known: LAYOUT }),
    }
}

/// For a deliberate defect: reads the sidecar outside of the lock, and leaves others the time to replace it.
fn read_too_early(place: &Place) -> Result<Read, Trouble> {
    let found = read_sidecar(place)?;
    thread::sleep(FIRST_PAUSE);
    Ok(found)
}

/// Takes the lock and reads the sidecar under it. A write that somebody left pending is finished or dropped.
pub(crate) fn enter(place: &Place, wait: Duration, seen: u64) -> Result<Entrance, Trouble> {
    place.metadata()?;
    let early = if sabotage::active("check_outside_transaction") { read_too_early(place)? } else { None };
    let mut found = lock(place, wait)?;
    if found.is_none() {
        if glance(place)?.is_none() {
            return Ok(Entrance::Closed(Closure::NotGuarded));
        }
        // A first guard makes the lock file before the sidecar, and may have made both since the first look.
        found = lock(place, wait)?;
    }
    let Some(lock) = found else { return Ok(Entrance::Closed(Closure::OtherIncarnation)) };
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
        let published = write_spare(place, &text)
            .and_then(|()| self.still_ours(place))
            .and_then(|()| exchange(place).map_err(Trouble::io("writing", &place.sidecar())));
        published.map_err(Unsaved::Nothing)?;
        self.lock.fresh = None;
        step::passed("sidecar_renamed");
        Ok(())
    }

    /// Somebody who removes the lock file lets two writers in at once; the one who notices stops.
    fn still_ours(&self, place: &Place) -> Result<(), Trouble> {
        let path = place.lock();
        match fs::symlink_metadata(&path) {
            Ok(found) if Identity::of(&found) == self.lock.identity => Ok(()),
            Ok(_) | Err(_) => Err(gone(&path)),
        }
    }

    /// Puts the staged content, which is durable, in the file's place.
    pub(crate) fn replace(&self, place: &Place) -> Result<(), Trouble> {
        fs::rename(place.staged(), &place.file).map_err(Trouble::io("replacing", &place.file))
    }

    /// Notes that the announced rename is durable. It need not be: whoever opens the sidecar next would find out again.
    pub(crate) fn mark_settled(&mut self, place: &Place) {
        let turned = beside::open(OpenOptions::new().write(true), "writing", &place.sidecar());
        if let Ok(Some(file)) = turned {
            let _ = file.write_all_at(SETTLED, STATE_AT);
        }
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
        let path = place.staged();
        if let Some(staged) = beside::read(&path)? {
            if content_in(&staged, &path)?.content == announced.content {
                // The writer may have died before it synced its content.
                staged.sync_all().map_err(Trouble::io("syncing", &path))?;
                self.replace(place)?;
                step::passed("finished");
                place.sync_folder()?;
                self.mark_settled(place);
                return Ok(());
            }
            remove(&path)?;
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
fn write_spare(place: &Place, text: &[u8]) -> Result<(), Trouble> {
    let rights = beside::metadata(&place.sidecar())?;
    let mode = rights.as_ref().map_or(SIDECAR_MODE, |rights| rights.mode() & 0o777);
    let (file, is_new) = open_spare(place, mode)?;
    fill_spare(&file, text, rights.as_ref(), mode).map_err(|error| {
        if is_new {
            // What could not be written is of no use to anybody, and the failure is told anyway.
            let _ = remove(&place.spare_sidecar());
        }
        Trouble::io("writing", &place.spare_sidecar())(error)
    })
}

/// The spare sidecar, to be written over; made where there is none, and then that is said.
fn open_spare(place: &Place, mode: u32) -> Result<(File, bool), Trouble> {
    let path = place.spare_sidecar();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(mode);
    let (spare, writable) = match beside::open(&mut options, "writing", &path) {
        Ok(Some(spare)) => (spare, true),
        Ok(None) => return make_spare(place, &mut options),
        // It belongs to another owner, who may write into this folder like us.
        Err(denied @ Trouble::Denied { .. }) => (beside::read(&path)?.ok_or(denied)?, false),
        Err(trouble) => return Err(trouble),
    };
    if !beside::is_sidecar(&spare, &path)? {
        return Err(beside::not_ours(&path));
    }
    // A second name may be that of a copy, which is not to change.
    if writable && spare.metadata().map_err(Trouble::io("looking at", &path))?.nlink() == 1 {
        return Ok((spare, false));
    }
    fs::remove_file(&path).map_err(Trouble::io("replacing", &path))?;
    make_spare(place, &mut options)
}

fn make_spare(place: &Place, options: &mut OpenOptions) -> Result<(File, bool), Trouble> {
    let made = beside::open(options.create_new(true), "writing", &place.spare_sidecar())?;
    made.map(|spare| (spare, true)).ok_or_else(|| Trouble::NoFolder { folder: place.folder.clone() })
}

fn fill_spare(file: &File, text: &[u8], rights: Option<&Metadata>, mode: u32) -> io::Result<()> {
    let own = file.metadata()?;
    file.write_all_at(text, 0)?;
    if own.len() != text.len() as u64 {
        file.set_len(text.len() as u64)?;
    }
    if let Some(rights) = rights {
        // Who may read it is decided once, whatever the mask of this process. Where the owner cannot be kept, the folder
        // decides who may write it anyway.
        if (own.uid(), own.gid()) != (rights.uid(), rights.gid()) {
            let _ = std::os::unix::fs::fchown(file, Some(rights.uid()), Some(rights.gid()));
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

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
