//! System calls without the C library.
//!
//! In: a number and integers. Out: the kernel's answer. errno stays as it is.
//!
//! Everything that the pool calls goes this way. A library that is preloaded or linked may define the C library's
//! functions (faketime, torsocks, uid_wrapper), and such functions use thread-local variables, which the background
//! thread lacks (`bare`). A malloc must not reach them either, and it keeps errno.
//!
//! It does not check arguments, and it is no cancellation point.

use crate::error::{Error, Result};

/// Makes a system call: [`call!`](call)`(libc::SYS_munmap, start, len)`. The answer is a value, or minus errno. It is an unsafe
/// function call, whose caller keeps the contract of the system call.
macro_rules! call {
    ($number:expr $(, $argument:expr)* $(,)?) => {{
        #[cfg(not(miri))]
        let answer = $crate::call::raw($number, [$($argument as usize),*]);
        // Miri knows the C library's function only.
        #[cfg(miri)]
        let answer = $crate::call::answer(libc::syscall($number, $($argument),*));
        answer
    }};
}
pub(crate) use call;

/// The system call. Arguments that it has not are 0.
///
/// # Safety
/// As the system call.
#[cfg(not(miri))]
#[inline(always)]
pub unsafe fn raw<const COUNT: usize>(number: libc::c_long, arguments: [usize; COUNT]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = all(arguments);
    let answer: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel changes these three registers, and the memory that the caller lets it change.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel changes this register, and the memory that the caller lets it change.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first as isize => answer,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") sixth,
            options(nostack),
        );
    }
    answer
}

/// The arguments that the kernel reads, in full width; those that a call lacks are 0.
#[cfg(not(miri))]
#[inline(always)]
fn all<const COUNT: usize>(arguments: [usize; COUNT]) -> [usize; 6] {
    const { assert!(COUNT <= 6) };
    let mut all = [0; 6];
    all.iter_mut().zip(arguments).for_each(|(to, from)| *to = from);
    all
}

/// The kernel's answer, from the C library's.
#[cfg(miri)]
pub(crate) fn answer(rc: libc::c_long) -> isize {
    if rc == -1 {
        -(std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize)
    } else {
        rc as isize
    }
}

/// The error number in an answer.
pub fn errno(answer: isize) -> Option<i32> {
    /// The largest that the kernel uses.
    const MAX_ERRNO: isize = 4095;
    (-MAX_ERRNO..0).contains(&answer).then_some(-answer as i32)
}

/// The value of an answer, or its error with the call's name and the requested length.
pub(crate) fn value(answer: isize, call: &'static str, len_bytes: usize) -> Result<usize> {
    match errno(answer) {
        None => Ok(answer.cast_unsigned()),
        Some(errno) => Err(Error { call, errno, len_bytes: Some(len_bytes) }),
    }
}

/// The number of this process. The C library's getpid(2) may be somebody else's.
pub fn process_id() -> u32 {
    if cfg!(miri) {
        return std::process::id();
    }
    // SAFETY: no arguments, and it cannot fail.
    (unsafe { call!(libc::SYS_getpid) }) as u32
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_value_or_an_error_and_errno_stays() {
        assert_eq!(process_id(), std::process::id());
        // SAFETY: no arguments, and it cannot fail.
        let errno_here = || unsafe { *libc::__errno_location() };
        let before = errno_here();
        // SAFETY: -1 is no descriptor.
        let answer = unsafe { call!(libc::SYS_close, -1_i32) };
        assert_eq!((errno(answer), errno_here()), (Some(libc::EBADF), before));
        let error = value(answer, "close", 1).unwrap_err();
        assert_eq!((error.errno, error.call, error.len_bytes), (libc::EBADF, "close", Some(1)));
        // The highest addresses are no errors.
        assert_eq!(value(-5000, "mmap", 1), Ok((-5000_isize).cast_unsigned()));
    }
}
