use fencepost_core::Secret;
use fencepost_wire::{
    AcquireAnswer, AcquireBody, BreakAnswer, BreakBody, CheckAnswer, CheckBody, GrantJson, HeartbeatAnswer,
    HeartbeatBody, HistoryList, HistoryListQuery, LeaseList, ListQuery, OpenSessionBody, PrefixQuery, Problem,
    QueueList, QueueQuery, RejectedReport, ReleaseAnswer, ReleaseBody, SessionAnswer, SessionOpenedAnswer,
    WorkFailedReport, decode, parse_history_cursor, parse_snapshot,
};

/// Bodies, answers and queries, whoever sent them. The first byte chooses, the rest is what came.
pub fn wire(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let secret = || Some(Secret::from_bytes([7; 32]));
    match choice % 26 {
        0 => drop(decode::<AcquireBody>(bytes).map(|body| body.parse(secret()))),
        1 => drop(decode::<AcquireBody>(bytes).map(|body| body.parse(None))),
        2 => drop(decode::<ReleaseBody>(bytes).map(|body| body.parse())),
        3 => drop(decode::<BreakBody>(bytes).map(|body| body.parse())),
        4 => drop(decode::<CheckBody>(bytes).map(|body| body.parse())),
        5 => drop(decode::<OpenSessionBody>(bytes).map(|body| body.parse())),
        6 => drop(decode::<HeartbeatBody>(bytes).map(|body| body.parse())),
        7 => drop(decode::<AcquireAnswer>(bytes)),
        8 => drop(decode::<BreakAnswer>(bytes)),
        9 => drop(decode::<CheckAnswer>(bytes)),
        10 => drop(decode::<HeartbeatAnswer>(bytes)),
        11 => drop(decode::<HistoryList>(bytes)),
        12 => drop(decode::<LeaseList>(bytes)),
        13 => drop(decode::<QueueList>(bytes)),
        14 => drop(decode::<ReleaseAnswer>(bytes)),
        15 => drop(decode::<SessionAnswer>(bytes)),
        16 => drop(decode::<SessionOpenedAnswer>(bytes)),
        17 => drop(decode::<Problem>(bytes)),
        18 => drop(decode::<GrantJson>(bytes)),
        19 => drop(ListQuery::read(&text).map(ListQuery::parse)),
        20 => drop(PrefixQuery::read(&text).map(PrefixQuery::parse)),
        21 => drop(QueueQuery::read(&text).map(QueueQuery::parse)),
        22 => drop((HistoryListQuery::read(&text).map(HistoryListQuery::parse), parse_history_cursor(&text))),
        23 => drop(decode::<RejectedReport>(bytes).map(RejectedReport::parse)),
        24 => drop(decode::<WorkFailedReport>(bytes).map(|body| body.parse())),
        _ => drop(parse_snapshot(bytes)),
    }
}
