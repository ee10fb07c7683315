//! One write over several domains.

use fencepost_core::{
    Domain, Epoch, Grant,
    fence::{Rejection, Verdict},
};
use fencepost_receiver::VerdictCode::{self, Applied, OperationConflict, Replayed, StaleToken};

use crate::conformance::{
    Ability,
    build::{operation, token, write},
    stage::{Answer, Failure, Stage, Teller, Told, domain, of_write},
    step::Claim,
};

fn grants(of: &[(&str, &str)]) -> Vec<Grant> {
    of.iter().map(|(name, text)| Claim::new(&domain(name), token(text)).grant()).collect()
}

fn write_all(
    stage: &mut Stage<'_>,
    of: &[(&str, &str)],
    id: Option<&str>,
    value: &str,
    right: VerdictCode,
) -> Result<(), Failure> {
    let operation = id.map(|id| operation(id, id));
    let answer = of_write(stage.handle(0)?.write_all(&grants(of), operation.as_ref(), value.as_bytes()), Some);
    let under: Vec<String> = of.iter().map(|(name, text)| format!("{text} of {name:?}")).collect();
    let named = id.map(|id| format!(" as operation {id:?}")).unwrap_or_default();
    stage.say(format!("write {value:?} under tokens {}{named}: {answer}", under.join(" and ")));
    match &answer {
        Answer::Verdict(verdict) if VerdictCode::of(verdict) == right => Ok(()),
        Answer::Verdict(_) | Answer::Invalid(_) | Answer::Nothing(_) | Answer::Unknown(_) | Answer::Done => {
            Err(stage.broken(format!("the answer must be: {right}")))
        }
    }
}

fn hold(stage: &mut Stage<'_>, right: [&str; 2]) -> Told {
    for (domain, right) in [domain("d"), domain("e")].iter().zip(right) {
        if stage.value(domain)?.as_deref() != Some(right.as_bytes()) {
            return Err(stage.broken(format!("the value of {domain} must be {right:?}")));
        }
    }
    Ok(())
}

/// Mutants: domains are decided and written one after the other; fences are raised before all were decided.
pub(crate) fn a_write_over_two_domains_is_applied_under_both_tokens_or_none(teller: &Teller<'_>) -> Told {
    let domains: [Domain; 2] = [domain("d"), domain("e")];
    let mut stage = teller.stage_with(Epoch::ZERO, &domains)?;
    stage.then(write("0.5", "a"), Applied)?;
    stage.then(write("0.9", "b").of("e"), Applied)?;
    write_all(&mut stage, &[("d", "0.7"), ("e", "0.8")], None, "half", StaleToken)?;
    write_all(&mut stage, &[("e", "0.9"), ("d", "0.4")], None, "half", StaleToken)?;
    hold(&mut stage, ["a", "b"])?;
    stage.then(write("0.6", "the fence was not raised"), Applied)?;
    write_all(&mut stage, &[("e", "0.10"), ("d", "0.7")], None, "both", Applied)?;
    hold(&mut stage, ["both", "both"])?;
    let late = Claim::new(&domain("d"), token("0.6")).grant();
    let answer = of_write(stage.handle(0)?.write(&domain("d"), &late, None, b"late"), Some);
    if !matches!(answer, Answer::Verdict(Verdict::Rejected(Rejection::Stale { .. }))) {
        return Err(stage.broken("the write over both domains must have raised both fences"));
    }
    if teller.has(Ability::OperationRecords) {
        let both = [("d", "0.20"), ("e", "0.21")];
        write_all(&mut stage, &both, Some("x"), "once", Applied)?;
        write_all(&mut stage, &[("e", "0.31"), ("d", "0.30")], Some("x"), "once", Replayed)?;
        write_all(&mut stage, &[("d", "0.30")], Some("x"), "once", OperationConflict)?;
        hold(&mut stage, ["once", "once"])?;
    }
    Ok(())
}
