//! The scene in which every resource is copied back to an earlier state: noticed by the counters that callers have seen,
//! closed, recovered, and used again, with nothing older accepted.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use fencepost_coordinator::Coordinator as _;
use fencepost_core::{Domain, fence::LiveLease};
use fencepost_receiver::{ReceiverSeed, Seen};
use fencepost_rusqlite::{incarnation, recover};
use fencepost_testkit::{
    history::{Action, Answer, Call, Doing, Outcome},
    torture::Recorder,
};

use crate::{
    nemesis::Nemesis,
    subject::{Kind, SUBJECTS, Store, Subject},
    worker::OLDER_REFUSED,
};

impl Nemesis {
    /// Nothing where the workers did not come to rest, or did not go on, in time: it may be begun again then. What is not
    /// as it should be after the copying is broken.
    pub(crate) fn copy_back(&mut self) -> Option<()> {
        let fenced = || SUBJECTS.into_iter().filter(|subject| subject.is_fenced());
        self.hush()?;
        let (resources, backup) = (self.root.join("resources"), self.root.join("backup"));
        copy(&resources, &backup);
        let before = self.contents();
        self.go_on();
        for subject in fenced() {
            self.with_focus(subject, |this| {
                this.soon(|| (this.contents()[subject.label] != before[subject.label]).then_some(()))
            })?;
        }

        self.hush()?;
        if self.see_it_through(&backup, &resources).is_none() {
            self.verdict.broken.push("copied back: not noticed, not closed, or not opened again".to_owned());
        }
        Some(())
    }

    fn see_it_through(&mut self, backup: &Path, resources: &Path) -> Option<()> {
        let fenced = || SUBJECTS.into_iter().filter(|subject| subject.is_fenced());
        self.end_generation();
        copy(backup, resources);
        self.generation += 1;
        self.gates.write("generation", &self.generation.to_string());
        self.gates.write("seen", &serde_json::to_string(&self.seen).unwrap());
        self.go_on();
        // Whoever comes finds it closed, because everybody knows how far the counters had come.
        for subject in fenced() {
            self.with_focus(subject, |this| this.somebody_got(subject, is_closed))?;
        }
        if let Some(subject) = fenced().find(|subject| self.got(*subject, |call| call.outcome == Outcome::Applied)) {
            let label = subject.label;
            self.verdict
                .broken
                .push(format!("I11: {label} was copied back and accepted something before its recovery"));
        }

        self.recover_all();
        for subject in fenced() {
            self.with_focus(subject, |this| {
                let is_applied =
                    |call: &Call| matches!((&call.action, &call.outcome), (Action::Write { .. }, Outcome::Applied));
                this.somebody_got(subject, is_applied)
            })?;
        }
        // Workers try it by themselves now and then. Nothing is broken where none has; whether the run shows enough then
        // is for its judge.
        let is_refused = || self.texts("notes").contains(OLDER_REFUSED).then_some(());
        let _ = self.soon_by_looking_every(Duration::from_millis(50), is_refused);
        Some(())
    }

    /// Waits until all workers do nothing and no lease is live, and takes over what they have seen.
    fn hush(&mut self) -> Option<()> {
        // Whoever was told to go on a moment ago may not have done so yet.
        self.soon(|| {
            self.worker_names().iter().all(|name| !self.gates.is_there(&format!("quiet.{name}"))).then_some(())
        })?;
        self.gates.put("quiet");
        for name in self.worker_names() {
            let gate = format!("quiet.{name}");
            let text = self.soon(|| self.gates.text(&gate))?;
            for (resource, counter) in serde_json::from_str::<BTreeMap<String, u64>>(&text).unwrap() {
                let seen = self.seen.entry(resource).or_default();
                *seen = counter.max(*seen);
            }
        }
        self.soon(|| {
            let snapshot = self.runtime.block_on(self.coordinator.snapshot(String::new())).ok()?;
            snapshot.leases.is_empty().then_some(())
        })
    }

    fn go_on(&self) {
        self.gates.take_away("quiet");
    }

    fn with_focus(&mut self, subject: Subject, act: impl FnOnce(&Self) -> Option<()>) -> Option<()> {
        self.gates.write("focus", subject.label);
        let came = act(self);
        self.gates.take_away("focus");
        came
    }

    fn contents(&self) -> BTreeMap<&'static str, String> {
        let store = Store::open(&self.root, &BTreeMap::new()).unwrap();
        let content =
            |subject: Subject| store.read(subject).map_or_else(|_| String::new(), |set| set.as_str().to_owned());
        SUBJECTS.into_iter().map(|subject| (subject.label, content(subject))).collect()
    }

    /// Whether a call of this generation was answered like that.
    fn got(&self, subject: Subject, is_it: impl Fn(&Call) -> bool) -> bool {
        let (resource, domain) = (subject.resource(self.generation), subject.domain());
        let calls = self.history("history").calls;
        calls.iter().any(|call| call.resource == resource && call.domain == domain.as_str() && is_it(call))
    }

    pub(crate) fn somebody_got(&self, subject: Subject, is_it: impl Fn(&Call) -> bool) -> Option<()> {
        // It reads whole histories to see it.
        self.soon_by_looking_every(Duration::from_millis(50), || self.got(subject, &is_it).then_some(()))
    }

    /// As an operator does it: note the incarnation, read the coordinator once, recover.
    fn recover_all(&mut self) {
        let path = self.root.join("histories/nemesis.history");
        let mut recorder = Recorder::create(&path, "recovery", u32::MAX, 0).unwrap();
        let store = Store::open(&self.root, &BTreeMap::new()).unwrap();
        let mut connection = store.database.connect().unwrap();
        let noted = incarnation(&connection).unwrap();
        let seed = self.seed();
        let seen = Seen::from_counter(self.seen["database"]);
        let rows = SUBJECTS.into_iter().filter(|subject| subject.kind == Kind::Sqlite && subject.is_fenced());
        let raised = self.raises(&mut recorder, rows, &seed);
        recover(&mut connection, &noted, &seed, &seen).unwrap();
        raised.into_iter().for_each(|call| recorder.answer(call, Answer::Applied, |_| {}).unwrap());
        let files = SUBJECTS.into_iter().filter(|subject| subject.kind == Kind::File && subject.is_fenced());
        for subject in files {
            let receiver = store.file(subject).clone().with_seen(Seen::from_counter(self.seen[subject.label]));
            let noted = receiver.incarnation().unwrap();
            let seed = self.seed();
            let raised = self.raises(&mut recorder, [subject], &seed);
            receiver.recover(&subject.domain(), &noted, &seed).unwrap();
            raised.into_iter().for_each(|call| recorder.answer(call, Answer::Applied, |_| {}).unwrap());
        }
    }

    /// A recovery raises the fences of live leases: for the checker it is an advance of each.
    fn raises(
        &self,
        recorder: &mut Recorder,
        subjects: impl IntoIterator<Item = Subject>,
        seed: &ReceiverSeed,
    ) -> Vec<u64> {
        let subjects: Vec<Subject> = subjects.into_iter().collect();
        let of = |domain: &Domain| subjects.iter().find(|subject| subject.domain() == *domain);
        let live = seed.live.iter().filter_map(|live| Some((of(&live.domain)?, live)));
        let call = |(subject, live): (&Subject, &LiveLease)| {
            recorder.call(Doing::Advance, live.domain.as_str(), |line| {
                line.resource = Some(subject.resource(self.generation));
                line.token = Some(live.token.to_string());
            })
        };
        live.map(call).collect::<Result<_, _>>().unwrap()
    }

    fn seed(&self) -> ReceiverSeed {
        let snapshot = self.runtime.block_on(self.coordinator.snapshot(String::new())).unwrap();
        ReceiverSeed::new(snapshot.issuer, snapshot.epoch).with_snapshot(snapshot.next_token.unwrap(), snapshot.leases)
    }
}

fn is_closed(call: &Call) -> bool {
    matches!(&call.outcome, Outcome::Rejected { reason } if reason == "closed")
}

/// Copies every file into the one of the same name, which stays the same file: identity shows nothing then. Lock files
/// are a receiver's place and hold nothing that a backup brings back.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        let name: PathBuf = entry.file_name().into();
        if entry.path().is_file() && name.extension().is_none_or(|extension| extension != "lock") {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}
