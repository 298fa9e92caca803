//! Weighted faults -> counts and times by kind, with intervals.

use super::{Huge, Profile, Tally, Whole};
use crate::kind::{ALL, KINDS, Kind};
use crate::measurement::{Interval, weighted_percentile};

/// Sums by kind; minor faults of kernel mode count as one kind.
pub(crate) struct Kinds {
    of: Vec<Tally>,
    /// Corrected times of each kind with their weights, sorted by time.
    readings: Vec<Vec<(f64, f64)>>,
    all: Tally,
    doubt: f64,
    huge: Option<Huge>,
    offset_doubt_ns: f64,
}

impl Kinds {
    pub(crate) fn new(profile: &Profile, offset_doubt_ns: f64) -> Self {
        let mut kinds = Self {
            of: vec![Tally::default(); KINDS],
            readings: vec![Vec::new(); KINDS],
            all: Tally::default(),
            doubt: profile.doubt,
            huge: profile.huge,
            offset_doubt_ns,
        };
        for (fault, basis) in profile.faults.iter().zip(&profile.basis) {
            let kind = match fault.kind {
                Kind::Major => Kind::Major,
                _ if fault.kernel => Kind::KernelMode,
                kind => kind,
            };
            kinds.of[kind as usize].add(fault, basis);
            kinds.all.add(fault, basis);
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

    /// Minor faults of user mode, minor ones of kernel mode, major ones.
    pub(super) fn modes(&self) -> (f64, f64, f64) {
        let of = |kind: Kind| self.of[kind as usize].faults;
        (self.user_faults().iter().sum(), of(Kind::KernelMode), of(Kind::Major))
    }

    fn whole(&self) -> Whole<'_> {
        Whole { all: &self.all, doubt: self.doubt, offset_doubt_ns: self.offset_doubt_ns, huge: self.huge }
    }

    /// Faults of a kind and their time, ns.
    fn intervals(&self, kind: Kind) -> (Interval, Interval) {
        let tally = &self.of[kind as usize];
        match kind {
            // The events count all faults of kernel mode, and the profile is scaled to them.
            Kind::KernelMode => tally.intervals_of_counted(&self.whole()),
            _ => tally.intervals(&self.whole()),
        }
    }

    /// How many faults of a kind there are.
    pub(super) fn faults(&self, kind: Kind) -> Interval {
        self.intervals(kind).0
    }

    /// Time of a kind, ns; `None` if none was recorded.
    pub(super) fn kind_time_ns(&self, kind: Kind) -> Option<Interval> {
        (self.of[kind as usize].faults > 0.0).then(|| self.intervals(kind).1)
    }

    /// Faults whose own time is known.
    pub(super) fn timed(&self) -> u64 {
        self.readings.iter().map(|readings| readings.len() as u64).sum()
    }

    /// Mean time of a fault of a kind, ns; `None` if none was recorded.
    pub(super) fn mean_ns(&self, kind: Kind) -> Option<f64> {
        let tally = &self.of[kind as usize];
        (tally.faults > 0.0).then(|| tally.time_ns / tally.faults)
    }

    /// The same of several kinds together.
    pub(super) fn mean_ns_of(&self, kinds: &[Kind]) -> Option<f64> {
        let sum = |of: fn(&Tally) -> f64| kinds.iter().map(|kind| of(&self.of[*kind as usize])).sum::<f64>();
        let faults = sum(|tally| tally.faults);
        (faults > 0.0).then(|| sum(|tally| tally.time_ns) / faults)
    }

    /// Median time of a kind, ns.
    pub(super) fn p50_ns(&self, kind: Kind) -> Option<f64> {
        weighted_percentile(&self.readings[kind as usize], 0.5)
    }

    /// A percentile of the times of all faults, ns.
    pub(super) fn percentile_ns(&self, p: f64) -> Option<f64> {
        let mut all: Vec<(f64, f64)> = self.readings.iter().flatten().copied().collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        weighted_percentile(&all, p)
    }

    /// CPU time of all faults, ns. Each kind has its own price, so uncertain counts of expensive kinds add
    /// to the error.
    pub(super) fn time_ns(&self) -> Interval {
        let (value, faults) = (self.all.time_ns, self.all.faults);
        let usual_ns = value / faults.max(1.0);
        let reading_ns = self.all.reading_spread_ns(self.offset_doubt_ns);
        let (mut below, mut above) = (reading_ns, reading_ns);
        for kind in ALL {
            let Some(mean_ns) = self.mean_ns(kind) else { continue };
            let faults = self.faults(kind);
            let dearer_ns = mean_ns - usual_ns;
            let by = [faults.value - faults.low, faults.high - faults.value].map(|by| by * dearer_ns.abs());
            let [lower, higher] = if dearer_ns > 0.0 { by } else { [by[1], by[0]] };
            let (cheaper, dearer) = self.of[kind as usize].assumed_spread_ns(&self.all);
            (below, above) = (below.hypot(lower).hypot(cheaper), above.hypot(higher).hypot(dearer));
        }
        let least = self.all.least_ns(self.offset_doubt_ns).min(value);
        Interval { value, low: (value - below).max(least), high: value + above }
    }
}
