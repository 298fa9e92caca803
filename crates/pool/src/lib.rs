//! The pool: `alloc` and `free` of large blocks that keep their pages.
//!
//! ```text
//! request -> block -> pool -> front -> core (lock) -> slabs -> Backend -> os -> kernel
//! ```
//! A pool reserves one range of 2 MiB slabs. A slab has 128 granules of 16 KiB, and a block is a run of granules. The
//! tables that describe granules lie out of line: the pool never writes into free memory. A freed block stays resident
//! and is handed out again first. The pool gives it back to the kernel only beyond a bound in bytes, or after a time.
//!
//! With the kernel as backend the pool never allocates from the heap, never panics and has no thread-local storage. The
//! malloc interposer depends on that.
//!
//! Out of scope: blocks much smaller than a granule. It starts one background thread, and only if its caller does so.

mod allocator;
mod backend;
mod block;
mod blocks;
mod claim;
mod class;
mod core;
mod density;
mod doubt;
mod error;
mod exposition;
mod fake;
mod front;
mod global;
mod kernel;
mod policy;
mod pool;
pub mod process;
mod slabs;
mod sparsity;
mod stats;
pub mod tuning;
mod wakeup;

pub use backend::{Alteration, Backend, FRONT_WORDS, Moved, Reserved, Residency, Span};
pub use block::{Block, Memory, ZeroedBlock};
pub use error::Error;
pub use exposition::{Exposition, Field, Format, Kind, Label};
pub use fake::Fake;
pub use global::Global;
#[cfg(feature = "inject-failures")]
pub use kernel::Failing;
pub use kernel::{Kernel, Table};
pub use policy::{Page, Policy, Prefault, Retain, Scrub};
pub use pool::Pool;
pub use slabs::{Slab, State};
pub use stats::{Populated, Stats};

/// The Rust programs of the two READMEs run as written.
#[cfg(all(doctest, not(miri)))]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
struct Readme;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
