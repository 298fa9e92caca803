//! One setting of this machine and what it means for page faults.
//!
//! Each rule names the document of its meaning, and the first kernel to which it applies. Figures in a row
//! come from this machine. Abbreviations:
//!
//! - `transhuge.rst`, `hugetlbpage.rst`, `ksm.rst`, `zswap.rst`: Documentation/admin-guide/mm of Linux
//! - `vm.rst`, `kernel.rst`: admin-guide/sysctl
//! - `kernel-parameters.txt`, `cgroup-v2.rst`: admin-guide
//! - `overcommit-accounting.rst`: mm; `psi.rst`: accounting
//! - manual pages: man-pages 6.03

use faultless_os::host::Host;
use faultless_prof::price::Prices;
use serde::Serialize;

/// A setting, its value here, what that means, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) setting: &'static str,
    pub(super) value: String,
    pub(super) grade: Grade,
    pub(super) meaning: String,
    pub(super) advice: Option<String>,
    /// The document of the meaning.
    pub(super) source: &'static str,
}

/// The urgency of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Grade {
    /// It costs time here and can be changed.
    Act,
    /// Worth knowing.
    Note,
    /// As it should be.
    Good,
}

impl Row {
    pub(super) fn new(
        setting: &'static str,
        value: impl Into<String>,
        grade: Grade,
        meaning: impl Into<String>,
    ) -> Self {
        Self { setting, value: value.into(), grade, meaning: meaning.into(), advice: None, source: "" }
    }

    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    pub(super) fn source(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }
}

/// Makes a row, if it applies to this machine.
pub(super) type Rule = fn(&Host, &Prices) -> Option<Row>;
