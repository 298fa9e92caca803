//! Forked children, each a separate copy of this address space.
//!
//! In: one piece of work. Out: a process that returns nothing, and ends with its owner.
//!
//! Its code may only make system calls and write to memory, so other threads of the parent, and their locks,
//! do not matter.

use crate::error::{Error, Result};

/// A child process, killed and reaped on drop. It also ends with the thread that made it.
#[derive(Debug)]
pub(super) struct Child(libc::pid_t);

impl Child {
    /// Runs `work` in a child, under the rules at the top of this file.
    ///
    /// # Errors
    /// EAGAIN or ENOMEM from `fork`.
    pub(super) fn fork(work: impl FnOnce()) -> Result<Self> {
        let parent = std::process::id();
        // SAFETY: the child calls only what is async-signal-safe, see above, and never returns from here.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last("fork")),
            0 => {
                // SAFETY: takes integers.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                // A parent that ended before the prctl sends no signal, and is no longer the parent.
                if std::os::unix::process::parent_id() == parent {
                    work();
                }
                // SAFETY: ends this process without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
            child => Ok(Self(child)),
        }
    }

    /// The child's process id.
    pub(super) fn pid(&self) -> u32 {
        self.0.unsigned_abs()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child, which only this value waits for, so the number is still its own.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: waits for that child; no status is asked for.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

/// For the child: sleeps until it is killed.
pub(super) fn wait_for_ever() {
    loop {
        // SAFETY: waits for a signal, without conditions.
        unsafe { libc::pause() };
    }
}

/// A child process that shares every private page with this one until it is dropped, or the thread that made
/// it ends. Meanwhile, writes to private memory are CoW faults.
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
