use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId, Token,
    fence::{LiveLease, Operation, RecordedResult, Verdict},
};
use fencepost_receiver::{MemoryReceiver, ReceiverSeed, WriteError};
use fencepost_rusqlite::{DomainExpression, Mode, SqliteReceiver, collect, guard};
use rusqlite::{Connection, params};

/// Steps of one script; each takes four bytes.
const MOST_STEPS: usize = 40;

/// The same script at the memory receiver and at SQLite: the same verdicts, and the same value afterwards.
///
/// Both call the core's decision. What is compared is everything around it: what SQL reads for it, raises, records and
/// collects.
pub fn decision(bytes: &[u8]) {
    let issuer = Issuer::new("fuzz").expect("a name");
    let seed = ReceiverSeed::new(issuer.clone(), Epoch::new(1).expect("an epoch"));
    let memory = MemoryReceiver::guard(&seed);
    let receiver = SqliteReceiver::new();
    let mut connection = Connection::open_in_memory().expect("a database");
    connection
        .execute_batch(
            "CREATE TABLE cell (domain TEXT PRIMARY KEY, value INTEGER NOT NULL);
             INSERT INTO cell VALUES ('d0', 0), ('d1', 0), ('d2', 0);",
        )
        .expect("a table");
    let domain = DomainExpression::new("domain").expect("an expression");
    guard(&mut connection, "cell", &domain, Mode::Enforce, Some(&seed)).expect("a table is guarded");

    let mut values = [0_i64; 3];
    for (at, step) in (1..).zip(bytes.chunks_exact(4).take(MOST_STEPS)) {
        let [what, which, number, request] = *step else { continue };
        let place = usize::from(which % 3);
        let domain = Domain::new(&format!("d{place}")).expect("a name");
        let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
        let token = token(number);
        let named = if which & 0x80 == 0 { issuer.clone() } else { Issuer::new("another").expect("a name") };
        let grant = Grant { issuer: named, domain: domain.clone(), token, lease, session };
        match what % 4 {
            0 => {
                let here = memory.advance_now(&grant).map_err(drop);
                let there = receiver.advance(&mut connection, &grant).map_err(drop);
                assert_eq!(here, there, "step {at}: advance to {token} in {domain}");
            }
            1 | 2 => {
                let operation = operation(request, what % 4 == 2, which, token);
                let here = memory.write(&grant, &operation, || {
                    values[place] = at;
                    Ok::<_, fencepost_core::Invalid>(result(at))
                });
                let there = receiver.write(&mut connection, &grant, &operation, |tx| {
                    tx.execute("UPDATE cell SET value = ?1 WHERE domain = ?2", params![at, domain.as_str()])?;
                    Ok::<_, rusqlite::Error>(result(at))
                });
                let there = match there {
                    Ok(verdict) => Ok(verdict),
                    Err(WriteError::Invalid(invalid)) => Err(invalid),
                    Err(error) => panic!("step {at}: {error}"),
                };
                assert_eq!(here, there, "step {at}: {operation:?} under {token} in {domain}");
            }
            _ => {
                let live = [LiveLease { domain, token }];
                let live = if request & 1 == 0 { &live[..] } else { &[] };
                // A live lease is older than the next token, as a coordinator's snapshot says.
                let next = live.iter().map(|lease| lease.token).max().map_or(token, |held| held.max(token));
                let here = memory.register().collect(next, live);
                let there = collect(&mut connection, next, live, None);
                assert_eq!(matches!(here, Verdict::Rejected(_)), there.is_err(), "step {at}: collection at {next}");
            }
        }
        let stored: i64 = connection
            .query_row("SELECT value FROM cell WHERE domain = ?1", [format!("d{place}")], |row| row.get(0))
            .expect("the row is there");
        assert_eq!(stored, values[place], "step {at}: the value");
    }
}

/// Tokens close to each other and to the edges: of an epoch, of what is known, of what a column holds.
fn token(number: u8) -> Token {
    let epoch = Epoch::new([0, 1, 1, 2][usize::from(number >> 6)]).expect("an epoch");
    let first = Token::new(epoch, fencepost_core::Sequence::FIRST).expect("a token").as_i64();
    let last = (i64::from(u32::from(epoch)) << 43) + ((1_i64 << 43) - 1);
    let near = i64::from(number & 0x1f);
    let value = if number & 0x20 == 0 { first + near } else { last - near };
    value.to_string().parse().expect("a token")
}

fn operation(request: u8, with_born: bool, which: u8, token: Token) -> Operation {
    let id = OperationId::new(&format!("op-{}", request % 4)).expect("a name");
    let operation = Operation::new(id, &[request / 4 % 3]);
    if with_born && which & 0x40 == 0 { operation.born(token) } else { operation }
}

fn result(at: i64) -> RecordedResult {
    RecordedResult::new(at.to_string().into_bytes()).expect("a short result")
}
