//! mimalloc's options: free memory goes back at once, arenas are short under an address space limit (RLIMIT_AS, `ulimit
//! -v`), and no system calls at a late time. By default mimalloc reserves 1 GiB at a time, which a limited program may need for the stacks of its
//! threads.
//!
//! In: the limit, at the start and when an arena is reserved. Out: under a limit, arenas of 32 MiB and none for a
//! single block.

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

/// `mi_option_use_numa_nodes`.
const USE_NUMA_NODES: mi::mi_option_t = 16;
/// mimalloc counts at most so many NUMA nodes.
const NODES_MAX: usize = 256;

/// Counts the NUMA nodes now. mimalloc would do it later, when a sandbox may forbid the calls.
fn count_nodes() {
    let nodes = (1..NODES_MAX).take_while(|&node| is_node(node)).count() + 1;
    // SAFETY: an option of this version of mimalloc.
    unsafe { mi::mi_option_set_default(USE_NUMA_NODES, nodes as core::ffi::c_long) };
}

fn is_node(node: usize) -> bool {
    let mut path = *b"/sys/devices/system/node/node\0\0\0\0";
    let digits = [100, 10, 1].map(|unit| b'0' + (node / unit % 10) as u8);
    let first = digits.iter().position(|&digit| digit != b'0').unwrap_or(2);
    let end = path.len() - 4;
    for (byte, digit) in path.iter_mut().skip(end).zip(digits.iter().skip(first)) {
        *byte = *digit;
    }
    let location = crate::errno::location();
    // SAFETY: the C library's location of this thread's errno is valid.
    let errno = unsafe { *location };
    // SAFETY: the path ends with a zero.
    let is_there = unsafe { libc::access(path.as_ptr().cast(), libc::R_OK) } == 0;
    crate::errno::set(errno);
    is_there
}

/// Sets the options. Call it before the first arena; variables such as `MIMALLOC_PURGE_DELAY` take precedence.
pub(crate) fn apply() {
    count_nodes();
    // SAFETY: an option of this version of mimalloc.
    unsafe { mi::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
    // SAFETY: an option of this version of mimalloc.
    unsafe { mi::mi_option_set_default(ARENA_MAX_OBJECT, MAX_OBJECT_KIB) };
    if is_set() {
        // SAFETY: an option of this version of mimalloc.
        unsafe { mi::mi_option_set_default(ARENA_RESERVE, LIMITED_ARENA_KIB) };
    }
}

/// Whether to refuse a mapping: a long arena, although the program has set a limit since it started. mimalloc retries
/// with 128 MiB, and later arenas are short.
pub(crate) fn refuses(len: usize) -> bool {
    // The mapping of a single block includes a header, so its length is hardly ever a power of two.
    let refuses = len >= ARENA_BYTES && len.is_power_of_two() && is_set();
    if refuses {
        // SAFETY: as above.
        unsafe { mi::mi_option_set(ARENA_RESERVE, LIMITED_ARENA_KIB) };
    }
    refuses
}

fn is_set() -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is valid for one rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    limit.rlim_cur != libc::RLIM_INFINITY
}
