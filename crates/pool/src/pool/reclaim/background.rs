//! The state of a pool's background thread. `maintain` has its work.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use faultless_os::call::process_id;
use faultless_os::lock::Mutex;
use faultless_os::thread::Background as Thread;

use super::decay::Decay;

/// The background thread as the pool sees it.
#[derive(Debug)]
pub(crate) struct Background {
    pub(super) thread: Thread,
    /// Whether there is work for a thread, and no thread.
    pub(super) wanted: AtomicBool,
    /// Whether there will never be one.
    pub(super) refused: AtomicBool,
    /// The process that owns this memory. A child of vfork(2) borrows it.
    owner: AtomicU32,
    /// The progress of the last thread. A program that forks again and again thus still gives its memory back.
    saved: Mutex<Option<Progress>>,
}

impl Background {
    pub(crate) fn new() -> Self {
        Self {
            thread: Thread::new(),
            wanted: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            owner: AtomicU32::new(process_id()),
            saved: Mutex::new(None),
        }
    }

    /// Makes this process, a child of `fork`, the owner. Without a thread nobody asks, and a sandbox may forbid getpid(2).
    pub(crate) fn inherit(&self) {
        if self.refused.load(Relaxed) {
            return;
        }
        self.owner.store(process_id(), Relaxed);
    }

    pub(super) fn is_owner(&self) -> bool {
        self.owner.load(Relaxed) == process_id()
    }

    pub(super) fn save(&self, progress: Progress) {
        if let Some(mut saved) = self.saved.lock() {
            *saved = Some(progress);
        }
    }

    pub(super) fn saved(&self) -> Option<Progress> {
        self.saved.lock().and_then(|mut saved| saved.take())
    }
}

/// The progress of the background thread.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(super) decay: Decay,
    /// Rounds so far. With work ahead of need there are several rounds to a tick of the decay.
    pub(super) rounds: u64,
    /// Whether the stock of zeroed memory is being filled up to its high watermark.
    pub(super) scrubs: bool,
    /// When the last round began, in ns.
    pub(super) round_ns: u64,
    /// How often the thread had been woken by then.
    pub(super) wakes: u32,
    /// Whether that round left something to do later.
    pub(super) is_unfinished: bool,
}

impl Progress {
    pub(super) const fn new() -> Self {
        Self { decay: Decay::new(), rounds: 0, scrubs: false, round_ns: 0, wakes: 0, is_unfinished: false }
    }
}
