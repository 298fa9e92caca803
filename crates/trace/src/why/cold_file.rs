//! Faults wait for a file that is not in memory: read ahead, in order, or at random.

use std::collections::HashMap;
use std::rc::Rc;

use super::file_pages::code;
use super::given::MADV_RANDOM;
use super::{Claim, Faults, Proposed, Rule, Scene};
use crate::kind::Kind;
use crate::profile::Weighted;

/// Least share of the faults whose page follows the one before, from which on a file is read in order, page by page.
const IN_ORDER: f64 = 0.6;
/// Fewest steps between major faults that tell how a file is read.
const STEPS: f64 = 10.0;
/// Least share whose page lies close behind the one before: read-ahead works.
const AHEAD: f64 = 0.6;
/// So close: the largest window of read-ahead that is common, bytes (Linux: read_ahead_kb, 128 to 4096).
const AHEAD_BYTES: u64 = 4 << 20;

pub(super) const RULE: Rule = Rule {
    id: "cold_file",
    title: "A mapped file that is not in memory",
    about: "A fault on a page of a file that is not in the page cache reads it from the disk, with the pages behind it (read-ahead), \
            and counts as a major one. A fault on a page that is being read already waits as well, and counts as a minor one. With \
            MADV_RANDOM, or where access is random, each page is a read of its own, one at a time.",
    by_hand: "`perf trace -F all --no-syscalls PROGRAM`; /proc/PID/stat, delayacct_blkio_ticks.",
    cures: &[
        [
            "read(2), or MADV_POPULATE_READ, in large pieces ahead of use",
            "the buffer",
            "madvise(2), Linux 5.14",
        ],
        ["no MADV_RANDOM for access in order; MADV_SEQUENTIAL or MADV_WILLNEED", "nothing", "madvise(2)"],
        [
            "random access: many reads at a time (io_uring, threads), MADV_RANDOM against useless read-ahead",
            "-",
            "io_uring(7)",
        ],
    ],
    find: |scene| {
        let files = Rc::new(files(scene));
        let of = Rc::clone(&files);
        let in_flight = Claim {
            what: "faults wait for read-ahead of a file that is on its way: they count as minor ones"
                .to_owned(),
            faults: Faults::Of(Box::new(move |fault| {
                of.contains_key(&fault.mapping)
                    && matches!(fault.kind, Kind::FileRead | Kind::Shared)
                    && fault.wait_ns > fault.cost_ns
            })),
            is_blocked: true,
            cures: vec![Proposed::new(
                "read ahead earlier, in larger pieces: MADV_WILLNEED, MADV_POPULATE_READ, or read(2) in another thread",
                [0.0, 0.5],
            )],
            ..Claim::default()
        };
        let major = Access::ALL.map(|access| {
            let of = Rc::clone(&files);
            let (what, how, saves) = access.words();
            Claim {
                what: what.to_owned(),
                faults: Faults::Of(Box::new(move |fault| {
                    fault.kind == Kind::Major && of.get(&fault.mapping) == Some(&access)
                })),
                is_blocked: true,
                caller: scene.advised(MADV_RANDOM).filter(|_| access == Access::Pages),
                cures: vec![Proposed::new(how, saves)],
                ..Claim::default()
            }
        });
        std::iter::once(in_flight).chain(major).collect()
    },
};

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// In order, each page with a read of its own.
    Pages,
    /// In order, with read-ahead.
    Ahead,
    Random,
}

impl Access {
    const ALL: [Self; 3] = [Self::Pages, Self::Ahead, Self::Random];

    /// What happens, what to do, and what that saves.
    fn words(self) -> (&'static str, &'static str, [f64; 2]) {
        match self {
            Self::Pages => (
                "a mapped file is read from the disk page by page, in order: read-ahead is off",
                "no MADV_RANDOM there; MADV_SEQUENTIAL, MADV_POPULATE_READ in large pieces, or read(2)",
                [0.3, 0.95],
            ),
            Self::Ahead => (
                "a mapped file is read from the disk at its first use, with read-ahead",
                "read(2) or MADV_POPULATE_READ ahead of use, or keep the file in the page cache",
                [0.0, 0.6],
            ),
            Self::Random => (
                "a mapped file is read from the disk at random, a page at a time",
                "more reads at a time (io_uring, threads, MADV_WILLNEED for the next ones), or a warm page cache",
                [0.0, 0.9],
            ),
        }
    }

    /// Of the steps between major faults: how many, those to the next page, and those close ahead. Few tell nothing: most
    /// of the file was read ahead.
    fn of([all, next, near]: [f64; 3]) -> Self {
        match all {
            ..STEPS => Self::Ahead,
            _ if next >= IN_ORDER * all => Self::Pages,
            _ if near >= AHEAD * all => Self::Ahead,
            _ => Self::Random,
        }
    }
}

/// How each mapped file of data is read, by its mapping.
fn files(scene: &Scene<'_>) -> HashMap<u32, Access> {
    let page_bytes = scene.recording.observation.host.page_bytes;
    let is_code = code(scene);
    let is_data = |fault: &&Weighted| scene.is_in_file(fault) && !is_code[fault.mapping as usize];
    let mut last: HashMap<(u32, u32), u64> = HashMap::new();
    let mut steps: HashMap<u32, [f64; 3]> = HashMap::new();
    for fault in scene.profile.faults.iter().filter(is_data) {
        let steps = steps.entry(fault.mapping).or_default();
        if fault.kind != Kind::Major {
            continue;
        }
        if let Some(before) = last.insert((fault.tid, fault.mapping), fault.addr) {
            let step = fault.addr.wrapping_sub(before);
            let counts =
                [true, step <= 2 * page_bytes, step <= AHEAD_BYTES].map(|is| f64::from(u8::from(is)));
            steps.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    steps.into_iter().map(|(mapping, steps)| (mapping, Access::of(steps))).collect()
}
