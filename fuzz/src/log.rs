use fencepost_core::{
    Contract, Domain, Epoch, Holder, Issuer, LeaseId, Sequence,
    lease::{Event, EventKind, Leases, Record, Snapshot},
};

/// As the embedded coordinator keeps it: commit, place, wall clock, event.
type Told = (u64, u32, Option<u64>, Event);

pub fn taken() {
    let records = vec![Record::SequenceReserved { through: Sequence::FIRST }];
    let bytes = postcard::to_allocvec(&records).expect("records are encoded");
    let read = postcard::from_bytes::<Vec<Record>>(&bytes).expect("records are read");
    assert!(matches!(read[..], [Record::SequenceReserved { through: Sequence::FIRST }]), "{read:?}");
    let event = Event {
        domain: Domain::new("d").expect("a name"),
        lease: LeaseId::from_bytes([1; 16]),
        contract: Contract::Safety,
        token: None,
        holder: Holder::new("h").expect("a name"),
        kind: EventKind::Granted { waited_ms: 0 },
    };
    let told: Vec<Told> = vec![(1, 0, Some(7), event)];
    let bytes = postcard::to_allocvec(&told).expect("events are encoded");
    assert_eq!(postcard::from_bytes::<Vec<Told>>(&bytes), Ok(told));
    let leases = Leases::new(Issuer::new("i").expect("a name"), Epoch::ZERO);
    let bytes = postcard::to_allocvec(&leases.snapshot()).expect("a snapshot is encoded");
    let snapshot = postcard::from_bytes::<Snapshot>(&bytes).expect("a snapshot");
    assert_eq!(Leases::from_snapshot(snapshot).issuer(), leases.issuer());
}

/// Bytes in the place of a log row, a part of the history or a snapshot: they are read or refused. A state that was read need not be written as
/// the bytes that it came from; once written, it is read and written as the same bytes ever after.
pub fn log(bytes: &[u8]) {
    let _ = postcard::from_bytes::<Vec<Record>>(bytes);
    let _ = postcard::from_bytes::<Vec<Told>>(bytes);
    if let Ok(snapshot) = postcard::from_bytes::<Snapshot>(bytes) {
        let first = postcard::to_allocvec(&Leases::from_snapshot(snapshot).snapshot()).expect("a snapshot is encoded");
        let again = postcard::from_bytes::<Snapshot>(&first).expect("what was written is read");
        let second = postcard::to_allocvec(&Leases::from_snapshot(again).snapshot()).expect("a snapshot is encoded");
        assert_eq!(first, second, "a state changes by being written and read");
    }
}
