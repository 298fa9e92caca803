//! The result of a workload's body, and the arithmetic of its checksum.

use super::truth::Truth;

/// The result of one workload.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// The same for the same options, whatever the allocator.
    pub(super) checksum: u64,
    /// Bytes of all blocks together; a sparse workload counts its blocks as fully written.
    pub(super) processed_bytes: u64,
    /// The cost of first touches.
    pub(super) truth: Truth,
}

/// Mixes one value into a checksum; the order matters.
pub(super) fn mix(checksum: u64, value: u64) -> u64 {
    (checksum ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

/// Sum of words: as fast as memory can be read.
pub(super) fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word))
}
