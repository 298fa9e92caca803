//! What the lab found, as pages: one record ([`page`]), or two beside each other ([`compare`]).
//!
//! In: figures and words that others looked up. Out: one HTML document each, with nothing in it that is fetched from
//! elsewhere, light or dark as the reader has it, readable on a phone and on paper; and text. The same input gives the same
//! bytes. What it does not do: read records, or judge.

pub mod compare;
mod figure;
pub(crate) mod frame;
pub mod page;

pub use compare::Comparison;
pub use figure::{Figure, shown};
pub use page::Report;
