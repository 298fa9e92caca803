//! Undoes what Rust's start-up changes in the state of a process, for a command that replaces this program.
//!
//! In: nothing; the state is noted before `main`. Out: standard descriptors that were closed, and that Rust
//! has opened on `/dev/null`, are closed again. SIGPIPE is ignored if it was.
//!
//! References: `std::rt` (`sanitize_standard_fds`, `reset_sigpipe`), close(2), signal(7).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

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

fn give_back() -> io::Result<()> {
    for descriptor in (0..3).filter(|descriptor| CLOSED.load(Relaxed) & 1 << descriptor != 0) {
        // SAFETY: `/dev/null`, which nothing here uses any more.
        unsafe { libc::close(descriptor) };
    }
    if IGNORES_PIPE.load(Relaxed) {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    }
    Ok(())
}

/// Executes a command in place of this program, with the state that this program was started with. Returns
/// only on failure.
pub fn exec(command: &mut Command) -> io::Error {
    // SAFETY: the function makes system calls only.
    unsafe { command.pre_exec(give_back) };
    command.exec()
}
