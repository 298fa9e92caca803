//! The memory of a node: its bandwidth is shared equally by all who clear or touch (processor sharing).
//!
//! In: pieces of work, as the ns that they take alone. Out: when the next one is finished. A [`Saturation`]
//! says how much slower several streams are than one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::Time;

/// How several streams slow each other down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Saturation {
    /// Full speed up to this many streams, then equal shares of them.
    Streams(f64),
    /// Every further stream adds this share of the time that one stream takes alone.
    Share(f64),
}

impl Saturation {
    /// The speed of each of `streams` streams, compared with one alone.
    pub(crate) fn speed(self, streams: usize) -> f64 {
        let streams = streams.max(1) as f64;
        match self {
            Self::Streams(most) => (most.max(f64::MIN_POSITIVE) / streams).min(1.0),
            Self::Share(share) => 1.0 / (1.0 + share * (streams - 1.0)),
        }
    }
}

/// The memory of a node.
///
/// `attained` is the work that a stream would have done since the start. All streams progress alike, so the
/// one with the least goal ends first.
#[derive(Debug)]
pub(super) struct Memory {
    saturation: Saturation,
    goals: BinaryHeap<Reverse<(Time, u32)>>,
    attained: f64,
    at_ns: f64,
    version: u32,
}

impl Memory {
    pub(super) fn new(saturation: Saturation) -> Self {
        Self { saturation, goals: BinaryHeap::new(), attained: 0.0, at_ns: 0.0, version: 0 }
    }

    fn advance(&mut self, now_ns: f64) {
        if !self.goals.is_empty() {
            self.attained += (now_ns - self.at_ns) * self.saturation.speed(self.goals.len());
        }
        self.at_ns = now_ns;
    }

    /// Begins work of `ns` alone.
    pub(super) fn begin(&mut self, now_ns: f64, agent: u32, ns: f64) {
        self.advance(now_ns);
        self.goals.push(Reverse((Time(self.attained + ns), agent)));
        self.version = self.version.wrapping_add(1);
    }

    /// Ends the work with the least goal, if `version` is still the load's.
    pub(super) fn end(&mut self, now_ns: f64, version: u32) -> Option<u32> {
        if version != self.version {
            return None;
        }
        self.advance(now_ns);
        let Reverse((goal, agent)) = self.goals.pop()?;
        self.attained = goal.0;
        self.version = self.version.wrapping_add(1);
        Some(agent)
    }

    /// When the next work ends if nothing else begins, and the version of the load.
    pub(super) fn next(&self) -> Option<(f64, u32)> {
        let Reverse((goal, _)) = self.goals.peek()?;
        let left = (goal.0 - self.attained).max(0.0);
        Some((self.at_ns + left / self.saturation.speed(self.goals.len()), self.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_streams_share_and_one_alone_is_fast() {
        let mut memory = Memory::new(Saturation::Streams(1.0));
        memory.begin(0.0, 1, 10.0);
        memory.begin(5.0, 2, 10.0);
        // 5 are left of the first; both run at half speed, so it ends at 15.
        let (at, version) = memory.next().unwrap();
        assert_eq!((at, memory.end(at, version)), (15.0, Some(1)));
        let (at, version) = memory.next().unwrap();
        assert_eq!((at, memory.end(at, version - 1)), (20.0, None), "an old version");
        assert_eq!((memory.end(at, version), memory.next()), (Some(2), None));
    }

    #[test]
    fn streams_slow_each_other_down() {
        assert_eq!(Saturation::Streams(2.0).speed(1), 1.0);
        assert_eq!(Saturation::Streams(2.0).speed(4), 0.5);
        assert_eq!(Saturation::Share(0.5).speed(3), 0.5);
    }
}
