//! The loaded objects: which of them holds an address, how others are loaded, and their list without ours in a process with a sanitizer.
//!
//! In: addresses, and the program's calls of dlopen(3) and dl_iterate_phdr(3). Out: answers, and dlopen without RTLD_DEEPBIND.
//!
//! A library that is loaded with RTLD_DEEPBIND calls the C library's malloc, and the C library's free for blocks of the program: PHP loads
//! its modules so. The same libraries do without the flag where there is none (musl, BSD).
//!
//! ASan doesn't start unless it comes first among the libraries: one in front of
//! it could hide its functions. Ours forwards to them, and is passive there, so ASan need not see it.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{
    AtomicI32, AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::{Void, owner};

type Each = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, Void) -> c_int;
type Iterate = unsafe extern "C" fn(Each, Void) -> c_int;

static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The next dlopen(3), or null where it can't be told.
static OPEN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// The flags of dlopen that are passed on.
static OPEN_FLAGS: AtomicI32 = AtomicI32::new(!0);

/// dlopen(3). A jump: the next one looks at its return address, to search where the calling library says.
///
/// # Safety
/// As the C function of that name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> Void {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "cmp qword ptr [rip + {open}], 0",
        "jne 2f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "2: and esi, dword ptr [rip + {flags}]",
        "jmp qword ptr [rip + {open}]",
        open = sym OPEN,
        flags = sym OPEN_FLAGS,
        find = sym find_open,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "adrp x16, {open}",
        "ldr x16, [x16, :lo12:{open}]",
        "cbnz x16, 2f",
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {find}",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "adrp x16, {open}",
        "ldr x16, [x16, :lo12:{open}]",
        "2: adrp x17, {flags}",
        "ldr w17, [x17, :lo12:{flags}]",
        "and w1, w1, w17",
        "br x16",
        open = sym OPEN,
        flags = sym OPEN_FLAGS,
        find = sym find_open,
    );
}

/// Finds the next dlopen(3); before glibc 2.34 a program may have none, and then nobody asks for it.
extern "C" fn find_open() {
    // SAFETY: the name is a C string; RTLD_NEXT starts behind the object this code is in.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    OPEN.store(if found.is_null() { refuse_to_open as *mut c_void } else { found }, Release);
    owner::forget_error();
    if !owner::is_passive() {
        OPEN_FLAGS.store(!libc::RTLD_DEEPBIND, Relaxed);
    }
}

extern "C" fn refuse_to_open(_: *const c_char, _: c_int) -> Void {
    std::ptr::null_mut()
}

/// The program's callback and what it is to get.
struct Call {
    each: Each,
    data: Void,
}

/// Finds the next definitions.
pub(crate) fn find() {
    find_open();
    find_iterate();
}

fn find_iterate() {
    // SAFETY: the name is a C string; RTLD_NEXT starts behind the object this code is in.
    NEXT.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"dl_iterate_phdr".as_ptr()) }, Release);
}

/// The next definition's answer.
///
/// # Safety
/// As dl_iterate_phdr(3).
unsafe fn iterate(each: Each, data: Void) -> c_int {
    // A sanitizer starts before our constructor runs.
    if NEXT.load(Acquire).is_null() {
        find_iterate();
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

/// dl_iterate_phdr(3).
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
unsafe extern "C" fn dl_iterate_phdr(each: Each, data: Void) -> c_int {
    if !owner::is_behind_sanitizer() {
        // SAFETY: forwarded.
        return unsafe { iterate(each, data) };
    }
    let mut call = Call { each, data };
    // SAFETY: the call outlives the iteration, and the callback is of this type.
    unsafe { iterate(unless_ours, (&raw mut call).cast()) }
}

unsafe extern "C" fn unless_ours(object: *mut libc::dl_phdr_info, len: usize, call: Void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes one that is alive.
    let call = unsafe { &*call.cast::<Call>() };
    // SAFETY: the C library passes an object whose first fields have been there since 2.2.4.
    if owner::is_part(unsafe { &*object }) {
        return 0;
    }
    // SAFETY: forwarded.
    unsafe { (call.each)(object, len, call.data) }
}

/// Whether an address is in an object.
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

/// A number that tells apart the objects that hold two addresses; 0 if none holds this one.
///
/// dladdr(3) would also look for the nearest symbol, which takes tens of microseconds.
pub(crate) fn object(address: *const c_void) -> usize {
    let mut search = Search { address: address as usize, found: 0 };
    // SAFETY: the callback gets the pointer that is passed here, and only while the call lasts.
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
