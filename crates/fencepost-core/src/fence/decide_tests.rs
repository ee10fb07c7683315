use super::*;
use crate::{OperationId, fence::Closure};

fn token(text: &str) -> Token {
    text.parse().unwrap()
}

fn issuer(name: &str) -> Issuer {
    Issuer::new(name).unwrap()
}

fn domain(name: &str) -> Domain {
    Domain::new(name).unwrap()
}

fn operation(request: &[u8]) -> Operation {
    Operation::new(OperationId::new("x").unwrap(), request)
}

/// An open receiver in epoch 1 with a fence at 1.5.
fn fenced() -> Standing {
    Standing { fence: Some(token("1.5")), ..Standing::open(issuer("prod"), domain("d"), Epoch::new(1).unwrap()) }
}

fn present<'a>(issuer: &'a Issuer, domain: &'a Domain, text: &str) -> Presented<'a> {
    Presented::token(issuer, domain, token(text))
}

fn decided(presented: &Presented<'_>, standing: &Standing) -> Decision {
    decide(presented, standing).unwrap()
}

fn stale(presented: &str, least: &str, by: RejectedBy) -> Decision {
    Decision::Reject(Rejection::Stale { presented: token(presented), least_accepted: token(least), by })
}

/// Everything that is wrong with it at once, so that each story shows what is looked at first.
fn everything_wrong<'a>(issuer: &'a Issuer, domain: &'a Domain, operation: &'a Operation) -> Presented<'a> {
    let contract = Contract::Advisory;
    Presented { contract, proof: Proof::Wrong, operation: Some(operation), ..present(issuer, domain, "2.1") }
}

#[test]
fn step_0_a_closed_receiver_refuses_before_it_looks_at_anything() {
    let (issuer, domain, operation) = (issuer("other"), domain("other"), operation(b"a"));
    let presented = Presented { token: None, ..everything_wrong(&issuer, &domain, &operation) };
    for why in [
        Closure::NotGuarded,
        Closure::MetadataMissing,
        Closure::FenceMissing,
        Closure::OtherIncarnation,
        Closure::WentBack,
        Closure::Recovering,
        Closure::ByOperator,
    ] {
        let standing = Standing { condition: Condition::Closed(why), ..fenced() };
        assert_eq!(decided(&presented, &standing), Decision::Reject(Rejection::Closed(why)));
    }
}

#[test]
fn step_1_no_token_is_missing_whatever_else_came_along() {
    let (issuer, domain, operation) = (issuer("other"), domain("other"), operation(b"a").born(token("0.1")));
    let presented = Presented { token: None, ..everything_wrong(&issuer, &domain, &operation) };
    assert_eq!(decided(&presented, &fenced()), Decision::Reject(Rejection::Missing));
}

#[test]
fn step_1_an_operation_born_after_the_presented_token_is_invalid_input() {
    let (issuer, domain) = (issuer("prod"), domain("d"));
    let later = operation(b"a").born(token("1.7"));
    let presented = present(&issuer, &domain, "1.6").with_operation(&later);
    assert_eq!(decide(&presented, &fenced()), Err(Invalid::form("born", "at most the presented token")));
    let same = operation(b"a").born(token("1.6"));
    assert_eq!(decided(&presented.with_operation(&same), &fenced()), Decision::Apply { raise: true });
}

#[test]
fn step_2_another_issuer_comes_before_another_domain_before_another_contract() {
    let (prod, other, d, e) = (issuer("prod"), issuer("other"), domain("d"), domain("e"));
    let operation = operation(b"a");
    let standing = Standing { recorded: Some(operation.fingerprint), ..fenced() };
    let decided = |issuer, domain| decided(&everything_wrong(issuer, domain, &operation), &standing);
    assert_eq!(decided(&other, &e), Decision::Reject(Rejection::WrongIssuer));
    assert_eq!(decided(&prod, &e), Decision::Reject(Rejection::WrongDomain));
    assert_eq!(decided(&prod, &d), Decision::Reject(Rejection::WrongContract));
}

#[test]
fn step_2_only_the_contract_safety_can_write() {
    let (issuer, domain) = (issuer("prod"), domain("d"));
    for (contract, expected) in [
        (Contract::Safety, Decision::Apply { raise: false }),
        (Contract::Admission, Decision::Reject(Rejection::WrongContract)),
        (Contract::Advisory, Decision::Reject(Rejection::WrongContract)),
    ] {
        assert_eq!(decided(&Presented { contract, ..present(&issuer, &domain, "1.5") }, &fenced()), expected);
    }
}

#[test]
fn step_3_a_wrong_signature_never_passes_and_a_missing_one_only_where_it_may() {
    let (issuer, domain, operation) = (issuer("prod"), domain("d"), operation(b"a"));
    let unverified = Decision::Reject(Rejection::Unverified);
    for (proof, signature, expected) in [
        (Proof::Unsigned, SignatureRule::Optional, None),
        (Proof::Unsigned, SignatureRule::Required, Some(&unverified)),
        (Proof::Verified, SignatureRule::Optional, None),
        (Proof::Verified, SignatureRule::Required, None),
        (Proof::Wrong, SignatureRule::Optional, Some(&unverified)),
        (Proof::Wrong, SignatureRule::Required, Some(&unverified)),
    ] {
        // The record would be replayed, so an unverified grant learns nothing about operations.
        let standing = Standing { signature, recorded: Some(operation.fingerprint), ..fenced() };
        let presented = Presented { proof, ..present(&issuer, &domain, "1.5").with_operation(&operation) };
        assert_eq!(&decided(&presented, &standing), expected.unwrap_or(&Decision::Replay { raise: false }));
    }
}

#[test]
fn step_4_an_effect_that_happened_is_replayed_even_under_a_stale_token_or_one_of_an_unknown_epoch() {
    let (issuer, domain, operation) = (issuer("prod"), domain("d"), operation(b"a"));
    let standing = Standing { recorded: Some(operation.fingerprint), ..fenced() };
    for (text, raise) in [("0.1", false), ("1.4", false), ("1.5", false), ("1.6", true), ("2.1", false)] {
        let presented = present(&issuer, &domain, text).with_operation(&operation);
        assert_eq!(decided(&presented, &standing), Decision::Replay { raise }, "{text}");
    }
}

#[test]
fn step_4_another_request_under_the_same_id_is_a_conflict_before_it_is_stale() {
    let (issuer, domain, operation) = (issuer("prod"), domain("d"), operation(b"a"));
    let standing = Standing { recorded: Some(Fingerprint::of(b"b")), ..fenced() };
    for text in ["0.1", "1.5", "1.6", "2.1"] {
        let presented = present(&issuer, &domain, text).with_operation(&operation);
        assert_eq!(decided(&presented, &standing), Decision::Reject(Rejection::OperationConflict), "{text}");
    }
}

#[test]
fn step_4_an_operation_born_below_the_horizon_is_too_old_unless_its_record_is_still_there() {
    let (issuer, domain) = (issuer("prod"), domain("d"));
    let standing = Standing { horizon: Some(token("1.3")), ..fenced() };
    let at = |born: &str| operation(b"a").born(token(born));
    for (operation, expected) in [
        (at("1.2"), Decision::Reject(Rejection::OperationTooOld)),
        (at("1.3"), Decision::Apply { raise: true }),
        (operation(b"a"), Decision::Apply { raise: true }),
    ] {
        assert_eq!(decided(&present(&issuer, &domain, "1.6").with_operation(&operation), &standing), expected);
        let standing = Standing { recorded: Some(operation.fingerprint), ..standing.clone() };
        let replayed = decided(&present(&issuer, &domain, "1.6").with_operation(&operation), &standing);
        assert_eq!(replayed, Decision::Replay { raise: true });
    }
}

#[test]
fn step_5_an_untold_epoch_is_refused_before_it_can_lock_everybody_out() {
    let (issuer, domain) = (issuer("prod"), domain("d"));
    for text in ["2.1", "1048575.8796093022207"] {
        let decision = decided(&present(&issuer, &domain, text), &fenced());
        let known = Epoch::new(1).unwrap();
        assert_eq!(decision, Decision::Reject(Rejection::UnknownEpoch { presented: token(text), known }));
    }
}

#[test]
fn step_5_an_equal_token_is_the_same_owner() {
    let (issuer, domain) = (issuer("prod"), domain("d"));
    for (text, expected) in [
        ("1.4", stale("1.4", "1.5", RejectedBy::Fence)),
        ("1.5", Decision::Apply { raise: false }),
        ("1.6", Decision::Apply { raise: true }),
    ] {
        assert_eq!(decided(&present(&issuer, &domain, text), &fenced()), expected);
    }
}

#[test]
fn step_5_the_floor_binds_every_domain_and_the_unfenced_floor_only_those_without_a_fence() {
    let (issuer, domain) = (issuer("prod"), domain("d"));
    let above = Standing { floor: Some(token("1.7")), unfenced_floor: Some(token("1.9")), ..fenced() };
    assert_eq!(decided(&present(&issuer, &domain, "1.6"), &above), stale("1.6", "1.7", RejectedBy::Floor));
    assert_eq!(decided(&present(&issuer, &domain, "1.7"), &above), Decision::Apply { raise: true });
    let unfenced = Standing { fence: None, ..above };
    assert_eq!(decided(&present(&issuer, &domain, "1.8"), &unfenced), stale("1.8", "1.9", RejectedBy::UnfencedFloor));
    assert_eq!(decided(&present(&issuer, &domain, "1.9"), &unfenced), Decision::Apply { raise: true });
}

#[test]
fn the_least_token_that_would_be_accepted_is_accepted() {
    let (issuer, domain) = (issuer("prod"), domain("d"));
    let bounds = [None, Some(token("0.2")), Some(token("1.3")), Some(token("1.4"))];
    for floor in bounds {
        for unfenced_floor in bounds {
            for fence in bounds {
                let standing = Standing { floor, unfenced_floor, fence, ..fenced() };
                let presented = present(&issuer, &domain, "0.1");
                let Decision::Reject(Rejection::Stale { least_accepted, by, .. }) = decided(&presented, &standing)
                else {
                    let bound = floor.or(fence).or(unfenced_floor.filter(|_| fence.is_none()));
                    assert_eq!(bound, None, "{standing:?}");
                    continue;
                };
                let named = match by {
                    RejectedBy::Floor => floor,
                    RejectedBy::Fence => fence,
                    RejectedBy::UnfencedFloor => unfenced_floor,
                };
                assert_eq!(named, Some(least_accepted), "{standing:?}");
                let least = Presented { token: Some(least_accepted), ..presented };
                assert!(matches!(decided(&least, &standing), Decision::Apply { .. }), "{standing:?}");
            }
        }
    }
}

/// The decision a second time, written as the table in the guarantees reads: row by row, the first that holds. It is
/// made of plain integers and shares no line with the code.
mod oracle {
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Case {
        pub(super) token: u64,
        pub(super) epoch_of_token: u32,
        pub(super) known_epoch: u32,
        pub(super) floor: u64,
        pub(super) fence: u64,
        pub(super) unfenced_floor: u64,
        pub(super) safety: bool,
        pub(super) verifies: bool,
        pub(super) operation: bool,
        pub(super) recorded: Recorded,
        pub(super) born: u64,
        pub(super) horizon: u64,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Recorded {
        Nothing,
        Same,
        Other,
    }

    /// (row, greater than the fence): 0 stands for "never" in every column, because 0 is no token.
    pub(super) fn answer(case: Case) -> (&'static str, bool) {
        let Case { token, floor, fence, unfenced_floor, operation, recorded, born, horizon, .. } = case;
        let known = case.epoch_of_token <= case.known_epoch;
        let in_order = known && token >= floor && token >= fence && (fence != 0 || token >= unfenced_floor);
        let above = token > fence;
        let table = [
            (operation && born > token, "born above the token", false),
            (!case.safety, "wrong contract", false),
            (!case.verifies, "unverified", false),
            (operation && recorded == Recorded::Same, "replay", in_order && above),
            (operation && recorded == Recorded::Other, "conflict", false),
            (operation && born != 0 && born < horizon, "too old", false),
            (!known, "unknown epoch", false),
            (!in_order, "stale", false),
            (true, "apply", above),
        ];
        let (_, row, raise) = table.into_iter().find(|(holds, ..)| *holds).unwrap();
        (row, raise)
    }
}

fn row(decision: &Result<Decision, Invalid>) -> (&'static str, bool) {
    match decision {
        Err(_) => ("born above the token", false),
        Ok(Decision::Apply { raise }) => ("apply", *raise),
        Ok(Decision::Replay { raise }) => ("replay", *raise),
        Ok(Decision::Reject(rejection)) => match rejection {
            Rejection::WrongContract => ("wrong contract", false),
            Rejection::Unverified => ("unverified", false),
            Rejection::OperationConflict => ("conflict", false),
            Rejection::OperationTooOld => ("too old", false),
            Rejection::UnknownEpoch { .. } => ("unknown epoch", false),
            Rejection::Stale { .. } => ("stale", false),
            Rejection::Closed(_)
            | Rejection::Missing
            | Rejection::WrongDomain
            | Rejection::WrongIssuer
            | Rejection::OperationInProgress
            | Rejection::NotCurrent => panic!("not of this world: {rejection}"),
        },
    }
}

fn check(case: oracle::Case) {
    let bound = |number: u64| (number != 0).then(|| Token::from_integer(number).unwrap());
    let (issuer, domain, operation) =
        (issuer("prod"), domain("d"), Operation { born: bound(case.born), ..operation(b"a") });
    let recorded = match case.recorded {
        oracle::Recorded::Nothing => None,
        oracle::Recorded::Same => Some(operation.fingerprint),
        oracle::Recorded::Other => Some(Fingerprint::of(b"b")),
    };
    let standing = Standing {
        known_epoch: Epoch::new(case.known_epoch).unwrap(),
        floor: bound(case.floor),
        unfenced_floor: bound(case.unfenced_floor),
        fence: bound(case.fence),
        horizon: bound(case.horizon),
        recorded,
        ..fenced()
    };
    let presented = Presented {
        contract: if case.safety { Contract::Safety } else { Contract::Admission },
        token: bound(case.token),
        proof: if case.verifies { Proof::Verified } else { Proof::Wrong },
        operation: Some(&operation).filter(|_| case.operation),
        ..Presented::token(&issuer, &domain, token("0.1"))
    };
    assert_eq!(row(&decide(&presented, &standing)), oracle::answer(case), "{case:?}");
}

/// Mutants that this table has found: an equal token refused; a token equal to the floor refused; staleness before the
/// record; a replay that raises out of order, or never; the unfenced floor applied beside a fence; the horizon taken as
/// inclusive; the epoch looked at last.
#[test]
fn the_decision_is_the_table_in_every_case_of_a_small_world() {
    let numbers = [0, token("0.2").as_u64(), token("0.3").as_u64(), token("1.1").as_u64()];
    let presented = ["0.1", "0.2", "0.3", "0.4", "1.1", "1.2", "2.1"].map(token);
    let mut cases = 0_u64;
    for token in presented {
        for known_epoch in [0, 1] {
            for floor in numbers {
                for fence in numbers {
                    for unfenced_floor in numbers {
                        let base = oracle::Case {
                            token: token.as_u64(),
                            epoch_of_token: token.epoch().get(),
                            known_epoch,
                            floor,
                            fence,
                            unfenced_floor,
                            safety: true,
                            verifies: true,
                            operation: false,
                            recorded: oracle::Recorded::Nothing,
                            born: 0,
                            horizon: 0,
                        };
                        for (safety, verifies) in [(true, true), (true, false), (false, true), (false, false)] {
                            cases += with_operations(oracle::Case { safety, verifies, ..base }, numbers);
                        }
                    }
                }
            }
        }
    }
    assert!(cases > 170_000, "{cases} cases");
}

fn with_operations(base: oracle::Case, numbers: [u64; 4]) -> u64 {
    let mut cases = 1;
    check(base);
    for recorded in [oracle::Recorded::Nothing, oracle::Recorded::Same, oracle::Recorded::Other] {
        for born in numbers {
            for horizon in numbers {
                check(oracle::Case { operation: true, recorded, born, horizon, ..base });
                cases += 1;
            }
        }
    }
    cases
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn any_token() -> impl Strategy<Value = Token> {
        prop_oneof![1..40_u64, Just(i64::MAX as u64), (1..=i64::MAX as u64)]
            .prop_map(|n| Token::from_integer(n).unwrap())
    }

    prop_compose! {
        fn any_standing()(
            epoch in 0..=Epoch::MAX.get(),
            floor in prop::option::of(any_token()),
            unfenced_floor in prop::option::of(any_token()),
            fence in prop::option::of(any_token()),
            horizon in prop::option::of(any_token()),
        ) -> Standing {
            Standing {
                floor, unfenced_floor, fence, horizon,
                ..Standing::open(issuer("prod"), domain("d"), Epoch::new(epoch).unwrap())
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_below_a_fence_is_ever_applied_and_no_raise_lowers_one(standing in any_standing(), token in any_token()) {
            let (issuer, domain) = (issuer("prod"), domain("d"));
            if let Decision::Apply { raise } = decided(&Presented::token(&issuer, &domain, token), &standing) {
                prop_assert!(standing.fence.is_none_or(|fence| token >= fence));
                prop_assert!(standing.floor.is_none_or(|floor| token >= floor));
                prop_assert_eq!(raise, standing.fence != Some(token));
            }
        }

        #[test]
        fn of_two_tokens_of_known_epochs_the_greater_is_accepted_where_the_smaller_is(
            standing in any_standing(), a in any_token(), b in any_token()
        ) {
            let (issuer, domain, less, more) = (issuer("prod"), domain("d"), a.min(b), a.max(b));
            let applied = |token| matches!(
                decided(&Presented::token(&issuer, &domain, token), &standing), Decision::Apply { .. }
            );
            if applied(less) && more.epoch() <= standing.known_epoch {
                prop_assert!(applied(more));
            }
        }

        #[test]
        fn once_applied_a_retry_is_replayed_under_whatever_token(
            standing in any_standing(), token in any_token(), later in any_token()
        ) {
            let (issuer, domain, operation) = (issuer("prod"), domain("d"), operation(b"a"));
            let first = Presented::token(&issuer, &domain, token).with_operation(&operation);
            if let Decision::Apply { .. } = decided(&first, &standing) {
                let fence = standing.fence.max(Some(token));
                let after = Standing { fence, recorded: Some(operation.fingerprint), ..standing };
                let retry = Presented::token(&issuer, &domain, later).with_operation(&operation);
                let replayed = decided(&retry, &after);
                let raises = later > token && later.epoch() <= after.known_epoch && Some(later) > fence;
                prop_assert_eq!(replayed, Decision::Replay { raise: raises });
            }
        }
    }
}

#[test]
fn every_rejection_has_its_name_in_the_list() {
    let (presented, least_accepted, known) = (token("2.1"), token("2.2"), Epoch::new(1).unwrap());
    let all = [
        Rejection::Closed(Closure::NotGuarded),
        Rejection::Missing,
        Rejection::WrongDomain,
        Rejection::WrongContract,
        Rejection::WrongIssuer,
        Rejection::Unverified,
        Rejection::OperationConflict,
        Rejection::OperationInProgress,
        Rejection::OperationTooOld,
        Rejection::UnknownEpoch { presented, known },
        Rejection::Stale { presented, least_accepted, by: RejectedBy::Fence },
        Rejection::NotCurrent,
    ];
    assert_eq!(all.map(|rejection| rejection.code()), Rejection::CODES);
}
