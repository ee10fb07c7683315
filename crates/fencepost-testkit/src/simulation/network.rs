//! When something that is sent arrives, if it does, and how often.

use std::collections::BTreeMap;

use super::{
    deeds::{Deed, Deeds},
    settings::{Fault, Settings},
};
use crate::random::Random;

/// Which two parts something passes between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    Coordinator(usize),
    Resource(usize),
}

#[derive(Default)]
pub(super) struct Network {
    /// Until when a link carries nothing, in microseconds.
    cut: BTreeMap<Link, u64>,
    /// What it did.
    pub(super) deeds: Deeds,
}

impl Network {
    pub(super) fn cut(&mut self, link: Link, until_us: u64) {
        self.deeds.count(Deed::CutOff);
        self.cut.insert(link, until_us);
    }

    /// The moments at which a message sent now arrives: none, one or two.
    pub(super) fn arrivals(&mut self, now_us: u64, link: Link, random: &mut Random, settings: &Settings) -> Vec<u64> {
        if self.cut.get(&link).is_some_and(|until| now_us < *until) || settings.has(Fault::Drop) && random.chance(3) {
            return Vec::new();
        }
        let copies = if settings.has(Fault::Repeat) && random.chance(4) { 2 } else { 1 };
        (0..copies).map(|_| now_us + self.delay_us(random, settings)).collect()
    }

    /// When the next bytes on a connection arrive. What a cut link does not carry is sent again once it does.
    pub(super) fn carried(&mut self, now_us: u64, link: Link, random: &mut Random, settings: &Settings) -> u64 {
        let sent_us = self.cut.get(&link).map_or(now_us, |until| now_us.max(*until));
        sent_us + self.delay_us(random, settings)
    }

    fn delay_us(&mut self, random: &mut Random, settings: &Settings) -> u64 {
        let slow = settings.has(Fault::Delay) && random.chance(4);
        if slow {
            self.deeds.count(Deed::Delayed);
        }
        random.between(200, if slow { 3 * settings.ttl_ms * 1_000 } else { 20_000 })
    }
}
