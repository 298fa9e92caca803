//! The allocation recorder: what large blocks are born, moved and freed, written into the journal that `FAULTLESS_RECORD` names.
//!
//! In: blocks, whosever they are, and their callers' registers. Out: entries of `faultless_os::journal`. Where that can't be opened, and
//! in a process that has forbidden itself system calls (`single`), nothing is recorded. Without a recorder a call costs two
//! moves between registers, a jump and a comparison more, with one a small `free` a look at 8 KiB of bits.
//!
//! What it does not do: unwind; follow mmap(2). A mapping is unmapped and moved in parts, which blocks are not, the kernel tells of those that
//! programs make, and the C library's own never come by here.

use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use faultless_os::advise::Advice;
use faultless_os::caller;
use faultless_os::counters::now_ns;
use faultless_os::journal::{Entry, Journal, Kind, Registers, STACK_BYTES};

use crate::large::{self, Place};
use crate::line::Text;
use crate::{Void, next};

/// Blocks of at least this many bytes are recorded.
static FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static JOURNAL: Place<Journal> = Place::new();
static IS_RESIDENT: AtomicBool = AtomicBool::new(false);

/// A bit for each hash of an address where a recorded block began at any time: `free` asks for the length of these alone. 8 KiB stay
/// in the first cache; a program whose large blocks begin at ten thousand places has a seventh of the bits set.
static BEGUN: [AtomicU64; BEGUN_WORDS] = [const { AtomicU64::new(0) }; BEGUN_WORDS];
const BEGUN_WORDS: usize = 1024;

/// Opens the journal named by `PATH:BYTES`. `None`: the text is not of this form.
pub(crate) fn open(text: &[u8]) -> Option<()> {
    let colon = text.iter().rposition(|&byte| byte == b':')?;
    let (path, from) = text.split_at_checked(colon)?;
    let from = crate::settings::size(from.get(1..)?)?;
    let mut name = Text::<{ libc::PATH_MAX as usize }>::new();
    name.text(path);
    if let Ok(journal) = Journal::open(name.c_str()?) {
        caller::prepare();
        // SAFETY: called once, by the constructor; nobody reads it before FROM is set.
        unsafe { (*JOURNAL.0.get()).write(journal) };
        FROM.store(from, Release);
    }
    Some(())
}

/// Whether blocks of this length are recorded.
#[inline(always)]
pub(crate) fn wants(len: usize) -> bool {
    len >= FROM.load(Relaxed)
}

/// The journal, unless nothing may be recorded.
fn journal() -> Option<&'static Journal> {
    if FROM.load(Acquire) == usize::MAX || large::is_confined() {
        return None;
    }
    // SAFETY: FROM was set after the journal was written.
    Some(unsafe { (*JOURNAL.0.get()).assume_init_ref() })
}

fn bit(block: Void) -> Option<(&'static AtomicU64, u64)> {
    // Fibonacci hashing; blocks begin at multiples of 16.
    let hash = (block as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    Some((BEGUN.get((hash >> 6) as usize)?, 1 << (hash & 63)))
}

/// Whether this may be a recorded block, so that its length is worth asking for.
#[inline(always)]
fn may_be_known(block: Void) -> bool {
    bit(block).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

/// Whether a block was recorded, or is as long as those that are.
pub(crate) fn is_known(block: Void) -> bool {
    if block.is_null() || !may_be_known(block) {
        return false;
    }
    let len = match large::is_ours(block) {
        true => large::usable(block),
        // SAFETY: the callers of free and realloc pass a live block.
        false => Some(unsafe { next::malloc_usable_size(block) }),
    };
    len.is_some_and(wants)
}

/// A block was allocated.
#[inline(never)]
pub(crate) fn born(block: Void, len: usize, site: Registers) {
    let time_ns = now_ns();
    let addr = block as u64;
    let entry =
        Entry { kind: Kind::BORN, time_ns, begin_ns: time_ns, addr, len_bytes: len as u64, from: addr };
    with_stack(entry, site);
}

/// A block has another length, and perhaps another place.
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
    if !IS_RESIDENT.load(Relaxed) && !IS_RESIDENT.swap(true, AcqRel) {
        journal.populate(Advice::PopulateRead);
    }
    let writer = caller::writer();
    let stack_bytes = caller::stack_bytes(writer, site.sp as usize, STACK_BYTES);
    // SAFETY: the stack pointer is of a caller of ours, and so many bytes above it can be read.
    unsafe { journal.write_with_stack(writer, entry, site, stack_bytes) };
    next::set_errno(errno);
}

/// A block is about to be freed.
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

/// A block was freed after this time.
pub(crate) fn gone(block: Void, time_ns: u64) {
    let Some(journal) = journal() else { return };
    let errno = next::errno();
    let addr = block as u64;
    let entry = Entry { kind: Kind::DIED, time_ns, begin_ns: time_ns, addr, len_bytes: 0, from: addr };
    journal.write(caller::writer(), entry);
    next::set_errno(errno);
}
