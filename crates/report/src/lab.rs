//! The lab's results as pages and text: one record ([`page`]), or two side by side ([`compare`]).
//!
//! In: figures and words. Out: one HTML document each, or text. A document loads nothing from elsewhere. It
//! follows the reader's light or dark mode, and is readable on a phone and on paper. The same input gives the
//! same bytes. This module neither reads records nor judges them.

pub mod compare;
pub mod page;
mod quantity;

pub use compare::Comparison;
pub use page::Report;
pub use quantity::{Quantity, shown};
