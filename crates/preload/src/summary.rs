//! The report at exit: what the pool did in this process.
//!
//! It is written when the process ends through `exit`. A process that is killed by a signal, or ends through `_exit`,
//! writes none. Neither does a process that closed the report's descriptor, because another file may have that number
//! since. A named file is opened at the end; it appears whole or not at all. A child that a confined process forks
//! writes none.
//!
//! Where the interposer is passive, the report says why, in one line. As soon as such a program confines itself, there
//! is none.

mod file;
mod metrics;
mod name;
mod text;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering::Relaxed};

use faultless_pool::{Format, Stats};

use crate::environment::{number, read};
use crate::large::FORWARDED;
use crate::line::{Line, Text};
use crate::pool::{self, State};

/// The buffers of the report. They are static because `exit` may be called with little stack left.
struct Buffers(UnsafeCell<(Line, file::Names)>);

// SAFETY: `write` lets in the first caller, and nobody else uses them.
unsafe impl Sync for Buffers {}

static BUFFERS: Buffers = Buffers(UnsafeCell::new((Line::new(), file::Names::new())));

static FORMAT: AtomicU8 = AtomicU8::new(Format::Text as u8);

/// The descriptor of the report, or -1.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
/// Device and inode of the file behind the descriptor at the start.
static FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// The report goes to a copy of the descriptor with at least this number: coreutils close standard error before the
/// report.
const COPY_FROM: i32 = 200;

/// Reads the environment: whether there will be a report, where, and in which format.
pub(crate) fn start() {
    let (mut target, mut format) = (None, Format::Text);
    read(c"FAULTLESS_SUMMARY", c"a descriptor", &mut target, descriptor_number);
    read(c"FAULTLESS_SUMMARY_FILE", c"a path", &mut (), file::name);
    read(c"FAULTLESS_SUMMARY_FORMAT", c"text, json or openmetrics", &mut format, format_name);
    FORMAT.store(format as u8, Relaxed);
    // A report that cannot be written to its file is announced on the descriptor.
    if let Some(descriptor) = target {
        open(descriptor);
    }
}

fn descriptor_number(text: &[u8]) -> Option<Option<i32>> {
    match number(text)? {
        0 => Some(None),
        1 => Some(Some(2)),
        other => i32::try_from(other).ok().map(Some),
    }
}

fn format_name(text: &[u8]) -> Option<Format> {
    match text {
        b"text" => Some(Format::Text),
        b"json" => Some(Format::Json),
        b"openmetrics" => Some(Format::OpenMetrics),
        _ => None,
    }
}

/// Keeps a copy of a descriptor for the report.
fn open(descriptor: i32) {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer and touches no memory.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, COPY_FROM) };
    let descriptor = if copy < 0 { descriptor } else { copy };
    if let Some(file) = identity(descriptor) {
        FILE.iter().zip(file).for_each(|(slot, part)| slot.store(part, Relaxed));
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

/// The descriptor, unless the program has closed it or opened another file under its number. In a sandbox the report
/// makes no call but write(2), so it relies on the answer of `confine`.
fn descriptor() -> Option<i32> {
    let descriptor = DESCRIPTOR.swap(-1, Relaxed);
    let file = || identity(descriptor) == Some(FILE.each_ref().map(|part| part.load(Relaxed)));
    let is_ours = descriptor >= 0 && if pool::is_confined() { pool::process() != 0 } else { file() };
    is_ours.then_some(descriptor)
}

/// Prepares the report of a program that is about to confine its system calls.
pub(crate) fn confine() {
    name::keep();
    if let Some(descriptor) = descriptor() {
        DESCRIPTOR.store(descriptor, Relaxed);
    }
}

/// There will be no report.
pub(crate) fn give_up() {
    DESCRIPTOR.store(-1, Relaxed);
    file::forget();
}

/// Writes the report, if there is to be one.
pub(crate) fn write() {
    static WRITES: AtomicBool = AtomicBool::new(false);
    let descriptor = descriptor();
    if (descriptor.is_none() && !file::is_named()) || WRITES.swap(true, Relaxed) {
        return;
    }
    // SAFETY: WRITES lets one caller in, once.
    let (report, names) = unsafe { &mut *BUFFERS.0.get() };
    compose(report);
    let is_written = file::is_named() && file::write(report, names);
    match descriptor {
        Some(descriptor) if !file::is_named() => _ = report.write_to(descriptor),
        Some(descriptor) if !is_written => {
            let mut line = Text::<128>::new();
            text::head(&mut line).text(b"the file of the summary could not be written").write_to(descriptor);
        }
        _ => {}
    }
}

fn compose(report: &mut Line) {
    let state = pool::state();
    let forwarded = FORWARDED.load(Relaxed);
    let format = FORMAT.load(Relaxed);
    if format == Format::Text as u8 {
        return text::write(report, &state, forwarded);
    }
    let stats = if let State::Open(pool) = &state { pool.stats() } else { Stats::default() };
    let is_json = format == Format::Json as u8;
    let format = if is_json { Format::Json } else { Format::OpenMetrics };
    metrics::write(report, format, &stats, forwarded, &state);
}
