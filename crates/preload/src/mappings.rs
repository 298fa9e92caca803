//! Mappings that the program makes for itself: huge pages for large ones, and pages that are kept when it unmaps them.
//!
//! In: calls of mmap(2), munmap(2) and mremap(2), and the mode that `FAULTLESS_MAPPINGS` names. Out: answers, or nothing:
//! then the call goes to the kernel as it is. Only plain requests are answered: private anonymous memory to read and to
//! write, at any address, without another flag. None are in a sandbox, under a registration cache, in a child of vfork(2),
//! and after mlockall(2) or userfaultfd(2).
//!
//! With `recycle` a mapping is a block of the pool (`pool::mappings`). What the program does to its pages, `altered`
//! reports as for blocks of malloc. A mapping that is unmapped in part, or moved, leaves the pool, and no further one of
//! its length is served.
//!
//! Not seen: what the C library maps for itself, its malloc, thread stacks and the dynamic loader among it.

use std::ffi::c_int;
use std::sync::atomic::{
    AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use faultless_os::call::process_id;
use faultless_os::{advise, page};
use faultless_pool::tuning::GRANULE_BYTES;

use crate::pool::{self, State, serve};
use crate::settings::Mappings;
use crate::{Void, calls, next};

/// How mappings are served now.
static MODE: AtomicU8 = AtomicU8::new(Mappings::Off as u8);
/// The length of a huge page if the kernel has them on request, else no length.
static HUGE_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Mappings served by the pool.
pub(crate) static SERVED: AtomicU64 = AtomicU64::new(0);
/// Mappings of the kernel's for which huge pages were requested.
pub(crate) static ADVISED: AtomicU64 = AtomicU64::new(0);
/// One bit per length in granules below 32 MiB: mappings of this length go to the kernel.
static LEFT: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];

/// Begins to serve mappings. Called once, by the constructor.
pub(crate) fn start(mode: Mappings) {
    let is_huge = mode != Mappings::Off && pool::page() == Some(faultless_pool::Page::Thp);
    if is_huge && advise::thp_gives(advise::pmd_bytes()) {
        HUGE_BYTES.store(advise::pmd_bytes(), Relaxed);
    }
    MODE.store(mode as u8, Release);
}

/// Ends the service: from now on all mappings come from the kernel, and none that is unmapped is kept.
pub(crate) fn end() {
    MODE.store(Mappings::Off as u8, Relaxed);
}

/// Whether mappings are served, or were.
pub(crate) fn is_on() -> bool {
    pool::has_mappings() || !is(Mappings::Off)
}

/// Whether the pool serves mappings, and keeps those that are unmapped.
fn recycles() -> bool {
    is(Mappings::Recycle) && !pool::has_ceded()
}

fn is(mode: Mappings) -> bool {
    MODE.load(Acquire) == mode as u8
}

/// Whether this request is a plain one that may be answered. A length that is not whole pages is the kernel's to round.
#[inline(always)]
pub(crate) fn is_plain(address: usize, len: usize, rights: c_int, flags: c_int, file: c_int) -> bool {
    !is(Mappings::Off)
        && (address, rights) == (0, libc::PROT_READ | libc::PROT_WRITE)
        && (flags, file) == (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
        && may_act(len)
}

#[cold]
#[inline(never)]
fn may_act(len: usize) -> bool {
    pool::is_large(len) && !pool::is_confined() && !pool::keeps() && !pool::locks_all() && pool::is_owner()
}

/// A mapping from the pool. Keeps errno.
pub(crate) fn recycled(len: usize) -> Option<Void> {
    let len = whole_pages(len);
    let (left, bit) = left(granules(len))?;
    if !recycles() || left.load(Relaxed) & bit != 0 {
        return None;
    }
    let errno = next::errno();
    // Before a thread can know of the mapping.
    pool::expect_mappings();
    let mapping = pool::pool().and_then(|pool| serve(pool, |pool| pool.map_raw(len)));
    next::set_errno(errno);
    let mapping = mapping?;
    SERVED.fetch_add(1, Relaxed);
    Some(mapping.as_ptr().cast())
}

/// A new mapping of the kernel's with a request for huge pages, if it is long enough. Keeps errno.
pub(crate) fn advised(mapping: Void, len: usize) -> Void {
    let huge = HUGE_BYTES.load(Relaxed);
    if len < huge {
        return mapping;
    }
    let errno = next::errno();
    let mapping = if len.is_multiple_of(huge) { aligned(mapping, len, huge) } else { mapping };
    // SAFETY: the mapping was just made, and nobody knows it.
    if unsafe { advise::thp(mapping as usize, len) }.is_ok() {
        ADVISED.fetch_add(1, Relaxed);
    }
    next::set_errno(errno);
    mapping
}

/// The mapping, or another one that begins at a huge page, as those of Linux 6.7 do.
fn aligned(mapping: Void, len: usize, huge: usize) -> Void {
    let is_aligned = |mapping: Void| (mapping as usize).is_multiple_of(huge);
    let Some(more) = len.checked_add(huge).filter(|_| !is_aligned(mapping)) else { return mapping };
    let wide = anonymous(more);
    if wide == libc::MAP_FAILED {
        return mapping;
    }
    let start = (wide as usize + huge - 1) & !(huge - 1);
    let parts = [
        (wide as usize, start),
        (start + len, wide as usize + more),
        (mapping as usize, mapping as usize + len),
    ];
    for (begin, end) in parts.into_iter().filter(|(begin, end)| begin < end) {
        // SAFETY: made here or just before, and nobody knows it.
        unsafe { calls::munmap(begin, end - begin) };
    }
    start as Void
}

/// A plain mapping of the kernel's, or MAP_FAILED.
fn anonymous(len: usize) -> Void {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: it lies where nothing is mapped.
    unsafe { calls::mmap(0, len, rights, flags, -1, 0) }
}

/// Whether the program's munmap(2) is done: the mapping went back to the pool, or the range is free there already, as
/// after a second munmap. Else the call is the kernel's. Keeps errno.
#[inline(always)]
pub(crate) fn unmapped(address: usize, len: usize) -> bool {
    pool::has_mappings() && pool::is_ours(address as Void) && unmapped_inside(address, whole_pages(len))
}

#[cold]
#[inline(never)]
fn unmapped_inside(address: usize, len: usize) -> bool {
    let State::Open(pool) = pool::state() else { return false };
    if len == 0 || !address.is_multiple_of(page::size()) {
        return false;
    }
    let errno = next::errno();
    // A registration cache must hear of pages that go away, through its hook in the C library's munmap.
    let is_done = !pool::keeps()
        && (serve(pool, |pool| {
            // SAFETY: the program gives the mapping up.
            unsafe { pool.unmap_raw(address, len, !recycles()) }
        }) || pool.is_unused(address, len));
    if !is_done {
        leave(address, len);
    }
    next::set_errno(errno);
    is_done
}

/// Lets go of the pool's mappings in a range, part of which is about to be unmapped or moved.
fn leave(address: usize, len: usize) {
    if let State::Open(pool) = pool::state() {
        pool.lose_mappings(address, len, |granules| {
            // No further one of this length is served.
            if let Some((word, bit)) = left(granules) {
                word.fetch_or(bit, Relaxed);
            }
        });
    }
}

/// Where `LEFT` says whether mappings of so many granules go to the kernel.
fn left(granules: usize) -> Option<(&'static AtomicU64, u64)> {
    Some((LEFT.get(granules / 64)?, 1 << (granules % 64)))
}

fn granules(len: usize) -> usize {
    len.div_ceil(GRANULE_BYTES)
}

/// Makes an mremap(2). A mapping of the pool's leaves it. It may consist of several mappings, because the pool advises
/// huge pages here and there: if the kernel refuses to move these, they are copied.
///
/// # Safety
/// As mremap(2).
#[inline(always)]
pub(crate) unsafe fn remap(from: usize, len: usize, new_len: usize, flags: c_int, to: usize) -> Void {
    let is_concerned = pool::has_mappings() && pool::is_ours(from as Void);
    if is_concerned {
        let errno = next::errno();
        leave(from, whole_pages(len));
        next::set_errno(errno);
    }
    // SAFETY: forwarded.
    let moved = unsafe { calls::mremap(from, len, new_len, flags, to) };
    let is_refused = is_concerned && moved == libc::MAP_FAILED && next::errno() == libc::EFAULT;
    let copy = is_refused.then(|| copied(from, whole_pages(len), whole_pages(new_len), flags)).flatten();
    copy.unwrap_or(moved)
}

/// A new mapping of the kernel's with the content of another one, which is unmapped. `None` if that cannot all be read, and
/// for calls that demand more than to grow. Keeps errno.
#[cold]
#[inline(never)]
fn copied(from: usize, len: usize, new_len: usize, flags: c_int) -> Option<Void> {
    if new_len == len && flags & !libc::MREMAP_MAYMOVE == 0 {
        return Some(from as Void);
    }
    if flags != libc::MREMAP_MAYMOVE || new_len < len || pool::is_confined() {
        return None;
    }
    let errno = next::errno();
    let new = anonymous(new_len);
    let [target, source] =
        [new as usize, from].map(|start| libc::iovec { iov_base: start as Void, iov_len: len });
    let arguments =
        [process_id() as usize, (&raw const target) as usize, 1, (&raw const source) as usize, 1, 0];
    // SAFETY: the target is new; the kernel reads the source only where the program may.
    let is_copied = new != libc::MAP_FAILED
        && unsafe { next::system_call(libc::SYS_process_vm_readv, arguments) } as usize == len;
    if new != libc::MAP_FAILED {
        let gone = if is_copied { (from, len) } else { (new as usize, new_len) };
        // SAFETY: the program gives the old mapping up, or nobody knows the new one.
        unsafe { calls::munmap(gone.0, gone.1) };
    }
    next::set_errno(errno);
    is_copied.then_some(new)
}

/// Like `page::round_up`, without a division that could panic, and without overflow.
fn whole_pages(len: usize) -> usize {
    len.saturating_add(page::size() - 1) & !(page::size() - 1)
}
