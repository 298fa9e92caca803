//! The pool from outside: on the real kernel, and on a fake that Miri runs.
//!
//! Tests that need a process of their own are programs of their own: `background`, `fork`, `global`, `opening`.

mod growing;
#[cfg(not(miri))]
mod hugetlb;
mod model;
mod reclaim;
#[cfg(not(miri))]
mod sparse;
#[cfg(not(miri))]
mod threads;
#[cfg(not(miri))]
mod waiting;

/// Whether every byte has this value. Compares pieces, because a loop over bytes that nobody optimized takes seconds.
fn all_are(bytes: &[u8], value: u8) -> bool {
    let piece = [value; 1 << 12];
    bytes.chunks(piece.len()).all(|bytes| bytes == &piece[..bytes.len()])
}
