//! price: what each kind of page fault costs, and each call that causes faults or avoids them.
//!
//! One cell is one kind of work on one kind of page. Its phases are alike for all: `setup` (what must be there before),
//! `timed` (the work that the cell is named after), `look` (on how many pages it had its effect, as the kernel tells), `after`
//! (the touch that follows it: of pages that were given back, that are shared with a child, that were write-protected), each
//! with the faults that it must take. A fork is made of a process without the pages before: `empty`. Base pages are told from
//! larger ones by the count; larger ones are looked at before they get a price, since the kernel may fall back.
//!
//! What it does not do: populate ahead (`prefault`), threads (`scale`).

mod cold;

use faultless_os::page;
use faultless_os::touch::{Advice, HeldCopy, Protection, Region};
use faultless_os::{advise, map, procfs};

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
        let place = Place { start: region.start(), len_bytes: region.len_bytes() };
        let region = Some(region);
        Ok(Box::new(Priced { kind, pages, units, place, region, target, copy: None, was_protected: false }))
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

/// Faults of reading `/proc/self/smaps`.
const SMAPS: usize = 256;

/// Where memory lay before the work.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    len_bytes: usize,
}

struct Priced {
    kind: Kind,
    pages: Pages,
    /// How many of them.
    units: usize,
    place: Place,
    region: Option<Region>,
    /// The place to which pages are moved.
    target: Option<Region>,
    copy: Option<HeldCopy>,
    /// Whether pages could not be written between taking the rights and giving them back.
    was_protected: bool,
}

/// What is done in a phase.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// A fork before anything is touched: what it costs without the pages.
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
        notes.add("pages", if by_base_page { self.base_pages() } else { self.units } as f64);
        match (step, self.kind) {
            (Step::Setup, Kind::Touch | Kind::ZeroPage) => self.charge(),
            (Step::Setup, _) => {
                self.copy = None;
                let sum = self.touch()?;
                self.check_whole()?;
                Ok(sum)
            }
            (Step::Timed, Kind::Touch) => self.touch(),
            (Step::Timed, Kind::ZeroPage) => Ok(self.region()?.touch_read(page::size())),
            (Step::Empty, _) | (Step::Timed, Kind::Fork) => {
                self.copy = Some(HeldCopy::new()?);
                Ok(0)
            }
            (Step::Timed, _) => self.work(),
            (Step::Look, _) => self.effect().map(|units| units as u64),
            (Step::After, Kind::MoveAligned | Kind::MoveBeside) => {
                let step = self.pages.unit_bytes;
                Ok(self.region()?.touch_read(step))
            }
            (Step::After, _) if by_base_page => self.touch_whole(),
            (Step::After, _) => self.touch(),
            (Step::End, _) => {
                self.copy = None;
                Ok(0)
            }
        }
    }
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
        let (kind, units, base) = (self.kind, self.units, self.base_pages());
        let marks = memory::marks(0..units, 0);
        let touched = |name, faults| Phase::new(name, faults, 0).touches(units).sum(marks);
        // A range, where the kernel or the processor decides.
        let up_to = |phase: Phase, faults: usize| {
            let most = phase.faults.end() + faults as u64;
            phase.faults(0..=most)
        };
        match (step, kind) {
            (Step::Empty, _) => Phase::new("empty", 0, 0),
            // Populating hugetlb pages once beforehand counts as faults, or not, by kernel version.
            (Step::Setup, Kind::Touch) if self.pages.of == Of::Hugetlb => {
                up_to(Phase::new("setup", 0, 0), units)
            }
            (Step::Setup, Kind::Touch | Kind::ZeroPage) => Phase::new("setup", 0, 0),
            (Step::Setup, _) => touched("setup", units),
            (Step::Timed, Kind::Touch) => touched("timed", units),
            (Step::Timed, Kind::ZeroPage) => Phase::new("timed", base, 0).touches(base).sum(0),
            (Step::Timed, _) => Phase::new("timed", 0, 0),
            // What the kernel tells of each mapping is a long text.
            (Step::Look, Kind::Free) => up_to(Phase::new("look", 0, 0), SMAPS).sum(units as u64),
            (Step::Look, _) => Phase::new("look", 0, 0).sum(units as u64),
            // Of a THP that is shared only base pages are copied (Linux 5.8).
            (Step::After, Kind::Touch | Kind::ZeroPage | Kind::Fork) => {
                let faults = if kind == Kind::Touch { 0 } else { base };
                let sum = (units as u64) * memory::marks(0..base / units, 0);
                Phase::new("after", faults, 0).touches(base).sum(sum)
            }
            (Step::After, Kind::DontNeed) => touched("after", units),
            // Without help from the processor the first write after it marks the page dirty by a fault.
            (Step::After, Kind::Free) if !cfg!(target_arch = "x86_64") => up_to(touched("after", 0), units),
            // Before Linux 6.0 pages stay write-protected until a fault finds that they need not be.
            (Step::After, Kind::Protect) => up_to(touched("after", 0), units),
            (Step::After, _) => touched("after", 0),
            (Step::End, _) => Phase::new("end", 0, 0),
        }
    }

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
            Kind::Munmap => self.region = None,
            Kind::DontNeed => self.region()?.advise(all, Advice::DontNeed)?,
            Kind::Free => self.region()?.advise(all, Advice::Free)?,
            Kind::Protect => {
                if let Some(region) = self.region.take() {
                    let mut protected = region.protect(Protection::ReadOnly)?;
                    self.was_protected = !protected.is_writable();
                    self.region = Some(protected.give_back()?);
                }
            }
            Kind::MoveAligned | Kind::MoveBeside => {
                if let Some(target) = self.target.take() {
                    self.region()?.relocate(target)?;
                }
            }
            Kind::Touch | Kind::ZeroPage | Kind::Fork => {}
        }
        Ok(0)
    }

    /// On how many pages the work had its effect.
    fn effect(&mut self) -> Result<usize, Refusal> {
        let (Place { start, len_bytes }, units, unit_bytes) = (self.place, self.units, self.pages.unit_bytes);
        let resident = map::resident_bytes(start, len_bytes) / unit_bytes;
        Ok(match self.kind {
            Kind::Touch => self.check_whole().map(|()| units)?,
            Kind::ZeroPage | Kind::Fork => 0,
            // What is not mapped can't be asked.
            Kind::Munmap => {
                let begins = (start..start + len_bytes).step_by(unit_bytes);
                begins.filter(|begin| map::residency(*begin, &mut [0]).is_err()).count()
            }
            Kind::DontNeed => units - resident,
            Kind::Free => {
                let free = procfs::lazy_free_bytes(start).ok_or_else(|| {
                    Refusal("this kernel does not tell what MADV_FREE did: it takes Linux 4.13".into())
                })?;
                // Some wait in lists of each processor, and without swap space older kernels take them at once.
                let found = free / unit_bytes + units - resident;
                if found >= units / 2 { units } else { found }
            }
            Kind::MoveAligned | Kind::MoveBeside => {
                let region = self.region()?;
                let is_moved = region.start() != start;
                if is_moved { region.resident_bytes() / unit_bytes } else { 0 }
            }
            Kind::Protect => resident * usize::from(self.was_protected),
        })
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
    fn check_whole(&mut self) -> Result<(), Refusal> {
        let (unit, stride) = (self.pages.unit_bytes, self.pages.stride_bytes);
        let region = self.region()?;
        let (start, len) = (region.start(), region.len_bytes());
        let resident = |begin: &usize| map::resident_bytes(start + begin, unit) == unit;
        let whole = match unit > page::size() {
            true => (0..len).step_by(stride).filter(resident).count(),
            false => self.units,
        };
        if whole == self.units { Ok(()) } else { Err(memory::fragmented(whole, self.units, unit)) }
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
            // Of a fork what the pages add to that of a process without them.
            let fixed = if phase == "timed" { cpu_ns(found, "empty") } else { Vec::new() };
            let per_page =
                |(at, (ns, pages)): (usize, (&f64, &f64))| (ns - fixed.get(at).unwrap_or(&0.0)) / pages;
            cpu_ns(found, phase).iter().zip(pages).enumerate().map(per_page).collect()
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
            // And what they map may lie where memory was unmapped.
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

    #[test]
    fn smaller_pages_than_asked_for_get_no_price() {
        let pages = Pages {
            of: Of::Thp,
            unit_bytes: 4 * page::size(),
            stride_bytes: 4 * page::size(),
            align_bytes: 4 * page::size(),
        };
        let region = Region::base_pages(pages.unit_bytes * 2, pages.align_bytes).unwrap();
        let mut priced = priced(Kind::Touch, pages, region);
        priced.touch().unwrap();
        assert!(priced.check_whole().unwrap_err().0.contains("only 0 of 2 pages"));
        priced.touch_whole().unwrap();
        assert_eq!(priced.check_whole(), Ok(()));
    }

    fn priced(kind: Kind, pages: Pages, region: Region) -> Priced {
        let place = Place { start: region.start(), len_bytes: region.len_bytes() };
        let units = place.len_bytes / pages.unit_bytes;
        let region = Some(region);
        Priced { kind, pages, units, place, region, target: None, copy: None, was_protected: false }
    }

    #[test]
    fn work_that_was_not_done_has_no_effect() {
        let cell = cell("munmap", "base", 1);
        for (name, kind) in KINDS.into_iter().filter_map(|(name, kind)| Some((name, kind?))) {
            if matches!(kind, Kind::Touch | Kind::ZeroPage | Kind::Fork) {
                continue;
            }
            let pages = Pages::of(&cell, kind).unwrap();
            let mut idle = priced(kind, pages, pages.region(1 << 20).unwrap());
            idle.touch().unwrap();
            assert_eq!(idle.effect(), Ok(0), "{name}");
        }
    }
}
