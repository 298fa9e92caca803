//! The loaded objects: which of them contains an address.
//!
//! In: addresses. Out: answers, by the next dl_iterate_phdr(3). `loader` defines the program's dl_iterate_phdr(3).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

use crate::Void;

/// A callback of dl_iterate_phdr(3).
pub(crate) type Each = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, Void) -> c_int;
type Iterate = unsafe extern "C" fn(Each, Void) -> c_int;

static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds the next dl_iterate_phdr(3).
pub(crate) fn find() {
    // SAFETY: the name is a C string; RTLD_NEXT starts behind the object this code is in.
    NEXT.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"dl_iterate_phdr".as_ptr()) }, Release);
}

/// Calls the next dl_iterate_phdr(3).
///
/// # Safety
/// As dl_iterate_phdr(3).
pub(crate) unsafe fn iterate(each: Each, data: Void) -> c_int {
    // A sanitizer calls this before our constructor runs.
    if NEXT.load(Acquire).is_null() {
        find();
    }
    let next = NEXT.load(Acquire);
    if next.is_null() {
        return 0;
    }
    // SAFETY: found under that name.
    let next: Iterate = unsafe { std::mem::transmute(next) };
    // SAFETY: forwarded.
    unsafe { next(each, data) }
}

/// Whether an object contains an address.
pub(crate) fn is_in(address: usize, object: &libc::dl_phdr_info) -> bool {
    if object.dlpi_phdr.is_null() {
        return false;
    }
    // SAFETY: the description says how many headers there are.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    let offset = (address as u64).wrapping_sub(object.dlpi_addr);
    let is_inside = |header: &libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && offset.wrapping_sub(header.p_vaddr) < header.p_memsz
    };
    headers.iter().any(is_inside)
}

struct Search {
    address: usize,
    found: usize,
}

/// An identifier of the object that contains an address; 0 if none does.
///
/// dladdr(3) would also search the nearest symbol, which takes tens of microseconds.
pub(crate) fn object(address: *const c_void) -> usize {
    let mut search = Search { address: address as usize, found: 0 };
    // SAFETY: the callback gets this pointer, and only during the call.
    unsafe { iterate(holds, (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn holds(object: *mut libc::dl_phdr_info, _: usize, search: Void) -> c_int {
    // SAFETY: dl_iterate_phdr(3) passes a valid description.
    let object = unsafe { &*object };
    // SAFETY: `object` passes this pointer, and uses it again only after the search.
    let search = unsafe { &mut *search.cast::<Search>() };
    if is_in(search.address, object) {
        search.found = object.dlpi_phdr as usize;
    }
    (search.found != 0).into()
}
