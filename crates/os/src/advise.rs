//! `madvise` and what each advice means for faults.
//!
//! In: a range of whole pages. Out: nothing, or the error of the call. Each function is one advice; which one pays is
//! the pool's decision.
//!
//! Reference: madvise(2).

use crate::error::{Error, Result};

/// MADV_HUGEPAGE: first touches in the range take a whole THP (2 MiB on x86-64) where one is free: one fault instead of
/// 512. Without effect when `/sys/kernel/mm/transparent_hugepage/enabled` is `never`. Linux 2.6.38.
///
/// # Errors
/// EINVAL: a kernel without THP.
///
/// # Safety
/// The range must be mapped by the caller.
pub unsafe fn thp(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the advice changes no content.
    unsafe { advise(start, len, libc::MADV_HUGEPAGE, "madvise(MADV_HUGEPAGE") }
}

/// MADV_NOHUGEPAGE: never a THP here, whatever the machine's setting. Linux 2.6.38.
///
/// # Errors
/// EINVAL: a kernel without THP.
///
/// # Safety
/// The range must be mapped by the caller.
pub unsafe fn no_thp(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the advice changes no content.
    unsafe { advise(start, len, libc::MADV_NOHUGEPAGE, "madvise(MADV_NOHUGEPAGE") }
}

/// MADV_POPULATE_WRITE: faults every page in now, writable, without changing content. Linux 5.14.
///
/// # Errors
/// EINVAL: an older kernel. ENOMEM, EFAULT, EHWPOISON: some pages could not be had; earlier ones are populated.
///
/// # Safety
/// The range must be mapped by the caller.
pub unsafe fn populate(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the advice changes no content.
    unsafe { advise(start, len, libc::MADV_POPULATE_WRITE, "madvise(MADV_POPULATE_WRITE") }
}

/// MADV_DONTNEED: gives the frames back at once; private anonymous memory reads as zero afterwards.
///
/// # Errors
/// EINVAL: part of the range is locked (mlock). The content is then unknown.
///
/// # Safety
/// The range must be mapped by the caller, who no longer needs its content.
pub unsafe fn purge(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the caller gives up the content.
    unsafe { advise(start, len, libc::MADV_DONTNEED, "madvise(MADV_DONTNEED") }
}

unsafe fn advise(start: usize, len: usize, advice: libc::c_int, call: &'static str) -> Result<()> {
    // SAFETY: the caller of the public function owns the range.
    let rc = unsafe { libc::madvise(start as *mut libc::c_void, len, advice) };
    if rc == 0 { Ok(()) } else { Err(Error::last_for(call, len)) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::map;

    #[test]
    fn purged_memory_reads_as_zero() {
        let len = crate::page::size() * 4;
        let start = map::anonymous(len).unwrap();
        // SAFETY: mapped above, one byte inside.
        unsafe { *(start as *mut u8) = 9 };
        // SAFETY: mapped above, content no longer needed.
        unsafe { purge(start, len) }.unwrap();
        // SAFETY: still mapped.
        assert_eq!(unsafe { *(start as *const u8) }, 0);
        // SAFETY: nothing uses it any more.
        unsafe { map::release(start, len) }.unwrap();
    }

    #[test]
    fn an_error_names_the_advice() {
        let page = crate::page::size();
        // SAFETY: an unaligned start is refused before anything is done.
        let error = unsafe { purge(1, page) }.unwrap_err();
        assert_eq!(error.errno, libc::EINVAL);
        assert!(error.to_string().starts_with("madvise(MADV_DONTNEED"), "{error}");
    }
}
