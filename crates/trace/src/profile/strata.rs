//! Windows and recorded faults -> the number of faults of the run that each recorded fault represents.
//!
//! A recorded window is exact: its recorded faults share its count, more than one each if records were lost.
//! The count of an unrecorded window goes to the recorded windows on both sides, half to each. As many
//! windows of a side share it as have [`POOL_FAULTS`] faults. So it gets their mix of kinds and their times,
//! and a phase of the program is described by its own faults. Faults of kernel mode are left out: windows
//! count user mode.

use std::ops::Range;

use crate::fault::{Fault, Faults};
use crate::kind::KINDS;
use crate::tuning::POOL_FAULTS;

/// A recorded window, and the faults that it represents.
#[derive(Clone, Debug)]
pub(crate) struct Stratum {
    /// Index into the windows.
    pub(crate) window: usize,
    /// Faults counted in it.
    pub(crate) exact: f64,
    /// Faults of unrecorded windows that it represents.
    pub(crate) extra: f64,
    /// Recorded faults by kind; a fault without a kind is left out.
    pub(crate) kinds: [u64; KINDS],
    /// Recorded faults.
    pub(crate) recorded: u64,
}

/// All of them, in the order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strata {
    pub(crate) strata: Vec<Stratum>,
    /// For every window the range of strata that describe it.
    pub(crate) described_by: Vec<Range<usize>>,
    /// Faults of unrecorded windows if there is no recorded one.
    pub(crate) undescribed: f64,
}

impl Strata {
    /// `handled_only`: a fault without an end has no kind, because many such accesses were no faults.
    pub(crate) fn new(faults: &Faults, handled_only: bool) -> Self {
        let counts = |fault: &&Fault| !fault.kernel && (!handled_only || fault.duration_ns.is_some());
        let mut kinds = vec![[0_u64; KINDS]; faults.windows.len()];
        let mut recorded = vec![0_u64; faults.windows.len()];
        for fault in faults.faults.iter().filter(|f| !f.kernel) {
            if let Some(window) = fault.window {
                recorded[window] += 1;
                kinds[window][fault.kind as usize] += u64::from(counts(&fault));
            }
        }
        let mut strata: Vec<Stratum> = Vec::new();
        for (window, kinds) in kinds.into_iter().enumerate() {
            let recorded = recorded[window];
            if recorded > 0 && faults.windows[window].recorded {
                let exact = faults.windows[window].faults as f64;
                strata.push(Stratum { window, exact, extra: 0.0, kinds, recorded });
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

    /// Gives the faults of an unrecorded window to the strata around it, half to each side, however many
    /// faults were recorded there: the program may have changed anywhere in between. A side with less than
    /// [`POOL_FAULTS`] gets less.
    fn spread(&mut self, window: usize, range: &Range<usize>, faults: f64) {
        let pool = &mut self.strata[range.clone()];
        let next = pool.partition_point(|s| s.window < window);
        let (before, behind) = pool.split_at_mut(next);
        let mut sides = [before, behind].map(|side| (recorded(side), side));
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

    /// Whether every fault of the run was recorded: nothing is estimated.
    pub(crate) fn is_complete(&self) -> bool {
        let whole = |s: &Stratum| s.extra == 0.0 && s.exact == s.recorded as f64;
        self.undescribed == 0.0 && !self.strata.is_empty() && self.strata.iter().all(whole)
    }
}

fn recorded(strata: &[Stratum]) -> f64 {
    strata.iter().map(|s| s.recorded as f64).sum()
}

/// The number of strata of a side with enough faults together; `None` if all are too few.
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
    use crate::kind::Kind;
    use crate::observation::Window;

    /// Windows as (faults, recorded faults by two kinds); `None`: not recorded.
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
                let fault = Fault { window: Some(index), ..Fault::timed(kind, begin_ns, 500) };
                faults.faults.extend((0..n).map(|_| fault.clone()));
            }
        }
        faults
    }

    /// Faults of the run by two kinds, as the recorded ones stand for them.
    fn by_two_kinds(strata: &Strata) -> [f64; 2] {
        [Kind::MmapFirstWrite, Kind::FileRead].map(|kind| {
            let of = |s: &Stratum| s.kinds[kind as usize] as f64 * (s.exact + s.extra) / s.recorded as f64;
            strata.strata.iter().map(of).sum()
        })
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
}
