//! Clocks and `getrusage`.
//!
//! In: nothing, or a process or thread. Out: nanoseconds, ticks and fault counts.

use crate::call::call;
use crate::error::{Error, Result};

/// Nanoseconds of CLOCK_MONOTONIC: the clock that every record and level carries.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The same clock, asked by a system call, from any thread. The C library's function may be somebody else's, who sets
/// the clock or needs thread-local variables, and reads a register that a program may forbid itself (PR_SET_TSC).
pub fn kernel_now_ns() -> u64 {
    if cfg!(miri) {
        return now_ns();
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write of one timespec.
    unsafe { call!(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
    in_ns(time)
}

/// CPU time of this process, user and system, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread. Unlike getrusage's, it does not lag by up to a kernel clock tick.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write of one timespec; an unknown clock would return an error, not fault.
    let rc = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(rc, 0, "both clocks exist on every Linux this crate builds for");
    in_ns(time)
}

fn in_ns(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A cheap tick of the processor: the time-stamp counter on x86-64, the virtual counter on aarch64.
///
/// Only differences on one thread are meaningful; [`tick_ns`] gives the unit. Always inlined: as a call into
/// another page of code it lengthened some kinds of touches by 150 to 300 ns, depending on the place that the
/// linker gave it.
#[inline(always)]
pub fn tick() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: rdtsc is part of the x86-64 baseline and has no memory operand.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reading CNTVCT_EL0 is allowed in user mode on Linux and touches no memory.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
}

/// Nanoseconds per [`tick`], measured against CLOCK_MONOTONIC for about 5 ms.
pub fn tick_ns() -> f64 {
    let (begin_ns, begin) = time_and_tick();
    while now_ns() - begin_ns < 5_000_000 {
        std::hint::spin_loop();
    }
    let (end_ns, end) = time_and_tick();
    (end_ns - begin_ns) as f64 / (end - begin) as f64
}

/// [`now_ns`] and [`tick`] of the same moment. A thread may lose its processor between the two: of five readings this is the tightest.
pub fn time_and_tick() -> (u64, u64) {
    let read = |_| {
        let (time_ns, tick) = (now_ns(), tick());
        (now_ns() - time_ns, time_ns, tick)
    };
    let (_, time_ns, tick) = (0..5).map(read).min().unwrap_or_default();
    (time_ns, tick)
}

/// The part of `struct rusage` that is used here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rusage {
    /// CPU time in user mode, ns. The sum of both is exact to a microsecond or two. The kernel estimates the
    /// split from its clock ticks (`cputime_adjust()` in kernel/sched/cputime.c), unless built with
    /// VIRT_CPU_ACCOUNTING. Below some ten ticks of 1 to 10 ms, the parts mean nothing.
    pub user_ns: u64,
    /// CPU time in the kernel, ns; see `user_ns`.
    pub system_ns: u64,
    /// `ru_minflt`.
    pub minor_faults: u64,
    /// `ru_majflt`.
    pub major_faults: u64,
    /// `ru_maxrss` in bytes.
    pub peak_rss_bytes: u64,
}

impl Rusage {
    /// User and system time together.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// The usage of both. The peak is the larger one, as in wait4.
    pub fn plus(self, other: Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            peak_rss_bytes: self.peak_rss_bytes.max(other.peak_rss_bytes),
        }
    }

    /// The usage since `before`. The peak covers the whole life.
    pub fn since(self, before: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            peak_rss_bytes: self.peak_rss_bytes,
        }
    }
}

impl From<libc::rusage> for Rusage {
    fn from(usage: libc::rusage) -> Self {
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Self {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            peak_rss_bytes: usage.ru_maxrss as u64 * 1024,
        }
    }
}

/// Whose usage [`rusage`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// This process, all threads.
    Process,
    /// The calling thread.
    Thread,
    /// Children that have been waited for.
    Children,
}

/// `getrusage(2)`.
///
/// # Errors
/// None in practice; passes on the kernel's answer.
pub fn rusage(who: Who) -> Result<Rusage> {
    let who = match who {
        Who::Process => libc::RUSAGE_SELF,
        Who::Thread => libc::RUSAGE_THREAD,
        Who::Children => libc::RUSAGE_CHILDREN,
    };
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for one rusage.
    if unsafe { libc::getrusage(who, usage.as_mut_ptr()) } != 0 {
        return Err(Error::last("getrusage"));
    }
    // SAFETY: all-zero is a valid rusage, and the kernel has filled it in.
    Ok(unsafe { usage.assume_init() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_new_memory_is_counted() {
        let before = rusage(Who::Thread).unwrap().minor_faults;
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(rusage(Who::Thread).unwrap().minor_faults > before);
        drop(block);
    }
}
