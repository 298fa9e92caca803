//! touch: first and second touch of new memory: by size, threads, what the threads share, who zeroed the pages, and what
//! goes on beside.
//!
//! "Bringing The Hardware And Windows To Its Limits" touches 2000 MB twice, but its listing never makes the second touch.
//! "Prezeroing V2" splits some GB among threads, and each writes to a few cache lines of each page. Both are one piece of
//! work here: every page is accessed once in the phase `first` and again in `second`, and the values prove it.
//!
//! | `memory` | shared by the threads | what it adds |
//! |---|---|---|
//! | `interleaved` | address space, mapping, page tables | the page-table lock |
//! | `shared` | address space, mapping | the mapping's VMA lock (since Linux 6.4; before that, nothing) |
//! | `own` | address space | the mmap lock (faults take it before Linux 6.4), counters of the address space |
//! | `process` | nothing but the machine | the zone lock, memory bandwidth, the hypervisor |
//! | `zeroed-on-get` | a pool, whose blocks are dirty and are zeroed when a thread takes them | no faults, zeroing |
//! | `zeroed-ahead` | a pool, whose blocks were zeroed before, in the phase `scrub` | no faults, no zeroing |
//!
//! A program can't change the zeroing of the kernel. The difference between `own` and `zeroed-on-get` is the gain of reuse.
//! Only the difference between `zeroed-on-get` and `zeroed-ahead` is the gain of zeroing early. The memory of a pool is
//! filled with ones before, so the values also prove who zeroed it and when.
//!
//! `memory=32-bit` touches nothing: a program of 32 bits maps until the kernel refuses, since the document says how much
//! that is.
//!
//! `lock=yes` is the first document's workaround: mlock (its VirtualLock) faults every page in from one thread, before
//! many threads touch them. THP is off for the memory; the price of THP is in `price`.

mod body;
mod charts;
mod claims;
pub(crate) mod document;
mod narrow;
mod prezeroing;

use faultless_os::host::Host;
use faultless_os::page;

use super::beside::Beside;
use super::memory::LINE_BYTES;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{Effort, Experiment, Parameter, Part, Scope, Sheet, Trial};

pub(super) struct Touch;

static SHEET: Sheet = Sheet {
    name: "touch",
    about: "What do the first and the second touch of a page cost, and do they scale with threads?",
    documents: &[Document::Hardware, Document::Queue, Document::Prezeroing],
    parameters: &[
        Parameter::usual("access", "write", "write, or read, which maps the zero page"),
        Parameter::usual(
            "memory",
            "shared",
            "shared, interleaved or own (one mapping, page by page, one each), process, zeroed-on-get, zeroed-ahead",
        ),
        Parameter::usual("lines", "1", "cache lines that are accessed of each page"),
        Parameter::named("mib", "MiB of all threads together"),
        Parameter::named("threads", "threads, or processes"),
        Parameter::usual("lock", "no", "yes: mlock faults all pages in before the first touch"),
        Parameter::usual(
            "beside",
            "none",
            "maps: threads that map and unmap memory; maps-apart: processes that do so",
        ),
        Parameter::usual("others", "0", "threads or processes beside"),
    ],
    varied: &[],
    columns: charts::COLUMNS,
    theirs: charts::theirs,
    charts: charts::CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    parts: &[
        Part {
            name: "scale",
            about: "Where do page faults of several threads wait for each other, or for threads that map memory?",
            has: |cell| {
                let plain = [("access", "write"), ("lines", "1"), ("lock", "no")];
                plain.iter().all(|(name, value)| cell.text(name) == Ok(value))
                    && !is_pool(cell)
                    && !narrow::is_asked(cell)
            },
            varied: &["memory", "beside", "others"],
            columns: charts::SCALE_COLUMNS,
            theirs: Vec::new,
        },
        Part {
            name: "fault-rate",
            about: "How many zeroed pages per second can threads get, by cache lines written, and what does zeroing ahead gain?",
            has: |cell| {
                (is_pool(cell) || cell.text("memory") == Ok("own")) && cell.text("beside") == Ok("none")
            },
            varied: &["memory"],
            columns: document::COLUMNS,
            theirs: document::rows,
        },
    ],
};

impl Experiment for Touch {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mut words = hardware(scope);
        words.extend(beside(scope));
        words.extend(sharing_and_zeroing(scope));
        let mut cells: Vec<Cell> = words.iter().map(|words| SHEET.cell(words)).collect();
        if cfg!(target_arch = "x86_64") {
            cells.push(SHEET.cell(narrow::WORDS));
        }
        cells.sort();
        cells.dedup();
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        if narrow::is_asked(cell) {
            return Ok(0);
        }
        Ok(Asked::of(cell)?.len_bytes as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        if narrow::is_asked(cell) {
            return narrow::trial(cell);
        }
        Ok(body::trial(Asked::of(cell)?))
    }
}

/// Sizes in MiB.
fn sizes(scope: &Scope) -> &'static [usize] {
    scope.pick([&[4], &[64], &[64, 512], &[16, 256, 2000]])
}

/// The first document's cells: by size, threads, by reading as its listing does, and with mlock.
fn hardware(scope: &Scope) -> Vec<String> {
    let mut words = Vec::new();
    for mib in sizes(scope) {
        words.extend(scope.threads().iter().map(|threads| format!("mib={mib} threads={threads}")));
    }
    words.push(format!("access=read mib={} threads=1", sizes(scope)[0]));
    // Most users may lock little memory: the same size is measured without the lock, too.
    let mib = lockable_mib(scope.host, sizes(scope)[0]);
    for threads in [1, scope.processors] {
        words.extend(["no", "yes"].map(|lock| format!("mib={mib} threads={threads} lock={lock}")));
    }
    words
}

/// One thread and one per processor, with others beside them.
fn beside(scope: &Scope) -> Vec<String> {
    let others: &[usize] = scope.pick([&[1], &[1], &[1, 2], &[1, 2, 4, 8]]);
    let threads = if scope.effort >= Effort::Default { vec![1, scope.processors] } else { vec![1] };
    let mut words = Vec::new();
    for (beside, _) in BESIDE.into_iter().filter(|(_, kind)| kind.is_some()) {
        for threads in &threads {
            words.extend(others.iter().map(|others| {
                let mib = sizes(scope)[0];
                format!("memory=own mib={mib} threads={threads} beside={beside} others={others}")
            }));
        }
    }
    words
}

/// By what the threads share and who zeroes: by threads, and for the prezeroing document by lines, each at the largest size.
fn sharing_and_zeroing(scope: &Scope) -> Vec<String> {
    let most = sizes(scope)[sizes(scope).len() - 1];
    let lines: Vec<usize> = (0..=most_lines().ilog2()).map(|log2| 1 << log2).collect();
    let lines = scope.pick([vec![1, 8], vec![1, 8, most_lines()], lines.clone(), lines]);
    let mut words = Vec::new();
    for (memory, kind) in MEMORIES.into_iter().filter(|(_, kind)| *kind != Memory::Shared) {
        let is_zeroing = matches!(kind, Memory::Own | Memory::Pool(_));
        if is_zeroing {
            words.extend(
                lines.iter().map(|lines| format!("memory={memory} lines={lines} mib={most} threads=1")),
            );
        }
        // Scaling beyond the processors is not expected.
        let is_asked =
            |threads: &usize| *threads <= scope.processors || is_zeroing || scope.effort >= Effort::Default;
        words.extend(scope.threads().into_iter().filter(is_asked).map(|threads| {
            format!("memory={memory} mib={} threads={threads}", most.max(threads.div_ceil(BLOCKS_PER_MIB)))
        }));
    }
    words
}

/// Bytes of one block of a pool. Zeroed on get, it is still in the second-level cache when it is written, as a page of the
/// kernel is.
const BLOCK_BYTES: usize = 256 << 10;
const BLOCKS_PER_MIB: usize = (1 << 20) / BLOCK_BYTES;

/// Lines of a page.
fn most_lines() -> usize {
    page::size() / LINE_BYTES
}

/// What the threads share; see the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Shared,
    Interleaved,
    Own,
    Process,
    Pool(Zeroed),
}

/// When the blocks of a pool are zeroed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zeroed {
    OnGet,
    Ahead,
}

const MEMORIES: [(&str, Memory); 6] = [
    ("shared", Memory::Shared),
    ("interleaved", Memory::Interleaved),
    ("own", Memory::Own),
    ("process", Memory::Process),
    ("zeroed-on-get", Memory::Pool(Zeroed::OnGet)),
    ("zeroed-ahead", Memory::Pool(Zeroed::Ahead)),
];

const BESIDE: [(&str, Option<Beside>); 3] =
    [("none", None), ("maps", Some(Beside::Maps)), ("maps-apart", Some(Beside::MapsApart))];

/// Whether a cell's memory comes from a pool, and so takes no faults.
fn is_pool(cell: &Cell) -> bool {
    matches!(cell.choice("memory", &MEMORIES), Ok(Memory::Pool(_)))
}

/// A cell's parameters.
#[derive(Clone, Copy, Debug)]
struct Asked {
    writes: bool,
    memory: Memory,
    lines: usize,
    len_bytes: usize,
    threads: usize,
    lock: bool,
    beside: Option<Beside>,
    others: usize,
}

impl Asked {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
        let asked = Self {
            writes: cell.choice("access", &[("write", true), ("read", false)])?,
            memory: cell.choice("memory", &MEMORIES)?,
            lines: cell.number("lines")?,
            len_bytes: cell.mib("mib")?,
            threads: cell.number("threads")?,
            lock: cell.flag("lock")?,
            beside: cell.choice("beside", &BESIDE)?,
            others: cell.count("others")?,
        };
        match asked.wrong() {
            Some(what) => Err(Refusal(format!("{cell}: {what}"))),
            None => Ok(asked),
        }
    }

    /// What does not go together.
    fn wrong(&self) -> Option<String> {
        let Self { memory, lines, threads, .. } = *self;
        let (is_pool, is_process) = (matches!(memory, Memory::Pool(_)), memory == Memory::Process);
        let unit_bytes = if is_pool { BLOCK_BYTES } else { page::size() };
        let most_lines = most_lines();
        if lines > most_lines {
            let what = format!("a page here has {most_lines} lines of {LINE_BYTES} bytes");
            Some(format!("lines={lines}: takes at most {most_lines}: {what}"))
        } else if threads > self.len_bytes / unit_bytes {
            let least = threads.div_ceil((1 << 20) / unit_bytes);
            Some(format!("threads={threads}: take mib={least} at least for so many"))
        } else if self.lock && (is_pool || is_process) {
            Some("lock=yes is for memory=shared, interleaved and own".into())
        } else if is_process && (lines > 1 || !self.writes) {
            Some("memory=process takes access=write and lines=1".into())
        } else if (self.others > 0) != self.beside.is_some() {
            Some("others=0 goes with beside=none, and only with it".into())
        } else {
            None
        }
    }
}

/// The largest power of two of MiB up to `most` that this user may lock and still map a little more; at least
/// 1.
fn lockable_mib(host: &Host, most: usize) -> usize {
    let limit = if host.root { None } else { host.limits.memlock_bytes };
    let allowed = limit.map_or(most, |bytes| (bytes >> 20) as usize).min(most).max(1);
    1 << allowed.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_locked_is_asked_for() {
        let mut host = Host { root: false, ..Host::default() };
        host.limits.memlock_bytes = Some(8 << 20);
        assert_eq!(lockable_mib(&host, 64), 8);
        host.limits.memlock_bytes = Some(64 << 10);
        assert_eq!(lockable_mib(&host, 64), 1);
        host.limits.memlock_bytes = None;
        assert_eq!(lockable_mib(&host, 48), 32);
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_the_remedy() {
        for (words, expected) in [
            ("mib=1 threads=1 others=2", "others=0 goes with beside=none"),
            ("mib=1 threads=1 lines=4096", "lines=4096: takes at most"),
            ("mib=1 threads=1000 memory=zeroed-ahead", "take mib=250 at least"),
            ("mib=1 threads=1 memory=process access=read", "takes access=write"),
            ("mib=1 threads=1 memory=process lock=yes", "lock=yes is for"),
            ("mib=1 threads=1 memory=other", "interleaved, own, process, zeroed-on-get or zeroed-ahead"),
        ] {
            let refused = Asked::of(&SHEET.cell(words)).unwrap_err().0;
            assert!(refused.contains(expected), "{words}: {refused}");
        }
    }
}
