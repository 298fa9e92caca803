//! The report at exit: what the pool did in this process.
//!
//! Written when the process ends through `exit`; one killed by a signal or leaving through `_exit` writes none, nor does
//! one that closed the report's descriptor: what it opened under that number since is not ours to write to.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering::Relaxed};

use faultless_pool::{Format, Kernel, Pool, Stats};

use crate::large::{FORWARDED, Outcome, outcome};
use crate::line::Line;

mod metrics;

static FORMAT: AtomicU8 = AtomicU8::new(Format::Text as u8);

/// Where the report goes, or -1.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
/// The file behind the descriptor when the report was asked for: device and inode.
static FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Programs close standard error before the report (coreutils do): it goes to a copy with at least this number.
const COPY_FROM: i32 = 200;

/// Asks for a report on a descriptor.
pub(crate) fn ask(descriptor: i32, format: Format) {
    FORMAT.store(format as u8, Relaxed);
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
    let outcome = outcome();
    if FORMAT.load(Relaxed) != Format::Text as u8 {
        let mut line = Line::new();
        let stats = if let Outcome::Open(pool) = &outcome { pool.stats() } else { Stats::default() };
        let is_json = FORMAT.load(Relaxed) == Format::Json as u8;
        let format = if is_json { Format::Json } else { Format::OpenMetrics };
        metrics::write(&mut line, format, &stats, FORWARDED.load(Relaxed), &outcome);
        line.write_to(descriptor);
        return;
    }
    match outcome {
        Outcome::NeverAsked => head().text(b"no large block was asked for").write_to(descriptor),
        Outcome::Off => {
            let mut line = head();
            line.text(b"the pool could not be opened; ").number(FORWARDED.load(Relaxed));
            line.text(b" large requests went to the next malloc").write_to(descriptor);
        }
        Outcome::Open(pool) => {
            requests(&pool.stats(), descriptor);
            memory(&pool.stats(), descriptor);
            ahead(pool, descriptor);
        }
    }
}

fn requests(stats: &Stats, descriptor: i32) {
    let page = faultless_os::page::size() as u64;
    let mut line = head();
    line.number(stats.dirty_hits + stats.zeroed_hits + stats.fresh).text(b" large blocks: ");
    line.number(stats.dirty_hits).text(b" dirty, ").number(stats.zeroed_hits).text(b" zeroed, ");
    line.number(stats.fresh).text(b" fresh; ").mib(stats.reused_bytes).text(b" handed out resident, up to ");
    line.number(stats.reused_bytes.checked_div(page).unwrap_or(0)).text(b" first touches avoided");
    line.write_to(descriptor);
    let mut line = head();
    line.text(b"grown: ").number(stats.grown_in_place).text(b" in place, ").number(stats.grown_by_pages);
    line.text(b" by page tables, ").number(stats.grown_by_copy).text(b" by copy; ");
    line.number(FORWARDED.load(Relaxed)).text(b" large requests went to the next malloc");
    line.write_to(descriptor);
}

fn memory(stats: &Stats, descriptor: i32) {
    let mut line = head();
    line.mib(stats.peak_in_use_bytes as u64).text(b" in use and ").mib(stats.peak_retained_bytes as u64);
    line.text(b" retained at most; at the end ").mib(stats.in_use_bytes as u64).text(b" in use, ");
    line.mib((stats.retained_bytes - stats.zeroed_bytes.min(stats.retained_bytes)) as u64).text(b" dirty, ");
    line.mib(stats.zeroed_bytes as u64).text(b" zeroed");
    line.write_to(descriptor);
    let mut line = head();
    line.number(stats.purges).text(b" purges (").mib(stats.purged_bytes).text(b", ");
    line.number(stats.purge_ns / 1000)
        .text(b" us); ")
        .mib(stats.cleared_bytes)
        .text(b" cleared for calloc; ");
    line.number(stats.purge_failures + stats.populate_failures).text(b" advices refused");
    line.write_to(descriptor);
}

/// Silent about what was neither asked for nor happened.
fn ahead(pool: &Pool<Kernel>, descriptor: i32) {
    let stats = pool.stats();
    if pool.is_keeper_refused() {
        head().text(b"no keeper thread could be had: nothing decays").write_to(descriptor);
    }
    if stats.stocked_bytes + stats.scrubbed_bytes > 0 {
        let mut line = head();
        line.text(b"ahead of need: ").mib(stats.stocked_bytes).text(b" made resident (");
        line.number(stats.stock_ns / 1000).text(b" us), ").mib(stats.scrubbed_bytes).text(b" zeroed (");
        line.number(stats.scrub_ns / 1000).text(b" us)").write_to(descriptor);
    }
    if stats.populated_bytes + stats.populate_missing_bytes > 0 {
        let mut line = head();
        line.text(b"populated, as the kernel says: ").mib(stats.populated_bytes).text(b" resident, ");
        line.mib(stats.populate_missing_bytes).text(b" not").write_to(descriptor);
    }
    if stats.fallback_bytes > 0 {
        let mut line = head();
        line.mib(stats.fallback_bytes)
            .text(b" of addresses have base pages, the machine lacks those asked for");
        line.write_to(descriptor);
    }
}

/// `faultless: NAME[PID]: `.
fn head() -> Line {
    let mut name = [0; NAME_BYTES];
    let mut line = Line::new();
    line.text(b"faultless: ")
        .text(name_of_process(&mut name))
        .text(b"[")
        .number(std::process::id().into())
        .text(b"]: ");
    line
}

/// Bytes of a thread's name and its end, prctl(2).
const NAME_BYTES: usize = 16;

fn name_of_process(name: &mut [u8; NAME_BYTES]) -> &[u8] {
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    name.split_at_checked(len).map_or(&name[..], |(name, _)| name)
}
