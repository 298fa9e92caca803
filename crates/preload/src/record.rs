//! The allocation recorder: writes the allocation, resizing and freeing of large blocks into the journal that
//! `FAULTLESS_RECORD` names.
//!
//! In: blocks of any allocator, and their callers' registers. Out: entries of `faultless_os::journal`. Nothing is
//! recorded if the journal cannot be opened, or in a process that confined its system calls (`single`). Without a
//! recorder a call costs two more moves between registers, a jump and a comparison. With one, freeing a small block
//! costs a lookup in 8 KiB of bits.
//!
//! Out of scope: unwinding, and mmap(2). Programs unmap and move mappings in parts, unlike blocks. The kernel reports
//! the program's mappings, and the C library's own mappings never pass through here.

use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use faultless_os::caller;
use faultless_os::counters::now_ns;
use faultless_os::journal::{Entry, Journal, Kind, Registers, STACK_BYTES};

use crate::environment::{read, size};
use crate::line::Text;
use crate::once::Once;
use crate::{Void, large, next, pool};

/// Blocks of at least this many bytes are recorded.
static FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static JOURNAL: Once<Journal> = Once::new();
/// Whether the journal's pages were made resident.
static IS_RESIDENT: AtomicBool = AtomicBool::new(false);

/// One bit per hash of an address at which a recorded block has begun. `free` looks up the length of these blocks only.
/// 8 KiB stay in the first cache. In a program whose large blocks begin at ten thousand addresses, a seventh of the
/// bits is set.
static BEGUN: [AtomicU64; BEGUN_WORDS] = [const { AtomicU64::new(0) }; BEGUN_WORDS];
const BEGUN_WORDS: usize = 1024;

/// Reads the environment, and opens the journal if there is to be one.
pub(crate) fn start() {
    read(c"FAULTLESS_RECORD", c"PATH:SIZE", &mut (), open);
}

/// Opens the journal named by `PATH:SIZE`. `None`: the text is not of this form.
fn open(text: &[u8]) -> Option<()> {
    let colon = text.iter().rposition(|&byte| byte == b':')?;
    let (path, from) = text.split_at_checked(colon)?;
    let from = size(from.get(1..)?)?;
    let mut name = Text::<{ libc::PATH_MAX as usize }>::new();
    name.text(path);
    if let Ok(journal) = Journal::open(name.c_str()?) {
        caller::prepare();
        // SAFETY: called once, by the constructor; nobody reads it before FROM is set.
        unsafe { JOURNAL.write(journal) };
        FROM.store(from, Release);
    }
    Some(())
}

/// Whether blocks of this length are recorded.
#[inline(always)]
pub(crate) fn wants(len: usize) -> bool {
    len >= FROM.load(Relaxed)
}

/// The journal, if blocks are recorded.
fn journal() -> Option<&'static Journal> {
    if FROM.load(Acquire) == usize::MAX || pool::is_confined() {
        return None;
    }
    // SAFETY: FROM was set after the journal was written.
    Some(unsafe { JOURNAL.get() })
}

fn bit(block: Void) -> Option<(&'static AtomicU64, u64)> {
    // Fibonacci hashing; blocks begin at multiples of 16.
    let hash = (block as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    Some((BEGUN.get((hash >> 6) as usize)?, 1 << (hash & 63)))
}

/// Whether this may be a recorded block.
#[inline(always)]
fn may_be_known(block: Void) -> bool {
    bit(block).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

/// Whether a block was recorded, or is as long as recorded blocks.
pub(crate) fn is_known(block: Void) -> bool {
    if block.is_null() || !may_be_known(block) {
        return false;
    }
    let len = if pool::is_ours(block) {
        large::usable(block)
    } else {
        // SAFETY: the callers of free and realloc pass a live block.
        Some(unsafe { next::malloc_usable_size(block) })
    };
    len.is_some_and(wants)
}

/// Records that a block was allocated.
#[inline(never)]
pub(crate) fn born(block: Void, len: usize, site: Registers) {
    let time_ns = now_ns();
    let addr = block as u64;
    let entry =
        Entry { kind: Kind::BORN, time_ns, begin_ns: time_ns, addr, len_bytes: len as u64, from: addr };
    with_stack(entry, site);
}

/// Records that a block has another length, and perhaps another address.
pub(crate) fn moved(from: Void, block: Void, len: usize, begin_ns: u64, site: Registers) {
    let (time_ns, addr) = (now_ns(), block as u64);
    let entry =
        Entry { kind: Kind::MOVED, time_ns, begin_ns, addr, len_bytes: len as u64, from: from as u64 };
    with_stack(entry, site);
}

fn with_stack(entry: Entry, site: Registers) {
    let Some(journal) = journal() else { return };
    let errno = next::errno();
    if let Some((word, bit)) = bit(entry.addr as Void) {
        word.fetch_or(bit, Relaxed);
    }
    let writer = caller::writer();
    if !IS_RESIDENT.load(Relaxed) && !IS_RESIDENT.swap(true, AcqRel) {
        journal.join(writer);
    }
    let stack_bytes = caller::stack_bytes(writer, site.sp as usize, STACK_BYTES);
    // SAFETY: the stack pointer is that of our caller, and `stack_bytes` bytes above it can be read.
    unsafe { journal.write_with_stack(writer, entry, site, stack_bytes) };
    next::set_errno(errno);
}

/// Records that a block is about to be freed.
#[inline(always)]
pub(crate) fn dies(block: Void) {
    if FROM.load(Relaxed) != usize::MAX && may_be_known(block) {
        died(block);
    }
}

#[cold]
#[inline(never)]
fn died(block: Void) {
    if is_known(block) {
        gone(block, now_ns());
    }
}

/// Records that a block was freed after this time.
pub(crate) fn gone(block: Void, time_ns: u64) {
    let Some(journal) = journal() else { return };
    let errno = next::errno();
    let addr = block as u64;
    let entry = Entry { kind: Kind::DIED, time_ns, begin_ns: time_ns, addr, len_bytes: 0, from: addr };
    journal.write(caller::writer(), entry);
    next::set_errno(errno);
}
