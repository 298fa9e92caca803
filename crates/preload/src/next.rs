//! The next malloc: glibc's, or an allocator preloaded behind this library.
//!
//! In: nothing. Out: its functions, found by `dlsym(RTLD_NEXT)` at the first call of any of them. `owner` decides
//! whether `libfaultless_small` is skipped. Each function is a jump through a pointer. At first the pointers lead to
//! `resolve`.
//!
//! `dlsym` itself may request memory. It gets memory from a small static arena, which is never freed. Once the arena
//! was used, the functions that take a block check for arena memory first.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};

use faultless_os::call;

use crate::{objects, owner};

type Void = *mut c_void;

/// Bytes of the arena for requests during `dlsym`; glibc asks for less than 1 KiB.
const ARENA_BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = 16;

#[repr(C, align(16))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: `arena_alloc` hands out every byte once.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));
static ARENA_USED: AtomicUsize = AtomicUsize::new(0);

const UNRESOLVED: u32 = 0;
const RESOLVING: u32 = 1;
const RESOLVED: u32 = 2;
static PROGRESS: AtomicU32 = AtomicU32::new(UNRESOLVED);

/// One function: the pointer to call, and the function that was found.
struct Slot {
    now: AtomicPtr<c_void>,
    found: AtomicPtr<c_void>,
}

impl Slot {
    const fn new(lazy: *const c_void) -> Self {
        Self { now: AtomicPtr::new(lazy.cast_mut()), found: AtomicPtr::new(ptr::null_mut()) }
    }

    fn find(&self, name: &CStr, otherwise: *const c_void) {
        let found = owner::next(name);
        let found = if found.is_null() { otherwise.cast_mut() } else { found };
        self.found.store(found, Release);
        self.now.store(found, Release);
    }
}

/// Declares the public function, its slot and its lazy form.
macro_rules! next {
    ($(#[$doc:meta])* $name:ident, $slot:ident, $lazy:ident, ($($arg:ident: $kind:ty),*) -> $result:ty) => {
        static $slot: Slot = Slot::new($lazy as *const c_void);

        unsafe extern "C" fn $lazy($($arg: $kind),*) -> $result {
            resolve();
            // SAFETY: forwarded; the pointer now leads to the next malloc or to the arena.
            unsafe { $name($($arg),*) }
        }

        next!(@call $(#[$doc])* $name, $slot, ($($arg: $kind),*) -> $result);
    };
    (@call $(#[$doc:meta])* $name:ident, $slot:ident, ($($arg:ident: $kind:ty),*) -> $result:ty) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As the C function of that name.
        #[inline(always)]
        pub(crate) unsafe fn $name($($arg: $kind),*) -> $result {
            let function = $slot.now.load(Relaxed);
            // SAFETY: the slot only ever holds functions of this signature.
            let function: unsafe extern "C" fn($($kind),*) -> $result = unsafe { std::mem::transmute(function) };
            // SAFETY: the caller keeps the contract of the C function.
            unsafe { function($($arg),*) }
        }
    };
}

next!(/// `malloc`
    malloc, MALLOC, lazy_malloc, (len: usize) -> Void);
next!(/// `calloc`
    calloc, CALLOC, lazy_calloc, (count: usize, len: usize) -> Void);
next!(/// `realloc`
    realloc, REALLOC, lazy_realloc, (block: Void, len: usize) -> Void);
next!(/// `free`
    free, FREE, lazy_free, (block: Void) -> ());
next!(/// `posix_memalign`
    posix_memalign, POSIX_MEMALIGN, lazy_posix_memalign, (to: *mut Void, align: usize, len: usize) -> c_int);
next!(/// `aligned_alloc`
    aligned_alloc, ALIGNED_ALLOC, lazy_aligned_alloc, (align: usize, len: usize) -> Void);
next!(/// `memalign`
    memalign, MEMALIGN, lazy_memalign, (align: usize, len: usize) -> Void);
next!(/// `valloc`
    valloc, VALLOC, lazy_valloc, (len: usize) -> Void);
next!(/// `pvalloc`
    pvalloc, PVALLOC, lazy_pvalloc, (len: usize) -> Void);
next!(/// `malloc_usable_size`
    malloc_usable_size, USABLE, lazy_usable, (block: Void) -> usize);

/// Declares a function that only the passive interposer forwards; `$own` replaces a missing one.
///
/// The lookup happens at the first call. It allocates if the function is missing, and a sanitizer may not be ready
/// for that any earlier.
macro_rules! passive {
    ($(#[$doc:meta])* $name:ident, $own:ident, $slot:ident, $lazy:ident, ($($arg:ident: $kind:ty),*) -> $result:ty) => {
        static $slot: Slot = Slot::new($lazy as *const c_void);

        unsafe extern "C" fn $lazy($($arg: $kind),*) -> $result {
            let name = concat!(stringify!($name), "\0");
            $slot.find(CStr::from_bytes_until_nul(name.as_bytes()).unwrap_or_default(), $own as *const c_void);
            owner::forget_error();
            // SAFETY: forwarded; the pointer now leads to the next definition or to ours.
            unsafe { $name($($arg),*) }
        }

        next!(@call $(#[$doc])* $name, $slot, ($($arg: $kind),*) -> $result);
    };
}

passive!(/// `reallocarray`, which calls the program's realloc
    reallocarray, own_reallocarray, REALLOCARRAY, lazy_reallocarray, (block: Void, count: usize, len: usize) -> Void);
passive!(/// `free_sized`
    free_sized, own_free_sized, FREE_SIZED, lazy_free_sized, (block: Void, len: usize) -> ());
passive!(/// `free_aligned_sized`
    free_aligned_sized, own_free_aligned_sized, FREE_ALIGNED_SIZED, lazy_free_aligned_sized,
    (block: Void, align: usize, len: usize) -> ());

/// Finds the next malloc. Meanwhile the pointers lead to the arena.
#[cold]
pub(crate) fn resolve() {
    if PROGRESS.compare_exchange(UNRESOLVED, RESOLVING, AcqRel, Acquire).is_err() {
        return;
    }
    let lazy =
        [&MALLOC, &CALLOC, &REALLOC, &FREE, &POSIX_MEMALIGN, &ALIGNED_ALLOC, &MEMALIGN, &VALLOC, &PVALLOC];
    let early = [
        early_malloc as *const c_void,
        early_calloc as *const c_void,
        early_realloc as *const c_void,
        early_free as *const c_void,
        early_posix_memalign as *const c_void,
        early_memalign as *const c_void,
        early_memalign as *const c_void,
        early_malloc as *const c_void,
        early_malloc as *const c_void,
    ];
    for (slot, function) in lazy.into_iter().zip(early) {
        slot.now.store(function.cast_mut(), SeqCst);
    }
    USABLE.now.store(early_usable as *mut c_void, SeqCst);
    find_all();
    PROGRESS.store(RESOLVED, SeqCst);
    if ARENA_USED.load(SeqCst) > 0 {
        guard();
    }
}

fn find_all() {
    FREE.find(c"free", early_free as *const c_void);
    USABLE.find(c"malloc_usable_size", unknown_usable as *const c_void);
    REALLOC.find(c"realloc", early_realloc as *const c_void);
    CALLOC.find(c"calloc", early_calloc as *const c_void);
    POSIX_MEMALIGN.find(c"posix_memalign", early_posix_memalign as *const c_void);
    ALIGNED_ALLOC.find(c"aligned_alloc", early_memalign as *const c_void);
    MEMALIGN.find(c"memalign", early_memalign as *const c_void);
    VALLOC.find(c"valloc", early_malloc as *const c_void);
    PVALLOC.find(c"pvalloc", early_malloc as *const c_void);
    MALLOC.find(c"malloc", early_malloc as *const c_void);
}

/// Makes the functions that take a block check for arena memory first.
fn guard() {
    FREE.now.store(guarded_free as *mut c_void, SeqCst);
    REALLOC.now.store(guarded_realloc as *mut c_void, SeqCst);
    USABLE.now.store(guarded_usable as *mut c_void, SeqCst);
}

/// A fork handler.
pub(crate) type Handler = Option<unsafe extern "C" fn()>;

/// Registers fork handlers of the library or program that `object` identifies. Returns ENOMEM if there is no memory.
///
/// The C function is looked up by name. glibc exports only `__register_atfork`, musl only `pthread_atfork`, and a
/// loader refuses a library that refers to a missing function.
pub(crate) fn at_fork(
    before: Handler,
    in_parent: Handler,
    in_child: Handler,
    object: *const c_void,
) -> c_int {
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *const c_void) -> c_int;
    for name in [c"__register_atfork", c"pthread_atfork"] {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if !found.is_null() {
            // SAFETY: glibc's function is of this type, and musl's ignores a fourth argument.
            let register: Register = unsafe { std::mem::transmute(found) };
            // SAFETY: forwarded.
            return unsafe { register(before, in_parent, in_child, object) };
        }
    }
    libc::ENOMEM
}

/// Whether the next malloc has an aligned `operator new` of its own. jemalloc's (5.3) calls `aligned_alloc` by name,
/// and thus this library. jemalloc's `operator delete` frees the block without this library, so the block must be
/// jemalloc's.
#[cold]
pub(crate) fn has_aligned_new() -> bool {
    const YES: u32 = 1;
    const NO: u32 = 2;
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    if ANSWER.load(Relaxed) == 0 {
        resolve();
        // SAFETY: the name is a C string: operator new(size_t, std::align_val_t).
        let operator = unsafe { libc::dlsym(libc::RTLD_NEXT, c"_ZnwmSt11align_val_t".as_ptr()) };
        if operator.is_null() {
            owner::forget_error();
        }
        let own = !operator.is_null()
            && objects::object(operator) == objects::object(ALIGNED_ALLOC.found.load(Acquire));
        ANSWER.store(if own { YES } else { NO }, Relaxed);
    }
    ANSWER.load(Relaxed) == YES
}

/// The length of an arena block, or `None` for any other memory.
fn arena_len(block: Void) -> Option<usize> {
    let offset = (block as usize).wrapping_sub(ARENA.0.get() as usize);
    if !(HEADER_BYTES..ARENA_BYTES).contains(&offset) {
        return None;
    }
    // SAFETY: `arena_alloc` wrote the length into the word before every block it gave out, inside the arena.
    Some(unsafe { *block.cast::<usize>().sub(1) })
}

fn arena_alloc(len: usize, align: usize) -> Void {
    let align = align.max(HEADER_BYTES);
    let base = ARENA.0.get() as usize;
    if len > ARENA_BYTES || align > ARENA_BYTES {
        return refuse();
    }
    let wanted = len.next_multiple_of(HEADER_BYTES) + HEADER_BYTES + align;
    let begin = ARENA_USED.fetch_add(wanted, SeqCst);
    if begin.saturating_add(wanted) > ARENA_BYTES {
        return refuse();
    }
    let start = ((base + begin + HEADER_BYTES + align - 1) & !(align - 1)) as *mut usize;
    // SAFETY: at least HEADER_BYTES of this piece lie before `start`; the piece is this call's alone.
    unsafe { *start.sub(1) = len };
    if PROGRESS.load(SeqCst) == RESOLVED {
        guard();
    }
    start.cast()
}

fn refuse() -> Void {
    set_errno(libc::ENOMEM);
    ptr::null_mut()
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: glibc returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = value };
}

/// A system call as syscall(2) makes it, which is interposed: -1 and errno if it fails.
///
/// # Safety
/// As the system call.
pub(crate) unsafe fn system_call<const COUNT: usize>(number: c_long, arguments: [usize; COUNT]) -> c_long {
    // SAFETY: forwarded.
    let answer = unsafe { call::raw(number, arguments) };
    call::errno(answer).map_or(answer as c_long, |errno| {
        set_errno(errno);
        -1
    })
}

/// The calling thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: as in `set_errno`.
    unsafe { *libc::__errno_location() }
}

extern "C" fn early_malloc(len: usize) -> Void {
    arena_alloc(len, HEADER_BYTES)
}

extern "C" fn early_calloc(count: usize, len: usize) -> Void {
    // The arena hands out every byte once, so the memory is still zero.
    count.checked_mul(len).map_or_else(refuse, |bytes| early_malloc(bytes))
}

extern "C" fn early_memalign(align: usize, len: usize) -> Void {
    arena_alloc(len, align)
}

unsafe extern "C" fn early_posix_memalign(to: *mut Void, align: usize, len: usize) -> c_int {
    let block = arena_alloc(len, align);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller passes a place for one pointer.
    unsafe { *to = block };
    0
}

unsafe extern "C" fn early_realloc(block: Void, len: usize) -> Void {
    let new = early_malloc(len);
    if let Some(old) = arena_len(block).filter(|_| !new.is_null()) {
        // SAFETY: two different arena blocks of at least that length.
        unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old.min(len)) };
    }
    new
}

extern "C" fn early_free(_block: Void) {}

extern "C" fn early_usable(block: Void) -> usize {
    arena_len(block).unwrap_or(0)
}

/// Replaces a missing `reallocarray`.
unsafe extern "C" fn own_reallocarray(block: Void, count: usize, len: usize) -> Void {
    // SAFETY: forwarded.
    count.checked_mul(len).map_or_else(refuse, |bytes| unsafe { realloc(block, bytes) })
}

/// Replaces a missing `free_sized`.
unsafe extern "C" fn own_free_sized(block: Void, _len: usize) {
    // SAFETY: forwarded.
    unsafe { free(block) }
}

/// Replaces a missing `free_aligned_sized`.
unsafe extern "C" fn own_free_aligned_sized(block: Void, _align: usize, _len: usize) {
    // SAFETY: forwarded.
    unsafe { free(block) }
}

/// Replaces a missing `malloc_usable_size`. A block that seems large stays with its allocator.
extern "C" fn unknown_usable(_block: Void) -> usize {
    usize::MAX
}

unsafe extern "C" fn guarded_free(block: Void) {
    if arena_len(block).is_none() {
        let function = FREE.found.load(Relaxed);
        // SAFETY: found under the name `free`, or `early_free`.
        let function: unsafe extern "C" fn(Void) = unsafe { std::mem::transmute(function) };
        // SAFETY: the caller keeps the contract of free.
        unsafe { function(block) };
    }
}

unsafe extern "C" fn guarded_realloc(block: Void, len: usize) -> Void {
    let Some(old) = arena_len(block) else {
        let function = REALLOC.found.load(Relaxed);
        // SAFETY: found under the name `realloc`, or `early_realloc`.
        let function: unsafe extern "C" fn(Void, usize) -> Void = unsafe { std::mem::transmute(function) };
        // SAFETY: the caller keeps the contract of realloc.
        return unsafe { function(block, len) };
    };
    // SAFETY: malloc has no preconditions.
    let new = unsafe { malloc(len) };
    if !new.is_null() {
        // SAFETY: an arena block of `old` bytes and a new one of `len`.
        unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old.min(len)) };
    }
    new
}

unsafe extern "C" fn guarded_usable(block: Void) -> usize {
    if let Some(len) = arena_len(block) {
        return len;
    }
    let function = USABLE.found.load(Relaxed);
    // SAFETY: found under the name `malloc_usable_size`, or `unknown_usable`.
    let function: unsafe extern "C" fn(Void) -> usize = unsafe { std::mem::transmute(function) };
    // SAFETY: the caller keeps the contract of malloc_usable_size.
    unsafe { function(block) }
}
