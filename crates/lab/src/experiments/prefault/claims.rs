//! What the report on hakmem says of an allocator that maps its slabs in the timed loop.

use crate::claim::{Cells, Claim, Here, Series, Unjudged, short};
use crate::document::Document::Prefault;

/// The report's loop with slabs that are made resident in this way: of as many operations, or of the most below.
fn run<'a>(here: &Here<'a>, way: &str) -> Cells<'a> {
    let cells = here.cells("prefault").with("way", way).with("work", 0);
    cells.whose("operations", |count| count <= 1e6).most("operations")
}

/// A million operations with work in each: shorter loops do not tell the kernel's time from the program's.
fn million<'a>(here: &Here<'a>, way: &str) -> Cells<'a> {
    here.cells("prefault").with("way", way).with("operations", 1_000_000).whose("work", |work| work > 0.0)
}

/// Those with the amount of work beside which the kernel's share, without prefault, is nearest to the report's.
fn worked<'a>(here: &Here<'a>, way: &str) -> Cells<'a> {
    let distance = |cell: &Cells| (kernel_percent(cell).median().unwrap_or(f64::MAX) - 65.0).abs();
    let nearest = million(here, "none").each().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    match nearest {
        Some(none) => million(here, way).same("work", &none),
        None => million(here, way).with("work", 64),
    }
}

/// A mapping that is populated and then treated in this way.
fn trap<'a>(here: &Here<'a>, trap: &str) -> Cells<'a> {
    here.cells("prefault").with("trap", trap)
}

/// The kernel's share of the loop.
fn kernel_percent(cell: &Cells) -> Series {
    let [user, system] = ["user_ns", "system_ns"].map(|part| cell.of("timed", part));
    100.0 * system.clone() / (user + system)
}

/// Faults of the loop, for a million operations.
fn faults(cell: &Cells) -> Series {
    1e6 * cell.faults("timed") / cell.number("operations")
}

/// CPU time of an operation, ns: the loop waits for nothing.
fn ns(cell: &Cells) -> Series {
    cell.cpu("timed") / cell.number("operations")
}

/// Resident bytes of a mapping, of all of it.
fn resident_percent(cell: &Cells, phase: &str) -> Series {
    100.0 * cell.of(phase, "resident_bytes") / cell.of(phase, "mapped_bytes")
}

fn median(series: &Series) -> String {
    series.median().map_or_else(|| "-".to_owned(), short)
}

/// There is no verdict where the kernel's share is not the report's: 60 to 70 %, and 5 % that ticks leave open.
fn other_share(here: &Here) -> Option<String> {
    let share = kernel_percent(&worked(here, "none")).median()?;
    (!(55.0..=75.0).contains(&share)).then(|| {
        format!(
            "the kernel takes {} % of the loop, 60 to 70 % in the report: other values of work=",
            short(share)
        )
    })
}

/// The amount of work, and the kernel's share beside it.
fn share(here: &Here) -> String {
    let none = worked(here, "none");
    let work = none.word("work").unwrap_or("-").to_owned();
    format!("beside work={work} the kernel takes {} % of the loop", median(&kernel_percent(&none)))
}

/// There is no verdict on figures of pages of 4 KiB where a page has another size.
fn other_pages(here: &Here) -> Option<String> {
    let pages = run(here, "memset").of("timed", "slab_pages").median()?;
    (pages != 256.0).then(|| format!("1 MiB has {pages:.0} pages here"))
}

const HUGETLB: &str = "not in this record: as root `echo 64 > /proc/sys/vm/nr_hugepages`, then \
                       `faultless lab prefault way=touch,hugetlb` measures it";
const HAKMEM: &str = "hakmem's own work is arithmetic here, and the report's machine is not known";

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = counts();
    claims.extend(times());
    claims
}

fn counts() -> Vec<Claim> {
    const TIMES_FEWER: (f64, f64, &str) = (460.0, 513.0, "times fewer");
    vec![
        Claim::between(
            ("prefault-slab-faults", Prefault),
            ["SuperSlab allocation: 256 page faults (1MB / 4KB pages)", "256"],
            (255.0, 257.0, "faults"),
            |here| {
                let memset = run(here, "memset");
                memset.faults("timed") / memset.of("timed", "slabs")
            },
        )
        .unless(other_pages)
        .why("faults of the loop for each slab of 1 MiB that memset fills"),
        Claim::between(
            ("prefault-populate-write", Prefault),
            ["Modern Linux (5.14+) provides explicit page prefaulting", "MADV_POPULATE_WRITE: all of it"],
            (100.0, 100.0, "% resident"),
            |here| resident_percent(&run(here, "populate-write"), "look"),
        )
        .why("a slab after the call, by mincore"),
        Claim::between(
            ("prefault-thp-faults", Prefault),
            ["Benchmark with 2MB hugepages (512x fewer page faults)", "512"],
            TIMES_FEWER,
            |here| faults(&run(here, "touch")) / faults(&run(here, "thp")),
        )
        .unless(other_pages)
        .why("transparent huge pages; the loop may take 24 other faults, and a slab that gets no huge page takes 512"),
        Claim::between(
            ("prefault-hugetlb", Prefault),
            ["Reduce page fault overhead by 512x (2MB hugepages vs 4KB pages)", "512 times fewer faults"],
            TIMES_FEWER,
            |here| {
                let hugetlb = faults(&run(here, "hugetlb")).or(Series::Lacking(HUGETLB.into()));
                hugetlb.with(faults(&run(here, "touch")), |hugetlb, touch| touch / hugetlb)
            },
        )
        .unless(other_pages)
        .why("MAP_HUGETLB; the loop may take 24 other faults"),
    ]
}

fn times() -> Vec<Claim> {
    const TWO_TO_THREE: (f64, f64, &str) = (2.0, 3.0, "times as fast");
    vec![
        Claim::between(
            ("prefault-no-gain", Prefault),
            [
                "Implementation successful but NO performance improvement observed",
                "4.01 M/s before, 3.71 with memset: 1.08 of the time",
            ],
            (0.98, 1.17, "times the time without it"),
            |here| ns(&run(here, "memset")) / ns(&run(here, "none")),
        )
        .beside(|here| {
            let times = |way| median(&(ns(&run(here, way)) / ns(&run(here, "none"))));
            let [touch, map, advised] = ["touch", "map-populate", "populate-write"].map(times);
            format!("touch {touch}, MAP_POPULATE {map}, MADV_POPULATE_WRITE {advised}")
        })
        .stand_in("ours does little besides faulting")
        .why("the report's two runs without memset differ by 2 %; up to twice its loss"),
        Claim::between(
            ("prefault-memset-slower", Prefault),
            [
                "The explicit memset version is 7-8% SLOWER than baseline",
                "0.267 to 0.272 s with memset, 0.249 and 0.255 s without: 1.05 to 1.09",
            ],
            (1.04, 1.10, "times the time without it"),
            |here| ns(&worked(here, "memset")) / ns(&worked(here, "none")),
        )
        .beside(share)
        .unless(other_share)
        .stand_in(
            "how much memset adds depends on the machine's memory, and the report's machine is not known",
        ),
        Claim::between(
            ("prefault-prewarm", Prefault),
            ["Expected: 2-3x improvement", "2 to 3"],
            TWO_TO_THREE,
            |here| ns(&worked(here, "none")) / ns(&worked(here, "prewarm")),
        )
        .beside(share)
        .unless(other_share)
        .stand_in(HAKMEM)
        .why("slabs that are made resident before the clock starts; the loop still unmaps them"),
        Claim::between(
            ("prefault-kernel-60", Prefault),
            ["Speedup: 2-3x (eliminate 60% kernel overhead)", "2 to 3; 1 / (1 - 0.6) = 2.5"],
            TWO_TO_THREE,
            |here| ns(&worked(here, "none")) / ns(&worked(here, "kept")),
        )
        .beside(share)
        .unless(other_share)
        .stand_in(HAKMEM)
        .why("empty slabs are used again, so the loop neither maps nor faults"),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    let mut unjudged = figures_of_hakmem();
    unjudged.extend(map_populate());
    unjudged
}

fn figures_of_hakmem() -> Vec<Unjudged> {
    vec![
        Unjudged::new(
            Prefault,
            ["Page faults: 132,507", "132,507 for 1,000,000 operations"],
            "our loop is made to touch as many pages: it fills 543 bytes an operation and uses none again; hakmem's own \
             benchmark under `faultless stat` decides",
        )
        .here("faults", |here| faults(&run(here, "none"))),
        Unjudged::new(
            Prefault,
            ["Throughput: 4.01M ops/s (0.249s)", "4.01 M/s before, 3.71 with memset, 3.92 with it switched off"],
            "another machine, and hakmem; ours is a loop with the same pages, without prefault",
        )
        .here("M/s of CPU time", |here| 1e3 / ns(&run(here, "none"))),
        Unjudged::new(
            Prefault,
            ["Throughput: 3.69M ops/s (1.356s)", "3.69 M/s for 5,000,000 operations"],
            "the report does not say which build ran it: 0.995 of the rate with memset, 0.92 of that before; ours is memset, \
             five million operations over one, and each does the same work",
        )
        .here("times the rate", |here| {
            let five = here.cells("prefault").with("way", "memset").with("operations", 5_000_000);
            ns(&run(here, "memset")) / ns(&five)
        }),
        Unjudged::new(
            Prefault,
            ["causing 60-70% page fault overhead during allocations", "60 to 70 % of the time"],
            "the rest is hakmem's own work, which our loop lacks unless work= adds some; hakmem's own benchmark decides",
        )
        .here("% of the loop", |here| kernel_percent(&run(here, "none"))),
        Unjudged::new(
            Prefault,
            [
                "User allocations: ~132,250 page faults (still happening!)",
                "256 expected in all, with memset; 132,500 found, 132,250 of them outside the slabs",
            ],
            "our loop has no memory but its slabs; the report also counts metadata, pools and arenas: `faultless record` of \
             hakmem's own benchmark shows the sites of its faults",
        ),
    ]
}

/// The report does not know why MAP_POPULATE had no effect, and asks.
fn map_populate() -> Vec<Unjudged> {
    const QUESTION: &str = "Check if mprotect() or munmap() operations are undoing MAP_POPULATE";
    vec![
        Unjudged::new(
            Prefault,
            [
                "MAP_POPULATE flag not working correctly on Linux 6.8.0-87",
                "no figure: the report counts neither the resident pages of such a mapping nor its faults",
            ],
            "ours is another kernel, just after mmap; that one decides",
        )
        .here("% resident", |here| resident_percent(&run(here, "map-populate"), "look")),
        Unjudged::new(
            Prefault,
            [
                "Check if there's a size limit (works for small allocations but not 1-2MB SuperSlabs?)",
                "a question",
            ],
            "a question; this kernel's answer for slabs of 1 MiB, mapped with MAP_POPULATE",
        )
        .here("% resident", |here| resident_percent(&run(here, "map-populate"), "look")),
        Unjudged::new(
            Prefault,
            [QUESTION, "a question"],
            "a question; this kernel's answer to mprotect to PROT_NONE and back (before Linux 5.19 each page still faulted \
             once more)",
        )
        .here("% resident", |here| resident_percent(&trap(here, "protected"), "setup")),
        Unjudged::new(
            Prefault,
            [QUESTION, "a question"],
            "a question; this kernel's answer to munmap of head and tail, by which a block is aligned, for the rest",
        )
        .here("% resident", |here| resident_percent(&trap(here, "trimmed"), "setup")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::record;
    use crate::results::Results;
    use faultless_trace::verdict::Verdict;

    /// Loops of so much work, of which the kernel takes this part. With `kept` they take that part of the time.
    fn results(loops: &[(u32, f64)], kept: f64) -> Results {
        let cells = loops.iter().flat_map(|&(work, kernel)| {
            let cell = |way: &str| format!("prefault way={way} operations=1000000 work={work}");
            [(cell("none"), 1.0, kernel), (cell("kept"), kept, kernel)]
        });
        let cells: Vec<_> = cells.collect();
        let rows = cells.iter().flat_map(|(cell, part, kernel)| {
            [("cpu_ns", *part), ("system_ns", *kernel), ("user_ns", 1.0 - kernel)]
                .map(|(quantity, value)| (cell.as_str(), "timed", quantity, 1e8 * value))
        });
        record(&rows.collect::<Vec<_>>())
    }

    #[test]
    fn the_loop_with_the_kernels_share_of_the_report_is_judged_and_no_other() {
        let judged = |loops: &[(u32, f64)], kept| {
            let claims = claims();
            let claim = claims.iter().find(|claim| claim.id == "prefault-kernel-60").unwrap();
            let found = claim.judge(&results(loops, kept));
            (found.verdict, found.ours, found.why)
        };
        let (verdict, ours, _) = judged(&[(8, 0.9), (32, 0.64), (64, 0.5)], 0.4);
        assert_eq!(verdict, Verdict::Reproduced);
        assert!(ours.ends_with("beside work=32 the kernel takes 64.0 % of the loop"), "{ours}");
        let (verdict, _, why) = judged(&[(8, 0.9), (16, 0.8)], 0.4);
        assert!(verdict == Verdict::CannotSay && why.starts_with("the kernel takes 80.0 %"), "{why}");
        let (verdict, _, why) = judged(&[(32, 0.64)], 0.1);
        assert!(verdict == Verdict::CannotSay && why.starts_with("not refuted: hakmem"), "{why}");
    }
}
