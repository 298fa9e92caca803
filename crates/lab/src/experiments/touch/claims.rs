//! What "Bringing The Hardware And Windows To Its Limits" says of touching memory, and "A queue of page faults" of faults
//! that wait for each other.

mod waits;

use crate::claim::{Cells, Claim, Here, Series, Unjudged, disturbed, short};
use crate::document::Document::{Hardware, Queue};

/// The phase that maps the memory.
const MAPPED: &str = "setup";
/// Pages of the document's 2000 MB.
const PAGES: f64 = 512_000.0;

/// First touches by writing, with nothing before or beside them.
fn plain<'a>(here: &Here<'a>) -> Cells<'a> {
    accessed(here, "write")
}

/// The same by one thread that reads, as the listing does.
fn read<'a>(here: &Here<'a>) -> Cells<'a> {
    accessed(here, "read").with("threads", 1).most("mib")
}

fn accessed<'a>(here: &Here<'a>, access: &str) -> Cells<'a> {
    here.cells("touch")
        .with("access", access)
        .with("memory", "shared")
        .with("lines", 1)
        .with("lock", "no")
        .with("beside", "none")
}

/// The same of the most memory that one thread and a thread per processor touched.
fn most<'a>(here: &Here<'a>) -> Cells<'a> {
    let of = |threads| plain(here).with("threads", threads);
    let has_both = |one: &Cells| of(here.processors()).same("mib", one).word("mib").is_some();
    let largest = of(1).each().filter(has_both).last();
    largest.map_or_else(|| plain(here).most("mib"), |one| plain(here).same("mib", &one))
}

/// The same, by so many threads.
fn by<'a>(here: &Here<'a>, threads: usize) -> Cells<'a> {
    most(here).with("threads", threads)
}

/// A thread per processor, with mlock before the touch.
fn locked<'a>(here: &Here<'a>) -> Cells<'a> {
    here.cells("touch").with("lock", "yes").with("threads", here.processors()).most("mib")
}

/// A program of 32 bits that maps as much as it gets.
fn narrow<'a>(here: &Here<'a>) -> Cells<'a> {
    here.cells("touch").with("memory", "32-bit")
}

/// Wall time of the first touch by a thread per processor, over that by one thread.
fn all_over_one(here: &Here) -> Series {
    by(here, here.processors()).wall("first") / by(here, 1).wall("first")
}

/// Resident bytes once mapped, in % of those mapped.
fn resident(here: &Here) -> Series {
    let cell = by(here, 1);
    100.0 * cell.of(MAPPED, "resident_bytes") / cell.of(MAPPED, "mapped_bytes")
}

/// Memory that the process got by touching, in % of that mapped.
fn grown(cell: &Cells) -> Series {
    let peak = |phase| cell.of(phase, "peak_rss_bytes");
    100.0 * (peak("second") - peak(MAPPED)) / cell.of(MAPPED, "mapped_bytes")
}

/// The commit limit of a kernel that enforces one, else what all programs together had committed in the end, over memory
/// and swap.
fn committed(here: &Here) -> Series {
    let of = |quantity| by(here, 1).of("look", quantity);
    let strict = of("is_commit_strict");
    let most = strict.clone() * of("commit_limit_bytes") + (1.0 - strict) * of("most_committed_bytes");
    most / of("memory_and_swap_bytes")
}

/// The CPU time of a page and the share of it at locks, by threads that touch one mapping; empty where the kernel was not
/// sampled.
fn lock_shares(here: &Here) -> String {
    let cells = here.cells("phases");
    let part = |cell: Cells| {
        let of = |quantity| cell.of("names", quantity).median();
        let (ns, share) = (of("fault_ns")?, 100.0 * of("locks_share")?);
        Some(format!("{} threads {ns:.0} ns, {} % of it at locks", cell.word("threads")?, short(share)))
    };
    let parts: Vec<String> = cells.each().filter_map(part).collect();
    if parts.is_empty() { String::new() } else { format!("sampled, a page takes: {}", parts.join("; ")) }
}

/// The document's machines have 8, 8 and 40 processors, and about 4 threads were faster than one.
const THEIRS: usize = 8;
/// The machine of its update has 4 cores.
const CORES: usize = 4;

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = one_thread();
    claims.extend(threads());
    claims.push(waits::claim());
    claims.extend(super::prezeroing::claims());
    claims
}

fn one_thread() -> Vec<Claim> {
    vec![
        Claim::between(
            ("hardware-second-touch", Hardware),
            ["13ms for the first access time and 0ms the second time", "0 ms"],
            (0.0, 1.0, "ms for 2000 MB"),
            |here| by(here, 1).wall("second") / by(here, 1).pages() * PAGES / 1e6,
        )
        .why("whole milliseconds: 0 is less than 1; the listing stops the clock without touching again, ours does touch"),
        Claim::at_least(
            ("hardware-30-times", Hardware),
            ["The release build has become 30 times slower!", "377 ms / 13 ms = 29"],
            (29_f64.sqrt(), "times", "how much dearer depends on the machine's price of a fault"),
            |here| by(here, 1).wall("first") / by(here, 1).wall("second"),
        )
        .why("the first touch over the second"),
        Claim::between(
            ("hardware-no-interference", Hardware),
            ["you can access the memory without any OS interference", "no further fault"],
            (0.0, 0.01, "faults per page"),
            |here| read(here).faults("second") / read(here).pages(),
        )
        .why(
            "faults of the second touch, the program's own included; the listing reads both times, and a write after a read \
             faults once more (oops-zeroed-faults)",
        ),
        Claim::between(
            ("hardware-committed", Hardware),
            ["The release build consumes basically zero physical memory", "working set about 0"],
            (0.0, 1.0, "% resident"),
            resident,
        )
        .why("measured with mincore, right after mmap without reservation (MAP_NORESERVE)"),
        Claim::between(
            ("hardware-resident", Hardware),
            ["Working Set is the physical memory the operating system has assigned to your process", "2000 MB"],
            (95.0, 105.0, "% of the memory"),
            |here| grown(&read(here)),
        )
        .beside(|here| {
            let written = grown(&by(here, 1)).median().map_or("-".into(), short);
            format!("{written} % by writing")
        })
        .why(
            "growth of the largest resident size by both touches; the listing reads, and reading maps one page of zeroes that \
             all share",
        ),
        Claim::at_least(
            ("hardware-reserve", Hardware),
            [
                "Apart from checking if enough address space is available in the process nothing happens which is therefore a \
                 super fast operation",
                "no figure",
            ],
            (100.0, "times", "there is no figure: two orders of magnitude are taken as super fast"),
            |here| by(here, 1).wall("first") / by(here, 1).wall(MAPPED),
        )
        .why("the touch of all pages over the calls that map them and ask what is resident, which takes most of that time; the document's 2000 MB would give more than less memory"),
        Claim::between(
            ("hardware-commit-limit", Hardware),
            [
                "The Commit Limit is the maximum memory all applications together can allocate. It is the sum of the physical \
                 memory + size of the page file",
                "1.00 of memory and page file",
            ],
            (0.85, 1.0, "of memory and swap"),
            committed,
        )
        .unless(|here| {
            let is_strict = by(here, 1).of("look", "is_commit_strict").median() == Some(1.0);
            let is_less = committed(here).median().is_some_and(|share| share < 1.0);
            (is_less && !is_strict).then(|| {
                "the kernel enforces no limit, so something else refused the memory: decided without `ulimit -v`".into()
            })
        })
        .why(
            "with vm.overcommit_memory=2 the limit that the kernel enforces; else what all programs had committed once this \
             one was given all it asked for, an eighth of memory and swap at a time, up to twice that",
        ),
        Claim::between(
            ("hardware-x86", Hardware),
            ["x86 processes which can allocate only 4 GB of memory", "4 GB"],
            (3.5, 4.0, "GiB"),
            |here| narrow(here).of("setup", "mapped_bytes") / f64::from(1 << 30),
        )
        .why("a program of 32 bits maps until the kernel refuses"),
    ]
}

fn threads() -> Vec<Claim> {
    vec![
        Claim::at_least(
            ("hardware-touch-degrades", Hardware),
            [
                "The soft page fault performance of Windows 10 does not scale with the numbers of cores. Instead it decreases \
                 with the numbers of cores!",
                "slower than one thread",
            ],
            (1.0, "times", "the document says worse than one thread, and not by how much"),
            all_over_one,
        )
        .processors(THEIRS)
        .why("the first touch by a thread per processor over that by one thread, of the same memory"),
        Claim::between(
            ("hardware-touch-4", Hardware),
            [
                "There seems to be a magic number around 4 concurrent touch threads where we become faster",
                "4 threads",
            ],
            (3.0, 5.0, "threads"),
            |here| most(here).fastest("threads", |cell| cell.wall("first")),
        )
        .processors(THEIRS)
        .why("the fastest of the measured numbers of threads, round by round"),
        Claim::at_least(
            ("hardware-touch-overhead", Hardware),
            [
                "the small actual soft page fault work (yellow) is constant while the overhead causes by the lock explodes",
                "1 to 40 threads",
            ],
            (2.0, "times", "the document's overhead has no figure; as much as the work is the least that explodes"),
            |here| by(here, 2 * here.processors()).cpu("first") / by(here, 1).cpu("first"),
        )
        .processors(THEIRS)
        .beside(lock_shares)
        .why("CPU time of the first touch by two threads per processor over that by one thread, of the same memory"),
        Claim::at_least(
            ("hardware-virtuallock", Hardware),
            [
                "using VirtualLock which is essentially soft faulting the pages from one thread which is much better than to do \
                 it concurrently from many threads",
                "no figure",
            ],
            (1.25, "times", "there is no figure: a quarter is the least that is much better"),
            |here| {
                let locked = locked(here);
                let touched = plain(here).same("mib", &locked).with("threads", here.processors());
                touched.wall("first") / locked.wall("lock")
            },
        )
        .processors(THEIRS)
        .why("the first touch by a thread per processor over mlock by one thread, of the same memory"),
        Claim::between(
            ("hardware-fall-distributes", Hardware),
            ["we can fully distribute the soft page fault work across threads!", "no figure"],
            (0.8, 1.25, "of what processes gain"),
            |here| waits::slowdown(here, "process") / waits::slowdown(here, "shared"),
        )
        .processors(CORES)
        .beside(|here| {
            let gain = 1.0 / all_over_one(here) / here.processors() as f64;
            gain.median().map_or(String::new(), |gain| format!("{} of the processors", short(gain)))
        })
        .why(
            "the gain of a thread per processor in one mapping over that of processes, which share nothing but the machine: no \
             machine lets threads gain more; a fifth less is the least that is not full",
        ),
        Claim::at_least(
            ("queue-serialised", Queue),
            [
                "page fault processing is single-threaded and if you happen to hit a page fault in two threads their execution \
                 will be serialized",
                "84 ms / 87 ms = 0.97",
            ],
            (0.8, "times one thread", "threads that hinder each other take longer than one after the other"),
            all_over_one,
        )
        .processors(2)
        .unless(|here| disturbed(&[by(here, here.processors())]))
        .why("the first touch of the same memory; the document's 500 MB are rounded to 100, so its 0.97 may be 0.8"),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    let mut unjudged = super::prezeroing::unjudged();
    unjudged.extend([
        Unjudged::new(
            Hardware,
            [
                "Did touch 2097152000 bytes in 377 ms",
                "377 ms / 512,000 pages = 0.74 us, written before 13 ms = 0.025 us",
            ],
            "the prices of a fault and of an access on Windows 10 in 2017, in a loop that was not optimised; that machine would \
             decide",
        )
        .here("us per page", |here| by(here, 1).wall("first") / by(here, 1).pages() / 1e3),
        Unjudged::new(
            Hardware,
            [
                "even the single thread soft fault performance has become 43% faster",
                "43 %, and nearly a factor of two in all",
            ],
            "two versions of Windows; `faultless lab compare` sets the records of two kernels side by side",
        ),
    ]);
    unjudged
}
