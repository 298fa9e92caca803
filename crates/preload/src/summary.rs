//! The report at exit: what the pool did in this process.
//!
//! Written when the process ends through `exit`; one killed by a signal or leaving through `_exit` writes none, nor does
//! one that closed the report's descriptor: what it opened under that number since is not ours to write to. A file that was
//! named instead is opened at the end, and is whole or not there.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering::Relaxed};

use faultless_pool::{Format, Kernel, Pool, Stats};

use crate::large::{FORWARDED, Outcome, outcome};
use crate::line::{Line, Text};

pub(crate) mod file;
mod metrics;

/// What the report takes, off the stack: `exit` may be called where little of that is left.
struct Paper(UnsafeCell<(Line, file::Names)>);

// SAFETY: `write` lets in the first that comes, and nobody else uses it.
unsafe impl Sync for Paper {}

static PAPER: Paper = Paper(UnsafeCell::new((Line::new(), file::Names::new())));

static FORMAT: AtomicU8 = AtomicU8::new(Format::Text as u8);

/// Where the report goes, or -1.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
/// The file behind the descriptor when the report was asked for: device and inode.
static FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Programs close standard error before the report (coreutils do): it goes to a copy with at least this number.
const COPY_FROM: i32 = 200;

/// How the report is to be written, and on which descriptor, if on any. What a file can't be told goes there too.
pub(crate) fn ask(descriptor: Option<i32>, format: Format) {
    FORMAT.store(format as u8, Relaxed);
    let Some(descriptor) = descriptor else { return };
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

/// The descriptor, unless the program has closed it or put something else there.
fn descriptor() -> Option<i32> {
    let descriptor = DESCRIPTOR.swap(-1, Relaxed);
    let is_ours =
        descriptor >= 0 && identity(descriptor) == Some(FILE.each_ref().map(|part| part.load(Relaxed)));
    is_ours.then_some(descriptor)
}

/// Writes the report, if asked for.
pub(crate) fn write() {
    static WRITES: AtomicBool = AtomicBool::new(false);
    let descriptor = descriptor();
    if (descriptor.is_none() && !file::is_named()) || WRITES.swap(true, Relaxed) {
        return;
    }
    // SAFETY: WRITES lets one in, once.
    let (report, names) = unsafe { &mut *PAPER.0.get() };
    compose(report);
    let is_written = file::is_named() && file::write(report, names);
    match descriptor {
        Some(descriptor) if !file::is_named() => _ = report.write_to(descriptor),
        Some(descriptor) if !is_written => {
            let mut line = Text::<128>::new();
            head(&mut line).text(b"the file of the summary could not be written").write_to(descriptor);
        }
        _ => {}
    }
}

fn compose(report: &mut Line) {
    let outcome = outcome();
    let format = FORMAT.load(Relaxed);
    if format != Format::Text as u8 {
        let stats = if let Outcome::Open(pool) = &outcome { pool.stats() } else { Stats::default() };
        let is_json = format == Format::Json as u8;
        let format = if is_json { Format::Json } else { Format::OpenMetrics };
        metrics::write(report, format, &stats, FORWARDED.load(Relaxed), &outcome);
        return;
    }
    match outcome {
        Outcome::NeverAsked => {
            head(report).text(b"no large block was asked for");
        }
        Outcome::Off => {
            head(report).text(b"the pool could not be opened; ").number(FORWARDED.load(Relaxed));
            report.text(b" large requests went to the next malloc");
        }
        Outcome::Open(pool) => {
            requests(report, &pool.stats());
            memory(report, &pool.stats());
            ahead(report, pool);
        }
    }
}

fn requests(line: &mut Line, stats: &Stats) {
    let page = faultless_os::page::size() as u64;
    head(line).number(stats.dirty_hits + stats.zeroed_hits + stats.fresh).text(b" large blocks: ");
    line.number(stats.dirty_hits).text(b" dirty, ").number(stats.zeroed_hits).text(b" zeroed, ");
    line.number(stats.fresh).text(b" fresh; ").mib(stats.reused_bytes).text(b" handed out resident, up to ");
    line.number(stats.reused_bytes.checked_div(page).unwrap_or(0)).text(b" first touches avoided");
    head(line)
        .text(b"grown: ")
        .number(stats.grown_in_place)
        .text(b" in place, ")
        .number(stats.grown_by_pages);
    line.text(b" by page tables, ").number(stats.grown_by_copy).text(b" by copy; ");
    line.number(FORWARDED.load(Relaxed)).text(b" large requests went to the next malloc");
}

fn memory(line: &mut Line, stats: &Stats) {
    head(line)
        .mib(stats.peak_in_use_bytes as u64)
        .text(b" in use and ")
        .mib(stats.peak_retained_bytes as u64);
    line.text(b" retained at most; at the end ").mib(stats.in_use_bytes as u64).text(b" in use, ");
    line.mib((stats.retained_bytes - stats.zeroed_bytes.min(stats.retained_bytes)) as u64).text(b" dirty, ");
    line.mib(stats.zeroed_bytes as u64).text(b" zeroed");
    head(line).number(stats.purges).text(b" purges (").mib(stats.purged_bytes).text(b", ");
    line.number(stats.purge_ns / 1000)
        .text(b" us); ")
        .mib(stats.cleared_bytes)
        .text(b" cleared for calloc; ");
    line.number(stats.purge_failures + stats.populate_failures).text(b" advices refused");
}

/// Silent about what was neither asked for nor happened.
fn ahead(line: &mut Line, pool: &Pool<Kernel>) {
    let stats = pool.stats();
    if pool.is_keeper_refused() {
        head(line).text(b"no keeper thread could be had: nothing decays");
    }
    if stats.stocked_bytes + stats.scrubbed_bytes > 0 {
        head(line).text(b"ahead of need: ").mib(stats.stocked_bytes).text(b" made resident (");
        line.number(stats.stock_ns / 1000).text(b" us), ").mib(stats.scrubbed_bytes).text(b" zeroed (");
        line.number(stats.scrub_ns / 1000).text(b" us)");
    }
    if stats.populated_bytes + stats.populate_missing_bytes > 0 {
        head(line).text(b"populated, as the kernel says: ").mib(stats.populated_bytes).text(b" resident, ");
        line.mib(stats.populate_missing_bytes).text(b" not");
    }
    if stats.fallback_bytes > 0 {
        head(line).mib(stats.fallback_bytes).text(b" of addresses got base pages instead of those asked for");
    }
}

/// Begins a line: `faultless: NAME[PID]: `.
fn head<const BYTES: usize>(line: &mut Text<BYTES>) -> &mut Text<BYTES> {
    let mut name = [0; NAME_BYTES];
    if !line.is_empty() {
        line.text(b"\n");
    }
    line.text(b"faultless: ").text(name_of_process(&mut name)).text(b"[");
    line.number(std::process::id().into()).text(b"]: ")
}

/// Bytes of a thread's name and its end, prctl(2).
const NAME_BYTES: usize = 16;

fn name_of_process(name: &mut [u8; NAME_BYTES]) -> &[u8] {
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    name.split_at_checked(len).map_or(&name[..], |(name, _)| name)
}
