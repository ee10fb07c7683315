//! Every model holds within its standard bounds, and every mutant is found out.
//!
//! Mutants of the tests are the studies themselves: a study of a mutant that finds nothing fails here.

use std::fmt::Write;

use fencepost_testkit::model::{Bounds, Line, Study, studies};

/// Explores the studies that this test is responsible for, prints their figures, and fails with every story of a rule
/// that broke and every mutant that got away.
fn explore(chosen: impl Fn(&Study) -> bool) {
    let mut failures = String::new();
    for study in studies().into_iter().filter(&chosen) {
        let explored = study.explore(Bounds::Standard);
        println!("{}", Line(&study, &explored));
        if let Err(why) = study.judge(&explored) {
            let _ = writeln!(failures, "{why}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn is_a_mutant(study: &Study) -> bool {
    use fencepost_testkit::model::Expected;
    match study.expected {
        Expected::Found(_) | Expected::Limit(_) => true,
        Expected::Holds => false,
    }
}

fn is_about_time(study: &Study) -> bool {
    study.name.starts_with("leases: time")
}

#[test]
fn nothing_is_broken_by_the_rules_of_leases_in_time() {
    explore(|study| !is_a_mutant(study) && is_about_time(study));
}

#[test]
fn nothing_is_broken_by_the_other_rules() {
    explore(|study| !is_a_mutant(study) && !is_about_time(study));
}

#[test]
fn every_mutant_is_found_out() {
    explore(is_a_mutant);
}

/// The traces that the guarantees name and a model can state. One that is lost from the list is a hole in the proof.
#[test]
fn every_trace_of_the_guarantees_is_among_the_mutants() {
    let studies = studies();
    for trace in [
        "M1", "M2", "W0", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "R1", "R2", "R3", "T1", "T2", "T3",
        "T4", "S1", "Q1", "Q2", "Q3", "Q5", "O1", "O2",
    ] {
        assert!(studies.iter().any(|study| study.trace == trace && is_a_mutant(study)), "{trace}");
    }
}

/// The mistakes that a model of fencing has to find, by the names of their studies: those without a letter, and each half
/// of a trace that is two mistakes. One that is lost from the list is a hole in the proof.
#[test]
fn every_seeded_mistake_is_among_the_mutants() {
    let studies = studies();
    for name in [
        "an equal token is refused",
        "the fence is set by the last caller",
        "collection without the unfenced floor",
        "staleness is checked before replay",
        "restore without a new epoch",
        "tell is not monotone",
        "a restored receiver is only reopened",
        "[S1] a shared lease with a token for each holder",
        "[W2] collection forgets live leases",
        "[W2] collection inserts fences unchecked",
        "[W3] records go without horizon",
        "[W4] the set of domains is not in the fingerprint",
        "[W5] a replay does not raise the fence",
        "[W8] recovery forgets the live leases",
        "[T4] the first heartbeat is not durable",
        "[T4] a reboot is taken for a restart",
    ] {
        assert!(studies.iter().any(|study| study.to_string() == name && is_a_mutant(study)), "{name}");
    }
}

#[test]
fn names_of_studies_are_unique() {
    let mut names: Vec<String> = studies().iter().map(ToString::to_string).collect();
    names.sort();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}
