//! Starts a program that waits until it is measured, and follows it to its end.
//!
//! In: a [`Plan`] (words, extra environment, standard streams). Out: a [`Held`] child that is forked but
//! blocks before its exec, so that events can be opened on it; then a running [`Child`], and how it ended.
//! Signals that a user sends to this process are forwarded to the child. Signals from the terminal reach the
//! child anyway, and don't end this process before it.
//!
//! It does not find out why a command can't be executed beyond the errno, or follow grandchildren (`prof`).

use std::ffi::{CString, NulError, OsString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};

use crate::counters::Rusage;
use crate::descriptors;
use crate::environment;
use crate::error::{Error, Result};
#[cfg(feature = "profiler")]
use crate::filter::{self, Filter};

/// A command to execute. Everything that the forked child needs is allocated beforehand.
#[derive(Debug)]
pub struct Plan {
    words: Vec<CString>,
    environment: Vec<CString>,
    /// Descriptors for 0, 1 and 2; `None` leaves ours.
    streams: [Option<OwnedFd>; 3],
    /// Installed before the exec, if a follower has begun.
    #[cfg(feature = "profiler")]
    filter: Option<Filter>,
}

impl Plan {
    /// The environment, `NAME=value`.
    pub fn environment(&self) -> &[CString] {
        &self.environment
    }

    /// A command with its arguments, and variables to set in this process's environment.
    ///
    /// # Errors
    /// A word holds a NUL byte.
    pub fn new(words: &[OsString], extra: &[(OsString, OsString)]) -> std::result::Result<Self, NulError> {
        let words =
            words.iter().map(|word| CString::new(word.as_bytes())).collect::<std::result::Result<_, _>>()?;
        let environment = environment::with(extra)?;
        Ok(Self {
            words,
            environment,
            streams: [None, None, None],
            #[cfg(feature = "profiler")]
            filter: None,
        })
    }

    /// The words and the environment as execve(2) takes them. They point into this plan.
    pub(crate) fn pointers(&self) -> (Vec<*const libc::c_char>, Vec<*const libc::c_char>) {
        let of =
            |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        (of(&self.words), of(&self.environment))
    }

    /// Stops the program at the calls of this filter, once a [`crate::follow::Follower`] has begun to follow it.
    #[cfg(feature = "profiler")]
    pub fn filtered(self, filter: Option<Filter>) -> Self {
        Self { filter, ..self }
    }

    /// Connects the program's stdin, stdout and stderr elsewhere; `None` leaves them as ours.
    pub fn redirect(mut self, streams: [Option<OwnedFd>; 3]) -> Self {
        self.streams = streams;
        self
    }
}

/// A forked child that waits before its exec; killed and reaped when dropped.
#[derive(Debug)]
pub struct Held {
    pid: i32,
    release: OwnedFd,
    report: OwnedFd,
    done: bool,
}

/// A child that has passed its exec.
#[derive(Debug)]
pub struct Child {
    process: ProcessHandle,
    before_exec_faults: u64,
}

/// A process of any parent, to wait for its end.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: i32,
    pidfd: Option<OwnedFd>,
}

/// How a process ended, in wait4's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It returned this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
}

/// What a held child is told: to go, without a follower and with one.
const ALONE: u8 = b'a';
#[cfg(feature = "profiler")]
const FOLLOWED: u8 = b'f';

/// Forks a child for `plan`, which then waits.
///
/// # Errors
/// `pipe2` or `fork` failed.
pub fn hold(plan: &Plan) -> Result<Held> {
    let (words, environment) = plan.pointers();
    let (wait, release) = pipe()?;
    let (report, tell) = pipe()?;
    forward_signals();
    // SAFETY: the child only runs `child`, which keeps to async-signal-safe calls and memory laid out above.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last("fork")),
        0 => {
            drop(release);
            #[cfg(feature = "profiler")]
            if plan.filter.is_some() {
                filter::allow_follower();
            }
            child(plan, wait.as_raw_fd(), tell.as_raw_fd(), &words, &environment)
        }
        pid => {
            CHILD.store(pid, SeqCst);
            Ok(Held { pid, release, report, done: false })
        }
    }
}

/// Runs in the forked child and never returns. It waits for one byte, reports the faults so far, and calls
/// exec; if that fails it reports the errno.
fn child(
    plan: &Plan,
    wait: RawFd,
    tell: RawFd,
    words: &[*const libc::c_char],
    environment: &[*const libc::c_char],
) -> ! {
    for (fd, target) in plan.streams.iter().zip(0..) {
        if let Some(fd) = fd {
            // SAFETY: dup2 takes integers; a failure leaves the inherited descriptor.
            unsafe { libc::dup2(fd.as_raw_fd(), target) };
        }
    }
    let mut byte = 0_u8;
    // SAFETY: `byte` is one writable byte.
    if unsafe { libc::read(wait, (&raw mut byte).cast(), 1) } != 1 {
        // SAFETY: ends this process without running the parent's exit handlers.
        unsafe { libc::_exit(127) };
    }
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: signal takes integers. Rust's start-up ignores the first, `outlive_file_limit` the second, and an ignored signal stays
        // so through exec.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    if IGNORES_INTERRUPT.load(SeqCst) {
        // SAFETY: as above. Exec turns our handler into the default.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    }
    let descriptors = DESCRIPTORS.load(SeqCst);
    if descriptors != libc::RLIM_INFINITY {
        limit_descriptors(descriptors);
    }
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for one rusage.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: all-zero is a valid rusage, and getrusage has filled it in.
    let usage = unsafe { usage.assume_init() };
    let faults = (usage.ru_minflt + usage.ru_majflt) as u64;
    // SAFETY: `faults` is eight readable bytes.
    unsafe { libc::write(tell, (&raw const faults).cast(), 8) };
    #[cfg(feature = "profiler")]
    if byte == FOLLOWED {
        plan.filter.iter().for_each(Filter::install);
    }
    // SAFETY: both arrays end with a null pointer, their strings with NUL, and all live in the parent's copy of memory.
    unsafe { libc::execvpe(words[0], words.as_ptr(), environment.as_ptr()) };
    // SAFETY: errno is a thread-local integer.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: `errno` is four readable bytes.
    unsafe { libc::write(tell, (&raw const errno).cast(), 4) };
    // SAFETY: as above.
    unsafe { libc::_exit(127) }
}

impl Held {
    /// The child's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets the child go, and returns once it has passed its exec.
    ///
    /// # Errors
    /// The exec failed: ENOENT for no such command, EACCES for no right to execute, ENOEXEC, E2BIG ...
    pub fn release(self) -> Result<Child> {
        self.go(ALONE)
    }

    /// The same with its plan's filter. A follower has begun; without one the filtered calls would fail.
    ///
    /// # Errors
    /// As above.
    #[cfg(feature = "profiler")]
    pub fn release_filtered(self) -> Result<Child> {
        self.go(FOLLOWED)
    }

    fn go(mut self, how: u8) -> Result<Child> {
        // SAFETY: one readable byte. A child that died meanwhile shows as a short report below.
        let written = unsafe { libc::write(self.release.as_raw_fd(), (&raw const how).cast(), 1) };
        let mut report = [0_u8; 12];
        let len = if written == 1 { read_all(&self.report, &mut report) } else { 0 };
        let word = |at: usize| [report[at], report[at + 1], report[at + 2], report[at + 3]];
        let before_exec_faults =
            u64::from(u32::from_ne_bytes(word(if cfg!(target_endian = "big") { 4 } else { 0 })));
        if len == report.len() {
            return Err(Error::new("execve", i32::from_ne_bytes(word(8))));
        }
        self.done = true;
        Ok(Child { process: ProcessHandle::of(self.pid), before_exec_faults })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.done {
            CHILD.store(0, SeqCst);
            // SAFETY: kill takes integers; the child is ours and not reaped yet.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            let _ = reap(self.pid, true);
        }
    }
}

impl Child {
    /// The child's process id.
    pub fn pid(&self) -> i32 {
        self.process.pid
    }

    /// Faults that the child took before its exec; included in the usage from [`Child::wait`].
    pub fn before_exec_faults(&self) -> u64 {
        self.before_exec_faults
    }

    /// As [`ProcessHandle::ended_within`].
    pub fn ended_within<'a>(&self, timeout_ns: u64, others: impl Iterator<Item = BorrowedFd<'a>>) -> bool {
        self.process.ended_within(timeout_ns, others)
    }

    /// Waits for the child and reaps it. Returns how it ended, and its usage including its waited-for
    /// children.
    ///
    /// # Errors
    /// Somebody else has reaped it.
    pub fn wait(self) -> Result<(Ending, Rusage)> {
        let result = reap(self.process.pid, true);
        CHILD.store(0, SeqCst);
        result?.ok_or(Error::new("wait4", libc::ECHILD))
    }
}

impl ProcessHandle {
    /// Of `pid`, which is there.
    pub fn of(pid: i32) -> Self {
        Self { pid, pidfd: pidfd(pid) }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sleeps until the process has ended, one of `others` is readable, `timeout_ns` have passed, or a signal
    /// came. Returns whether the process has ended.
    pub fn ended_within<'a>(&self, timeout_ns: u64, others: impl Iterator<Item = BorrowedFd<'a>>) -> bool {
        let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let own = readable(self.pidfd.as_ref().map_or(-1, |fd| fd.as_raw_fd()));
        let mut polls: Vec<libc::pollfd> =
            std::iter::once(own).chain(others.map(|fd| readable(fd.as_raw_fd()))).collect();
        poll(&mut polls, timeout_ns);
        let broken = |polls: &[libc::pollfd]| polls.iter().any(|at| at.revents & !libc::POLLIN != 0);
        if polls[0].revents == 0 && broken(&polls[1..]) {
            // A perf event without tasks reports its end forever. Without this second poll, the loop would
            // never sleep again.
            poll(&mut polls[..1], timeout_ns);
        }
        if self.pidfd.is_some() { polls[0].revents != 0 } else { self.is_over() }
    }

    /// For kernels before 5.3, which have no pidfd.
    fn is_over(&self) -> bool {
        let gone = || crate::procfs::stat(self.pid as u32).is_none_or(|stat| stat.state == b'Z');
        self.is_zombie() || gone()
    }

    /// Of a child of ours.
    fn is_zombie(&self) -> bool {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: a valid place for one siginfo; WNOWAIT leaves the child to be reaped.
        let rc = unsafe { libc::waitid(libc::P_PID, self.pid as libc::id_t, info.as_mut_ptr(), flags) };
        // SAFETY: all-zero is a valid siginfo, and waitid may have filled it in.
        let info = unsafe { info.assume_init() };
        // SAFETY: waitid fills in the child's pid, and leaves zero when none has ended.
        rc == 0 && unsafe { info.si_pid() } != 0
    }
}

/// Reaps `pid` if it is a child of ours that has ended; with `wait`, waits for its end. `None`: it still
/// runs.
///
/// # Errors
/// ECHILD if it is no child of ours.
pub fn reap(pid: i32, wait: bool) -> Result<Option<(Ending, Rusage)>> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        let flags = if wait { 0 } else { libc::WNOHANG };
        // SAFETY: valid places for one status and one rusage.
        let rc = unsafe { libc::wait4(pid, &raw mut status, flags, usage.as_mut_ptr()) };
        let error = Error::last("wait4");
        match rc {
            0 => return Ok(None),
            -1 if error.errno == libc::EINTR => continue,
            -1 => return Err(error),
            _ => break,
        }
    }
    // SAFETY: all-zero is a valid rusage, and wait4 has filled it in.
    let usage = Rusage::from(unsafe { usage.assume_init() });
    let ending = if libc::WIFSIGNALED(status) {
        Ending::Signal(libc::WTERMSIG(status))
    } else {
        Ending::Status(libc::WEXITSTATUS(status))
    };
    Ok(Some((ending, usage)))
}

/// From now on a write beyond RLIMIT_FSIZE fails with an error instead of ending this process (SIGXFSZ). Held
/// children get the default back.
pub fn outlive_file_limit() {
    // SAFETY: signal takes integers, and no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Makes this process the parent of orphaned descendants, so that [`reap`] can ask for their usage.
///
/// # Errors
/// None in practice (Linux 3.4).
pub fn adopt_orphans() -> Result<()> {
    // SAFETY: prctl with integers.
    let rc = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_u64, 0_u64, 0_u64, 0_u64) };
    if rc == 0 { Ok(()) } else { Err(Error::last("prctl(PR_SET_CHILD_SUBREAPER")) }
}

/// Denies this process transparent huge pages, and all programs that it executes or starts (prctl(2), Linux 3.15).
///
/// # Errors
/// None in practice.
pub fn deny_huge_pages() -> Result<()> {
    // SAFETY: prctl with integers.
    let rc = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1_u64, 0_u64, 0_u64, 0_u64) };
    if rc == 0 { Ok(()) } else { Err(Error::last("prctl(PR_SET_THP_DISABLE")) }
}

/// Soft limit on descriptors at the start of this process; `RLIM_INFINITY` before it was raised.
static DESCRIPTORS: AtomicU64 = AtomicU64::new(libc::RLIM_INFINITY);

/// Raises this process's limit on descriptors, and so on events, to the hard limit. Children started by
/// [`hold`] get the old limit back: a program may loop over all descriptors, or use select(2). If the kernel
/// refuses, nothing changes.
pub fn allow_many_descriptors() {
    let before = limit_descriptors(libc::RLIM_INFINITY);
    // Only the first call finds the original value.
    let _ = DESCRIPTORS.compare_exchange(libc::RLIM_INFINITY, before, SeqCst, SeqCst);
}

/// Sets the soft limit, to the hard one at most. Returns the old one. Async-signal-safe.
fn limit_descriptors(most: libc::rlim_t) -> libc::rlim_t {
    let mut limit = descriptors::limits();
    let before = std::mem::replace(&mut limit.rlim_cur, most.min(limit.rlim_max));
    // SAFETY: `limit` is a valid rlimit.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    before
}

/// The child that signals are forwarded to; 0: none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Whether a signal that asks to end came while a child ran.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Whether this process was asked to end (SIGINT, SIGQUIT, SIGTERM, SIGHUP) while a child ran, whatever the
/// child did with the signal. Check it before starting another child.
pub fn asked_to_end() -> bool {
    ASKED.load(SeqCst)
}

/// From now on, a request to end that comes while no child runs is only remembered. For callers that start
/// several children: check [`asked_to_end`] before each, and finish writing before ending.
pub fn remember_requests_to_end() {
    REMEMBERED.store(true, SeqCst);
    forward_signals();
}

/// Whether requests to end are only remembered while no child runs.
static REMEMBERED: AtomicBool = AtomicBool::new(false);

/// Takes SIGINT as a request to end also where it was ignored at the start, as in a script's background job. To call
/// before the first child.
pub fn heed_ignored_interrupts() {
    HEEDS_INTERRUPT.store(true, SeqCst);
}

/// Whether SIGINT is heard although it was ignored at the start.
static HEEDS_INTERRUPT: AtomicBool = AtomicBool::new(false);

/// Whether SIGINT was ignored at the start, and is heard all the same. Children started by [`hold`] ignore it.
static IGNORES_INTERRUPT: AtomicBool = AtomicBool::new(false);

/// Installed with the first child. A signal sent with kill goes to the child. One from the terminal has
/// reached the whole foreground group already. Without a child, the signal has its default effect, or is
/// remembered.
///
/// A signal ignored since the start stays ignored, but for SIGINT after [`heed_ignored_interrupts`]. A script
/// ignores it in its background jobs, and whoever sends it with kill wants an end. A child that ignores it gets
/// SIGTERM in its place. While such a child runs, Ctrl-C in the terminal changes nothing, as without us.
fn forward_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: all-zero is a valid sigaction: default, empty mask, no flags.
            let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: a null new action only asks; `old` is valid for the answer.
            unsafe { libc::sigaction(signal, ptr::null(), &raw mut old) };
            match old.sa_sigaction == libc::SIG_IGN {
                true if signal == libc::SIGINT && HEEDS_INTERRUPT.load(SeqCst) => {
                    IGNORES_INTERRUPT.store(true, SeqCst)
                }
                true => continue,
                false => {}
            }
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = forward;
            let new = libc::sigaction {
                sa_sigaction: handler as libc::sighandler_t,
                sa_flags: libc::SA_SIGINFO | libc::SA_RESTART,
                ..old
            };
            // SAFETY: `forward` has the signature that SA_SIGINFO asks for and is async-signal-safe.
            unsafe { libc::sigaction(signal, &raw const new, ptr::null_mut()) };
        }
    });
}

extern "C" fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let pid = CHILD.load(SeqCst);
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler.
    let from_kernel = unsafe { (*info).si_code } == libc::SI_KERNEL;
    let is_ignored = signal == libc::SIGINT && IGNORES_INTERRUPT.load(SeqCst);
    let is_remembered = pid == 0 && REMEMBERED.load(SeqCst);
    if is_ignored && from_kernel && !is_remembered {
        return;
    }
    ASKED.store(true, SeqCst);
    if is_remembered {
        // The caller checks before it starts the next child.
    } else if pid == 0 {
        // SAFETY: signal and raise are async-signal-safe and take integers.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: as above; delivered as soon as this handler returns.
        unsafe { libc::raise(signal) };
    } else if !from_kernel {
        // SAFETY: kill is async-signal-safe; `pid` is our child and not reaped while CHILD holds it.
        unsafe { libc::kill(pid, if is_ignored { libc::SIGTERM } else { signal }) };
    }
}

fn pidfd(pid: i32) -> Option<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: a descriptor that the kernel has just handed out; nothing else owns it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) }).filter(descriptors::are_left_after)
}

pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(Error::last("pipe2"));
    }
    // SAFETY: both are new and owned by nothing else.
    Ok(fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).into())
}

/// Sleeps until one of `polls` is ready or `timeout_ns` have passed.
fn poll(polls: &mut [libc::pollfd], timeout_ns: u64) {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    let count = polls.len() as libc::nfds_t;
    // SAFETY: `count` valid pollfds (negative descriptors are skipped) and a valid timespec; no signal mask.
    let ready = unsafe { libc::ppoll(polls.as_mut_ptr(), count, &raw const timeout, ptr::null()) };
    if ready < 0 {
        polls.iter_mut().for_each(|at| at.revents = 0);
    }
}

/// Reads until `into` is full or the other side has closed. Returns the bytes read.
fn read_all(fd: &OwnedFd, into: &mut [u8]) -> usize {
    let mut len = 0;
    while len < into.len() {
        let rest = &mut into[len..];
        // SAFETY: `rest` is writable for its length.
        let read = unsafe { libc::read(fd.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) };
        match read {
            1.. => len += read as usize,
            -1 if Error::last("read").errno == libc::EINTR => {}
            _ => break,
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &[&str]) -> Plan {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Plan::new(&words, &[("FAULTLESS_TEST".into(), "7".into())]).unwrap()
    }

    fn run(words: &[&str]) -> Result<(Ending, Rusage, u64)> {
        let child = hold(&plan(words))?.release()?;
        while !child.ended_within(50_000_000, std::iter::empty()) {}
        let before = child.before_exec_faults();
        child.wait().map(|(ending, usage)| (ending, usage, before))
    }

    #[test]
    fn passes_status_signal_and_environment_on_and_counts_its_own_faults() {
        let (ending, usage, before) = run(&["sh", "-c", "exit $FAULTLESS_TEST"]).unwrap();
        assert_eq!(ending, Ending::Status(7));
        assert!(before > 0 && before < usage.minor_faults, "{before} of {}", usage.minor_faults);
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]).unwrap().0, Ending::Signal(9));
    }

    #[test]
    fn a_failed_exec_comes_back_as_its_errno() {
        assert_eq!(run(&["faultless-no-such-command"]).unwrap_err().errno, libc::ENOENT);
        assert_eq!(run(&["/etc"]).unwrap_err().errno, libc::EACCES);
    }

    #[test]
    fn a_child_that_is_not_released_never_runs() {
        let held = hold(&plan(&["true"])).unwrap();
        let pid = held.pid();
        drop(held);
        assert_eq!(reap(pid, false).unwrap_err().errno, libc::ECHILD, "killed and reaped");
    }
}
