//! A receiver of one's own, the adapter for it, and what the suite says:
//!
//! ```text
//! cargo run -p fencepost-testkit --example conformance
//! ```
//!
//! The receiver keeps one value in one file, together with everything that it knows, under a lock file. It is small, and
//! it is a receiver: the suite finds nothing. Change a line of [`Document::write`] and look at what it finds then.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::atomic::{AtomicUsize, Ordering},
};

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, OperationId, Token,
    fence::{Decision, Fingerprint, Operation, Presented, RecordedResult, Standing, Verdict, decide},
};
use fencepost_receiver::{AdvanceError, Cause, ReceiverSeed, WriteError};
use fencepost_testkit::conformance::{self, Ability, Adapter, Handle, Written};
use serde::{Deserialize, Serialize};

/// The receiver: a file that holds a [`Kept`].
struct Document(PathBuf);

#[derive(Serialize, Deserialize)]
struct Kept {
    issuer: Issuer,
    domain: Domain,
    known_epoch: Epoch,
    fence: Option<Token>,
    operations: BTreeMap<OperationId, (Fingerprint, Vec<u8>)>,
    value: Option<Vec<u8>>,
}

impl Document {
    /// The content, and the lock under which it stays as it is.
    fn lock(&self) -> Result<(File, Kept), Cause> {
        let lock = File::create(self.0.with_extension("lock"))?;
        lock.lock()?;
        Ok((lock, serde_json::from_slice(&fs::read(&self.0)?)?))
    }

    /// Everything at once: a reader, and whoever comes after a crash, finds the old file or the new one.
    fn save(&self, kept: &Kept) -> Result<(), Cause> {
        let fresh = self.0.with_extension("fresh");
        fs::write(&fresh, serde_json::to_vec(kept)?)?;
        File::open(&fresh)?.sync_all()?;
        Ok(fs::rename(fresh, &self.0)?)
    }

    fn write(&self, grant: &Grant, operation: Option<&Operation>, value: Option<&[u8]>) -> Written {
        let (_lock, mut kept) = self.lock().map_err(WriteError::Unavailable)?;
        let record = operation.and_then(|operation| kept.operations.get(&operation.id));
        let standing = Standing {
            fence: kept.fence,
            recorded: record.map(|(fingerprint, _)| *fingerprint),
            ..Standing::open(kept.issuer.clone(), kept.domain.clone(), kept.known_epoch)
        };
        let result = RecordedResult::new(value.unwrap_or_default())?.into_bytes();
        let verdict = match decide(&Presented { operation, ..Presented::grant(grant) }, &standing)? {
            Decision::Reject(rejection) => return Ok(Verdict::Rejected(rejection)),
            Decision::Replay { raise: false } => {
                return Ok(Verdict::Replayed(record.map(|(_, result)| result.clone()).unwrap_or_default()));
            }
            Decision::Replay { raise: true } => {
                Verdict::Replayed(record.map(|(_, result)| result.clone()).unwrap_or_default())
            }
            Decision::Apply { raise: _ } => {
                if let Some(value) = value {
                    kept.value = Some(value.to_vec());
                }
                if let Some(operation) = operation {
                    kept.operations.insert(operation.id.clone(), (operation.fingerprint, result.clone()));
                }
                Verdict::Applied(result)
            }
        };
        kept.fence = kept.fence.max(Some(grant.token));
        self.save(&kept).map_err(WriteError::Unavailable)?;
        Ok(verdict)
    }
}

/// The adapter: how documents are made and opened.
pub(crate) struct Documents {
    folder: tempfile::TempDir,
    made: AtomicUsize,
    /// What this program is to be called with to be a process of the suite.
    child: &'static [&'static str],
}

impl Documents {
    pub(crate) fn new(parent: &Path, child: &'static [&'static str]) -> Result<Self, Cause> {
        Ok(Self { folder: tempfile::tempdir_in(parent)?, made: AtomicUsize::default(), child })
    }
}

impl Adapter for Documents {
    fn name(&self) -> String {
        "documents".to_owned()
    }

    fn lacks(&self) -> &[(Ability, &'static str)] {
        &[
            (Ability::SeveralDomains, "a document has one domain"),
            (Ability::WriteAll, "a document has one domain"),
            (Ability::FencedRead, "an advance and a read do the same"),
            (Ability::FailingMutation, "setting a value does not fail half-way"),
            (Ability::Guard, "whoever may write the file can write it"),
            (Ability::Presentation, "a write takes a grant"),
            (Ability::LostAnswer, "processes are killed instead"),
            (Ability::LostRecords, "value and records are one file"),
            (Ability::RestoredBackup, "a copied-back file is not noticed"),
            (Ability::Recovery, "it is never closed"),
            (Ability::Collection, "one fence is kept for ever"),
            (Ability::Telling, "a new epoch needs a new document"),
            (Ability::Inspection, "left out here"),
        ]
    }

    fn create(&self, seed: &ReceiverSeed, domains: &[Domain]) -> Result<String, Cause> {
        let path = self.folder.path().join(self.made.fetch_add(1, Ordering::Relaxed).to_string());
        let (issuer, domain, known_epoch) = (seed.issuer.clone(), domains[0].clone(), seed.known_epoch);
        let kept = Kept { issuer, domain, known_epoch, fence: None, operations: BTreeMap::new(), value: None };
        Document(path.clone()).save(&kept)?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn open(&self, place: &str) -> Result<Box<dyn Handle>, Cause> {
        Ok(Box::new(Document(place.into())))
    }

    fn process(&self) -> Result<Command, Cause> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(self.child);
        Ok(command)
    }
}

impl Handle for Document {
    fn write(&mut self, _: &Domain, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        Self::write(self, grant, operation, Some(value))
    }

    fn advance(&mut self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        match Self::write(self, grant, None, None) {
            Ok(verdict) => Ok(verdict.map(|_| ())),
            Err(WriteError::Invalid(invalid)) => Err(AdvanceError::Invalid(invalid)),
            Err(error) => Err(AdvanceError::Unavailable(error.to_string().into())),
        }
    }

    fn value(&mut self, _: &Domain) -> Result<Option<Vec<u8>>, Cause> {
        let kept: Kept = serde_json::from_slice(&fs::read(&self.0)?)?;
        Ok(kept.value)
    }
}

/// Run by its name it attacks the documents; the suite runs it again as `child`.
#[allow(dead_code, reason = "a test includes this file and has a main of its own")]
fn main() -> Result<ExitCode, Cause> {
    let documents = Documents::new(&std::env::temp_dir(), &["child"])?;
    if std::env::args().nth(1).as_deref() == Some("child") {
        conformance::child(&documents);
        return Ok(ExitCode::SUCCESS);
    }
    let report = conformance::run(&documents);
    println!("{report}");
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
