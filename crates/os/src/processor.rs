//! The processor a thread runs on, for choosing one of several copies of something, so that threads rarely
//! meet.
//!
//! In: nothing. Out: a number that is mostly the same for threads on one processor. It costs two loads: the C
//! library keeps the number in an area that it shares with the kernel (rseq(2), glibc 2.35, Linux 4.18).
//! Without that area, threads are told apart by their thread pointers.
//!
//! It does not promise anything: the thread may move before the answer is used.

use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// How to find the processor's number.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    /// Distance of the C library's rseq area from the thread pointer; 0: there is none.
    area: isize,
}

/// Distance of `cpu_id` in `struct rseq` (linux/rseq.h).
const CPU_ID: usize = 4;
/// Least distance of two threads' data, bytes: the smallest stack.
const APART: u32 = (16_usize << 10).ilog2();

impl Processors {
    /// Looks for the C library's rseq area. The first call takes the loader's lock. A thread that loads a
    /// library holds this lock, while a constructor may wait for other threads. So a malloc has to call this
    /// before other threads exist.
    pub fn find() -> Self {
        /// No distance of an area.
        const UNKNOWN: isize = isize::MIN;
        static AREA: AtomicIsize = AtomicIsize::new(UNKNOWN);
        if cfg!(miri) {
            return Self { area: 0 };
        }
        if AREA.load(Relaxed) == UNKNOWN {
            AREA.store(Self::read().area, Relaxed);
        }
        Self { area: AREA.load(Relaxed) }
    }

    fn read() -> Self {
        // SAFETY: the name is a C string.
        let area = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
        // SAFETY: as above.
        let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
        if area.is_null() || size.is_null() {
            // Clears our lookup from the program's next dlerror(3).
            // SAFETY: no preconditions.
            unsafe { libc::dlerror() };
            return Self { area: 0 };
        }
        // SAFETY: glibc's manual, "Restartable Sequences": an unsigned int, constant once the program runs.
        let registered = unsafe { *size.cast::<u32>() } != 0;
        // SAFETY: as above, a ptrdiff_t.
        let area = unsafe { *area.cast::<isize>() };
        Self { area: if registered { area } else { 0 } }
    }

    /// Distance of the C library's rseq area from the thread pointer; 0: there is none.
    pub(crate) fn area(self) -> isize {
        self.area
    }

    /// A small number, mostly different for threads that run at the same time.
    #[inline]
    pub fn current(self) -> usize {
        let thread = thread_pointer();
        if self.area != 0 {
            let place = thread.wrapping_add_signed(self.area).wrapping_add(CPU_ID) as *const u32;
            // SAFETY: glibc keeps a `struct rseq` there for every thread; the kernel writes it between instructions of
            // this thread, so the load is volatile.
            let processor = unsafe { place.read_volatile() };
            // Negative if this thread could not be registered.
            if processor as i32 >= 0 {
                return processor as usize;
            }
        }
        let page = (thread >> APART) as u64;
        // Fibonacci hashing: the high bits of the product are well mixed.
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
    }
}

/// The value of the thread register: the address of this thread's own data.
#[inline]
pub(crate) fn thread_pointer() -> usize {
    #[cfg(miri)]
    {
        // SAFETY: no arguments, and it cannot fail.
        unsafe { libc::__errno_location() }.addr()
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let pointer: usize;
        // SAFETY: reads the first word of the thread control block, which by the x86-64 ABI for thread-local storage
        // is its own address.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, pure, preserves_flags))
        };
        pointer
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let pointer: usize;
        // SAFETY: reads a register that user code may read.
        unsafe {
            std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, pure, preserves_flags))
        };
        pointer
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_the_kernels() {
        let processors = Processors::find();
        if processors.area == 0 {
            return faultless_wants::missing_feature("rseq", "this C library registers no area");
        }
        let agrees = || {
            // SAFETY: sched_getcpu has no preconditions.
            let before = unsafe { libc::sched_getcpu() };
            processors.current() == before as usize
        };
        assert!((0..100).filter(|_| agrees()).count() > 50, "but for moves in between");
    }

    #[test]
    fn threads_differ_without_the_c_librarys_help() {
        let processors = Processors { area: 0 };
        let barrier = std::sync::Barrier::new(8);
        let number = || {
            barrier.wait();
            let number = processors.current();
            assert_eq!(number, processors.current(), "a thread keeps its number");
            barrier.wait();
            number
        };
        let mut all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(number)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 4, "{all:?}");
    }
}
