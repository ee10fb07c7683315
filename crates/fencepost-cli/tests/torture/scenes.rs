//! Stories with a known end, told while nothing else is disturbed.

use std::time::{Duration, Instant};

use fencepost_testkit::torture::{Deed, Scene, Target};

use crate::{
    nemesis::Nemesis,
    subject::{SUBJECTS, Subject},
    worker::TTL_MS,
};

/// How long to wait for a scene to get on, before it is begun again.
const AT_MOST: Duration = Duration::from_secs(20);
const TRIES: u32 = 4;

impl Nemesis {
    pub(crate) fn play(&mut self, scene: Scene) {
        let (name, subject) = match scene {
            Scene::Overtake(number) => ("overtake", SUBJECTS[number]),
            Scene::NeckAndNeck(number) => ("neck and neck", SUBJECTS[number]),
            Scene::KillInTheAct(number) => ("kill in the act", SUBJECTS[number]),
            Scene::LoseTheStore(number) => ("lose the store", SUBJECTS[number]),
            Scene::CopyBack => ("copy back and recover", SUBJECTS[0]),
        };
        self.tell(format!("{name}: {}", subject.label));
        for _ in 0..TRIES {
            let played = match scene {
                Scene::Overtake(_) => self.overtake(subject),
                Scene::NeckAndNeck(_) => self.neck_and_neck(subject),
                Scene::KillInTheAct(_) => self.kill_in_the_act(subject),
                Scene::LoseTheStore(_) => self.lose_the_store(subject),
                Scene::CopyBack => self.copy_back(),
            };
            self.clear_the_stage(subject);
            if played.is_some() {
                self.verdict.deeds.count(format!("scene: {name}"));
                return;
            }
            self.calm();
        }
        self.verdict.notes.count(format!("a scene did not come off: {name}"));
    }

    /// A has read and is stopped past its TTL. B acquires and reads. A goes on and writes, and B after it.
    fn overtake(&self, subject: Subject) -> Option<()> {
        let hold = format!("hold.{}", subject.label);
        self.gates.put(&hold);
        self.gates.write("focus", subject.label);
        let late = self.somebody_at(subject, None)?;
        self.stop_worker(&late);
        let owner = self.somebody_at(subject, Some(&late))?;
        self.gates.put(&format!("go.{late}"));
        self.continue_worker(&late);
        self.gone_from(subject, &late)?;
        self.gates.take_away(&hold);
        self.gone_from(subject, &owner)
    }

    /// A has read and is stopped past its TTL. A writes at the very moment at which B's acquire raises the fence. Each time
    /// A has a little more of a head start: which of the two is slower to wake, only the machine knows.
    fn neck_and_neck(&self, subject: Subject) -> Option<()> {
        let (hold, advance) = (format!("hold.{}", subject.label), format!("advance.{}", subject.label));
        self.gates.put(&hold);
        self.gates.write("focus", subject.label);
        let late = self.somebody_at(subject, None)?;
        self.gates.put(&advance);
        self.stop_worker(&late);
        self.soon(|| self.gates.all(&format!("advancing.{}.", subject.label)).into_iter().next())?;
        self.continue_worker(&late);
        self.gates.put(&format!("go.{late}"));
        let played = self.verdict.deeds.of("scene: neck and neck");
        // bounded: eight milliseconds
        std::thread::sleep(Duration::from_millis(played % 3 * 4));
        self.gates.take_away(&advance);
        self.gone_from(subject, &late)?;
        self.gates.take_away(&hold);
        Some(())
    }

    /// A has just been granted the domain when the server is killed. While A believes in its lease nobody else gets it:
    /// what the checker makes of the times during which they believed tells.
    fn kill_in_the_act(&mut self, subject: Subject) -> Option<()> {
        let hold = format!("hold.{}", subject.label);
        self.gates.put(&hold);
        self.gates.write("victim", &self.server_pid().to_string());
        self.gates.write("focus", subject.label);
        let holder = self.somebody_at(subject, None);
        self.perform(Deed::Kill(Target::Server));
        self.perform(Deed::Restart);
        let holder = holder?;
        // Somebody else comes at once where the grant is forgotten, and otherwise not before the holder's time is over.
        let until = Instant::now() + Duration::from_millis(TTL_MS / 2);
        while Instant::now() < until && self.at(subject, Some(&holder)).is_none() {
            // bounded: by the line above
            std::thread::sleep(Duration::from_millis(1));
        }
        self.gates.take_away(&hold);
        self.gone_from(subject, &holder)
    }

    /// A worker, other than this one, that has read and stands before its write.
    pub(crate) fn somebody_at(&self, subject: Subject, other: Option<&str>) -> Option<String> {
        self.soon(|| self.at(subject, other))
    }

    fn at(&self, subject: Subject, other: Option<&str>) -> Option<String> {
        let living = self.worker_names();
        let waiting = self.gates.all(&format!("at.{}.", subject.label)).into_iter();
        waiting.filter(|name| living.contains(name)).find(|name| Some(name.as_str()) != other)
    }

    pub(crate) fn gone_from(&self, subject: Subject, name: &str) -> Option<()> {
        self.soon(|| (!self.gates.is_there(&format!("at.{}.{name}", subject.label))).then_some(()))
    }

    pub(crate) fn soon<T>(&self, look: impl FnMut() -> Option<T>) -> Option<T> {
        self.soon_by_looking_every(Duration::from_millis(1), look)
    }

    pub(crate) fn soon_by_looking_every<T>(&self, pause: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let until = Instant::now() + AT_MOST;
        while Instant::now() < until {
            if let Some(found) = look() {
                return Some(found);
            }
            // bounded: by AT_MOST
            std::thread::sleep(pause);
        }
        None
    }

    fn clear_the_stage(&self, subject: Subject) {
        for gate in ["hold", "advance"] {
            self.gates.take_away(&format!("{gate}.{}", subject.label));
        }
        for gate in ["focus", "victim", "quiet"] {
            self.gates.take_away(gate);
        }
        for prefix in ["go.", "at.", "advancing."] {
            for name in self.gates.all(prefix) {
                self.gates.take_away(&format!("{prefix}{name}"));
            }
        }
    }
}
