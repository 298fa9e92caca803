//! mimalloc's options: free memory goes back at once, arenas are short under an address space limit (RLIMIT_AS, `ulimit
//! -v`), and no system calls at a late time. By default mimalloc reserves 1 GiB at a time, which a limited program may need for the stacks of its
//! threads.
//!
//! In: the limit, at the start and when an arena is reserved. Out: under a limit, arenas of 32 MiB and none for a
//! single block.

use faultless_os::map::address_space_limit;
use libmimalloc_sys as mi;

/// `mi_option_arena_reserve`, in KiB. The bindings lack it.
const ARENA_RESERVE: mi::mi_option_t = 23;
/// mimalloc's shortest arena (MI_ARENA_MIN_SIZE). After every eight arenas mimalloc doubles the length.
const LIMITED_ARENA_KIB: core::ffi::c_long = 32 << 10;
/// The length of mimalloc's arenas by default. Later ones are longer by a power of two.
const ARENA_BYTES: usize = 1 << 30;

/// `mi_option_arena_max_object_size`, in KiB.
const ARENA_MAX_OBJECT: mi::mi_option_t = 45;
/// Longer blocks get a mapping each, which is unmapped with the block. They come here if the pool has no room for them.
/// mimalloc would keep the addresses of an arena.
const MAX_OBJECT_KIB: core::ffi::c_long = 16 << 10;

/// `mi_option_purge_delay`, in milliseconds.
const PURGE_DELAY: mi::mi_option_t = 15;
/// mimalloc looks for memory whose delay is over only while it takes a new page, so a program at rest keeps all of it.
/// Freeing 40,000 blocks of 16 KB leaves 4 MiB with no delay and 594 MiB with one of 10 ms.
const PURGE_DELAY_MS: core::ffi::c_long = 0;

unsafe extern "C" {
    /// Counts the NUMA nodes, once.
    fn _mi_os_numa_node_count() -> core::ffi::c_int;
}

/// Sets the options. Call it before the first arena; variables such as `MIMALLOC_PURGE_DELAY` take precedence.
pub(crate) fn apply() {
    // mimalloc would count them later, when a sandbox may forbid the calls.
    // SAFETY: no preconditions.
    unsafe { _mi_os_numa_node_count() };
    // SAFETY: an option of this version of mimalloc.
    unsafe { mi::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
    // SAFETY: an option of this version of mimalloc.
    unsafe { mi::mi_option_set_default(ARENA_MAX_OBJECT, MAX_OBJECT_KIB) };
    if address_space_limit().is_some() {
        // SAFETY: an option of this version of mimalloc.
        unsafe { mi::mi_option_set_default(ARENA_RESERVE, LIMITED_ARENA_KIB) };
    }
}

/// Whether to refuse a mapping: a long arena, although the program has set a limit since it started. mimalloc retries
/// with 128 MiB, and later arenas are short.
pub(crate) fn refuses(len: usize) -> bool {
    // The mapping of a single block includes a header, so its length is hardly ever a power of two.
    let refuses = len >= ARENA_BYTES && len.is_power_of_two() && address_space_limit().is_some();
    if refuses {
        // SAFETY: as above.
        unsafe { mi::mi_option_set(ARENA_RESERVE, LIMITED_ARENA_KIB) };
    }
    refuses
}
