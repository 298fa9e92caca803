//! Address space: reserve, make usable, move, release.
//!
//! In: addresses and lengths in bytes, whole base pages. Out: addresses, or the error of the call. It keeps
//! no list of its mappings and frees nothing on its own; the caller owns the range.
//!
//! The calls go to the kernel directly (`call`): the interposer replaces the C functions of these names to see the
//! program's calls.
//!
//! References: mmap(2), mprotect(2), mremap(2), munmap(2), getrlimit(2), sysinfo(2).

use crate::call::{call, value};
use crate::error::{Error, Result};

const NOTHING: libc::c_int = libc::PROT_NONE;
const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const ANONYMOUS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// Reserves `len` bytes of addresses, aligned to `align` (a power of two), that fault until [`make_usable`].
///
/// Costs no memory and, being PROT_NONE, no commit charge even under `vm.overcommit_memory=2`; it does count against
/// RLIMIT_AS.
///
/// # Errors
/// ENOMEM: no room, RLIMIT_AS, or `vm.max_map_count` reached.
pub fn reserve(len: usize, align: usize) -> Result<usize> {
    let wanted = len.checked_add(align).ok_or(Error::new("mmap", libc::ENOMEM))?;
    let start = map(0, wanted, NOTHING, ANONYMOUS)?;
    let aligned = start.checked_add(align - 1).ok_or(Error::new("mmap", libc::ENOMEM))? & !(align - 1);
    let (before, behind) = (aligned - start, wanted - len - (aligned - start));
    if before > 0 {
        // SAFETY: the bytes before the aligned start were mapped above and are not shared.
        let _ = unsafe { release(start, before) };
    }
    if behind > 0 {
        // SAFETY: the bytes behind the range were mapped above and are not shared.
        let _ = unsafe { release(aligned + len, behind) };
    }
    Ok(aligned)
}

/// New private memory, readable, writable and zero.
///
/// # Errors
/// ENOMEM as for [`reserve`], and where the commit limit is reached.
pub fn anonymous(len: usize) -> Result<usize> {
    map(0, len, READ_WRITE, ANONYMOUS)
}

/// New private memory from the hugetlb pool of `page_bytes` pages, reserved there; `len` in whole pages of that size.
///
/// # Errors
/// ENOMEM: the pool has too few pages. EINVAL: there is no such size.
pub fn hugetlb(len: usize, page_bytes: usize) -> Result<usize> {
    let size = (page_bytes.trailing_zeros() as libc::c_int) << libc::MAP_HUGE_SHIFT;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | size;
    map(0, len, READ_WRITE, flags).map_err(|error| Error { call: "mmap(MAP_HUGETLB", ..error })
}

/// Puts pages from the hugetlb pool of `page_bytes` pages into `start .. start + len`, which then reads as
/// zero. The pages are reserved first, so no touch can fail for lack of a page. A child's touch after `fork`
/// can: if the pool has no page for its copy, the kernel kills it.
///
/// # Errors
/// ENOMEM, EINVAL: as for [`hugetlb`]; nothing happened. Others: hugetlb pages can't be moved (before Linux
/// 5.16); the range is unchanged, or call [`anonymous_at`].
///
/// # Safety
/// The range must be whole pages of that size, owned by the caller, and nothing may use it.
pub unsafe fn hugetlb_at(start: usize, len: usize, page_bytes: usize) -> Result<()> {
    let from = hugetlb(len, page_bytes)?;
    // SAFETY: `from` was mapped above and is not shared; the caller gives up what is at the target.
    let moved = unsafe { remap(from, len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, start) };
    value(moved, "mremap(MREMAP_FIXED", len).map(drop).inspect_err(|_| {
        // SAFETY: still there, still not shared.
        let _ = unsafe { release(from, len) };
    })
}

/// New private memory, readable and writable, mapped with MAP_POPULATE.
///
/// # Errors
/// ENOMEM as for [`anonymous`]. Missing pages are no error: check [`resident_bytes`].
pub fn populated(len: usize) -> Result<usize> {
    map(0, len, READ_WRITE, ANONYMOUS | libc::MAP_POPULATE)
}

/// Takes all rights on a range away, without changing content or residency; [`make_usable`] gives them back.
///
/// Before Linux 5.19, the first write to each private page after that faults.
///
/// # Errors
/// ENOMEM: as for [`make_usable`]; part of the range may have lost the rights.
///
/// # Safety
/// The range must be whole pages owned by the caller, and nothing may use it until it has its rights again.
pub unsafe fn protect(start: usize, len: usize) -> Result<()> {
    // SAFETY: the caller owns the range and it is unused meanwhile.
    let answer = unsafe { call!(libc::SYS_mprotect, start, len, NOTHING) };
    value(answer, "mprotect(PROT_NONE", len).map(drop)
}

/// Makes reserved bytes readable and writable; they read as zero.
///
/// # Errors
/// ENOMEM: the commit limit (`vm.overcommit_memory=2`), RLIMIT_DATA or `vm.max_map_count` is reached.
///
/// # Safety
/// `start .. start + len` must be whole pages that the caller reserved.
pub unsafe fn make_usable(start: usize, len: usize) -> Result<()> {
    // SAFETY: the caller owns the range; more rights on it break no assumption.
    let answer = unsafe { call!(libc::SYS_mprotect, start, len, READ_WRITE) };
    value(answer, "mprotect(PROT_READ|PROT_WRITE", len).map(drop)
}

/// Moves the pages of `from` to `to` without copying; `from` stays mapped and reads as zero afterwards.
///
/// Cheap only when both are aligned to a page-table entry of the next level (2 MiB on x86-64): 1.2 ns per 4 KiB.
/// MREMAP_DONTUNMAP exists since Linux 5.7; older kernels answer EINVAL.
///
/// # Errors
/// EINVAL: an older kernel; nothing happened. EFAULT: `from` is not one mapping. ENOMEM: as for [`make_usable`]. The
/// pages are then still at `from`, but `to` may be unmapped: call [`anonymous_at`].
///
/// # Safety
/// Both ranges must be whole pages owned by the caller, must not overlap, and nothing may use them meanwhile.
pub unsafe fn move_pages(from: usize, to: usize, len: usize) -> Result<()> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    // SAFETY: the caller owns both ranges and no reference into them is live.
    let moved = unsafe { remap(from, len, flags, to) };
    value(moved, "mremap(MREMAP_DONTUNMAP", len).map(drop)
}

/// Whether [`move_pages`] works here, tried on two pages of its own. Older kernels refuse it. QEMU's
/// user-mode emulation (7.2) lets it succeed but forgets that `from` is still mapped.
pub fn pages_can_move() -> bool {
    let page = crate::page::size();
    let Ok(start) = anonymous(2 * page) else { return false };
    // SAFETY: both pages were mapped above and are not shared.
    let moved = unsafe { move_pages(start, start + page, page) }.is_ok();
    let kept = residency(start, &mut [0]).is_ok();
    // A refused move may have unmapped its target, and another thread may have mapped something there since.
    // So the target is left alone.
    let ours = if moved { 2 * page } else { page };
    // SAFETY: mapped above, and not shared.
    let _ = unsafe { release(start, ours) };
    moved && kept
}

/// New private memory at these addresses, where nothing may be mapped; it reads as zero. This also fills the
/// hole that a failed [`move_pages`] left.
///
/// # Errors
/// EEXIST: something is mapped there. After [`move_pages`] that may be the old range or another thread's
/// mapping, so the range must never be used again. ENOMEM as for [`anonymous`].
pub fn anonymous_at(start: usize, len: usize) -> Result<()> {
    match map(start, len, READ_WRITE, ANONYMOUS | libc::MAP_FIXED_NOREPLACE) {
        Err(error) => Err(error),
        Ok(address) if address == start => Ok(()),
        Ok(elsewhere) => {
            // A kernel before 4.17 takes the address as a hint.
            // SAFETY: this mapping was made by the call above and is not shared.
            let _ = unsafe { release(elsewhere, len) };
            Err(Error::new("mmap(MAP_FIXED_NOREPLACE", libc::EEXIST))
        }
    }
}

/// Whether nothing is mapped in a range. Changes nothing: it asks for a mapping without a type, which the
/// kernel refuses with EINVAL after the check for other mappings.
pub fn is_free(start: usize, len: usize) -> bool {
    let no_type = libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    match map(start, len, NOTHING, no_type) {
        Err(error) => error.errno == libc::EINVAL,
        Ok(address) => {
            // SAFETY: this mapping was made by the call above and is not shared.
            let _ = unsafe { release(address, len) };
            address == start
        }
    }
}

/// Maps a range anew, whatever is there: readable, writable and zero, without any advice.
///
/// # Errors
/// ENOMEM as for [`make_usable`]; the range may then be unmapped.
///
/// # Safety
/// The addresses must be the caller's, who no longer needs what they hold.
pub unsafe fn renew(start: usize, len: usize) -> Result<()> {
    map(start, len, READ_WRITE, ANONYMOUS | libc::MAP_FIXED).map(drop)
}

/// Which pages from `start` on are resident: the lowest bit of a byte per page, see mincore(2).
///
/// # Errors
/// ENOMEM: part of the range is not mapped; EAGAIN.
pub fn residency(start: usize, pages: &mut [u8]) -> Result<()> {
    let len = pages.len() * crate::page::size();
    // SAFETY: mincore reads no memory at the address, and there is a byte for every page.
    let answer = unsafe { call!(libc::SYS_mincore, start, len, pages.as_mut_ptr()) };
    value(answer, "mincore", len).map(drop)
}

/// How many bytes of a range of whole pages are resident; pages that can't be queried count as not resident.
pub fn resident_bytes(start: usize, len: usize) -> usize {
    const PAGES: usize = 512;
    let page_log2 = crate::page::size().trailing_zeros();
    let mut found = [0_u8; PAGES];
    let (mut resident, mut at) = (0, 0);
    while at < len {
        let part = (len - at).min(PAGES << page_log2);
        if let Some(pages) = found.get_mut(..part >> page_log2)
            && residency(start + at, pages).is_ok()
        {
            resident += pages.iter().filter(|&flags| flags & 1 == 1).count();
        }
        at += part;
    }
    resident << page_log2
}

/// Gives addresses back.
///
/// # Errors
/// ENOMEM: the split would exceed `vm.max_map_count`.
///
/// # Safety
/// `start .. start + len` must be whole pages owned by the caller, and nothing may use them again.
pub unsafe fn release(start: usize, len: usize) -> Result<()> {
    // SAFETY: the caller gives up the range.
    let answer = unsafe { call!(libc::SYS_munmap, start, len) };
    value(answer, "munmap", len).map(drop)
}

/// Whether executable mappings below this path are forbidden (mounted `noexec`); false if unknown.
pub fn is_noexec(path: &std::ffi::CStr) -> bool {
    let mut answer = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a C string, and a pointer that is valid for one statvfs.
    if unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: all-zero is a valid statvfs, and the kernel has filled it in.
    unsafe { answer.assume_init() }.f_flag & libc::ST_NOEXEC != 0
}

/// The least limit on this process's address space (`ulimit -v`) or private memory (`ulimit -d`), if there is one.
pub fn address_space_limit() -> Option<usize> {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA].into_iter().filter_map(limit).min()
}

/// A soft limit of this process; `None` is unlimited or unknown. The C libraries differ in the sign of the resource.
pub(crate) fn limit(resource: impl Into<i64>) -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is valid for one rlimit.
    let answer = unsafe { call!(libc::SYS_prlimit64, 0, resource.into(), 0, &raw mut limit) };
    (answer == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

/// The machine's memory in bytes, from sysinfo(2): no file is read and nothing is allocated.
pub fn memory_bytes() -> Option<usize> {
    Some(memory()?[0])
}

/// Memory plus swap space: the largest mapping under the kernel's overcommit heuristic
/// (`vm.overcommit_memory` 0, since Linux 5.2).
pub fn memory_and_swap_bytes() -> Option<usize> {
    let [memory, swap] = memory()?;
    memory.checked_add(swap)
}

/// Memory and swap space in bytes.
fn memory() -> Option<[usize; 2]> {
    let mut info = std::mem::MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the pointer is valid for one sysinfo.
    let answer = unsafe { call!(libc::SYS_sysinfo, info.as_mut_ptr()) };
    if answer != 0 {
        return None;
    }
    // SAFETY: all-zero is a valid sysinfo, and the kernel has filled it in.
    let info = unsafe { info.assume_init() };
    let bytes = |units: libc::c_ulong| (units as usize).checked_mul(info.mem_unit as usize);
    Some([bytes(info.totalram)?, bytes(info.totalswap)?])
}

/// Whether every writable private byte is charged up front: `vm.overcommit_memory` is 2.
pub fn commit_is_strict() -> bool {
    crate::text::read(c"/proc/sys/vm/overcommit_memory", &mut [0; 1]).is_some_and(|mode| mode == b"2")
}

fn map(at: usize, len: usize, rights: libc::c_int, flags: libc::c_int) -> Result<usize> {
    // SAFETY: without MAP_FIXED a new mapping never replaces another; with it, see `renew`.
    value(unsafe { call!(libc::SYS_mmap, at, len, rights, flags, -1_i32, 0) }, "mmap", len)
}

/// mremap(2) with MREMAP_FIXED.
///
/// # Safety
/// The caller gives up the target's content, and nothing uses the source meanwhile.
unsafe fn remap(from: usize, len: usize, flags: libc::c_int, to: usize) -> isize {
    // SAFETY: forwarded.
    unsafe { call!(libc::SYS_mremap, from, len, len, flags, to) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const LEN: usize = 4 << 20;

    #[test]
    fn a_range_is_free_until_something_is_mapped_in_it() {
        let start = anonymous(LEN).unwrap();
        let page = crate::page::size();
        assert!(!is_free(start, LEN) && !is_free(start + LEN - page, page));
        // SAFETY: mapped above, and not shared.
        unsafe { release(start, LEN) }.unwrap();
        let far = (start / 2) & !(LEN - 1);
        assert!(is_free(far, 64 * LEN) && is_free(far, LEN), "asking maps nothing");
        anonymous_at(far + LEN, page).unwrap();
        assert!(!is_free(far, 64 * LEN) && is_free(far, LEN));
        assert_eq!(anonymous_at(far + LEN, page).map_err(|error| error.errno), Err(libc::EEXIST));
        // SAFETY: mapped above, and not shared.
        unsafe { release(far + LEN, page) }.unwrap();
    }

    #[test]
    fn a_reservation_is_aligned_and_becomes_zero_memory() {
        let start = reserve(LEN, 2 << 20).unwrap();
        assert_eq!(start % (2 << 20), 0);
        // SAFETY: reserved above.
        unsafe { make_usable(start, LEN) }.unwrap();
        // SAFETY: usable since the line above.
        assert_eq!(unsafe { *(start as *const u8) }, 0);
        // SAFETY: nothing uses it any more.
        unsafe { release(start, LEN) }.unwrap();
    }

    #[test]
    fn an_impossible_length_is_refused_not_wrapped() {
        assert_eq!(reserve(usize::MAX - 10, 1 << 21).unwrap_err().errno, libc::ENOMEM);
        assert_eq!(reserve(1 << 60, 1 << 21).unwrap_err().errno, libc::ENOMEM);
    }

    #[test]
    fn moved_pages_arrive_and_leave_zeroes_behind() {
        if !pages_can_move() {
            return faultless_wants::missing_feature("moves of pages", "mremap(MREMAP_DONTUNMAP) fails");
        }
        let start = reserve(2 * LEN, 2 << 20).unwrap();
        // SAFETY: reserved above.
        unsafe { make_usable(start, 2 * LEN) }.unwrap();
        // SAFETY: usable.
        unsafe { *(start as *mut u8) = 7 };
        // SAFETY: both halves are ours and unused during the call.
        unsafe { move_pages(start, start + LEN, LEN) }.unwrap();
        // SAFETY: both halves are mapped.
        let (old, new) = unsafe { (*(start as *const u8), *((start + LEN) as *const u8)) };
        assert_eq!((old, new), (0, 7));
        // SAFETY: nothing uses it any more.
        unsafe { release(start, 2 * LEN) }.unwrap();
    }

    #[test]
    fn what_was_touched_is_resident() {
        let (page, start) = (crate::page::size(), reserve(LEN, 2 << 20).unwrap());
        // SAFETY: reserved above.
        unsafe { make_usable(start, LEN) }.unwrap();
        // SAFETY: usable since the line above, and nothing is in it.
        let _ = unsafe { crate::advise::advise(start, LEN, crate::advise::Advice::NoHugePage) };
        assert_eq!(resident_bytes(start, LEN), 0);
        // SAFETY: usable.
        unsafe { *((start + 3 * page) as *mut u8) = 7 };
        assert_eq!(resident_bytes(start, LEN), page);
        // SAFETY: nothing uses it any more.
        unsafe { release(start, LEN) }.unwrap();
        assert_eq!(resident_bytes(start, LEN), 0, "nothing is mapped there");
    }

    #[test]
    fn only_a_hole_is_restored() {
        let hole = || {
            let start = anonymous(LEN).unwrap();
            assert_eq!(
                anonymous_at(start, LEN).unwrap_err().errno,
                libc::EEXIST,
                "it may be somebody else's"
            );
            // SAFETY: mapped above, and nothing uses it.
            unsafe { release(start, LEN) }.unwrap();
            start
        };
        // Another test's thread may take a hole.
        let mut holes = std::iter::repeat_with(hole).take(100);
        let start = holes.find(|&start| anonymous_at(start, LEN).is_ok()).expect("one of 100 holes");
        // SAFETY: just mapped.
        assert_eq!(unsafe { *(start as *const u8) }, 0);
        // SAFETY: nothing uses it any more.
        unsafe { release(start, LEN) }.unwrap();
    }

    #[test]
    fn hugetlb_pages_take_the_place_of_a_reservation_or_leave_it() {
        const HUGE: usize = 2 << 20;
        let start = reserve(2 * HUGE, HUGE).unwrap();
        // SAFETY: reserved above.
        unsafe { make_usable(start, 2 * HUGE) }.unwrap();
        // SAFETY: ours, and nothing uses it.
        match unsafe { hugetlb_at(start, HUGE, HUGE) } {
            Ok(()) => {}
            Err(error) if error.errno == libc::ENOMEM => faultless_wants::missing_feature("hugetlb", error),
            Err(error) => {
                faultless_wants::missing_feature("hugetlb", error);
                let _ = anonymous_at(start, HUGE);
            }
        }
        // SAFETY: usable, of whatever pages.
        unsafe { *(start as *mut u8) = 7 };
        // SAFETY: as above.
        assert_eq!(unsafe { *((start + HUGE) as *const u8) }, 0);
        // SAFETY: nothing uses it any more.
        unsafe { release(start, 2 * HUGE) }.unwrap();
    }
}
