//! Every rejection is one line that a person or a metric can use.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use fencepost_rusqlite::SqliteReceiver;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::support::{Database, add, grant, operation};

#[derive(Clone, Default)]
pub(crate) struct Lines(pub(crate) Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_rejection_is_one_line_with_domain_token_least_accepted_lease_and_operation() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let applied = receiver.mutate(&mut connection, &grant("a", "0.8"), add("a", 1)).unwrap();
        assert!(applied.rejection().is_none());
        let late = receiver.write(&mut connection, &grant("a", "0.7"), &operation("x"), add("a", 1)).unwrap();
        assert!(late.rejection().is_some());
    });
    let lines = lines.0.lock().unwrap();
    assert_eq!(
        lines.as_slice(),
        [
            "fencepost::rejected message=token 0.7 is stale, the least accepted is 0.8 (by fence) reason=\"stale\" domain=a \
          token=0.7 least_accepted=\"0.8\" by=\"fence\" lease=02020202020202020202020202020202 operation=\"x\""
        ]
    );
}
