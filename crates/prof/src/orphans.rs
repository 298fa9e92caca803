//! Descendants that the program did not wait for.
//!
//! In: process ids as they appear and end. Out: the usage of those that ended up with us, and of those that still run, so
//! that counts over the tree and `wait4` speak of the same processes.
//!
//! What it does not do: know of children whose parent ignores SIGCHLD. The kernel drops their usage; nobody can have it.

use std::collections::HashSet;

use faultless_os::counters::Rusage;
use faultless_os::{procfs, spawn};

use crate::tuning as t;

/// Descendants by what is known of them.
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
pub(crate) struct Found {
    /// Usage of all of them together.
    pub(crate) usage: Rusage,
    /// Orphans that ended and were reaped here.
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

    /// Now and then: reaps what has ended and fallen to us, so that no zombies pile up.
    pub(crate) fn tend(&mut self, now_ns: u64) {
        if now_ns >= self.next_ns && !self.recent.is_empty() {
            self.next_ns = now_ns + t::REAP_NS;
            for pid in std::mem::take(&mut self.recent) {
                self.reap(pid);
            }
        }
    }

    /// After the program itself has been reaped.
    pub(crate) fn finish(mut self) -> Found {
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
            self.usage = sum(
                self.usage,
                Rusage {
                    user_ns: stat.user_ns,
                    system_ns: stat.system_ns,
                    minor_faults: stat.minor_faults + stat.children_minor_faults,
                    major_faults: stat.major_faults + stat.children_major_faults,
                    peak_rss_bytes: 0,
                },
            );
        }
        Found { usage: self.usage, reaped: self.reaped, running }
    }

    fn reap(&mut self, pid: u32) -> bool {
        let Ok(Some((_, usage))) = spawn::reap(pid as i32, false) else { return false };
        self.ended.remove(&pid);
        self.usage = sum(self.usage, usage);
        self.reaped += 1;
        true
    }
}

/// Two usages together; the peak is the larger one, as in wait4.
pub(crate) fn sum(a: Rusage, b: Rusage) -> Rusage {
    Rusage {
        user_ns: a.user_ns + b.user_ns,
        system_ns: a.system_ns + b.system_ns,
        minor_faults: a.minor_faults + b.minor_faults,
        major_faults: a.major_faults + b.major_faults,
        peak_rss_bytes: a.peak_rss_bytes.max(b.peak_rss_bytes),
    }
}
