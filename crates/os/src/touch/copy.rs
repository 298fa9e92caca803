//! A forked copy of this address space that does nothing but exist: while it does, writes to private memory are CoW
//! faults.

use crate::error::{Error, Result};

/// A child process that shares every private page with this one until it is dropped.
#[derive(Debug)]
pub struct HeldCopy {
    child: libc::pid_t,
    /// The write end of the pipe on which the child waits.
    release: libc::c_int,
}

impl HeldCopy {
    /// `fork(2)`: the child waits for the drop of this value, or for the end of this process.
    ///
    /// # Errors
    /// EAGAIN or ENOMEM from `fork`, EMFILE from `pipe`.
    pub fn new() -> Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(Error::last("pipe2"));
        }
        let [wait, release] = ends;
        // SAFETY: the child calls only async-signal-safe functions (`close`, `read`, `_exit`), so threads and locks of
        // the parent do not matter.
        match unsafe { libc::fork() } {
            -1 => {
                let error = Error::last("fork");
                close(wait);
                close(release);
                Err(error)
            }
            0 => {
                close(release);
                let mut byte = 0_u8;
                // SAFETY: `byte` is valid for one byte; the read ends when the parent closes its end.
                unsafe { libc::read(wait, (&raw mut byte).cast(), 1) };
                // SAFETY: ends this process without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
            child => {
                close(wait);
                Ok(Self { child, release })
            }
        }
    }
}

impl Drop for HeldCopy {
    fn drop(&mut self) {
        close(self.release);
        // SAFETY: waits for our own child, which ends at once; no status is asked for.
        unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
    }
}

fn close(descriptor: libc::c_int) {
    // SAFETY: the callers own the descriptor and do not use it again.
    unsafe { libc::close(descriptor) };
}
