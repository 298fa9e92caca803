//! The loader's functions: dlopen(3) without RTLD_DEEPBIND, and dl_iterate_phdr(3) without this library under a
//! sanitizer.
//!
//! In: the program's calls. Out: the same calls of the next definitions. Before each dlopen, `registration` looks at the
//! loaded objects.
//!
//! A library that is loaded with RTLD_DEEPBIND calls the C library's malloc, and the C library's free for blocks of the
//! program. PHP loads its modules this way. The same libraries work without the flag on systems that lack it (musl,
//! BSD).
//!
//! ASan refuses to start unless it is the first library, because a library before it could hide its functions. This
//! library forwards to them and is passive there, so ASan need not see it.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{
    AtomicI32, AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::objects::{Each, iterate};
use crate::{Void, owner, registration};

/// The next dlopen(3), or null before it was looked up.
static OPEN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// The flags of dlopen that are passed on.
static OPEN_FLAGS: AtomicI32 = AtomicI32::new(!0);

/// dlopen(3). It jumps to the next definition, which finds the calling library by its return address.
///
/// # Safety
/// As the C function of that name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> Void {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {prepare}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "and esi, dword ptr [rip + {flags}]",
        "jmp rax",
        flags = sym OPEN_FLAGS,
        prepare = sym prepare,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {prepare}",
        "mov x16, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "adrp x17, {flags}",
        "ldr w17, [x17, :lo12:{flags}]",
        "and w1, w1, w17",
        "br x16",
        flags = sym OPEN_FLAGS,
        prepare = sym prepare,
    );
}

/// Looks for registration caches, and returns the next dlopen(3).
extern "C" fn prepare(file: *const c_char) -> Void {
    if OPEN.load(Acquire).is_null() {
        find();
    }
    if !owner::is_passive() {
        registration::look(file);
    }
    OPEN.load(Acquire)
}

/// Finds the next dlopen(3). Before glibc 2.34 a program may have none; then nobody calls it.
pub(crate) fn find() {
    // SAFETY: the name is a C string; RTLD_NEXT starts behind the object this code is in.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    OPEN.store(if found.is_null() { refuse_to_open as *mut c_void } else { found }, Release);
    owner::forget_error();
    if !owner::is_passive() {
        // RTLD_DEEPBIND, which musl's headers lack.
        OPEN_FLAGS.store(!0x8, Relaxed);
    }
}

extern "C" fn refuse_to_open(_: *const c_char, _: c_int) -> Void {
    std::ptr::null_mut()
}

/// The program's callback and its argument.
struct Call {
    each: Each,
    data: Void,
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
