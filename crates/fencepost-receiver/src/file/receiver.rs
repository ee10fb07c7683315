use std::{
    convert::Infallible,
    fs::File,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use fencepost_core::{
    Grant, Invalid,
    fence::{Decision, Operation, Presented, Rejection, Verdict, decide},
    sabotage,
};

use super::{
    Content, Staged, Trouble,
    held::{Entrance, Held, Unsaved, enter},
    place::Place,
    sidecar::{Pending, Record, Replaced},
    staged::{Unstaged, remove},
    step,
};
use crate::{
    AdvanceError, Capabilities, Cause, Guarantee, Receiver, Seen, WriteError,
    adapter::{log_rejection, misread, on_a_thread},
};

/// How long a call waits for the lock when nothing else is said.
const WAIT: Duration = Duration::from_secs(5);
/// How many operation records are kept when nothing else is said.
const KEPT: usize = 100;

/// The receiver of one file: replaces it as a whole, if the token is not older than the file's fence.
///
/// It is cheap to make and holds nothing open between calls. Use one of them (or its clones) for one file, so that a
/// sidecar that goes back is noticed. All calls block: they wait for a lock and for the disk.
#[derive(Clone, Debug)]
pub struct FileReceiver {
    path: PathBuf,
    name: String,
    seen: Seen,
    pub(crate) wait: Duration,
    kept: usize,
    allow_empty: bool,
}

impl FileReceiver {
    /// The file at this path. Nothing is looked at before the first call, and nothing is ever made by a path alone.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = format!("file:{}", path.display());
        Self { path, name, seen: Seen::new(), wait: WAIT, kept: KEPT, allow_empty: false }
    }

    /// The same, starting from what a caller has seen.
    #[must_use]
    pub fn with_seen(self, seen: Seen) -> Self {
        Self { seen, ..self }
    }

    /// The same, waiting this long for other writers before it answers [`Trouble::Busy`]. Five seconds unless said.
    #[must_use]
    pub fn waiting(self, most: Duration) -> Self {
        Self { wait: most, ..self }
    }

    /// The same, keeping at most this many operation records, at least one. 100 unless said.
    ///
    /// Each write writes all of them anew. When there are more, the oldest are forgotten and the horizon rises.
    #[must_use]
    pub fn keeping(self, most: usize) -> Self {
        Self { kept: most.max(1), ..self }
    }

    /// The same, taking empty content too. Without it a pipe whose producer failed cannot empty the file.
    #[must_use]
    pub fn allowing_empty(self, allow: bool) -> Self {
        Self { allow_empty: allow, ..self }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The greatest mutation counter seen.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(crate) fn place(&self) -> Result<Place, Trouble> {
        Place::of(&self.path)
    }

    /// Writes new content beside the file. No lock is held and no token is looked at: a slow producer keeps nobody
    /// waiting. It comes into its place by [`write_staged`](Self::write_staged).
    ///
    /// # Errors
    /// `Mutation` when `source` fails, `Invalid` when it is empty and may not be.
    pub fn stage(&self, source: impl Read) -> Result<Staged, WriteError<io::Error>> {
        let staged = Staged::read(&self.place().map_err(unavailable)?, source).map_err(|unstaged| match unstaged {
            Unstaged::Source(error) => WriteError::Mutation(error),
            Unstaged::Trouble(trouble) => unavailable(trouble),
        })?;
        if staged.content().bytes == 0 && !self.allow_empty {
            return Err(Invalid::form("content", "at least one byte, unless empty content is allowed").into());
        }
        Ok(staged)
    }

    /// Replaces the file by everything that `source` gives, under the grant's token. A plain reader sees the old content
    /// or the new one. The verdict carries what was written, for a replay what was written then.
    ///
    /// The operation's fingerprint is the caller's; where it is to be that of the content, stage first and use
    /// [`Staged::operation`].
    ///
    /// # Errors
    /// When no verdict was reached; the [table](WriteError) says which errors leave everything as it was.
    pub fn write(
        &self,
        grant: &Grant,
        operation: Option<&Operation>,
        source: impl Read,
    ) -> Result<Verdict<Content>, WriteError<io::Error>> {
        let staged = self.stage(source)?;
        self.write_staged(grant, operation, staged)
    }

    /// Puts staged content into the file's place, under the grant's token.
    ///
    /// # Errors
    /// As for [`write`](Self::write), `Mutation` excepted.
    pub fn write_staged(
        &self,
        grant: &Grant,
        operation: Option<&Operation>,
        staged: Staged,
    ) -> Result<Verdict<Content>, WriteError<io::Error>> {
        let place = self.place().map_err(unavailable)?;
        let mut held = match self.enter(&place).map_err(unavailable)? {
            Entrance::Open(held) => held,
            Entrance::Closed(why) => return Ok(refuse(grant, operation, Rejection::Closed(why))),
        };
        let presented = Presented { operation, ..Presented::grant(grant) };
        match decided(&presented, &held)? {
            Decision::Reject(rejection) => Ok(refuse(grant, operation, rejection)),
            Decision::Replay { raise } => {
                let record = operation.and_then(|operation| held.sidecar.record(&operation.id));
                let result = record.expect("a replayed operation is recorded").result;
                if raise && !sabotage::active("replay_raises_nothing") {
                    held.sidecar.raise(grant.token);
                    self.save(&place, &mut held).map_err(|unsaved| unwritten(unsaved, operation))?;
                }
                Ok(Verdict::Replayed(result))
            }
            Decision::Apply { raise } => {
                if raise {
                    held.sidecar.raise(grant.token);
                }
                self.apply(&place, &mut held, grant, operation, staged)
            }
        }
    }

    /// The order that makes it safe to die anywhere: name the staged content, announce it together with fence and
    /// record, sync both, rename, sync, and only then settle.
    fn apply(
        &self,
        place: &Place,
        held: &mut Held,
        grant: &Grant,
        operation: Option<&Operation>,
        mut staged: Staged,
    ) -> Result<Verdict<Content>, WriteError<io::Error>> {
        if let Some(operation) = operation {
            held.sidecar.make_room(self.kept, grant, operation).map_err(unavailable)?;
        }
        let target = place.metadata().map_err(unavailable)?;
        let stored = staged.stored(place).map_err(unavailable)?;
        staged.name_it(place, target.as_ref()).map_err(unavailable)?;
        step::passed("staged");
        held.sidecar.pending = Some(Pending {
            stored,
            replaces: target.as_ref().map(Replaced::of),
            operation: operation.filter(|_| !sabotage::active("operations_not_recorded")).map(|operation| Record {
                id: operation.id.clone(),
                fingerprint: operation.fingerprint,
                born: operation.born,
                applied_under: grant.token,
                result: stored.content,
            }),
        });
        let announced = held.announce(place, &staged);
        match announced {
            Ok(()) => self.seen.note(held.sidecar.counter),
            Err(Unsaved::Nothing(trouble)) => {
                let _ = remove(&place.staged());
                return Err(unavailable(trouble));
            }
            Err(Unsaved::Perhaps(trouble)) => return Err(self.give_up(place, held, operation, trouble)),
        }
        if let Err(trouble) = held.replace(place) {
            return Err(self.give_up(place, held, operation, trouble));
        }
        step::passed("renamed");
        place.sync_folder().map_err(|trouble| unwritten(Unsaved::Perhaps(trouble), operation))?;
        step::passed("folder_synced");
        held.mark_settled(place);
        Ok(Verdict::Applied(stored.content))
    }

    /// Takes an announcement back. Where that does not work either, the next caller decides what became of it.
    fn give_up(
        &self,
        place: &Place,
        held: &mut Held,
        operation: Option<&Operation>,
        trouble: Trouble,
    ) -> WriteError<io::Error> {
        held.sidecar.pending = None;
        match self.save(place, held) {
            Ok(()) => {
                let _ = remove(&place.staged());
                unavailable(trouble)
            }
            Err(_) => unwritten(Unsaved::Perhaps(trouble), operation),
        }
    }

    /// Raises the fence to the grant's token and opens the file: what is read there was written before any older token
    /// died, and a write that is based on it under the same grant loses no update. `None` where nobody has written yet.
    ///
    /// # Errors
    /// When no verdict was reached. Repeating it is safe.
    pub fn read(&self, grant: &Grant) -> Result<Verdict<Option<File>>, WriteError<Infallible>> {
        let place = self.place().map_err(unavailable)?;
        let (verdict, held) = self.raise(&place, grant)?;
        let file = match held {
            Some(_held) => open(&place).map_err(unavailable)?,
            None => None,
        };
        Ok(verdict.map(|()| file))
    }

    /// Opens the file without a token and without waiting, as any program would. `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read or is no plain file.
    pub fn open(&self) -> Result<Option<File>, Trouble> {
        open(&self.place()?)
    }

    /// Raises the fence to the grant's token, blocking the calling thread.
    ///
    /// # Errors
    /// When no verdict was reached. Repeating it is safe.
    pub fn advance_blocking(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        let place = self.place().map_err(|trouble| AdvanceError::Unavailable(trouble.into()))?;
        let (verdict, _held) = self.raise(&place, grant)?;
        Ok(verdict)
    }

    fn raise(&self, place: &Place, grant: &Grant) -> Result<Raised, WriteError<Infallible>> {
        let mut held = match self.enter(place).map_err(unavailable)? {
            Entrance::Open(held) => held,
            Entrance::Closed(why) => return Ok((refuse(grant, None, Rejection::Closed(why)), None)),
        };
        match decided(&Presented::grant(grant), &held)? {
            Decision::Reject(rejection) => Ok((refuse(grant, None, rejection), None)),
            Decision::Replay { .. } => unreachable!("nothing is replayed without an operation"),
            Decision::Apply { raise } => {
                if raise && !sabotage::active("no_advance") {
                    held.sidecar.raise(grant.token);
                    self.save(place, &mut held).map_err(|unsaved| unwritten(unsaved, None))?;
                }
                Ok((Verdict::Applied(()), Some(held)))
            }
        }
    }

    pub(crate) fn enter(&self, place: &Place) -> Result<Entrance, Trouble> {
        let seen = if sabotage::active("restore_not_noticed") { 0 } else { self.seen.greatest() };
        let entrance = enter(place, self.wait, seen)?;
        if let Entrance::Open(held) = &entrance {
            self.seen.note(held.sidecar.counter);
        }
        Ok(entrance)
    }

    pub(crate) fn save(&self, place: &Place, held: &mut Held) -> Result<(), Unsaved> {
        held.save(place)?;
        self.seen.note(held.sidecar.counter);
        Ok(())
    }
}

/// An accepted raise comes with the lock still held.
type Raised = (Verdict<()>, Option<Box<Held>>);

impl Receiver for FileReceiver {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strongest: Guarantee::FencedOnAcquire,
            operation_records: true,
            fenced_read: true,
            guard: false,
            collection: true,
            several_domains: false,
            incarnation: true,
        }
    }

    async fn advance(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        let (this, grant) = (self.clone(), grant.clone());
        on_a_thread(move || this.advance_blocking(&grant)).await
    }
}

fn decided(presented: &Presented<'_>, held: &Held) -> Result<Decision, Invalid> {
    let standing = held.sidecar.standing(presented.operation.map(|operation| &operation.id));
    let standing = misread(presented, standing);
    let decision = decide(presented, &standing)?;
    Ok(match (&decision, presented.token) {
        (Decision::Apply { .. }, Some(token))
            if sabotage::active("equal_token_refused") && standing.fence == Some(token) =>
        {
            Decision::Reject(Rejection::NotCurrent)
        }
        (Decision::Replay { .. }, _) if sabotage::active("replay_after_staleness") => {
            decide(&Presented { operation: None, ..presented.clone() }, &standing).map(|order| match order {
                Decision::Reject(rejection) => Decision::Reject(rejection),
                Decision::Apply { .. } | Decision::Replay { .. } => decision,
            })?
        }
        _ => decision,
    })
}

fn refuse<T>(grant: &Grant, operation: Option<&Operation>, rejection: Rejection) -> Verdict<T> {
    log_rejection(grant, operation, &rejection);
    Verdict::Rejected(rejection)
}

fn open(place: &Place) -> Result<Option<File>, Trouble> {
    if place.metadata()?.is_none() {
        return Ok(None);
    }
    match File::open(&place.file) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Trouble::io("reading", &place.file)(error)),
    }
}

fn unavailable<E>(trouble: Trouble) -> WriteError<E> {
    WriteError::Unavailable(Cause::from(trouble))
}

fn unwritten<E>(unsaved: Unsaved, operation: Option<&Operation>) -> WriteError<E> {
    match unsaved {
        Unsaved::Nothing(trouble) => unavailable(trouble),
        Unsaved::Perhaps(trouble) => {
            WriteError::Unknown { operation: operation.map(|operation| operation.id.clone()), source: trouble.into() }
        }
    }
}
