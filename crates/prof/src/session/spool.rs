//! A ring, and what was copied from it ahead of who reads it.
//!
//! Who unwinds stacks while all processors are busy comes too late for a ring of half a MiB; a thread that only copies comes in
//! time, for it sleeps most of its life. In: rings. Out: their bytes in order.
//!
//! What it does not do: look at a record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use faultless_os::ring::Ring;

use crate::tuning as t;

/// A ring that may be copied ahead.
#[derive(Clone, Debug)]
pub(crate) struct Spool(Arc<Mutex<Spooled>>);

#[derive(Debug)]
struct Spooled {
    ring: Ring,
    ahead: Vec<u8>,
}

impl Spool {
    pub(super) fn new(ring: Ring) -> Self {
        Self(Arc::new(Mutex::new(Spooled { ring, ahead: Vec::new() })))
    }

    /// Bytes that the ring holds.
    pub(super) fn data_bytes(&self) -> usize {
        self.lock().ring.data_bytes()
    }

    /// Appends all that was written since the last call to `out`.
    pub(crate) fn drain_into(&self, out: &mut Vec<u8>) {
        let mut ahead = {
            let spooled = &mut *self.lock();
            let mut ahead = std::mem::take(&mut spooled.ahead);
            spooled.ring.drain_into(if ahead.is_empty() { out } else { &mut ahead });
            ahead
        };
        if out.is_empty() && !ahead.is_empty() { *out = ahead } else { out.append(&mut ahead) }
    }

    /// Copies what the ring holds if there is `room`, bytes. Bytes that were copied, and that wait now.
    fn copy_ahead(&self, room: usize) -> (usize, usize) {
        let spooled = &mut *self.lock();
        let before = spooled.ahead.len();
        if room > 0 {
            spooled.ring.drain_into(&mut spooled.ahead);
        }
        (spooled.ahead.len() - before, spooled.ahead.len())
    }

    fn lock(&self) -> MutexGuard<'_, Spooled> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that copies ahead; it ends with this.
#[derive(Debug)]
pub(crate) struct Ahead {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Begins. Without a thread nothing is copied ahead.
    pub(crate) fn start(spools: Vec<Spool>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let copy = move || {
            let ring_bytes = spools.iter().map(Spool::data_bytes).min().unwrap_or(0);
            let mut pause = t::SPOOL_PAUSE;
            let mut waiting = 0;
            while !told.load(Ordering::Relaxed) {
                let (mut copied, mut waits) = (0, 0);
                for spool in &spools {
                    let room = t::SPOOL_BYTES_MAX.saturating_sub(waiting.max(waits));
                    let (new, all) = spool.copy_ahead(room);
                    (copied, waits) = (copied + new, waits + all);
                }
                waiting = waits;
                pause = next(pause, copied, ring_bytes);
                std::thread::sleep(pause);
            }
        };
        Self { thread: std::thread::Builder::new().spawn(copy).ok(), stop }
    }
}

/// The time in which as much as lately fills a part of a ring, after a pause in which so many bytes were written. Each look may
/// interrupt the program: its timer fires on the processor where this thread last ran.
fn next(pause: Duration, copied: usize, ring_bytes: usize) -> Duration {
    let wanted = (ring_bytes / t::SPOOL_PART) as f64;
    let most = (t::SPOOL_PAUSE_PER_MIB * (ring_bytes >> 20).max(1) as u32).min(t::SPOOL_PAUSE_MAX);
    pause.mul_f64((wanted / copied.max(1) as f64).min(2.0)).clamp(t::SPOOL_PAUSE, most)
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has nothing to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_copied_before_it_is_full_and_no_more_often_than_that_takes() {
        let ring_bytes = 4 << 20;
        let mut pause = t::SPOOL_PAUSE;
        for _ in 0..20 {
            // 256 bytes in a microsecond.
            pause = next(pause, pause.as_micros() as usize * 256, ring_bytes);
        }
        assert_eq!(pause.as_millis() as usize, ring_bytes / t::SPOOL_PART / 256 / 1000);
        assert_eq!(next(pause, 100 << 20, ring_bytes), t::SPOOL_PAUSE);
        assert_eq!(next(t::SPOOL_PAUSE_MAX, 0, ring_bytes), t::SPOOL_PAUSE_MAX);
        // A normal user's holds 2 ms of the fastest faulting.
        assert_eq!(next(t::SPOOL_PAUSE_MAX, 0, 512 << 10), t::SPOOL_PAUSE_PER_MIB);
    }
}
