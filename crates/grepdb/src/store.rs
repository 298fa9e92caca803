//! The database on disk: its files, their formats and their contents.
//!
//! ```text
//! manifest -> segments: chunks of compressed text | file tables | posting lists | chunk table | dictionary
//! changed, damaged -> overlay, inventory: which entries still count
//! ```
//! In: a folder. Out: a [`database::Database`], opened and checked.
//!
//! It does not walk the tree, build segments, or search.

pub(crate) mod cache;
pub(crate) mod change_log;
pub(crate) mod compression;
pub(crate) mod contents;
pub(crate) mod damage_log;
pub(crate) mod database;
pub(crate) mod file_entry;
pub(crate) mod file_lock;
pub(crate) mod info;
pub(crate) mod inventory;
pub(crate) mod manifest;
pub(crate) mod overlay;
pub(crate) mod segment;
