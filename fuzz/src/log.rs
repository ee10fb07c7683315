use fencepost_core::lease::{Event, Leases, Record, Snapshot};

/// Bytes in the place of a log row, a part of the history or a snapshot: they are read or refused. A state that was read need not be written as
/// the bytes that it came from; once written, it is read and written as the same bytes ever after.
pub fn log(bytes: &[u8]) {
    let _ = postcard::from_bytes::<Vec<Record>>(bytes);
    // As the embedded coordinator keeps it: commit, place, wall clock, event.
    let _ = postcard::from_bytes::<Vec<(u64, u32, Option<u64>, Event)>>(bytes);
    if let Ok(snapshot) = postcard::from_bytes::<Snapshot>(bytes) {
        let first = postcard::to_allocvec(&Leases::from_snapshot(snapshot).snapshot()).expect("a snapshot is encoded");
        let again = postcard::from_bytes::<Snapshot>(&first).expect("what was written is read");
        let second = postcard::to_allocvec(&Leases::from_snapshot(again).snapshot()).expect("a snapshot is encoded");
        assert_eq!(first, second, "a state changes by being written and read");
    }
}
