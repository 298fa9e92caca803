//! A forked copy of this address space that only exists. Meanwhile, writes to private memory are CoW faults.

use super::child::{Child, wait_for_ever};
use crate::error::Result;

/// A child process that shares every private page with this one until it is dropped, or the thread that made
/// it ends.
#[derive(Debug)]
pub struct HeldCopy {
    /// Ends when this value does.
    _child: Child,
}

impl HeldCopy {
    /// `fork(2)`.
    ///
    /// # Errors
    /// EAGAIN or ENOMEM.
    pub fn new() -> Result<Self> {
        Child::fork(wait_for_ever).map(|child| Self { _child: child })
    }
}
