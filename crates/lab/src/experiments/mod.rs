//! The experiments: one file each.

mod beside;
mod chunks;
mod copy;
mod data;
mod files;
mod memory;
mod phases;
mod prefault;
mod price;
mod stride;
mod team;
mod threshold;
pub(crate) mod touch;
mod zeroing;

use crate::experiment::{Experiment, Part};

/// All of them, in the order in which they are reported.
pub const ALL: &[&dyn Experiment] = &[
    &touch::Touch,
    &copy::Copy,
    &files::Files,
    &threshold::Threshold,
    &chunks::Chunks,
    &prefault::Prefault,
    &phases::Phases,
    &zeroing::Zeroing,
    &stride::Stride,
    &price::Price,
];

/// What two documents call their programs, and our names for them.
const DOCUMENT_NAMES: [(&str, &str); 2] = [("pipeline", "chunks"), ("random-mixed", "prefault")];

/// What its document calls an experiment's program, if it has another name.
pub fn alias(name: &str) -> Option<&'static str> {
    DOCUMENT_NAMES.into_iter().find(|(_, ours)| *ours == name).map(|(theirs, _)| theirs)
}

/// All names that [`find`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    let ours = ALL.iter().map(|experiment| experiment.name());
    let parts = ALL.iter().flat_map(|experiment| experiment.sheet().parts).map(|part| part.name);
    ours.chain(parts).chain(DOCUMENT_NAMES.map(|(theirs, _)| theirs))
}

/// The experiment of that name: ours, its document's, or that of a part of it.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    let theirs = DOCUMENT_NAMES.into_iter().find(|(theirs, _)| *theirs == name);
    let name = theirs.map_or(name, |(_, ours)| ours);
    let has = |experiment: &&dyn Experiment| {
        experiment.name() == name || experiment.sheet().parts.iter().any(|part| part.name == name)
    };
    ALL.iter().copied().find(has)
}

/// The part of an experiment that has this name.
pub fn part(name: &str) -> Option<&'static Part> {
    ALL.iter().flat_map(|experiment| experiment.sheet().parts).find(|part| part.name == name)
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
        let set: std::collections::BTreeSet<_> = names().collect();
        assert_eq!(set.len(), names().count());
        for effort in [Effort::Verify, Effort::Quick, Effort::Default, Effort::Full] {
            let scope = Scope { host: &host, processors: 2, effort };
            for experiment in ALL {
                let cells = experiment.cells(&scope);
                let set: std::collections::BTreeSet<_> = cells.iter().collect();
                assert_eq!(set.len(), cells.len(), "{} {effort:?}", experiment.name());
                let sheet = experiment.sheet();
                assert!(cells.iter().all(|cell| sheet.complete(cell) == *cell), "{}", experiment.name());
                for part in sheet.parts {
                    assert!(cells.iter().any(|cell| (part.has)(cell)), "{} {effort:?}", part.name);
                }
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
