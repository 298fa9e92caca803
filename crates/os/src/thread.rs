//! One background thread inside a program that is not ours.
//!
//! In: a piece of work that lives as long as the program. Out: a thread named "faultless". It takes no
//! signal, preempts no other thread (SCHED_BATCH), sleeps on a futex, has no capabilities and holds none of
//! the program's descriptors.
//!
//! A library may signal every thread in /proc/self/task and wait until each one has answered or is gone, as
//! libpsx does. The handler would run without thread-local storage, so the thread does not answer: it ends
//! ([`has_signal`], [`Background::leave`]).
//!
//! ```text
//! None -start-> Starting -> Running -retire-> None        Running -stop-> Stopping -> Stopped -allow-> None
//! ```
//! The thread is made by clone(2), not by the C library, see `bare`. So the library doesn't count it: a
//! process whose last own thread calls pthread_exit(3) ends, and the library still skips locks in a program
//! of one thread. No malloc is called and no lock taken, so any code may start it. errno may change.
//!
//! Why not SCHED_IDLE or nice 19: a process ends, and execs, only after its last thread, and a lock's owner
//! delays its waiters. With three busy programs on two processors, a process with one sleeping thread took 3
//! ms to end with SCHED_BATCH. It took 17 ms with nice 19, and 100 ms (up to 540) with SCHED_IDLE. Work that
//! can wait for an idle processor has to check for one.
//!
//! It does not take part when the C library changes the user or group of all threads. Stop the thread before
//! that, see `preload::single`.
//!
//! References: clone(2), sched(7), close_range(2), capset(2), nptl(7).

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use crate::bare::{Bare, Mask};
use crate::call::{call, process_id};
use crate::error::Result;
use crate::futex::{wait, wake_all};

const NONE: u32 = 0;
const STARTING: u32 = 1;
const RUNNING: u32 = 2;
const STOPPING: u32 = 3;
/// There is none, and none may be started.
const STOPPED: u32 = 4;

/// How often to check for the end of a thread, every 50 us; it takes some 10 us.
const POLLS: u32 = 2000;
const POLL_NS: u64 = 50_000;

/// What a background thread does.
pub trait Work: Sync + 'static {
    /// The thread's whole life. Return when [`Background::must_stop`], [`Background::retire`] or
    /// [`Background::leave`] says so. The thread has no thread-local variables of the C library: call only `os`.
    ///
    /// Returns the thread's exit status, which matters only if it is the last one, see [`last_status`].
    fn work(&'static self) -> i32;
}

/// At most one thread, and the way to wake it.
#[derive(Debug, Default)]
pub struct Background {
    state: AtomicU32,
    /// Counts calls of `wake`; the futex that the thread sleeps on.
    wakes: AtomicU32,
    stop: AtomicBool,
    bare: Bare,
    /// The process that started it. A process made by a bare clone(2) may share this memory, but has no such
    /// thread.
    pid: AtomicU32,
}

impl Background {
    /// No thread.
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(NONE),
            wakes: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            bare: Bare::new(),
            pid: AtomicU32::new(0),
        }
    }

    /// Whether there is a thread, or one is starting.
    pub fn is_started(&self) -> bool {
        matches!(self.state.load(SeqCst), STARTING | RUNNING)
    }

    /// Starts the thread unless there is one.
    ///
    /// # Errors
    /// EAGAIN: RLIMIT_NPROC, `kernel.threads-max` or `pids.max`. ENOMEM: no memory for a stack. EINVAL: a namespace of this process
    /// allows none.
    pub fn start<W: Work>(&self, work: &'static W) -> Result<()> {
        // A signal handler that interrupts this and forks would wait for the code it interrupted.
        let _quiet = Quiet::begin();
        if !self.swap(NONE, STARTING) {
            return Ok(());
        }
        self.stop.store(false, Relaxed);
        let pid = process_id();
        if self.pid.swap(pid, Relaxed) != pid {
            self.bare.forget();
        }
        // The last thread has retired and is about to exit.
        if !self.bare.is_over(POLLS, POLL_NS) {
            self.change_to(NONE);
            return Ok(());
        }
        let started = self.bare.start(enter::<W>, ptr::from_ref(work).cast_mut().cast());
        self.change_to(if started.is_ok() { RUNNING } else { NONE });
        started
    }

    /// For the thread itself, first thing: sets its name and policy. Returns whether it has its own
    /// descriptor table. Without one it must open no file, since the program may rely on the number of its
    /// next `open`.
    pub fn settle(&self) -> bool {
        while self.state.load(Acquire) == STARTING {
            wait(&self.state, STARTING, None);
        }
        yield_to_the_running();
        drop_capabilities();
        // SAFETY: the name is a C string of less than 16 bytes.
        unsafe { call!(libc::SYS_prctl, libc::PR_SET_NAME, c"faultless".as_ptr()) };
        /// Linux 5.9.
        const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
        // With this flag the new table copies nothing that would be closed at once, so no pipe stays open
        // longer.
        // SAFETY: three integers; the descriptors closed are those of this thread's new, private table.
        unsafe { call!(libc::SYS_close_range, 0, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE) == 0 }
    }

    /// For the thread itself: how often it was woken. Read it before looking for work, and pass it to `sleep`
    /// and `retire`.
    pub fn wakes(&self) -> u32 {
        self.wakes.load(SeqCst)
    }

    /// For the thread itself: sleeps until a wake-up, also one since `seen`, or the time is over.
    pub fn sleep(&self, seen: u32, limit_ns: Option<u64>) {
        wait(&self.wakes, seen, limit_ns);
    }

    /// For the thread itself: whether it has to return.
    pub fn must_stop(&self) -> bool {
        self.stop.load(Acquire)
    }

    /// For the thread itself, if it has nothing left to do: whether it has to return. False if it was woken
    /// since `seen`.
    pub fn retire(&self, seen: u32) -> bool {
        if self.state.compare_exchange(RUNNING, NONE, SeqCst, SeqCst).is_err() {
            return true;
        }
        // `wake` counts first and then checks for a thread, so one of the two sides notices.
        self.wakes.load(SeqCst) == seen || !self.swap(NONE, RUNNING)
    }

    /// For the thread itself, if it cannot stay: whether it has to return without being told. False if it was told to
    /// end.
    pub fn leave(&self) -> bool {
        self.swap(RUNNING, NONE)
    }

    /// Wakes the thread. Returns whether there is one; without one, it makes no system call.
    pub fn wake(&self) -> bool {
        self.wakes.fetch_add(1, SeqCst);
        let is_started = self.is_started();
        if is_started {
            wake_all(&self.wakes);
        }
        is_started
    }

    /// Ends the thread, waits until the kernel has removed it, and prevents a new start before
    /// [`Background::allow`], which must follow if this returns true. Not for the thread itself.
    pub fn stop(&self) -> bool {
        loop {
            match self.state.load(Acquire) {
                // A process made by a bare clone(2) may share this memory with the one that has the thread.
                RUNNING if self.pid.load(Relaxed) != process_id() => return false,
                RUNNING => {
                    let _quiet = Quiet::begin();
                    if self.swap(RUNNING, STOPPING) {
                        self.stop.store(true, Release);
                        self.wakes.fetch_add(1, SeqCst);
                        wake_all(&self.wakes);
                        self.bare.is_over(POLLS, POLL_NS);
                        self.change_to(STOPPED);
                        return true;
                    }
                }
                NONE => {
                    let _quiet = Quiet::begin();
                    if self.swap(NONE, STOPPED) {
                        self.bare.is_over(POLLS, POLL_NS);
                        return true;
                    }
                }
                other => wait(&self.state, other, None),
            }
        }
    }

    /// After [`Background::stop`], allows a thread again. After `fork`, call it in parent and child.
    pub fn allow(&self) {
        if self.swap(STOPPED, NONE) {
            wake_all(&self.state);
        }
    }

    fn swap(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, SeqCst, Acquire).is_ok()
    }

    fn change_to(&self, state: u32) {
        self.state.store(state, SeqCst);
        wake_all(&self.state);
    }
}

extern "C" fn enter<W: Work>(work: *mut c_void) -> libc::c_int {
    // SAFETY: `start` passes a reference that lives as long as the program.
    let work: &'static W = unsafe { &*work.cast::<W>() };
    work.work()
}

/// If the calling thread is the last one, the exit status of the process's first thread; that one has ended, and there
/// is no other.
///
/// The process ends with its last thread. Since Linux 5.18 that thread's status is the process's; before, the first
/// thread's is.
pub fn last_status() -> Option<i32> {
    last(crate::text::read(c"/proc/self/stat", &mut [0; 512])?)
}

/// The first thread's exit status in /proc/PID/stat, if it has ended and there is one other thread. proc_pid_stat(5):
/// fields 3, 20 and 52, which holds a status as of wait(2).
fn last(text: &[u8]) -> Option<i32> {
    let behind_name = text.get(text.iter().rposition(|&byte| byte == b')')? + 2..)?;
    let mut fields = behind_name.split(|&byte| byte == b' ');
    let (state, threads, status) = (fields.next()?, fields.nth(16)?, fields.nth(31)?);
    let is_last = state == b"Z" && threads == b"2";
    is_last.then_some((crate::text::number(status)?.0 >> 8 & 0xff) as i32)
}

/// Whether a signal waits for the calling thread, which blocks it. Only for a thread that may open files.
pub fn has_signal() -> bool {
    let mut pending = 0_u64;
    // SAFETY: the set has the kernel's size, 8 bytes.
    let answer = unsafe { call!(libc::SYS_rt_sigpending, &raw mut pending, size_of::<u64>()) };
    // Those that wait for any thread of the process are in the set too, and may wait for long.
    answer == 0
        && pending != 0
        && is_signalled(crate::text::read(c"/proc/thread-self/status", &mut [0; 2048]))
}

/// Whether `SigPnd:` in /proc/PID/task/TID/status, proc_pid_status(5), names a signal.
fn is_signalled(text: Option<&[u8]>) -> bool {
    let set = text.and_then(|text| crate::text::after(text, b"\nSigPnd:\t"));
    set.is_some_and(|set| set.iter().take_while(|&&byte| byte != b'\n').any(|&byte| byte != b'0'))
}

/// Lets other threads run for a moment, even with lower priority. errno may change.
pub fn pause() {
    wait(&AtomicU32::new(0), 0, Some(POLL_NS));
}

/// Blocks the calling thread's signals until dropped, except those that the C library needs: setuid(2) uses
/// one to reach every thread.
pub struct Quiet {
    _mask: Mask,
}

impl Quiet {
    /// From now on.
    pub fn begin() -> Self {
        /// Signals 32 and 33, which glibc and musl use between their threads.
        const LIBRARYS: u64 = 0b11 << 31;
        Self { _mask: Mask::block(!LIBRARYS) }
    }
}

/// SCHED_BATCH (2.6.16): waking up never preempts a running thread. It also leaves a real-time policy
/// inherited from the creator. If it is refused, the thread is an ordinary one.
fn yield_to_the_running() {
    // The kernel's struct sched_param is its priority alone.
    let parameter: libc::c_int = 0;
    // SAFETY: the parameter outlives the call; 0 is the calling thread.
    unsafe { call!(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const parameter) };
}

/// Drops the calling thread's capabilities (capset(2), version 3): its work needs none.
fn drop_capabilities() {
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0_u32; 6];
    // SAFETY: the kernel reads both; they have the sizes that version 3 asks for, and 0 is the calling thread.
    unsafe { call!(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Works until it is stopped, and records its own properties.
    #[derive(Default)]
    struct Probe {
        background: Background,
        rounds: AtomicU32,
        descriptors: AtomicU32,
        blocked: AtomicU32,
        policy: AtomicU32,
    }

    impl Work for Probe {
        fn work(&'static self) -> i32 {
            if self.background.settle() {
                // Only the descriptor that lists the directory.
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
                    return 0;
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
            assert!(begin.elapsed().as_secs() < 300, "it never came");
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
    fn the_last_thread_learns_the_first_ones_status() {
        let text = |state: char, threads: u32| {
            let before = format!("7 (a) b) {state} 1 7 7 0 -1 4194560 90 0 0 0 1 2 3 4 20 0 {threads} 0 99");
            format!("{before}{} 768\n", " 0".repeat(29))
        };
        assert_eq!(last(text('Z', 2).as_bytes()), Some(3));
        assert_eq!(last(text('Z', 3).as_bytes()), None);
        assert_eq!(last(text('S', 2).as_bytes()), None);
        assert_eq!(last(b"7 (a"), None);
        assert_eq!(last_status(), None);
    }

    #[test]
    fn a_signal_for_this_thread_is_told_from_one_for_the_process() {
        assert!(is_signalled(Some(b"Name:\ta\nSigPnd:\t0000000100000000\nShdPnd:\t0\n")));
        assert!(!is_signalled(Some(b"Name:\ta\nSigPnd:\t0000000000000000\nShdPnd:\t1\n")));
        assert!(!is_signalled(Some(b"Name:\ta\n")) && !is_signalled(None));
        std::thread::spawn(|| {
            std::mem::forget(Mask::block(u64::MAX));
            assert!(!has_signal());
            // SAFETY: this thread blocks the signal, and ends with it.
            unsafe { call!(libc::SYS_tkill, call!(libc::SYS_gettid), libc::SIGUSR1) };
            assert!(has_signal());
        })
        .join()
        .unwrap();
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
        assert!(begin.elapsed().as_secs() < 300);
    }

    #[test]
    fn a_process_that_only_shares_the_memory_of_the_thread_leaves_it_alone() {
        let probe = started();
        until(|| probe.rounds.load(Acquire) == 1);
        probe.background.pid.store(1, Relaxed);
        assert!(!probe.background.stop());
        assert!(probe.background.is_started());
        probe.background.pid.store(process_id(), Relaxed);
        assert!(probe.background.stop());
    }
}
