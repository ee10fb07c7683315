//! The checker is checked: what really happened at the reference receiver passes, and every edit that makes a lie of
//! it is found.

use fencepost_core::{
    Domain, Epoch, Invalid, Issuer, OperationId, Token,
    fence::{Operation, Presented, RecordedResult, Register, Rejection, Verdict},
};
use proptest::prelude::*;

use super::{Answer, Did, Doing, Line, check, read};

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
}

fn violations(history: &str) -> Vec<&'static str> {
    let report = check(&read(history.as_bytes()).unwrap());
    report.violations.iter().map(|violation| violation.invariant).collect()
}

/// Sessions have no domain, and nothing that is checked of one hangs on them.
#[test]
fn calls_about_a_session_are_read_and_counted() {
    let calls = [("open", "opened"), ("heartbeat", "renewed"), ("end", "ended")];
    let one = |number: usize, (calls, got): (&str, &str)| {
        format!("{{\"call\":{number},\"who\":\"A\",\"do\":\"{calls}\"}}\n{{\"answer\":{number},\"got\":\"{got}\"}}\n")
    };
    let history: String = calls.into_iter().enumerate().map(|(number, call)| one(number, call)).collect();
    let report = check(&read(history.as_bytes()).unwrap());
    assert_eq!((report.calls, report.unknown, report.registers, report.violations.len()), (3, 0, 0, 0));
    for wrong in [("open", "ended"), ("heartbeat", "granted"), ("end", "released"), ("renew", "renewed")] {
        read(one(0, wrong).as_bytes()).unwrap_err();
    }
}

#[derive(Clone, Debug)]
enum Act {
    Begin { who: usize, token: u64, act: usize },
    Happen { who: usize },
    Answer { who: usize, lost: bool },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let one = prop_oneof![
        (0..4_usize, 1..6_u64, 0..5_usize).prop_map(|(who, token, act)| Act::Begin { who, token, act }),
        (0..4_usize).prop_map(|who| Act::Happen { who }),
        (0..4_usize, prop::bool::weighted(0.2)).prop_map(|(who, lost)| Act::Answer { who, lost }),
    ];
    prop::collection::vec(one, 1..120)
}

struct Pending {
    number: u64,
    token: Token,
    doing: Doing,
    operation: Option<String>,
    value: String,
    answer: Option<Line>,
}

/// Lives a life at the reference receiver: calls begin, take effect in between, and are answered or not.
fn live(acts: Vec<Act>) -> Vec<Line> {
    let (issuer, domain) = (Issuer::new("i").unwrap(), Domain::new("d").unwrap());
    let mut register = Register::new(issuer.clone(), Epoch::ZERO);
    let mut value = "start".to_owned();
    let mut pending: [Option<Pending>; 4] = [None, None, None, None];
    let mut lines = Vec::new();
    let mut number = 0;
    for act in acts {
        match act {
            Act::Begin { who, token, act } if pending[who].is_none() => {
                number += 1;
                let (doing, operation) = match act {
                    0 => (Doing::Read, None),
                    1 => (Doing::Advance, None),
                    2 | 3 => (Doing::Write, Some(format!("o{}", number % 3))),
                    _ => (Doing::Write, None),
                };
                // An operation asks for the same, and now and then for something else, which is a conflict.
                let again = operation.clone().filter(|_| act == 2);
                let value = again.unwrap_or_else(|| format!("v{number}"));
                let token = Token::from_integer(token).unwrap();
                let mut line = Line::of(Did::Called(number, doing));
                line.who = Some(format!("W{who}"));
                (line.domain, line.token) = (Some("d".to_owned()), Some(token.to_decimal()));
                if doing == Doing::Write {
                    line.value = Some(value.clone());
                    if let Some(id) = &operation {
                        line.name_operation(&Operation::new(OperationId::new(id).unwrap(), value.as_bytes()));
                    }
                }
                lines.push(line);
                pending[who] = Some(Pending { number, token, doing, operation, value, answer: None });
            }
            Act::Begin { .. } => {}
            Act::Happen { who } => {
                let Some(call) = pending[who].as_mut().filter(|call| call.answer.is_none()) else { continue };
                let operation = call
                    .operation
                    .as_ref()
                    .map(|id| Operation::new(OperationId::new(id).unwrap(), call.value.as_bytes()));
                let mut presented = Presented::token(&issuer, &domain, call.token);
                presented.operation = operation.as_ref();
                let verdict = match call.doing {
                    Doing::Write => register.write::<Invalid>(&domain, &presented, || {
                        value = call.value.clone();
                        Ok(RecordedResult::default())
                    }),
                    _ => register.advance(&domain, &presented).map(|v| v.map(|()| RecordedResult::default())),
                };
                let mut line = match verdict.unwrap() {
                    Verdict::Applied(_) if call.doing == Doing::Read => {
                        Line { value: Some(value.clone()), ..Line::of(Did::Answered(call.number, Answer::Value)) }
                    }
                    Verdict::Applied(_) => Line::of(Did::Answered(call.number, Answer::Applied)),
                    Verdict::Replayed(_) => Line::of(Did::Answered(call.number, Answer::Replayed)),
                    Verdict::Rejected(why @ (Rejection::Stale { .. } | Rejection::OperationConflict)) => Line {
                        reason: Some(why.code().to_owned()),
                        ..Line::of(Did::Answered(call.number, Answer::Rejected))
                    },
                    Verdict::Rejected(other) => panic!("{other}"),
                };
                line.who = None;
                call.answer = Some(line);
            }
            Act::Answer { who, lost } => {
                if let Some(answer) = pending[who].as_ref().and_then(|call| call.answer.clone()) {
                    lines.extend((!lost).then_some(answer));
                    pending[who] = None;
                }
            }
        }
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_really_happened_is_accepted(acts in acts()) {
        let history = text(&live(acts));
        let report = check(&read(history.as_bytes()).unwrap());
        prop_assert!(report.violations.is_empty(), "{:#?}\n{history}", report.violations);
    }

    /// A rejection turned into an acceptance, an acceptance into a rejection, a replay into an effect, or a read into
    /// one of something never written. In lives of few calls, so that a second opinion can try every order: one of the two is right.
    #[test]
    fn an_edited_history_is_found_out(acts in acts()) {
        let lines = of_few_calls(live(acts));
        for at in 0..lines.len() {
            let mut edited = lines.clone();
            match edited[at].got {
                Some(Answer::Rejected) => {
                    let call = lines.iter().find(|line| line.call == edited[at].answer).unwrap();
                    (edited[at].got, edited[at].reason) = (Some(Answer::Applied), None);
                    if call.doing == Some(Doing::Read) {
                        continue;
                    }
                }
                Some(Answer::Applied) => {
                    (edited[at].got, edited[at].reason) = (Some(Answer::Rejected), Some("stale".to_owned()));
                }
                Some(Answer::Replayed) => edited[at].got = Some(Answer::Applied),
                Some(Answer::Value) => edited[at].value = Some("never written".to_owned()),
                _ => continue,
            }
            let only_read = lines.iter().filter(|line| line.got == Some(Answer::Value)).count() == 1;
            let nothing_known = only_read && lines.iter().all(|line| line.doing != Some(Doing::Write));
            let found = nothing_known || !violations(&text(&edited)).is_empty() || brute_force(&edited);
            prop_assert!(found, "{}", text(&edited));
        }
    }

    /// An effect turned into a replay: of the only attempt, or of the first, it answers for nothing.
    #[test]
    fn an_effect_told_as_a_replay_is_found_out(acts in acts()) {
        let lines = of_few_calls(live(acts));
        for at in 0..lines.len() {
            let call = lines.iter().find(|line| line.call.is_some() && line.call == lines[at].answer);
            if lines[at].got != Some(Answer::Applied) || call.is_none_or(|call| call.operation.is_none()) {
                continue;
            }
            let mut edited = lines.clone();
            edited[at].got = Some(Answer::Replayed);
            prop_assert!(!violations(&text(&edited)).is_empty() || brute_force(&edited), "{}", text(&edited));
        }
    }

    /// A conflict told as a replay, as by a receiver that compares no fingerprints; and a replay told as a conflict.
    ///
    /// Mutants: replays are compared with applied attempts only, and not with each other; the register takes an attempt
    /// at something else for one at the same.
    #[test]
    fn an_edited_fingerprint_is_found_out(acts in acts()) {
        let lines = of_few_calls(live(acts));
        for at in 0..lines.len() {
            let mut edited = lines.clone();
            match (edited[at].got, edited[at].reason.as_deref()) {
                (Some(Answer::Rejected), Some("operation_conflict")) => {
                    (edited[at].got, edited[at].reason) = (Some(Answer::Replayed), None);
                }
                (Some(Answer::Replayed), _) => {
                    let reason = Some("operation_conflict".to_owned());
                    (edited[at].got, edited[at].reason) = (Some(Answer::Rejected), reason);
                }
                _ => continue,
            }
            prop_assert!(!violations(&text(&edited)).is_empty() || brute_force(&edited), "{}", text(&edited));
        }
    }

    /// Leases one after the other are accepted. One granted under a token from before, or believed in until after the
    /// next one was granted, is found.
    #[test]
    fn an_edited_lease_is_found_out(leases in prop::collection::vec((1..50_u64, 1..100_u64, any::<bool>()), 2..20)) {
        let (mut lines, mut now) = (Vec::new(), 0);
        for (grant, (gap, ttl, renewed)) in (0..).zip(&leases) {
            let lease = Line { domain: Some("d".to_owned()), lease: Some(format!("l{grant}")), ..Line::default() };
            let mut say = |after: u64, did: Did, line: Line| {
                now += after;
                let Line { call, answer, doing, got, .. } = Line::of(did);
                lines.push(Line { at_us: Some(now), call, answer, doing, got, ..line });
            };
            let token = Some((grant + 10).to_string());
            say(*gap, Did::Called(2 * grant, Doing::Acquire), Line { lease: None, ..lease.clone() });
            say(*gap, Did::Answered(2 * grant, Answer::Granted), Line { token, ..lease.clone() });
            if *renewed {
                say(0, Did::Called(2 * grant + 1, Doing::Renew), lease);
                say(0, Did::Answered(2 * grant + 1, Answer::Renewed), Line::default());
            }
            now += ttl;
            let answers = lines.iter_mut().rev().take(if *renewed { 3 } else { 1 });
            answers.filter(|line| line.answer.is_some()).for_each(|line| line.until_us = Some(now));
        }
        prop_assert!(violations(&text(&lines)).is_empty(), "{}", text(&lines));
        let ends: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].until_us.is_some()).collect();
        let last = lines.iter().rposition(|line| line.got == Some(Answer::Granted)).unwrap();
        for at in ends {
            let mut edited = lines.clone();
            if at < last {
                edited[at].until_us = lines[last].at_us.map(|us| us + 1);
                prop_assert_eq!(violations(&text(&edited)), ["I2"], "{}", text(&edited));
            }
            if lines[at].got == Some(Answer::Granted) && at > 1 {
                let mut edited = lines.clone();
                edited[at].token = Some("9".to_owned());
                prop_assert_eq!(violations(&text(&edited)), ["I1"], "{}", text(&edited));
            }
        }
    }
}

/// Most calls of a life whose every order is tried.
const FEW: u64 = 14;

/// The beginning of a life, up to the call with which it would be too long.
fn of_few_calls(mut lines: Vec<Line>) -> Vec<Line> {
    if let Some(end) = lines.iter().position(|line| line.call > Some(FEW)) {
        lines.truncate(end);
    }
    lines
}

/// Whether an edited answer can be true all the same: every order of the calls that respects who came after whom, tried
/// one by one.
fn brute_force(lines: &[Line]) -> bool {
    let history = read(text(lines).as_bytes()).unwrap();
    let calls = history.calls;
    assert!(calls.len() as u64 <= FEW, "a life of few calls");
    type Done<'a> = (&'a str, Option<&'a str>);
    fn go(
        calls: &[super::Call],
        left: Vec<usize>,
        fence: Option<Token>,
        value: Option<&str>,
        done: &[Done<'_>],
    ) -> bool {
        let must = |at: &&usize| calls[**at].outcome != super::Outcome::Unknown;
        if left.iter().filter(must).count() == 0 {
            return true;
        }
        left.iter().any(|at| {
            let call = &calls[*at];
            if left.iter().any(|other| calls[*other].precedes(call)) {
                return false;
            }
            let rest: Vec<usize> = left.iter().copied().filter(|other| other != at).collect();
            let token = call.action.token();
            let stale = fence > token;
            let operation = call.action.operation();
            let is_done = operation.is_some_and(|id| done.iter().any(|(done, _)| *done == id));
            let asked = operation.map(|id| (id, call.action.fingerprint()));
            let is_replay = asked.is_some_and(|asked| done.contains(&asked));
            let raised = fence.max(token);
            match &call.outcome {
                super::Outcome::Rejected { reason } if reason == "operation_conflict" => {
                    let end = call.answered.expect("it was answered");
                    // One that is still under way is in the way too, whatever comes of it.
                    let in_the_way = |other: &super::Call| {
                        let is_other = other.action.fingerprint() != call.action.fingerprint();
                        is_other && other.action.operation() == operation && other.called < end && !other.precedes(call)
                    };
                    let is_refused = is_done && !is_replay || !is_done && calls.iter().any(in_the_way);
                    is_refused && go(calls, rest, fence, value, done)
                }
                super::Outcome::Rejected { .. } => stale && !is_done && go(calls, rest, fence, value, done),
                super::Outcome::Replayed => {
                    is_replay && go(calls, rest, if stale { fence } else { raised }, value, done)
                }
                super::Outcome::Unknown if stale || is_done => {
                    let raises = !stale && (!is_done || is_replay);
                    go(calls, rest.clone(), fence, value, done) || raises && go(calls, rest, raised, value, done)
                }
                super::Outcome::Applied | super::Outcome::Unknown | super::Outcome::Value(_) => {
                    if stale || is_done {
                        return false;
                    }
                    let read = match &call.outcome {
                        super::Outcome::Value(read) => Some(read.as_str()),
                        _ => None,
                    };
                    if read.is_some() && value.is_some() && read != value {
                        return false;
                    }
                    let written = match &call.action {
                        super::Action::Write { value, .. } => Some(value.as_str()),
                        _ => None,
                    };
                    let done: Vec<Done<'_>> = done.iter().copied().chain(asked).collect();
                    let took = go(calls, rest.clone(), raised, written.or(read).or(value), &done);
                    took || call.outcome == super::Outcome::Unknown && go(calls, rest, fence, value, &done)
                }
                _ => false,
            }
        })
    }
    go(&calls, (0..calls.len()).collect(), None, None, &[])
}

#[test]
fn a_stale_write_that_was_applied_is_named_with_the_two_calls_that_show_it() {
    let history = r#"
        {"call":1,"who":"B","do":"advance","domain":"d","token":"0.8"}
        {"answer":1,"got":"applied"}
        {"call":2,"who":"A","do":"write","domain":"d","token":"0.7","value":"x"}
        {"answer":2,"got":"applied"}"#;
    let report = check(&read(history.as_bytes()).unwrap());
    assert_eq!(report.violations[0].invariant, "I3");
    let story = [
        "B calls advance d to 0.8",
        "B is answered applied to advance",
        "A calls write d = x under 0.7",
        "A is answered applied to write",
    ];
    assert_eq!(report.violations[0].story, story);
}

/// M1: read 0, read 0, write 1, write 1: each write is in order, and yet one of them is lost. Only reads can tell.
#[test]
fn a_lost_update_shows_where_the_reads_are_fenced_and_their_order_is_impossible() {
    let history = r#"
        {"call":1,"who":"A","do":"read","domain":"d","token":"5"}
        {"answer":1,"got":"value","value":"0"}
        {"call":2,"who":"B","do":"read","domain":"d","token":"6"}
        {"answer":2,"got":"value","value":"0"}
        {"call":3,"who":"A","do":"write","domain":"d","token":"5","value":"1 by A"}
        {"answer":3,"got":"applied"}"#;
    assert_eq!(violations(history), ["I3"]);
}

#[test]
fn an_operation_that_took_effect_twice_is_found() {
    let history = r#"
        {"call":1,"do":"write","domain":"d","token":"5","operation":"x","value":"1"}
        {"answer":1,"got":"applied"}
        {"call":2,"do":"write","domain":"d","token":"6","operation":"x","value":"1"}
        {"answer":2,"got":"applied"}"#;
    assert_eq!(violations(history), ["I6"]);
}

#[test]
fn a_write_without_an_answer_explains_a_later_read_once_and_not_against_the_fence() {
    let explained = r#"
        {"call":1,"do":"write","domain":"d","token":"5","value":"lost"}
        {"call":2,"do":"read","domain":"d"}
        {"answer":2,"got":"value","value":"0"}
        {"call":3,"do":"read","domain":"d"}
        {"answer":3,"got":"value","value":"lost"}"#;
    assert!(violations(explained).is_empty());
    let fenced_off = r#"
        {"call":1,"do":"write","domain":"d","token":"5","value":"lost"}
        {"call":2,"do":"read","domain":"d","token":"6"}
        {"answer":2,"got":"value","value":"0"}
        {"call":3,"do":"read","domain":"d"}
        {"answer":3,"got":"value","value":"lost"}"#;
    assert_eq!(violations(fenced_off), ["I3"]);
}

#[test]
fn grants_out_of_order_and_two_holders_at_a_time_are_found() {
    let order = r#"
        {"call":1,"do":"acquire","domain":"d"}
        {"answer":1,"got":"granted","token":"8","lease":"l1"}
        {"call":2,"do":"acquire","domain":"d"}
        {"answer":2,"got":"granted","token":"7","lease":"l2"}"#;
    assert_eq!(violations(order), ["I1"]);
    let holders = |until: u64| {
        format!(
            r#"
        {{"at_us":1,"call":1,"do":"acquire","domain":"d"}}
        {{"at_us":2,"answer":1,"got":"granted","token":"7","lease":"l1","until_us":{until}}}
        {{"at_us":50,"call":2,"do":"acquire","domain":"d"}}
        {{"at_us":60,"answer":2,"got":"granted","token":"8","lease":"l2","until_us":160}}"#
        )
    };
    assert_eq!(violations(&holders(61)), ["I2"]);
    assert!(violations(&holders(60)).is_empty());
}

#[test]
fn a_history_that_is_not_understood_is_refused_with_the_line() {
    for (wrong, why) in [
        (r#"{"call":1,"do":"write","domain":"d","value":"x"}"#, "line 1: has to have token"),
        (r#"{"answer":1,"got":"applied"}"#, "line 1: answers a call that is not there"),
        (r#"{"call":1,"do":"fly","domain":"d"}"#, "line 1: not a line of a history"),
        ("{\"call\":1,\"do\":\"read\",\"domain\":\"d\"}\n{\"call\":1,\"do\":\"read\",\"domain\":\"d\"}", "line 2:"),
        (r#"{"call":1,"do":"write","domain":"d","token":"0","value":"x"}"#, "line 1: token"),
    ] {
        let found = read(wrong.as_bytes()).unwrap_err().to_string();
        assert!(found.starts_with(why), "{found}");
    }
}

/// Forty writes without an answer, `more` after them; with operations each is tried once more, which is a replay.
fn forty_unanswered(token: impl Fn(u64) -> u64, with_operations: bool, more: &[&str]) -> String {
    let mut lines = Vec::new();
    let write = |number: u64, of: u64| {
        let mut call = Line::of(Did::Called(number, Doing::Write));
        (call.domain, call.token) = (Some("d".to_owned()), Some(token(of).to_string()));
        (call.value, call.operation) = (Some(format!("v{of}")), with_operations.then(|| format!("o{of}")));
        call
    };
    lines.extend((0..40).map(|number| write(number, number)));
    for number in (40..80).filter(|_| with_operations) {
        lines.extend([write(number, number - 40), Line::of(Did::Answered(number, Answer::Replayed))]);
    }
    for (number, read) in (80..).zip(more) {
        lines.push(Line { domain: Some("d".to_owned()), ..Line::of(Did::Called(number, Doing::Read)) });
        lines.push(Line { value: Some((*read).to_owned()), ..Line::of(Did::Answered(number, Answer::Value)) });
    }
    text(&lines)
}

/// Mutant: without [`is_as_good`](super::register), every state is kept and none of these is decided.
#[test]
fn forty_unanswered_writes_are_as_easy_as_the_answers_that_need_them() {
    let decided = |history: &str| {
        let report = check(&read(history.as_bytes()).unwrap());
        assert!(report.undecided.is_empty(), "{history}");
        report.violations.is_empty()
    };
    let (one, rising) = (|_| 5, |number| number + 5);
    assert!(decided(&forty_unanswered(one, false, &["0", "v3", "v39", "v17", "v17"])));
    assert!(!decided(&forty_unanswered(one, false, &["0", "v3", "v39", "v3"])), "v3 was written once");
    assert!(decided(&forty_unanswered(rising, false, &["0", "v3", "v17", "v39"])));
    assert!(!decided(&forty_unanswered(rising, false, &["0", "v17", "v3"])), "v3 is fenced off");
    assert!(decided(&forty_unanswered(one, true, &["v10", "v10"])));
    assert!(!decided(&forty_unanswered(one, true, &["v10", "v11"])), "o11 was done before v10 was read");
    assert!(decided(&forty_unanswered(rising, true, &["v39"])));
    assert!(!decided(&forty_unanswered(rising, true, &["v10"])), "v39 has the greatest token");
}

#[test]
fn what_is_too_much_to_search_is_undecided_and_not_explained() {
    let at_once = |calls: u64| {
        let write = |number: u64| Line {
            domain: Some("d".to_owned()),
            token: Some("5".to_owned()),
            value: Some(format!("v{number}")),
            ..Line::of(Did::Called(number, Doing::Write))
        };
        let answers = (0..calls).map(|number| Line::of(Did::Answered(number, Answer::Applied)));
        text(&(0..calls).map(write).chain(answers).collect::<Vec<_>>())
    };
    for (calls, undecided) in [(4, 0), (40, 1), (129, 1)] {
        let report = check(&read(at_once(calls).as_bytes()).unwrap());
        assert!(report.violations.is_empty());
        assert_eq!(report.undecided.len(), undecided, "{calls} calls");
    }
}

fn of_one_operation(calls: &[(&str, &str)]) -> String {
    let mut history = String::new();
    for (number, (request, got)) in calls.iter().enumerate() {
        history += &format!(
            r#"{{"call":{number},"do":"write","domain":"d","token":"5","operation":"x","fingerprint":"{request}","value":"{request}"}}
{{"answer":{number},"got":{got}}}
"#
        );
    }
    history
}

/// Mutant: fingerprints are compared with those of applied attempts only.
#[test]
fn a_replay_for_another_request_than_the_one_that_may_have_happened_is_found() {
    let (unknown, replayed) = (r#""unknown""#, r#""replayed""#);
    assert_eq!(violations(&of_one_operation(&[("f1", unknown), ("f2", replayed)])), ["I7"]);
    assert!(violations(&of_one_operation(&[("f1", unknown), ("f1", replayed)])).is_empty());
    assert!(violations(&of_one_operation(&[("f1", unknown), ("f2", unknown), ("f2", replayed)])).is_empty());
    let both = [("f1", unknown), ("f2", unknown), ("f2", replayed), ("f1", replayed)];
    assert_eq!(violations(&of_one_operation(&both)), ["I7"]);
}

/// An attempt at something else is refused and raises nothing, also where nobody has heard so.
///
/// Mutant: the register takes any attempt at an operation that is done for a replay.
#[test]
fn an_unanswered_attempt_at_something_else_raises_no_fence() {
    let history = |second: &str| {
        format!(
            r#"
        {{"call":1,"do":"write","domain":"d","token":"5","operation":"x","value":"1"}}
        {{"answer":1,"got":"applied"}}
        {{"call":2,"do":"write","domain":"d","token":"7","operation":"x","value":"{second}"}}
        {{"call":3,"do":"write","domain":"d","token":"6","value":"3"}}
        {{"answer":3,"got":"rejected","reason":"stale"}}"#
        )
    };
    assert!(violations(&history("1")).is_empty());
    assert_eq!(violations(&history("2")), ["I3"]);
}

/// Mutant: answers of a conflict are not looked at.
#[test]
fn a_conflict_with_nothing_but_its_own_request_is_found() {
    let (applied, unknown) = (r#""applied""#, r#""unknown""#);
    let conflict = r#""rejected","reason":"operation_conflict""#;
    assert_eq!(violations(&of_one_operation(&[("f1", applied), ("f1", conflict)])), ["I7"]);
    assert_eq!(violations(&of_one_operation(&[("f1", unknown), ("f1", conflict)])), ["I7"]);
    assert_eq!(violations(&of_one_operation(&[("f1", conflict)])), ["I7"]);
    assert_eq!(violations(&of_one_operation(&[("f1", unknown), ("f2", applied), ("f2", conflict)])), ["I7"]);
    assert!(violations(&of_one_operation(&[("f1", applied), ("f2", conflict)])).is_empty());
    assert!(violations(&of_one_operation(&[("f1", unknown), ("f2", conflict)])).is_empty());
}

/// A read of what a later write had covered: who wrote it stands in the story, or the read would look made up.
///
/// Mutant: `shows` does not ask whether who wrote what is read is still there.
#[test]
fn a_story_keeps_who_wrote_what_is_read() {
    let one = |number: usize, call: &str, answer: &str| {
        format!("{{\"call\":{number},\"domain\":\"d\",\"token\":\"1\",{call}}}\n{{\"answer\":{number},{answer}}}\n")
    };
    let write = |number, value: &str| one(number, &format!(r#""do":"write","value":"{value}""#), r#""got":"applied""#);
    let history = write(1, "old") + &write(2, "new") + &one(3, r#""do":"read""#, r#""got":"value","value":"old""#);
    let report = check(&read(history.as_bytes()).unwrap());
    let story = report.violations[0].story.join("\n");
    assert!(story.contains("write d = old") && story.contains("write d = new"), "{story}");
}

/// Two reads at once of what nobody has written: the answer that came first is told, whichever was asked for first.
///
/// Mutant: `shows` takes any answer that is not explained.
#[test]
fn a_story_is_that_of_the_answer_that_was_found() {
    for (first, second) in [(1, 2), (2, 1)] {
        let call = |number: usize| format!("{{\"call\":{number},\"domain\":\"d\",\"token\":\"1\",\"do\":\"read\"}}\n");
        let answer =
            |number: usize, value| format!("{{\"answer\":{number},\"got\":\"value\",\"value\":\"{value}\"}}\n");
        let write = "{\"call\":3,\"domain\":\"d\",\"token\":\"1\",\"do\":\"write\",\"value\":\"w\"}\n";
        let before = format!("{write}{{\"answer\":3,\"got\":\"applied\"}}\n");
        let history = before + &call(1) + &call(2) + &answer(first, "earlier") + &answer(second, "later");
        let report = check(&read(history.as_bytes()).unwrap());
        let story = report.violations[0].story.join("\n");
        assert!(story.contains("earlier") && !story.contains("later"), "{story}");
    }
}

/// Eight calls at a time, again and again, and in the last round a value that nobody has written.
///
/// Mutant: without `latest` everything is cut down at once, which is given up at a story of thousands of lines.
#[test]
fn the_story_of_a_long_history_is_as_short_as_that_of_a_short_one() {
    let mut history = String::new();
    for round in 0..400_u64 {
        let numbers = || (0..8).map(|at| (8 * round + at, at));
        for (number, at) in numbers() {
            let doing = if at % 2 == 0 { format!(r#""write","value":"{number}""#) } else { r#""read""#.to_owned() };
            history.push_str(&format!("{{\"call\":{number},\"do\":{doing},\"domain\":\"d\",\"token\":\"1\"}}\n"));
        }
        for (number, at) in numbers() {
            let got = match at % 2 {
                0 => r#""applied""#.to_owned(),
                _ if (round, at) == (399, 1) => r#""value","value":"made up""#.to_owned(),
                _ => format!(r#""value","value":"{}""#, number - 1),
            };
            history.push_str(&format!("{{\"answer\":{number},\"got\":{got}}}\n"));
        }
    }
    let report = check(&read(history.as_bytes()).unwrap());
    let stories: Vec<&[String]> = report.violations.iter().map(|violation| violation.story.as_slice()).collect();
    // A value that nobody has written may have been there before the first write, so there is one.
    assert!(matches!(stories.as_slice(), [[write, .., read]] if write.contains("write d") && read.contains("made up")));
    assert_eq!(stories[0].len(), 4, "two calls and their answers: {stories:?}");
}
