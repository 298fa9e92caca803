//! What each process and thread did since the last reading, from `/proc`.
//!
//! In: which processes. Out: [`Change`]s: faults and CPU time since the last reading. A process that began
//! since then counts from its start.
//!
//! It does not see a process that began and ended between two readings.

use std::collections::HashMap;

use faultless_os::procfs::{self, Running, Stat};

/// A process or thread and what it did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Change {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) began: u64,
    /// Minor and major ones.
    pub(super) faults: u64,
    pub(super) major_faults: u64,
    pub(super) cpu_ns: u64,
}

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Restricts to this process and its descendants; `None`: all.
    root: Option<u32>,
    /// When that process began: its number may be used again.
    root_began: Option<u64>,
    processes: HashMap<u32, Running>,
    /// By process: the threads read last time.
    threads: HashMap<u32, HashMap<u32, Running>>,
    has_read: bool,
}

impl Tasks {
    /// All processes, or `root` and its descendants.
    pub(super) fn new(root: Option<u32>) -> Self {
        Self { root, ..Self::default() }
    }

    /// Whether the process ran at the last reading.
    pub(super) fn runs(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Those processes.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    /// Reads all processes.
    pub(super) fn read(&mut self) -> Vec<Change> {
        let pids = match self.root {
            None => procfs::processes(),
            Some(root) => self.tree(root),
        };
        let read = |pid: u32| Some((pid, procfs::running(pid, None)?));
        let now: HashMap<u32, Running> = pids
            .into_iter()
            .filter_map(read)
            .filter(|&(pid, ref found)| {
                !found.stat.of_kernel && (!found.stat.has_ended() || procfs::living(pid).is_some())
            })
            .collect();
        let change = |(&pid, found): (&u32, &Running)| {
            changed((pid, pid), self.processes.get(&pid), found, self.has_read)
        };
        let changes = now.iter().map(change).collect();
        self.processes = now;
        self.has_read = true;
        changes
    }

    /// Reads the threads of these processes.
    pub(super) fn read_threads(&mut self, pids: &[u32]) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut all = HashMap::new();
        for &pid in pids {
            let read = |tid: u32| Some((tid, procfs::running(pid, Some(tid))?));
            let now: HashMap<u32, Running> = procfs::threads(pid).into_iter().filter_map(read).collect();
            let before = self.threads.get(&pid);
            let change = |(&tid, found): (&u32, &Running)| {
                changed((pid, tid), before.and_then(|before| before.get(&tid)), found, before.is_some())
            };
            changes.extend(now.iter().map(change));
            all.insert(pid, now);
        }
        self.threads = all;
        changes
    }

    /// Known processes stay members after their parent has ended.
    fn tree(&mut self, root: u32) -> Vec<u32> {
        let began = procfs::running(root, None).map(|found| found.began);
        self.root_began = self.root_began.or(began);
        let own = (began == self.root_began).then_some(root);
        let mut found: Vec<u32> = own.into_iter().collect();
        found.extend(self.processes.keys().filter(|pid| **pid != root));
        let mut next = 0;
        while next < found.len() {
            for child in procfs::children(found[next]) {
                if !found.contains(&child) {
                    found.push(child);
                }
            }
            next += 1;
        }
        found
    }
}

/// What `now` did since `before`. An unknown task counts from its start if it is `new`.
fn changed((pid, tid): (u32, u32), before: Option<&Running>, now: &Running, new: bool) -> Change {
    let base = match before.filter(|before| before.began == now.began) {
        Some(before) => before.stat,
        None if new => Stat::default(),
        None => now.stat,
    };
    let cpu_ns = |stat: &Stat| stat.user_ns + stat.system_ns;
    Change {
        pid,
        tid,
        name: now.name.clone(),
        began: now.began,
        faults: now.stat.own_faults().saturating_sub(base.own_faults()),
        major_faults: now.stat.major_faults.saturating_sub(base.major_faults),
        cpu_ns: cpu_ns(&now.stat).saturating_sub(cpu_ns(&base)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_new_counts_whole_and_a_number_used_again_is_new() {
        let running = |began, minor_faults| Running {
            began,
            stat: Stat { minor_faults, major_faults: 1, user_ns: 10, ..Stat::default() },
            ..Running::default()
        };
        let faults = |before: Option<&Running>, new| changed((7, 7), before, &running(5, 100), new).faults;
        assert_eq!(faults(Some(&running(5, 60)), true), 40);
        assert_eq!(faults(Some(&running(4, 60)), true), 101);
        assert_eq!(faults(None, true), 101);
        assert_eq!(faults(None, false), 0, "what it did before the first poll is not counted");
    }

    #[test]
    fn who_has_the_number_of_a_root_that_ended_is_a_stranger() {
        let own = std::process::id();
        let mut tasks = Tasks::new(Some(own));
        tasks.read();
        assert!(tasks.pids().contains(&own));
        tasks.root_began = tasks.root_began.map(|began| began - 1);
        tasks.read();
        assert!(!tasks.pids().contains(&own));
    }
}
