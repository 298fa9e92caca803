//! One background thread inside somebody else's program.
//!
//! In: a piece of work that lives as long as the program. Out: a thread named "faultless" that takes no signal, interrupts
//! nobody (SCHED_BATCH), sleeps on a futex and holds no descriptor of the program's.
//!
//! ```text
//! None -start-> Starting -> Running -stop-> Stopping -> Stopped -allow-> None        None -stop-> Stopped
//! ```
//! errno may change. Nothing here allocates from the heap. pthread_create itself asks malloc for some hundred bytes and takes locks of the C
//! library: start no thread while holding a lock that malloc or free may want.
//!
//! Not SCHED_IDLE, nor nice 19: a process ends, and execs, only when its last thread has, and who wants a lock waits for who
//! has it. With three busy programs on two processors a process with one sleeping thread took 3 ms to end with SCHED_BATCH,
//! 17 ms with nice 19 and 100 ms (up to 540) with SCHED_IDLE. Work that can wait for an idle processor has to ask for one.
//!
//! References: pthread_create(3), sched(7), close_range(2), nptl(7).

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};

use crate::error::{Error, Result};
use crate::futex::{wait, wake_all};

const NONE: u32 = 0;
const STARTING: u32 = 1;
const RUNNING: u32 = 2;
const STOPPING: u32 = 3;
/// There is none, and none may be started.
const STOPPED: u32 = 4;

/// Stack and static thread-local storage together; only what is used becomes resident. Less fails in programs whose
/// libraries have much thread-local storage.
const STACK_BYTES: usize = 256 << 10;
/// How long `stop` waits for the kernel to forget a thread that has ended, in looks of 50 us: it takes some 10 us.
const LOOKS: u32 = 2000;
const LOOK_NS: u64 = 50_000;

/// What a background thread does.
pub trait Work: Sync + 'static {
    /// The thread's whole life. Return when [`Background::must_stop`] says so.
    fn work(&'static self);
}

/// At most one thread, and the way to wake it.
#[derive(Debug, Default)]
pub struct Background {
    state: AtomicU32,
    /// Counts calls of `wake`; the futex that the thread sleeps on.
    wakes: AtomicU32,
    stop: AtomicBool,
    /// The pthread_t, while Running.
    handle: AtomicUsize,
    /// The kernel's number of the thread, set by itself.
    tid: AtomicU32,
    /// The process that started it: one made by a bare clone(2) has this memory and not this thread.
    pid: AtomicU32,
}

impl Background {
    /// No thread.
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(NONE),
            wakes: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            handle: AtomicUsize::new(0),
            tid: AtomicU32::new(0),
            pid: AtomicU32::new(0),
        }
    }

    /// Whether there is a thread, or about to be.
    pub fn is_started(&self) -> bool {
        matches!(self.state.load(Relaxed), STARTING | RUNNING)
    }

    /// Starts the thread unless there is one.
    ///
    /// # Errors
    /// EAGAIN: RLIMIT_NPROC, `kernel.threads-max`, `pids.max` or no memory for a stack. EINVAL: a namespace of this process
    /// allows none.
    pub fn start<W: Work>(&self, work: &'static W) -> Result<()> {
        // Whoever interrupts this and forks would wait for it, and so for himself.
        let _quiet = Quiet::begin();
        if !self.swap(NONE, STARTING) {
            return Ok(());
        }
        self.stop.store(false, Relaxed);
        self.tid.store(0, Relaxed);
        self.pid.store(std::process::id(), Relaxed);
        match create::<W>(work) {
            Ok(handle) => {
                self.handle.store(handle, Relaxed);
                self.change_to(RUNNING);
                Ok(())
            }
            Err(errno) => {
                self.change_to(NONE);
                Err(Error::new("pthread_create", errno))
            }
        }
    }

    /// For the thread itself, first thing: gives it its name and policy. Whether it has a table of descriptors of its
    /// own; without, it must open no file, since the program may count on the number that its next `open` gets.
    pub fn settle(&self) -> bool {
        self.tid.store(thread(), Relaxed);
        yield_to_the_running();
        // SAFETY: the name is a C string of less than 16 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"faultless".as_ptr()) };
        /// Linux 5.9.
        const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
        // With this flag nothing is copied that would be closed at once: no pipe stays open for a moment longer.
        // SAFETY: three integers; the descriptors closed are those of this thread's new, private table.
        unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE) == 0 }
    }

    /// For the thread itself: how often it was woken so far. Read it before looking for work, and pass it to `sleep`.
    pub fn wakes(&self) -> u32 {
        self.wakes.load(SeqCst)
    }

    /// For the thread itself: sleeps until somebody wakes it, or has done so since `seen`, or the time is over.
    pub fn sleep(&self, seen: u32, limit_ns: Option<u64>) {
        wait(&self.wakes, seen, limit_ns);
    }

    /// For the thread itself: whether it has to return.
    pub fn must_stop(&self) -> bool {
        self.stop.load(Acquire)
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        self.wakes.fetch_add(1, SeqCst);
        wake_all(&self.wakes);
    }

    /// Ends the thread, waits until the kernel, too, has forgotten it, and lets none start before [`Background::allow`], which
    /// has to follow if this is true. Not for the thread itself.
    pub fn stop(&self) -> bool {
        loop {
            match self.state.load(Acquire) {
                // A process made by a bare clone(2) may share this memory with the one that has the thread.
                RUNNING if self.pid.load(Relaxed) != std::process::id() => return false,
                RUNNING => {
                    let _quiet = Quiet::begin();
                    if self.swap(RUNNING, STOPPING) {
                        self.join();
                        return true;
                    }
                }
                NONE if self.swap(NONE, STOPPED) => return true,
                other => wait(&self.state, other, None),
            }
        }
    }

    /// Ends the thread that is STOPPING.
    fn join(&self) {
        self.stop.store(true, Release);
        self.wake();
        let handle = self.handle.load(Relaxed) as libc::pthread_t;
        let before = cancel_state(CANCEL_DISABLE);
        // SAFETY: RUNNING says that the handle is of a thread that nobody has joined; STOPPING, that only we do.
        unsafe { libc::pthread_join(handle, ptr::null_mut()) };
        self.outlive();
        self.change_to(STOPPED);
        cancel_state(before);
    }

    /// After [`Background::stop`]: a thread may be started again. After `fork`, in parent and child.
    pub fn allow(&self) {
        if self.swap(STOPPED, NONE) {
            wake_all(&self.state);
        }
    }

    fn swap(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }

    fn change_to(&self, state: u32) {
        self.state.store(state, Release);
        wake_all(&self.state);
    }

    /// pthread_join returns a moment before the kernel stops counting the thread, and unshare(CLONE_NEWUSER) looks at the
    /// kernel's count.
    fn outlive(&self) {
        let (pid, tid) = (std::process::id(), self.tid.load(Relaxed));
        let still = AtomicU32::new(0);
        for _ in 0..LOOKS {
            // SAFETY: signal 0 only asks whether the thread exists.
            if tid == 0 || unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) } != 0 {
                return;
            }
            wait(&still, 0, Some(LOOK_NS));
        }
    }
}

unsafe extern "C" {
    /// pthread_setcancelstate(3).
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// PTHREAD_CANCEL_DISABLE of glibc and musl.
const CANCEL_DISABLE: libc::c_int = 1;

/// Whether the calling thread may be cancelled from now on; what was so before. pthread_join is a cancellation point, and
/// fork, around which threads end, is none: who was cancelled there would leave everybody else waiting for ever.
fn cancel_state(state: libc::c_int) -> libc::c_int {
    let mut before = 0;
    // SAFETY: the place is valid for one integer.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

/// Lets others run for a moment, also those of a lower priority. errno may change.
pub fn pause() {
    wait(&AtomicU32::new(0), 0, Some(LOOK_NS));
}

/// No signal reaches the calling thread until this is dropped, but those that the C library needs itself: setuid(2) reaches
/// every thread by one.
pub struct Quiet(libc::sigset_t);

impl Quiet {
    /// From now on.
    pub fn begin() -> Self {
        let (mut all, mut before) =
            (MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::<libc::sigset_t>::zeroed());
        // SAFETY: the pointer is valid for one sigset_t.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: a full set, and a place for the old one.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        // SAFETY: all-zero is a valid sigset_t, and the call has filled it in.
        Self(unsafe { before.assume_init() })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: the set that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// Creates the thread. It has the signal mask of its creator: all are blocked, see `start`.
fn create<W: Work>(work: &'static W) -> std::result::Result<usize, i32> {
    extern "C" fn enter<W: Work>(work: *mut c_void) -> *mut c_void {
        // SAFETY: `create` passes a reference that lives as long as the program.
        let work: &'static W = unsafe { &*work.cast::<W>() };
        work.work();
        ptr::null_mut()
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the pointer is valid for one pthread_attr_t.
    match unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } {
        0 => {}
        errno => return Err(errno),
    }
    // SAFETY: initialised above.
    unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES) };
    let mut handle = MaybeUninit::<libc::pthread_t>::zeroed();
    let argument = ptr::from_ref(work).cast_mut().cast();
    // SAFETY: initialised attributes, a place for the handle, and a function that fits its argument.
    let rc = unsafe { libc::pthread_create(handle.as_mut_ptr(), attributes.as_ptr(), enter::<W>, argument) };
    // SAFETY: initialised above, not used again.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    // SAFETY: all-zero is a valid pthread_t, and pthread_create has filled it in if it succeeded.
    if rc == 0 { Ok(unsafe { handle.assume_init() } as usize) } else { Err(rc) }
}

/// SCHED_BATCH (2.6.16): being woken never interrupts who is running. Also the way out of a real-time policy that the
/// creator may have. Refused nowhere; if it were, the thread would be an ordinary one.
fn yield_to_the_running() {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const parameter) };
}

fn thread() -> u32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Works until it is stopped, and notes what it is.
    #[derive(Default)]
    struct Probe {
        background: Background,
        rounds: AtomicU32,
        descriptors: AtomicU32,
        blocked: AtomicU32,
        policy: AtomicU32,
    }

    impl Work for Probe {
        fn work(&'static self) {
            if self.background.settle() {
                // The one that lists the directory is the only one.
                let count = std::fs::read_dir("/proc/thread-self/fd").unwrap().count();
                self.descriptors.store(count as u32, Relaxed);
            }
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
            let mask = u64::from_str_radix(mask, 16).unwrap();
            self.blocked.store((mask >> (libc::SIGUSR1 - 1) & 1) as u32, Relaxed);
            // SAFETY: 0 is the calling thread.
            self.policy.store(unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as u32, Relaxed);
            loop {
                let seen = self.background.wakes();
                if self.background.must_stop() {
                    return;
                }
                self.rounds.fetch_add(1, Release);
                self.background.sleep(seen, None);
            }
        }
    }

    fn started() -> &'static Probe {
        let probe: &'static Probe = Box::leak(Box::default());
        probe.background.start(probe).unwrap();
        probe
    }

    fn until(what: impl Fn() -> bool) {
        let begin = std::time::Instant::now();
        while !what() {
            assert!(begin.elapsed().as_secs() < 60, "it never came");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn it_sleeps_until_woken_and_ends_when_told() {
        let probe = started();
        until(|| probe.rounds.load(Acquire) == 1);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(probe.rounds.load(Acquire), 1, "nobody woke it");
        probe.background.wake();
        until(|| probe.rounds.load(Acquire) == 2);
        assert!(probe.background.is_started());
        assert!(probe.background.stop());
        assert!(!probe.background.is_started());
        probe.background.start(probe).unwrap();
        assert!(!probe.background.is_started(), "nobody allowed it");
        let tid = probe.background.tid.load(Relaxed);
        assert!(!std::path::Path::new(&format!("/proc/self/task/{tid}")).exists());
        probe.background.allow();
        probe.background.start(probe).unwrap();
        until(|| probe.rounds.load(Acquire) == 3);
        probe.background.stop();
    }

    #[test]
    fn it_takes_no_signal_and_no_descriptor_and_interrupts_nobody() {
        let probe = started();
        until(|| probe.rounds.load(Acquire) == 1);
        assert_eq!(probe.blocked.load(Relaxed), 1);
        assert!(probe.descriptors.load(Relaxed) <= 1, "{:?}", probe.descriptors);
        assert_eq!(probe.policy.load(Relaxed), libc::SCHED_BATCH as u32);
        probe.background.stop();
    }

    #[test]
    fn the_creator_keeps_its_signal_mask() {
        let mask = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find(|line| line.starts_with("SigBlk:")).unwrap().to_owned()
        };
        let before = mask();
        let probe = started();
        assert_eq!(mask(), before);
        probe.background.stop();
    }

    #[test]
    fn a_sleep_ends_with_its_time() {
        let begin = std::time::Instant::now();
        let background = Background::new();
        while begin.elapsed().as_millis() < 5 {
            background.sleep(0, Some(1_000_000));
        }
        background.wake();
        background.sleep(0, None);
        assert!(begin.elapsed().as_secs() < 60);
    }

    #[test]
    fn threads_that_start_and_stop_at_once_leave_none() {
        let probe = started();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        probe.background.start(probe).unwrap();
                        assert!(probe.background.stop());
                        probe.background.allow();
                    }
                });
            }
        });
        probe.background.stop();
        assert!(!probe.background.is_started());
    }

    #[test]
    fn a_process_that_only_shares_the_memory_of_the_thread_leaves_it_alone() {
        let probe = started();
        until(|| probe.rounds.load(Acquire) == 1);
        probe.background.pid.store(1, Relaxed);
        assert!(!probe.background.stop());
        assert!(probe.background.is_started());
        probe.background.pid.store(std::process::id(), Relaxed);
        assert!(probe.background.stop());
    }
}
