//! What was observed of a program and what it means. Pure: no clock, no system call, no I/O of its own.
//!
//! `prof` fills an [`Observation`]; the analyses here turn it into a [`Stat`]; `report` prints that.
#![forbid(unsafe_code)]

pub mod avoid;
pub mod measurement;
pub mod observation;
pub mod stat;

pub use observation::Observation;
pub use stat::Stat;
