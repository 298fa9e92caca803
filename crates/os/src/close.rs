//! Closing descriptors without waiting for it.
//!
//! In: descriptors. Out: they are closed at once in this process, and later for good by a helper process. The
//! last close of a tracepoint's event waits until no processor can still be in it, some 50 ms. So does the
//! exit of a process that holds one.
//!
//! The helper shares this process's memory (CLONE_VM), so nothing is copied, but has its own descriptor
//! table. It only closes and exits.
//!
//! It does not wait for the helper, which has exit signal 0 and falls to init.
//!
//! References: clone(2), close_range(2); `perf_trace_event_unreg` in the kernel's kernel/trace/trace_event_perf.c.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Bytes of the stack: one call deep.
const STACK_BYTES: usize = 16 << 10;

/// Closes the descriptors. If the helper can't be started, they are closed before this returns. Leaks the
/// helper's stack, some 16 KiB.
pub fn close_later(mut fds: Vec<OwnedFd>) {
    if fds.is_empty() {
        return;
    }
    fds.sort_by_key(AsRawFd::as_raw_fd);
    let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    // Never freed: the helper may outlive this function.
    let numbers: &'static Numbers = Box::leak(Box::new(Numbers(numbers)));
    let stack: &'static mut [Aligned] =
        Box::leak(vec![Aligned([0; 16]); STACK_BYTES / 16].into_boxed_slice());
    let (top, numbers) = (stack.as_mut_ptr_range().end, std::ptr::from_ref(numbers).cast_mut());
    // SAFETY: `top` is the aligned end of a stack that nothing else uses and that is never freed; `close_all` reads `numbers`, which is never
    // freed either, writes to its stack alone and doesn't return. Where clone fails the descriptors are closed as this returns.
    unsafe { libc::clone(close_all, top.cast(), libc::CLONE_VM, numbers.cast()) };
}

#[derive(Clone, Copy)]
#[repr(align(16))]
struct Aligned(#[expect(dead_code, reason = "room for a stack")] [u8; 16]);

/// The descriptors, ascending.
struct Numbers(Vec<RawFd>);

/// Runs in the helper. It first closes all other descriptors, because another process may wait for the end of a
/// pipe.
extern "C" fn close_all(numbers: *mut c_void) -> c_int {
    // SAFETY: the pointer is `close_later`'s, to memory that is never freed or changed.
    let Numbers(numbers) = unsafe { &*numbers.cast::<Numbers>() };
    let mut next = 0;
    for &number in numbers {
        if number > next {
            close_range(next, number - 1);
        }
        next = number + 1;
    }
    close_range(next, c_int::MAX);
    // SAFETY: ends this process, which closes the rest, and runs nothing of the one whose memory it shares.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    0
}

fn close_range(first: c_int, last: c_int) {
    // SAFETY: close_range takes integers. A failure (before Linux 5.9) leaves the descriptors open until the exit.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_is_closed_later_is_closed_soon_and_nothing_else_is() {
        let (mut read, mut write) = std::io::pipe().unwrap();
        let (mut kept_read, mut kept) = std::io::pipe().unwrap();
        let begin = Instant::now();
        write.write_all(b"x").unwrap();
        close_later(vec![OwnedFd::from(write)]);
        let mut all = Vec::new();
        read.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"x", "and the other end sees the end");
        assert!(begin.elapsed() < Duration::from_secs(300));
        kept.write_all(b"y").unwrap();
        drop(kept);
        all.clear();
        kept_read.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"y");
        close_later(Vec::new());
    }
}
