//! One piece of work on pages: touch, copy, unmap, give back, move, protect. Every price uses it.
//!
//! In: a kind of work, a kind of page and an amount. Out: the steps of the work, one call each
//! ([`Work::prepare`], [`Work::run`], [`Work::effect`]), and the memory for the touch that follows.
//! `faultless doctor` times these steps for its price list. The lab's experiment `price` runs them as phases
//! with expected counts.
//!
//! It does not time or count anything.

use faultless_os::touch::{Advice, HeldCopy, Region};
use faultless_os::{advise, map, page, procfs};

/// What is done to the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First touch, by writing. The caller writes.
    Touch,
    /// First touch by reading, which maps the zero page. The caller writes afterwards.
    ZeroPage,
    /// `fork`. The caller writes afterwards to the shared pages.
    Fork,
    /// `munmap`.
    Munmap,
    /// MADV_DONTNEED.
    DontNeed,
    /// MADV_FREE. The caller writes before the kernel has taken the pages.
    Free,
    /// `mremap` to an address where whole page tables can be moved.
    MoveAligned,
    /// `mremap` to an address one page behind such an address.
    MoveBeside,
}

impl Kind {
    /// Whether the pages must not be resident before the work.
    pub(crate) fn is_first_touch(self) -> bool {
        matches!(self, Self::Touch | Self::ZeroPage)
    }
}

/// One kind of page, and how memory is laid out so that the kernel uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    size: Size,
    unit_bytes: usize,
    /// Distance of two pages. An mTHP has a gap behind it, else the kernel would use a larger page.
    stride_bytes: usize,
    /// What a page table of the second level maps.
    align_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Base,
    Thp,
    Mthp,
    Hugetlb,
}

impl Pages {
    /// Base pages.
    pub fn base() -> Self {
        Self::of(Size::Base, page::size())
    }

    /// THP.
    pub fn thp() -> Self {
        Self::of(Size::Thp, align_bytes())
    }

    /// mTHP of this size; `None` unless the size is between a base page and a THP.
    pub fn mthp(unit_bytes: usize) -> Option<Self> {
        let is_between = unit_bytes > page::size() && unit_bytes < align_bytes();
        (unit_bytes.is_power_of_two() && is_between).then(|| Self::of(Size::Mthp, unit_bytes))
    }

    /// hugetlb pages of this size.
    pub fn hugetlb(unit_bytes: usize) -> Self {
        Self::of(Size::Hugetlb, unit_bytes)
    }

    /// hugetlb pages of the size of a THP.
    pub fn hugetlb_default() -> Self {
        Self::hugetlb(align_bytes())
    }

    fn of(size: Size, unit_bytes: usize) -> Self {
        let stride_bytes = if size == Size::Mthp { 2 * unit_bytes } else { unit_bytes };
        Self { size, unit_bytes, stride_bytes, align_bytes: align_bytes() }
    }

    /// Bytes of one page.
    pub fn unit_bytes(self) -> usize {
        self.unit_bytes
    }

    /// Bytes from one page to the next.
    pub fn stride_bytes(self) -> usize {
        self.stride_bytes
    }

    /// Whether the pages come from the hugetlb pool.
    pub fn is_hugetlb(self) -> bool {
        self.size == Size::Hugetlb
    }

    /// Whether they are THP or mTHP, which the kernel may replace by smaller pages.
    pub fn is_transparent(self) -> bool {
        matches!(self.size, Size::Thp | Size::Mthp)
    }

    /// Whether this work can be done on these pages.
    pub fn takes(self, kind: Kind) -> bool {
        match self.size {
            Size::Base => true,
            Size::Thp => kind != Kind::ZeroPage,
            Size::Mthp | Size::Hugetlb => kind == Kind::Touch,
        }
    }

    /// Memory for `units` such pages, none of them resident.
    fn region(self, units: usize) -> Result<Region, String> {
        let bytes = units * self.unit_bytes;
        let region = match self.size {
            Size::Base => Region::base_pages(bytes, self.align_bytes),
            Size::Thp => Region::thp(bytes, self.align_bytes),
            Size::Mthp => Region::mthp(units, self.unit_bytes),
            Size::Hugetlb => return hugetlb(bytes, self.unit_bytes, units),
        };
        region.map_err(|error| error.to_string())
    }
}

/// Without THP the kernel does not say; this is the span of a page table of 8-byte entries.
fn align_bytes() -> usize {
    match advise::pmd_bytes() {
        0 => page::size() * (page::size() / size_of::<u64>()),
        bytes => bytes,
    }
}

/// Memory from the hugetlb pool. The caller needs `pages` pages in all.
///
/// # Errors
/// The pool has too few pages; the text has the remedy.
pub fn hugetlb(len_bytes: usize, page_bytes: usize, pages: usize) -> Result<Region, String> {
    Region::hugetlb(len_bytes, page_bytes).map_err(|error| {
        let kib = page_bytes >> 10;
        let file = format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages");
        format!("{error}: {pages} pages are needed: echo {pages} > {file}, as root")
    })
}

/// Why there is no figure if the kernel fell back to smaller pages.
pub fn fragmented(whole: usize, count: usize, page_bytes: usize) -> String {
    let kib = page_bytes >> 10;
    format!(
        "the kernel gave only {whole} of {count} pages of {kib} KiB: memory is fragmented: try again, \
         or echo 1 > /proc/sys/vm/compact_memory, as root"
    )
}

/// Some pages, and one kind of work on them.
pub struct Work {
    kind: Kind,
    pages: Pages,
    units: usize,
    /// Address and length before the work.
    start: usize,
    len_bytes: usize,
    region: Option<Region>,
    /// Where pages are moved to.
    target: Option<Region>,
    copy: Option<HeldCopy>,
}

impl Work {
    /// Memory for `units` pages, none of them resident.
    ///
    /// # Errors
    /// The kernel refuses the memory, or this work can't be done on these pages.
    pub fn new(kind: Kind, pages: Pages, units: usize) -> Result<Self, String> {
        if !pages.takes(kind) {
            return Err("these pages are priced by their first touch only".into());
        }
        let region = pages.region(units)?;
        let bytes = units * pages.unit_bytes;
        let target = match kind {
            Kind::MoveAligned => Some(Region::new(bytes, pages.align_bytes)),
            Kind::MoveBeside => Some(Region::beside(bytes, pages.align_bytes)),
            _ => None,
        };
        Ok(Self {
            kind,
            pages,
            units,
            start: region.start(),
            len_bytes: region.len_bytes(),
            region: Some(region),
            target: target.transpose().map_err(|error| error.to_string())?,
            copy: None,
        })
    }

    /// The kind of page.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// How many pages there are.
    pub fn units(&self) -> usize {
        self.units
    }

    /// The memory.
    ///
    /// # Errors
    /// It was unmapped.
    pub fn region(&mut self) -> Result<&mut Region, String> {
        self.region.as_mut().ok_or_else(|| "the memory of this cell is gone".into())
    }

    /// Everything before the work. For a first touch that is nothing, except that hugetlb pages are charged
    /// once: a refused charge is an error here, but SIGBUS at a touch. Other work needs resident pages:
    /// `touch` writes to each of them and returns their sum.
    ///
    /// # Errors
    /// The kernel refuses, or falls back to smaller pages.
    pub fn prepare(&mut self, touch: impl FnOnce(&mut Region) -> u64) -> Result<u64, String> {
        if !self.kind.is_first_touch() {
            self.copy = None;
            let sum = touch(self.region()?);
            return self.check_whole().map(|()| sum);
        }
        if self.pages.is_hugetlb() {
            let all = 0..self.len_bytes;
            self.region()?.advise(all, Advice::PopulateWrite).map_err(|error| error.to_string())?;
            // The pool may have too few pages for both.
            self.region = None;
            self.region = Some(self.pages.region(self.units)?);
        }
        Ok(0)
    }

    /// The work itself. For a first touch by writing it does nothing, since the caller writes. Returns the
    /// sum of what was read, which is 0: only the zero page is read.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn run(&mut self) -> Result<u64, String> {
        self.try_run().map_err(|error| error.to_string())
    }

    fn try_run(&mut self) -> faultless_os::Result<u64> {
        let all = 0..self.len_bytes;
        match (self.kind, &mut self.region) {
            (Kind::Touch, _) => {}
            (Kind::Fork, _) => self.copy = Some(HeldCopy::new()?),
            (Kind::Munmap, region) => *region = None,
            (_, None) => {}
            (Kind::ZeroPage, Some(region)) => return Ok(region.touch_read(page::size())),
            (Kind::DontNeed, Some(region)) => region.advise(all, Advice::DontNeed)?,
            (Kind::Free, Some(region)) => region.advise(all, Advice::Free)?,
            (Kind::MoveAligned | Kind::MoveBeside, Some(region)) => {
                if let Some(target) = self.target.take() {
                    region.relocate(target)?;
                }
            }
        }
        Ok(0)
    }

    /// On how many pages the work had its effect, according to the kernel.
    ///
    /// # Errors
    /// The kernel fell back to smaller pages, or does not tell.
    pub fn effect(&mut self) -> Result<usize, String> {
        let (start, units, unit_bytes) = (self.start, self.units, self.pages.unit_bytes);
        let resident = map::resident_bytes(start, self.len_bytes) / unit_bytes;
        Ok(match self.kind {
            Kind::Touch => self.check_whole().map(|()| units)?,
            Kind::ZeroPage | Kind::Fork => 0,
            // mincore fails on pages that are not mapped.
            Kind::Munmap => {
                let begins = (start..start + self.len_bytes).step_by(unit_bytes);
                begins.filter(|begin| map::residency(*begin, &mut [0]).is_err()).count()
            }
            Kind::DontNeed => units - resident,
            Kind::Free => {
                let free = procfs::lazy_free_bytes(start)
                    .ok_or("this kernel does not tell what MADV_FREE did: it takes Linux 4.13")?;
                // Some pages wait in per-CPU lists, and without swap space older kernels take them at once.
                let found = free / unit_bytes + units - resident;
                if found >= units / 2 { units } else { found }
            }
            Kind::MoveAligned | Kind::MoveBeside => {
                let region = self.region()?;
                let is_moved = region.start() != start;
                if is_moved { region.resident_bytes() / unit_bytes } else { 0 }
            }
        })
    }

    /// Checks that one touch made all of a page resident.
    ///
    /// # Errors
    /// The kernel fell back to smaller pages.
    pub(crate) fn check_whole(&mut self) -> Result<(), String> {
        let Pages { unit_bytes, stride_bytes, .. } = self.pages;
        if unit_bytes == page::size() {
            return Ok(());
        }
        let region = self.region()?;
        let (start, len_bytes) = (region.start(), region.len_bytes());
        let resident = |begin: &usize| map::resident_bytes(start + begin, unit_bytes) == unit_bytes;
        match (0..len_bytes).step_by(stride_bytes).filter(resident).count() {
            whole if whole == self.units => Ok(()),
            whole => Err(fragmented(whole, self.units, unit_bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_pages_than_asked_for_get_no_price() {
        let unit_bytes = 4 * page::size();
        let pages = Pages { size: Size::Base, ..Pages::of(Size::Thp, unit_bytes) };
        let mut work = Work::new(Kind::Touch, pages, 2).unwrap();
        work.region().unwrap().touch_write(unit_bytes);
        assert!(work.effect().unwrap_err().contains("only 0 of 2 pages"));
        work.region().unwrap().touch_write(page::size());
        assert_eq!(work.effect(), Ok(2));
    }

    #[test]
    fn work_that_was_not_done_has_no_effect() {
        let kinds = [Kind::Munmap, Kind::DontNeed, Kind::Free, Kind::MoveAligned, Kind::MoveBeside];
        for kind in kinds {
            let mut idle = Work::new(kind, Pages::base(), 256).unwrap();
            idle.prepare(|region| {
                region.touch_write(page::size());
                0
            })
            .unwrap();
            assert_eq!(idle.effect(), Ok(0), "{kind:?}");
            idle.run().unwrap();
            // Other tests may map memory at the unmapped addresses.
            assert!(kind == Kind::Munmap || idle.effect() == Ok(256), "{kind:?}");
        }
    }

    #[test]
    fn pages_that_can_not_be_had_so_are_refused() {
        assert!(Work::new(Kind::Fork, Pages::hugetlb_default(), 1).is_err());
        assert!(Work::new(Kind::ZeroPage, Pages::thp(), 1).is_err());
        assert_eq!([5 << 10, page::size(), align_bytes()].map(Pages::mthp), [None; 3]);
        let refused = hugetlb(1 << 40, 2 << 20, 1 << 19).unwrap_err();
        assert!(refused.contains("echo 524288 > ") && refused.contains("nr_hugepages, as root"), "{refused}");
    }
}
