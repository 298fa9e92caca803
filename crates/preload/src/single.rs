//! Calls that need a process of one thread, or that apply to the calling thread only: the background thread ends before
//! them.
//!
//! In: the program's calls. Out: the same system calls.
//! - The kernel refuses `unshare(CLONE_NEWUSER)`, and `setns` into a user or mount namespace, to a process with other
//!   threads. A background thread would also stay behind in the old namespaces.
//! - A sandbox (seccomp, Landlock) applies to the calling thread alone. The background thread would be outside the
//!   sandbox, or be killed for a call that the filter does not know. Such programs call PR_SET_NO_NEW_PRIVS first.
//! - The C library changes the user and groups of all threads that it knows. It does not know the background thread,
//!   which would keep the old ones.
//!
//! - A thread that ends by the system call exit(2) may be the last of the program. The process ends with the status of
//!   its last thread, so that must not be ours.
//!
//! The thread also ends before `fork`, by the handlers in `pool`. syscall(2) is seen too, because libseccomp loads its
//! filters by it, without PR_SET_NO_NEW_PRIVS if its caller is privileged.
//!
//! Not seen: the same calls by a program's own instructions, and clone(2).

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

use crate::{altered, calls, next, owner, pool, summary};

/// Defines C functions that call their next definitions without a background thread.
macro_rules! alone {
    ($($name:ident($($arg:ident: $kind:ty),*) $text:literal;)*) => {$(
        #[doc = $text]
        ///
        /// # Safety
        /// As the C function of that name.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $kind),*) -> c_int {
            const NAME: &str = concat!(stringify!($name), "\0");
            // SAFETY: a C string; RTLD_NEXT asks for the definition after the object this code is in.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr().cast()) };
            if found.is_null() {
                next::set_errno(libc::ENOSYS);
                return -1;
            }
            // SAFETY: found under the name of a function of this type.
            let function: unsafe extern "C" fn($($kind),*) -> c_int = unsafe { std::mem::transmute(found) };
            // SAFETY: the caller keeps the contract of the C function.
            pool::without_thread(|| unsafe { function($($arg),*) })
        }
    )*};
}

alone! {
    setuid(user: libc::uid_t) "setuid(2)";
    seteuid(user: libc::uid_t) "seteuid(2)";
    setreuid(real: libc::uid_t, effective: libc::uid_t) "setreuid(2)";
    setresuid(real: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) "setresuid(2)";
    setgid(group: libc::gid_t) "setgid(2)";
    setegid(group: libc::gid_t) "setegid(2)";
    setregid(real: libc::gid_t, effective: libc::gid_t) "setregid(2)";
    setresgid(real: libc::gid_t, effective: libc::gid_t, saved: libc::gid_t) "setresgid(2)";
    setgroups(count: usize, groups: *const libc::gid_t) "setgroups(2)";
    initgroups(user: *const c_char, group: libc::gid_t) "initgroups(3)";
}

static FORK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds the next `_Fork` and `syscall`. A signal handler may call them; a lookup at the first call would happen there.
pub(crate) fn find() {
    // SAFETY: as below.
    SYSCALL.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) }, Release);
    // SAFETY: a C string; RTLD_NEXT asks for the definition after the object this code is in.
    FORK.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"_Fork".as_ptr()) }, Release);
    owner::forget_error();
}

/// _Fork(3) (glibc 2.34, musl 1.2.2), which calls no fork handlers.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _Fork() -> libc::pid_t {
    let found = FORK.load(Acquire);
    if found.is_null() {
        // SAFETY: no preconditions beyond those of `_Fork`.
        return unsafe { libc::fork() };
    }
    // SAFETY: found under the name of a function of this type.
    let function: unsafe extern "C" fn() -> libc::pid_t = unsafe { std::mem::transmute(found) };
    // SAFETY: the caller keeps the contract of the C function.
    pool::around_fork(|| unsafe { function() })
}

/// unshare(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the system call takes an integer.
    pool::without_thread(|| unsafe { next::system_call(libc::SYS_unshare, [flags as usize]) as c_int })
}

/// setns(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    // SAFETY: the system call takes two integers.
    pool::without_thread(|| unsafe {
        next::system_call(libc::SYS_setns, [descriptor as usize, kind as usize]) as c_int
    })
}

/// Whether a process-wide setting precedes or is a sandbox, or forbids the clock.
fn confines(option: c_int) -> bool {
    [libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_SECCOMP, libc::PR_SET_TSC].contains(&option)
}

/// Prepares for a sandbox. Keeps errno.
fn confine() {
    if owner::is_passive() {
        return summary::give_up();
    }
    let errno = next::errno();
    summary::confine();
    next::set_errno(errno);
    pool::confine();
}

/// prctl(2). The C function is variadic; all arguments are passed in registers.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if confines(option) {
        confine();
    }
    // SAFETY: forwarded.
    unsafe { calls::prctl(option, second, third, fourth, fifth) }
}

/// The calls that are watched where they come through syscall(2), as a bitmap of their numbers.
static WATCHED: [u64; 8] = marked(marked([0; 8], &ALONE), &altered::NUMBERS);

const fn marked(mut map: [u64; 8], numbers: &[c_long]) -> [u64; 8] {
    let mut at = 0;
    while at < numbers.len() {
        map[numbers[at] as usize / 64] |= 1 << (numbers[at] % 64);
        at += 1;
    }
    map
}

/// Those that concern the background thread.
const ALONE: [c_long; 6] = [
    libc::SYS_exit,
    libc::SYS_prctl,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_seccomp,
    libc::SYS_landlock_restrict_self,
];

/// syscall(2). It jumps to the next definition: any call may be made through it, also one that returns twice.
///
/// # Safety
/// As the C function of that name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "cmp edi, {end}",
        "jae 2f",
        "lea r10, [rip + {map}]",
        "mov eax, edi",
        "bt dword ptr [r10], eax",
        "jc {watched}",
        "2:",
        "cmp qword ptr [rip + {next}], 0",
        "je {direct}",
        "jmp qword ptr [rip + {next}]",
        end = const WATCHED.len() * 64,
        map = sym WATCHED,
        watched = sym watched,
        direct = sym direct,
        next = sym SYSCALL,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "cmp w0, {end}",
        "b.hs 2f",
        "adrp x16, {map}",
        "add x16, x16, :lo12:{map}",
        "lsr w17, w0, 6",
        "ldr x16, [x16, x17, lsl 3]",
        "lsr x16, x16, x0",
        "tbz x16, 0, 2f",
        "b {watched}",
        "2:",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbz x16, 3f",
        "br x16",
        "3:",
        "b {direct}",
        end = const WATCHED.len() * 64,
        map = sym WATCHED,
        watched = sym watched,
        direct = sym direct,
        next = sym SYSCALL,
    );
}

/// Makes the system call, before the next definition was found.
///
/// # Safety
/// As syscall(2).
unsafe extern "C" fn direct(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    // SAFETY: forwarded.
    unsafe { next::system_call(number, [first, second, third, fourth, fifth, sixth]) }
}

/// Makes a call that concerns the background thread, or that may change pages of the pool.
///
/// # Safety
/// As syscall(2).
unsafe extern "C" fn watched(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    type Next = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
    /// What only asks is no sandbox: SECCOMP_GET_ACTION_AVAIL and greater operations.
    const ASKS: usize = libc::SECCOMP_GET_ACTION_AVAIL as usize;
    let found = SYSCALL.load(Acquire);
    let function: Next = if found.is_null() {
        direct
    } else {
        // SAFETY: found under the name of a function that takes such arguments.
        unsafe { std::mem::transmute::<*mut c_void, Next>(found) }
    };
    let arguments = [first, second, third, fourth, fifth, sixth];
    // SAFETY: the arguments of that call.
    if let Some(answer) = unsafe { altered::answered(number, arguments) } {
        return answer;
    }
    // SAFETY: forwarded.
    let forward = || unsafe { function(number, first, second, third, fourth, fifth, sixth) };
    match number {
        libc::SYS_exit => pool::end_thread(),
        libc::SYS_prctl if !confines(first as c_int) => {}
        libc::SYS_seccomp if first >= ASKS => {}
        libc::SYS_prctl | libc::SYS_seccomp => confine(),
        libc::SYS_unshare | libc::SYS_setns | libc::SYS_landlock_restrict_self => {
            return pool::without_thread(forward);
        }
        // SAFETY: the arguments of that call.
        _ => unsafe { altered::seen(number, [first, second, third, fourth, fifth]) },
    }
    forward()
}
