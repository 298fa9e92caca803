//! What "Bringing The Hardware And Windows To Its Limits" says of copying into new and into warm memory.

use crate::claim::{Cells, Claim, Here, Series, Unjudged};
use crate::document::Document::Hardware;

/// All numbers of threads that copy, read or write the most memory.
fn all<'a>(here: &Here<'a>, kind: &str) -> Cells<'a> {
    here.cells("copy").with("kind", kind).most("mib")
}

/// So many threads that copy it.
fn copies<'a>(here: &Here<'a>, threads: usize) -> Cells<'a> {
    all(here, "copy").with("threads", threads)
}

/// The best of all numbers of threads in a phase, GB/s.
fn best(here: &Here, kind: &str, phase: &str) -> Series {
    all(here, kind).highest(|cell| cell.bytes() / cell.wall(phase))
}

/// The gain of a thread per processor over one thread.
fn gain(here: &Here, phase: &str) -> Series {
    copies(here, 1).wall(phase) / copies(here, here.processors()).wall(phase)
}

/// The best copy into new memory over the best copy into warm memory.
fn peak(here: &Here) -> Series {
    best(here, "copy", "cold") / best(here, "copy", "warm")
}

/// The larger gain of the last two steps of threads, up to a thread per processor.
fn last_gains(here: &Here) -> Series {
    let counts = all(here, "copy").whose("threads", |threads| threads <= here.processors() as f64);
    let walls: Vec<Series> = counts.each().map(|cell| cell.wall("warm")).collect();
    match walls.as_slice() {
        [.., a, b, c] => (a.clone() / b.clone()).max(b.clone() / c.clone()),
        _ => Series::Lacking(
            "needs three numbers of threads up to the processors: decided by 4 processors".into(),
        ),
    }
}

/// The machine of the update has 4 cores; the three of the first part have 8, 8 and 40 processors.
const CORES: usize = 4;
const THEIRS: usize = 8;
/// Halfway between the document's two updates, 6.5 / 9.3 and 9.x / 9.3 GB/s.
const CLOSE: f64 = 0.85;
/// More than this is a gain.
const GAIN: f64 = 1.05;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        Claim::between(
            ("hardware-copy-threads", Hardware),
            [
                "having more cores is better up to a certain point where the memory bandwidth is reached and more cores do not \
                 help anymore",
                "a point, no figure",
            ],
            (0.5, GAIN, "times as fast by the last two steps"),
            last_gains,
        )
        .processors(CORES)
        .stand_in("the point lies beyond these processors, if there is one")
        .unless(|here| {
            let most = all(here, "copy").highest(|cell| copies(here, 1).wall("warm") / cell.wall("warm"));
            let is_flat = most.median().is_some_and(|gain| gain <= GAIN);
            is_flat.then(|| "one thread alone uses all of the memory's bandwidth".into())
        })
        .why("warm copies by a half and by all of the processors, each over half as many; 5 % is the least that counts as a gain"),
        Claim::between(
            ("hardware-copy-gain", Hardware),
            ["The speed gains added by parallel memcpy are far less than one would expect", "no figure"],
            (0.0, 0.9, "times the gain of warm copies"),
            |here| gain(here, "cold") / gain(here, "warm"),
        )
        .processors(THEIRS)
        .why("gain of a thread per processor over one: copies into new memory over copies into warm memory"),
        Claim::between(
            ("hardware-creators-peak", Hardware),
            ["we did never get close to the actual memory bandwidth", "6.5 / 9.3 GB/s = 0.70"],
            (0.0, CLOSE, "times"),
            peak,
        )
        .processors(CORES)
        .why("best of all numbers of threads: copies into new memory over copies into warm memory"),
        Claim::between(
            ("hardware-fall-peak", Hardware),
            [
                "we can now max out our memory bandwidth of 9,xGB/s with only 3 cores",
                "9.x / 9.3 GB/s = 1.0 with 3 of 4 cores",
            ],
            (CLOSE, 2.0 - CLOSE, "times"),
            peak,
        )
        .processors(CORES)
        .why("the same figure: best of all numbers of threads, not of 3 alone"),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    vec![
        Unjudged::new(
            Hardware,
            [
                "I7 4770K 25.6 9,3; E5 2623 v3 59 10,3; Xeon Gold 6148 ??? 40,8; up to 10 memcopy threads did still add \
                 performance",
                "9.3, 10.3 and 40.8 GB/s, the last with 10 threads",
            ],
            "other processors and other memory, which would decide",
        )
        .here("GB/s, the best of all numbers of threads", |here| best(here, "copy", "warm")),
        Unjudged::new(
            Hardware,
            [
                "I get ca. 9.3 GB/s which is off by a large margin of my 25.6 GB/s",
                "0.36 of the bandwidth of the modules, and 18 / 25.6 = 0.70 if a copy counts as a read and a write",
            ],
            "a guest is not told the bandwidth of its modules; beside the best read or write, which count a byte once as \
             a copy does here, a copy may even exceed a half",
        )
        .here("of the best read or write", |here| {
            let limit = best(here, "read", "timed").max(best(here, "write", "timed"));
            best(here, "copy", "warm") / limit
        }),
        Unjudged::new(
            Hardware,
            ["the memory copy performance did drop by 50% from 9,3 GB/s down to 4,7 GB/s", "9.3 to 4.7 GB/s"],
            "takes a memory module out of the machine",
        ),
    ]
}
