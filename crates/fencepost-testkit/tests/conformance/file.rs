//! The receiver of a file: the value is what the file holds.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use fencepost_core::{
    Domain, Epoch, Grant, Token,
    fence::{LiveLease, Operation, Verdict},
};
use fencepost_receiver::{
    AdvanceError, Cause, ReceiverSeed, Seen, WriteError,
    file::{Content, FileReceiver},
};
use fencepost_testkit::conformance::{self, Ability, Adapter, Handle, Records, Written};
use tempfile::TempDir;

pub(crate) struct Files {
    folder: TempDir,
    made: AtomicUsize,
    seen: Mutex<BTreeMap<String, Seen>>,
}

impl Files {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir_in(crate::in_memory()).unwrap();
        Self { folder, made: AtomicUsize::default(), seen: Mutex::default() }
    }
}

/// A file beside the guarded one.
fn beside(place: &str, suffix: &str) -> PathBuf {
    Path::new(place).with_file_name(format!(".held.{suffix}"))
}

fn everything(place: &str) -> io::Result<Vec<PathBuf>> {
    let folder = Path::new(place).parent().unwrap();
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| path.as_ref().is_ok_and(|path| path.is_file()))
        .collect()
}

impl Adapter for Files {
    fn name(&self) -> String {
        "file:".to_owned()
    }

    fn lacks(&self) -> &[(Ability, &'static str)] {
        &[
            (Ability::SeveralDomains, "a file has one domain"),
            (Ability::WriteAll, "a file has one domain"),
            (Ability::Presentation, "its writes take a grant, which has a token and the contract safety"),
            (Ability::Guard, "a plain writer cannot be stopped; `audit` tells of it afterwards"),
            (Ability::LostAnswer, "a write inside one process has an answer; processes are killed instead"),
        ]
    }

    fn create(&self, seed: &ReceiverSeed, domains: &[Domain]) -> Result<String, Cause> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.path().join(number.to_string());
        fs::create_dir(&folder)?;
        let path = folder.join("held");
        FileReceiver::new(&path).guard(&domains[0], Some(seed))?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn open(&self, place: &str) -> Result<Box<dyn Handle>, Cause> {
        let seen = self.seen.lock().unwrap().entry(place.to_owned()).or_default().clone();
        Ok(Box::new(Open(FileReceiver::new(place).with_seen(seen))))
    }

    fn lose_records(&self, place: &str, way: usize) -> Result<Option<&'static str>, Cause> {
        let sidecar = beside(place, "fence");
        match way {
            0 => {
                fs::remove_file(sidecar)?;
                Ok(Some("the sidecar"))
            }
            1 => {
                let whole = fs::read(&sidecar)?;
                // Its second half may be room for more.
                fs::write(sidecar, &whole[..whole.len() / 4])?;
                Ok(Some("the end of the sidecar"))
            }
            2 => {
                fs::remove_file(beside(place, "lock"))?;
                Ok(Some("the lock file"))
            }
            _ => Ok(None),
        }
    }

    fn back_up(&self, place: &str) -> Result<(), Cause> {
        let copy = Path::new(place).with_file_name("copy");
        fs::create_dir(&copy)?;
        for path in everything(place)? {
            fs::copy(&path, copy.join(path.file_name().unwrap()))?;
        }
        Ok(())
    }

    fn restore(&self, place: &str) -> Result<(), Cause> {
        let copy = Path::new(place).with_file_name("copy");
        for entry in fs::read_dir(copy)? {
            let path = entry?.path();
            // Into the same files, so that nothing but the counter tells them from those that they were.
            fs::copy(&path, Path::new(place).with_file_name(path.file_name().unwrap()))?;
        }
        Ok(())
    }

    fn process(&self) -> Result<Command, Cause> {
        crate::this_binary("file")
    }
}

struct Open(FileReceiver);

/// Content as a result: its length and its digest.
fn told(content: Content) -> Vec<u8> {
    content.to_string().into_bytes()
}

/// Gives some bytes, and then an error.
struct BreaksOff<'a>(&'a [u8]);

impl Read for BreaksOff<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::Error::other("no")),
            some => Ok(some),
        }
    }
}

impl Open {
    fn write_from(&mut self, grant: &Grant, operation: Option<&Operation>, source: impl Read) -> Written {
        let written = self.0.write(grant, operation, source);
        Ok(written.map_err(|error| error.map_mutation(Cause::from))?.map(told))
    }
}

impl Handle for Open {
    fn write(&mut self, _: &Domain, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        self.write_from(grant, operation, value)
    }

    fn write_then_fail(&mut self, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        self.write_from(grant, operation, BreaksOff(value))
    }

    fn advance(&mut self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        self.0.advance_blocking(grant)
    }

    fn value(&mut self, _: &Domain) -> Result<Option<Vec<u8>>, Cause> {
        let Some(mut file) = self.0.open()? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn read(&mut self, grant: &Grant) -> Result<Verdict<Option<Vec<u8>>>, WriteError<Cause>> {
        let verdict = self.0.read(grant).map_err(|error| error.map_mutation(|never| match never {}))?;
        Ok(verdict.map(|file| {
            let mut bytes = Vec::new();
            file.map(|mut file| file.read_to_end(&mut bytes).unwrap())?;
            Some(bytes)
        }))
    }

    fn collect(&mut self, next: Token, live: &[LiveLease], horizon: Option<Token>) -> Result<(), Cause> {
        self.0.collect(next, live, horizon)?;
        Ok(())
    }

    fn tell(&mut self, epoch: Epoch, floor: Token) -> Result<(), Cause> {
        let status = self.0.status()?;
        self.0.guard(&status.domain, Some(&ReceiverSeed::new(status.issuer, epoch).with_floor(floor)))?;
        Ok(())
    }

    fn recover(&mut self, seed: &ReceiverSeed) -> Result<(), Cause> {
        let noted = self.0.incarnation()?;
        let domain = match self.0.status() {
            Ok(status) => status.domain,
            Err(_) => seed.live[0].domain.clone(),
        };
        self.0.recover(&domain, &noted, seed)?;
        Ok(())
    }

    fn records(&mut self, _: &Domain) -> Result<Records, Cause> {
        let status = self.0.status()?;
        Ok(Records {
            condition: status.condition,
            known_epoch: status.known_epoch,
            floor: status.floor,
            unfenced_floor: status.unfenced_floor,
            fence: status.fence,
            horizon: status.horizon,
        })
    }
}

#[test]
fn the_file_receiver_conforms() {
    let report = conformance::run_with(&Files::new(), &crate::settings());
    println!("{report}");
    report.must_pass();
}
