use fencepost_core::Secret;
use fencepost_wire::{
    AcquireAnswer, AcquireBody, BreakAnswer, BreakBody, CheckAnswer, CheckBody, GrantJson, HeartbeatAnswer,
    HeartbeatBody, HistoryList, HistoryListQuery, LeaseList, ListQuery, OpenSessionBody, PrefixQuery, Problem,
    QueueList, QueueQuery, RejectedReport, ReleaseAnswer, ReleaseBody, SessionAnswer, SessionOpenedAnswer,
    WorkFailedReport, decode, parse_history_cursor, parse_snapshot,
};
use serde_json::Value;

/// For each choice what is promised to clients of all languages, as the wire vectors have it: file and name.
const VECTORS: [(&str, &str); CHOICES as usize] = [
    (REQUESTS, "acquire_in_session"),
    (REQUESTS, "acquire_opening"),
    (REQUESTS, "release"),
    (REQUESTS, "break"),
    (REQUESTS, "check"),
    (REQUESTS, "open_session"),
    (REQUESTS, "heartbeat_held"),
    (ANSWERS, "acquired_safety"),
    (ANSWERS, "broken"),
    (ANSWERS, "checked"),
    (ANSWERS, "heartbeat"),
    (ANSWERS, "history"),
    (ANSWERS, "list"),
    (ANSWERS, "queue"),
    (ANSWERS, "released"),
    (ANSWERS, "session"),
    (ANSWERS, "session_opened"),
    (PROBLEMS, "held"),
    (ANSWERS, "grant"),
    (REQUESTS, "list_query"),
    (QUERIES, "prefix"),
    (QUERIES, "queue"),
    (QUERIES, "history"),
    (REQUESTS, "rejected"),
    (REQUESTS, "work_failed"),
    (STREAMS, "snapshot"),
];

const CHOICES: u8 = 26;
const REQUESTS: &str = include_str!("../../crates/fencepost-wire/tests/golden/requests.json");
const ANSWERS: &str = include_str!("../../crates/fencepost-wire/tests/golden/answers.json");
const PROBLEMS: &str = include_str!("../../crates/fencepost-wire/tests/golden/problems.json");
const STREAMS: &str = include_str!("../../crates/fencepost-wire/tests/golden/streams.json");
/// Those that have no vector.
const QUERIES: &str =
    r#"{"prefix":"prefix=a%2F","queue":"domain=d&limit=5","history":"domain=d&limit=5&cursor=h19.0"}"#;

pub fn taken() {
    for (choice, (file, name)) in (0..).zip(VECTORS) {
        let vectors: Value = serde_json::from_str(file).expect("vectors are JSON");
        let vector = match &vectors[name] {
            Value::String(text) => text.clone().into_bytes(),
            Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<String>().into_bytes(),
            other => serde_json::to_vec(other).expect("JSON is written"),
        };
        assert!(is_taken(choice, &vector), "{name} is refused: {}", String::from_utf8_lossy(&vector));
    }
    assert!(parse_history_cursor("h19.0").is_ok());
}

/// Bodies, answers and queries, whoever sent them. The first byte chooses, the rest is what came.
pub fn wire(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    is_taken(choice % CHOICES, bytes);
}

fn is_taken(choice: u8, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let secret = || Some(Secret::from_bytes([7; 32]));
    match choice {
        0 => decode::<AcquireBody>(bytes).is_ok_and(|body| body.parse(secret()).is_ok()),
        1 => decode::<AcquireBody>(bytes).is_ok_and(|body| body.parse(None).is_ok()),
        2 => decode::<ReleaseBody>(bytes).is_ok_and(|body| body.parse().is_ok()),
        3 => decode::<BreakBody>(bytes).is_ok_and(|body| body.parse().is_ok()),
        4 => decode::<CheckBody>(bytes).is_ok_and(|body| body.parse().is_ok()),
        5 => decode::<OpenSessionBody>(bytes).is_ok_and(|body| body.parse().is_ok()),
        6 => decode::<HeartbeatBody>(bytes).is_ok_and(|body| body.parse().is_ok()),
        7 => decode::<AcquireAnswer>(bytes).is_ok(),
        8 => decode::<BreakAnswer>(bytes).is_ok(),
        9 => decode::<CheckAnswer>(bytes).is_ok(),
        10 => decode::<HeartbeatAnswer>(bytes).is_ok(),
        11 => decode::<HistoryList>(bytes).is_ok(),
        12 => decode::<LeaseList>(bytes).is_ok(),
        13 => decode::<QueueList>(bytes).is_ok(),
        14 => decode::<ReleaseAnswer>(bytes).is_ok(),
        15 => decode::<SessionAnswer>(bytes).is_ok(),
        16 => decode::<SessionOpenedAnswer>(bytes).is_ok(),
        17 => decode::<Problem>(bytes).is_ok(),
        18 => decode::<GrantJson>(bytes).is_ok(),
        19 => ListQuery::read(&text).is_ok_and(|query| query.parse().is_ok()),
        20 => PrefixQuery::read(&text).is_ok_and(|query| query.parse().is_ok()),
        21 => QueueQuery::read(&text).is_ok_and(|query| query.parse().is_ok()),
        22 => {
            let _ = parse_history_cursor(&text);
            HistoryListQuery::read(&text).is_ok_and(|query| query.parse().is_ok())
        }
        23 => decode::<RejectedReport>(bytes).is_ok_and(|report| report.parse().is_ok()),
        24 => decode::<WorkFailedReport>(bytes).is_ok_and(|report| report.parse().is_ok()),
        _ => parse_snapshot(bytes).is_ok(),
    }
}
