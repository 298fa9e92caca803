//! A ring, and the bytes copied from it before they are parsed.
//!
//! In: rings. Out: their bytes in order. A recorder that unwinds stacks while all processors are busy comes
//! too late for a ring of 512 KiB. A thread that only copies comes in time, because it mostly sleeps.
//!
//! It does not parse records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use faultless_os::ring::Ring;

use crate::tuning as t;

/// A ring with a buffer for bytes copied early.
#[derive(Clone, Debug)]
pub(crate) struct BufferedRing(Arc<Mutex<Pending>>);

#[derive(Debug)]
struct Pending {
    ring: Ring,
    ahead: Vec<u8>,
}

impl BufferedRing {
    pub(super) fn new(ring: Ring) -> Self {
        Self(Arc::new(Mutex::new(Pending { ring, ahead: Vec::new() })))
    }

    /// Bytes that the ring holds.
    pub(super) fn data_bytes(&self) -> usize {
        self.lock().ring.data_bytes()
    }

    /// Appends all that was written since the last call to `out`.
    pub(crate) fn drain_into(&self, out: &mut Vec<u8>) {
        let pending = &mut *self.lock();
        if out.is_empty() {
            std::mem::swap(out, &mut pending.ahead);
        }
        out.append(&mut pending.ahead);
        pending.ahead.shrink_to(t::COPIED_BYTES_KEPT);
        pending.ring.drain_into(out);
    }

    /// If there is `room`, bytes, copies what the ring holds. Returns the bytes copied, and the bytes that
    /// now wait.
    fn copy_ahead(&self, room: usize) -> (usize, usize) {
        let pending = &mut *self.lock();
        let before = pending.ahead.len();
        if room > 0 {
            pending.ring.drain_into(&mut pending.ahead);
        }
        (pending.ahead.len() - before, pending.ahead.len())
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The copying thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Copier {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    /// Starts the thread. If it can't start, nothing is copied early.
    pub(crate) fn start(rings: Vec<BufferedRing>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let must_stop = stop.clone();
        let copy = move || {
            let ring_bytes = rings.iter().map(BufferedRing::data_bytes).min().unwrap_or(0);
            let mut pause = t::COPIER_PAUSE;
            let mut waiting = 0;
            while !must_stop.load(Ordering::Relaxed) {
                let (mut copied, mut waits) = (0, 0);
                for ring in &rings {
                    let room = t::COPIER_BYTES_MAX.saturating_sub(waiting.max(waits));
                    let (new, all) = ring.copy_ahead(room);
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

/// The pause in which, at the latest rate, a part of a ring fills. Each copy may interrupt the program: the
/// timer fires on the processor where this thread last ran.
fn next(pause: Duration, copied: usize, ring_bytes: usize) -> Duration {
    let wanted = (ring_bytes / t::COPIER_PART) as f64;
    let most = (t::COPIER_PAUSE_PER_MIB * (ring_bytes >> 20).max(1) as u32).min(t::COPIER_PAUSE_MAX);
    pause.mul_f64((wanted / copied.max(1) as f64).min(2.0)).clamp(t::COPIER_PAUSE, most)
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // If the thread panicked, there is no result to collect.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_copied_before_it_is_full_and_no_more_often_than_that_takes() {
        let ring_bytes = 4 << 20;
        let mut pause = t::COPIER_PAUSE;
        for _ in 0..20 {
            // 256 bytes in a microsecond.
            pause = next(pause, pause.as_micros() as usize * 256, ring_bytes);
        }
        assert_eq!(pause.as_millis() as usize, ring_bytes / t::COPIER_PART / 256 / 1000);
        assert_eq!(next(pause, 100 << 20, ring_bytes), t::COPIER_PAUSE);
        assert_eq!(next(t::COPIER_PAUSE_MAX, 0, ring_bytes), t::COPIER_PAUSE_MAX);
        // A normal user's ring holds 2 ms of the fastest faulting.
        assert_eq!(next(t::COPIER_PAUSE_MAX, 0, 512 << 10), t::COPIER_PAUSE_PER_MIB);
    }
}
