//! Entry + end -> duration. A thread is inside one fault at a time. So an end belongs to the last entry of
//! its thread if the addresses agree; other records are counted as unmatched.
//!
//! Weakness: lost records inside one window can produce a wrong pair. That takes a lost end, a lost entry,
//! and the same address again right after, as in a read of the zero page followed by a write. Such a pair is
//! too long. A pair that crosses the border of a window with losses is not timed.

use std::collections::HashMap;

use super::{Fault, find_window};
use crate::kind::Kind;
use crate::observation::{Record, Window};

/// What found no partner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Unmatched {
    pub(super) enters: u64,
    pub(super) ends: u64,
    pub(super) dropped: u64,
}

/// A fault that waits for its end.
#[derive(Clone, Copy, Debug)]
struct Open {
    addr: u64,
    index: usize,
    off_cpu: OffCpu,
}

/// How long a thread had no processor within a fault.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OffCpu {
    /// It was able to run.
    pub(super) preempted_ns: u64,
    /// It waited: for a disk, for a lock, for a handler of userfaultfd. And then until it ran again.
    pub(super) blocked_ns: u64,
    /// The last of these waits.
    pub(super) last_ns: u64,
    /// When it gave up its processor, if it has none, and whether it was able to run.
    left: Option<(u64, bool)>,
}

impl OffCpu {
    /// A switch of the thread: `out` of its processor, or back.
    pub(super) fn switch(&mut self, time_ns: u64, out: bool, preempted: bool) {
        if let Some((left_ns, preempted)) = self.left.take() {
            let ns = time_ns.saturating_sub(left_ns);
            if preempted {
                self.preempted_ns += ns;
            } else {
                (self.blocked_ns, self.last_ns) = (self.blocked_ns + ns, ns);
            }
        }
        self.left = out.then_some((time_ns, preempted));
    }
}

/// The entries that wait for their end, by thread.
pub(super) struct Pairs<'a> {
    windows: &'a [Window],
    open: HashMap<u32, Open>,
    unmatched: Unmatched,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(windows: &'a [Window]) -> Self {
        Pairs { windows, open: HashMap::new(), unmatched: Unmatched::default() }
    }

    /// Notes that the thread entered fault number `index`.
    pub(super) fn enter(&mut self, record: &Record, addr: u64, index: usize) {
        let open = Open { addr, index, off_cpu: OffCpu::default() };
        if self.open.insert(record.tid, open).is_some() {
            self.unmatched.enters += 1;
        }
    }

    /// See [`OffCpu::switch`].
    pub(super) fn switch(&mut self, record: &Record, out: bool, preempted: bool) {
        if let Some(open) = self.open.get_mut(&record.tid) {
            open.off_cpu.switch(record.time_ns, out, preempted);
        }
    }

    /// Closes the thread's open fault.
    pub(super) fn end(
        &mut self,
        record: &Record,
        addr: u64,
        major: bool,
        huge: bool,
        stack: Option<u32>,
        faults: &mut [Fault],
    ) {
        let Some(open) = self.open.get(&record.tid).copied().filter(|open| open.addr == addr) else {
            self.unmatched.ends += 1;
            return;
        };
        self.open.remove(&record.tid);
        let Some(fault) = faults.get_mut(open.index) else { return };
        fault.stack = stack;
        fault.huge = huge;
        (fault.preempted_ns, fault.blocked_ns) = (open.off_cpu.preempted_ns, open.off_cpu.blocked_ns);
        if major {
            fault.kind = Kind::Major;
        }
        if self.crosses_loss(fault.enter_ns, record.time_ns) {
            self.unmatched.dropped += 1;
        } else {
            fault.duration_ns = Some(record.time_ns.saturating_sub(fault.enter_ns));
        }
    }

    pub(super) fn finish(mut self) -> Unmatched {
        self.unmatched.enters += self.open.len() as u64;
        self.unmatched
    }

    fn crosses_loss(&self, enter_ns: u64, end_ns: u64) -> bool {
        let (from, to) = (find_window(self.windows, enter_ns), find_window(self.windows, end_ns));
        let first = from.or(to).unwrap_or(0);
        let last = to.or(from).unwrap_or(first);
        from != to && self.windows.get(first..=last).is_some_and(|w| w.iter().any(|w| w.lost > 0))
    }
}
