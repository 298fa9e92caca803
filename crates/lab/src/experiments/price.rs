//! price: what each kind of page fault costs, and each call that causes faults or avoids them.
//!
//! One cell is one kind of work on one kind of page, by the engine that `faultless doctor` uses too ([`Work`]). All
//! cells have the same phases, each with the faults that it must take:
//!
//! | phase | work |
//! |---|---|
//! | `empty` | for `fork` only: a fork of the process without the pages |
//! | `setup` | whatever must be there before |
//! | `timed` | the work that the cell is named after |
//! | `look` | asking the kernel on how many pages the work had its effect |
//! | `after` | the touch that follows: pages were given back, shared with a child, or write-protected |
//!
//! The fault count tells base pages from larger ones. Larger pages are checked before they get a price, since
//! the kernel may fall back.
//!
//! It does not populate ahead (`prefault`) or use several threads (`scale`).

mod cold;

use faultless_os::page;
use faultless_prof::price::work::{Kind, Pages, Work};

use super::memory;
use crate::cell::{Cell, Refusal};
use crate::experiment::{Chart, Document, Effort, Experiment, Measured, Notes, Phase, Remark, Scope, Trial};
use crate::results::{Quantities, cpu_ns, values};

pub(super) struct Price;

impl Experiment for Price {
    fn name(&self) -> &'static str {
        "price"
    }

    fn about(&self) -> &'static str {
        "What does each kind of page fault cost, and each call that causes or avoids faults?"
    }

    fn documents(&self) -> &'static [Document] {
        &Document::ALL
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([4, 16, 64, 256]);
        let cell = |kind: &str, page: &str, mib: usize| {
            Cell::of("price").with("kind", kind).with("page", page).with("mib", mib)
        };
        let kinds = || KINDS.into_iter().filter_map(|(name, kind)| Some((name, kind?)));
        let mut cells: Vec<_> = kinds().map(|(name, _)| cell(name, "base", mib)).collect();
        let mut larger = vec!["64k".to_owned(), "thp".into(), "hugetlb".into()];
        if scope.effort >= Effort::Default {
            let mthp = scope.host.thp.iter().flat_map(|thp| thp.mthp_enabled());
            larger.extend(mthp.map(|size| format!("{}k", size.len_bytes >> 10)).filter(|size| size != "64k"));
            let thp = kinds().filter(|(_, kind)| !matches!(kind, Kind::Touch | Kind::ZeroPage));
            cells.extend(thp.map(|(name, _)| cell(name, "thp", mib)));
        }
        cells.extend(larger.iter().map(|page| cell("touch", page, mib)));
        let much: &[usize] = scope.pick([&[], &[64], &[1024], &[1024, 8192]]);
        cells.extend(much.iter().map(|&mib| cell("fork", "base", mib)));
        if scope.effort != Effort::Verify {
            cells.push(cell("touch-cold", "base", scope.pick([0, 32, 64, 128])));
        }
        cells
    }

    fn charts(&self) -> &'static [Chart] {
        CHARTS
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let bytes = cell.mib("mib")? as u64;
        let times = match (cell.choice("kind", &KINDS)?, page_word(cell)?) {
            // Warmed memory would not be cold: the cell asks for memory itself.
            (None, _) => 0,
            // Memory of the hugetlb pool is not part of the available memory.
            (_, "hugetlb") => 0,
            // Copied by CoW faults.
            (Some(Kind::Fork), _) => 2,
            _ => 1,
        };
        Ok(bytes * times)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let Some(kind) = cell.choice("kind", &KINDS)? else { return cold::trial(cell) };
        let (pages, bytes) = (pages_of(cell, kind)?, cell.mib("mib")?);
        let unit_bytes = pages.unit_bytes();
        if !bytes.is_multiple_of(unit_bytes) {
            let (mib, unit) = (bytes >> 20, unit_bytes >> 20);
            return Err(Refusal(format!("{cell}: mib={mib}: take a multiple of {unit}")));
        }
        let work = Work::new(kind, pages, bytes / unit_bytes).map_err(Refusal)?;
        Ok(Box::new(Priced { kind, work }))
    }
}

/// The words of the cells. Guest-cold memory has a trial of its own.
const KINDS: [(&str, Option<Kind>); 10] = [
    ("touch", Some(Kind::Touch)),
    ("zero-page", Some(Kind::ZeroPage)),
    ("fork", Some(Kind::Fork)),
    ("munmap", Some(Kind::Munmap)),
    ("dontneed", Some(Kind::DontNeed)),
    ("free", Some(Kind::Free)),
    ("mremap-aligned", Some(Kind::MoveAligned)),
    ("mremap-beside", Some(Kind::MoveBeside)),
    ("mprotect", Some(Kind::Protect)),
    ("touch-cold", None),
];

/// The kind of page that a cell names.
/// The word of a size of pages, whether or not this machine has it.
fn page_word(cell: &Cell) -> Result<&str, Refusal> {
    let text = cell.text("page")?;
    match ["base", "thp", "hugetlb"].contains(&text) || mthp_bytes(text).is_some() {
        true => Ok(text),
        false => Err(Refusal(format!("{cell}: page={text}: {PAGES}"))),
    }
}

const PAGES: &str = "takes base, thp, hugetlb, or an mTHP size such as 64k";

fn mthp_bytes(text: &str) -> Option<usize> {
    Some(text.strip_suffix('k')?.parse::<usize>().ok()? << 10)
}

fn pages_of(cell: &Cell, kind: Kind) -> Result<Pages, Refusal> {
    let text = page_word(cell)?;
    let pages = match text {
        "base" => Some(Pages::base()),
        "thp" => Some(Pages::thp()),
        "hugetlb" => Some(Pages::hugetlb_default()),
        _ => mthp_bytes(text).and_then(Pages::mthp),
    };
    let pages = pages.ok_or_else(|| Refusal(format!("{cell}: page={text}: {PAGES}")))?;
    if pages.is_transparent() {
        memory::check_thp(cell, pages.unit_bytes())?;
    }
    if !pages.takes(kind) {
        return Err(Refusal(format!("{cell}: page={text}: is priced with kind=touch only")));
    }
    Ok(pages)
}

/// Faults of reading `/proc/self/smaps`.
const SMAPS: usize = 256;

struct Priced {
    kind: Kind,
    work: Work,
}

/// The work of a phase.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// A fork before anything is touched: its cost without the pages.
    Empty,
    Setup,
    Timed,
    Look,
    After,
    End,
}

impl Trial for Priced {
    fn phases(&self) -> Vec<Phase> {
        self.steps().iter().map(|step| self.phase(*step)).collect()
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        let step = self.steps()[phase];
        let by_base_page = step == Step::After && self.is_after_by_base_page();
        notes.add("pages", if by_base_page { self.base_pages() } else { self.work.units() } as f64);
        let (stride, unit) = (self.work.pages().stride_bytes(), self.work.pages().unit_bytes());
        let work = &mut self.work;
        let done = match (step, self.kind) {
            (Step::Setup, _) => work.prepare(|region| memory::write(region.bytes_mut(), stride)),
            (Step::Timed, Kind::Touch) => touch(work, stride),
            (Step::Timed | Step::Empty, _) => work.run(),
            (Step::Look, _) => work.effect().map(|units| units as u64),
            (Step::After, Kind::MoveAligned | Kind::MoveBeside) => {
                work.region().map(|region| region.touch_read(unit))
            }
            (Step::After, _) if by_base_page => touch_whole(work),
            (Step::After, _) => touch(work, stride),
            (Step::End, _) => {
                work.end_copy();
                Ok(0)
            }
        };
        done.map_err(Refusal)
    }
}

/// Writes to each page once and returns the sum of the marks.
fn touch(work: &mut Work, stride: usize) -> Result<u64, String> {
    work.region().map(|region| memory::write(region.bytes_mut(), stride))
}

/// Writes to each base page of each page once.
fn touch_whole(work: &mut Work) -> Result<u64, String> {
    let (unit, stride) = (work.pages().unit_bytes(), work.pages().stride_bytes());
    let pages = work.region()?.bytes_mut().chunks_mut(stride);
    Ok(pages.map(|page| memory::write(&mut page[..unit], page::size())).sum())
}

impl Priced {
    fn steps(&self) -> &'static [Step] {
        match self.kind {
            Kind::Touch => &[Step::Setup, Step::Timed, Step::Look, Step::After],
            Kind::ZeroPage => &[Step::Setup, Step::Timed, Step::After],
            Kind::Fork => &[Step::Empty, Step::Setup, Step::Timed, Step::After, Step::End],
            Kind::Munmap => &[Step::Setup, Step::Timed, Step::Look],
            _ => &[Step::Setup, Step::Timed, Step::Look, Step::After],
        }
    }

    fn phase(&self, step: Step) -> Phase {
        let (kind, units, base) = (self.kind, self.work.units(), self.base_pages());
        let marks = memory::marks(0..units, 0);
        let touched = |name, faults| Phase::new(name, faults, 0).touches(units).sum(marks);
        // A range, where the kernel or the processor decides.
        let up_to = |phase: Phase, faults: usize| {
            let most = phase.faults.end() + faults as u64;
            phase.faults(0..=most)
        };
        match (step, kind) {
            (Step::Empty, _) => Phase::new("empty", 0, 0),
            // Whether populating hugetlb pages once counts as faults depends on the kernel version.
            (Step::Setup, Kind::Touch) if self.work.pages().is_hugetlb() => {
                up_to(Phase::new("setup", 0, 0), units)
            }
            (Step::Setup, Kind::Touch | Kind::ZeroPage) => Phase::new("setup", 0, 0),
            (Step::Setup, _) => touched("setup", units),
            (Step::Timed, Kind::Touch) => touched("timed", units),
            (Step::Timed, Kind::ZeroPage) => Phase::new("timed", base, 0).touches(base).sum(0),
            (Step::Timed, _) => Phase::new("timed", 0, 0),
            // The kernel's description of each mapping is a long text.
            (Step::Look, Kind::Free) => up_to(Phase::new("look", 0, 0), SMAPS).sum(units as u64),
            (Step::Look, _) => Phase::new("look", 0, 0).sum(units as u64),
            // The kernel copies only base pages of a shared THP (Linux 5.8).
            (Step::After, Kind::Touch | Kind::ZeroPage | Kind::Fork) => {
                let faults = if kind == Kind::Touch { 0 } else { base };
                let sum = (units as u64) * memory::marks(0..base / units, 0);
                Phase::new("after", faults, 0).touches(base).sum(sum)
            }
            (Step::After, Kind::DontNeed) => touched("after", units),
            // Without help from the processor the first write marks the page dirty by a fault.
            (Step::After, Kind::Free) if !cfg!(target_arch = "x86_64") => up_to(touched("after", 0), units),
            // Before Linux 6.0 pages stay write-protected until a fault finds that they need not be.
            (Step::After, Kind::Protect) => up_to(touched("after", 0), units),
            (Step::After, _) => touched("after", 0),
            (Step::End, _) => Phase::new("end", 0, 0),
        }
    }

    fn base_pages(&self) -> usize {
        self.work.units() * self.work.pages().unit_bytes() / page::size()
    }

    /// Whether the last phase writes to every base page of every page.
    fn is_after_by_base_page(&self) -> bool {
        matches!(self.kind, Kind::Touch | Kind::ZeroPage | Kind::Fork)
    }
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "price-timed",
        title: "The price of each kind of page work",
        x: "kind",
        x_label: "work",
        y_label: "us of CPU time per MiB of memory, in whatever pages it is",
        values: |cell, found| us_per_mib(cell, found, "timed"),
        remark: per_page,
        ..Chart::BLANK
    },
    Chart {
        id: "price-after",
        title: "The price of the touch after it",
        x: "kind",
        x_label: "work",
        y_label: "us of CPU time per MiB touched",
        values: |cell, found| us_per_mib(cell, found, "after"),
        remark: per_page,
        ..Chart::BLANK
    },
];

/// us per MiB. Of guest-cold memory only the cold groups count.
fn us_per_mib(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    let Some(pages_per_mib) = pages_per_mib(cell, found, phase) else { return Vec::new() };
    let ns_per_page = match values(found, phase, "cold_ns_per_page") {
        Some(cold) => cold.to_vec(),
        None => {
            let pages = values(found, phase, "pages").unwrap_or_default();
            // The price of a fork is what the pages add to a fork without them.
            let fixed = if phase == "timed" { cpu_ns(found, "empty") } else { Vec::new() };
            let per_page =
                |(at, (ns, pages)): (usize, (&f64, &f64))| (ns - fixed.get(at).unwrap_or(&0.0)) / pages;
            cpu_ns(found, phase).iter().zip(pages).enumerate().map(per_page).collect()
        }
    };
    ns_per_page.into_iter().map(|ns| ns * pages_per_mib / 1e3).collect()
}

/// Pages per MiB. mTHP have gaps between them, so their number follows from the size in their name.
fn pages_per_mib(cell: &Cell, found: &Quantities, phase: &str) -> Option<f64> {
    let kib = cell.text("page").ok()?.strip_suffix('k').and_then(|kib| kib.parse::<f64>().ok());
    let pages = *values(found, phase, "pages")?.first()?;
    Some(kib.map_or(pages / cell.number("mib").ok()? as f64, |kib| 1024.0 / kib))
}

fn per_page(cells: &Measured) -> Remark {
    let of_base = |(cell, found): &(&Cell, &Quantities)| match cell.text("page") {
        Ok("base") => pages_per_mib(cell, found, "timed"),
        _ => None,
    };
    Remark {
        text: cells.iter().find_map(of_base).map_or(String::new(), |pages| {
            format!("1 us per MiB is {:.1} ns per base page of {:.0} KiB.", 1e3 / pages, 1024.0 / pages)
        }),
        at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial;

    fn cell(kind: &str, page: &str, mib: usize) -> Cell {
        Cell::of("price").with("kind", kind).with("page", page).with("mib", mib)
    }

    #[test]
    fn every_kind_takes_the_faults_it_must() {
        for (name, _) in KINDS.into_iter().filter(|(_, kind)| kind.is_some()) {
            let sample = trial::measure(&Price, &cell(name, "base", 2));
            assert_eq!(sample.refused, None, "{name}");
            // Other tests fault in this process too: only the return value of every phase is certain here.
            let lost: Vec<_> = sample.violations.iter().filter(|text| text.contains("must return")).collect();
            // Their mappings may lie where memory was unmapped.
            assert!(lost.is_empty() || name == "munmap", "{name} {lost:?}");
        }
    }

    #[test]
    fn pages_that_are_not_there_are_refused_with_the_remedy() {
        let refused = |cell| trial::measure(&Price, &cell).refused.unwrap_or_default();
        let text = refused(cell("touch", "hugetlb", 1 << 20));
        assert!(text.contains("nr_hugepages, as root"), "{text}");
        let text = refused(cell("touch", "5k", 2));
        assert!(text.contains("takes base, thp, hugetlb"), "{text}");
        let text = refused(cell("burn", "base", 2));
        assert!(text.contains("takes touch, zero-page"), "{text}");
    }
}
