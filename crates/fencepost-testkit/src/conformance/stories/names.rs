//! Names at their limits, and names that some storage takes for one another.

use fencepost_core::{Domain, Epoch, limits};
use fencepost_receiver::VerdictCode::{Applied, Replayed, StaleToken};

use crate::conformance::{
    Ability,
    build::{token, write, write_to},
    stage::{Teller, Told, domain},
};

fn at_their_limits() -> Vec<String> {
    vec![
        "d".into(),
        "a".repeat(limits::DOMAIN_BYTES),
        "a".repeat(limits::DOMAIN_BYTES - 1),
        "é".repeat(limits::DOMAIN_BYTES / 2),
        "𝔡".repeat(limits::DOMAIN_BYTES / 4),
    ]
}

fn odd() -> Vec<String> {
    [
        "D",
        "d ",
        " d",
        "d.",
        "d/",
        "../d",
        "d/../e",
        "'",
        "\"",
        "'; DROP TABLE held; --",
        "$1",
        "?1",
        ":d",
        "%",
        "_",
        "*",
        "\\",
        "\\'",
        "{}",
        "<d>",
        "d&e",
        "d=e;f",
        "é",
        "e\u{301}",
        "ß",
        "ss",
        "İ",
        "i",
        "ı",
        "\u{feff}d",
        "d\u{200b}",
        "\u{202e}d",
        "0",
        "00",
        "0.0",
        "1e3",
        "1000",
        "NULL",
        "null",
        "true",
        "日本語",
        "🦀",
        "\u{10ffff}",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Mutants: a column too short for a name; names compared without case, accents or spaces at the end; names in a query's text.
pub(crate) fn odd_and_long_domains_are_kept_apart(teller: &Teller<'_>) -> Told {
    let domains: Vec<Domain> = at_their_limits().into_iter().chain(odd()).map(|name| domain(&name)).collect();
    let apart = if teller.has(Ability::SeveralDomains) { domains.len() } else { 1 };
    for domains in domains.chunks(apart) {
        let mut stage = teller.stage_with(Epoch::ZERO, domains)?;
        // Falling tokens: each of them would be stale in the domain before.
        let tokens: Vec<_> = (0..domains.len()).map(|at| token(&format!("0.{}", 1000 - at))).collect();
        for (domain, token) in domains.iter().zip(&tokens) {
            stage.then(write_to(domain, *token, &format!("of {domain}")), Applied)?;
        }
        for (domain, token) in domains.iter().zip(&tokens) {
            let older = token.as_u64() - 1;
            let older = fencepost_core::Token::from_integer(older).expect("a token");
            stage.then(write_to(domain, older, "late"), StaleToken)?;
        }
        stage.same_state()?;
    }
    Ok(())
}

/// Mutants: as for domains, in the key of the operation records.
pub(crate) fn odd_and_long_operation_ids_are_kept_apart(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    let mut ids = odd();
    ids.extend(["x".repeat(limits::OPERATION_ID_BYTES), "x".repeat(limits::OPERATION_ID_BYTES - 1)]);
    for id in &ids {
        stage.then(write("0.5", id).operation(id).request("same"), Applied)?;
    }
    for id in &ids {
        stage.then(write("0.6", id).operation(id).request("same"), Replayed)?;
    }
    Ok(())
}
