//! A thread that the C library does not know.
//!
//! In: a function and its argument. Out: a thread made by clone(2), with a stack and a block of thread-local
//! storage. The block is zero except for errno and the words that the compiler reads. The thread blocks every
//! signal.
//!
//! Why not pthread_create(3): the library counts its threads. If the program's main thread calls
//! pthread_exit(3), the process would wait for this thread. It would also call malloc and take locks that
//! fork can lose.
//!
//! It does not support functions of a library: any of them may be another library's, which has thread-local variables.
//! What `os` calls for the pool are system calls, see `call`; the compiler calls memcpy(3) and the like.
//!
//! References: clone(2), set_tid_address(2), Ulrich Drepper, "ELF Handling For Thread-Local Storage".

use std::ffi::c_void;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed},
};

use crate::call::{call, process_id};
use crate::error::{Error, Result};
use crate::futex::wait;
use crate::processor::{Processors, thread_pointer};
use crate::{map, page};

/// What such a thread runs. It returns the thread's exit status.
pub(crate) type Entry = extern "C" fn(*mut c_void) -> libc::c_int;

/// Bytes of the stack. The work needs at most 10 KiB, and only used pages become resident.
const STACK_BYTES: usize = 128 << 10;
/// Least bytes of thread-local storage on either side of the thread pointer, for the C library's own
/// functions (`struct pthread` has 2.3 KiB in glibc).
const NEAR_BYTES: isize = 8 << 10;
/// With more thread-local storage than this, the thread is not started.
const FAR_BYTES: isize = 64 << 20;
/// Stacks and thread pointers are aligned to this many bytes.
const ALIGN_BYTES: usize = 64;

/// At most one thread, and its memory, which the next thread reuses.
#[derive(Debug, Default)]
pub(crate) struct Bare {
    /// The kernel's number of the thread. The kernel clears it once the thread has left its memory.
    tid: AtomicU32,
    /// The same number, to ask whether the kernel still counts the thread.
    last: AtomicU32,
    /// End of the stack and begin of the storage, and the thread pointer; 0: not mapped yet.
    stack_end: AtomicUsize,
    pointer: AtomicUsize,
}

impl Bare {
    pub(crate) const fn new() -> Self {
        Self {
            tid: AtomicU32::new(0),
            last: AtomicU32::new(0),
            stack_end: AtomicUsize::new(0),
            pointer: AtomicUsize::new(0),
        }
    }

    /// Forgets the thread: this process is a copy of the one that had it.
    pub(crate) fn forget(&self) {
        self.tid.store(0, Relaxed);
        self.last.store(0, Relaxed);
    }

    /// Starts the thread. There must be none, see [`Bare::is_over`].
    ///
    /// # Errors
    /// As clone(2) and mmap(2).
    pub(crate) fn start(&self, entry: Entry, argument: *mut c_void) -> Result<()> {
        if self.stack_end.load(Relaxed) == 0 {
            self.furnish()?;
        }
        let top = (self.stack_end.load(Relaxed) - 2 * size_of::<usize>()) as *mut usize;
        // SAFETY: inside the stack that `furnish` mapped, which no thread has now.
        unsafe { top.write(entry as usize) };
        // SAFETY: as above.
        unsafe { top.add(1).write(argument as usize) };
        // Including the signals that the C library reserves, because the library does not know the thread.
        let mask = Mask::block(u64::MAX);
        let tid = &raw const self.tid;
        // SAFETY: the stack holds the function and its argument; stack and storage are this thread's until the kernel clears `tid`.
        let rc = unsafe { clone(FLAGS, top.cast(), tid, tid, self.pointer.load(Relaxed)) };
        drop(mask);
        if rc < 0 {
            return Err(Error::new("clone", -rc as i32));
        }
        self.last.store(rc as u32, Relaxed);
        Ok(())
    }

    /// Waits for the end of a thread that was told to end, for at most `polls` times `poll_ns`. It ends when
    /// the kernel no longer counts it, shortly after it has left its memory. Returns whether it has ended.
    pub(crate) fn is_over(&self, polls: u32, poll_ns: u64) -> bool {
        let still = AtomicU32::new(0);
        for _ in 0..polls {
            let last = self.last.load(Relaxed);
            // SAFETY: signal 0 only asks whether the thread exists.
            let is_gone = || unsafe { call!(libc::SYS_tgkill, process_id(), last, 0) } != 0;
            if self.tid.load(Acquire) == 0 && (last == 0 || is_gone()) {
                self.last.store(0, Relaxed);
                return true;
            }
            wait(&still, 0, Some(poll_ns));
        }
        false
    }

    /// Maps stack and storage: a guard page, the stack, the storage.
    fn furnish(&self) -> Result<()> {
        let here = thread_pointer();
        // SAFETY: no arguments, and it cannot fail.
        let errno = unsafe { libc::__errno_location() }.addr().wrapping_sub(here).cast_signed();
        let area = Processors::find().area();
        let (low, high) = (errno.min(area).min(0) - NEAR_BYTES, errno.max(area).max(0) + NEAR_BYTES);
        if low < -FAR_BYTES || high > FAR_BYTES {
            return Err(Error::new("clone", libc::ENOMEM));
        }
        let below = page::round_up(low.unsigned_abs());
        let len = page::size() + STACK_BYTES + below + page::round_up(high.unsigned_abs());
        let start = map::anonymous(len)?;
        // SAFETY: mapped above, and not shared. Where it fails there is no guard.
        let _ = unsafe { map::protect(start, page::size()) };
        let stack_end = start + page::size() + STACK_BYTES;
        let pointer = (stack_end + below) & !(ALIGN_BYTES - 1);
        furnish_head(here, pointer);
        self.pointer.store(pointer, Relaxed);
        self.stack_end.store(stack_end, Relaxed);
        Ok(())
    }
}

/// Writes the words that the compiler and the C library read at the thread pointer. On x86-64 these are its
/// own address, twice, and the two guards that all threads share.
#[cfg(target_arch = "x86_64")]
fn furnish_head(from: usize, to: usize) {
    let words = [(0x00, to), (0x10, to)];
    let copied = [0x28, 0x30].map(|offset| {
        // SAFETY: the ABI's thread control block has these words in every thread (glibc's tcbhead_t, musl's pthread_impl.h).
        (offset, unsafe { ((from + offset) as *const usize).read() })
    });
    for (offset, word) in words.into_iter().chain(copied) {
        // SAFETY: inside the storage that `furnish` mapped.
        unsafe { ((to + offset) as *mut usize).write(word) };
    }
}

/// On other processors only thread-local variables are read there.
#[cfg(not(target_arch = "x86_64"))]
fn furnish_head(_: usize, _: usize) {}

/// Blocks the calling thread's signals until dropped.
pub(crate) struct Mask(u64);

impl Mask {
    /// Blocks these signals and no others: bit 0 is signal 1.
    pub(crate) fn block(signals: u64) -> Self {
        Self(set_mask(signals))
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        set_mask(self.0);
    }
}

/// The mask that was there before.
fn set_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    // Miri has no signals.
    if cfg!(miri) {
        return before;
    }
    let (new, old) = (&raw const mask, &raw mut before);
    // SAFETY: both sets have the kernel's size, 8 bytes.
    unsafe { call!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, new, old, size_of::<u64>()) };
    before
}

/// The flags of the C libraries; emulators know no others.
const FLAGS: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// clone(2) for a thread. The new thread calls the function on the new stack with its argument, then ends with the
/// status that it returned.
/// Returns the new thread's number, or minus errno.
///
/// # Safety
/// `stack` must point to a function and its argument, aligned to 16 bytes, at the end of a stack; `pointer` to storage for the thread.
#[unsafe(naked)]
unsafe extern "C" fn clone(
    flags: libc::c_int,
    stack: *mut c_void,
    parent_tid: *const AtomicU32,
    child_tid: *const AtomicU32,
    pointer: usize,
) -> isize {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "mov r10, rcx",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "xor ebp, ebp",
        "pop rax",
        "pop rdi",
        "call rax",
        "mov edi, eax",
        "mov eax, {exit}",
        "syscall",
        "ud2",
        clone = const libc::SYS_clone,
        exit = const libc::SYS_exit,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "mov x5, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x8, {clone}",
        "svc 0",
        "cbz x0, 2f",
        "ret",
        "2:",
        "mov x29, xzr",
        "mov x30, xzr",
        "ldp x1, x0, [sp], #16",
        "blr x1",
        "mov x8, {exit}",
        "svc 0",
        "brk 1",
        clone = const libc::SYS_clone,
        exit = const libc::SYS_exit,
    );
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    static SEEN: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

    extern "C" fn observe(argument: *mut c_void) -> libc::c_int {
        // SAFETY: -1 is no descriptor, so the call fails and sets errno.
        unsafe { libc::syscall(libc::SYS_close, -1) };
        // SAFETY: no arguments, and it cannot fail.
        let errno = unsafe { libc::__errno_location() };
        SEEN[0].store(argument.addr(), Relaxed);
        SEEN[1].store(errno.addr(), Relaxed);
        // SAFETY: this thread's own errno.
        SEEN[2].store(unsafe { *errno } as usize, Relaxed);
        0
    }

    #[test]
    fn it_has_an_errno_of_its_own_and_can_be_started_again() {
        let bare: &Bare = Box::leak(Box::default());
        for argument in [7, 8] {
            bare.start(observe, std::ptr::without_provenance_mut(argument)).unwrap();
            while !bare.is_over(100, 50_000) {}
            assert_eq!(SEEN[0].load(Relaxed), argument);
            assert_eq!(SEEN[2].load(Relaxed), libc::EBADF as usize);
            // SAFETY: no arguments, and it cannot fail.
            assert_ne!(SEEN[1].load(Relaxed) >> 12, unsafe { libc::__errno_location() }.addr() >> 12);
        }
    }
}
