//! price: what each kind of page fault costs, and each call that causes faults or avoids them.
//!
//! One cell is one kind of work on one kind of page. Its phases are alike for all: `setup` (what must be there before),
//! `timed` (the work that the cell is named after), `after` (the touch that follows it: of pages that were given back, that
//! are shared with a child, that were write-protected), each with the faults that it must take. Base pages are told from
//! larger ones by the count; larger ones are looked at before they get a price, since the kernel may fall back.
//!
//! What it does not do: populate ahead (`prefault`), threads (`scale`).

mod cold;

use faultless_os::page;
use faultless_os::touch::{Advice, HeldCopy, Protection, Region};
use faultless_os::{advise, map};

use super::memory;
use crate::experiment::{
    Cell, Chart, Document, Effort, Experiment, Measured, Notes, Phase, Refusal, Remark, Scope, Trial,
};
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
        let times = match (cell.choice("kind", &KINDS)?, cell.text("page")?) {
            // What is made warm before is not cold; the cell asks for memory itself.
            (None, _) => 0,
            // Memory of the hugetlb pool is no longer available memory.
            (_, "hugetlb") => 0,
            // Copied by CoW faults.
            (Some(Kind::Fork), _) => 2,
            _ => 1,
        };
        Ok(bytes * times)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let Some(kind) = cell.choice("kind", &KINDS)? else { return cold::trial(cell) };
        let pages = Pages::of(cell, kind)?;
        let bytes = cell.mib("mib")?;
        if !bytes.is_multiple_of(pages.unit_bytes) {
            let unit = pages.unit_bytes;
            return Err(Refusal(format!("{cell}: mib={}: take a multiple of {}", bytes >> 20, unit >> 20)));
        }
        let (region, units) = (pages.region(bytes)?, bytes / pages.unit_bytes);
        let target = match kind {
            Kind::MoveAligned => Some(Region::new(bytes, pages.align_bytes)?),
            Kind::MoveBeside => Some(Region::beside(bytes, pages.align_bytes)?),
            _ => None,
        };
        Ok(Box::new(Priced { kind, pages, units, region: Some(region), target, copy: None }))
    }
}

/// What is priced.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// First touch, by writing.
    Touch,
    /// First touch by reading, which maps the zero page; then the write.
    ZeroPage,
    /// `fork`; then the writes to what both processes share.
    Fork,
    Munmap,
    DontNeed,
    /// MADV_FREE; then writes before the kernel has taken the pages.
    Free,
    /// `mremap` to a place where page tables can be moved as a whole.
    MoveAligned,
    /// `mremap` to one page beside such a place.
    MoveBeside,
    /// `mprotect` to read-only and back; then writes.
    Protect,
}

/// As in the cells' names; none is guest-cold memory, which has a trial of its own.
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

/// One kind of page, and how memory is laid out so that it is used.
#[derive(Clone, Copy)]
struct Pages {
    of: Of,
    unit_bytes: usize,
    /// Distance of two pages: an mTHP has a gap behind it, or the kernel would take a larger one.
    stride_bytes: usize,
    /// What a page table of the second level maps.
    align_bytes: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Of {
    Base,
    Thp,
    Mthp,
    Hugetlb,
}

impl Pages {
    fn of(cell: &Cell, kind: Kind) -> Result<Self, Refusal> {
        let text = cell.text("page")?;
        let pmd = advise::pmd_bytes();
        // Without THP nobody says how much that is; this is what base pages of 4 KiB and entries of 8 bytes make of it.
        let align_bytes = if pmd > 0 { pmd } else { page::size() * (page::size() / size_of::<u64>()) };
        let small = text.strip_suffix('k').and_then(|kib| kib.parse::<usize>().ok()).map(|kib| kib << 10);
        let (of, unit_bytes) = match (text, small) {
            ("base", _) => (Of::Base, page::size()),
            ("thp", _) => (Of::Thp, align_bytes),
            ("hugetlb", _) => (Of::Hugetlb, align_bytes),
            (_, Some(bytes)) if bytes.is_power_of_two() && bytes > page::size() && bytes < align_bytes => {
                (Of::Mthp, bytes)
            }
            _ => {
                let takes = "takes base, thp, hugetlb, or an mTHP size such as 64k";
                return Err(Refusal(format!("{cell}: page={text}: {takes}")));
            }
        };
        if matches!(of, Of::Thp | Of::Mthp) {
            memory::check_thp(cell, unit_bytes)?;
        }
        if matches!(of, Of::Mthp | Of::Hugetlb) && kind != Kind::Touch
            || of == Of::Thp && kind == Kind::ZeroPage
        {
            return Err(Refusal(format!("{cell}: page={text}: is priced with kind=touch only")));
        }
        let stride_bytes = if of == Of::Mthp { 2 * unit_bytes } else { unit_bytes };
        Ok(Self { of, unit_bytes, stride_bytes, align_bytes })
    }

    /// Memory for so many bytes of such pages, none of them resident.
    fn region(self, bytes: usize) -> Result<Region, Refusal> {
        Ok(match self.of {
            Of::Base => Region::base_pages(bytes, self.align_bytes)?,
            Of::Thp => Region::thp(bytes, self.align_bytes)?,
            Of::Mthp => Region::mthp(bytes / self.unit_bytes, self.unit_bytes)?,
            Of::Hugetlb => memory::hugetlb(bytes, self.unit_bytes, bytes / self.unit_bytes)?,
        })
    }
}

struct Priced {
    kind: Kind,
    pages: Pages,
    /// How many of them.
    units: usize,
    region: Option<Region>,
    /// The place to which pages are moved.
    target: Option<Region>,
    copy: Option<HeldCopy>,
}

impl Trial for Priced {
    fn phases(&self) -> Vec<Phase> {
        let (units, base) = (self.units, self.base_pages());
        let touched = |name, faults| Phase::new(name, faults, 0).work(units).sum(units as u64);
        let after = |faults| Phase::new("after", faults, 0).work(base).sum(base as u64);
        let setup = |faults| Phase::new("setup", faults, 0).work(faults);
        let timed = || Phase::new("timed", 0, 0);
        // A range, where the kernel or the processor decides.
        let up_to = |phase: Phase, faults: usize| {
            let most = phase.faults.end() + faults as u64;
            phase.faults(0..=most)
        };
        match self.kind {
            Kind::Touch => {
                // Populating hugetlb pages once beforehand counts as faults, or not, by kernel version.
                let once = if self.pages.of == Of::Hugetlb { units } else { 0 };
                let look = Phase::new("look", 0, 0);
                vec![up_to(setup(0), once), touched("timed", units), look, after(0)]
            }
            Kind::ZeroPage => vec![setup(0), Phase::new("timed", base, 0).work(base).sum(0), after(base)],
            // Of a THP that is shared only base pages are copied (Linux 5.8).
            Kind::Fork => vec![setup(units), timed(), after(base), Phase::new("end", 0, 0)],
            Kind::Munmap => vec![setup(units), timed()],
            Kind::DontNeed => vec![setup(units), timed(), touched("after", units)],
            Kind::Free => {
                // Without help from the processor the first write after it marks the page dirty by a fault.
                let marked = if cfg!(target_arch = "x86_64") { 0 } else { units };
                vec![setup(units), timed(), up_to(touched("after", 0), marked)]
            }
            Kind::MoveAligned | Kind::MoveBeside => {
                vec![setup(units), timed(), touched("after", 0)]
            }
            // Before Linux 6.0 pages stay write-protected until a fault finds that they need not be.
            Kind::Protect => vec![setup(units), timed(), up_to(touched("after", 0), units)],
        }
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        let name = self.phases().get(phase).map_or("", |phase| phase.name);
        let units =
            if name == "after" && self.is_after_by_base_page() { self.base_pages() } else { self.units };
        notes.add("pages", units as f64);
        match (name, self.kind) {
            ("setup", Kind::Touch | Kind::ZeroPage) => self.charge(),
            ("setup", _) => {
                self.touch()?;
                self.check_whole()
            }
            ("timed", Kind::Touch) => self.touch(),
            ("timed", Kind::ZeroPage) => Ok(self.region()?.touch_read(page::size())),
            ("timed", _) => self.work(),
            ("look", _) => self.check_whole(),
            ("after", Kind::MoveAligned | Kind::MoveBeside) => {
                let step = self.pages.unit_bytes;
                Ok(self.region()?.touch_read(step))
            }
            ("after", _) if self.is_after_by_base_page() => self.touch_whole(),
            ("after", _) => self.touch(),
            _ => {
                self.copy = None;
                Ok(0)
            }
        }
    }
}

impl Priced {
    fn base_pages(&self) -> usize {
        self.units * self.pages.unit_bytes / page::size()
    }

    /// Whether the last phase writes to every base page of every page.
    fn is_after_by_base_page(&self) -> bool {
        matches!(self.kind, Kind::Touch | Kind::ZeroPage | Kind::Fork)
    }

    fn region(&mut self) -> Result<&mut Region, Refusal> {
        self.region.as_mut().ok_or_else(|| Refusal("the memory of this cell is gone".into()))
    }

    /// A refused charge is an error here, and would be a signal at a touch. Otherwise nothing is to be done.
    fn charge(&mut self) -> Result<u64, Refusal> {
        if self.pages.of != Of::Hugetlb {
            return Ok(0);
        }
        let bytes = self.units * self.pages.unit_bytes;
        self.region()?.advise(0..bytes, Advice::PopulateWrite)?;
        self.region = None;
        self.region = Some(self.pages.region(bytes)?);
        Ok(0)
    }

    /// The call that has the price.
    fn work(&mut self) -> Result<u64, Refusal> {
        let all = 0..self.region()?.len_bytes();
        match self.kind {
            Kind::Fork => self.copy = Some(HeldCopy::new()?),
            Kind::Munmap => self.region = None,
            Kind::DontNeed => self.region()?.advise(all, Advice::DontNeed)?,
            Kind::Free => self.region()?.advise(all, Advice::Free)?,
            Kind::Protect => {
                let region = self.region.take().map(|region| region.protect_and_back(Protection::ReadOnly));
                self.region = region.transpose()?;
            }
            Kind::MoveAligned | Kind::MoveBeside => {
                if let Some(target) = self.target.take() {
                    self.region()?.relocate(target)?;
                }
            }
            Kind::Touch | Kind::ZeroPage => {}
        }
        Ok(0)
    }

    /// One write to each page; the sum of what is there.
    fn touch(&mut self) -> Result<u64, Refusal> {
        let stride = self.pages.stride_bytes;
        Ok(memory::write(self.region()?.bytes_mut(), stride))
    }

    /// One write to each base page of each page.
    fn touch_whole(&mut self) -> Result<u64, Refusal> {
        let (unit, stride) = (self.pages.unit_bytes, self.pages.stride_bytes);
        let pages = self.region()?.bytes_mut().chunks_mut(stride);
        Ok(pages.map(|page| memory::write(&mut page[..unit], page::size())).sum())
    }

    /// One touch must have made all of a page resident.
    fn check_whole(&mut self) -> Result<u64, Refusal> {
        let (unit, stride) = (self.pages.unit_bytes, self.pages.stride_bytes);
        let memory = self.region()?.bytes();
        let (start, len) = (memory.as_ptr().addr(), memory.len());
        let resident = |begin: &usize| map::resident_bytes(start + begin, unit) == unit;
        let whole = match unit > page::size() {
            true => (0..len).step_by(stride).filter(resident).count(),
            false => self.units,
        };
        if whole == self.units {
            return Ok(0);
        }
        let (units, kib) = (self.units, unit >> 10);
        Err(Refusal(format!(
            "the kernel gave only {whole} of {units} pages of {kib} KiB: memory is fragmented: try again, \
             or echo 1 > /proc/sys/vm/compact_memory, as root"
        )))
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

/// Guest-cold memory counts as far as it was cold.
fn us_per_mib(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    let Some(pages_per_mib) = pages_per_mib(cell, found, phase) else { return Vec::new() };
    let ns_per_page = match values(found, phase, "cold_ns_per_page") {
        Some(cold) => cold.to_vec(),
        None => {
            let pages = values(found, phase, "pages").unwrap_or_default();
            cpu_ns(found, phase).iter().zip(pages).map(|(ns, pages)| ns / pages).collect()
        }
    };
    ns_per_page.into_iter().map(|ns| ns * pages_per_mib / 1e3).collect()
}

/// An mTHP's size is in its name: between two of them is a gap. The others lie side by side.
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
            // Other tests fault in this process too: only what every phase returned is certain here.
            let lost: Vec<_> = sample.violations.iter().filter(|text| text.contains("must return")).collect();
            assert!(lost.is_empty(), "{name} {lost:?}");
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

    #[test]
    fn smaller_pages_than_asked_for_get_no_price() {
        let pages = Pages {
            of: Of::Thp,
            unit_bytes: 4 * page::size(),
            stride_bytes: 4 * page::size(),
            align_bytes: 4 * page::size(),
        };
        let region = Region::base_pages(pages.unit_bytes * 2, pages.align_bytes).unwrap();
        let (kind, region) = (Kind::Touch, Some(region));
        let mut priced = Priced { kind, pages, units: 2, region, target: None, copy: None };
        priced.touch().unwrap();
        assert!(priced.check_whole().unwrap_err().0.contains("only 0 of 2 pages"));
        priced.touch_whole().unwrap();
        assert_eq!(priced.check_whole(), Ok(0));
    }
}
