//! `madvise` and what each advice means for faults.
//!
//! In: a range of whole pages. Out: nothing, or the error of the call. Each function is one advice; the pool
//! decides which one pays.
//!
//! The calls go to the kernel directly, see `call`. Reference: madvise(2).

use crate::call::{call, value};
use crate::error::{Error, Result};

/// What the kernel can be told about a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// MADV_HUGEPAGE (2.6.38): THP may back the range.
    HugePage,
    /// MADV_NOHUGEPAGE (2.6.38): base pages only.
    NoHugePage,
    /// MADV_DONTFORK (2.6.16): a forked child does not get the range, and this process takes no CoW faults for it.
    DontFork,
    /// MADV_DOFORK (2.6.16): undoes that.
    DoFork,
    /// MADV_DONTNEED: give the frames back now.
    DontNeed,
    /// MADV_DONTNEED_LOCKED (5.18): the same for locked pages too, which stay locked.
    DontNeedLocked,
    /// MADV_FREE (4.5): the kernel may take the frames when it needs them.
    Free,
    /// MADV_POPULATE_WRITE (5.14): fault in for writing.
    PopulateWrite,
    /// MADV_POPULATE_READ (5.14): fault in for reading.
    PopulateRead,
    /// MADV_WILLNEED: begin to read a file's pages into the page cache; nothing is mapped.
    WillNeed,
    /// MADV_RANDOM: no read-ahead.
    Random,
    /// MADV_PAGEOUT (5.4): write to swap or to the file, and give the frames back.
    PageOut,
    /// MADV_NORMAL: undoes MADV_RANDOM and MADV_SEQUENTIAL.
    Normal,
    /// MADV_KEEPONFORK (4.14): undoes MADV_WIPEONFORK.
    KeepOnFork,
    /// MADV_DODUMP (3.4): undoes MADV_DONTDUMP.
    DoDump,
    /// MADV_UNMERGEABLE (2.6.32): undoes MADV_MERGEABLE; merged pages become private copies.
    Unmergeable,
    /// MADV_GUARD_REMOVE (6.13): undoes [`GUARD_INSTALL`]; the pages are empty then.
    GuardRemove,
}

/// linux/mman.h; not in every version of the libc crate.
const MADV_DONTNEED_LOCKED: libc::c_int = 24;
/// MADV_GUARD_INSTALL (6.13): the pages are dropped, and every access to them is a SIGSEGV.
pub const GUARD_INSTALL: libc::c_int = 102;
/// MADV_GUARD_REMOVE.
pub const GUARD_REMOVE: libc::c_int = 103;

impl Advice {
    fn number_and_call(self) -> (libc::c_int, &'static str) {
        match self {
            Advice::HugePage => (libc::MADV_HUGEPAGE, "madvise(MADV_HUGEPAGE"),
            Advice::NoHugePage => (libc::MADV_NOHUGEPAGE, "madvise(MADV_NOHUGEPAGE"),
            Advice::DontFork => (libc::MADV_DONTFORK, "madvise(MADV_DONTFORK"),
            Advice::DoFork => (libc::MADV_DOFORK, "madvise(MADV_DOFORK"),
            Advice::DontNeed => (libc::MADV_DONTNEED, "madvise(MADV_DONTNEED"),
            Advice::DontNeedLocked => (MADV_DONTNEED_LOCKED, "madvise(MADV_DONTNEED_LOCKED"),
            Advice::Free => (libc::MADV_FREE, "madvise(MADV_FREE"),
            Advice::PopulateWrite => (libc::MADV_POPULATE_WRITE, "madvise(MADV_POPULATE_WRITE"),
            Advice::PopulateRead => (libc::MADV_POPULATE_READ, "madvise(MADV_POPULATE_READ"),
            Advice::WillNeed => (libc::MADV_WILLNEED, "madvise(MADV_WILLNEED"),
            Advice::Random => (libc::MADV_RANDOM, "madvise(MADV_RANDOM"),
            Advice::PageOut => (libc::MADV_PAGEOUT, "madvise(MADV_PAGEOUT"),
            Advice::Normal => (libc::MADV_NORMAL, "madvise(MADV_NORMAL"),
            Advice::KeepOnFork => (libc::MADV_KEEPONFORK, "madvise(MADV_KEEPONFORK"),
            Advice::DoDump => (libc::MADV_DODUMP, "madvise(MADV_DODUMP"),
            Advice::Unmergeable => (libc::MADV_UNMERGEABLE, "madvise(MADV_UNMERGEABLE"),
            Advice::GuardRemove => (GUARD_REMOVE, "madvise(MADV_GUARD_REMOVE"),
        }
    }
}

/// MADV_HUGEPAGE: first touches in the range take a whole THP (2 MiB on x86-64) if one is free: one fault
/// instead of 512. Without effect if `/sys/kernel/mm/transparent_hugepage/enabled` is `never`. Linux 2.6.38.
///
/// # Errors
/// EINVAL: a kernel without THP.
///
/// # Safety
/// The range must be mapped by the caller.
pub unsafe fn thp(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the advice changes no content.
    unsafe { advise(start, len, Advice::HugePage) }
}

/// PR_SET_THP_DISABLE: from now on no THP or mTHP for this process and its children, whatever the advice.
/// Linux 3.15.
///
/// # Errors
/// EINVAL: an older kernel.
pub fn disable_thp() -> Result<()> {
    // SAFETY: these arguments are integers.
    let rc = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    if rc == 0 { Ok(()) } else { Err(Error::last("prctl(PR_SET_THP_DISABLE")) }
}

/// Whether [`thp`] memory gets transparent huge pages of `size_bytes`: mTHP (Linux 6.8) or the PMD size.
/// Reads `/sys/kernel/mm/transparent_hugepage`; false if that is hidden. No allocation.
pub fn thp_gives(size_bytes: usize) -> bool {
    matches!(thp_setting(size_bytes), Some(Setting::Always | Setting::Madvise))
}

/// Whether THP of this size come without [`thp`].
pub fn thp_comes_unasked(size_bytes: usize) -> bool {
    thp_setting(size_bytes) == Some(Setting::Always)
}

/// When the kernel uses THP of a size.
#[derive(PartialEq)]
enum Setting {
    Always,
    Madvise,
}

fn thp_setting(size_bytes: usize) -> Option<Setting> {
    const ROOT: &[u8] = b"/sys/kernel/mm/transparent_hugepage";
    let mut digits = [0_u8; 20];
    let mut buffer = [0_u8; 64];
    let name = crate::text::decimal(size_bytes as u64 >> 10, &mut digits);
    let own = crate::text::read_joined(&[ROOT, b"/hugepages-", name, b"kB/enabled"], &mut buffer);
    let setting = |word: Option<&[u8]>| match word? {
        b"always" => Some(Setting::Always),
        b"madvise" => Some(Setting::Madvise),
        _ => None,
    };
    match own.map(|text| chosen(text)) {
        Some(Some(b"inherit")) => {}
        // Before Linux 6.8 there is only the PMD size, without directories.
        None if size_bytes == pmd_bytes() => {}
        word => return setting(word.flatten()),
    }
    setting(crate::text::read_joined(&[ROOT, b"/enabled"], &mut buffer).and_then(chosen))
}

/// The size of a THP that fills a page-table entry of the second level; 0 without THP.
pub fn pmd_bytes() -> usize {
    let mut buffer = [0_u8; 32];
    crate::text::read(c"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", &mut buffer)
        .and_then(crate::text::number)
        .map_or(0, |(bytes, _)| bytes as usize)
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &[u8]) -> Option<&[u8]> {
    crate::text::after(text, b"[")?.split(|&byte| byte == b']').next()
}

/// MADV_POPULATE_WRITE: faults every page in now, writable, without changing content. Linux 5.14.
///
/// # Errors
/// EINVAL: an older kernel. ENOMEM, EFAULT, EHWPOISON: some pages are missing; earlier ones are populated.
///
/// # Safety
/// The range must be mapped by the caller.
pub unsafe fn populate(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the advice changes no content.
    unsafe { advise(start, len, Advice::PopulateWrite) }
}

/// MADV_DONTNEED: gives the frames back at once; private anonymous memory reads as zero afterwards. Locked
/// pages (mlock) need MADV_DONTNEED_LOCKED.
///
/// # Errors
/// EINVAL: part of the range is locked, and the kernel is older than 5.18. Earlier pages may have gone back
/// and read as zero.
///
/// # Safety
/// The range must be mapped by the caller, who no longer needs its content.
pub unsafe fn purge(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the caller gives up the content.
    match unsafe { advise(start, len, Advice::DontNeed) } {
        // SAFETY: as above.
        Err(error) if error.errno == libc::EINVAL => unsafe { advise(start, len, Advice::DontNeedLocked) },
        result => result,
    }
}

/// MADV_FREE: the kernel may take the frames when it is short of memory, until they are written again. Each page keeps its
/// content or reads as zero.
///
/// # Errors
/// EINVAL: part of the range is locked or has hugetlb pages.
///
/// # Safety
/// The range must be mapped by the caller, who no longer needs its content.
pub unsafe fn offer(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the caller gives up the content.
    unsafe { advise(start, len, Advice::Free) }
}

/// MADV_NOHUGEPAGE: first touches in the range take base pages. Resident pages stay as they are.
///
/// # Errors
/// EINVAL: a kernel without THP. ENOMEM: the split would exceed `vm.max_map_count`.
///
/// # Safety
/// The range must be mapped by the caller.
pub unsafe fn base(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the advice changes no content.
    unsafe { advise(start, len, Advice::NoHugePage) }
}

/// MADV_DONTFORK: children forked from now on have nothing at these addresses, and this process takes no CoW
/// faults for them.
///
/// # Errors
/// ENOMEM: the split would exceed `vm.max_map_count`; part of the range may have the advice.
///
/// # Safety
/// The range must be mapped by the caller, and no child may use it.
pub unsafe fn dont_fork(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the advice changes no content.
    unsafe { advise(start, len, Advice::DontFork) }
}

/// MADV_DOFORK: undoes [`dont_fork`].
///
/// # Errors
/// ENOMEM as there.
///
/// # Safety
/// The range must be mapped by the caller.
pub unsafe fn do_fork(start: usize, len: usize) -> Result<()> {
    // SAFETY: forwarded; the advice changes no content.
    unsafe { advise(start, len, Advice::DoFork) }
}

/// Any advice.
///
/// # Errors
/// The kernel's error; EINVAL for an advice that it does not know.
///
/// # Safety
/// The range must be mapped by the caller. If the advice gives up the content, the caller must no longer need
/// it.
pub unsafe fn advise(start: usize, len: usize, advice: Advice) -> Result<()> {
    let (number, name) = advice.number_and_call();
    // SAFETY: the caller owns the range.
    let answer = unsafe { call!(libc::SYS_madvise, start, len, number) };
    value(answer, name, len).map(drop)
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
    fn the_sizes_of_this_machine_are_as_its_files_say() {
        assert_eq!(chosen(b"always inherit [madvise] never\n"), Some(&b"madvise"[..]));
        assert_eq!(chosen(b"never"), None);
        assert_eq!(
            [0, 7, 2048].map(|value| crate::text::decimal(value, &mut [0; 20]).to_vec()),
            [&b"0"[..], b"7", b"2048"]
        );
        assert!(!thp_gives(crate::page::size() * 3), "no page has that size");
        let host = crate::host::Host::read_basics();
        let Some(thp) = host.thp else {
            return faultless_wants::missing_feature("THP", "the kernel has none");
        };
        assert_eq!(thp.pmd_bytes.unwrap_or(0), pmd_bytes());
        assert_eq!(thp.available(), thp_gives(pmd_bytes()));
        for size in &thp.sizes {
            let enabled = thp.mthp_enabled().any(|enabled| enabled.len_bytes == size.len_bytes);
            assert_eq!(
                enabled || size.len_bytes == pmd_bytes() && thp.available(),
                thp_gives(size.len_bytes)
            );
        }
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
