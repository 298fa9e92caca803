//! The kernel boundary: every system call, and every `unsafe` line around one. It decides nothing.
//!
//! In: plain integers, ranges and flags. Out: values, or [`Error`] with the call, its errno and the requested
//! length. Nothing here allocates unless its documentation says so, because the interposer runs on it.
//!
//! It does not hold policies (`pool`), interpret (`trace`) or print (`cli`).
//!
//! ```
//! let len = faultless_os::page::size();
//! let start = faultless_os::map::anonymous(len)?;
//! // SAFETY: it was mapped above, and nothing uses it.
//! unsafe { faultless_os::map::release(start, len) }?;
//! # Ok::<(), faultless_os::Error>(())
//! ```

pub mod activity;
pub mod advise;
pub mod balloon;
mod bare;
pub mod call;
pub mod caller;
#[cfg(feature = "profiler")]
pub mod cgroups;
pub mod close;
pub mod counters;
mod descriptors;
pub mod environment;
pub mod error;
pub mod file;
#[cfg(feature = "profiler")]
pub mod filter;
#[cfg(feature = "profiler")]
pub mod follow;
pub mod fork;
mod futex;
#[cfg(feature = "profiler")]
pub mod host;
#[cfg(feature = "inherited")]
pub mod inherited;
pub mod journal;
pub mod lock;
pub mod map;
pub mod mapping;
pub mod page;
#[cfg(feature = "profiler")]
pub mod perf;
pub mod pressure;
pub mod process_memory;
pub mod processor;
pub mod procfs;
#[cfg(feature = "profiler")]
pub mod ring;
pub mod schedule;
pub mod spawn;
#[cfg(feature = "profiler")]
pub mod steady;
#[cfg(feature = "profiler")]
pub mod syscall;
pub mod text;
pub mod thread;
pub mod touch;
#[cfg(feature = "profiler")]
pub mod tracepoint;
pub mod zero;

pub use error::{Error, Result};
