//! A part of a profile's faults, and what of the run it is.

use serde::{Deserialize, Serialize};

use super::{Profile, Weighted};
use crate::kind::Kind;

/// Which faults of a profile a view shows; all of them by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// For each fault of the profile.
    faults: Option<Vec<bool>>,
    /// For each kind of [`super::Totals::beyond`].
    beyond: Vec<bool>,
    /// The conditions, for a reader.
    words: String,
}

/// What a filter left, beside the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Selected {
    /// The conditions, for a reader.
    pub words: String,
    /// Faults that hold them.
    pub faults: f64,
    /// Faults of the run.
    pub faults_of_run: f64,
    /// CPU time in those that hold them, ns.
    pub time_ns: f64,
    /// CPU time in all faults of the run, ns.
    pub time_ns_of_run: f64,
    /// Waits for the disk in those that hold them, ns.
    #[serde(default)]
    pub wait_ns: f64,
}

impl Selection {
    /// The faults of which `holds` is true.
    pub(crate) fn new(
        profile: &Profile,
        words: String,
        holds: impl Fn(&Weighted) -> bool,
        holds_beyond: impl Fn(Kind) -> bool,
    ) -> Self {
        Self {
            faults: Some(profile.faults.iter().map(holds).collect()),
            beyond: profile.totals.beyond.iter().map(|(kind, ..)| holds_beyond(*kind)).collect(),
            words,
        }
    }

    /// These faults of a profile.
    pub(crate) fn of_faults(faults: Vec<bool>) -> Self {
        Self { faults: Some(faults), ..Self::default() }
    }

    /// Whether faults may be left out.
    pub fn is_part(&self) -> bool {
        self.faults.is_some()
    }

    /// Whether it holds the fault of this index.
    pub(crate) fn holds(&self, index: usize) -> bool {
        self.faults.as_ref().is_none_or(|faults| faults.get(index) == Some(&true))
    }

    /// Whether it holds this entry of [`super::Totals::beyond`].
    pub(crate) fn holds_beyond(&self, index: usize) -> bool {
        self.faults.is_none() || self.beyond.get(index) == Some(&true)
    }

    /// What it leaves of a profile; `None` for all.
    pub fn of(&self, profile: &Profile) -> Option<Selected> {
        let faults = profile.faults.iter().enumerate().filter(|(index, _)| self.holds(*index));
        let beyond = profile.totals.beyond.iter().enumerate().filter(|(index, _)| self.holds_beyond(*index));
        let mut left = Selected {
            words: self.words.clone(),
            faults_of_run: profile.totals.faults() as f64,
            time_ns_of_run: profile.totals.time_ns(),
            ..Selected::default()
        };
        for (_, fault) in faults {
            left.faults += fault.faults;
            left.time_ns += fault.cost_ns;
            left.wait_ns += fault.wait_ns;
        }
        for (_, (_, faults, seconds)) in beyond {
            left.faults += *faults as f64;
            left.time_ns += seconds.unwrap_or(0.0) * 1e9;
        }
        self.is_part().then_some(left)
    }
}

impl Profile {
    /// Drops the faults that are not selected. The totals stay those of the run; [`Profile::selected`] says
    /// what part of them is left.
    #[must_use]
    pub fn keep(mut self, selection: &Selection) -> Self {
        if !selection.is_part() {
            return self;
        }
        self.selected = selection.of(&self);
        let mut index = 0..;
        self.faults.retain(|_| index.next().is_some_and(|index| selection.holds(index)));
        let mut index = 0..;
        self.basis.retain(|_| index.next().is_some_and(|index| selection.holds(index)));
        let mut index = 0..;
        self.totals.beyond.retain(|_| index.next().is_some_and(|index| selection.holds_beyond(index)));
        self
    }
}
