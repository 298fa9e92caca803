//! Undoes what Rust's start-up changes in the state of a process, for a command that replaces this program.
//!
//! In: nothing; the state is noted before `main`. Out: standard descriptors that were closed, and that Rust
//! has opened on `/dev/null`, are closed again. SIGPIPE is ignored if it was.
//!
//! `execvpe` starts a script without a first line of its own by sh, as a shell does.
//!
//! References: `std::rt` (`sanitize_standard_fds`, `reset_sigpipe`), close(2), signal(7).

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use crate::error::Error;
use crate::spawn::Plan;

/// A bit for each standard descriptor that was closed.
static CLOSED: AtomicI32 = AtomicI32::new(0);
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for descriptor in 0..3 {
        // SAFETY: only asks about a number.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Relaxed);
        }
    }
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only asks; the pointer is valid for one sigaction.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all-zero is a valid sigaction, and the call has filled it in.
    let action = unsafe { action.assume_init() };
    IGNORES_PIPE.store(action.sa_sigaction == libc::SIG_IGN, Relaxed);
}

fn give_back() {
    for descriptor in (0..3).filter(|descriptor| CLOSED.load(Relaxed) & 1 << descriptor != 0) {
        // SAFETY: `/dev/null`, which nothing here uses any more.
        unsafe { libc::close(descriptor) };
    }
    let action = if IGNORES_PIPE.load(Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, action) };
}

/// Executes the file `program` in place of this one, as `plan` has it, with the state that this program was started
/// with. Returns only on failure.
pub fn exec(program: &CStr, plan: &Plan) -> Error {
    give_back();
    let (words, environment) = plan.pointers();
    // SAFETY: both arrays end with a null pointer, and their strings live in `plan`.
    unsafe { libc::execvpe(program.as_ptr(), words.as_ptr(), environment.as_ptr()) };
    Error::last("execve")
}
