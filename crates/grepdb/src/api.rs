//! The front door of the library: [`index::Index`].
//!
//! ```text
//! path -> index -> build, update                       a database, made and kept
//! pattern + options -> request -> search -> matches    a callback gets each match
//! ```
//! It does not search by itself (`search`), or know a program's flags.

pub(crate) mod index;
pub(crate) mod matches;
pub(crate) mod notice;
pub(crate) mod options;
