//! Windows + recorded faults -> how many faults of the run each recorded one stands for.
//!
//! A recorded window is exact: its faults were counted, and its recorded faults share that count (more than one each
//! where records were lost). The count of an unrecorded window goes to the recorded windows on both sides, as many as
//! it takes to have [`POOL_FAULTS`] faults on each, half to each side: so it gets their mix of kinds and their times, and
//! a phase of the program is described by its own faults. Faults of kernel mode are left out: windows count user mode.

use std::ops::Range;

use super::rows::ALL;
use crate::avoid::Growth;
use crate::fault::{Fault, Faults};
use crate::measurement::{Rng, percentiles_of_draws, student_t};
use crate::stat::{Interval, Kind};
use crate::tuning::{POOL_FAULTS, RESAMPLES, UNSEEN_PARTS};

/// Number of kinds; a kind is an index below it.
pub(crate) const KINDS: usize = Kind::BeforeExec as usize + 1;

/// A recorded window and what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Stratum {
    /// Index into the windows.
    pub(crate) window: usize,
    /// Faults counted in it.
    pub(crate) exact: f64,
    /// Faults of unrecorded windows that it stands for.
    pub(crate) extra: f64,
    /// Recorded faults by kind, those of no kind left out.
    pub(super) kinds: [u64; KINDS],
    /// Recorded faults.
    pub(crate) recorded: u64,
    /// Those counted as first touches that may be copies after a fork, and the other way round.
    pub(super) unsure: [u64; 2],
}

impl Stratum {
    /// Faults of the run per recorded fault.
    pub(crate) fn scale(&self) -> f64 {
        (self.exact + self.extra) / self.recorded as f64
    }
}

/// All of them, in the order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strata {
    pub(crate) strata: Vec<Stratum>,
    /// For every window the strata that describe it, as a range.
    pub(super) described_by: Vec<Range<usize>>,
    /// Faults that no recorded window stands for: there is none.
    pub(crate) undescribed: f64,
    /// Unrecorded windows with strata on both sides: those before, those behind, faults.
    gaps: Vec<(Range<usize>, Range<usize>, f64)>,
}

impl Strata {
    /// `handled_only`: faults whose end was not seen are of no kind, since many were none.
    pub(crate) fn new(faults: &Faults, handled_only: bool) -> Self {
        let counts = |fault: &&Fault| !fault.kernel && (!handled_only || fault.duration_ns.is_some());
        let mut kinds = vec![([0_u64; KINDS], [0_u64; 2]); faults.windows.len()];
        let mut recorded = vec![0_u64; faults.windows.len()];
        for fault in faults.faults.iter().filter(|f| !f.kernel) {
            if let Some(window) = fault.window {
                recorded[window] += 1;
                kinds[window].0[fault.kind as usize] += u64::from(counts(&fault));
            }
        }
        for fault in faults.unsure.iter().map(|index| &faults.faults[*index]).filter(counts) {
            if let Some(window) = fault.window {
                kinds[window].1[usize::from(fault.kind == Kind::CowAfterFork)] += 1;
            }
        }
        let mut strata: Vec<Stratum> = Vec::new();
        for (window, (kinds, unsure)) in kinds.into_iter().enumerate() {
            let recorded = recorded[window];
            if recorded > 0 && faults.windows[window].recorded {
                let exact = faults.windows[window].faults as f64;
                strata.push(Stratum { window, exact, extra: 0.0, kinds, recorded, unsure });
            }
        }
        let mut all = Strata { strata, ..Strata::default() };
        for (window, counted) in faults.windows.iter().enumerate() {
            let range = all.describe(window);
            if all.strata.get(range.start).is_none_or(|s| s.window != window) {
                all.spread(window, &range, counted.faults as f64);
            }
            all.described_by.push(range);
        }
        all
    }

    /// The strata that describe a window: itself if recorded, else its neighbours.
    fn describe(&self, window: usize) -> Range<usize> {
        let next = self.strata.partition_point(|s| s.window < window);
        if self.strata.get(next).is_some_and(|s| s.window == window) {
            return next..next + 1;
        }
        let left = enough(self.strata[..next].iter().rev()).unwrap_or(next);
        let right = enough(self.strata[next..].iter()).unwrap_or(self.strata.len() - next);
        next - left..next + right
    }

    /// Gives the faults of an unrecorded window to the strata around it: as much to those before it as to those behind it,
    /// however many were recorded there, since the program may have changed anywhere in between. A side of less than
    /// [`POOL_FAULTS`] gets less.
    fn spread(&mut self, window: usize, range: &Range<usize>, faults: f64) {
        let pool = &mut self.strata[range.clone()];
        let next = pool.partition_point(|s| s.window < window);
        let (before, behind) = pool.split_at_mut(next);
        let mut sides = [before, behind].map(|side| (recorded(side), side));
        if sides.iter().all(|(recorded, _)| *recorded > 0.0) {
            self.gaps.push((range.start..range.start + next, range.start + next..range.end, faults));
        }
        let weights: f64 = sides.iter().map(|(recorded, _)| recorded.min(POOL_FAULTS as f64)).sum();
        if weights <= 0.0 {
            self.undescribed += faults;
            return;
        }
        for (recorded, side) in &mut sides {
            let each = faults * recorded.min(POOL_FAULTS as f64) / weights / recorded.max(1.0);
            side.iter_mut().for_each(|s| s.extra += each * s.recorded as f64);
        }
    }

    /// What a fault of a window adds to memory, where `value` is what one of each kind adds and `page` what a first touch
    /// adds. An unrecorded window is made like its neighbours, in between them or like one of the two. Behind a fork it may be
    /// unlike both, as far as so many looks can have missed that: copies come in one go. After the only look it is unknown.
    pub(super) fn growth_in_window(
        &self,
        window: usize,
        value: &impl Fn(Kind) -> f64,
        page: f64,
        forked: bool,
    ) -> Option<Growth> {
        let pool = self.strata.get(self.described_by.get(window)?.clone())?;
        let next = pool.partition_point(|s| s.window < window);
        if let Some(own) = pool.get(next).filter(|s| s.window == window) {
            return growth(std::slice::from_ref(own), value, page);
        }
        let (before, after) = pool.split_at(next);
        let sides = [growth(before, value, page), growth(after, value, page)];
        let around = sides.into_iter().flatten().reduce(|a, b| Growth {
            low_bytes: a.low_bytes.min(b.low_bytes),
            high_bytes: a.high_bytes.max(b.high_bytes),
            fresh_share: f64::midpoint(a.fresh_share, b.fresh_share),
        })?;
        let looks = self.looks().len();
        let missed = match looks {
            0 | 1 => 1.0,
            _ if forked => (UNSEEN_PARTS / looks as f64).min(1.0),
            _ => 0.0,
        };
        Some(Growth {
            low_bytes: around.low_bytes * (1.0 - missed),
            high_bytes: around.high_bytes.max(page.min(around.high_bytes + missed * page)),
            ..around
        })
    }

    /// Estimated faults by kind.
    pub(super) fn by_kind(&self) -> [f64; KINDS] {
        let mut sums = [0.0; KINDS];
        for stratum in &self.strata {
            let scale = stratum.scale();
            sums.iter_mut().zip(stratum.kinds).for_each(|(sum, n)| *sum += n as f64 * scale);
        }
        sums
    }

    /// Whether every fault of the run was recorded: nothing is estimated.
    pub(super) fn is_complete(&self) -> bool {
        let whole = |s: &Stratum| s.extra == 0.0 && s.exact == s.recorded as f64;
        self.undescribed == 0.0 && !self.strata.is_empty() && self.strata.iter().all(whole)
    }

    /// Faults that were not recorded and are taken to be like the only window beside them; 0 where there are several.
    pub(super) fn on_one_window(&self) -> u64 {
        match self.looks()[..] {
            [only] => extra(only) as u64,
            _ => 0,
        }
    }

    /// Stretches of recorded windows, one right behind the other, that stand for others. Their pieces are one look at the
    /// program and not several.
    fn looks(&self) -> Vec<&[Stratum]> {
        let stretches = self.strata.chunk_by(|a, b| a.window + 1 == b.window);
        stretches.filter(|stretch| extra(stretch) > 0.0).collect()
    }

    /// Intervals of sums over all faults, from the per-fault means of each stratum (cluster bootstrap).
    ///
    /// What the recorded windows counted themselves is fixed; what they stand for varies with the stretches drawn: the
    /// pieces of one burst say nothing about what came after it. With few of them the percentiles are too narrow and are
    /// widened as Student's t would be; one alone tells nothing about others, and the caller must bound that case (`None`).
    /// Never narrower than what is open where the program changed between two stretches ([`Strata::open`]).
    pub(super) fn intervals<const N: usize>(&self, means: &[[f64; N]]) -> Option<[Interval; N]> {
        let looks = self.looks();
        let n = looks.len();
        let all_extra = extra(&self.strata);
        let weighted = |weight: &dyn Fn(&Stratum) -> f64| {
            let mut sums = [0.0; N];
            for (stratum, means) in self.strata.iter().zip(means) {
                sums.iter_mut().zip(means).for_each(|(sum, mean)| *sum += weight(stratum) * mean);
            }
            sums
        };
        let (fixed, all) = (weighted(&|s| s.exact), weighted(&|s| s.exact + s.extra));
        if all_extra <= 0.0 {
            return Some(all.map(|value| Interval { value, low: value, high: value }));
        }
        if n < 2 {
            return None;
        }
        let draws = self.draws(&looks, means, all_extra);
        let widen = student_t(n - 1) / 1.96 * (n as f64 / (n as f64 - 1.0)).sqrt();
        let open = self.open(means);
        let mut index = 0;
        Some(all.map(|value| {
            let draws: Vec<f64> = draws.iter().map(|draw| fixed[index] + draw[index]).collect();
            index += 1;
            let i = percentiles_of_draws(value, &draws);
            let (below, above) = ((value - i.low) * widen, (i.high - value) * widen);
            let open = open[index - 1];
            let low = (value - below.max(open)).max(fixed[index - 1].min(value));
            Interval { value, low, high: value + above.max(open) }
        }))
    }

    /// How far sums can be off because nobody saw when the program changed from what was recorded before a gap to what was
    /// recorded behind it: half the difference, gaps taken to be independent.
    fn open<const N: usize>(&self, means: &[[f64; N]]) -> [f64; N] {
        let mut squares = [0.0; N];
        for (before, behind, faults) in &self.gaps {
            let mean = |side: &Range<usize>, index: usize| {
                let weighted = self.strata[side.clone()].iter().zip(&means[side.clone()]);
                weighted.map(|(s, mean)| s.recorded as f64 * mean[index]).sum::<f64>()
                    / recorded(&self.strata[side.clone()])
            };
            for (index, square) in squares.iter_mut().enumerate() {
                *square += (faults * (mean(before, index) - mean(behind, index)) / 2.0).powi(2);
            }
        }
        squares.map(f64::sqrt)
    }

    fn draws<const N: usize>(&self, looks: &[&[Stratum]], means: &[[f64; N]], all: f64) -> Vec<[f64; N]> {
        let of_look = |look: &&[Stratum]| {
            let mut sums = [0.0; N];
            for stratum in *look {
                let at = self.strata.partition_point(|s| s.window < stratum.window);
                sums.iter_mut().zip(&means[at]).for_each(|(sum, mean)| *sum += stratum.extra * mean);
            }
            (sums, extra(look))
        };
        let looks: Vec<([f64; N], f64)> = looks.iter().map(of_look).collect();
        let mut rng = Rng::seeded();
        (0..RESAMPLES)
            .map(|_| {
                let (mut sums, mut weight) = ([0.0; N], 0.0);
                for _ in &looks {
                    let (drawn, of_drawn) = &looks[rng.below(looks.len())];
                    weight += of_drawn;
                    sums.iter_mut().zip(drawn).for_each(|(sum, drawn)| *sum += drawn);
                }
                sums.map(|sum| if weight > 0.0 { sum / weight * all } else { f64::NAN })
            })
            .collect()
    }
}

fn recorded(strata: &[Stratum]) -> f64 {
    strata.iter().map(|s| s.recorded as f64).sum()
}

/// Faults of unrecorded windows that these stand for.
fn extra(strata: &[Stratum]) -> f64 {
    strata.iter().map(|s| s.extra).sum()
}

/// What the recorded faults of these windows add to memory, each; `None` without any.
fn growth(pool: &[Stratum], value: &impl Fn(Kind) -> f64, page: f64) -> Option<Growth> {
    let sum = |of: &dyn Fn(&Stratum) -> f64| pool.iter().map(of).sum::<f64>();
    let of_kind = |kind: Kind| sum(&|s| s.kinds[kind as usize] as f64 * value(kind));
    let recorded = recorded(pool);
    let bytes: f64 = ALL.into_iter().map(of_kind).sum();
    let [maybe_copied, maybe_fresh] = [0, 1].map(|i| page * sum(&|s| s.unsure[i] as f64));
    let fresh = bytes - of_kind(Kind::FilePrivateWrite);
    (recorded > 0.0).then(|| Growth {
        low_bytes: (bytes - maybe_copied).max(0.0) / recorded,
        high_bytes: (bytes + maybe_fresh) / recorded,
        fresh_share: if bytes > 0.0 { fresh / bytes } else { 1.0 },
    })
}

/// How many strata of a side it takes to have enough faults; `None` when all are too few.
fn enough<'a>(mut side: impl Iterator<Item = &'a Stratum>) -> Option<usize> {
    let mut seen = 0;
    let last = side.position(|s| {
        seen += s.recorded;
        seen >= POOL_FAULTS
    })?;
    Some(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Window;

    /// Windows as (faults, recorded faults by two kinds); `None` is not recorded.
    fn faults(windows: &[(u64, Option<[u64; 2]>)]) -> Faults {
        let mut faults = Faults::default();
        for (index, (counted, recorded)) in windows.iter().enumerate() {
            let begin_ns = index as u64 * 100;
            let recorded_here = recorded.is_some();
            let window = Window {
                begin_ns,
                end_ns: begin_ns + 100,
                faults: *counted,
                recorded: recorded_here,
                lost: 0,
            };
            faults.windows.push(window);
            for (kind, n) in
                [Kind::MmapFirstWrite, Kind::FileRead].into_iter().zip(recorded.unwrap_or_default())
            {
                let fault = Fault {
                    enter_ns: begin_ns,
                    duration_ns: Some(500),
                    interrupted: false,
                    preempted_ns: 0,
                    pid: 1,
                    tid: 1,
                    addr: 0,
                    ip: 0,
                    stack: None,
                    kernel: false,
                    access: None,
                    kind,
                    kind_by_place: Kind::MmapFirstWrite,
                    again: false,
                    mapping: 0,
                    window: Some(index),
                    in_flight: 1,
                };
                faults.faults.extend((0..n).map(|_| fault.clone()));
            }
        }
        faults
    }

    fn by_two_kinds(strata: &Strata) -> [f64; 2] {
        let all = strata.by_kind();
        [all[Kind::MmapFirstWrite as usize], all[Kind::FileRead as usize]]
    }

    #[test]
    fn an_unrecorded_window_has_the_mix_of_its_neighbours_and_not_of_the_whole_run() {
        let run = faults(&[
            (60, Some([0, 60])),
            (1000, None),
            (60, Some([0, 60])),
            (60, Some([60, 0])),
            (500, None),
            (60, Some([60, 0])),
        ]);
        let strata = Strata::new(&run, false);
        assert_eq!(by_two_kinds(&strata), [620.0, 1120.0]);
    }

    #[test]
    fn lost_records_are_made_up_for_by_the_window_that_lost_them() {
        let strata = Strata::new(&faults(&[(100, Some([40, 10]))]), false);
        assert_eq!(by_two_kinds(&strata), [80.0, 20.0]);
        assert!(!strata.is_complete());
        assert!(Strata::new(&faults(&[(50, Some([40, 10]))]), false).is_complete());
    }

    #[test]
    fn a_window_that_recorded_nothing_of_its_faults_counts_as_unrecorded() {
        let strata = Strata::new(&faults(&[(100, Some([0, 0])), (10, Some([10, 0]))]), false);
        assert_eq!(by_two_kinds(&strata), [110.0, 0.0]);
        assert_eq!(Strata::new(&faults(&[(100, None)]), false).undescribed, 100.0);
    }

    #[test]
    fn intervals_are_exact_when_all_is_recorded_and_wide_when_windows_differ() {
        let complete = Strata::new(&faults(&[(60, Some([60, 0])), (60, Some([0, 60]))]), false);
        let [exact] = complete.intervals(&[[1.0], [3.0]]).unwrap();
        assert_eq!(exact, Interval { value: 240.0, low: 240.0, high: 240.0 });
        let sampled = Strata::new(&faults(&[(60, Some([60, 0])), (600, None), (60, Some([0, 60]))]), false);
        let [wide] = sampled.intervals(&[[1.0], [3.0]]).unwrap();
        assert_eq!(wide.value, 60.0 + 180.0 + 1200.0);
        assert!(wide.low < 900.0 && wide.low >= 240.0 && wide.high > 2000.0, "{wide:?}");
        let one = Strata::new(&faults(&[(60, Some([60, 0])), (600, None)]), false);
        assert_eq!(one.intervals(&[[1.0]]), None);
    }

    #[test]
    fn one_burst_in_pieces_has_no_interval_for_what_came_after_it() {
        let run = faults(&[(60, Some([60, 0])), (60, Some([60, 0])), (60, Some([60, 0])), (5000, None)]);
        assert_eq!(Strata::new(&run, false).intervals(&[[1.0], [1.0], [1.0]]), None);
    }
}
