//! When a message arrives, if it does, and how often.

use super::{
    random::Random,
    settings::{Fault, Settings},
};

/// Which two parts a message passes between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    Coordinator(usize),
    Resource(usize),
}

#[derive(Default)]
pub(super) struct Network {
    /// Until when a link carries nothing, in microseconds.
    cut: std::collections::BTreeMap<Link, u64>,
}

impl Network {
    pub(super) fn cut(&mut self, link: Link, until_us: u64) {
        self.cut.insert(link, until_us);
    }

    /// The moments at which a message sent now arrives: none, one or two.
    pub(super) fn arrivals(&self, now_us: u64, link: Link, random: &mut Random, settings: &Settings) -> Vec<u64> {
        let has = |fault| settings.faults.contains(&fault);
        if self.cut.get(&link).is_some_and(|until| now_us < *until) || has(Fault::Drop) && random.chance(3) {
            return Vec::new();
        }
        let copies = if has(Fault::Repeat) && random.chance(4) { 2 } else { 1 };
        let mut arrivals = Vec::with_capacity(copies);
        for _ in 0..copies {
            let slow = has(Fault::Delay) && random.chance(4);
            let most_us = if slow { 3 * settings.ttl_ms * 1_000 } else { 20_000 };
            arrivals.push(now_us + random.between(200, most_us));
        }
        arrivals
    }
}
