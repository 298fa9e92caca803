//! Names of older versions: cells, phases and rounds of their records as this version has them.
//!
//! `scale` and `fault-rate` were experiments of their own and are parts of `touch` now, `filemap` and `major` parts of
//! `files`, and `latency` a part of `stride`. Some of their cells are the same cell now. The rounds of two experiments do not
//! belong together, so those of `scale` and `fault-rate` get numbers that the others never reach.

use crate::cell::{Cell, Refusal};
use crate::experiments;

/// A parameter of an older version: experiment, name, value, and what a cell has instead. `*` is any value, and the same.
type Renamed = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const RENAMED: [Renamed; 19] = [
    ("touch", "mappers", "0", &[]),
    ("touch", "mappers", "*", &[("beside", "files")]),
    ("touch", "flush", "*", &[]),
    ("scale", "writers", "*", &[("others", "*")]),
    ("scale", "beside", "threads", &[("beside", "maps")]),
    ("scale", "beside", "processes", &[("beside", "maps-apart")]),
    ("fault-rate", "arm", "kernel", &[("memory", "own")]),
    ("fault-rate", "arm", "on-get", &[("memory", "zeroed-on-get")]),
    ("fault-rate", "arm", "ahead", &[("memory", "zeroed-ahead")]),
    ("filemap", "cache", "warm", &[("from", "cache")]),
    ("filemap", "cache", "cold", &[("from", "disk")]),
    ("files", "order", "*", &[]),
    ("major", "source", "file", &[("from", "disk")]),
    ("major", "source", "cached", &[("from", "cache")]),
    ("major", "source", "swap", &[("from", "swap")]),
    ("major", "source", "anonymous", &[("from", "new")]),
    ("major", "source", "maps", &[("how", "remap"), ("from", "new")]),
    ("latency", "kib", "*", &[("array", "chain"), ("kib", "*")]),
    ("phases", "page", "base", &[]),
];

/// Cells that were measured once and that no claim needs: an experiment, and values of a parameter, old or new. Records are
/// read without them.
const GONE: [(&str, &str, &[&str]); 10] = [
    ("touch", "beside", &["files", "flushed-files"]),
    ("filemap", "how", &["fault", "willneed", "populate"]),
    ("files", "how", &["willneed", "populate"]),
    ("files", "order", &["forward"]),
    ("files", "beside", &["major-apart"]),
    ("major", "beside", &["process"]),
    ("chunks", "memory", &["populate", "thp"]),
    ("phases", "page", &["thp"]),
    ("prefault", "trap", &["inaccessible", "read-only", "non-blocking", "given-back", "forked"]),
    ("price", "kind", &["zero-page", "fork", "munmap", "dontneed", "free", "mremap-aligned", "mprotect"]),
];

/// The experiment that another of an older version has become a part of.
pub(crate) fn experiment(old: &str) -> &str {
    if old == "filemap" { "files" } else { old }
}

/// The cell in this version's names, complete; nothing if it is gone.
pub(crate) fn cell(old: &Cell) -> Option<Cell> {
    let mut new = Cell::of(&old.experiment);
    let mut set = |name: &str, value: String| {
        new.parameters.retain(|(known, _)| known != name);
        new.parameters.push((name.to_owned(), value));
    };
    for (name, value) in &old.parameters {
        let is_it =
            |row: &&Renamed| (row.0, row.1) == (&old.experiment, name) && [value, "*"].contains(&row.2);
        match RENAMED.iter().find(is_it) {
            Some((.., others)) => {
                others.iter().for_each(|(name, other)| set(name, other.replace('*', value)))
            }
            None => set(name, value.clone()),
        }
    }
    match old.experiment.as_str() {
        // Its size was that of each thread.
        "scale" if old.text("writers").is_ok() => {
            if let (Ok(each), Ok(threads)) = (old.number("mib"), old.number("threads")) {
                set("mib", (each * threads).to_string());
            }
        }
        "phases" if old.text("threads").is_err() => set("threads", "1".to_owned()),
        _ => {}
    }
    let has =
        |cell: &Cell, name: &str, values: &[&str]| cell.text(name).is_ok_and(|own| values.contains(&own));
    let is_gone = |(of, name, values): &(&str, &str, &[&str])| {
        *of == old.experiment && (has(old, name, values) || has(&new, name, values))
    };
    if GONE.iter().any(is_gone) {
        return None;
    }
    let found = experiments::find(experiment(&old.experiment));
    Some(found.map_or_else(|| new.clone(), |found| found.sheet().complete(&new)))
}

/// A phase of an experiment in this version's names.
pub(crate) fn phase<'a>(experiment: &str, phase: &'a str) -> &'a str {
    match (experiment, phase) {
        ("touch", "map") => "setup",
        ("fault-rate", "timed") | ("major", "touch") => "first",
        (_, phase) => phase,
    }
}

/// A round of an experiment.
pub(crate) fn round(experiment: &str, round: u32) -> u32 {
    const MOST: u32 = 1000;
    match experiment {
        "scale" => MOST + round,
        "fault-rate" => 2 * MOST + round,
        _ => round,
    }
}

/// The new names of the cells that a table has: most of its rows have the cell of the row before.
#[derive(Default)]
pub(crate) struct Names {
    old: [String; 2],
    new: Option<[String; 2]>,
}

impl Names {
    /// Gives a row the names of this version; whether its cell is still there.
    pub(crate) fn renew(
        &mut self,
        experiment: &mut String,
        cell: &mut String,
        round: &mut u32,
    ) -> Result<bool, Refusal> {
        *round = self::round(experiment, *round);
        if [&*experiment, &*cell] != [&self.old[0], &self.old[1]] {
            let new = self::cell(&Cell::parse(experiment, cell.split_whitespace())?);
            self.new = new.map(|new| [new.experiment.clone(), new.words().join(" ")]);
            self.old = [experiment.clone(), cell.clone()];
        }
        if let Some(new) = &self.new {
            [*experiment, *cell] = new.clone();
        }
        Ok(self.new.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn renamed(text: &str) -> String {
        let mut words = text.split(' ');
        let new = cell(&Cell::parse(words.next().unwrap(), words).unwrap());
        new.map_or("gone".to_owned(), |cell| cell.to_string())
    }

    #[test]
    fn old_cells_have_new_names() {
        for (old, new) in [
            (
                "touch access=write mib=64 threads=2 lock=no mappers=0 flush=no",
                "memory=shared lines=1 mib=64 threads=2 lock=no beside=none others=0",
            ),
            (
                "scale memory=own threads=4 mib=64 writers=1 beside=processes",
                "memory=own lines=1 mib=256 threads=4 lock=no beside=maps-apart others=1",
            ),
            (
                "scale memory=own threads=4 mib=256",
                "memory=own lines=1 mib=256 threads=4 lock=no beside=none others=0",
            ),
            (
                "fault-rate arm=ahead mib=512 threads=1 lines=8",
                "memory=zeroed-ahead lines=8 mib=512 threads=1 lock=no beside=none others=0",
            ),
        ] {
            assert_eq!(renamed(old), format!("touch access=write {new}"));
            assert_eq!(renamed(&renamed(old)), format!("touch access=write {new}"), "new names stay");
        }
        for (old, new) in [
            (
                "filemap how=read cache=cold mib=128 threads=1",
                "how=read from=disk mib=128 threads=1 beside=none",
            ),
            ("major source=swap beside=none mib=64", "how=fault from=swap mib=64 threads=1 beside=none"),
            ("major source=maps beside=major mib=64", "how=remap from=new mib=64 threads=1 beside=major"),
        ] {
            assert_eq!(renamed(old), format!("files {new}"));
        }
        assert_eq!(renamed("latency kib=16"), "stride array=chain kib=16");
        assert_eq!(renamed("phases page=base samples=10"), "phases threads=1 samples=10");
        for gone in [
            "touch access=write mib=64 threads=2 lock=no mappers=2 flush=yes",
            "filemap how=fault cache=warm mib=128 threads=1",
        ] {
            assert_eq!(renamed(gone), "gone", "{gone}");
        }
        assert_eq!(renamed("kernel arm=base lines=1"), "kernel arm=base lines=1", "no experiment of ours");
    }

    #[test]
    fn every_row_of_the_committed_records_is_kept_as_a_cell_that_its_experiment_takes() {
        let folders =
            std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../record/lab")).unwrap();
        let mut records = 0;
        for folder in folders.map(|folder| folder.unwrap().path()) {
            let Ok(rows) = record::read_rows(&folder) else { continue };
            records += 1;
            let mut names = BTreeSet::new();
            for row in &rows {
                let experiment =
                    experiments::ALL.iter().find(|known| known.name() == row.experiment).unwrap();
                if names.insert((&row.experiment, &row.cell, row.round, &row.phase, &row.quantity)) {
                    let cell = Cell::parse(&row.experiment, row.cell.split(' ')).unwrap();
                    assert_eq!(experiment.sheet().complete(&cell), cell);
                    assert!(experiment.memory_bytes(&cell).is_ok(), "{cell}");
                }
            }
            assert_eq!(names.len(), rows.len(), "{}: two rows are one now", folder.display());
        }
        assert!(records > 0);
    }
}
