//! Where faults of several threads wait for each other.
//!
//! Each arrangement of the threads' memory is compared with itself with one thread, and then with the next, which shares
//! one lock less. The time that is lost between two arrangements is lost at that lock.

use crate::claim::{Cells, Claim, Here, Series, short};
use crate::document::Document::Hardware;

/// From here on a step counts as waiting.
const WAITS: f64 = 1.25;

/// Arrangements, from the one that shares most, and what each shares more than the next.
const STEPS: [(&str, &str); 4] = [
    ("interleaved", "the page-table lock"),
    ("shared", "the VMA lock"),
    ("own", "the address space: the mmap lock before Linux 6.4, its counters since"),
    ("process", "the machine: the zone lock, memory bandwidth or the hypervisor"),
];

/// First touches of memory in this arrangement.
fn arranged<'a>(here: &Here<'a>, memory: &str, threads: usize) -> Cells<'a> {
    let cells = here.cells("touch").with("access", "write").with("memory", memory).with("lines", 1);
    cells.with("lock", "no").with("beside", "none").with("threads", threads)
}

/// A thread that touches beside one that maps and unmaps: a thread, or a process apart.
fn beside<'a>(here: &Here<'a>, what: &str) -> Cells<'a> {
    let cells = here.cells("touch").with("memory", "own").with("threads", 1).with("others", 1);
    cells.with("beside", what).most("mib")
}

/// Wall time of a page of one thread's memory.
fn page_ns(cell: &Cells) -> Series {
    cell.wall("first") * cell.number("threads") / cell.pages()
}

/// What a page costs each of a thread per processor, over what it costs one thread.
pub(super) fn slowdown(here: &Here, memory: &str) -> Series {
    let (all, one) = (arranged(here, memory, here.processors()), arranged(here, memory, 1));
    let pairs = all.each().flat_map(|all| one.each().map(move |one| page_ns(&all) / page_ns(&one)));
    // Of two pairs with the same rounds, that with more memory comes later.
    let pairs: Vec<Series> = pairs.collect();
    Series::latest(pairs).or(page_ns(&all) / page_ns(&one))
}

/// All arrangements, and the locks at which time is lost for certain.
fn places(here: &Here) -> String {
    let of = |(memory, _): &(&str, &str)| slowdown(here, memory);
    let all = STEPS.iter().map(|step| format!("{} {}", step.0, of(step).median().map_or("-".into(), short)));
    let waits = |at: &usize| {
        let next = STEPS.get(at + 1).map_or(Series::Number(1.0), of);
        (of(&STEPS[*at]) / next).interval().is_ok_and(|step| step.low > WAITS)
    };
    let locks: Vec<&str> = (0..STEPS.len()).filter(waits).map(|at| STEPS[at].1).collect();
    let locks = if locks.is_empty() { "no lock for certain".to_owned() } else { locks.join(" and at ") };
    let churned = beside(here, "maps").wall("first") / beside(here, "maps-apart").wall("first");
    let churned = churned.median().map_or(String::new(), |times| {
        format!("; beside a thread that maps and unmaps, {} times what beside a process", short(times))
    });
    format!(
        "{} threads over one: {}; waits at {locks}{churned}",
        here.processors(),
        all.collect::<Vec<_>>().join(", ")
    )
}

/// Threads with memory of their own wait where processes do not.
pub(super) fn claim() -> Claim {
    Claim::at_least(
        ("hardware-process-lock", Hardware),
        ["the soft fault implementation still uses a process wide lock", "no figure"],
        (WAITS, "times what processes take", "there is no figure, and a lock can cost any number of times"),
        |here| slowdown(here, "own") / slowdown(here, "process"),
    )
    .processors(super::THEIRS)
    .beside(places)
    .why("a thread per processor, each with a mapping of its own, over as many processes, each against one of its kind")
}
