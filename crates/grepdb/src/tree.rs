//! The tree on disk: its rules, its files and their texts.
//!
//! In: a root and [`rules::Rules`]. Out: files with sizes and times, folders with times, decoded text.
//!
//! It does not know of databases.

pub(crate) mod content;
pub(crate) mod project;
pub(crate) mod rewalk;
pub(crate) mod rules;
pub(crate) mod snapshot;
pub(crate) mod time;
pub(crate) mod walk;
