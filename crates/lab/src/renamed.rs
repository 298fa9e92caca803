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
    ("touch", "mappers", "*", &[("beside", "files"), ("others", "*")]),
    ("touch", "flush", "yes", &[("beside", "flushed-files")]),
    ("touch", "flush", "no", &[]),
    ("scale", "writers", "*", &[("others", "*")]),
    ("scale", "beside", "threads", &[("beside", "maps")]),
    ("scale", "beside", "processes", &[("beside", "maps-apart")]),
    ("fault-rate", "arm", "kernel", &[("memory", "own")]),
    ("fault-rate", "arm", "on-get", &[("memory", "zeroed-on-get")]),
    ("fault-rate", "arm", "ahead", &[("memory", "zeroed-ahead")]),
    ("filemap", "cache", "warm", &[("from", "cache")]),
    ("filemap", "cache", "cold", &[("from", "disk")]),
    ("major", "source", "file", &[("from", "disk"), ("order", "random")]),
    ("major", "source", "cached", &[("from", "cache"), ("order", "random")]),
    ("major", "source", "swap", &[("from", "swap"), ("order", "random")]),
    ("major", "source", "anonymous", &[("from", "new"), ("order", "random")]),
    ("major", "source", "maps", &[("how", "remap"), ("from", "new")]),
    ("major", "beside", "process", &[("beside", "major-apart")]),
    ("latency", "kib", "*", &[("array", "chain"), ("kib", "*")]),
];

/// The cell in this version's names, complete.
pub(crate) fn cell(old: &Cell) -> Cell {
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
    experiments::find(&old.experiment).map_or_else(|| new.clone(), |found| found.sheet().complete(&new))
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
    new: [String; 2],
}

impl Names {
    /// Gives a row the names of this version.
    pub(crate) fn renew(
        &mut self,
        experiment: &mut String,
        cell: &mut String,
        round: &mut u32,
    ) -> Result<(), Refusal> {
        *round = self::round(experiment, *round);
        if [&*experiment, &*cell] != [&self.old[0], &self.old[1]] {
            let new = self::cell(&Cell::parse(experiment, cell.split_whitespace())?);
            self.new = [new.experiment.clone(), new.words().join(" ")];
            self.old = [experiment.clone(), cell.clone()];
        }
        [*experiment, *cell] = self.new.clone();
        Ok(())
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
        cell(&Cell::parse(words.next().unwrap(), words).unwrap()).to_string()
    }

    #[test]
    fn old_cells_have_new_names() {
        for (old, new) in [
            (
                "touch access=read mib=64 threads=2 lock=no mappers=0 flush=no",
                "access=read memory=shared lines=1 mib=64 threads=2 lock=no beside=none others=0",
            ),
            (
                "touch access=write mib=64 threads=2 lock=no mappers=2 flush=yes",
                "access=write memory=shared lines=1 mib=64 threads=2 lock=no beside=flushed-files others=2",
            ),
            (
                "scale memory=own threads=4 mib=64 writers=1 beside=processes",
                "access=write memory=own lines=1 mib=256 threads=4 lock=no beside=maps-apart others=1",
            ),
            (
                "scale memory=own threads=4 mib=256",
                "access=write memory=own lines=1 mib=256 threads=4 lock=no beside=none others=0",
            ),
            (
                "fault-rate arm=ahead mib=512 threads=1 lines=8",
                "access=write memory=zeroed-ahead lines=8 mib=512 threads=1 lock=no beside=none others=0",
            ),
        ] {
            assert_eq!(renamed(old), format!("touch {new}"));
            assert_eq!(renamed(&renamed(old)), format!("touch {new}"), "new names stay");
        }
        for (old, new) in [
            (
                "filemap how=read cache=cold mib=128 threads=1",
                "how=read from=disk order=forward mib=128 threads=1 beside=none",
            ),
            (
                "major source=swap beside=none mib=64",
                "how=fault from=swap order=random mib=64 threads=1 beside=none",
            ),
            (
                "major source=maps beside=process mib=64",
                "how=remap from=new order=forward mib=64 threads=1 beside=major-apart",
            ),
        ] {
            assert_eq!(renamed(old), format!("files {new}"));
        }
        assert_eq!(renamed("latency kib=16"), "stride array=chain kib=16");
        assert_eq!(renamed("phases page=base samples=10"), "phases page=base threads=1 samples=10");
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
