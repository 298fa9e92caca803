//! For programs that fault so often that even counting slows them: short visits, and /proc in between.
//!
//! In: the exact counts at the moment when counting ended, and what each visit recorded beside what /proc showed meanwhile.
//! Out: counts for the whole run. /proc and `wait4` count all faults, whatever the mode; how many of them are of user mode
//! is exact up to that moment, and from there on as in the visits.
//!
//! What it does not do: open events (`session`), or decide when a visit is due (`duty`).

use faultless_trace::observation::Counts;

use crate::tuning as t;

/// The counts when counting ended, and the visits since.
#[derive(Debug)]
pub(crate) struct Visits {
    before: Counts,
    before_by_proc: u64,
    /// In all visits: entries in user mode, entries in all modes, faults by /proc.
    seen: [u64; 3],
    /// In the open visit: entries likewise, and faults by /proc at its begin.
    open: Option<([u64; 2], u64)>,
    pub(crate) count: u64,
}

/// Whether a program that has taken so many faults in so much CPU time, with so many threads, had better be visited.
pub(crate) fn are_better(faults: u64, cpu_ns: u64, groups: usize) -> bool {
    let per_s = faults as f64 * 1e9 / cpu_ns.max(1) as f64;
    faults >= t::VISITS_FROM_FAULTS && per_s >= t::VISITS_FAULTS_PER_CPU_S && groups <= t::VISIT_GROUPS_MAX
}

/// What it costs to open and close so many groups of events.
pub(crate) fn cost_ns(groups: usize) -> f64 {
    t::VISIT_COST_NS + t::VISIT_GROUP_COST_NS * groups as f64
}

impl Visits {
    /// Counting ends with these counts, when /proc shows so many faults.
    pub(crate) fn instead_of(before: Counts, by_proc: u64) -> Self {
        Self { before, before_by_proc: by_proc, seen: [0; 3], open: None, count: 0 }
    }

    /// The counter of user mode, continued by the faults that /proc shows.
    pub(crate) fn counter(&self, by_proc: u64) -> u64 {
        self.before.user_faults.unwrap_or(0) + by_proc.saturating_sub(self.before_by_proc)
    }

    /// A visit begins; the counter is at `counter`.
    pub(crate) fn begin(&mut self, counter: u64) {
        self.open = Some(([0; 2], counter));
        self.count += 1;
    }

    /// Entries recorded, in user mode and in all modes. `spoilt`: they can't be compared with what /proc shows.
    pub(crate) fn record(&mut self, entries: [u64; 2], spoilt: bool) {
        match &mut self.open {
            Some(_) if spoilt => self.open = None,
            Some((seen, _)) => (0..2).for_each(|mode| seen[mode] += entries[mode]),
            None => {}
        }
    }

    /// The visit ends; the counter is at `counter`. A spoilt one tells nothing.
    pub(crate) fn end(&mut self, counter: u64) {
        if let Some((entries, begin)) = self.open.take() {
            self.seen[0] += entries[0];
            self.seen[1] += entries[1];
            self.seen[2] += counter.saturating_sub(begin);
        }
    }

    /// Share of user mode in the faults that /proc shows.
    pub(crate) fn user_share(&self) -> f64 {
        self.share(0, self.before.user_faults)
    }

    /// In visits if they have seen enough, else up to the moment when counting ended.
    fn share(&self, mode: usize, before: Option<u64>) -> f64 {
        let (part, all) = match self.seen[2] {
            0..t::VISITS_FAULTS_MIN => (before.unwrap_or(0), self.before_by_proc),
            all => (self.seen[mode], all),
        };
        (part as f64 / all.max(1) as f64).min(1.0)
    }

    /// Counts of the whole run, which took `total` faults by `wait4`. `last`: what was counted to the end.
    pub(crate) fn counts(&self, total: u64, last: Counts) -> Counts {
        let rest = total.saturating_sub(self.before_by_proc) as f64;
        let estimated =
            |mode, before: Option<u64>| Some(before? + (rest * self.share(mode, before)).round() as u64);
        Counts {
            user_faults: estimated(0, self.before.user_faults),
            all_faults: estimated(1, self.before.all_faults),
            minor_faults: None,
            counted_faults: self.before.user_faults,
            ..last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before() -> Counts {
        Counts { user_faults: Some(90_000), all_faults: Some(95_000), ..Counts::default() }
    }

    #[test]
    fn the_rest_is_split_as_in_the_visits() {
        let mut visits = Visits::instead_of(before(), 100_000);
        for begin in [200_000, 300_000] {
            visits.begin(visits.counter(begin));
            visits.record([6000, 8000], false);
            visits.end(visits.counter(begin + 10_000));
        }
        let counts = visits.counts(1_100_000, Counts { major_faults: Some(3), ..Counts::default() });
        assert_eq!((counts.user_faults, counts.all_faults), (Some(690_000), Some(895_000)));
        assert_eq!((counts.major_faults, counts.counted_faults), (Some(3), Some(90_000)));
    }

    #[test]
    fn visits_that_were_spoilt_or_saw_too_little_leave_the_earlier_split() {
        let mut visits = Visits::instead_of(before(), 100_000);
        visits.begin(visits.counter(200_000));
        visits.record([1, 1], true);
        visits.end(visits.counter(250_000));
        visits.begin(visits.counter(300_000));
        visits.record([1, 1], false);
        visits.end(visits.counter(300_010));
        assert_eq!(visits.user_share(), 0.9);
        assert_eq!(visits.counts(200_000, Counts::default()).user_faults, Some(180_000));
    }

    #[test]
    fn without_rights_the_kernel_stays_unknown() {
        let visits = Visits::instead_of(Counts { all_faults: None, ..before() }, 100_000);
        assert_eq!(visits.counts(200_000, Counts::default()).all_faults, None);
    }

    #[test]
    fn only_a_program_that_faults_all_the_time_is_visited() {
        assert!(are_better(t::VISITS_FROM_FAULTS, 200_000_000, 2));
        assert!(!are_better(t::VISITS_FROM_FAULTS, 20_000_000_000, 2), "it computes");
        assert!(!are_better(t::VISITS_FROM_FAULTS - 1, 1, 2), "it is short");
        assert!(!are_better(1 << 40, 1, t::VISIT_GROUPS_MAX + 1), "it has many threads");
    }
}
