//! A worker is paused past its lease; its late write is refused by the database itself.
//!
//! `cargo run -p fencepost --features embedded,sqlite --example rejected_write`

use fencepost::{
    Advance, Domain, Holder, Operation, OperationId, ReceiverSeed, RecordedResult, Session, Ttl, Verdict,
    coordinator::embedded::{Embedded, InitOptions, Options},
    sqlite::{DomainExpression, Mode, SqliteFile, guard},
};
