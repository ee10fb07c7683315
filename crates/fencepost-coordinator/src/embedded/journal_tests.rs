use std::path::Path;

use fencepost_core::{
    BootId, Domain, Epoch, Holder, Issuer, LeaseId, Moment, Reason, Secret, Sequence, SessionId, Token, Ttl,
    lease::{Hold, LeaseEnd, Record, SessionEnd, Terms},
};
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

use super::{
    journal::Journal,
    store::{FileId, Row, Store, StoreError, sqlite::SqliteStore},
    testing::MemoryStore,
};

/// A store with a name for messages.
type Named = (&'static str, Box<dyn Store>);

/// Every store, new and empty.
fn stores() -> (TempDir, Vec<Named>) {
    let dir = tempfile::tempdir().unwrap();
    let stores: Vec<Named> = vec![("memory", Box::new(MemoryStore::new())), ("sqlite", sqlite(dir.path()))];
    (dir, stores)
}

fn sqlite(dir: &Path) -> Box<dyn Store> {
    let path = dir.join(super::store::sqlite::DATABASE_FILE);
    SqliteStore::create(&path, &Issuer::new("test").unwrap(), Epoch::ZERO, 7, &|_| {}).unwrap();
    Box::new(SqliteStore::open(&path, FileId::of(&path).unwrap(), &|_| {}).unwrap())
}

fn hold(byte: u8) -> Hold {
    postcard::from_bytes(&[byte; 32]).unwrap()
}

/// Records of every kind, in no sensible order: what is stored is not judged here.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let moment = any::<u64>().prop_map(Moment::from_millis);
    let id = any::<u8>();
    let token = (1..=i64::MAX as u64).prop_map(|integer| Token::from_integer(integer).unwrap());
    let text = "[a-zäß/]{1,40}";
    vec((0..13_u8, id, moment, token, text, 1_000..86_400_000_u64), 1..40).prop_map(|drawn| {
        drawn.into_iter().map(|(kind, id, at, token, text, ms)| record(kind, id, at, token, &text, ms)).collect()
    })
}

fn record(kind: u8, id: u8, at: Moment, token: Token, text: &str, ms: u64) -> Record {
    let (session, lease) = (SessionId::from_bytes([id; 16]), LeaseId::from_bytes([id; 16]));
    let secret = Secret::from_bytes([id; 32]).hash();
    match kind {
        0 => Record::Started { number: ms, boot: BootId::from_bytes([id; 16]), at, next: Some(token.sequence()) },
        1 => Record::SequenceReserved { through: Sequence::new(ms).unwrap() },
        2 => Record::SessionOpened {
            session,
            secret,
            holder: Holder::new(text).unwrap(),
            ttl: Ttl::from_millis(ms).unwrap(),
            opened_by: None,
            at,
        },
        3 => Record::SecretReplaced { session, secret },
        4 => Record::SessionClaimed { session },
        5 => Record::SessionHeard { session, leases: vec![lease; usize::from(id)] },
        6 => Record::SessionEnded { session, end: SessionEnd::Expired, at },
        7 => Record::Granted {
            lease,
            session,
            domain: Domain::new(text).unwrap(),
            token,
            contract: Default::default(),
            terms: Terms::default(),
            metadata: Default::default(),
            hold: hold(id),
            at,
        },
        8 => Record::Regranted { lease, token, hold: hold(id), at },
        9 => Record::HoldAdded { lease, hold: hold(id) },
        10 => Record::HoldEnded { lease, request: fencepost_core::RequestId::from_bytes([id; 16]), at },
        11 => Record::LeaseEnded { lease, end: LeaseEnd::Revoked, at },
        _ => Record::LeaseBroken { lease, fence_to: token, reason: Reason::new(text).unwrap(), at },
    }
}

/// The bytes of every log row after `after`.
fn rows(store: &mut dyn Store, after: u64) -> Vec<(u64, Vec<u8>)> {
    let mut rows = Vec::new();
    store
        .read_log(after, &mut |row| {
            rows.push((row.id, row.bytes.to_vec()));
            Ok(())
        })
        .unwrap();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// A commit is one row, and its bytes are what was committed.
    #[test]
    fn what_is_committed_is_read_back_record_for_record(batches in vec(records(), 1..6)) {
        let (_dir, stores) = stores();
        for (name, mut store) in stores {
            let start = store.take_start().unwrap();
            for (number, batch) in batches.iter().enumerate() {
                let bytes = postcard::to_stdvec(batch).unwrap();
                let row = super::journal::row(number as u64 + 1, start, &bytes);
                store.append(row).unwrap();
            }
            let found = rows(store.as_mut(), 0);
            prop_assert_eq!(found.len(), batches.len(), "{}", name);
            for ((id, bytes), (number, batch)) in found.iter().zip(batches.iter().enumerate()) {
                prop_assert_eq!(*id, number as u64 + 1);
                let back: Vec<Record> = postcard::from_bytes(bytes).unwrap();
                prop_assert_eq!(format!("{back:?}"), format!("{batch:?}"));
            }
        }
    }

    /// Bytes of any content and length come back whole, from rows and from parts of snapshots.
    #[test]
    fn rows_and_parts_keep_their_bytes(contents in vec(vec(any::<u8>(), 0..5_000), 1..5)) {
        let (_dir, stores) = stores();
        for (_, mut store) in stores {
            let start = store.take_start().unwrap();
            for (number, bytes) in contents.iter().enumerate() {
                let row = |id| Row { id, start, checksum: u32::MAX, bytes };
                store.append(row(number as u64 + 1)).unwrap();
                store.put_snapshot_part(9, row(number as u64)).unwrap();
                store.put_snapshot_part(9, row(number as u64)).unwrap();
            }
            let found: Vec<Vec<u8>> = rows(store.as_mut(), 0).into_iter().map(|(_, bytes)| bytes).collect();
            prop_assert_eq!(&found, &contents);
            store.adopt_snapshot(9, contents.len() as u64, start).unwrap();
            let mut parts = Vec::new();
            store.read_snapshot(&mut |part| { parts.push(part.bytes.to_vec()); Ok(()) }).unwrap();
            prop_assert_eq!(&parts, &contents);
        }
    }
}

#[test]
fn everything_an_earlier_start_tries_is_refused_and_changes_nothing() {
    let (_dir, stores) = stores();
    for (name, mut store) in stores {
        let old = store.take_start().unwrap();
        let new = store.take_start().unwrap();
        assert!(new > old, "{name}");
        let row = Row { id: 1, start: old, checksum: 0, bytes: b"x" };
        let deposed = StoreError::Deposed { by: new };
        assert_eq!(store.append(row), Err(deposed.clone()), "{name}");
        assert_eq!(store.confirm(old), Err(deposed.clone()), "{name}");
        assert_eq!(store.probe(old), Err(deposed.clone()), "{name}");
        assert_eq!(store.put_snapshot_part(1, row), Err(deposed.clone()), "{name}");
        assert_eq!(store.adopt_snapshot(1, 1, old), Err(deposed), "{name}");
        assert!(rows(store.as_mut(), 0).is_empty(), "{name}");
        assert_eq!(store.header().unwrap().snapshot_covers, 0, "{name}");
        store.confirm(new).unwrap();
    }
}

#[test]
fn a_snapshot_counts_from_its_adoption_on_and_only_what_it_covers_is_trimmed() {
    let (_dir, stores) = stores();
    for (name, mut store) in stores {
        let start = store.take_start().unwrap();
        for id in 1..=300 {
            store.append(Row { id, start, checksum: 0, bytes: b"row" }).unwrap();
        }
        for (covers, content) in [(100, b"old"), (250, b"new")] {
            store.put_snapshot_part(covers, Row { id: 0, start, checksum: 0, bytes: content }).unwrap();
            while store.trim(start, 10).unwrap() {}
            assert!(rows(store.as_mut(), 0).len() > 300 - usize::try_from(covers).unwrap(), "{name}");
            store.adopt_snapshot(covers, 1, start).unwrap();
            while store.trim(start, 10).unwrap() {}
            assert_eq!(rows(store.as_mut(), 0).first().map(|(id, _)| *id), Some(covers + 1), "{name}");
        }
        let mut parts = Vec::new();
        store
            .read_snapshot(&mut |part| {
                parts.push(part.bytes.to_vec());
                Ok(())
            })
            .unwrap();
        assert_eq!(parts, [b"new"], "{name}");
    }
}

/// A kill leaves what the kernel has, so no kill shows whether a commit was synced; and the file system is the user's.
/// Mutants: `open` sets `synchronous` to anything weaker, or another `journal_mode`.
#[test]
fn every_commit_is_synced_before_it_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    drop(sqlite(dir.path()));
    let path = dir.path().join(super::store::sqlite::DATABASE_FILE);
    let store = SqliteStore::open(&path, FileId::of(&path).unwrap(), &|_| {}).unwrap();
    assert_eq!(store.setting("synchronous"), "2", "FULL");
    assert_eq!(store.setting("journal_mode"), "wal");
}

/// As on a full disk, where no disk can be filled.
#[test]
fn a_file_that_may_not_grow_takes_no_commit_keeps_what_it_has_and_goes_on_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    drop(sqlite(dir.path()));
    let path = dir.path().join(super::store::sqlite::DATABASE_FILE);
    let mut store = SqliteStore::open(&path, FileId::of(&path).unwrap(), &|_| {}).unwrap();
    let start = store.take_start().unwrap();
    store.limit_pages(20).unwrap();
    let bytes = vec![7; 5_000];
    let append = |store: &mut SqliteStore, id| store.append(super::journal::row(id, start, &bytes));
    let mut last = 0;
    let failed = loop {
        match append(&mut store, last + 1) {
            Ok(()) => last += 1,
            Err(error) => break error,
        }
        assert!(last < 100, "the limit is not kept");
    };
    assert!(matches!(&failed, StoreError::Failed(why) if why.contains("full")), "{failed}");
    assert_eq!(rows(&mut store, 0).len() as u64, last);
    store.confirm(start).unwrap();
    store.limit_pages(1_000).unwrap();
    append(&mut store, last + 1).unwrap();
    assert_eq!(rows(&mut store, 0).len() as u64, last + 1);
}

/// Each of these would be read as a state that never was, if it were read.
#[test]
fn rows_that_are_missing_changed_or_of_nobody_are_noticed() {
    let bytes = postcard::to_stdvec(&vec![Record::SequenceReserved { through: Sequence::FIRST }]).unwrap();
    let good = |id, start| super::journal::row(id, start, &bytes);
    for complaint in ["is missing", "does not match its checksum", "is no records"] {
        let (_dir, stores) = stores();
        for (name, mut store) in stores {
            let start = store.take_start().unwrap();
            let forged = match complaint {
                "is missing" => good(2, start),
                "is no records" => super::journal::row(1, start, b"\xff"),
                _ => Row { checksum: good(1, start).checksum ^ 1, ..good(1, start) },
            };
            store.append(forged).unwrap();
            let Err(StoreError::Damaged(what)) = Journal::take(store) else { panic!("{name}: {complaint}") };
            assert!(what.contains(complaint), "{name}: {what}");
        }
    }
}
