//! What each control group and each program did since the last round.
//!
//! In: an [`Interval`], and the counters of control groups. Out: a [`Round`]. A group's counters are exact, and hold the
//! faults of processes that began and ended in between. Where a group has none, or they include those of other groups
//! (version 2, a group above others), the sum over its processes counts. Seconds are faults at the mean price of the
//! group's processes.
//!
//! It does not see a group that was made and removed in between: [`Round::unseen`] has such faults.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use faultless_os::cgroups::{Counters, ROOT};
use faultless_prof::live::Interval;

use crate::amounts::Amounts;
use crate::members::Members;
use crate::tuning as t;

/// A program of a group: the name of its processes.
pub(crate) type Program = (Arc<str>, String);

/// What happened.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// By path. All groups with processes, also those that did nothing.
    pub(crate) groups: Vec<(Arc<str>, Amounts)>,
    pub(crate) programs: Vec<(Program, Amounts)>,
    /// What the machine counted and no group: processes that ended, and CPU time of the kernel's own threads.
    pub(crate) unseen: Amounts,
}

/// A group's counters at the last reading.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Tells it from a later one with the same path.
    id: Option<u64>,
    counters: Counters,
}

/// The state between rounds.
#[derive(Debug)]
pub(crate) struct Count {
    members: Members,
    known: HashMap<Arc<str>, Known>,
    /// The groups that had processes in the last round.
    before: Vec<Arc<str>>,
    rounds: u32,
    /// Of the machine and of all groups, since the start.
    all: Amounts,
    seen: Amounts,
    unseen: Amounts,
}

impl Count {
    /// Reads what all groups have counted so far.
    pub(crate) fn new(members: Members) -> Self {
        let groups = members.groups();
        let known = |path: String| {
            let now = Known { id: groups.id(&path), counters: groups.counters(&path) };
            (Arc::from(path), now)
        };
        let known = groups.all(t::GROUPS_MAX).into_iter().map(known).collect();
        let none = Amounts::default();
        Self { members, known, before: Vec::new(), rounds: 0, all: none, seen: none, unseen: none }
    }

    /// The control groups of the last round's processes.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// Counts a round.
    pub(crate) fn round(&mut self, interval: &Interval) -> Round {
        let mut round = Round::default();
        let mut sums: HashMap<Arc<str>, Amounts> = HashMap::new();
        let mut programs: HashMap<Program, Amounts> = HashMap::new();
        for task in &interval.processes {
            let path = self.members.path(task.pid, task.began);
            let amounts = Amounts {
                minor: task.faults.saturating_sub(task.major_faults),
                major: task.major_faults,
                fault_ns: task.fault_ns,
                cpu_ns: task.cpu_ns,
                ..Amounts::default()
            };
            *sums.entry(path.clone()).or_default() += amounts;
            *programs.entry((path, task.name.clone())).or_default() += amounts;
        }
        self.members.end_round();
        let now: Vec<Arc<str>> = sums.keys().cloned().collect();
        // What the last processes of a group did before they ended is still to be counted.
        for path in std::mem::replace(&mut self.before, now) {
            if !sums.contains_key(&path) && self.members.groups().id(&path).is_some() {
                sums.insert(path, Amounts::default());
            }
        }
        let above = above(sums.keys());
        for (path, sum) in sums {
            let counted = self.counted(&path).filter(|_| !above.contains(&*path));
            let amounts = counted.map_or(sum, |counted| merged(sum, &counted, interval.price_ns));
            self.seen += amounts;
            round.groups.push((path, amounts));
        }
        self.rounds += 1;
        if self.rounds.is_multiple_of(t::SWEEP_ROUNDS) {
            let groups = self.members.groups();
            self.known.retain(|path, known| groups.id(path) == known.id);
        }
        round.unseen = self.unseen(interval);
        self.unseen += round.unseen;
        round.programs = programs.into_iter().collect();
        round
    }

    /// What the machine counted and no group. The two are not read in the same moment, so a round may differ either way:
    /// only what exceeds all rounds before is new.
    fn unseen(&mut self, interval: &Interval) -> Amounts {
        self.all += Amounts {
            minor: interval.faults.saturating_sub(interval.major_faults),
            major: interval.major_faults,
            cpu_ns: interval.cpu_ns,
            ..Amounts::default()
        };
        let new = self.all - self.seen - self.unseen;
        Amounts { fault_ns: new.minor as f64 * interval.price_ns, huge: 0, collapses: 0, ..new }
    }

    /// What a group has counted since the last round; `None` if it counts nothing, or is the root, whose counters mean
    /// the machine in version 2.
    fn counted(&mut self, path: &Arc<str>) -> Option<Counters> {
        let groups = self.members.groups();
        if &**path == ROOT {
            return None;
        }
        let id = groups.id(path)?;
        let counters = groups.counters(path);
        let is_full = self.known.len() >= t::GROUPS_MAX && !self.known.contains_key(path);
        if counters.faults.is_none() || is_full {
            return None;
        }
        let before = self.known.insert(path.clone(), Known { id: Some(id), counters });
        let before = before.filter(|before| before.id == Some(id)).unwrap_or_default();
        Some(since(&counters, &before.counters))
    }
}

/// The groups that lie above others.
fn above<'a>(paths: impl Iterator<Item = &'a Arc<str>>) -> HashSet<String> {
    let parents = |path: &'a Arc<str>| {
        std::iter::successors(path.rsplit_once('/'), |(parent, _)| parent.rsplit_once('/'))
            .map(|(parent, _)| parent.to_owned())
    };
    paths.flat_map(parents).collect()
}

/// The increase of each counter.
fn since(now: &Counters, before: &Counters) -> Counters {
    let less =
        |now: Option<u64>, before: Option<u64>| Some(now?.checked_sub(before.unwrap_or(0)).unwrap_or(now?));
    Counters {
        faults: less(now.faults, before.faults),
        major_faults: less(now.major_faults, before.major_faults),
        huge_faults: less(now.huge_faults, before.huge_faults),
        collapses: less(now.collapses, before.collapses),
        cpu_ns: less(now.cpu_ns, before.cpu_ns),
    }
}

/// The exact counts, at the price that the group's processes had. `price_ns` is that of the machine.
fn merged(sum: Amounts, counted: &Counters, price_ns: f64) -> Amounts {
    let major = counted.major_faults.unwrap_or(sum.major);
    let minor = counted.faults.map_or(sum.minor, |faults| faults.saturating_sub(major));
    let price_ns = if sum.minor > 0 { sum.fault_ns / sum.minor as f64 } else { price_ns };
    Amounts {
        minor,
        major,
        fault_ns: minor as f64 * price_ns,
        cpu_ns: counted.cpu_ns.unwrap_or(sum.cpu_ns),
        huge: counted.huge_faults.unwrap_or(0),
        collapses: counted.collapses.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::cgroups::Groups;
    use faultless_prof::live::Task;

    #[test]
    fn a_groups_own_counters_hold_what_its_processes_forgot() {
        let sum = Amounts { minor: 100, fault_ns: 50_000.0, cpu_ns: 7, ..Amounts::default() };
        let counted = Counters { faults: Some(1_003), major_faults: Some(3), ..Counters::default() };
        let found = merged(sum, &counted, 9.0);
        assert_eq!((found.minor, found.major, found.fault_ns, found.cpu_ns), (1_000, 3, 500_000.0, 7));
        let found = merged(Amounts::default(), &counted, 9.0);
        assert_eq!(found.fault_ns, 9_000.0, "nobody is left: the price of the machine");
    }

    #[test]
    fn a_counter_that_fell_belongs_to_a_new_group() {
        let at = |faults| Counters { faults: Some(faults), ..Counters::default() };
        assert_eq!(since(&at(10), &at(4)).faults, Some(6));
        assert_eq!(since(&at(3), &at(4)).faults, Some(3));
        assert_eq!(since(&at(3), &Counters::default()).faults, Some(3));
    }

    #[test]
    fn groups_above_others_are_found() {
        let paths: Vec<Arc<str>> = ["/a/b/c", "/a", "/d"].map(Arc::from).to_vec();
        let above = above(paths.iter());
        assert!(above.contains("/a") && above.contains("/a/b") && !above.contains("/d"), "{above:?}");
    }

    #[test]
    fn what_no_group_had_is_unseen_and_nothing_is_counted_twice() {
        let mut count = Count::new(Members::new(Groups::default()));
        let task = Task { pid: 1, began: 1, faults: 60, fault_ns: 6_000.0, ..Task::default() };
        let interval =
            Interval { faults: 100, price_ns: 100.0, processes: vec![task], ..Interval::default() };
        let round = count.round(&interval);
        assert_eq!((round.groups.len(), round.programs.len()), (1, 1));
        assert_eq!((round.unseen.minor, round.unseen.fault_ns), (40, 4_000.0));
        // Now the groups' readings come a little late, and see more than the machine's.
        let late = Interval { faults: 50, ..interval.clone() };
        assert_eq!(count.round(&late).unseen.minor, 0);
        let next = Interval { faults: 100, ..interval };
        assert_eq!(count.round(&next).unseen.minor, 30, "40, less the 10 that were early");
    }
}
