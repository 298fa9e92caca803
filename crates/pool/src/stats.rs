//! What a pool did, as plain numbers; `exposition` writes them.

use crate::exposition::fields;

fields! {
/// Counts since the pool was opened; bytes are multiples of a granule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks served wholly from dirty granules: resident, no fault.
    pub dirty_hits: u64,
    /// Those of them that were served without the lock.
    pub front_hits: u64,
    /// Blocks served from resident granules, at least one of them known to be zero.
    pub zeroed_hits: u64,
    /// Blocks with at least one granule that was not resident.
    pub fresh: u64,
    /// Resident bytes handed out: first touches that did not happen.
    pub reused_bytes: u64,
    /// Bytes overwritten with zeroes for `alloc_zeroed`.
    pub cleared_bytes: u64,
    /// Dirty bytes that were given back instead, because blocks of that length are hardly touched.
    pub renewed_bytes: u64,
    /// Bytes of large blocks that the program never touched.
    pub untouched_bytes: u64,
    /// Bytes in blocks now.
    pub in_use_bytes: usize,
    /// The largest `in_use_bytes`.
    pub peak_in_use_bytes: usize,
    /// Free bytes kept resident now.
    pub retained_bytes: usize,
    /// Those of them that are known to be zero.
    pub zeroed_bytes: usize,
    /// The largest `retained_bytes`.
    pub peak_retained_bytes: usize,
    /// Calls that gave pages back.
    pub purges: u64,
    /// Bytes given back.
    pub purged_bytes: u64,
    /// Time those calls took.
    pub purge_ns: u64,
    /// Calls to give pages back that the kernel refused.
    pub purge_failures: u64,
    /// Calls to populate that the kernel refused.
    pub populate_failures: u64,
    /// Bytes that populating found or made resident, by the kernel's own account afterwards.
    pub populated_bytes: u64,
    /// Bytes of slabs that got base pages where the policy asked for others.
    pub fallback_bytes: u64,
    /// Bytes that were to be populated and were not resident afterwards.
    pub populate_missing_bytes: u64,
    /// Bytes made resident ahead of need.
    pub stocked_bytes: u64,
    /// Time that took.
    pub stock_ns: u64,
    /// Bytes zeroed ahead of need, or when they were freed.
    pub scrubbed_bytes: u64,
    /// Time that took, ahead of need.
    pub scrub_ns: u64,
    /// Bytes of free memory that children did not get.
    pub withheld_bytes: u64,
    /// Blocks that were freed again while the pool had them: nothing was done, and the caller was told.
    pub double_frees: u64,
    /// Addresses that were freed and where no block begins: likewise.
    pub unknown_frees: u64,
    /// Requests that the pool could not serve.
    pub refused: u64,
    /// Blocks that grew where they were.
    pub grown_in_place: u64,
    /// Blocks that grew by moving page tables.
    pub grown_by_pages: u64,
    /// Blocks that grew by copying.
    pub grown_by_copy: u64,
}
}
