//! Experiments that are broken in the ways of the documents, in a process of this one test's own: other tests' faults would be
//! counted with theirs.

use faultless_lab::experiment::Notes;
use faultless_lab::{Cell, Document, Experiment, Phase, Refusal, Scope, Trial, trial};
use faultless_os::page;
use faultless_os::touch::Region;

const PAGES: usize = 512;

/// An experiment that is right, or wrong in one of the ways of the documents.
struct Broken(&'static str);

struct Mapped {
    how: &'static str,
    region: Region,
}

impl Experiment for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn about(&self) -> &'static str {
        "Is a broken experiment caught?"
    }

    fn documents(&self) -> &'static [Document] {
        &[Document::Hardware]
    }

    fn cells(&self, _scope: &Scope) -> Vec<Cell> {
        vec![Cell::of("broken")]
    }

    fn memory_bytes(&self, _cell: &Cell) -> Result<u64, Refusal> {
        Ok((PAGES * page::size()) as u64)
    }

    fn trial(&self, _cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let mut region = Region::base_pages(PAGES * page::size(), page::size())?;
        if self.0 == "populated outside the count" {
            region.touch_write(page::size());
        }
        Ok(Box::new(Mapped { how: self.0, region }))
    }
}

impl Trial for Mapped {
    fn phases(&self) -> Vec<Phase> {
        vec![
            Phase::new("first", PAGES, 0).work(PAGES).sum(PAGES as u64),
            Phase::new("second", 0, 0).work(PAGES).sum(PAGES as u64),
        ]
    }

    fn run(&mut self, phase: usize, _notes: &mut Notes) -> Result<u64, Refusal> {
        match (self.how, phase) {
            // The stopwatch around nothing of "Bringing The Hardware And Windows To Its Limits".
            ("second touch never made", 1) | ("first touch optimised away", 0) => return Ok(0),
            (_, 0) => self.region.touch_write(page::size()),
            _ => {}
        }
        Ok(self.region.touch_read(page::size()))
    }
}

fn violations_of(how: &'static str) -> String {
    let sample = trial::measure(&Broken(how), &Cell::of("broken"));
    assert_eq!(sample.refused, None);
    sample.violations.join("; ")
}

/// One after the other: faults are counted by process.
#[test]
fn each_of_the_documents_errors_is_caught_and_a_sound_experiment_is_not_blamed() {
    assert_eq!(violations_of("nothing"), "");

    let found = violations_of("first touch optimised away");
    assert!(found.contains("first: ") && found.contains("faults, must be 512"), "{found}");
    let found = violations_of("second touch never made");
    assert!(found.contains("second: returned 0, must return 512"), "{found}");

    let found = violations_of("populated outside the count");
    assert!(found.contains("first: ") && found.contains("faults, must be 512"), "{found}");
}
