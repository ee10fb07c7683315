//! The scenarios on a service of a few lines with one flaw at a time: each flaw is found by the scenarios that are about
//! it, and by no other. (Real services and processes: the tests of `fencepost prove`.)

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    time::Duration,
};

use fencepost_core::{Domain, Token};
use fencepost_receiver::{VerdictCode, header};
use tokio::time::sleep;

use super::{
    Answer, Hook, Hooks, NoAnswer, Outcome, Plan, Request, Scenario, Target, Trouble, World, prove, stage::Stage,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    EqualRefused,
    ComparesNothing,
    ChecksAtTheHead,
    RecordsNothing,
    RecordsByToken,
    ReplayWithoutRaise,
    ReplayAfterStaleness,
    ReplayWithAnotherAnswer,
    FingerprintIgnored,
    AdvanceIgnored,
    AdvanceLowers,
    MissingTaken,
    ZeroIsUnfenced,
    LeadingZeroTaken,
    DomainIgnored,
    ForeignRaises,
    DeleteUnchecked,
    EpochIgnored,
    GapRefused,
    ForgetsAtRestart,
    OpenAfterRestore,
    NamesNoVerdict,
    RefusesAndWrites,
    // None of these two is one: a service may be slow, and closed to its readers too.
    SlowBesideAHalf,
    ReadersShutOut,
}

#[derive(Clone, Default)]
struct Data {
    value: Option<String>,
    fence: u64,
    operations: BTreeMap<String, (String, String)>,
    closed: bool,
}

struct Model {
    flaw: Flaw,
    data: RefCell<Data>,
    backup: RefCell<Data>,
    token: Cell<u64>,
    domain: Domain,
    halves: Cell<u32>,
}

struct Half {
    request: Request,
    checked: Option<VerdictCode>,
}

impl Model {
    fn new(flaw: Flaw) -> Self {
        let domain = Domain::new("d").unwrap();
        Self {
            flaw,
            data: RefCell::default(),
            backup: RefCell::default(),
            token: Cell::new(8),
            domain,
            halves: Cell::new(0),
        }
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn token(&self, request: &Request) -> Result<u64, VerdictCode> {
        let fence = self.data.borrow().fence;
        let unfenced = Ok(fence);
        let Some(text) = request.header(header::TOKEN) else {
            return if self.is(Flaw::MissingTaken) { unfenced } else { Err(VerdictCode::MissingToken) };
        };
        match Token::from_decimal(text) {
            Ok(token) => Ok(token.as_u64()),
            Err(_) if self.is(Flaw::ZeroIsUnfenced) && text == "0" => unfenced,
            Err(_) if self.is(Flaw::LeadingZeroTaken) && text == "007" => Ok(7),
            Err(_) => Err(VerdictCode::Malformed),
        }
    }

    /// Which verdict the token gets, if it is not accepted.
    fn check(&self, request: &Request) -> Result<u64, VerdictCode> {
        let mut data = self.data.borrow_mut();
        let is_delete = request.method == "DELETE";
        drop(data);
        if is_delete && self.is(Flaw::DeleteUnchecked) {
            return Ok(self.data.borrow().fence);
        }
        let token = self.token(request)?;
        data = self.data.borrow_mut();
        if request.header(header::DOMAIN) != Some("d") && !self.is(Flaw::DomainIgnored) {
            if self.is(Flaw::ForeignRaises) {
                data.fence = data.fence.max(token);
            }
            return Err(VerdictCode::WrongDomain);
        }
        if data.closed {
            return Err(VerdictCode::ReceiverClosed);
        }
        if Token::from_integer(token).unwrap().epoch().get() > 0 && !self.is(Flaw::EpochIgnored) {
            return Err(VerdictCode::UnknownEpoch);
        }
        let is_stale = match self.flaw {
            Flaw::EqualRefused => token <= data.fence,
            Flaw::ComparesNothing => false,
            Flaw::GapRefused => token < data.fence || (data.fence > 0 && token > data.fence + 1_000),
            _ => token < data.fence,
        };
        if is_stale { Err(VerdictCode::StaleToken) } else { Ok(token) }
    }

    fn decide(&self, request: &Request, checked: Result<u64, VerdictCode>) -> (VerdictCode, String) {
        let text = format!("{} {}", request.method, String::from_utf8_lossy(&request.body));
        let mut key = request.header(header::IDEMPOTENCY_KEY).unwrap_or_default().to_owned();
        if self.is(Flaw::RecordsByToken) {
            key.push_str(request.header(header::TOKEN).unwrap_or_default());
        }
        let mut data = self.data.borrow_mut();
        let is_in_order = !matches!(
            checked,
            Err(VerdictCode::MissingToken
                | VerdictCode::Malformed
                | VerdictCode::WrongDomain
                | VerdictCode::ReceiverClosed)
        );
        let is_late = self.is(Flaw::ReplayAfterStaleness) && checked.is_err();
        if let Some((recorded, answer)) = data.operations.get(&key).cloned().filter(|_| is_in_order && !is_late) {
            if recorded != text && !self.is(Flaw::FingerprintIgnored) {
                return (VerdictCode::OperationConflict, String::new());
            }
            if let Ok(token) = checked.as_ref()
                && !self.is(Flaw::ReplayWithoutRaise)
            {
                data.fence = data.fence.max(*token);
            }
            let answer = if self.is(Flaw::ReplayWithAnotherAnswer) { "again".to_owned() } else { answer };
            return (VerdictCode::Replayed, answer);
        }
        let token = match checked {
            Ok(token) => token,
            Err(VerdictCode::StaleToken) if self.is(Flaw::RefusesAndWrites) => {
                data.value = value(request);
                return (VerdictCode::StaleToken, String::new());
            }
            Err(code) => return (code, String::new()),
        };
        let is_advance = request.target.ends_with("/fence");
        match self.flaw {
            Flaw::AdvanceIgnored if is_advance => {}
            Flaw::AdvanceLowers if is_advance => data.fence = token,
            _ => data.fence = data.fence.max(token),
        }
        match request.method.as_str() {
            "PUT" => data.value = value(request),
            "DELETE" => data.value = None,
            _ => {}
        }
        let answer = format!("done {key}");
        if !self.is(Flaw::RecordsNothing) {
            data.operations.insert(key, (text, answer.clone()));
        }
        (VerdictCode::Applied, answer)
    }

    fn serve(&self, request: &Request) -> Answer {
        if request.method == "GET" {
            if self.is(Flaw::ReadersShutOut) && self.data.borrow().closed {
                return self.answer((VerdictCode::ReceiverClosed, String::new()));
            }
            let value = self.data.borrow().value.clone();
            let status = if value.is_some() { 200 } else { 404 };
            return Answer { status, verdict: None, retry_after: None, body: value.unwrap_or_default().into_bytes() };
        }
        let lowers = self.is(Flaw::AdvanceLowers) && request.target.ends_with("/fence");
        let checked = if lowers { self.token(request) } else { self.check(request) };
        self.answer(self.decide(request, checked))
    }

    fn answer(&self, (code, body): (VerdictCode, String)) -> Answer {
        let verdict = (!self.is(Flaw::NamesNoVerdict)).then(|| code.as_str().to_owned());
        Answer { status: code.status(), verdict, retry_after: None, body: body.into_bytes() }
    }
}

fn value(request: &Request) -> Option<String> {
    Some(String::from_utf8(request.body.clone()).unwrap())
}

impl World for Model {
    type Begun = Half;
    type Stopped = Request;

    async fn send(&self, request: &Request) -> Result<Answer, NoAnswer> {
        if self.is(Flaw::SlowBesideAHalf) && self.halves.get() > 0 {
            // bounded: once for each half
            sleep(Duration::from_secs(4)).await;
        }
        Ok(self.serve(request))
    }

    async fn begin(&self, request: &Request) -> Result<Half, NoAnswer> {
        let checked = self.check(request).err();
        self.halves.set(self.halves.get() + 1);
        Ok(Half { request: request.clone(), checked })
    }

    async fn finish(&self, Half { request, checked }: Half) -> Result<Answer, NoAnswer> {
        let answer = match checked {
            None if self.is(Flaw::ChecksAtTheHead) => {
                let token = self.token(&request);
                self.answer(self.decide(&request, token))
            }
            Some(_) | None => self.serve(&request),
        };
        if self.is(Flaw::SlowBesideAHalf) {
            // bounded: once for each half
            sleep(Duration::from_secs(2)).await;
        }
        self.halves.set(self.halves.get() - 1);
        Ok(answer)
    }

    async fn grant(&self, _: &Domain) -> Result<Token, Trouble> {
        self.token.set(self.token.get() + 1);
        Ok(Token::from_integer(self.token.get()).unwrap())
    }

    async fn grant_after_expiry(&self, domain: &Domain) -> Result<Token, Trouble> {
        self.grant(domain).await
    }

    async fn next_token(&self) -> Result<Token, Trouble> {
        Ok(Token::from_integer(self.token.get() + 1).unwrap())
    }

    async fn restart_coordinator(&self) -> Result<(), Trouble> {
        self.token.set(self.token.get() + 10_000);
        Ok(())
    }

    async fn hook(&self, hook: Hook, _: Token) -> Result<(), Trouble> {
        match hook {
            Hook::Restart if self.is(Flaw::ForgetsAtRestart) => self.data.borrow_mut().fence = 0,
            Hook::Restart => {}
            Hook::Backup => *self.backup.borrow_mut() = self.data.borrow().clone(),
            Hook::Restore => {
                let closed = !self.is(Flaw::OpenAfterRestore);
                *self.data.borrow_mut() = Data { closed, ..self.backup.borrow().clone() };
            }
        }
        Ok(())
    }

    async fn stop_before_sending(&self, request: &Request) -> Result<Request, Trouble> {
        Ok(request.clone())
    }

    async fn go_on(&self, request: Request) -> Result<Result<Answer, NoAnswer>, Trouble> {
        Ok(Ok(self.serve(&request)))
    }
}

fn plan(model: &Model) -> Plan {
    Plan {
        domain: model.domain.clone(),
        write: "PUT:/d".parse().unwrap(),
        body: "{value}".to_owned(),
        read: Target::new("/d").unwrap(),
        pointer: String::new(),
        advance: Some("POST:/d/fence".parse().unwrap()),
        also: vec!["DELETE:/d".parse().unwrap()],
        rounds: 2,
        pause: true,
        absurd: true,
        hooks: Hooks { restart: true, backup: true, restore: true },
    }
}

/// What fails. A restored model is closed, so the absurd token is tried on another one.
async fn failing(flaw: Flaw) -> Vec<Scenario> {
    let mut found = Vec::new();
    let all = Hooks { restart: true, backup: true, restore: true };
    for (hooks, absurd) in [(all, false), (Hooks::default(), true)] {
        let model = Model::new(flaw);
        let report = prove(&Plan { hooks, absurd, ..plan(&model) }, &model, |_| {}).await;
        for tried in report.scenarios {
            if matches!(tried.outcome, Outcome::Failed(_)) && !found.contains(&tried.scenario) {
                assert!(!tried.story.is_empty(), "{flaw:?}: {} has a story", tried.scenario);
                found.push(tried.scenario);
            }
        }
    }
    found
}

#[tokio::test]
async fn each_flaw_is_found_by_the_scenarios_that_are_about_it_and_by_no_other() {
    use Scenario::*;
    let late = vec![
        LateAfter,
        LateBefore,
        HalfSent,
        Concurrent,
        Paused,
        RetryNextOwner,
        Also,
        CoordinatorRestart,
        ServiceRestart,
    ];
    let cases = [
        (Flaw::None, vec![]),
        (Flaw::EqualRefused, vec![FirstWrite]),
        (Flaw::ComparesNothing, late.clone()),
        (Flaw::RefusesAndWrites, late),
        (Flaw::ChecksAtTheHead, vec![HalfSent, Concurrent]),
        (
            Flaw::RecordsNothing,
            vec![Concurrent, RetrySameOwner, RetryNextOwner, RetryLate, ReusedId, Also, ServiceRestart],
        ),
        (Flaw::RecordsByToken, vec![RetryNextOwner, ReusedId, ServiceRestart]),
        (Flaw::ReplayWithoutRaise, vec![RetryNextOwner]),
        (Flaw::ReplayAfterStaleness, vec![RetryLate]),
        (Flaw::ReplayWithAnotherAnswer, vec![RetrySameOwner, RetryNextOwner, RetryLate, Also, ServiceRestart]),
        (Flaw::FingerprintIgnored, vec![ReusedId]),
        (Flaw::AdvanceIgnored, vec![LateBefore]),
        (Flaw::AdvanceLowers, vec![LateBefore]),
        (Flaw::MissingTaken, vec![MissingToken, Also]),
        (Flaw::ZeroIsUnfenced, vec![MalformedToken, Also]),
        (Flaw::LeadingZeroTaken, vec![MalformedToken]),
        (Flaw::DomainIgnored, vec![OtherDomain, Also]),
        (Flaw::ForeignRaises, vec![OtherDomain]),
        (Flaw::DeleteUnchecked, vec![Also]),
        (Flaw::EpochIgnored, vec![AbsurdToken]),
        // Nobody gets across the gap any more, so nothing after it works either.
        (Flaw::GapRefused, vec![CoordinatorRestart, ServiceRestart, Restore, AbsurdToken]),
        (Flaw::ForgetsAtRestart, vec![ServiceRestart]),
        (Flaw::OpenAfterRestore, vec![Restore]),
        (Flaw::NamesNoVerdict, vec![Verdicts]),
    ];
    let mut wrong = Vec::new();
    for (flaw, expected) in cases {
        let found = failing(flaw).await;
        if found != expected {
            wrong.push(format!("{flaw:?}: {found:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Mutant: with one look at the time alone, this service passes as one that lets the new owner wait.
#[tokio::test]
async fn a_new_owner_who_is_slow_decides_nothing_about_a_body_that_comes_late() {
    let model = Model::new(Flaw::SlowBesideAHalf);
    let plan = plan(&model);
    let outcome = Stage::new(&plan, &model).half_sent().await.unwrap();
    assert!(matches!(outcome, Outcome::NotTried { asked_for: true, .. }), "{outcome:?}");
}

/// Mutant: a look at the value after the refusal fails here, though nothing could be more closed.
#[tokio::test]
async fn a_restored_service_that_is_closed_to_readers_too_is_closed() {
    let model = Model::new(Flaw::ReadersShutOut);
    let report = prove(&Plan { absurd: false, ..plan(&model) }, &model, |_| {}).await;
    let outcome = report.scenarios.into_iter().find(|tried| tried.scenario == Scenario::Restore).unwrap().outcome;
    assert!(matches!(outcome, Outcome::Passed { note: Some(_) }), "{outcome:?}");
}

#[tokio::test]
async fn a_service_without_an_advance_is_only_fenced_on_first_write() {
    let model = Model::new(Flaw::None);
    let report = prove(&Plan { advance: None, ..plan(&model) }, &model, |_| {}).await;
    let lesser = report.scenarios.iter().filter(|tried| tried.outcome == Outcome::OnlyFencedOnFirstWrite);
    assert_eq!(lesser.map(|tried| tried.scenario).collect::<Vec<_>>(), [Scenario::LateBefore]);
    assert!(!report.is_clean(), "the absurd token was asked for, and nothing is accepted after the restore");
}
