//! The memory of mimalloc's first arena: the interposer's region, with huge pages until the second thread.
//!
//! In: the region, and mimalloc's announcement of each thread (`pthread_setspecific`); the linker redirects it
//! (`--wrap`). Out: an arena. mimalloc gives every thread its own page for each size of blocks, of 64 or 512 KiB, and a
//! huge page makes all of them resident. With it, eight threads that held 14 MiB in all had a peak of 60 MiB, without it
//! of 18, glibc of 15. Mixes of one thread had at most 8 MiB more than glibc.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

use libmimalloc_sys as mi;

use crate::{calls, find, fork};

type Void = *mut c_void;

/// Bytes of the region. Later mimalloc maps one GiB at a time. mimalloc's description of an arena takes 0.25 % of it,
/// and every start touches part of that.
const REGION_BYTES: usize = 64 << 20;

/// The region while it has huge pages, else null.
static HUGE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// Whether mimalloc knows a thread.
static HAS_THREAD: AtomicBool = AtomicBool::new(false);

/// Gives mimalloc the region, and has the interposer call us around fork. Earlier blocks are in mappings of their own:
/// mimalloc makes no arena before `_mi_auto_process_init`.
pub(crate) fn take() {
    type Region = extern "C" fn(usize, extern "C" fn(), extern "C" fn()) -> Void;
    let Some(found) = find(libc::RTLD_DEFAULT, c"faultless_region") else { return };
    // SAFETY: the interposer exports a function of this type under that name.
    let region = unsafe { core::mem::transmute::<Void, Region>(found) };
    let region = region(REGION_BYTES, fork::before, fork::after);
    if region.is_null() {
        return;
    }
    HUGE.store(region, SeqCst);
    let (usable, pinned, zero, exclusive, any_node) = (true, false, true, false, -1);
    // SAFETY: the region is writable, zero and from now on mimalloc's alone.
    unsafe {
        mi::mi_manage_os_memory_ex(
            region,
            REGION_BYTES,
            usable,
            pinned,
            zero,
            any_node,
            exclusive,
            ptr::null_mut(),
        )
    };
}

unsafe extern "C" {
    fn __real_pthread_setspecific(key: c_uint, value: Void) -> c_int;
}

/// mimalloc stores a value for each thread that begins, and null when the process ends.
#[unsafe(no_mangle)]
extern "C" fn __wrap_pthread_setspecific(key: c_uint, value: Void) -> c_int {
    if !value.is_null() && HAS_THREAD.swap(true, SeqCst) {
        let region = HUGE.swap(ptr::null_mut(), SeqCst);
        if !region.is_null() {
            // Pages that are huge stay so.
            calls::__wrap_madvise(region, REGION_BYTES, libc::MADV_NOHUGEPAGE);
        }
    }
    // SAFETY: forwarded.
    unsafe { __real_pthread_setspecific(key, value) }
}
