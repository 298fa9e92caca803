//! What the events of a recording write, and how often.
//!
//! In: what the caller wants to see, and what a fault costs. Out: a [`Shape`] with its perf outputs.
//!
//! It does not open events (`session`).

use faultless_os::counters::now_ns;
use faultless_os::perf::Output;
use faultless_os::tracepoint::Tracepoint;

use crate::calls::Points;
use crate::tuning as t;

/// What is recorded, and how much of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// For a live view: entries of samples have the user's call chain, their ends are not seen, and single faults are
    /// recorded only when asked for.
    pub(crate) live: bool,
    /// Bytes of stack copied with a fault's end; 0: no stacks.
    pub(crate) stack_bytes: u32,
    /// Faults per sample that is also taken outside bursts, together with every major fault; 0: none.
    pub(crate) period: u64,
    /// The same at first, until [`Session::thin_samples`](crate::session::Session::thin_samples); 0: as
    /// `period`.
    pub(crate) early_period: u64,
    /// Samples of the CPU clock per second, 0 for none; `None`: [`t::KERNEL_CHEAP_HERTZ`] if the kernel may
    /// be seen, else none.
    pub(crate) cpu_hertz: Option<u64>,
    /// Tracepoints of waits for the address space lock, if they can be seen.
    pub(crate) locks: Option<Locks>,
    /// Tracepoints of system calls, if they can be seen.
    pub(crate) calls: Option<Points>,
    /// The tracepoint of TLB flushes, if it can be seen.
    pub(crate) flushes: Option<Flushes>,
    /// Whether context switches are recorded.
    pub(crate) switches: bool,
    /// Largest ring, pages.
    pub(crate) ring_pages: usize,
}

impl Shape {
    /// Bare faults.
    pub(crate) const BARE: Self = Self {
        live: false,
        stack_bytes: 0,
        period: 0,
        early_period: 0,
        cpu_hertz: Some(0),
        locks: None,
        calls: None,
        flushes: None,
        switches: false,
        ring_pages: t::RING_PAGES_MAX,
    };

    /// For a live view with samples of this period.
    pub(crate) fn live(period: u64) -> Self {
        Self { live: true, period, ..Self::BARE }
    }

    /// Adds samples, as many as are cheap where a fault takes `fault_ns`.
    pub(crate) fn sampled(self, fault_ns: f64) -> Self {
        let cost_ns = if self.stack_bytes > 0 { t::STACK_SAMPLE_COST_NS } else { t::SAMPLE_COST_NS };
        let cheap = |period: &u64| cost_ns / *period as f64 <= t::SAMPLE_SHARE * fault_ns;
        let [.., last] = t::SAMPLE_PERIODS;
        let least = t::SAMPLE_PERIODS.into_iter().find(cheap).unwrap_or(last);
        let early_period = if self.stack_bytes > 0 { t::EARLY_STACK_PERIOD } else { t::EARLY_SAMPLE_PERIOD };
        Self { period: period_from(least, now_ns()), early_period, ..self }
    }

    /// Whether it needs tracepoints.
    pub(crate) fn traces(&self) -> bool {
        self.locks.is_some() || self.calls.is_some() || self.flushes.is_some()
    }

    /// Samples of the CPU clock per second, given whether the kernel is visible.
    pub(crate) fn hertz(&self, user_only: bool) -> u64 {
        self.cpu_hertz.unwrap_or(if user_only { 0 } else { t::KERNEL_CHEAP_HERTZ })
    }

    /// The output at the end of one fault in `period`. Registers are recorded here and not at the entry,
    /// where they would lengthen the measured interval.
    pub(crate) fn end(&self, period: u64) -> Output {
        match self.stack_bytes {
            0 => Output::Faults { period, registers: true },
            stack_bytes => Output::FaultStacks { period, stack_bytes },
        }
    }
}

/// A prime between `least` and 5/4 of it, or a little more.
fn period_from(least: u64, seed: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    let from = least + seed % (least / 4);
    (from..).find(is_prime).unwrap_or(least)
}

/// The tracepoints of `mmap_lock`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locks {
    pub(crate) wanted: u32,
    pub(crate) taken: u32,
    /// Byte offset of the "write" flag in `taken`.
    pub(crate) write_at: usize,
}

impl Locks {
    /// Finds them (Linux 5.11, CONFIG_TRACING, root).
    pub(crate) fn find() -> Option<Self> {
        let wanted = Tracepoint::find("mmap_lock/mmap_lock_start_locking")?;
        let taken = Tracepoint::find("mmap_lock/mmap_lock_acquire_returned")?;
        Some(Self { wanted: wanted.id, taken: taken.id, write_at: taken.offset("write")? })
    }
}

/// The tracepoint of TLB flushes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flushes {
    pub(crate) id: u32,
    /// Byte offset of the reason.
    pub(crate) reason_at: usize,
}

impl Flushes {
    /// Lets pass what one thread asks of others (`enum tlb_flush_reason`, include/linux/mm_types.h).
    pub(crate) const FILTER: &std::ffi::CStr = c"reason==1||reason==4";
    /// The reason where the thread itself sends the request: TLB_REMOTE_SEND_IPI. The other one is
    /// TLB_REMOTE_SHOOTDOWN, in the thread that is interrupted.
    pub(crate) const SENT: i32 = 4;

    /// Finds it (Linux 3.16 on x86, root).
    pub(crate) fn find() -> Option<Self> {
        let point = Tracepoint::find("tlb/tlb_flush")?;
        Some(Self { id: point.id, reason_at: point.offset("reason")? })
    }
}

/// The output at the entry of one fault in `period`.
pub(crate) fn entry(period: u64) -> Output {
    Output::Faults { period, registers: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_primes_of_which_no_two_recordings_need_have_the_same() {
        for least in t::SAMPLE_PERIODS {
            let drawn: std::collections::BTreeSet<u64> =
                (0..1000).map(|seed| period_from(least, seed)).collect();
            assert!(drawn.len() >= 4, "{drawn:?}");
            assert!(drawn.iter().all(|&n| n >= least && n <= least * 4 / 3), "{drawn:?}");
            assert!(drawn.iter().all(|&n| (2..n).all(|d| !n.is_multiple_of(d))), "{drawn:?}");
        }
    }

    #[test]
    fn no_period_is_in_step_with_the_kernels_allocator() {
        let fixed =
            [t::EARLY_SAMPLE_PERIOD, t::EARLY_STACK_PERIOD, t::LIVE_PERIOD_SYSTEM, t::LIVE_PERIOD_PROGRAM];
        let drawn = t::SAMPLE_PERIODS
            .into_iter()
            .flat_map(|least| (0..1000).map(move |seed| period_from(least, seed)));
        for period in drawn.chain(fixed) {
            for batch in t::ALLOCATOR_BATCHES {
                // The faults of a batch that the samples meet, before one comes again.
                let met: std::collections::BTreeSet<u64> = (0..batch).map(|n| n * period % batch).collect();
                assert_eq!(met.len() as u64, batch, "one fault in {period}, batches of {batch}");
            }
            assert_eq!(period % 2, 1, "{period}: page tables have 512 entries, and batches may double");
        }
    }
}
