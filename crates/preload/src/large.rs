//! Large blocks: the pool, opened by the first of them, and the way back to the next malloc wherever it refuses.
//!
//! In: lengths and pointers of C callers. Out: pointers. If in doubt, everything goes to the next malloc: before our
//! constructor ran, while the pool is being opened, when it could not be, and when it is full.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use faultless_os::lock::Mutex;
use faultless_os::processor::Processors;
use faultless_os::thread::Quiet;
use faultless_pool::{Kernel, Page, Pool};

use crate::line::Text;
use crate::settings::Settings;
use crate::{limits, next};

type Void = *mut c_void;

/// Where something lies that is put there while the program runs.
pub(crate) struct Place<T>(pub(crate) UnsafeCell<MaybeUninit<T>>);

impl<T> Place<T> {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }
}

// SAFETY: written once, before an atomic beside it says so; afterwards only shared references are made.
unsafe impl<T: Sync> Sync for Place<T> {}

static SETTINGS: Place<Settings> = Place::new();
static POOL: Place<Pool<Kernel>> = Place::new();

/// Enough to keep 8 MiB of heap, and far from the 32 MiB from which on glibc learns nothing.
const LESSON_BYTES: usize = 4 << 20;

const CLOSED: u32 = 0;
const OPENING: u32 = 1;
const OPEN: u32 = 2;
const OFF: u32 = 3;
/// Off until `start`, and after it where no block is large.
static STATE: AtomicU32 = AtomicU32::new(OFF);

/// Blocks of at least this many bytes are large; nothing is before the constructor ran.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The addresses that the pool's may come to; none before it is open.
static BASE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);

/// The process that owns this memory: a child of vfork(2) has it too, and must start no thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether the program forbade itself what a keeper does, perhaps before there was a pool.
static KEEPER_IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Held while the opened pool is put where all find it, and across `fork`, which looks after the pool that it finds.
static GATE: Mutex<()> = Mutex::new(());

/// Large requests that went to the next malloc.
pub(crate) static FORWARDED: AtomicU64 = AtomicU64::new(0);

/// Whether blocks of this length come from the pool.
#[inline(always)]
pub(crate) fn is_large(len: usize) -> bool {
    len >= THRESHOLD.load(Relaxed)
}

/// Whether an address lies in the pool's range.
#[inline(always)]
pub(crate) fn is_ours(block: Void) -> bool {
    (block as usize).wrapping_sub(BASE.load(Relaxed)) < LEN.load(Relaxed)
}

/// Tells the pool that the program is about to change these pages. Keeps errno.
#[inline(always)]
pub(crate) fn altered(address: usize, len: usize) {
    let (base, end) = (BASE.load(Relaxed), BASE.load(Relaxed).wrapping_add(LEN.load(Relaxed)));
    if address < end && address.saturating_add(len) > base {
        altered_inside(address, len);
    }
}

/// A child of vfork(2) reports as well: it changes its parent's pages.
#[cold]
#[inline(never)]
fn altered_inside(address: usize, len: usize) {
    if let Outcome::Open(pool) = outcome() {
        let errno = next::errno();
        pool.altered(address, len);
        next::set_errno(errno);
    }
}

/// From now on large blocks come from the pool.
///
/// The handlers of `fork` are registered here and not when the pool is opened: those registered first run last before
/// `fork` and first after it, so the handlers of the program and of its libraries, which may allocate or wait for a thread
/// that does, find the pool unlocked. Who registers some earlier than our constructor runs comes here first, see `lib`.
pub(crate) fn start(settings: Settings) {
    // This library is never unloaded before the process ends: no object is named that they would have to go with.
    next::at_fork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child), ptr::null());
    Processors::find();
    next::has_aligned_new();
    PROCESS.store(std::process::id(), Relaxed);
    // SAFETY: called once, by the constructor; nobody reads it before THRESHOLD is set.
    unsafe { (*SETTINGS.0.get()).write(settings) };
    limits::look();
    if settings.threshold != usize::MAX {
        STATE.store(CLOSED, Release);
    }
    THRESHOLD.store(settings.threshold, Release);
}

/// Which pages back large blocks; `None` before `start`.
pub(crate) fn page() -> Option<Page> {
    if THRESHOLD.load(Acquire) == usize::MAX {
        return None;
    }
    // SAFETY: THRESHOLD was set after the settings were written.
    Some(unsafe { (*SETTINGS.0.get()).assume_init_ref() }.policy.page)
}

/// What became of the pool.
pub(crate) enum Outcome {
    NeverAsked,
    Off,
    Open(&'static Pool<Kernel>),
}

/// What became of the pool so far.
pub(crate) fn outcome() -> Outcome {
    match STATE.load(Acquire) {
        // SAFETY: OPEN is stored after the pool was written.
        OPEN => Outcome::Open(unsafe { (*POOL.0.get()).assume_init_ref() }),
        OFF => Outcome::Off,
        _ => Outcome::NeverAsked,
    }
}

#[inline]
fn pool() -> Option<&'static Pool<Kernel>> {
    match outcome() {
        Outcome::Open(pool) => Some(pool),
        Outcome::Off => None,
        Outcome::NeverAsked => open(),
    }
}

#[cold]
fn open() -> Option<&'static Pool<Kernel>> {
    // The pool would be its child's, and the memory the parent's.
    if !is_owner() {
        return None;
    }
    if STATE.compare_exchange(CLOSED, OPENING, AcqRel, Acquire).is_err() {
        return None;
    }
    let _ = THRESHOLD.load(Acquire);
    // SAFETY: THRESHOLD, without which nobody comes here, was set after the settings were written.
    let settings = unsafe { (*SETTINGS.0.get()).assume_init_ref() };
    let Ok(pool) = Pool::open(Kernel::failing(settings.failing), settings.policy) else {
        STATE.store(OFF, Release);
        return None;
    };
    let Some(gate) = GATE.lock() else {
        // This thread is in the midst of a fork.
        STATE.store(CLOSED, Release);
        return None;
    };
    if LOCKS_ALL.load(Relaxed) {
        pool.be_thrifty();
    }
    let (base, len) = pool.range();
    // SAFETY: OPENING excludes a second writer, and readers wait for OPEN.
    let pool: &'static Pool<Kernel> = unsafe { (*POOL.0.get()).write(pool) };
    BASE.store(base, Release);
    LEN.store(len, Release);
    STATE.store(OPEN, Release);
    drop(gate);
    if !is_anyone_behind() {
        teach_next();
    }
    Some(pool)
}

/// glibc learns from freed blocks that it had mapped by themselves how large a program's blocks are, and then keeps more of
/// its heap (mallopt(3), M_MMAP_THRESHOLD; twice that length, M_TRIM_THRESHOLD). Large blocks don't reach it any more, and a
/// heap trimmed at 128 KiB shrinks and grows for ever (measured: 4452 calls of brk instead of 790). So it is shown one.
fn teach_next() {
    // SAFETY: malloc has no preconditions.
    let block = unsafe { next::malloc(LESSON_BYTES) };
    // SAFETY: just allocated; nobody else has it.
    unsafe { next::free(block) };
}

/// Whether whatever is mapped will be locked, which the program may have said before there was a pool.
static LOCKS_ALL: AtomicBool = AtomicBool::new(false);

/// What `call` does to the pool, if there is one and it is this process's: a child of vfork(2) speaks for itself, not for us, and gives
/// up this memory soon. errno stays.
fn tell(call: impl FnOnce(&Pool<Kernel>)) {
    if let Outcome::Open(pool) = outcome()
        && is_owner()
    {
        let errno = next::errno();
        call(pool);
        next::set_errno(errno);
    }
}

/// The limits on this process's addresses or private memory have been set.
pub(crate) fn heed_limits() {
    tell(Pool::heed_limits);
}

/// The program is about to lock its memory; `future`: also whatever is mapped from then on.
pub(crate) fn is_about_to_lock(future: bool) {
    LOCKS_ALL.fetch_or(future && is_owner(), Relaxed);
    tell(|pool| {
        pool.give_up_idle();
        if future {
            pool.be_thrifty();
        }
    });
}

/// What the next malloc, or the kernel, answers to a large request. Where it refuses and addresses count, the pool gives up what is idle, and
/// it is asked once more.
pub(crate) fn forwarded<T>(ask: impl Fn() -> T, is_refused: impl Fn(&T) -> bool) -> T {
    let errno = next::errno();
    let answer = ask();
    if !is_refused(&answer) {
        return answer;
    }
    let mut may_help = false;
    tell(|pool| {
        may_help = pool.counts_addresses();
        if may_help {
            pool.give_up_idle();
        }
    });
    if !may_help {
        return answer;
    }
    next::set_errno(errno);
    ask()
}

/// What the allocator behind has to do before and after `fork`.
static BEHIND: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// Whether it was told of the `fork` under way.
static BEHIND_IS_TOLD: AtomicBool = AtomicBool::new(false);

/// From now on `before` and `after` are called around `fork`, nearer to it than what the pool does.
pub(crate) fn behind(before: unsafe extern "C" fn(), after: unsafe extern "C" fn()) {
    let [first, last] = &BEHIND;
    last.store(after as usize, Relaxed);
    first.store(before as usize, Release);
}

/// Whether an allocator behind said so: ours for small blocks, and no glibc that would learn.
pub(crate) fn is_anyone_behind() -> bool {
    let [before, _] = &BEHIND;
    before.load(Acquire) != 0
}

fn tell_behind(function: &AtomicUsize) -> bool {
    let address = function.load(Acquire) as *const c_void;
    if address.is_null() {
        return false;
    }
    // SAFETY: `behind` stored a function of this type there.
    let function: unsafe extern "C" fn() = unsafe { std::mem::transmute(address) };
    // SAFETY: it has no preconditions around `fork`.
    unsafe { function() };
    true
}

fn end_behind() {
    let [_, after] = &BEHIND;
    if BEHIND_IS_TOLD.swap(false, Relaxed) {
        tell_behind(after);
    }
}

unsafe extern "C" fn before_fork() {
    // A handler that forks now would wait for this fork, and so for itself. Once all is held, it finds that.
    let _quiet = Quiet::begin();
    GATE.hold();
    if let Outcome::Open(pool) = outcome() {
        pool.before_fork();
    }
    let [before, _] = &BEHIND;
    if tell_behind(before) {
        BEHIND_IS_TOLD.store(true, Relaxed);
    }
}

unsafe extern "C" fn after_fork_in_parent() {
    end_behind();
    if let Outcome::Open(pool) = outcome() {
        pool.after_fork_in_parent();
    }
    GATE.let_go();
    attend();
}

unsafe extern "C" fn after_fork_in_child() {
    end_behind();
    PROCESS.store(std::process::id(), Relaxed);
    // Whoever was opening the pool is not in this process.
    let _ = STATE.compare_exchange(OPENING, CLOSED, AcqRel, Acquire);
    if let Outcome::Open(pool) = outcome() {
        pool.after_fork_in_child();
    }
    GATE.let_go();
}

/// The way of `call`, which forks without the handlers of `fork`.
pub(crate) fn around_fork(call: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    // SAFETY: the handlers have no preconditions around `fork`.
    unsafe { before_fork() };
    let child = call();
    let errno = next::errno();
    match child {
        // SAFETY: as above.
        0 => unsafe { after_fork_in_child() },
        // SAFETY: as above.
        _ => unsafe { after_fork_in_parent() },
    }
    next::set_errno(errno);
    child
}

/// Whether this memory is this process's, and not one's that waits for its child of vfork(2).
fn is_owner() -> bool {
    std::process::id() == PROCESS.load(Relaxed)
}

/// Starts the keeper that the pool wants.
#[cold]
fn keep(pool: &'static Pool<Kernel>) {
    if KEEPER_IS_REFUSED.load(Relaxed) || THREADS_COUNT.load(Relaxed) {
        pool.refuse_keeper();
    } else if is_owner() {
        pool.keep();
    }
}

/// The way of `call` in a process of one thread as far as we are concerned: without a keeper.
pub(crate) fn alone<T>(call: impl FnOnce() -> T) -> T {
    let Outcome::Open(pool) = outcome() else { return call() };
    if !is_owner() {
        return call();
    }
    let stopped = pool.stop_keeper();
    let result = call();
    let errno = next::errno();
    if stopped {
        pool.allow_keeper();
        attend();
    }
    next::set_errno(errno);
    result
}

/// Starts the keeper if the pool wants one. errno stays.
pub(crate) fn attend() {
    if let Outcome::Open(pool) = outcome()
        && pool.wants_keeper()
    {
        let errno = next::errno();
        keep(pool);
        next::set_errno(errno);
    }
}

/// Whether the program forbade itself some system calls.
pub(crate) fn is_confined() -> bool {
    KEEPER_IS_REFUSED.load(Relaxed)
}

/// Whether the program limits how many threads there may be.
static THREADS_COUNT: AtomicBool = AtomicBool::new(false);

/// The program limits how many threads there may be: from now on none is ours.
pub(crate) fn count_threads() {
    THREADS_COUNT.fetch_or(is_owner(), Relaxed);
    tell(Pool::refuse_keeper);
}

/// From now on there is no keeper in this process.
pub(crate) fn refuse_keeper() {
    if !is_owner() {
        return;
    }
    KEEPER_IS_REFUSED.store(true, Relaxed);
    let errno = next::errno();
    // A pool that is yet to be opened would be by calls that may be forbidden then.
    let is_started = THRESHOLD.load(Acquire) != usize::MAX;
    if let Some(pool) = is_started.then(pool).flatten() {
        pool.confine();
    }
    next::set_errno(errno);
}

/// A large block; null, and errno as it was, when the pool can't serve it.
#[cold]
#[inline(never)]
pub(crate) fn alloc(len: usize, align: usize, zeroed: bool) -> Void {
    let errno = next::errno();
    let block = pool().and_then(|pool| {
        let block = pool.alloc_raw(len, align, zeroed);
        if pool.wants_keeper() {
            keep(pool);
        }
        block
    });
    next::set_errno(errno);
    match block {
        Some(block) => block.as_ptr().cast(),
        None => {
            FORWARDED.fetch_add(1, Relaxed);
            ptr::null_mut()
        }
    }
}

/// Frees a block in the pool's range; where none begins, says so once and does nothing.
///
/// # Safety
/// As free(3).
#[cold]
#[inline(never)]
pub(crate) unsafe fn free(block: Void) {
    let errno = next::errno();
    let known = pool().is_some_and(|pool| {
        // SAFETY: the caller gives the block up.
        let known = unsafe { pool.free_raw(block as usize) };
        if pool.wants_keeper() {
            keep(pool);
        }
        known
    });
    next::set_errno(errno);
    if !known && !is_nobodys(block, b"free") {
        // SAFETY: forwarded.
        unsafe { next::free(block) };
    }
}

/// Whether an address in the pool's range where no block begins can't be the next malloc's either: that would take what lies
/// before it for its own head. The program has freed a block before, or makes addresses up; the first time it is told.
/// `FAULTLESS_STRICT` then aborts it, as glibc would.
#[cold]
fn is_nobodys(block: Void, call: &[u8]) -> bool {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let Outcome::Open(pool) = outcome() else { return false };
    if pool.may_be_foreign(block as usize) {
        return false;
    }
    if !TOLD.swap(true, Relaxed) {
        // SAFETY: the pool is open, so the settings were written.
        let is_strict = unsafe { (*SETTINGS.0.get()).assume_init_ref() }.strict;
        let end: &[u8] = if is_strict { b"aborting" } else { b"ignored" };
        let mut line = Text::<128>::new();
        line.text(b"faultless: ")
            .text(call)
            .text(b" of a large block that was freed before, or of none: ")
            .text(end);
        line.write_to(2);
        if is_strict {
            // SAFETY: no preconditions.
            unsafe { libc::abort() };
        }
    }
    true
}

/// The usable length of a block in the pool's range.
#[cold]
#[inline(never)]
pub(crate) fn usable(block: Void) -> Option<usize> {
    pool()?.len_raw(block as usize)
}

/// realloc(3) of a block in the pool's range.
///
/// # Safety
/// As realloc(3).
#[cold]
#[inline(never)]
pub(crate) unsafe fn realloc(block: Void, len: usize) -> Void {
    let Some((pool, old)) = pool().and_then(|pool| Some((pool, pool.len_raw(block as usize)?))) else {
        if is_nobodys(block, b"realloc") {
            next::set_errno(libc::ENOMEM);
            return ptr::null_mut();
        }
        // SAFETY: forwarded; the pool doesn't know the block.
        return unsafe { next::realloc(block, len) };
    };
    if len == 0 {
        // SAFETY: malloc has no preconditions.
        let shortest = unsafe { next::malloc(1) };
        // SAFETY: the caller gives the block up.
        unsafe { free(block) };
        // glibc frees and answers null, musl answers with a block of no bytes.
        // SAFETY: allocated above, nobody knows it.
        return unsafe { next::realloc(shortest, 0) };
    }
    // A block that shrank below half the threshold goes back to the next malloc; in between it stays, lest a length
    // that swings about the threshold be copied at every call.
    if len >= THRESHOLD.load(Relaxed) / 2 {
        let errno = next::errno();
        // SAFETY: the caller allows the block to move.
        let resized = unsafe { pool.resize_raw(block as usize, len) };
        if pool.wants_keeper() {
            keep(pool);
        }
        next::set_errno(errno);
        if let Some(resized) = resized {
            return resized.as_ptr().cast();
        }
        FORWARDED.fetch_add(1, Relaxed);
    }
    // SAFETY: malloc has no preconditions.
    let new = forwarded(|| unsafe { next::malloc(len) }, |block| block.is_null());
    if new.is_null() {
        return if len <= old { block } else { new };
    }
    // SAFETY: `block` has `old` bytes, `new` has `len`, and they come from different allocators.
    unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old.min(len)) };
    // SAFETY: the content is copied and the caller gives the old block up.
    unsafe { free(block) };
    new
}

/// realloc(3) to a large length of a block that is not the pool's.
///
/// # Safety
/// As realloc(3); `block` is not null.
#[cold]
#[inline(never)]
pub(crate) unsafe fn adopt(block: Void, len: usize) -> Void {
    // SAFETY: the block is the next malloc's.
    let old = unsafe { next::malloc_usable_size(block) };
    // A large block stays with the allocator that made it: that may grow it without copying. Allocators round lengths
    // up by at most a quarter, so a block just above the threshold was a small request.
    let new = if is_large(old - old / 5) { ptr::null_mut() } else { alloc(len, 1, false) };
    if new.is_null() {
        // SAFETY: forwarded; where it refuses the block is as it was.
        return forwarded(|| unsafe { next::realloc(block, len) }, |block| block.is_null());
    }
    // SAFETY: `block` has `old` usable bytes, `new` has `len`, and they come from different allocators.
    unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old.min(len)) };
    // SAFETY: the content is copied and the caller gives the old block up.
    unsafe { next::free(block) };
    new
}
