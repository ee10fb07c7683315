use std::collections::{BTreeMap, BTreeSet};

use super::{Block, Deed, Discipline, Kind, Lost, Plan, Recorder, Scene, Tally, Target, Verdict, Wishes, lost};
use crate::history::{Answer, Doing, check, read};

#[test]
fn a_seed_is_a_plan_and_another_seed_is_another_one() {
    let wishes = Wishes::default();
    assert_eq!(Plan::draw(1, &wishes), Plan::draw(1, &wishes));
    assert_ne!(Plan::draw(1, &wishes), Plan::draw(2, &wishes));
}

#[test]
fn what_is_begun_is_ended_in_the_same_block() {
    for seed in 0..50 {
        for block in Plan::draw(seed, &Wishes::default()).blocks {
            let Block::Chaos(steps) = block else { continue };
            assert!(steps.windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms));
            let count = |is: &dyn Fn(&Deed) -> bool| steps.iter().filter(|step| is(&step.deed)).count();
            let stops = count(&|deed| matches!(deed, Deed::Stop(_)));
            assert_eq!(stops, count(&|deed| matches!(deed, Deed::Continue(_))));
            let kills = count(&|deed| matches!(deed, Deed::Kill(Target::Server)));
            assert_eq!(kills, count(&|deed| matches!(deed, Deed::Restart)));
            assert_eq!(count(&|deed| matches!(deed, Deed::Fill(_))), count(&|deed| matches!(deed, Deed::Free(_))));
        }
    }
}

/// Of a run as long as the one in the tests, whatever its seed.
///
/// Mutants: an arm of a fault that is never drawn; turns that are drawn by chance.
#[test]
fn every_kind_of_deed_is_in_every_plan() {
    for seed in 0..200 {
        let plan = Plan::draw(seed, &Wishes::default());
        let steps = plan.blocks.iter().flat_map(|block| match block {
            Block::Chaos(steps) => steps.as_slice(),
            Block::Scene(_) => &[],
        });
        let drawn: BTreeSet<Kind> = steps.filter_map(|step| step.deed.kind()).collect();
        let missing: Vec<&Kind> = Kind::ALL.iter().filter(|kind| !drawn.contains(kind)).collect();
        assert!(missing.is_empty(), "seed {seed}: {missing:?}");
    }
}

#[test]
fn every_scene_is_played_and_chaos_stands_between_them() {
    let scenes = vec![Scene::Overtake(0), Scene::NeckAndNeck(1), Scene::CopyBack];
    let plan = Plan::draw(3, &Wishes { scenes: scenes.clone(), chaos_blocks: 2, ..Wishes::default() });
    let played: Vec<Scene> = plan
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Scene(scene) => Some(*scene),
            Block::Chaos(_) => None,
        })
        .collect();
    assert_eq!(played, scenes);
    assert!(matches!(plan.blocks[0], Block::Chaos(_)));
}

#[test]
fn a_recorded_history_can_be_checked_and_a_missing_element_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w0.jsonl");
    let mut recorder = Recorder::create(&path, "w0", 1, 0).unwrap();
    for element in ["a", "b"] {
        let write = recorder.call(Doing::Write, "set/x", |line| {
            (line.token, line.value, line.resource) =
                (Some("0.7".to_owned()), Some(element.to_owned()), Some("r".to_owned()));
        });
        recorder.answer(write.unwrap(), Answer::Applied, |_| {}).unwrap();
    }
    // A process that is killed here leaves a call without an answer.
    recorder.call(Doing::Acquire, "set/x", |_| {}).unwrap();
    let history = read(std::fs::read(&path).unwrap().as_slice()).unwrap();
    assert!(check(&history).violations.is_empty());
    assert_eq!(Tally::of_answers(&history).of("write applied"), 2);
    let place = ("r".to_owned(), "set/x".to_owned());
    let found = BTreeMap::from([(place, BTreeSet::from(["b".to_owned()]))]);
    let lost = lost(&history, &found);
    assert_eq!(lost.iter().map(|lost| lost.element.as_str()).collect::<Vec<_>>(), ["a"]);

    let mut verdict = Verdict::default();
    verdict.lose(Discipline::Unfenced, &lost[0]);
    assert!(verdict.broken.is_empty() && verdict.lost_under(Discipline::Unfenced) == 1);
    verdict.lose(Discipline::FencedOnAcquire, &lost[0]);
    assert_eq!(verdict.broken.len(), 1, "{verdict}");
    assert!(verdict.proves_nothing().is_some());
}

/// Mutant: a line of what has to have happened is taken out.
#[test]
fn a_run_in_which_something_never_came_proves_nothing() {
    let all = [
        "heartbeat done",
        "write applied",
        "write replayed",
        "write rejected: stale",
        "write rejected: operation_conflict",
    ];
    let with = |left_out: Option<&str>| {
        let mut verdict = Verdict::default();
        let lost = Lost { resource: "r".to_owned(), domain: "d".to_owned(), element: "e".to_owned() };
        verdict.lose(Discipline::Unfenced, &lost);
        verdict.lose(Discipline::FencedOnFirstWrite, &lost);
        for what in all.into_iter().filter(|what| Some(*what) != left_out) {
            (0..20).for_each(|_| verdict.answers.count(what));
        }
        verdict.proves_nothing()
    };
    assert_eq!(with(None), None);
    for what in all {
        assert!(with(Some(what)).is_some_and(|why| why.contains(what)), "{what}");
    }
}
