//! What the agent itself takes, and what became of its polls and pushes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Shared by all threads.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) polls: AtomicU64,
    /// CPU time of the last poll with the ticks before it, ns.
    pub(crate) poll_cpu_ns: AtomicU64,
    /// Time between polls now, ns.
    pub(crate) interval_ns: AtomicU64,
    pub(crate) scrapes: AtomicU64,
    /// Connections that were turned away or failed.
    pub(crate) refused_scrapes: AtomicU64,
    /// What became of pushes, by receiver.
    pub(crate) otlp: Arc<Pushed>,
    pub(crate) pyroscope: Arc<Pushed>,
    pub(crate) pprof: Arc<Pushed>,
    pub(crate) recordings: Recordings,
    last_poll: Mutex<Instant>,
}

/// What became of the pushes to a receiver.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) sent: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Batches lost because the spool was full.
    pub(crate) dropped_full: AtomicU64,
    /// Batches that the receiver will never take.
    pub(crate) dropped_refused: AtomicU64,
    /// Batches in the spool, and their bytes.
    pub(crate) spool: AtomicU64,
    pub(crate) spool_bytes: AtomicU64,
}

/// What became of recordings.
#[derive(Debug, Default)]
pub(crate) struct Recordings {
    pub(crate) kept: AtomicU64,
    /// The process had ended.
    pub(crate) gone: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// CPU time of all of them, ns.
    pub(crate) cpu_ns: AtomicU64,
    /// Space of those that are kept.
    pub(crate) bytes: AtomicU64,
}

impl Own {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            polls: zero(),
            poll_cpu_ns: zero(),
            interval_ns: zero(),
            scrapes: zero(),
            refused_scrapes: zero(),
            otlp: Arc::default(),
            pyroscope: Arc::default(),
            pprof: Arc::default(),
            recordings: Recordings::default(),
            last_poll: Mutex::new(Instant::now()),
        }
    }

    /// Notes a poll.
    pub(crate) fn polled(&self, cpu_ns: u64, interval: Duration) {
        self.polls.fetch_add(1, Relaxed);
        self.poll_cpu_ns.store(cpu_ns, Relaxed);
        self.interval_ns.store(interval.as_nanos() as u64, Relaxed);
        if let Ok(mut last) = self.last_poll.lock() {
            *last = Instant::now();
        }
    }

    /// Notes a request that was answered, or was not.
    pub(crate) fn request(&self, is_answered: bool) {
        let counter = if is_answered { &self.scrapes } else { &self.refused_scrapes };
        counter.fetch_add(1, Relaxed);
    }

    /// Whether the last poll is not long ago.
    pub(crate) fn is_healthy(&self) -> bool {
        /// Intervals without a poll that are not alarming: a machine without memory stops everyone.
        const INTERVALS: u32 = 3;
        let interval = Duration::from_nanos(self.interval_ns.load(Relaxed)).max(Duration::from_secs(5));
        self.last_poll.lock().is_ok_and(|last| last.elapsed() < interval * INTERVALS)
    }
}

/// Resident memory of this process, bytes.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * faultless_os::page::size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cost_is_known_and_a_poll_makes_healthy() {
        assert!(faultless_os::counters::process_cpu_ns() > 0 && resident_bytes() > 1 << 20);
        let own = Own::new();
        assert!(own.is_healthy(), "it has just begun");
        own.polled(7, Duration::from_secs(1));
        *own.last_poll.lock().unwrap() = Instant::now() - Duration::from_secs(14);
        assert!(own.is_healthy());
        *own.last_poll.lock().unwrap() = Instant::now() - Duration::from_secs(16);
        assert!(!own.is_healthy());
    }
}
