//! The pool of large blocks in this process: its opening, its background thread, `fork`, and limits.
//!
//! In: settings, and the program's calls that concern the pool as a whole. Out: the pool, if there is one. There is
//! none before our constructor ran, while a thread is opening it, and if opening failed. Then all requests go to the
//! next malloc.

use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};

use faultless_os::call::process_id;
use faultless_os::lock::Mutex;
use faultless_os::processor::Processors;
use faultless_os::thread::Quiet;
use faultless_pool::{Alteration, Kernel, Page, Pool};

use crate::once::Once;
use crate::settings::Settings;
use crate::{Void, behind, next};

static SETTINGS: Once<Settings> = Once::new();
static POOL: Once<Pool<Kernel>> = Once::new();

/// Enough that glibc keeps 8 MiB of heap, and far from the 32 MiB from which on it learns nothing.
const LESSON_BYTES: usize = 4 << 20;

const CLOSED: u32 = 0;
const OPENING: u32 = 1;
const OPEN: u32 = 2;
const OFF: u32 = 3;
/// Off until `start`, and also afterwards if no block is large.
static STATE: AtomicU32 = AtomicU32::new(OFF);

/// Blocks of at least this many bytes are large. No block is before the constructor ran.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The start of the pool's range.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// The length of the range; 0 before the pool is open.
static LEN: AtomicUsize = AtomicUsize::new(0);

/// The process that owns this memory. A child of vfork(2) borrows it and must start no thread. 0 if that is unknown: in a
/// child of a confined process.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether the program confined its system calls, perhaps before there was a pool.
static IS_CONFINED: AtomicBool = AtomicBool::new(false);
/// Whether the program limits its number of threads.
static THREADS_COUNT: AtomicBool = AtomicBool::new(false);
/// Whether pages must stay where they are, perhaps since before there was a pool.
static KEEPS: AtomicBool = AtomicBool::new(false);
/// Whether the program locks everything that is mapped, perhaps since before there was a pool.
static LOCKS_ALL: AtomicBool = AtomicBool::new(false);

/// Whether mmap(2) was ever served by the pool.
static HAS_MAPPINGS: AtomicBool = AtomicBool::new(false);
/// Whether free memory of the pool ever made way for a mapping at its address.
static HAS_CEDED: AtomicBool = AtomicBool::new(false);

/// Held while the opened pool is published, and across `fork`. The fork handlers must see the pool whole or not at all.
static GATE: Mutex<()> = Mutex::new(());

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

/// The length from which blocks are large.
pub(crate) fn threshold() -> usize {
    THRESHOLD.load(Relaxed)
}

/// Tells the pool that the program is about to change these pages. Keeps errno.
#[inline(always)]
pub(crate) fn altered(address: usize, len: usize, alteration: Alteration) {
    if meets(address, len) {
        altered_inside(address, len, alteration);
    }
}

/// Tells the pool that the program wants a mapping at an address, if there is nothing. Keeps errno.
#[inline(always)]
pub(crate) fn named(address: usize, len: usize) {
    if address != 0 && has_mappings() && meets(address, len) {
        make_way(address, len);
    }
}

#[cold]
#[inline(never)]
fn make_way(address: usize, len: usize) {
    if let State::Open(pool) = state() {
        let errno = next::errno();
        HAS_CEDED.fetch_or(pool.cede(address, len), Relaxed);
        next::set_errno(errno);
    }
}

/// Whether the pool may have mappings of the program's own. Until then no call of the program's concerns one.
#[inline(always)]
pub(crate) fn has_mappings() -> bool {
    HAS_MAPPINGS.load(Relaxed)
}

/// Notes that the pool is about to get mappings of the program's own.
pub(crate) fn expect_mappings() {
    HAS_MAPPINGS.store(true, Relaxed);
}

/// Whether the program reckons with the addresses of what it has unmapped: it maps something there.
pub(crate) fn has_ceded() -> bool {
    HAS_CEDED.load(Relaxed)
}

/// Whether part of a range of addresses lies in the pool's range.
#[inline(always)]
fn meets(address: usize, len: usize) -> bool {
    let (base, end) = (BASE.load(Relaxed), BASE.load(Relaxed).wrapping_add(LEN.load(Relaxed)));
    address < end && address.saturating_add(len) > base
}

/// A child of vfork(2) reports as well, because it changes its parent's pages.
#[cold]
#[inline(never)]
fn altered_inside(address: usize, len: usize, alteration: Alteration) {
    // What a program unmapped, it expects to be empty.
    named(address, len);
    if let State::Open(pool) = state() {
        let errno = next::errno();
        pool.mark_altered(address, len, alteration);
        next::set_errno(errno);
    }
}

/// Sends large blocks to the pool from now on.
///
/// The fork handlers are registered here and not when the pool is opened. The handlers registered first run last before
/// `fork` and first after it. So the handlers of the program and of its libraries find the pool unlocked. They may
/// allocate, or wait for a thread that does. A library that registers handlers before our constructor ran calls
/// `lib::__register_atfork`, which comes here first.
pub(crate) fn start(settings: Settings) {
    // This library is never unloaded, so the handlers need no object to be removed with.
    let (before, parent, child) =
        (Some(before_fork as _), Some(after_fork_in_parent as _), Some(after_fork_in_child as _));
    next::at_fork(before, parent, child, std::ptr::null());
    Processors::find();
    next::has_aligned_new();
    PROCESS.store(process_id(), Relaxed);
    // SAFETY: called once, by the constructor; nobody reads it before THRESHOLD is set.
    unsafe { SETTINGS.write(settings) };
    if settings.threshold != usize::MAX {
        STATE.store(CLOSED, Release);
    }
    THRESHOLD.store(settings.threshold, Release);
}

/// The settings; `None` before `start`.
pub(crate) fn settings() -> Option<&'static Settings> {
    if THRESHOLD.load(Acquire) == usize::MAX {
        return None;
    }
    // SAFETY: THRESHOLD was set after the settings were written.
    Some(unsafe { SETTINGS.get() })
}

/// Which pages back large blocks; `None` before `start`.
pub(crate) fn page() -> Option<Page> {
    settings().map(|settings| settings.policy.page)
}

/// The state of the pool.
pub(crate) enum State {
    /// No large block was requested yet.
    Closed,
    /// There is no pool and there will be none.
    Off,
    /// The pool.
    Open(&'static Pool<Kernel>),
}

/// The state of the pool. Opens nothing.
pub(crate) fn state() -> State {
    match STATE.load(Acquire) {
        // SAFETY: OPEN is stored after the pool was written.
        OPEN => State::Open(unsafe { POOL.get() }),
        OFF => State::Off,
        _ => State::Closed,
    }
}

/// The pool. The first call opens it.
#[inline]
pub(crate) fn pool() -> Option<&'static Pool<Kernel>> {
    match state() {
        State::Open(pool) => Some(pool),
        State::Off => None,
        State::Closed => open(),
    }
}

#[cold]
fn open() -> Option<&'static Pool<Kernel>> {
    // A child of vfork(2) would open its own pool in its parent's memory.
    if !is_owner() {
        return None;
    }
    if STATE.compare_exchange(CLOSED, OPENING, AcqRel, Acquire).is_err() {
        return None;
    }
    let _ = THRESHOLD.load(Acquire);
    // SAFETY: STATE is CLOSED only after the settings were written.
    let settings = unsafe { SETTINGS.get() };
    // SAFETY: OPENING excludes a second writer, and readers wait for OPEN.
    let place = unsafe { POOL.place() };
    if Pool::open_at(place, settings.kernel(), settings.policy).is_err() {
        STATE.store(OFF, Release);
        return None;
    }
    let Some(gate) = GATE.lock() else {
        // This thread is forking.
        // SAFETY: just written, and nobody knows it.
        unsafe { place.assume_init_drop() };
        STATE.store(CLOSED, Release);
        return None;
    };
    // SAFETY: written above.
    let pool = unsafe { POOL.get() };
    if LOCKS_ALL.load(Relaxed) {
        pool.limit_addresses();
    }
    let (base, len) = pool.range();
    BASE.store(base, Release);
    LEN.store(len, Release);
    STATE.store(OPEN, SeqCst);
    // `keep` stores first and then looks for a pool, so one of the two sides notices.
    if keeps() {
        pool.keep();
    }
    drop(gate);
    if !behind::is_registered() {
        teach_next();
    }
    Some(pool)
}

/// Teaches glibc that the program has large blocks, by one block.
///
/// glibc learns from freed blocks that it had mapped. It raises the length from which it maps blocks (mallopt(3),
/// M_MMAP_THRESHOLD), and it keeps twice that much heap (M_TRIM_THRESHOLD). Now it sees no large blocks. Without this
/// lesson its heap is trimmed at 128 KiB and shrinks and grows all the time (measured: 4452 calls of brk instead of
/// 790).
fn teach_next() {
    // SAFETY: malloc has no preconditions.
    let block = unsafe { next::malloc(LESSON_BYTES) };
    // SAFETY: just allocated; nobody else has it.
    unsafe { next::free(block) };
}

/// Whether this memory belongs to this process, and not to a parent that waits for its child of vfork(2). A sandbox may
/// forbid the question.
pub(crate) fn is_owner() -> bool {
    is_confined() || process_id() == PROCESS.load(Relaxed)
}

/// Calls the pool, if it is open and belongs to this process. A child of vfork(2) acts for itself, and leaves this
/// memory soon. Keeps errno.
fn tell(call: impl FnOnce(&Pool<Kernel>)) {
    if let State::Open(pool) = state()
        && is_owner()
    {
        let errno = next::errno();
        call(pool);
        next::set_errno(errno);
    }
}

/// Applies the limits on this process's addresses or private memory, which were just set.
pub(crate) fn apply_limits() {
    tell(Pool::apply_limits);
}

/// Prepares for a program that is about to lock its memory. `future`: also everything mapped later.
pub(crate) fn is_about_to_lock(future: bool) {
    LOCKS_ALL.fetch_or(future && is_owner(), Relaxed);
    tell(|pool| {
        pool.release_idle();
        if future {
            pool.limit_addresses();
        }
    });
}

/// Whether the program locks everything that it maps.
pub(crate) fn locks_all() -> bool {
    LOCKS_ALL.load(Relaxed)
}

/// Whether the pool keeps its pages where they are.
pub(crate) fn keeps() -> bool {
    KEEPS.load(SeqCst)
}

/// Keeps all pages where they are from now on: somebody outside the kernel knows their frames.
pub(crate) fn keep() {
    KEEPS.fetch_or(is_owner(), SeqCst);
    tell(Pool::keep);
}

/// The answer of the next malloc, or of the kernel, to a large request. If it refuses, and addresses are limited, the
/// pool gives up its idle memory and the request is repeated once.
pub(crate) fn forwarded<T>(ask: impl Fn() -> T, is_refused: impl Fn(&T) -> bool) -> T {
    let errno = next::errno();
    let answer = ask();
    if !is_refused(&answer) {
        return answer;
    }
    let mut may_help = false;
    tell(|pool| {
        may_help = pool.addresses_are_limited();
        if may_help {
            pool.release_idle();
        }
    });
    if !may_help {
        return answer;
    }
    next::set_errno(errno);
    ask()
}

unsafe extern "C" fn before_fork() {
    // A signal handler that forks now would wait for its own thread. Signals wait until everything is held.
    let _quiet = Quiet::begin();
    GATE.hold();
    if let State::Open(pool) = state() {
        pool.before_fork();
    }
    behind::before_fork();
}

unsafe extern "C" fn after_fork_in_parent() {
    behind::after_fork();
    if let State::Open(pool) = state() {
        pool.after_fork_in_parent();
    }
    GATE.let_go();
    start_wanted_thread();
}

unsafe extern "C" fn after_fork_in_child() {
    behind::after_fork();
    PROCESS.store(if is_confined() { 0 } else { process_id() }, Relaxed);
    // The thread that was opening the pool is not in this process.
    let _ = STATE.compare_exchange(OPENING, CLOSED, AcqRel, Acquire);
    if let State::Open(pool) = state() {
        pool.after_fork_in_child();
    }
    GATE.let_go();
}

/// Makes a call that forks without calling the fork handlers, and calls them.
pub(crate) fn around_fork(call: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    // SAFETY: the handlers have no preconditions around `fork`.
    unsafe { before_fork() };
    let child = call();
    let errno = next::errno();
    if child == 0 {
        // SAFETY: as above.
        unsafe { after_fork_in_child() };
    } else {
        // SAFETY: as above.
        unsafe { after_fork_in_parent() };
    }
    next::set_errno(errno);
    child
}

/// Starts the background thread that the pool wants, if the program permits one.
#[cold]
fn start_thread(pool: &'static Pool<Kernel>) {
    if is_confined() || THREADS_COUNT.load(Relaxed) {
        pool.refuse_thread();
    } else if is_owner() {
        pool.start_thread();
    }
}

/// Makes a call of the pool, then starts the background thread if the pool wants one. errno may change.
#[inline]
pub(crate) fn serve<T>(pool: &'static Pool<Kernel>, call: impl FnOnce(&Pool<Kernel>) -> T) -> T {
    let result = call(pool);
    if pool.wants_thread() {
        start_thread(pool);
    }
    result
}

/// Starts the background thread if the pool wants one. Keeps errno.
fn start_wanted_thread() {
    if let State::Open(pool) = state()
        && pool.wants_thread()
    {
        let errno = next::errno();
        start_thread(pool);
        next::set_errno(errno);
    }
}

/// Makes a call that needs a process without a background thread.
pub(crate) fn without_thread<T>(call: impl FnOnce() -> T) -> T {
    let State::Open(pool) = state() else { return call() };
    if !is_owner() {
        return call();
    }
    let stopped = pool.stop_thread();
    let result = call();
    let errno = next::errno();
    if stopped {
        pool.allow_thread();
        start_wanted_thread();
    }
    next::set_errno(errno);
    result
}

/// Ends the background thread, because the calling thread is about to end. It starts again if another thread needs it.
pub(crate) fn end_thread() {
    tell(|pool| {
        if pool.stop_thread() {
            pool.allow_thread();
        }
    });
}

/// The number of this process, 0 if unknown.
pub(crate) fn process() -> u32 {
    PROCESS.load(Relaxed)
}

/// Whether the program confined its system calls.
pub(crate) fn is_confined() -> bool {
    IS_CONFINED.load(Relaxed)
}

/// Refuses the background thread for good: the program limits its number of threads.
pub(crate) fn count_threads() {
    THREADS_COUNT.fetch_or(is_owner(), Relaxed);
    tell(Pool::refuse_thread);
}

/// Confines the pool: the program is about to restrict its system calls.
pub(crate) fn confine() {
    if !is_owner() {
        return;
    }
    IS_CONFINED.store(true, Relaxed);
    let errno = next::errno();
    // A pool that is opened later would need system calls that may be forbidden then.
    if settings().is_some()
        && let Some(pool) = pool()
    {
        pool.confine();
    }
    next::set_errno(errno);
}
