//! price: what a first touch costs by the kind of page, and moving pages beside it.
//!
//! One cell is one kind of work on one kind of page, by the engine that `faultless doctor` uses too ([`Work`]); doctor
//! prices every other call that causes faults or avoids them. All cells have the same phases, each with the faults that
//! it must take:
//!
//! | phase | work |
//! |---|---|
//! | `setup` | whatever must be there before |
//! | `timed` | the work that the cell is named after |
//! | `look` | asking the kernel on how many pages the work had its effect |
//!
//! The fault count tells base pages from larger ones. Larger pages are checked before they get a price, since
//! the kernel may fall back.
//!
//! It does not populate ahead (`prefault`) or use several threads (`touch`).

mod claims;

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
    about: "What does a first touch cost by the kind of page, and what does moving pages?",
    documents: &[Document::Hardware, Document::Queue, Document::Prezeroing],
    parameters: &[
        Parameter::named("kind", "touch, or mremap-beside: move the pages by one page"),
        Parameter::named("page", "base, thp, hugetlb, or an mTHP size such as 64k"),
        Parameter::named("mib", "MiB of the pages"),
    ],
    columns: &[Column { head: "us/MiB", values: us_per_mib }],
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
        let cell = |kind: &str, page: &str| SHEET.cell(&format!("kind={kind} page={page} mib={mib}"));
        let mut cells: Vec<_> = KINDS.map(|(name, _)| cell(name, "base")).into();
        let mut larger = vec!["64k".to_owned(), "thp".into(), "hugetlb".into()];
        if scope.effort >= Effort::Default {
            let mthp = scope.host.thp.iter().flat_map(|thp| thp.mthp_enabled());
            larger.extend(mthp.map(|size| format!("{}k", size.len_bytes >> 10)).filter(|size| size != "64k"));
        }
        cells.extend(larger.iter().map(|page| cell("touch", page)));
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let bytes = cell.mib("mib")? as u64;
        cell.choice("kind", &KINDS)?;
        // Memory of the hugetlb pool is not part of the available memory.
        Ok(if page_word(cell)? == "hugetlb" { 0 } else { bytes })
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
const KINDS: [(&str, Kind); 2] = [("touch", Kind::Touch), ("mremap-beside", Kind::MoveBeside)];

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

struct Priced {
    kind: Kind,
    work: Work,
}

impl Priced {
    fn steps(&self) -> Vec<Step<Self>> {
        let units = self.work.units();
        let touched = |name| Phase::new(name, units, 0).touches(units).sum(memory::marks(0..units, 0));
        let untouched = |name| Phase::new(name, 0, 0);
        let (setup, timed): (Phase, Step<Self>) = match self.kind {
            Kind::Touch => {
                // Whether populating hugetlb pages once counts as faults depends on the kernel version.
                let more = if self.work.pages().is_hugetlb() { units } else { 0 };
                (untouched("setup").up_to(more as u64), (touched("timed"), Self::touch))
            }
            _ => (touched("setup"), (untouched("timed"), |this, notes| this.each(notes, Work::run))),
        };
        vec![
            (setup, |this, notes| {
                let stride = this.work.pages().stride_bytes();
                this.each(notes, |work| work.prepare(|region| memory::write(region.bytes_mut(), stride)))
            }),
            timed,
            (untouched("look").sum(units as u64), |this, notes| {
                this.each(notes, |work| work.effect().map(|units| units as u64))
            }),
        ]
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
}

/// CPU time per MiB of memory, in whatever pages it is, us. mTHP have gaps between them, so their number follows from the
/// size in their name.
fn us_per_mib(cell: &Cell, found: &Quantities) -> Vec<f64> {
    let kib = cell.text("page").ok().and_then(|page| page.strip_suffix('k')?.parse::<f64>().ok());
    let mib = cell.number("mib").unwrap_or(1) as f64;
    let pages = values(found, "timed", "pages").unwrap_or_default();
    let mib_of = |pages: &f64| kib.map_or(mib, |kib| pages * kib / 1024.0);
    cpu_ns(found, "timed").iter().zip(pages).map(|(ns, pages)| ns / mib_of(pages) / 1e3).collect()
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
