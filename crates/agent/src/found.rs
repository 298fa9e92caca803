//! What the last recording of a program found.

use faultless_trace::avoid::Point;
use faultless_trace::why::Mechanism;
use serde::Deserialize;

/// A recording of a program.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// When it ended, ns since 1970.
    pub(crate) time_ns: u64,
    pub(crate) found: Found,
    /// Rounds since the program ran.
    pub(crate) idle: u32,
}

/// What `faultless report --json` says of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Found {
    pub(crate) cpu_ns: u64,
    pub(crate) avoidable: Option<Point>,
    pub(crate) mechanisms: Vec<Mechanism>,
    pub(crate) given_bytes_per_s: Option<f64>,
    pub(crate) taken_bytes_per_s: Option<f64>,
}
