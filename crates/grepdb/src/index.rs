//! The trigram index: which chunks, or sixteenths of chunks, may hold three given bytes.
//!
//! In: texts of chunks. Out: posting lists as bytes, and back.
//!
//! It does not read or write files of the database (`store`), or combine lists (`search`).

pub(crate) mod interpolative;
pub(crate) mod posting_collector;
pub(crate) mod posting_list;
pub(crate) mod trigram;
