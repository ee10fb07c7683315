//! The sets that workers grow: where they are kept, and what protects them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use fencepost_core::{
    Domain, Grant,
    fence::{Operation, RecordedResult, Verdict},
};
use fencepost_receiver::{Seen, WriteError, file::FileReceiver};
use fencepost_rusqlite::{SqliteFile, SqliteReceiver};
use fencepost_testkit::torture::Discipline;
use rusqlite::{Connection, Transaction, params};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    File,
}

/// A set, under a domain of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) label: &'static str,
    pub(crate) kind: Kind,
    pub(crate) discipline: Discipline,
}

const fn subject(label: &'static str, kind: Kind, discipline: Discipline) -> Subject {
    Subject { label, kind, discipline }
}

pub(crate) const SUBJECTS: [Subject; 7] = [
    subject("row-fenced", Kind::Sqlite, Discipline::FencedOnAcquire),
    subject("file-fenced", Kind::File, Discipline::FencedOnAcquire),
    subject("row-first-write", Kind::Sqlite, Discipline::FencedOnFirstWrite),
    subject("file-first-write", Kind::File, Discipline::FencedOnFirstWrite),
    subject("row-unfenced", Kind::Sqlite, Discipline::Unfenced),
    subject("file-unfenced", Kind::File, Discipline::Unfenced),
    subject("other-row-fenced", Kind::Sqlite, Discipline::FencedOnAcquire),
];

impl Subject {
    pub(crate) fn by_label(label: &str) -> Option<Self> {
        SUBJECTS.into_iter().find(|subject| subject.label == label)
    }

    pub(crate) fn domain(self) -> Domain {
        Domain::new(&format!("set/{}", self.label)).unwrap()
    }

    /// What histories call the resource. What was copied back begins a new life under a new name.
    pub(crate) fn resource(self, generation: u32) -> String {
        match self.kind {
            Kind::Sqlite => format!("database.{generation}"),
            Kind::File => format!("files.{generation}"),
        }
    }

    /// Whether a receiver decides about its writes, so that the checker may be asked about them.
    pub(crate) fn is_fenced(self) -> bool {
        self.discipline != Discipline::Unfenced
    }

    pub(crate) fn file(self, root: &Path) -> PathBuf {
        root.join("resources").join(self.label)
    }

    const fn table(self) -> &'static str {
        match self.discipline {
            Discipline::Unfenced => "plain",
            Discipline::FencedOnAcquire | Discipline::FencedOnFirstWrite => "guarded",
        }
    }
}

pub(crate) fn database(root: &Path) -> PathBuf {
    root.join("resources/sets.db")
}

/// Elements in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(String);

impl Set {
    pub(crate) fn with(&self, element: &str) -> Self {
        Self(format!("{}{element}\n", self.0))
    }

    /// What tells this content from every other one: no element is ever added by two writes.
    pub(crate) fn latest(&self) -> &str {
        self.0.lines().next_back().unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn elements(&self) -> BTreeSet<String> {
        self.0.lines().map(str::to_owned).collect()
    }
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// One process's way to all sets.
pub(crate) struct Store {
    root: PathBuf,
    pub(crate) database: SqliteFile,
    connection: Connection,
    files: BTreeMap<&'static str, FileReceiver>,
}

impl Store {
    /// With the greatest counters that whoever starts this process has seen, by name of the resource.
    pub(crate) fn open(root: &Path, seen: &BTreeMap<String, u64>) -> Result<Self, Cause> {
        let seen = |name: &str| Seen::from_counter(seen.get(name).copied().unwrap_or(0));
        let database = SqliteFile::with_receiver(database(root), SqliteReceiver::with_seen(seen("database")));
        let connection = database.connect()?;
        let files = SUBJECTS.into_iter().filter(|subject| subject.kind == Kind::File && subject.is_fenced());
        let files =
            files.map(|subject| (subject.label, FileReceiver::new(subject.file(root)).with_seen(seen(subject.label))));
        Ok(Self { root: root.to_owned(), database, connection, files: files.collect() })
    }

    pub(crate) fn file(&self, subject: Subject) -> &FileReceiver {
        &self.files[subject.label]
    }

    /// The greatest counters seen, for a process that comes later.
    pub(crate) fn seen(&self) -> BTreeMap<String, u64> {
        let files = self.files.iter().map(|(label, file)| ((*label).to_owned(), file.seen().greatest()));
        files.chain([("database".to_owned(), self.database.receiver().seen().greatest())]).collect()
    }

    /// Lets go of the database. What was seen of it stays known.
    pub(crate) fn close(&mut self) {
        self.database = SqliteFile::with_receiver(database(&self.root), self.database.receiver().clone());
        self.connection = Connection::open_in_memory().unwrap();
    }

    /// Opens the database again.
    pub(crate) fn reopen(&mut self) {
        self.connection = self.database.connect().unwrap();
    }

    /// Takes note of counters that others have seen.
    pub(crate) fn note(&self, seen: &BTreeMap<String, u64>) {
        for (name, counter) in seen {
            match self.files.get(name.as_str()) {
                Some(file) => file.seen().note(*counter),
                None => self.database.receiver().seen().note(*counter),
            }
        }
    }

    /// Reads as any program would.
    pub(crate) fn read(&self, subject: Subject) -> Result<Set, Cause> {
        match subject.kind {
            Kind::Sqlite => Ok(read_row(&self.connection, subject)?),
            Kind::File => match fs::read_to_string(subject.file(&self.root)) {
                Ok(text) => Ok(Set(text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Set::default()),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Raises the fence, then reads.
    pub(crate) fn fenced_read(&mut self, subject: Subject, grant: &Grant) -> Result<Verdict<Set>, Cause> {
        match subject.kind {
            Kind::Sqlite => {
                let receiver = self.database.receiver().clone();
                Ok(receiver.read(&mut self.connection, grant, |tx| read_row(tx, subject))?)
            }
            Kind::File => match self.file(subject).read(grant)? {
                Verdict::Rejected(rejection) => Ok(Verdict::Rejected(rejection)),
                Verdict::Applied(None) | Verdict::Replayed(None) => Ok(Verdict::Applied(Set::default())),
                Verdict::Applied(Some(file)) | Verdict::Replayed(Some(file)) => {
                    Ok(Verdict::Applied(Set(io::read_to_string(file)?)))
                }
            },
        }
    }

    pub(crate) fn write(
        &mut self,
        subject: Subject,
        grant: &Grant,
        operation: &Operation,
        set: &Set,
    ) -> Result<Verdict<()>, WriteError<Cause>> {
        match subject.kind {
            Kind::Sqlite => {
                let mutation = |tx: &Transaction<'_>| -> Result<RecordedResult, Cause> {
                    write_row(tx, subject, set)?;
                    Ok(RecordedResult::default())
                };
                let receiver = self.database.receiver().clone();
                Ok(receiver.write(&mut self.connection, grant, operation, mutation)?.map(|_| ()))
            }
            Kind::File => {
                let written = self.file(subject).write(grant, Some(operation), set.as_str().as_bytes());
                Ok(written.map_err(|error| error.map_mutation(Cause::from))?.map(|_| ()))
            }
        }
    }

    /// Writes without asking anybody, as where a lock is all there is.
    pub(crate) fn write_unfenced(&self, subject: Subject, set: &Set) -> Result<(), Cause> {
        match subject.kind {
            Kind::Sqlite => write_row(&self.connection, subject, set)?,
            Kind::File => {
                let file = subject.file(&self.root);
                let beside = file.with_extension(std::process::id().to_string());
                fs::write(&beside, set.as_str())?;
                fs::rename(beside, file)?;
            }
        }
        Ok(())
    }

    /// Every set as it is now, by resource and domain.
    pub(crate) fn all(&self, generation: u32) -> Result<BTreeMap<(String, String), BTreeSet<String>>, Cause> {
        let place = |subject: Subject| (subject.resource(generation), subject.domain().to_string());
        SUBJECTS.into_iter().map(|subject| Ok((place(subject), self.read(subject)?.elements()))).collect()
    }
}

fn read_row(connection: &Connection, subject: Subject) -> rusqlite::Result<Set> {
    let sql = format!("SELECT elements FROM {} WHERE label = ?1", subject.table());
    connection.query_row(&sql, [subject.label], |row| row.get(0)).map(Set)
}

fn write_row(connection: &Connection, subject: Subject, set: &Set) -> rusqlite::Result<()> {
    let sql = format!("UPDATE {} SET elements = ?1 WHERE label = ?2", subject.table());
    connection.execute(&sql, params![set.as_str(), subject.label]).map(|_| ())
}

/// The database with a row for each set, not guarded yet.
pub(crate) fn make_database(root: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(database(root))?;
    for table in ["guarded", "plain"] {
        connection.execute_batch(&format!("CREATE TABLE {table} (label TEXT PRIMARY KEY, elements TEXT NOT NULL)"))?;
    }
    for subject in SUBJECTS.into_iter().filter(|subject| subject.kind == Kind::Sqlite) {
        connection.execute(&format!("INSERT INTO {} VALUES (?1, '')", subject.table()), [subject.label])?;
    }
    Ok(())
}
