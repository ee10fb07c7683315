//! The well-known shell example, which loses updates with a lock alone: several workers count up a file, and are stopped
//! past the TTL and killed meanwhile.

use std::time::Duration;

use crate::{
    common::Server,
    crowd::{Crowd, Tally},
};

/// Workers that are stopped past the TTL and killed at random, and then two who are overtaken for certain: what the late
/// write of each ends with.
fn disturbed(crowd: &Crowd<'_>, late: i32) -> Tally {
    crowd.work(|crowd| {
        crowd.disturb(Duration::from_secs(6), 0x5eed);
        for _ in 0..2 {
            assert_eq!(crowd.overtake(), (late, 0), "the late write, and that of the owner");
        }
    })
}

/// Mutant: `run` does not advance. The test below is that mutant.
#[test]
fn eight_workers_count_without_losing_an_update_whoever_is_stopped_or_killed() {
    let server = Server::start();
    let shell = server.shell();
    let crowd = Crowd::new(&shell, &["--advance", "file:f"]);
    let tally = disturbed(&crowd, 81);
    let applied = u64::try_from(tally.applied.len()).unwrap();
    let unreported = u64::try_from(tally.unreported.len()).unwrap();
    assert_eq!(tally.lost(), 0, "{tally:?}");
    assert!(applied <= tally.counter && tally.counter <= applied + unreported, "{tally:?}");
    // Each number up to the counter was read by one accepted write, or by one whose worker could not report.
    for read in 0..tally.counter {
        assert!(
            tally.applied.contains(&read) || tally.unreported.contains(&read),
            "nobody wrote after {read}: {tally:?}"
        );
    }
    assert!(tally.applied.iter().all(|read| *read < tally.counter), "{tally:?}");
    assert!(applied > 5 && tally.rejected >= 2, "the workers got somewhere, and somebody came late: {tally:?}");
}

/// Else the test above would prove nothing: the same workers, stopped and killed alike.
#[test]
fn the_same_workers_lose_an_update_when_nobody_advances() {
    let server = Server::start();
    let shell = server.shell();
    let crowd = Crowd::new(&shell, &[]);
    let tally = disturbed(&crowd, 0);
    assert!(tally.lost() > 0 && u64::try_from(tally.applied.len()).unwrap() > tally.counter, "{tally:?}");
}
