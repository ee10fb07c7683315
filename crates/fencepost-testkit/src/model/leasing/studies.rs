//! The studies: bounds, and which rule is taken away.

use crate::model::{
    explorer::Property,
    study::{Bounds, Expected, Study},
};

use super::{Leasing, Mistake};

/// Time and identity: the rules as they are, and each of them taken away.
pub(in crate::model) fn studies() -> Vec<Study> {
    const TIME: Leasing = Leasing {
        steps: 4,
        threads: [true, false, true],
        prompt: false,
        downtime: false,
        stalls: false,
        attempts: 1,
        heartbeats: 1,
        releases: false,
        late: 0,
        restarts: 0,
        reboots: 0,
        breaks: 0,
        breaks_excuse: true,
        mistake: None,
    };
    const STALLS: Leasing = Leasing { threads: [true, false, false], stalls: true, ..TIME };
    const RESTARTS: Leasing = Leasing { steps: 5, prompt: true, restarts: 2, ..TIME };
    const REBOOTS: Leasing = Leasing { steps: 4, downtime: true, restarts: 1, reboots: 1, ..RESTARTS };
    const IDS: Leasing =
        Leasing { steps: 1, threads: [true, true, false], attempts: 2, heartbeats: 0, releases: true, late: 1, ..TIME };
    const SUCCESSOR: Leasing =
        Leasing { steps: 0, threads: [true, false, true], attempts: 1, breaks: 1, late: 1, ..IDS };
    let holds = |name, standard: Leasing, deep: Leasing| {
        Study::new(Expected::Holds, ("", name), move |bounds| match bounds {
            Bounds::Standard => standard,
            Bounds::Deep => deep,
        })
    };
    let mut studies = vec![
        holds("leases: time and delays", TIME, Leasing { steps: 5, heartbeats: 2, ..TIME }),
        holds("leases: stalls of the coordinator", STALLS, Leasing { threads: [true, false, true], ..STALLS }),
        holds("leases: time and restarts", RESTARTS, Leasing { steps: 7, heartbeats: 2, ..RESTARTS }),
        holds("leases: time and reboots", REBOOTS, Leasing { steps: 5, restarts: 2, ..REBOOTS }),
        holds("leases: requests, holds and late copies", IDS, Leasing { late: 2, restarts: 1, ..IDS }),
        holds("leases: what is late and its successor", SUCCESSOR, Leasing { steps: 3, restarts: 1, ..SUCCESSOR }),
    ];
    studies.push(Study::new(
        Expected::Limit(Property::I9),
        ("", "leases: an operator's break does not wait for the holder's deadline"),
        |_| Leasing { breaks_excuse: false, ..SUCCESSOR },
    ));
    let mutants = [
        (IDS, Mistake::RequestIdPerAttempt, Property::Freed, ("R1", "a retried acquire has an id of its own")),
        (IDS, Mistake::HoldsCounted, Property::I10, ("R2", "holds are counted and not named")),
        (IDS, Mistake::IdsForgottenAtRelease, Property::Freed, ("R3", "request ids are forgotten at release")),
        (TIME, Mistake::WholeTtl, Property::I9, ("T1", "a grant is answered with a whole TTL")),
        (RESTARTS, Mistake::GrantsGuessedReceived, Property::I8, ("T2", "a heartbeat renews what it does not name")),
        (RESTARTS, Mistake::GraceAtEveryRestart, Property::I8, ("T3", "a grace at every restart")),
        (RESTARTS, Mistake::FirstHeartbeatNotDurable, Property::I9, ("T4", "the first heartbeat is not durable")),
        (REBOOTS, Mistake::RebootNotNoticed, Property::I8, ("T4", "a reboot is taken for a restart")),
        (TIME, Mistake::DeadlineFromArrival, Property::I9, ("", "the deadline counts from the answer's arrival")),
        (TIME, Mistake::ClockStandsStill, Property::I9, ("", "the holder's clock does not count suspended time")),
        (STALLS, Mistake::StallForgiven, Property::I8, ("", "a stall of the coordinator is forgiven")),
        (RESTARTS, Mistake::AnswersBeforeCommit, Property::I1, ("", "answers leave before their records are durable")),
        (SUCCESSOR, Mistake::ReleaseNamesTheDomain, Property::I10, ("", "a release names the domain")),
        (SUCCESSOR, Mistake::BreakNamesTheDomain, Property::I10, ("", "a break names the domain")),
    ];
    for (model, mistake, property, name) in mutants {
        let mutant = Leasing { mistake: Some(mistake), ..model };
        studies.push(Study::new(Expected::Found(property), name, move |_| mutant));
    }
    studies
}
