//! A model of page faults with a kernel that zeroes free pages ahead of need.
//!
//! In: counts of a kernel, prices of a machine, threads and nodes. Out: fault rates, hit ratios and latencies,
//! as ranges. It measures nothing.
//!
//! # The model
//!
//! Discrete events: threads fault page after page and unmap ([`Work`]). A fault is a delay (the path), a page
//! of the thread's per-CPU list, clearing if that page is dirty, a section under a lock that threads share
//! (the page-table lock of 2004, or the counter of a VMA's lock), and the program's touch. An empty list takes
//! a batch under the lock of the zone, a long one returns a batch. A zone is a buddy allocator whose free
//! blocks are zeroed or dirty. Scrubbers clear dirty blocks from an order on, while a processor is idle.
//! Clearing, scrubbing and touching share the bandwidth of the page's node. A lock costs more if another
//! processor held it before, and more again if that one is on another node.
//!
//! The event queue is our own: the maintained crates are larger than this model (`nexosim` 1.0 brings an
//! asynchronous executor, `sim` a registry of models in JSON) or allocate a closure for each event (`desru`).
//!
//! # Sources
//!
//! | figure | from |
//! |---|---|
//! | tables of 2004 | the third document; the Wall column is recomputed from the rates |
//! | instructions of paths, bytes cleared | kernels in an emulator that counts ([`parameters`]) |
//! | prices | `faultless_prof::price`, or ranges from public measurements |
//!
//! # Validation
//!
//! [`validate`] checks in this order: one thread takes the sum of its services; exponential services give the
//! throughput of exact MVA ([`mva`]); the hit ratio of a long run is the fluid limit; the held-out rows of the
//! third document ([`document`]); the pool of a prototype kernel ([`prototype`]).
//!
//! # Limits
//!
//! Caches beyond the price of a line, TLBs, prefetching, frequency, reclaim, compaction, unfair locks, threads
//! that migrate, and more threads than processors.

pub mod document;
pub mod evidence;
pub mod forecast;
pub mod model;
pub mod mva;
pub mod parameters;
pub mod prototype;
pub mod range;
pub mod record;
pub mod validate;

mod buddy;
mod lock;
mod memory;
mod parallel;
mod queue;
mod run;

pub use forecast::{Forecast, Question, forecast};
pub use memory::Saturation;
pub use model::{Model, Outcome, Scrub, Section, Service, Sizes, Work, Zone};
pub use parameters::Parameters;
pub use range::Range;
