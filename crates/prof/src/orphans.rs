//! Descendants that the program did not wait for.
//!
//! In: process ids as they appear and end. Out: the usage of those that this process adopted, and of those
//! that still run. So counts over the tree and `wait4` cover the same processes.
//!
//! It does not count children whose parent ignores SIGCHLD. The kernel drops their usage.

use std::collections::HashSet;

use faultless_os::counters::Rusage;
use faultless_os::{procfs, spawn};

use crate::tuning as t;

/// Descendants by state.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    alive: HashSet<u32>,
    ended: HashSet<u32>,
    recent: Vec<u32>,
    usage: Rusage,
    reaped: u64,
    next_ns: u64,
}

/// What was found at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OrphanUsage {
    /// Usage of all of them together.
    pub(crate) usage: Rusage,
    /// Orphans that were reaped here.
    pub(crate) reaped: u64,
    /// Descendants that still run.
    pub(crate) running: u64,
}

impl Orphans {
    /// A process appeared.
    pub(crate) fn began(&mut self, pid: u32) {
        self.ended.remove(&pid);
        self.alive.insert(pid);
    }

    /// A process ended.
    pub(crate) fn ended(&mut self, pid: u32) {
        if self.alive.remove(&pid) {
            self.ended.insert(pid);
            self.recent.push(pid);
        }
    }

    /// Now and then, reaps adopted processes that have ended, so that zombies don't pile up.
    pub(crate) fn reap_ended(&mut self, now_ns: u64) {
        if now_ns >= self.next_ns && !self.recent.is_empty() {
            self.next_ns = now_ns + t::SELDOM_NS;
            for pid in std::mem::take(&mut self.recent) {
                self.reap(pid);
            }
        }
    }

    /// Call it after the program itself has been reaped.
    pub(crate) fn finish(mut self) -> OrphanUsage {
        for pid in std::mem::take(&mut self.ended) {
            self.reap(pid);
        }
        let mut running = 0;
        for pid in std::mem::take(&mut self.alive) {
            if self.reap(pid) {
                continue;
            }
            let Some(stat) = procfs::stat(pid).filter(|stat| stat.state != b'Z') else { continue };
            running += 1;
            self.usage = self.usage.plus(stat.usage());
        }
        OrphanUsage { usage: self.usage, reaped: self.reaped, running }
    }

    /// CPU time of those that nobody has waited for yet, as far as /proc tells, ns.
    pub(crate) fn unreaped_cpu_ns(&self) -> u64 {
        // The number of one that ended long ago may be that of another process, which is hardly a zombie.
        let is_itself =
            |pid: &u32, state| self.alive.contains(pid) || self.recent.contains(pid) || state == b'Z';
        let all = self.alive.iter().chain(&self.ended).filter_map(|pid| Some((pid, procfs::stat(*pid)?)));
        all.filter(|(pid, stat)| is_itself(pid, stat.state)).map(|(_, stat)| stat.usage().cpu_ns()).sum()
    }

    fn reap(&mut self, pid: u32) -> bool {
        let Ok(Some((_, usage))) = spawn::reap(pid as i32, false) else { return false };
        self.ended.remove(&pid);
        self.usage = self.usage.plus(usage);
        self.reaped += 1;
        true
    }
}
