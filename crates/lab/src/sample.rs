//! A sample: what one process measured of one cell.

use serde::{Deserialize, Serialize};

/// The phase of values about the machine.
pub(crate) const MACHINE: &str = "machine";
/// Cost of a first touch of a base page just before a sample. Its memory was touched and given back before, so
/// a higher cost means that the hypervisor had not backed it.
pub(crate) const FIRST_TOUCH: &str = "first_touch_ns";

/// Note: faults of the phase's own threads or children. They replace the faults of the process where others
/// fault at the same time.
pub(crate) const OWN_FAULTS: &str = "own_faults";

/// Note: CPU time of the phase's own threads, ns, by their own clocks.
pub(crate) const OWN_CPU: &str = "own_cpu_ns";

/// Note: wall time of the phase's own threads, ns: from the moment when all have started to the end of the last
/// one. Starting and joining them is not in it.
pub(crate) const OWN_WALL: &str = "own_wall_ns";

/// One quantity of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The phase, or `machine` for a value about the machine.
    pub phase: String,
    /// The quantity; its unit ends the name.
    pub quantity: String,
    /// The value.
    pub value: f64,
}

/// What one process measured of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// All that was measured.
    pub values: Vec<Value>,
    /// The violations: wrong counts, phases that can't have happened.
    pub violations: Vec<String>,
    /// Why the machine can't do it; there are no values then.
    pub refused: Option<String>,
}

impl Sample {
    /// Adds one value.
    pub fn add(&mut self, phase: &str, quantity: &str, value: f64) {
        self.values.push(Value { phase: phase.into(), quantity: quantity.into(), value });
    }
}
