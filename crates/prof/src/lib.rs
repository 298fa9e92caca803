//! From a process to what was observed of it.
#![forbid(unsafe_code)]

pub mod facts;
pub mod price;

pub use facts::host;
