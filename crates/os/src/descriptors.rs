//! How many descriptors this process may have.
//!
//! In: nothing. Out: the limits, and whether a descriptor is one of the last.

use std::os::fd::AsRawFd;

/// The limits on descriptors; infinite if the kernel does not say. Async-signal-safe.
pub(crate) fn limits() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is valid for a write of one rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit
}

/// Whether enough descriptors are left for what is opened for a moment, such as files of `/proc`. One that is kept for each
/// process should be closed if not.
pub(crate) fn are_left_after(fd: &impl AsRawFd) -> bool {
    const LEFT: libc::rlim_t = 64;
    let most = limits().rlim_cur;
    (fd.as_raw_fd() as libc::rlim_t) < most - LEFT.min(most / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(i32);

    impl AsRawFd for Number {
        fn as_raw_fd(&self) -> i32 {
            self.0
        }
    }

    #[test]
    fn the_last_descriptors_are_left() {
        let most = i32::try_from(limits().rlim_cur).unwrap_or(i32::MAX);
        assert!(are_left_after(&Number(3)));
        assert!(!are_left_after(&Number(most - 1)) || limits().rlim_cur > i32::MAX as u64);
    }
}
