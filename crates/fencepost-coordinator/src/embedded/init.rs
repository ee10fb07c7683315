use std::{
    fs,
    path::{Path, PathBuf},
};

use fencepost_core::{Epoch, Issuer};

use super::{
    Embedded, Identity, InitOptions, OpenError,
    directory::{COMPANIONS, Holding, create_private, examine, lock, look, sync, unreadable},
    lock::LOCK_FILE,
    open::refused,
    options::wall_clock,
    random,
    store::sqlite::{DATABASE_FILE, SqliteStore},
};

/// 2026-01-01T00:00:00Z, in milliseconds since 1970.
const BEGINNING_OF_2026_MS: u64 = 1_767_225_600_000;
const HOUR_MS: u64 = 60 * 60 * 1000;

/// The name of a database that is being made. A store gets its own name when it is complete, in one step, so whatever
/// lies under this one was never answered from.
const UNFINISHED_FILE: &str = "coordinator.sqlite.new";

impl Embedded {
    /// Makes a new coordinator in a directory that is empty or does not exist yet. Not opened by that. One that was
    /// killed may be repeated; when the store had its name already, that is [`OpenError::Initialised`].
    ///
    /// # Errors
    /// When the directory is not empty, or cannot be written.
    pub fn init(dir: impl AsRef<Path>, options: InitOptions) -> Result<Identity, OpenError> {
        init_telling(dir.as_ref(), options, &|_| {})
    }
}

/// Initialises, and names each step when it is done.
pub(super) fn init_telling(dir: &Path, options: InitOptions, done: &dyn Fn(&str)) -> Result<Identity, OpenError> {
    let created_unix_ms = wall_clock(options.wall_clock).unix_millis();
    let epoch = match options.epoch {
        Some(epoch) => epoch,
        None => epoch_at(created_unix_ms)?,
    };
    let issuer = options.issuer.unwrap_or_else(fresh_issuer);
    look(dir)?;
    create_private(dir)?;
    done("made");
    let _lock = lock(dir)?;
    done("locked");
    if look(dir)? == Holding::Store {
        examine(dir)?;
        return Err(OpenError::Initialised { dir: dir.to_owned() });
    }
    refuse_unless_empty(dir)?;
    let unfinished = dir.join(UNFINISHED_FILE);
    for path in remains(dir).filter(|path| fs::symlink_metadata(path).is_ok()) {
        fs::remove_file(&path).map_err(|error| unreadable(&path, error))?;
    }
    SqliteStore::create(&unfinished, &issuer, epoch, created_unix_ms, done).map_err(|failure| refused(failure, dir))?;
    let named = dir.join(DATABASE_FILE);
    fs::rename(&unfinished, &named).map_err(|error| unreadable(&named, error))?;
    done("named");
    sync(dir).map_err(|error| unreadable(dir, error))?;
    done("durable");
    Ok(Identity { issuer, epoch })
}

/// What an init that was killed may have left.
fn remains(dir: &Path) -> impl Iterator<Item = PathBuf> {
    [""].into_iter().chain(COMPANIONS).map(move |end| dir.join(format!("{UNFINISHED_FILE}{end}")))
}

fn refuse_unless_empty(dir: &Path) -> Result<(), OpenError> {
    let failed = |error| unreadable(dir, error);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let found = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if found != LOCK_FILE && !remains(dir).any(|left| left == path) {
            return Err(OpenError::NotEmpty { dir: dir.to_owned(), found });
        }
    }
    Ok(())
}

fn epoch_at(unix_ms: u64) -> Result<Epoch, OpenError> {
    let since = unix_ms.checked_sub(BEGINNING_OF_2026_MS).ok_or(OpenError::ClockBehind)?;
    let hours = u32::try_from(since / HOUR_MS).unwrap_or(u32::MAX);
    Ok(Epoch::new(hours).unwrap_or(Epoch::MAX))
}

fn fresh_issuer() -> Issuer {
    let digits: String = random::bytes::<16>().iter().map(|byte| format!("{byte:02x}")).collect();
    Issuer::new(&format!("fp-{digits}")).expect("35 plain characters are an issuer")
}
