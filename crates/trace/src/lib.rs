//! Observations of a program -> their meaning. Pure: no clock, no system call, no I/O of its own.
//!
//! `prof` fills an [`Observation`] or a [`recording::Recording`]. The analyses turn it into a [`Stat`],
//! [`findings::Findings`] and other documents, which `report` prints. [`change`] and [`verdict`] hold names
//! that the lab and `report` share.
//!
//! The modules form layers without circles, bottom to top: `tuning`, `kind`, `measurement`; `observation`,
//! `clock`, `levels`, `recording`, `file`, `pairer`, `fault`; `reconcile`, `profile`, `heaps`, `program`; `avoid`, `sites`, `diff`,
//! `rounds`, `advice`, `compare`; `filter`, `tree`, `stat`, `why`; `timeline`, `repeat`, `findings`,
//! `budget`.
//!
//! ```
//! let stat = faultless_trace::Stat::from_observation(&faultless_trace::Observation::default());
//! assert!(stat.rows.is_empty());
//! ```
#![forbid(unsafe_code)]

pub mod advice;
pub mod avoid;
pub mod budget;
pub mod change;
mod clock;
pub mod compare;
pub mod diff;
mod fault;
pub mod file;
pub mod filter;
pub mod findings;
pub mod heaps;
mod kind;
mod levels;
pub mod measurement;
pub mod observation;
pub mod pairer;
pub mod profile;
pub mod program;
pub mod reconcile;
pub mod recording;
pub mod repeat;
pub mod rounds;
pub mod sites;
pub mod stat;
pub mod timeline;
pub mod tree;
mod tuning;
pub mod verdict;
pub mod why;

pub use observation::Observation;
pub use stat::Stat;
