//! The pool: `alloc` and `free` of large blocks that keep their pages.
//!
//! ```text
//! request -> block -> pool -> front -> core (lock) -> place, lists, state -> Backend -> os -> kernel
//! ```
//! One reserved range of 2 MiB slabs, each 128 granules of 16 KiB; a block is a run of granules. What is known about a
//! granule lives out of line: nothing is ever written into free memory. A freed block stays resident, is handed out
//! again first, and is given back to the kernel only beyond a bound in bytes.
//!
//! With the kernel as backend nothing here allocates from the heap, uses thread-local storage or panics, so the
//! malloc interposer stands on it.
//!
//! What it does not do: blocks much smaller than a granule. One thread, the keeper, where a face allows it.

mod allocator;
mod altered;
mod backend;
mod block;
mod blocks;
mod chores;
mod class;
mod core;
mod decay;
mod density;
mod discover;
mod errand;
mod error;
mod exposition;
mod fake;
mod fork;
mod front;
mod global;
mod keeper;
mod kernel;
mod limits;
mod lists;
mod place;
mod policy;
mod pool;
pub mod process;
mod resize;
mod state;
mod stats;
mod touch;
mod zeroed;

pub use backend::{Backend, FRONT_WORDS, Moved, Reserved, Span, Touched};
pub use block::{Block, Memory};
pub use chores::Populated;
pub use error::Error;
pub use exposition::{Exposition, Field, Format, Kind, Label};
pub use fake::Fake;
pub use global::Global;
pub use kernel::{Failing, Kernel, Table};
pub use policy::{Page, Policy, Prefault, Retain, Scrub, tuning};
pub use pool::Pool;
pub use state::{Slab, State};
pub use stats::Stats;
pub use zeroed::ZeroedBlock;

/// The Rust programs of the README run as written.
#[cfg(all(doctest, not(miri)))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
