//! files: what a fault costs by where its page comes from, what read(2) costs, and a mapping beside major faults.
//!
//! | parameter | meaning |
//! |---|---|
//! | `from=cache` | a file's random data, in the page cache |
//! | `from=disk` | the same, dropped from the page cache before (posix_fadvise); `os::file` compares it with root's drop_caches |
//! | `from=swap`, `from=new` | memory in swap (in zram or in a file on a disk), memory that was never touched |
//! | `how=fault` | one page of each 64 KiB, in a random order, without read-ahead: each access is one fault, and all are major or none |
//! | `how=read` | read(2) into new memory, the document's case: the kernel takes a fault per page of the buffer |
//! | `how=remap` | map, touch and unmap 64 KiB again and again, with or without others `beside` |
//!
//! "Bringing The Hardware And Windows To Its Limits" calls hard faults "very slow" without a figure, and a footnote of
//! "A queue of page faults" says that a thread which waits for one blocked threads with virtual memory operations. With
//! `beside=major` a thread takes major faults of a file meanwhile. With `beside=read` a thread waits for the same disk in
//! read(2), and with `beside=spin` it only computes: so what is left is the wait inside a fault.
//!
//! The file is temporary, in TMPDIR.

mod claims;
mod reading;

use faultless_os::host::Host;

use super::beside::Beside;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{Chart, Column, Effort, Experiment, Parameter, Part, Scope, Sheet, Trial};
use crate::results::{Quantities, us_per_page, values, wall_ms, wall_ns};

pub(super) struct Files;

/// Maps, touches and unmaps of a cell, for each MiB.
const MAPS_PER_MIB: usize = 64;

static SHEET: Sheet = Sheet {
    name: "files",
    about: "What does a page cost by where it comes from, and do major faults hold up threads that map memory?",
    documents: &[Document::Hardware, Document::Queue],
    parameters: &[
        Parameter::usual(
            "how",
            "fault",
            "fault (on a page of each 64 KiB, in a random order), read (read(2) of a file), or remap (map, touch and unmap 64 KiB)",
        ),
        Parameter::usual("from", "cache", "cache or disk (a file), swap, new"),
        Parameter::named("mib", "MiB in all"),
        Parameter::usual("threads", "1", "threads, each a part"),
        Parameter::usual("beside", "none", "of remap: major, read or spin"),
    ],
    varied: VARIED,
    columns: COLUMNS,
    charts: CHARTS,
    claims: claims::claims,
    parts: &[Part {
        name: "major",
        about: "What does a major fault cost beside a minor one, and does it hold up threads that map memory?",
        has: |cell| !is_read(cell),
        varied: VARIED,
        columns: COLUMNS,
        theirs: Vec::new,
    }],
    ..Sheet::BLANK
};

const VARIED: &[&str] = &["how", "from", "beside"];

impl Experiment for Files {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([4, 16, 128, 1024]);
        let mut threads =
            if scope.effort == Effort::Full { scope.threads() } else { vec![1, scope.processors] };
        threads.dedup();
        let mut words = Vec::new();
        for from in ["cache", "disk"] {
            words.extend(
                threads.iter().map(|threads| format!("how=read from={from} mib={mib} threads={threads}")),
            );
        }
        let mib = scope.pick([4, 16, 64, 256]);
        words.extend(FROM.map(|(from, _)| format!("from={from} mib={mib}")));
        words.extend(BESIDE.map(|(beside, _)| format!("how=remap from=new mib={mib} beside={beside}")));
        words.iter().map(|words| SHEET.cell(words)).collect()
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let Asked { how, len_bytes, .. } = Asked::of(cell)?;
        // The page cache, and the buffer of read(2).
        Ok(len_bytes as u64 * if how == How::Read { 2 } else { 1 })
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let asked = Asked::of(cell)?;
        if asked.from == From::Swap {
            let swaps = Host::read().swaps.unwrap_or_default();
            if swaps.iter().map(|swap| swap.len_bytes).sum::<u64>() < asked.len_bytes as u64 {
                let mib = asked.len_bytes >> 20;
                return Err(Refusal(format!("{cell}: there is no swap for {mib} MiB: {}", reading::SWAP)));
            }
        }
        reading::trial(asked)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Fault,
    Read,
    Remap,
}

const HOWS: [(&str, How); 3] = [("fault", How::Fault), ("read", How::Read), ("remap", How::Remap)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Cache,
    Disk,
    Swap,
    New,
}

const BESIDE: [(&str, Option<Beside>); 4] = [
    ("none", None),
    ("major", Some(Beside::Major)),
    ("read", Some(Beside::Read)),
    ("spin", Some(Beside::Spin)),
];

const FROM: [(&str, From); 4] =
    [("cache", From::Cache), ("disk", From::Disk), ("swap", From::Swap), ("new", From::New)];

/// A cell's parameters.
#[derive(Clone, Copy, Debug)]
struct Asked {
    how: How,
    from: From,
    len_bytes: usize,
    threads: usize,
    beside: Option<Beside>,
}

impl Asked {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
        let asked = Self {
            how: cell.choice("how", &HOWS)?,
            from: cell.choice("from", &FROM)?,
            len_bytes: cell.mib("mib")?,
            threads: cell.number("threads")?,
            beside: cell.choice("beside", &BESIDE)?,
        };
        let is_remap = asked.how == How::Remap;
        let wrong = if asked.beside.is_some() && !is_remap {
            Some("beside takes none, but for how=remap")
        } else if is_remap && (asked.from != From::New || asked.threads > 1) {
            Some("how=remap takes from=new and threads=1")
        } else if asked.how == How::Read && !asked.is_file() {
            Some("how=read takes a file, from=cache or from=disk")
        } else {
            None
        };
        wrong.map_or(Ok(asked), |what| Err(Refusal(format!("{cell}: {what}"))))
    }

    fn is_file(&self) -> bool {
        matches!(self.from, From::Cache | From::Disk)
    }
}

/// Whether a cell reads a file from its beginning to its end.
fn is_read(cell: &Cell) -> bool {
    cell.text("how") == Ok("read")
}

const COLUMNS: &[Column] = &[
    Column { head: "first ms", values: |cell, found| of_read(cell, wall_ms(found, "first")) },
    Column { head: "first MB/s", values: |cell, found| of_read(cell, mib_per_s(cell, found)) },
    Column { head: "first us/page", values: |cell, found| of_read(cell, us_per_page(cell, found, "first")) },
    Column { head: "second ms", values: |cell, found| of_read(cell, wall_ms(found, "second")) },
    Column { head: "us each", values: us_each },
    Column {
        head: "major faults",
        values: |_, found| values(found, "first", "major_faults").unwrap_or_default().to_vec(),
    },
];

fn of_read(cell: &Cell, figures: Vec<f64>) -> Vec<f64> {
    if is_read(cell) { figures } else { Vec::new() }
}

/// MiB per second of the first read: the documents' MB/s.
fn mib_per_s(cell: &Cell, found: &Quantities) -> Vec<f64> {
    let mib = cell.number("mib").unwrap_or(0) as f64;
    wall_ns(found, "first").iter().map(|ns| mib * 1e9 / ns).collect()
}

/// Wall time of a fault, or of a map, touch and unmap, us.
fn us_each(cell: &Cell, found: &Quantities) -> Vec<f64> {
    let wall_us = wall_ns(found, "first").iter().map(|ns| ns / 1e3);
    if is_read(cell) {
        return Vec::new();
    }
    if cell.text("how") == Ok("remap") {
        let count = cell.number("mib").unwrap_or(0) * MAPS_PER_MIB;
        return wall_us.map(|us| us / count as f64).collect();
    }
    let of = |quantity| values(found, "first", quantity).unwrap_or_default().iter();
    let faults = of("minor_faults").zip(of("major_faults")).map(|(minor, major)| minor + major);
    wall_us.zip(faults).map(|(us, faults)| us / faults.max(1.0)).collect()
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "major-each",
        title: "A fault by where its page comes from",
        x: "from",
        x_label: "source of the page",
        y_label: "us per fault",
        values: |cell, found| if cell.text("how") == Ok("fault") { us_each(cell, found) } else { Vec::new() },
        ..Chart::BLANK
    },
    Chart {
        id: "major-beside",
        title: "Mapping memory beside major faults",
        x: "beside",
        x_label: "beside it",
        y_label: "us per map, touch and unmap of 64 KiB",
        values: |cell, found| if cell.text("how") == Ok("remap") { us_each(cell, found) } else { Vec::new() },
        ..Chart::BLANK
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (words, expected) in [
            ("mib=1 beside=major", "for how=remap"),
            ("mib=1 how=remap", "takes from=new"),
            ("mib=1 how=read from=swap", "takes a file"),
            ("mib=1 how=remap from=new beside=program", "none, major, read or spin"),
        ] {
            let refused = Asked::of(&SHEET.cell(words)).unwrap_err().0;
            assert!(refused.contains(expected), "{words}: {refused}");
        }
    }
}
