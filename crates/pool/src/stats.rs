//! What a pool did, as plain numbers. `exposition` writes them as text.

use crate::exposition::fields;

fields! {
/// Counts since the pool was opened. Bytes are multiples of a granule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks served wholly from dirty granules: resident, no fault.
    pub dirty_hits: u64,
    /// Blocks of these that were served without the lock.
    pub front_hits: u64,
    /// Blocks served from resident granules, at least one of them known to be zero.
    pub zeroed_hits: u64,
    /// Blocks with at least one granule that was not resident.
    pub fresh: u64,
    /// Resident bytes handed out: first touches saved.
    pub reused_bytes: u64,
    /// Bytes overwritten with zeroes for `alloc_zeroed`.
    pub cleared_bytes: u64,
    /// Dirty bytes purged instead, because programs hardly touch blocks of that length.
    pub renewed_bytes: u64,
    /// Bytes of large blocks that the program never touched.
    pub untouched_bytes: u64,
    /// Bytes in blocks now.
    pub in_use_bytes: usize,
    /// The largest `in_use_bytes`.
    pub peak_in_use_bytes: usize,
    /// Free bytes kept resident now.
    pub retained_bytes: usize,
    /// Bytes of these that are known to be zero.
    pub zeroed_bytes: usize,
    /// The largest `retained_bytes`.
    pub peak_retained_bytes: usize,
    /// Calls that gave pages back to the kernel.
    pub purges: u64,
    /// Bytes given back.
    pub purged_bytes: u64,
    /// Time of these calls.
    pub purge_ns: u64,
    /// Calls to purge that the kernel refused.
    pub purge_failures: u64,
    /// Calls to populate that the kernel refused.
    pub populate_failures: u64,
    /// Bytes that were resident after populating, as the kernel says.
    pub populated_bytes: u64,
    /// Bytes of slabs that got base pages although the policy asked for others.
    pub fallback_bytes: u64,
    /// Bytes that were not resident after populating.
    pub populate_missing_bytes: u64,
    /// Bytes made resident ahead of need.
    pub stocked_bytes: u64,
    /// Time spent on that.
    pub stock_ns: u64,
    /// Bytes zeroed ahead of need, or when they were freed.
    pub scrubbed_bytes: u64,
    /// Time spent on zeroing ahead of need.
    pub scrub_ns: u64,
    /// Bytes of free memory that children did not get.
    pub withheld_bytes: u64,
    /// Blocks freed twice: the pool refused the second time.
    pub double_frees: u64,
    /// Addresses freed at which no block begins: the pool refused.
    pub unknown_frees: u64,
    /// Requests that the pool could not serve.
    pub refused: u64,
    /// Blocks that grew in place.
    pub grown_in_place: u64,
    /// Blocks that grew by moving page tables.
    pub grown_by_pages: u64,
    /// Blocks that grew by copying.
    pub grown_by_copy: u64,
}
}

/// The outcome of populating, checked by residency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Populated {
    /// Bytes that were to become resident.
    pub asked: usize,
    /// Bytes that are resident.
    pub resident: usize,
}
