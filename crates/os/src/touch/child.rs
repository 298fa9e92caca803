//! A forked child that does one thing and returns nothing: the address space of this process, apart from it.
//!
//! What runs in it may do nothing but system calls and writes to memory, so that other threads of the parent, and locks they
//! held, do not matter.

use crate::error::{Error, Result};

/// A child process, ended and waited for on drop; it ends with the thread that made it, too.
#[derive(Debug)]
pub(super) struct Child(libc::pid_t);

impl Child {
    /// Runs `work`, which may only do what is said at the top of this file, in a child.
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
                // A parent that ended before that sends nothing any more, and is no longer the parent.
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
        // SAFETY: our own child, which nobody else waits for, so the number is still its own.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: waits for that child; no status is asked for.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

/// For the child: does nothing until it is ended.
pub(super) fn wait_for_ever() {
    loop {
        // SAFETY: waits for a signal, without conditions.
        unsafe { libc::pause() };
    }
}
