//! The last poll's metrics, for whoever asks.

use std::sync::{Arc, Mutex, PoisonError};

use crate::families::{self, Family};
use crate::own::Own;
use crate::text::Format;

/// Shared by all threads.
#[derive(Debug)]
pub(crate) struct Board {
    families: Mutex<Arc<Vec<Family>>>,
    pub(crate) own: Own,
}

impl Board {
    pub(crate) fn new() -> Self {
        Self { families: Mutex::default(), own: Own::new() }
    }

    /// Replaces the metrics.
    pub(crate) fn set(&self, families: Arc<Vec<Family>>) {
        *self.families.lock().unwrap_or_else(PoisonError::into_inner) = families;
    }

    /// The metrics as text.
    pub(crate) fn text(&self, format: Format) -> String {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner).clone();
        format.write(families, families::of_agent(&self.own))
    }
}
