//! Decides, before the first block, which allocators serve this process.
//!
//! In: symbol addresses that the loader resolved. Out: whether the interposer is active, and whether
//! `libfaultless_small` is.
//!
//! | the program | large blocks | small blocks |
//! |---|---|---|
//! | uses the C library's malloc | pool | C library, or `libfaultless_small` |
//! | gets another allocator by LD_PRELOAD | pool | that allocator |
//! | is linked with an allocator that has functions of its own | unchanged | unchanged |
//! | defines malloc itself, or is built with a sanitizer | unchanged | unchanged |
//!
//! Another allocator's `operator new` and `malloc_usable_size` work only with its own blocks, so it keeps the small
//! ones. A program that is linked with it may pass any block of malloc to its other functions too (`sdallocx`,
//! `mi_free`, `tc_realloc`), so it keeps all. A sanitizer must see every block. In the last two rows the interposer is
//! passive: each C function jumps to its next definition.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

use crate::line::Text;
use crate::objects::{self, object};

/// Addresses that the loader fills in: the first definition of each symbol in the process, or 0.
///
/// `dlsym` would do as well for names that exist. For a missing name it allocates, and its error shows up in the
/// program's dlerror(3).
#[repr(C)]
struct Words {
    malloc: usize,
    free: usize,
    /// The bounds of this library's code.
    own_begin: usize,
    own_end: usize,
    behind_small: usize,
    sanitizers: [usize; 7],
    /// A function that only one kind of allocator has: jemalloc, mimalloc, gperftools' and Google's tcmalloc, rpmalloc,
    /// oneTBB's proxy.
    allocators: [usize; 6],
}

unsafe extern "C" {
    #[link_name = "faultless_words"]
    static WORDS: Words;
}

std::arch::global_asm!(
    ".pushsection .data.faultless_words, \"aw\", %progbits",
    ".balign 8",
    ".globl faultless_words",
    ".hidden faultless_words",
    "faultless_words:",
    ".quad malloc",
    ".quad free",
    // The linker defines both. Hidden: the program may have symbols of the same names.
    ".hidden __ehdr_start",
    ".quad __ehdr_start",
    ".hidden etext",
    ".quad etext",
    ".weak faultless_behind_small",
    ".quad faultless_behind_small",
    ".weak __asan_init",
    ".quad __asan_init",
    ".weak __hwasan_init",
    ".quad __hwasan_init",
    ".weak __lsan_init",
    ".quad __lsan_init",
    ".weak __memprof_init",
    ".quad __memprof_init",
    ".weak __msan_init",
    ".quad __msan_init",
    ".weak __rtsan_init",
    ".quad __rtsan_init",
    ".weak __tsan_init",
    ".quad __tsan_init",
    ".weak mallocx",
    ".quad mallocx",
    ".weak mi_malloc",
    ".quad mi_malloc",
    ".weak tc_malloc",
    ".quad tc_malloc",
    ".weak TCMallocInternalMalloc",
    ".quad TCMallocInternalMalloc",
    ".weak rpmalloc",
    ".quad rpmalloc",
    ".weak __TBB_malloc_proxy",
    ".quad __TBB_malloc_proxy",
    ".popsection",
);

const UNDECIDED: u32 = 0;
/// Active, without `libfaultless_small`.
const OURS: u32 = 1;
/// Active, and `libfaultless_small` serves small blocks.
const OURS_WITH_SMALL: u32 = 2;
/// Active. `libfaultless_small` is loaded, but another allocator is behind it.
const OURS_WITHOUT_SMALL: u32 = 3;
/// Passive: the program defines malloc.
const PROGRAMS: u32 = 4;
/// Passive: a sanitizer is present.
const SANITIZERS: u32 = 5;
/// Passive: an allocator that the program is linked with may be called by its own functions.
const ALLOCATORS: u32 = 6;
static ANSWER: AtomicU32 = AtomicU32::new(UNDECIDED);

fn answer() -> u32 {
    match ANSWER.load(Acquire) {
        UNDECIDED => {
            let answer = decide();
            ANSWER.store(answer, Release);
            answer
        }
        answer => answer,
    }
}

#[cold]
fn decide() -> u32 {
    // SAFETY: the loader filled the words in before any code of this library ran.
    let words = unsafe { &WORDS };
    if words.sanitizers.iter().any(|&word| word != 0) {
        SANITIZERS
    } else if !is_ours(words.malloc) || !is_ours(words.free) {
        PROGRAMS
    } else if words.allocators.iter().any(|&word| word != 0) && is_linked_with(&words.allocators) {
        ALLOCATORS
    } else if words.behind_small == 0 {
        OURS
    } else if is_c_librarys(behind_small(c"malloc")) {
        OURS_WITH_SMALL
    } else {
        OURS_WITHOUT_SMALL
    }
}

/// Whether one of these functions is in the library that serves malloc, and not only because the user preloads it.
fn is_linked_with(functions: &[usize]) -> bool {
    let malloc = next_malloc();
    let library = object(malloc);
    let is_there = |&&function: &&usize| function != 0 && object(function as *const c_void) == library;
    library != 0 && functions.iter().any(|function| is_there(&function)) && !is_preloaded(file_of(malloc))
}

/// Whether LD_PRELOAD names a file, in whatever folder.
fn is_preloaded(file: &[u8]) -> bool {
    // SAFETY: the name is a C string. Before there is an environment the answer is null.
    let list = unsafe { libc::getenv(c"LD_PRELOAD".as_ptr()) };
    if list.is_null() {
        return false;
    }
    // SAFETY: getenv returned a C string.
    let list = unsafe { CStr::from_ptr(list) }.to_bytes();
    list.split(|byte| b" :".contains(byte)).any(|path| !file.is_empty() && last_part(path) == file)
}

/// The name of the file that a function is in, without its folder; empty if unknown.
fn file_of(function: *const c_void) -> &'static [u8] {
    let name = information(function).dli_fname;
    if name.is_null() {
        return b"";
    }
    // SAFETY: dladdr answers with the name of a library, which stays loaded.
    last_part(unsafe { CStr::from_ptr(name) }.to_bytes())
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// The definition of malloc behind ours, and behind `libfaultless_small`.
fn next_malloc() -> *const c_void {
    // SAFETY: as in `decide`.
    if unsafe { WORDS.behind_small } != 0 {
        return behind_small(c"malloc") as *const c_void;
    }
    // SAFETY: the name is a C string; RTLD_NEXT starts behind the object this code is in.
    unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc".as_ptr()) }
}

/// Whether every call goes to its next definition.
pub(crate) fn is_passive() -> bool {
    matches!(answer(), PROGRAMS | SANITIZERS | ALLOCATORS)
}

/// Whether `libfaultless_small` serves small blocks. Its constructor calls this.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn faultless_uses_small() -> bool {
    answer() == OURS_WITH_SMALL
}

/// Whether a sanitizer sees every block of this process.
pub(crate) fn is_behind_sanitizer() -> bool {
    answer() == SANITIZERS
}

/// Whether a loaded object is this library or `libfaultless_small`.
pub(crate) fn is_part(object: &libc::dl_phdr_info) -> bool {
    // SAFETY: as in `decide`.
    let words = unsafe { &WORDS };
    objects::is_in(words.own_begin, object) || objects::is_in(words.behind_small, object)
}

/// The next definition of a function, or null. `libfaultless_small` is skipped unless it serves small blocks.
pub(crate) fn next(name: &CStr) -> *mut c_void {
    // SAFETY: as in `decide`.
    let has_small = unsafe { WORDS.behind_small } != 0;
    if has_small && answer() != OURS_WITH_SMALL {
        return behind_small(name) as *mut c_void;
    }
    // SAFETY: the name is a C string; RTLD_NEXT starts behind the object this code is in.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// The definition of a function behind `libfaultless_small`, or 0.
fn behind_small(name: &CStr) -> usize {
    type Behind = unsafe extern "C" fn(*const c_char) -> *mut c_void;
    // SAFETY: as in `decide`.
    let word = unsafe { WORDS.behind_small } as *const c_void;
    if word.is_null() {
        return 0;
    }
    // SAFETY: `libfaultless_small` exports a function of this type under that name.
    let behind = unsafe { std::mem::transmute::<*const c_void, Behind>(word) };
    // SAFETY: the name is a C string.
    unsafe { behind(name.as_ptr()) as usize }
}

/// Whether the first definition of a function is ours.
fn is_ours(first: usize) -> bool {
    // SAFETY: as in `decide`.
    let words = unsafe { &WORDS };
    (words.own_begin..words.own_end).contains(&first) || is_only_called(first)
}

/// Whether the address is only a program's jump to a function whose address it takes, and not a definition.
///
/// A program that is not position-independent exports the address of such a jump under the function's name.
#[cold]
fn is_only_called(address: usize) -> bool {
    type Dladdr1 =
        unsafe extern "C" fn(*const c_void, *mut libc::Dl_info, *mut *const libc::Elf64_Sym, i32) -> i32;
    const RTLD_DL_SYMENT: i32 = 1;
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dladdr1".as_ptr()) };
    if found.is_null() {
        forget_error();
        return false;
    }
    // SAFETY: glibc's function is of this type.
    let dladdr1 = unsafe { std::mem::transmute::<*mut c_void, Dladdr1>(found) };
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut symbol = std::ptr::null();
    // SAFETY: any address may be asked about, and both places are valid.
    let rc = unsafe { dladdr1(address as *const c_void, info.as_mut_ptr(), &raw mut symbol, RTLD_DL_SYMENT) };
    if rc == 0 || symbol.is_null() {
        return false;
    }
    // SAFETY: dladdr1 answers with an entry of a symbol table that stays loaded.
    let symbol = unsafe { &*symbol };
    const SHN_UNDEF: u16 = 0;
    symbol.st_shndx == SHN_UNDEF && symbol.st_value != 0
}

/// Whether a function is in the C library. musl lacks the first of the names.
fn is_c_librarys(function: usize) -> bool {
    let mut landmark = std::ptr::null_mut::<c_void>();
    for name in [c"gnu_get_libc_version", c"__libc_start_main"] {
        if landmark.is_null() {
            // SAFETY: the name is a C string.
            landmark = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        }
    }
    let library = object(landmark);
    library != 0 && library == object(function as *const c_void)
}

fn information(address: *const c_void) -> libc::Dl_info {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked about, and the place is valid for one Dl_info.
    unsafe { libc::dladdr(address, found.as_mut_ptr()) };
    // SAFETY: all-zero is a valid Dl_info, and dladdr has filled it in or left it so.
    unsafe { found.assume_init() }
}

/// Clears the error of a failed `dlsym`. Otherwise the program's next dlerror(3) would return it.
pub(crate) fn forget_error() {
    // SAFETY: no preconditions.
    unsafe { libc::dlerror() };
}

/// Reports on standard error that `--small` has no effect, and why.
///
/// Only the process that `FAULTLESS_FIRST` names reports it, and only once: the variable is overwritten in place, in
/// case the process executes another program.
pub(crate) fn tell() {
    // SAFETY: as in `decide`.
    let words = unsafe { &WORDS };
    let owner = match answer() {
        OURS_WITHOUT_SMALL => next_malloc() as usize,
        ALLOCATORS | PROGRAMS if words.behind_small != 0 => first(),
        _ => return,
    };
    // SAFETY: the name is a C string, and no other thread runs yet.
    let first = unsafe { libc::getenv(c"FAULTLESS_FIRST".as_ptr()) };
    if first.is_null() {
        return;
    }
    // SAFETY: getenv returned a C string.
    let text = unsafe { CStr::from_ptr(first) }.to_bytes();
    if text != faultless_os::text::decimal(faultless_os::call::process_id().into(), &mut [0; 20]) {
        return;
    }
    // SAFETY: the text is not empty, the environment is writable, and no other thread runs yet.
    unsafe { *first = b'-' as c_char };
    let mut line = Text::<512>::new();
    line.text(b"faultless: --small has no effect here: ");
    name_owner(&mut line, owner);
    line.write_to(2);
}

/// The definition that serves malloc although this library comes first: of malloc, or of free alone.
pub(crate) fn first() -> usize {
    // SAFETY: as in `decide`.
    let words = unsafe { &WORDS };
    match answer() {
        ALLOCATORS => next_malloc() as usize,
        _ if is_ours(words.malloc) => words.free,
        _ => words.malloc,
    }
}

/// Says whose an allocator's function is: the program's, or a library's.
pub(crate) fn name_owner<const BYTES: usize>(line: &mut Text<BYTES>, function: usize) {
    // SAFETY: getauxval(3) has no preconditions. The program's headers lie in the program.
    let program = object(unsafe { libc::getauxval(libc::AT_PHDR) } as *const c_void);
    let file = file_of(function as *const c_void);
    if file.is_empty() || program == object(function as *const c_void) {
        line.text(b"the program defines malloc itself");
    } else {
        line.text(b"the program brings an allocator of its own, ").text(file);
    }
}
