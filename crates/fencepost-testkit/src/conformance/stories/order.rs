//! Which tokens may write.

use fencepost_core::{
    Contract, Epoch, Grant, Token,
    fence::{Presented, Proof},
};
use fencepost_receiver::VerdictCode::{
    Applied, MissingToken, StaleToken, UnknownEpoch, Unverified, WrongContract, WrongDomain, WrongIssuer,
};

use crate::conformance::{
    build::{advance, read, tell, token, write, write_to},
    stage::{Teller, Told, domain},
    step::Claim,
};

/// Mutant: an equal token is refused. The holder's second write would be its last.
pub(crate) fn an_equal_token_is_the_same_owner(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.then(write("0.5", "b"), Applied)?;
    stage.then(advance("0.5"), Applied)?;
    stage.then(write("0.5", "c").through_another_handle(), Applied)
}

/// Mutant: tokens are compared for equality; the fence is what the last caller brought.
pub(crate) fn an_older_token_is_refused_after_a_write(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.then(write("0.7", "b"), Applied)?;
    stage.then(write("0.5", "late"), StaleToken)?;
    stage.then(write("0.6", "late"), StaleToken)?;
    stage.then(write("0.7", "c"), Applied)?;
    stage.then(write("0.6", "late").through_another_handle(), StaleToken)?;
    stage.then(write("0.900", "gaps are normal"), Applied)?;
    stage.then(write("0.899", "late"), StaleToken)
}

/// Mutants: an advance that does nothing; an advance that lowers.
pub(crate) fn an_advance_raises_the_fence_and_never_lowers_it(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.then(advance("0.7"), Applied)?;
    stage.then(write("0.6", "late"), StaleToken)?;
    stage.then(advance("0.6"), StaleToken)?;
    stage.then(write("0.6", "late"), StaleToken)?;
    stage.then(advance("0.7").through_another_handle(), Applied)?;
    stage.then(write("0.7", "b"), Applied)
}

/// Mutant: a read that looks and does not raise.
pub(crate) fn a_fenced_read_shuts_out_older_tokens(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(read("0.4"), Applied)?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.then(read("0.6"), Applied)?;
    stage.then(write("0.5", "late"), StaleToken)?;
    stage.then(read("0.5"), StaleToken)?;
    stage.then(read("0.6").through_another_handle(), Applied)
}

/// Mutants: tokens as texts; epoch and sequence compared apart.
pub(crate) fn tokens_are_ordered_as_integers(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.9", "a"), Applied)?;
    stage.then(write("0.10", "b"), Applied)?;
    stage.then(write("0.9", "late"), StaleToken)?;
    stage.then(write("0.8796093022207", "the last of its epoch"), Applied)?;
    stage.then(write("1.1", "the first of the next"), Applied)?;
    stage.then(write("0.8796093022207", "late"), StaleToken)
}

/// Mutants: a 32-bit token; a token as a floating-point number, which cannot tell neighbours apart from 2^53 on.
pub(crate) fn the_greatest_tokens_are_told_apart(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage_with(Epoch::MAX, &[domain("d")])?;
    let near = |number: u64| Token::from_integer(number).expect("a token");
    let d = domain("d");
    for number in [u64::from(u32::MAX), 1 << 53, i64::MAX as u64 - 3] {
        stage.then(write_to(&d, near(number), "first"), Applied)?;
        stage.then(write_to(&d, near(number + 2), "second"), Applied)?;
        stage.then(write_to(&d, near(number + 1), "late"), StaleToken)?;
        stage.then(write_to(&d, near(number + 2), "third"), Applied)?;
    }
    stage.then(write_to(&d, Token::MAX, "last"), Applied)?;
    stage.then(write_to(&d, near(i64::MAX as u64 - 1), "late"), StaleToken)?;
    stage.then(write_to(&d, near(1), "late"), StaleToken)
}

/// Mutant: any epoch is taken. One absurd number would then shut everybody out.
pub(crate) fn an_unknown_epoch_is_refused_and_shuts_nobody_out(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let d = domain("d");
    stage.then(write("2.1", "too early"), UnknownEpoch)?;
    stage.then(advance("2.1"), UnknownEpoch)?;
    stage.then(write_to(&d, Token::MAX, "absurd"), UnknownEpoch)?;
    stage.then(write("1.5", "a"), Applied)?;
    stage.then(write("0.5", "late"), StaleToken)
}

/// Mutants: a floor that binds only domains without a fence; what is told last counts.
pub(crate) fn what_a_recovery_tells_binds_every_domain_and_only_rises(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("1.5", "a"), Applied)?;
    stage.then(write("2.1", "too early"), UnknownEpoch)?;
    stage.done(tell(2, "2.1"))?;
    stage.then(write("1.5", "of the lost epoch"), StaleToken)?;
    stage.then(advance("1.9"), StaleToken)?;
    stage.done(tell(1, "1.1"))?;
    stage.then(write("1.5", "of the lost epoch"), StaleToken)?;
    stage.then(write("2.1", "b"), Applied)
}

/// Mutant: the issuer is not looked at.
pub(crate) fn a_grant_of_another_issuer_changes_nothing(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.9", "foreign").issued_by("other"), WrongIssuer)?;
    stage.then(advance("0.9").issued_by("Prod"), WrongIssuer)?;
    stage.then(write("0.5", "a"), Applied)
}

/// Mutant: the domain is not looked at.
pub(crate) fn a_grant_for_another_domain_changes_nothing(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.then(write("0.9", "foreign").under_a_grant_of("other"), WrongDomain)?;
    stage.then(write("0.9", "foreign").under_a_grant_of("D"), WrongDomain)?;
    stage.then(write("0.6", "b"), Applied)
}

/// Mutant: one fence for all.
pub(crate) fn domains_are_independent(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage_with(Epoch::ZERO, &[domain("d"), domain("e")])?;
    stage.then(write("0.9", "a"), Applied)?;
    stage.then(write("0.5", "b").of("e"), Applied)?;
    stage.then(advance("0.6").of("e"), Applied)?;
    stage.then(write("0.5", "late").of("e"), StaleToken)?;
    stage.then(write("0.9", "c"), Applied)
}

/// Mutants: a missing token is "not fenced"; a wrong signature counts as none.
pub(crate) fn what_is_no_grant_changes_nothing(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    stage.then(write("0.5", "a"), Applied)?;
    let grant: Grant = Claim::new(&domain("d"), token("0.9")).grant();
    let whole = || Presented::grant(&grant);
    let d = domain("d");
    let cases = [
        ("without a token", Presented { token: None, ..whole() }, MissingToken),
        ("under contract admission", Presented { contract: Contract::Admission, ..whole() }, WrongContract),
        ("under contract advisory", Presented { contract: Contract::Advisory, ..whole() }, WrongContract),
        ("under a wrong signature", Presented { proof: Proof::Wrong, ..whole() }, Unverified),
    ];
    for (what, presented, expected) in cases {
        let found = stage.present(what, &d, &presented, "not fenced")?;
        assert_eq!(found, Some(expected), "the reference disagrees with the story: {what}");
    }
    stage.then(write("0.5", "b"), Applied)
}
