//! The figures of a site -> the cure that fits its pattern and the savings, or the reason why there is none.
//!
//! The rules stand in one table and are tried in order. The first that fits is named if it saves enough CPU
//! time to be worth a change (`MIN_GAIN`). Savings are intervals: the share of the site's faults that the
//! pattern explains, times their measured time. A cure named here is a hypothesis. `faultless advise`
//! measures those that need no change of the program.
//!
//! The rules do not know the purpose of the program. Without recorded blocks they know only the kinds of a
//! site's faults.

use serde::{Deserialize, Serialize};

use crate::avoid::Point;
use crate::kind::{FIRST_TOUCHES, Kind};
use crate::measurement::{Count, Interval, Percent};
use crate::observation::Host;
use crate::program::{Memory, Program};
use crate::sites::{BlockLives, SiteRow};
use crate::tuning::{
    ABOVE_THRESHOLD, ABSENT_SHARE, CURVE_OFF, JUDGED_RECORDS, MIN_GAIN, NOTED_SHARE, PATTERN_SHARE,
    POPULATE_SAVES, QUEUE_BLOCKS, QUEUE_BYTES, QUEUE_GROWTH, START_PART, THP_PER_BLOCK, THP_SAVES,
    WHOLE_SHARE,
};

/// Cures for the faults of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cure {
    /// Write before the first read.
    WriteFirst,
    /// MADV_FREE instead of MADV_DONTNEED.
    MadvFree,
    /// Larger thresholds of malloc.
    Thresholds,
    /// Keep freed blocks.
    Pool,
    /// Let fewer blocks be alive.
    BoundedQueue,
    /// Transparent huge pages.
    Thp,
    /// Populate at start.
    Prefault,
}

impl Cure {
    /// It keeps memory that was given back.
    pub fn keeps(self) -> bool {
        matches!(self, Self::MadvFree | Self::Thresholds | Self::Pool)
    }
}

/// A cure for a site, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// The site's label.
    pub site: String,
    /// Its `file:line` if known: closures share a label.
    #[serde(default)]
    pub place: Option<String>,
    /// The cure; `None`: leave it.
    pub cure: Option<Cure>,
    /// What was seen.
    pub why: String,
    /// How to do it.
    pub how: String,
    /// Faults saved.
    pub faults: Interval,
    /// Time saved, ns.
    pub time_ns: Interval,
}

/// A site as the rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Pattern<'a> {
    /// Its row.
    pub row: &'a SiteRow,
    /// All faults.
    pub all: &'a SiteRow,
    /// The blocks that it touches, if they were recorded.
    pub lives: Option<&'a BlockLives>,
    /// Blocks were recorded. A fault outside them touched memory that is not malloc's, or a block too small
    /// to record.
    pub blocks: bool,
    /// Blocks were asked for.
    pub asked_for_blocks: bool,
    /// The program.
    pub program: &'a Program,
    /// The machine.
    pub host: &'a Host,
    /// The run: begin and length, ns.
    pub run_ns: (u64, u64),
    /// CPU time of the run, ns; 0 if not known.
    pub cpu_ns: u64,
    /// Share of all faults that keeping freed pages would avoid.
    pub knee: Option<Point>,
    /// Upper bound of the share of all faults that keeping any amount avoids, 0 to 1; `None` if memory was
    /// not read.
    pub most_avoidable: Option<f64>,
}

/// Shares of a site's faults and of its time that a cure saves: at least, likely, at most.
type Saves = ([f64; 3], [f64; 3]);

/// A rule: its condition, the savings, and the text.
struct Rule {
    cure: Cure,
    /// The savings if the rule fits.
    saves: fn(&Pattern<'_>) -> Option<Saves>,
    why: fn(&Pattern<'_>) -> String,
    how: fn(&Pattern<'_>) -> String,
}

const RULES: [Rule; 7] = [
    Rule {
        // A page takes two faults, and the first is useless.
        cure: Cure::WriteFirst,
        saves: write_first,
        why: |p| {
            format!(
                "{} of its faults read memory that nobody has written, which maps the zero page; the write that follows faults again",
                Percent(p.share(&[Kind::ZeroPageRead]))
            )
        },
        how: |_| "write before the first read, or do not read what is known to be zero".into(),
    },
    Rule {
        // The mapping stayed and its pages went: MADV_DONTNEED, after which the kernel zeroes every page
        // anew.
        cure: Cure::MadvFree,
        saves: madv_free,
        why: |p| {
            format!(
                "at least {} of its faults bring back pages that were given back while their mapping stayed",
                Percent(p.row.again)
            )
        },
        how: give_back_less,
    },
    Rule {
        // malloc maps and unmaps each such block. One setting keeps them in the heap.
        cure: Cure::Thresholds,
        saves: thresholds,
        why: |p| match p.row.refault {
            Some(refault) => format!(
                "{} of its faults took memory that the process had had in earlier blocks, and malloc maps blocks of this size one by one, or trims them",
                Percent(refault)
            ),
            None => {
                format!("{}; its blocks lie on the heap, and malloc trims its top", would_not_have_been(p))
            }
        },
        how: |p| format!("{}, or mallopt", tunables(p.lives.map_or(u64::MAX, |lives| lives.largest_bytes))),
    },
    Rule {
        cure: Cure::Pool,
        saves: pool,
        why: |p| match p.row.refault {
            None => would_not_have_been(p),
            Some(refault) => format!(
                "{} of its faults took memory that the process had had in earlier blocks and given back",
                Percent(refault)
            ),
        },
        how: keep,
    },
    Rule {
        // Production outruns consumption, so every block is new memory.
        cure: Cure::BoundedQueue,
        saves: bounded_queue,
        why: |p| {
            p.lives.map_or(String::new(), |l| {
                format!(
                    "blocks pile up: {} alive early, {} late, and they are freed in the end",
                    l.live_early, l.live_late
                )
            })
        },
        how: |_| "bound the queue that they wait in, so that blocks are used again".into(),
    },
    Rule {
        cure: Cure::Thp,
        saves: thp,
        why: |p| match p.is_java() {
            true => "memory of the Java heap, touched one base page at a time".to_owned(),
            false => "large blocks touched whole, one base page at a time".to_owned(),
        },
        how: |p| {
            if p.is_java() {
                return "-XX:+UseTransparentHugePages takes the Java heap in huge pages".into();
            }
            let of_glibc = "; of malloc since glibc 2.35: GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
            let of_glibc = if p.takes_tunables() { of_glibc } else { "" };
            format!("madvise(MADV_HUGEPAGE) on them, aligned to huge pages{of_glibc}")
        },
    },
    Rule {
        // It saves only the traps; the other time moves to the start.
        cure: Cure::Prefault,
        saves: prefault,
        why: |_| "blocks of the start that stay and are touched once".to_owned(),
        how: |_| {
            "populate them where they are made (MADV_POPULATE_WRITE), if later latency matters: it moves the time, and saves the traps only".into()
        },
    },
];

/// glibc's M_MMAP_THRESHOLD at start, in bytes (mallopt(3)); every freed block raises it, up to 32 MiB.
const MMAP_THRESHOLD_BYTES: u64 = 128 << 10;
/// Length from which on `faultless run` serves a block, in bytes (its `--threshold`).
const RUN_FROM_BYTES: u64 = 64 << 10;
/// The largest threshold that glibc takes from a user (`HEAP_MAX_SIZE / 2`; mallopt(3)).
const MMAP_THRESHOLD_MOST_BYTES: u64 = 32 << 20;
/// A block's header, and the rounding of its length, take less.
const HEADER_BYTES: u64 = 64;

/// The pattern fits, but the site takes too little time.
const NOT_WORTH: &str = "a cure would save too little";

/// The settings of glibc that keep blocks of up to this length in the heap, and the heap's top.
fn tunables(largest_bytes: u64) -> String {
    format!("GLIBC_TUNABLES={}", malloc_settings(largest_bytes))
}

/// The same, without the name of the variable.
pub(crate) fn malloc_settings(largest_bytes: u64) -> String {
    // glibc allows no mmap threshold above 32 MiB, and a block with its header must lie below it.
    let map = match largest_bytes.saturating_add(HEADER_BYTES) {
        len_bytes if len_bytes > MMAP_THRESHOLD_MOST_BYTES => "mmap_max=0",
        _ => "mmap_threshold=33554432",
    };
    format!("glibc.malloc.{map}:glibc.malloc.trim_threshold=4294967296")
}

fn would_not_have_been(p: &Pattern<'_>) -> String {
    let [low, high] =
        p.knee.map_or([0.0; 2], |knee| [knee.low, knee.high]).map(|end| Percent(end).to_string());
    let range = if low == high { low } else { format!("{low} to {high}") };
    let own = Percent(p.of_all());
    format!(
        "{range} of all faults would not have been, had freed pages been kept; this site makes {own} of them"
    )
}

/// How to give less back inside a mapping that stays.
fn give_back_less(p: &Pattern<'_>) -> String {
    match p.program.memory {
        Memory::Go => "GODEBUG=madvdontneed=0: Go then gives memory back with MADV_FREE".to_owned(),
        Memory::Library(_) | Memory::Own => {
            "a longer decay in the allocator's settings, or MADV_FREE instead of MADV_DONTNEED".to_owned()
        }
        Memory::Malloc if !p.blocks && !p.asked_for_blocks => {
            "give memory back later, or with MADV_FREE instead of MADV_DONTNEED; record --alloc tells whether malloc does it, and its settings".to_owned()
        }
        // It trims the arenas of threads so.
        Memory::Malloc => format!(
            "where malloc did it: {}; else give it back later, or with MADV_FREE instead of MADV_DONTNEED",
            tunables(p.lives.map_or(0, |lives| lives.largest_bytes))
        ),
        _ => "give memory back later, or with MADV_FREE instead of MADV_DONTNEED".to_owned(),
    }
}

/// How to keep what is freed.
fn keep(p: &Pattern<'_>) -> String {
    let reached = p.lives.is_none_or(|lives| lives.median_bytes >= RUN_FROM_BYTES);
    match (p.row.refault, p.program.memory.hidden()) {
        (Some(_), _) if reached => {
            "keep freed blocks: faultless run -- CMD, or a pool in the program; faultless advise measures it".into()
        }
        (Some(_), _) => "keep freed blocks: a pool in the program; they are too small for faultless run".into(),
        (None, Some(_)) if p.program.memory == Memory::Go => give_back_less(p),
        (None, Some(hidden)) => {
            format!("keep freed memory in the program itself: faultless run does not reach {hidden}")
        }
        (None, None) if p.blocks || p.asked_for_blocks => {
            "keep it where it is unmapped or given back: it is no block that was recorded, so faultless run does not reach it".into()
        }
        (None, None) => {
            "keep freed memory: faultless run -- CMD where malloc gives it, else the program itself; record --alloc tells which, faultless advise measures it".into()
        }
    }
}

/// The cure for a site.
pub fn remedy(pattern: &Pattern<'_>) -> Remedy {
    let fits = RULES.iter().find_map(|rule| Some((rule, pattern.limited(rule.cure, (rule.saves)(pattern)?))));
    let row = pattern.row;
    let nothing = |why: String| Remedy {
        site: row.label.clone(),
        place: row.place.clone(),
        cure: None,
        why,
        how: String::new(),
        faults: Interval::default(),
        time_ns: Interval::default(),
    };
    let Some((rule, (faults, time))) = fits else { return nothing(no_pattern(pattern)) };
    // No cure saves more than the whole.
    let of = |whole: &Interval, [low, value, high]: [f64; 3]| Interval {
        value: whole.value * value.min(1.0),
        low: whole.low * low.min(1.0),
        high: whole.high * high.min(1.0),
    };
    let (faults, time_ns) = (of(&row.faults, faults), of(&row.time_ns, time));
    if time_ns.high < MIN_GAIN * pattern.cpu_ns as f64 {
        return nothing(NOT_WORTH.to_owned());
    }
    Remedy {
        cure: Some(rule.cure),
        why: (rule.why)(pattern),
        how: (rule.how)(pattern),
        faults,
        time_ns,
        ..nothing(String::new())
    }
}

/// Nothing that `advise` tries acts on such faults.
const FILES: &str = "pages of files or of shared memory, mapped at their first use";
const COPIES: &str = "copies after a fork: parent or child writes what both share";
const COPIES_TO_SPAWN: &str =
    "copies after a fork whose child runs another program; vfork or posix_spawn avoids them";

/// Whether `faultless advise` can find a cure for any of these sites, which have none.
pub(crate) fn may_be_cured(remedies: &[Remedy]) -> bool {
    remedies.iter().any(|remedy| ![FILES, COPIES, COPIES_TO_SPAWN].contains(&remedy.why.as_str()))
}

fn no_pattern(p: &Pattern<'_>) -> String {
    let files = p.share(&[Kind::FileRead, Kind::FilePrivateWrite, Kind::Shared, Kind::Major]);
    if files >= PATTERN_SHARE {
        return FILES.to_owned();
    }
    if p.share(&[Kind::CowAfterFork]) >= PATTERN_SHARE {
        return if p.row.spawned >= PATTERN_SHARE { COPIES_TO_SPAWN } else { COPIES }.to_owned();
    }
    match (p.row.refault, p.program.memory.hidden()) {
        (Some(_), _) => "mostly first touches, which no kept memory serves; faultless advise tries huge pages".into(),
        (None, Some(hidden)) => format!("no cure fits; record --alloc and settings of malloc do not reach {hidden}"),
        (None, None) if p.blocks => "memory outside the recorded blocks; faultless advise tries huge pages".into(),
        (None, None) if p.asked_for_blocks => {
            "memory that malloc did not give, or gave in blocks too small to record; faultless advise tries every cure".into()
        }
        (None, None) => "record --alloc shows which blocks are touched; faultless advise tries every cure".into(),
    }
}

/// The reason to show if no site has a cure, of so many recorded faults of all.
pub(crate) fn why_none(remedies: &[Remedy], records: u64, faults: u64) -> Option<String> {
    if remedies.iter().any(|remedy| remedy.cure.is_some()) {
        return None;
    }
    if records < JUDGED_RECORDS.min(faults) {
        return Some(format!(
            "{} of {} faults were recorded, too few to judge one",
            Count(records),
            Count(faults)
        ));
    }
    let Some(first) = remedies.first() else {
        return Some(format!("each makes less than {} of the time in faults", Percent(NOTED_SHARE)));
    };
    let is_small = remedies.iter().all(|remedy| remedy.why == NOT_WORTH);
    Some(match (is_small, remedies.len()) {
        (true, _) => format!("a cure of each would save less than {} of the CPU time", Percent(MIN_GAIN)),
        (false, 1) => first.why.clone(),
        (false, _) => format!("{} (the largest site)", first.why),
    })
}

impl Pattern<'_> {
    /// A cure that keeps memory saves no more than the avoidable curve allows.
    fn limited(&self, cure: Cure, saves: Saves) -> Saves {
        match self.most_avoidable.filter(|_| cure.keeps() && self.of_all() > 0.0) {
            Some(most) => {
                let most = (most + CURVE_OFF) / self.of_all();
                let limit = |shares: [f64; 3]| shares.map(|share| share.min(most));
                (limit(saves.0), limit(saves.1))
            }
            None => saves,
        }
    }

    /// Share of its faults that are of these kinds.
    fn share(&self, kinds: &[Kind]) -> f64 {
        share(self.row, kinds)
    }

    fn refault(&self) -> f64 {
        self.row.refault.unwrap_or(0.0)
    }

    fn of_all(&self) -> f64 {
        if self.all.faults.value > 0.0 { self.row.faults.value / self.all.faults.value } else { 0.0 }
    }

    /// Share of its blocks' bytes that its faults made resident.
    fn touched(&self) -> f64 {
        self.lives.filter(|l| l.bytes > 0).map_or(0.0, |l| self.row.resident_bytes / l.bytes as f64)
    }

    /// The settings of glibc act: its blocks come from glibc's malloc. Blocks that were recorded come from a malloc that
    /// the interposer saw, whatever heap the program has besides.
    fn takes_tunables(&self) -> bool {
        match self.program.memory {
            Memory::Malloc => true,
            Memory::Library(_) => false,
            _ => self.row.refault.is_some(),
        }
    }

    /// Its memory is of no block that was recorded, so in a Java machine most likely of its heap.
    fn is_java(&self) -> bool {
        self.program.memory == Memory::Java && self.row.refault.is_none()
    }

    fn is_refaulting(&self) -> bool {
        self.refault() >= PATTERN_SHARE
    }
}

fn share(row: &SiteRow, kinds: &[Kind]) -> f64 {
    let faults: f64 =
        row.kinds.iter().filter(|(kind, ..)| kinds.contains(kind)).map(|(_, faults, _)| faults).sum();
    if row.faults.value > 0.0 { faults / row.faults.value } else { 0.0 }
}

fn time_share(row: &SiteRow, kind: Kind) -> f64 {
    let ns: f64 = row.kinds.iter().filter(|(of, ..)| *of == kind).map(|(.., ns)| ns).sum();
    if row.time_ns.value > 0.0 { ns / row.time_ns.value } else { 0.0 }
}

/// A share with its 95 % interval, from this number of records.
fn about(share: f64, records: u64) -> [f64; 3] {
    let half = 1.96 * (share * (1.0 - share) / records.max(1) as f64).sqrt() + 1.0 / records.max(1) as f64;
    [(share - half).max(0.0), share, (share + half).min(1.0)]
}

fn write_first(p: &Pattern<'_>) -> Option<Saves> {
    let reads = p.share(&[Kind::ZeroPageRead]);
    let read = share(p.all, &[Kind::ZeroPageRead]);
    let followed = (share(p.all, &[Kind::WriteAfterZeroRead]) / read.max(f64::MIN_POSITIVE)).min(1.0);
    let fits = reads >= PATTERN_SHARE / 2.0 && followed >= PATTERN_SHARE;
    let saves = |share: f64| [share * followed / 2.0, share * followed, share];
    fits.then(|| (saves(reads), saves(time_share(p.row, Kind::ZeroPageRead))))
}

fn madv_free(p: &Pattern<'_>) -> Option<Saves> {
    let own = p.share(&[Kind::MmapFirstWrite]) >= WHOLE_SHARE && p.refault() < ABSENT_SHARE;
    // The kernel takes the pages if memory is short, and the call itself stays.
    let saves = [0.0, p.row.again, 1.0];
    (own && p.row.again >= PATTERN_SHARE).then_some((saves, saves))
}

fn thresholds(p: &Pattern<'_>) -> Option<Saves> {
    if !p.takes_tunables() {
        return None;
    }
    let on_heap = p.share(&[Kind::HeapFirstWrite]);
    if p.row.refault.is_none() {
        return curve(p).filter(|_| on_heap >= WHOLE_SHARE);
    }
    let near = MMAP_THRESHOLD_BYTES..=MMAP_THRESHOLD_BYTES * ABOVE_THRESHOLD;
    let mapped = p.lives.is_some_and(|l| near.contains(&l.median_bytes));
    let saves = about(p.refault(), p.row.records);
    (p.is_refaulting() && (mapped || on_heap >= PATTERN_SHARE)).then_some((saves, saves))
}

fn pool(p: &Pattern<'_>) -> Option<Saves> {
    if p.is_refaulting() {
        let saves = about(p.refault(), p.row.records);
        return Some((saves, saves));
    }
    curve(p)
}

/// Of a site whose blocks are not known, by the avoidable curve.
fn curve(p: &Pattern<'_>) -> Option<Saves> {
    let knee = p.knee.filter(|knee| p.row.refault.is_none() && knee.low >= PATTERN_SHARE)?;
    let of_all = p.of_all();
    // The curve does not say where the avoidable faults are: all elsewhere, or all here.
    let low = (1.0 - (1.0 - knee.low) / of_all).max(0.0);
    let high = (knee.high / of_all).min(1.0);
    let saves = [low, f64::midpoint(knee.low, knee.high).clamp(low, high), high];
    // Without a lower bound the curve may describe other sites.
    (low > 0.0 && p.share(&FIRST_TOUCHES) >= WHOLE_SHARE && p.row.again < PATTERN_SHARE)
        .then_some((saves, saves))
}

fn bounded_queue(p: &Pattern<'_>) -> Option<Saves> {
    let lives = p.lives?;
    let grows = lives.live_late as f64 >= QUEUE_GROWTH * lives.live_early.max(1) as f64;
    let large = lives.live_late >= QUEUE_BLOCKS && lives.peak_bytes >= QUEUE_BYTES;
    let passes_through = 2 * lives.never_freed < lives.blocks;
    let most = 1.0 - lives.live_early.max(1) as f64 / lives.live_late.max(1) as f64;
    let saves = [0.0, most / 2.0, most];
    (grows && large && passes_through && p.refault() < PATTERN_SHARE).then_some((saves, saves))
}

fn thp(p: &Pattern<'_>) -> Option<Saves> {
    let thp_bytes = p.host.thp_bytes;
    // Where all memory gets huge pages, this memory can't have them.
    let possible = thp_bytes > p.host.page_bytes && p.host.thp == "madvise";
    let first = p.share(&FIRST_TOUCHES) >= WHOLE_SHARE;
    let large = p.lives.is_some_and(|l| thp_bytes > 0 && l.median_bytes >= THP_PER_BLOCK * thp_bytes);
    let whole = p.touched() >= WHOLE_SHARE;
    let faults = 1.0 - p.host.page_bytes as f64 / thp_bytes.max(1) as f64;
    if p.is_java() {
        // How much of a huge page the heap's objects fill is not known.
        let saves = ([0.0, faults, faults], [0.0, THP_SAVES[1], THP_SAVES[2]]);
        return (p.host.thp != "never" && thp_bytes > p.host.page_bytes && first).then_some(saves);
    }
    (possible && large && whole && first).then_some(([WHOLE_SHARE * faults, faults, faults], THP_SAVES))
}

fn prefault(p: &Pattern<'_>) -> Option<Saves> {
    let lives = p.lives?;
    let (begin_ns, len_ns) = p.run_ns;
    let at_start = lives.last_ns.saturating_sub(begin_ns) as f64 <= START_PART * len_ns as f64;
    let stays = 2 * lives.never_freed >= lives.blocks
        || lives.median_life_ns.is_some_and(|ns| ns as f64 >= PATTERN_SHARE * len_ns as f64);
    let once =
        p.refault() < ABSENT_SHARE && p.touched() >= WHOLE_SHARE && p.share(&FIRST_TOUCHES) >= WHOLE_SHARE;
    (at_start && stays && once).then_some(([WHOLE_SHARE, 1.0, 1.0], POPULATE_SAVES))
}

#[cfg(test)]
mod tests;
