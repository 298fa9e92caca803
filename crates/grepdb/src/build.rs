//! Files of the tree -> segments on disk, and the commit that makes them part of the database.
//!
//! In: a tree, or a list of its files. Out: segments and a new manifest.
//!
//! It does not decide which files an update reads (`fresh`).

pub(crate) mod commit;
pub(crate) mod cut;
pub(crate) mod dictionary;
pub(crate) mod pack;
pub(crate) mod segments;
mod turns;

#[cfg(test)]
mod tests;
