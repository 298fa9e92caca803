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
//! It does not populate ahead (`prefault`) or use several threads (`touch`).

mod claims;

use faultless_os::page;
use faultless_prof::price::work::{Kind, Pages, Work};

use super::memory;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{
    Column, Effort, Experiment, Notes, Parameter, Phase, Scope, Sheet, Step, Steps, Trial,
};
use crate::results::{Quantities, cpu_ns, values};

pub(super) struct Price;

static SHEET: Sheet = Sheet {
    name: "price",
    about: "What does each kind of page fault cost, and each call that causes or avoids faults?",
    documents: &Document::ALL,
    parameters: &[
        Parameter::named(
            "kind",
            "touch, zero-page, fork, munmap, dontneed, free, mremap-aligned, mremap-beside or mprotect",
        ),
        Parameter::named("page", "base, thp, hugetlb, or an mTHP size such as 64k"),
        Parameter::named("mib", "MiB of the pages"),
    ],
    columns: &[
        Column { head: "us/MiB", values: |cell, found| us_per_mib(cell, found, "timed") },
        Column { head: "touch after, us/MiB", values: |cell, found| us_per_mib(cell, found, "after") },
    ],
    claims: claims::claims,
    unjudged: claims::unjudged,
    ..Sheet::BLANK
};

impl Experiment for Price {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([4, 16, 64, 256]);
        let cell =
            |kind: &str, page: &str, mib: usize| SHEET.cell(&format!("kind={kind} page={page} mib={mib}"));
        let mut cells: Vec<_> = KINDS.map(|(name, _)| cell(name, "base", mib)).into();
        let mut larger = vec!["64k".to_owned(), "thp".into(), "hugetlb".into()];
        if scope.effort >= Effort::Default {
            let mthp = scope.host.thp.iter().flat_map(|thp| thp.mthp_enabled());
            larger.extend(mthp.map(|size| format!("{}k", size.len_bytes >> 10)).filter(|size| size != "64k"));
            let thp = KINDS.iter().filter(|(_, kind)| !matches!(kind, Kind::Touch | Kind::ZeroPage));
            cells.extend(thp.map(|(name, _)| cell(name, "thp", mib)));
        }
        cells.extend(larger.iter().map(|page| cell("touch", page, mib)));
        let much: &[usize] = scope.pick([&[], &[64], &[1024], &[1024, 8192]]);
        cells.extend(much.iter().map(|&mib| cell("fork", "base", mib)));
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let bytes = cell.mib("mib")? as u64;
        let times = match (cell.choice("kind", &KINDS)?, page_word(cell)?) {
            // Memory of the hugetlb pool is not part of the available memory.
            (_, "hugetlb") => 0,
            // Copied by CoW faults.
            (Kind::Fork, _) => 2,
            _ => 1,
        };
        Ok(bytes * times)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let kind = cell.choice("kind", &KINDS)?;
        let (pages, bytes) = (pages_of(cell, kind)?, cell.mib("mib")?);
        let unit_bytes = pages.unit_bytes();
        if !bytes.is_multiple_of(unit_bytes) {
            let (mib, unit) = (bytes >> 20, unit_bytes >> 20);
            return Err(Refusal(format!("{cell}: mib={mib}: take a multiple of {unit}")));
        }
        let work = Work::new(kind, pages, bytes / unit_bytes).map_err(Refusal)?;
        Ok(Steps::of(Priced { kind, work }, Priced::steps))
    }
}

/// The words of the cells.
const KINDS: [(&str, Kind); 9] = [
    ("touch", Kind::Touch),
    ("zero-page", Kind::ZeroPage),
    ("fork", Kind::Fork),
    ("munmap", Kind::Munmap),
    ("dontneed", Kind::DontNeed),
    ("free", Kind::Free),
    ("mremap-aligned", Kind::MoveAligned),
    ("mremap-beside", Kind::MoveBeside),
    ("mprotect", Kind::Protect),
];

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
const SMAPS: u64 = 256;

struct Priced {
    kind: Kind,
    work: Work,
}

impl Priced {
    fn steps(&self) -> Vec<Step<Self>> {
        let (kind, units) = (self.kind, self.work.units());
        let marks = memory::marks(0..units, 0);
        let touched = |name, faults| Phase::new(name, faults, 0).touches(units).sum(marks);
        let setup = match kind {
            // Whether populating hugetlb pages once counts as faults depends on the kernel version.
            Kind::Touch if self.work.pages().is_hugetlb() => Phase::new("setup", 0, 0).up_to(units as u64),
            Kind::Touch | Kind::ZeroPage => Phase::new("setup", 0, 0),
            _ => touched("setup", units),
        };
        let mut steps: Vec<Step<Self>> = Vec::new();
        if kind == Kind::Fork {
            steps.push((Phase::new("empty", 0, 0), |this, notes| this.each(notes, Work::run)));
        }
        steps.push((setup, |this, notes| {
            let stride = this.work.pages().stride_bytes();
            this.each(notes, |work| work.prepare(|region| memory::write(region.bytes_mut(), stride)))
        }));
        let base = self.base_pages();
        steps.push(match kind {
            Kind::Touch => (touched("timed", units), Self::touch),
            Kind::ZeroPage => {
                (Phase::new("timed", base, 0).touches(base).sum(0), |this, notes| this.each(notes, Work::run))
            }
            _ => (Phase::new("timed", 0, 0), |this, notes| this.each(notes, Work::run)),
        });
        if !matches!(kind, Kind::Fork | Kind::ZeroPage) {
            // The kernel's description of each mapping is a long text.
            let more = if kind == Kind::Free { SMAPS } else { 0 };
            steps.push((Phase::new("look", 0, 0).up_to(more).sum(units as u64), |this, notes| {
                this.each(notes, |work| work.effect().map(|units| units as u64))
            }));
        }
        if kind != Kind::Munmap {
            steps.push(self.after(&touched));
        }
        if kind == Kind::Fork {
            steps.push((Phase::new("end", 0, 0), |this, _| {
                this.work.end_copy();
                Ok(0)
            }));
        }
        steps
    }

    /// The touch that follows the work.
    fn after(&self, touched: &dyn Fn(&'static str, usize) -> Phase) -> Step<Self> {
        let (units, base) = (self.work.units(), self.base_pages());
        // A range, where the kernel or the processor decides.
        let any = |faults: usize| touched("after", 0).up_to(faults as u64);
        match self.kind {
            // The kernel copies only base pages of a shared THP (Linux 5.8).
            Kind::Touch | Kind::ZeroPage | Kind::Fork => {
                let faults = if self.kind == Kind::Touch { 0 } else { base };
                let sum = (units as u64) * memory::marks(0..base / units, 0);
                (Phase::new("after", faults, 0).touches(base).sum(sum), Self::touch_whole)
            }
            Kind::DontNeed => (touched("after", units), Self::touch),
            // Without help from the processor the first write marks the page dirty by a fault.
            Kind::Free if !cfg!(target_arch = "x86_64") => (any(units), Self::touch),
            // Before Linux 6.0 pages stay write-protected until a fault finds that they need not be.
            Kind::Protect => (any(units), Self::touch),
            Kind::MoveAligned | Kind::MoveBeside => (touched("after", 0), |this, notes| {
                let unit = this.work.pages().unit_bytes();
                this.each(notes, |work| work.region().map(|region| region.touch_read(unit)))
            }),
            _ => (touched("after", 0), Self::touch),
        }
    }

    /// Does something with every page.
    fn each(
        &mut self,
        notes: &mut Notes,
        work: impl FnOnce(&mut Work) -> Result<u64, String>,
    ) -> Result<u64, Refusal> {
        notes.add("pages", self.work.units() as f64);
        work(&mut self.work).map_err(Refusal)
    }

    /// Writes to each page once and returns the sum of the marks.
    fn touch(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let stride = self.work.pages().stride_bytes();
        self.each(notes, |work| work.region().map(|region| memory::write(region.bytes_mut(), stride)))
    }

    /// Writes to each base page of each page once.
    fn touch_whole(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        notes.add("pages", self.base_pages() as f64);
        let (unit, stride) = (self.work.pages().unit_bytes(), self.work.pages().stride_bytes());
        let pages = self.work.region().map_err(Refusal)?.bytes_mut().chunks_mut(stride);
        Ok(pages.map(|page| memory::write(&mut page[..unit], page::size())).sum())
    }

    fn base_pages(&self) -> usize {
        self.work.units() * self.work.pages().unit_bytes() / page::size()
    }
}

/// CPU time per MiB of memory, in whatever pages it is, us.
fn us_per_mib(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    let Some(pages_per_mib) = pages_per_mib(cell, found, phase) else { return Vec::new() };
    let pages = values(found, phase, "pages").unwrap_or_default();
    // The price of a fork is what the pages add to a fork without them.
    let fixed = if phase == "timed" { cpu_ns(found, "empty") } else { Vec::new() };
    let per_page = |(at, (ns, pages)): (usize, (&f64, &f64))| (ns - fixed.get(at).unwrap_or(&0.0)) / pages;
    let ns = cpu_ns(found, phase);
    ns.iter().zip(pages).enumerate().map(per_page).map(|ns| ns * pages_per_mib / 1e3).collect()
}

/// Pages per MiB. mTHP have gaps between them, so their number follows from the size in their name.
fn pages_per_mib(cell: &Cell, found: &Quantities, phase: &str) -> Option<f64> {
    let kib = cell.text("page").ok()?.strip_suffix('k').and_then(|kib| kib.parse::<f64>().ok());
    let pages = *values(found, phase, "pages")?.first()?;
    Some(kib.map_or(pages / cell.number("mib").ok()? as f64, |kib| 1024.0 / kib))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial;

    #[test]
    fn pages_that_are_not_there_are_refused_with_the_remedy() {
        let cell = SHEET.cell("kind=touch page=hugetlb mib=1048576");
        let refused = trial::measure(&Price, &cell).refused.unwrap();
        assert!(refused.contains("nr_hugepages, as root"), "{refused}");
    }
}
