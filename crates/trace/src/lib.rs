//! What was observed of a program and what it means. Pure: no clock, no system call, no I/O of its own.
//!
//! `prof` fills an [`Observation`]; the analyses here turn it into a [`Stat`]; `report` prints that. What the lab and `report`
//! both have to name is here as well: [`change`], [`verdict`].
//!
//! ```
//! let stat = faultless_trace::Stat::from_observation(&faultless_trace::Observation::default());
//! assert!(stat.rows.is_empty());
//! ```
#![forbid(unsafe_code)]

pub mod advice;
pub mod avoid;
pub mod change;
pub mod cure;
pub mod diff;
mod fault;
pub mod file;
pub mod findings;
mod kind;
mod levels;
pub mod measurement;
pub mod observation;
pub mod profile;
pub mod reconcile;
pub mod recording;
pub mod sites;
pub mod stat;
pub mod timeline;
mod tuning;
pub mod verdict;

pub use observation::Observation;
pub use stat::Stat;
