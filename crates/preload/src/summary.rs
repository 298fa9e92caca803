//! The report at exit: what the pool did in this process.
//!
//! Written when the process ends through `exit`; one killed by a signal or leaving through `_exit` writes none, nor does
//! one that closed the report's descriptor: what it opened under that number since is not ours to write to.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use faultless_pool::Stats;

use crate::large::{FORWARDED, Outcome, outcome};
use crate::line::Line;

/// Where the report goes, or -1.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
/// The file behind the descriptor when the report was asked for: device and inode.
static FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Programs close standard error before the report (coreutils do): it goes to a copy with at least this number.
const COPY_FROM: i32 = 200;

/// Asks for a report on a descriptor.
pub(crate) fn ask(descriptor: i32) {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer and touches no memory.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, COPY_FROM) };
    let descriptor = if copy < 0 { descriptor } else { copy };
    if let Some(file) = identity(descriptor) {
        FILE.iter().zip(file).for_each(|(place, part)| place.store(part, Relaxed));
        DESCRIPTOR.store(descriptor, Relaxed);
    }
}

/// Device and inode of an open file.
fn identity(descriptor: i32) -> Option<[u64; 2]> {
    let mut file = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the pointer is valid for one stat.
    if unsafe { libc::fstat(descriptor, file.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: all-zero is a valid stat, and the kernel has filled it in.
    let file = unsafe { file.assume_init() };
    Some([file.st_dev, file.st_ino])
}

/// Writes the report, if asked for.
pub(crate) fn write() {
    let descriptor = DESCRIPTOR.swap(-1, Relaxed);
    if descriptor < 0 || identity(descriptor) != Some(FILE.each_ref().map(|part| part.load(Relaxed))) {
        return;
    }
    match outcome() {
        Outcome::NeverAsked => head().text(b"no large block was asked for").write_to(descriptor),
        Outcome::Off => {
            let line = head().text(b"the pool could not be opened; ").number(FORWARDED.load(Relaxed));
            line.text(b" large requests went to the next malloc").write_to(descriptor);
        }
        Outcome::Open(pool) => lines(pool.stats(), descriptor),
    }
}

fn lines(stats: Stats, descriptor: i32) {
    let page = faultless_os::page::size() as u64;
    let blocks = stats.dirty_hits + stats.zeroed_hits + stats.fresh;
    head()
        .number(blocks)
        .text(b" large blocks: ")
        .number(stats.dirty_hits)
        .text(b" dirty, ")
        .number(stats.zeroed_hits)
        .text(b" zeroed, ")
        .number(stats.fresh)
        .text(b" fresh; ")
        .mib(stats.reused_bytes)
        .text(b" handed out resident, up to ")
        .number(stats.reused_bytes.checked_div(page).unwrap_or(0))
        .text(b" first touches avoided")
        .write_to(descriptor);
    head()
        .mib(stats.peak_in_use_bytes as u64)
        .text(b" in use and ")
        .mib(stats.peak_retained_bytes as u64)
        .text(b" retained at most; ")
        .number(stats.purges)
        .text(b" purges (")
        .mib(stats.purged_bytes)
        .text(b", ")
        .number(stats.purge_ns / 1000)
        .text(b" us); ")
        .mib(stats.cleared_bytes)
        .text(b" cleared for calloc")
        .write_to(descriptor);
    head()
        .text(b"grown: ")
        .number(stats.grown_in_place)
        .text(b" in place, ")
        .number(stats.grown_by_pages)
        .text(b" by page tables, ")
        .number(stats.grown_by_copy)
        .text(b" by copy; ")
        .number(FORWARDED.load(Relaxed))
        .text(b" large requests went to the next malloc; ")
        .number(stats.purge_failures + stats.populate_failures)
        .text(b" advices refused")
        .write_to(descriptor);
}

/// `faultless: NAME[PID]: `.
fn head() -> Line {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    // SAFETY: getpid has no arguments and cannot fail.
    let pid = unsafe { libc::getpid() };
    let name = name.split_at_checked(len).map_or(&name[..], |(name, _)| name);
    Line::new().text(b"faultless: ").text(name).text(b"[").number(pid as u64).text(b"]: ")
}
