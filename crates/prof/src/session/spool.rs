//! A ring, and what was copied from it ahead of who reads it.
//!
//! Who unwinds stacks while all processors are busy comes too late for a ring of half a MiB; a thread that only copies comes in
//! time, for it sleeps most of its life. In: rings. Out: their bytes in order.
//!
//! What it does not do: look at a record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

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
                pause = if copied > 0 { t::SPOOL_PAUSE } else { (pause * 2).min(t::SPOOL_PAUSE_IDLE) };
                std::thread::sleep(pause);
            }
        };
        Self { thread: std::thread::Builder::new().spawn(copy).ok(), stop }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has nothing to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
