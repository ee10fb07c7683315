use std::{collections::HashMap, path::Path};

use fencepost_core::{
    Epoch, Issuer,
    fence::{Closure, Operation, Rejection, Verdict},
};
use fencepost_receiver::{
    ReceiverSeed, WriteError,
    file::{Content, FileReceiver},
};

use super::{
    effect,
    reference::{Reference, Undecided},
    script::{Step, domain, steps},
};

/// The only domain of the file.
const PLACE: usize = 0;

pub fn taken() {
    assert_eq!(played(&super::GOOD.concat()), Some(2), "the last write that counts");
}

/// The memory receiver and the file receiver, which has one domain and replaces its file as a whole.
pub fn file(bytes: &[u8]) {
    played(bytes);
}

/// The step whose content is left.
fn played(bytes: &[u8]) -> Option<i64> {
    let issuer = Issuer::new("fuzz").expect("a name");
    let seed = ReceiverSeed::new(issuer.clone(), Epoch::new(1).expect("an epoch"));
    let folder = folder();
    let receiver = FileReceiver::new(folder.path().join("f"));
    receiver.guard(&domain(PLACE), Some(&seed)).expect("a new file is guarded");
    let mut sides = Sides { reference: Reference::new(&seed), receiver, contents: HashMap::new(), last: None };
    for step in steps(bytes, &issuer).filter(|step| step.place() == PLACE) {
        sides.take(&step, &issuer);
        let stored = std::fs::read(sides.receiver.path()).ok();
        assert_eq!(stored, sides.last.map(|at| text(at).into_bytes()), "{step:?}: the file");
    }
    sides.compare_records();
    sides.last
}

/// In memory where the machine has such a place: what is compared does not depend on a disk.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder for the file")
}

fn text(at: i64) -> String {
    at.to_string()
}

struct Sides {
    reference: Reference,
    receiver: FileReceiver,
    /// What each step has left, as the file receiver describes it.
    contents: HashMap<Vec<u8>, Content>,
    /// The step that wrote last.
    last: Option<i64>,
}

impl Sides {
    fn take(&mut self, step: &Step<'_>, issuer: &Issuer) {
        match step.what % 16 {
            0 => {
                let here = self.reference.memory().advance_now(&step.grant()).map_err(drop);
                let there = self.receiver.advance_blocking(&step.grant()).map_err(drop);
                assert_eq!(here, there.map(told), "{step:?}");
            }
            1 => {
                let here = self.reference.memory().advance_now(&step.grant()).map_err(drop);
                let there = self.receiver.read(&step.grant()).map_err(drop);
                let there = there.map(|verdict| told(verdict.map(|file| file.is_some())));
                assert_eq!(here.map(|verdict| verdict.map(|()| self.last.is_some())), there, "{step:?}");
            }
            2..=4 | 6 | 12..=14 => self.write(step, Some(&step.operation())),
            5 | 15 => self.write(step, None),
            7 | 8 => {
                let (next, live) = (step.next(), step.live());
                let horizon = (step.what % 16 == 8).then(|| step.token());
                let here = self.reference.memory().register().collect(next, &live);
                let there = self.receiver.collect(next, &live, horizon);
                assert_eq!(matches!(here, Verdict::Rejected(_)), there.is_err(), "{step:?}: collection at {next}");
                if let (Ok(_), Some(horizon)) = (there, horizon) {
                    self.reference.memory().register().collect_operations(horizon);
                }
            }
            // To guard it again would open it.
            9 if self.reference.is_closed => {}
            9 => {
                let seed = ReceiverSeed::new(issuer.clone(), step.epoch()).with_floor(step.token());
                self.receiver.guard(&domain(PLACE), Some(&seed)).expect("an open receiver is told");
                self.reference.memory().register().tell(seed.known_epoch, step.token());
            }
            10 => {
                let closed = self.receiver.unguard();
                assert_eq!(closed.is_err(), self.reference.is_closed, "{step:?}");
                self.reference.close();
            }
            _ => {
                let (next, live) = (step.next(), step.live());
                let seed = ReceiverSeed::new(issuer.clone(), step.epoch()).with_snapshot(next, live.clone());
                let noted = self.receiver.incarnation().expect("an incarnation");
                let recovered = self.receiver.recover(&domain(PLACE), &noted, &seed);
                recovered.expect("a receiver with its records is recovered");
                self.reference.memory().register().recover(seed.known_epoch, next, &live);
                self.reference.is_closed = false;
            }
        }
    }

    fn write(&mut self, step: &Step<'_>, operation: Option<&Operation>) {
        let grant = step.grant();
        let there = if step.fails() {
            // What is to be written cannot be read to its end.
            let staged = self.receiver.stage(Broken);
            assert!(matches!(staged, Err(WriteError::Mutation(_))), "{step:?}");
            return;
        } else {
            self.receiver.write(&grant, operation, text(step.at).as_bytes())
        };
        let here = self.reference.write(vec![grant], operation, || effect(step));
        let there = match there {
            Ok(verdict) => Ok(told(verdict)),
            Err(WriteError::Invalid(invalid)) => Err(Undecided::Invalid(invalid)),
            Err(error) => panic!("{step:?}: {error}"),
        };
        if let (Ok(Verdict::Applied(result)), Ok(Verdict::Applied(content))) = (&here, &there) {
            self.contents.insert(result.as_bytes().to_vec(), *content);
            self.last = Some(step.at);
        }
        let here = here.map(|verdict| verdict.map(|result| self.contents[result.as_bytes()]));
        assert_eq!(here, there, "{step:?}: {operation:?}");
    }

    fn compare_records(&self) {
        let there = self.receiver.status().expect("a receiver says how it stands");
        let here = self.reference.standing(PLACE);
        assert_eq!(here.known_epoch, there.known_epoch);
        assert_eq!(here.floor, there.floor, "floor");
        assert_eq!(here.unfenced_floor, there.unfenced_floor, "unfenced floor");
        assert_eq!(here.horizon, there.horizon, "horizon");
        assert_eq!(here.fence, there.fence, "fence");
    }
}

/// A file can only be closed by ending its guard, and says so.
fn told<T>(verdict: Verdict<T>) -> Verdict<T> {
    match verdict {
        Verdict::Rejected(Rejection::Closed(Closure::NotGuarded)) => {
            Verdict::Rejected(Rejection::Closed(Closure::ByOperator))
        }
        other => other,
    }
}

struct Broken;

impl std::io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("it ends in the middle"))
    }
}
