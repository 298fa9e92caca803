//! Weighted faults -> what each kind has of them, and what that rests on.

use super::rows::ALL;
use super::strata::KINDS;
use super::{Interval, Kind};
use crate::measurement::weighted_percentile;
use crate::profile::{Profile, Tally};

/// Sums by kind; minor faults of kernel mode are a kind of their own.
pub(super) struct Kinds {
    of: Vec<Tally>,
    /// Times of each kind, corrected, with what they stand for; by time.
    readings: Vec<Vec<(f64, f64)>>,
    all: Tally,
    minor: Tally,
    doubt: f64,
    offset_ns: f64,
}

impl Kinds {
    pub(super) fn new(profile: &Profile, offset_ns: f64) -> Self {
        let mut kinds = Self {
            of: vec![Tally::default(); KINDS],
            readings: vec![Vec::new(); KINDS],
            all: Tally::default(),
            minor: Tally::default(),
            doubt: profile.doubt,
            offset_ns,
        };
        for (fault, basis) in profile.faults.iter().zip(&profile.basis) {
            let kind = match fault.kind {
                Kind::Major => Kind::Major,
                _ if fault.kernel => Kind::KernelMode,
                kind => kind,
            };
            kinds.of[kind as usize].add(fault, basis);
            kinds.all.add(fault, basis);
            if kind != Kind::Major {
                kinds.minor.add(fault, basis);
            }
            kinds.readings[kind as usize].extend(basis.reading_ns.map(|ns| (ns, basis.alike)));
        }
        kinds.readings.iter_mut().for_each(|readings| readings.sort_by(|a, b| a.0.total_cmp(&b.0)));
        kinds
    }

    /// Minor faults taken in user mode, by kind.
    pub(super) fn user_faults(&self) -> [f64; KINDS] {
        let mut faults = [0.0; KINDS];
        faults.iter_mut().zip(&self.of).for_each(|(faults, tally)| *faults = tally.faults);
        (faults[Kind::Major as usize], faults[Kind::KernelMode as usize]) = (0.0, 0.0);
        faults
    }

    /// How many faults of a kind there are.
    pub(super) fn faults(&self, kind: Kind) -> Interval {
        self.of[kind as usize].intervals(&self.all, self.doubt, self.offset_ns).0
    }

    /// Faults whose own time is known, major ones left out.
    pub(super) fn timed(&self) -> u64 {
        self.minor_readings().map(|readings| readings.len() as u64).sum()
    }

    /// What a fault of a kind takes on average, ns; `None` where none was recorded.
    pub(super) fn mean_ns(&self, kind: Kind) -> Option<f64> {
        let tally = &self.of[kind as usize];
        (tally.faults > 0.0).then(|| tally.time_ns / tally.faults)
    }

    /// The same of several together.
    pub(super) fn mean_ns_of(&self, kinds: &[Kind]) -> Option<f64> {
        let sum = |of: fn(&Tally) -> f64| kinds.iter().map(|kind| of(&self.of[*kind as usize])).sum::<f64>();
        let faults = sum(|tally| tally.faults);
        (faults > 0.0).then(|| sum(|tally| tally.time_ns) / faults)
    }

    /// Median time of a kind, ns.
    pub(super) fn p50_ns(&self, kind: Kind) -> Option<f64> {
        weighted_percentile(&self.readings[kind as usize], 0.5)
    }

    /// A percentile of the times of minor faults, ns.
    pub(super) fn percentile_ns(&self, p: f64) -> Option<f64> {
        let mut all: Vec<(f64, f64)> = self.minor_readings().flatten().copied().collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        weighted_percentile(&all, p)
    }

    /// Time of all minor faults, ns: what each may take, and how many of them are dear ones.
    pub(super) fn time_ns(&self) -> Interval {
        let time = self.minor.intervals(&self.minor, self.doubt, self.offset_ns).1;
        let usual_ns = self.minor.time_ns / self.minor.faults.max(1.0);
        let (mut below, mut above) = (time.value - time.low, time.high - time.value);
        for kind in ALL.into_iter().filter(|kind| *kind != Kind::Major) {
            let faults = self.faults(kind);
            let dearer_ns = self.mean_ns(kind).map_or(0.0, |ns| ns - usual_ns);
            let by = [faults.value - faults.low, faults.high - faults.value].map(|by| by * dearer_ns.abs());
            let [lower, higher] = if dearer_ns > 0.0 { by } else { [by[1], by[0]] };
            (below, above) = (below.hypot(lower), above.hypot(higher));
        }
        Interval { value: time.value, low: (time.value - below).max(0.0), high: time.value + above }
    }

    fn minor_readings(&self) -> impl Iterator<Item = &Vec<(f64, f64)>> {
        let minor = |kind: &Kind| *kind != Kind::Major;
        ALL.into_iter().zip(&self.readings).filter(move |(kind, _)| minor(kind)).map(|(_, readings)| readings)
    }
}
