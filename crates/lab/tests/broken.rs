//! Experiments that are broken in the ways of the documents, run like `faultless lab verify`, but without a
//! process per cell. They have a test program of their own, since other tests' faults would be counted with
//! theirs.

use faultless_lab::experiment::Notes;
use faultless_lab::record::{self, Asked, SCHEMA, VIOLATION};
use faultless_lab::runner::{Budget, Ended, Runner};
use faultless_lab::{Cell, Effort, Experiment, Phase, Record, Refusal, Scope, Sheet, Trial, trial};
use faultless_os::host::Host;
use faultless_os::page;
use faultless_os::touch::{Advice, Region};

const PAGES: usize = 4096;

/// An experiment that is right, or wrong in one of the ways of the documents.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Sound,
    FirstOptimisedAway,
    PopulatedOutside,
    SecondNeverMade,
    /// And its return value is known.
    SecondMadeUp,
    NotGivenBack,
}

struct Mapped {
    how: Broken,
    region: Region,
}

impl Experiment for Broken {
    fn sheet(&self) -> &'static Sheet {
        static SHEET: Sheet =
            Sheet { name: "broken", about: "Is a broken experiment caught?", ..Sheet::BLANK };
        &SHEET
    }

    fn cells(&self, _scope: &Scope) -> Vec<Cell> {
        vec![Cell::of("broken")]
    }

    fn memory_bytes(&self, _cell: &Cell) -> Result<u64, Refusal> {
        Ok((PAGES * page::size()) as u64)
    }

    fn trial(&self, _cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let mut region = Region::base_pages(PAGES * page::size(), page::size())?;
        if *self == Self::PopulatedOutside {
            region.touch_write(page::size());
        }
        Ok(Box::new(Mapped { how: *self, region }))
    }
}

impl Trial for Mapped {
    fn phases(&self) -> Vec<Phase> {
        vec![
            Phase::new("first", PAGES, 0).touches(PAGES).sum(PAGES as u64),
            Phase::new("second", 0, 0).touches(PAGES).sum(PAGES as u64),
            Phase::new("give-back", 0, 0),
            Phase::new("look", 0, 0).sum(0),
        ]
    }

    fn run(&mut self, phase: usize, _notes: &mut Notes) -> Result<u64, Refusal> {
        match (phase, self.how) {
            (0, Broken::FirstOptimisedAway) | (1, Broken::SecondNeverMade) => Ok(0),
            (1, Broken::SecondMadeUp) => Ok(PAGES as u64),
            (0 | 1, _) => {
                if phase == 0 {
                    self.region.touch_write(page::size());
                }
                Ok(self.region.touch_read(page::size()))
            }
            (2, Broken::NotGivenBack) => Ok(0),
            (2, _) => {
                self.region.advise(0..self.region.len_bytes(), Advice::DontNeed)?;
                Ok(0)
            }
            _ => Ok(self.region.resident_bytes() as u64),
        }
    }
}

/// The reason for status 1 of `faultless lab verify`.
fn violations_of(how: Broken) -> String {
    let (host, folder) = (Host::default(), tempfile::tempdir().unwrap());
    let effort = Effort::Verify;
    let asked = Asked {
        schema: SCHEMA,
        version: "0".into(),
        effort: effort.word().into(),
        experiments: vec![how.name().into()],
        parameters: Vec::new(),
        seed: 1,
    };
    let mut record = Record::open(folder.path(), &asked, "").unwrap();
    let scope = Scope { host: &host, processors: 1, effort };
    let experiment: &'static Broken = Box::leak(Box::new(how));
    let runner = Runner::new(vec![experiment], scope, Budget::of(effort), asked.seed);
    let ended = runner.run(&mut record, |cell, _| Ok(Some(trial::measure(experiment, cell))), |_| {});
    assert_eq!(ended, Ok(Ended::Finished));
    let results = record::read(folder.path()).unwrap();
    assert!(results.refused().is_empty());
    results.notes_of(VIOLATION).map(|note| note.text.clone()).collect::<Vec<_>>().join("; ")
}

/// One after the other: faults are counted by process.
#[test]
fn each_of_the_documents_errors_is_caught_and_a_sound_experiment_is_not_blamed() {
    assert_eq!(violations_of(Broken::Sound), "");

    let too_few = |found: &str| found.starts_with("first: ") && found.contains("faults, must be 4096");
    let found = violations_of(Broken::FirstOptimisedAway);
    assert!(too_few(&found) && found.contains("first: returned 0, must return 4096"), "{found}");
    let found = violations_of(Broken::PopulatedOutside);
    assert!(too_few(&found), "{found}");

    let found = violations_of(Broken::SecondNeverMade);
    assert!(found.contains("second: returned 0, must return 4096"), "{found}");
    // One interrupt takes longer than that; on a busy machine most samples are interrupted.
    let is_caught = |found: &String| found.contains("second: ") && found.contains("ns, takes 1024 at least");
    let found = (0..400).map(|_| violations_of(Broken::SecondMadeUp));
    assert_eq!(found.filter(is_caught).take(10).count(), 10);

    let found = violations_of(Broken::NotGivenBack);
    assert!(found.contains("look: returned ") && found.contains("must return 0"), "{found}");
}
