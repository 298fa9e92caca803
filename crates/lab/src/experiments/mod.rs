//! The experiments: one file each.

mod chunks;
mod copy;
pub(crate) mod fault_rate;
mod filemap;
mod latency;
mod major;
mod memory;
mod phases;
mod prefault;
mod price;
mod scale;
mod stride;
mod team;
mod threshold;
mod touch;
mod zeroing;

use crate::experiment::Experiment;

/// All of them, in the order in which they are reported.
pub const ALL: &[&dyn Experiment] = &[
    &touch::Touch,
    &copy::Copy,
    &filemap::Filemap,
    &major::Major,
    &threshold::Threshold,
    &chunks::Chunks,
    &prefault::Prefault,
    &phases::Phases,
    &fault_rate::FaultRate,
    &zeroing::Zeroing,
    &stride::Stride,
    &price::Price,
    &scale::Scale,
    &latency::Latency,
];

/// What two documents call their programs, and our names for them.
const DOCUMENT_NAMES: [(&str, &str); 2] = [("pipeline", "chunks"), ("random-mixed", "prefault")];

/// All names that [`find`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    let ours = ALL.iter().map(|experiment| experiment.name());
    ours.chain(DOCUMENT_NAMES.map(|(theirs, _)| theirs))
}

/// The experiment of that name, ours or its document's.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    let theirs = DOCUMENT_NAMES.into_iter().find(|(theirs, _)| *theirs == name);
    let name = theirs.map_or(name, |(_, ours)| ours);
    ALL.iter().copied().find(|experiment| experiment.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Effort, Scope};
    use crate::trial;
    use faultless_os::host::Host;

    #[test]
    fn names_and_cells_are_all_different() {
        let host = Host::read();
        let mut names: Vec<_> = ALL.iter().map(|experiment| experiment.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for effort in [Effort::Verify, Effort::Quick, Effort::Default, Effort::Full] {
            let scope = Scope { host: &host, processors: 2, effort };
            for experiment in ALL {
                let cells = experiment.cells(&scope);
                let set: std::collections::BTreeSet<_> = cells.iter().collect();
                assert_eq!(set.len(), cells.len(), "{} {effort:?}", experiment.name());
                assert!(cells.iter().all(|cell| cell.experiment == experiment.name()));
                assert!(
                    cells.iter().all(|cell| experiment.memory_bytes(cell).is_ok()),
                    "{}",
                    experiment.name()
                );
                assert!(!cells.is_empty(), "{} {effort:?}", experiment.name());
            }
        }
    }

    #[test]
    fn wrong_parameters_are_refused_by_every_experiment() {
        for experiment in ALL {
            let cell = crate::Cell::of(experiment.name()).with("nonsense", 1);
            let sample = trial::measure(*experiment, &cell);
            assert!(
                sample.refused.is_some_and(|reason| reason.contains("is missing")),
                "{}",
                experiment.name()
            );
        }
    }
}
