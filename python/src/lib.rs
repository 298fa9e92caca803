//! The Python package's native half: NumPy's memory handler, the pool's counters, and the search.
//!
//! In: calls of `faultless/__init__.py`. Out: capsules for NumPy, numbers, text, matches.

mod handler;
mod numpy;
mod search;

use faultless_pool::{Format, Stats, process, tuning};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn counters() -> Stats {
    process::opened().map(|pool| pool.stats()).unwrap_or_default()
}

/// The counters of the pool as a dictionary. All are zero before the first block.
#[pyfunction]
fn stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for field in counters().fields() {
        all.set_item(field.name(), field.value)?;
    }
    Ok(all)
}

/// The counters of the pool as "text", "json" or "openmetrics".
#[pyfunction]
#[pyo3(signature = (format = "text"))]
fn stats_text(format: &str) -> PyResult<String> {
    let format = match format {
        "text" => Format::Text,
        "json" => Format::Json,
        "openmetrics" => Format::OpenMetrics,
        _ => return Err(PyValueError::new_err(format!("{format:?} is none of text, json, openmetrics"))),
    };
    Ok(counters().exposed(format).to_string())
}

/// Makes free memory of the pool resident, so that later arrays do not fault. Returns the resident bytes.
#[pyfunction]
fn prewarm(py: Python<'_>, bytes: usize) -> usize {
    py.detach(|| process::pool(process::policy).map_or(0, |pool| pool.prewarm(bytes).resident))
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{
        numpy::{exchange_handler, pool_handler, replace_default_handler},
        prewarm,
        search::{Index, Matches},
        stats, stats_text,
    };

    /// Bytes from which an array's data comes from the pool.
    #[pymodule_export]
    const THRESHOLD_BYTES: usize = super::tuning::THRESHOLD_BYTES;
}
