//! Ends a search from another thread.
//!
//! In: a request to end. Out: whether there was one, which workers ask between texts and before each read.
//!
//! It does not interrupt a system call.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends searches from another thread. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// Ends every search that has this token, also later ones. There is no way back.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads until the search is cancelled, then finds the end.
pub(crate) struct CancellableReader<'a, R> {
    pub(crate) reader: R,
    pub(crate) cancel: &'a CancellationToken,
}

impl<R: Read> Read for CancellableReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() { Ok(0) } else { self.reader.read(into) }
    }
}
