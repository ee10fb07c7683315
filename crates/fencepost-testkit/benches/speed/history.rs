//! The history checker on a history of a million events.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fencepost_testkit::history::{Answer, Did, Doing, Line, check, read};

use crate::report::{Table, rate};

const DOMAINS: u64 = 100;
const CLIENTS: u64 = 8;
const CALLS: u64 = 500_000;
/// Every so many calls one takes effect and is never answered.
const UNANSWERED: u64 = 100;
/// What a million events may take.
const AT_MOST: Duration = Duration::from_secs(10);

pub(crate) fn measure() -> Result<Table> {
    let text = history();
    let start = Instant::now();
    let history = read(text.as_bytes())?;
    let read_in = start.elapsed();
    let report = check(&history);
    let took = start.elapsed();
    ensure!(report.violations.is_empty(), "a good history was refused: {:?}", report.violations);
    ensure!(report.undecided.is_empty(), "nothing is said about {:?}", report.undecided);
    ensure!(took < AT_MOST, "a million events took {took:?}");
    let mut table = Table::new("History checker", &["events", "read, s", "read and check, s", "events a second"]);
    let events = 2 * CALLS - report.unknown as u64;
    table.row([
        events.to_string(),
        format!("{:.1}", read_in.as_secs_f64()),
        format!("{:.1}", took.as_secs_f64()),
        rate(events as f64 / took.as_secs_f64()),
    ]);
    table.note(format!(
        "{CLIENTS} clients at a time over {DOMAINS} domains; writes, fenced reads, operations; one call in \
         {UNANSWERED} is never answered."
    ));
    Ok(table)
}

/// Eight clients in overlapping rounds: each calls, then each is answered, in one order of effects.
fn history() -> String {
    let mut text = String::new();
    let mut values = vec!["0".to_owned(); DOMAINS as usize];
    let mut line = |line: Line| {
        text.push_str(&serde_json::to_string(&line).expect("a line has a JSON form"));
        text.push('\n');
    };
    for round in 0..CALLS / CLIENTS {
        let domain = round % DOMAINS;
        let token = (round / DOMAINS + 1).to_string();
        for client in 0..CLIENTS {
            let number = round * CLIENTS + client;
            let doing = if client % 2 == 0 { Doing::Write } else { Doing::Read };
            let mut call = Line::of(Did::Called(number, doing));
            call.who = Some(format!("W{client}"));
            (call.domain, call.token) = (Some(format!("d{domain}")), Some(token.clone()));
            if doing == Doing::Write {
                (call.value, call.operation) = (Some(number.to_string()), Some(format!("o{number}")));
            }
            line(call);
        }
        for client in 0..CLIENTS {
            let number = round * CLIENTS + client;
            let value = &mut values[domain as usize];
            let is_write = client % 2 == 0;
            if is_write {
                *value = number.to_string();
            }
            if number % UNANSWERED == UNANSWERED / 2 {
                continue;
            }
            if is_write {
                line(Line::of(Did::Answered(number, Answer::Applied)));
            } else {
                line(Line { value: Some(value.clone()), ..Line::of(Did::Answered(number, Answer::Value)) });
            }
        }
    }
    text
}
