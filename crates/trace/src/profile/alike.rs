//! Faults of known kind -> the kind of a sampled fault of the same stack or site.
//!
//! It is drawn at random from the faults nearest in time, because a program has phases.

use std::collections::HashMap;

use crate::fault::Fault;
use crate::kind::Kind;
use crate::measurement::Rng;
use crate::tuning::{NEIGHBOURS, PRICED_FAULTS};

/// Time and kind of faults, by stack or site and by their kind without a history.
#[derive(Debug)]
pub(super) struct Neighbours {
    of: HashMap<(u32, Kind), Vec<(u64, Kind)>>,
    lots: Rng,
}

impl Neighbours {
    pub(super) fn new() -> Self {
        Self { of: HashMap::new(), lots: Rng::seeded() }
    }

    /// Adds a fault of known kind.
    pub(super) fn add(&mut self, at: (u32, Kind), fault: &Fault) {
        self.of.entry(at).or_default().push((fault.enter_ns, fault.kind));
    }

    /// To be called once all are added.
    pub(super) fn sort(&mut self) {
        self.of.values_mut().for_each(|faults| faults.sort_by_key(|(time_ns, _)| *time_ns));
    }

    /// The kind of a fault there at this time; `None` with too few known faults.
    pub(super) fn near(&mut self, at: (u32, Kind), time_ns: u64) -> Option<Kind> {
        let faults = self.of.get(&at).filter(|faults| faults.len() as u64 >= PRICED_FAULTS)?;
        let near = NEIGHBOURS.min(faults.len());
        let behind = faults.partition_point(|(ns, _)| *ns < time_ns);
        let from = behind.saturating_sub(near / 2).min(faults.len() - near);
        Some(faults[from + self.lots.below(near)].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Neighbours {
        let mut known = Neighbours::new();
        for n in 0..1000 {
            let kind = match n {
                0..500 => Kind::MmapFirstWrite,
                _ if n % 4 == 0 => Kind::MmapFirstWrite,
                _ => Kind::CowAfterFork,
            };
            known.add((7, Kind::MmapFirstWrite), &Fault::timed(kind, n, 1_000));
        }
        known.sort();
        known
    }

    #[test]
    fn phases_do_not_mix_and_within_one_each_kind_has_its_share() {
        let mut known = known();
        let mut copies = |times: std::ops::Range<u64>| {
            let kinds = times.map(|time_ns| known.near((7, Kind::MmapFirstWrite), time_ns));
            kinds.filter(|kind| *kind == Some(Kind::CowAfterFork)).count()
        };
        assert_eq!(copies(0..400), 0);
        let late = copies(600..1000);
        assert!((260..=340).contains(&late), "{late}");
    }

    #[test]
    fn too_few_say_nothing() {
        let mut known = known();
        assert_eq!(known.near((8, Kind::MmapFirstWrite), 1), None);
        known.add((8, Kind::MmapFirstWrite), &Fault::timed(Kind::Thp, 1, 1));
        assert_eq!(known.near((8, Kind::MmapFirstWrite), 1), None);
    }
}
