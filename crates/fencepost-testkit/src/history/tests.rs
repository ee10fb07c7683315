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

#[derive(Clone, Debug)]
enum Act {
    Begin { who: usize, token: u64, act: usize },
    Happen { who: usize },
    Answer { who: usize, lost: bool },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let one = prop_oneof![
        (0..4_usize, 1..6_u64, 0..4_usize).prop_map(|(who, token, act)| Act::Begin { who, token, act }),
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
                    2 => (Doing::Write, Some(format!("o{}", number % 3))),
                    _ => (Doing::Write, None),
                };
                // An operation always asks for the same: another request would be a conflict.
                let value = operation.clone().unwrap_or_else(|| format!("v{number}"));
                let token = Token::from_integer(token).unwrap();
                let mut line = Line::of(Did::Called(number, doing));
                line.who = Some(format!("W{who}"));
                (line.domain, line.token) = (Some("d".to_owned()), Some(token.to_decimal()));
                if doing == Doing::Write {
                    (line.value, line.operation) = (Some(value.clone()), operation.clone());
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
                    Verdict::Rejected(Rejection::Stale { .. }) => Line {
                        reason: Some("stale".to_owned()),
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

    /// A rejection turned into an acceptance, an acceptance into a rejection, or a read into one of something never
    /// written. In lives of few calls, so that a second opinion can try every order: one of the two is right.
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
                Some(Answer::Value) => edited[at].value = Some("never written".to_owned()),
                _ => continue,
            }
            let only_read = lines.iter().filter(|line| line.got == Some(Answer::Value)).count() == 1;
            let nothing_known = only_read && lines.iter().all(|line| line.doing != Some(Doing::Write));
            let found = nothing_known || !violations(&text(&edited)).is_empty() || brute_force(&edited);
            prop_assert!(found, "{}", text(&edited));
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
    fn go(calls: &[super::Call], left: Vec<usize>, fence: Option<Token>, value: Option<&str>, done: &[&str]) -> bool {
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
            let is_done = operation.is_some_and(|id| done.contains(&id));
            let raised = fence.max(token);
            match &call.outcome {
                super::Outcome::Rejected { .. } => stale && !is_done && go(calls, rest, fence, value, done),
                super::Outcome::Replayed => is_done && go(calls, rest, if stale { fence } else { raised }, value, done),
                super::Outcome::Unknown if stale || is_done => {
                    go(calls, rest.clone(), fence, value, done) || !stale && go(calls, rest, raised, value, done)
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
                    let done: Vec<&str> = done.iter().copied().chain(operation).collect();
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
