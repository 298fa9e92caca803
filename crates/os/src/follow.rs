//! Follows a program's system calls without rights: a seccomp filter stops it at the calls that are asked for, and a
//! process of ours writes them into a [`Journal`] with the caller's registers and stack.
//!
//! In: a held child with a [`Filter`](crate::filter::Filter), and a journal. Out: entries of [`Kind::called`], in every descendant, whatever
//! libc it has or has not. Other calls run at full speed. A stop costs the program some 5 us.
//!
//! A debugger can't trace such a program, and set-user-ID programs run without their rights (no_new_privs), unless the
//! recorder is root. The follower stays until the last descendant has ended, also without the recorder: without it the
//! calls would fail. It neither allocates nor writes to anything but the journal.
//!
//! Of fork, mremap, and calls on much memory it also sees the end: what they return, and how long they take.
//!
//! It does not see results and times of other calls, or know what the calls mean (`prof`).
//!
//! References: seccomp(2), ptrace(2).

use std::os::fd::AsRawFd;

use crate::counters::now_ns;
use crate::error::{Error, Result};
use crate::journal::{Caller, End, Entry, Journal, Kind, Registers, STACK_BYTES, Writer};
use crate::{process_memory, spawn, text};

/// The process that follows.
#[derive(Debug)]
pub struct Follower {
    pid: i32,
}

const OPTIONS: libc::c_int = libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESYSGOOD;
/// The stop at the end of a system call, by the option above.
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
/// Calls whose end is waited for at the same time; of further ones only the begin is seen.
const OPEN_MAX: usize = 16;

impl Follower {
    /// Begins to follow a held child, which has not installed its filter yet.
    ///
    /// # Errors
    /// EPERM if a sandbox, or another tracer, forbids it.
    pub fn start(pid: i32, journal: &Journal) -> Result<Self> {
        let (ready, tell) = spawn::pipe()?;
        // SAFETY: the child only runs `follow`, which keeps to async-signal-safe calls and memory that is laid out here.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last("fork")),
            0 => follow(pid, journal, tell.as_raw_fd()),
            follower => {
                drop(tell);
                let mut errno = [0_u8; 4];
                // SAFETY: four writable bytes.
                let len = unsafe { libc::read(ready.as_raw_fd(), errno.as_mut_ptr().cast(), 4) };
                let errno = if len == 4 { i32::from_ne_bytes(errno) } else { libc::ECHILD };
                if errno == 0 {
                    return Ok(Self { pid: follower });
                }
                let _ = spawn::reap(follower, true);
                Err(Error::new("ptrace(PTRACE_SEIZE", errno))
            }
        }
    }

    /// Reaps it, if the last program that it follows has ended.
    pub fn finish(self) {
        let _ = spawn::reap(self.pid, false);
    }
}

/// The follower's whole life.
fn follow(pid: i32, journal: &Journal, tell: i32) -> ! {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: a place for one set, which sigfillset initialises before sigprocmask reads it. Ctrl-C is for the program.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: as above.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut()) };
    // What kills the recorder by its name or its group must not leave the program without a follower.
    // SAFETY: setsid takes nothing; a fresh child leads no group.
    unsafe { libc::setsid() };
    // SAFETY: a C string; the name has room for it.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"follower".as_ptr(), 0_u64, 0_u64, 0_u64) };
    let errno = match request(libc::PTRACE_SEIZE, pid, OPTIONS as usize) {
        Ok(()) => 0,
        Err(error) => error.errno,
    };
    // SAFETY: four readable bytes.
    unsafe { libc::write(tell, (&raw const errno).cast(), 4) };
    if errno == 0 {
        // Nobody waits for a pipe that this process holds.
        // SAFETY: close_range takes integers; the journal is mapped.
        unsafe { libc::syscall(libc::SYS_close_range, 0_u64, u64::from(u32::MAX), 0_u64) };
        let mut open = [const { None }; OPEN_MAX];
        while let Some((tid, status)) = stopped() {
            answer(tid, status, journal, &mut open);
        }
    }
    // SAFETY: ends this process without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

/// The next thread that has stopped or ended; `None` if there are no more.
fn stopped() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: a place for one status.
    let tid = unsafe { libc::wait4(-1, &raw mut status, libc::__WALL, std::ptr::null_mut()) };
    (tid > 0).then_some((tid, status))
}

fn answer(tid: i32, status: i32, journal: &Journal, open: &mut [Option<Call>; OPEN_MAX]) {
    let place = open.iter().position(|call| call.as_ref().is_some_and(|call| call.tid == tid));
    if !libc::WIFSTOPPED(status) {
        place.into_iter().for_each(|place| open[place] = None);
        return;
    }
    let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
    let (go_on, with) = match event {
        libc::PTRACE_EVENT_SECCOMP => {
            if let Some(call) = Call::begin(tid) {
                match open.iter_mut().find(|place| place.is_none()).filter(|_| call.is_awaited()) {
                    Some(place) => *place = Some(call),
                    None => call.write(journal, None),
                }
            }
            (libc::PTRACE_CONT, 0)
        }
        // A stop of the whole process by a signal: it stays stopped. Else a new thread.
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => (libc::PTRACE_LISTEN, 0),
        // The fork has copied what it copies; the call has nothing left to do.
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE => {
            if let Some(call) = place.and_then(|place| open[place].take()) {
                call.write(journal, message(tid));
            }
            (libc::PTRACE_CONT, 0)
        }
        0 if signal == CALL_STOP => {
            if let Some(call) = place.and_then(|place| open[place].take()) {
                call.write(journal, registers(tid).map(|registers| result(&registers)));
            }
            (libc::PTRACE_CONT, 0)
        }
        0 => (libc::PTRACE_CONT, signal),
        _ => (libc::PTRACE_CONT, 0),
    };
    let is_open = open.iter().flatten().any(|call| call.tid == tid);
    let go_on = if is_open && go_on == libc::PTRACE_CONT { libc::PTRACE_SYSCALL } else { go_on };
    // It may have been killed meanwhile.
    let _ = request(go_on, tid, with as usize);
}

/// From this length on a call that gives memory back takes far longer than a stop: 256 pages, some 20 us.
const LONG_BYTES: u64 = 1 << 20;

/// Whether advice only marks memory, which is quick.
fn is_mark(advice: u64) -> bool {
    const MARKS: [i32; 6] = [
        libc::MADV_NORMAL,
        libc::MADV_RANDOM,
        libc::MADV_SEQUENTIAL,
        libc::MADV_HUGEPAGE,
        libc::MADV_NOHUGEPAGE,
        libc::MADV_DONTDUMP,
    ];
    MARKS.iter().any(|mark| *mark as u64 == advice)
}

/// A call at which a thread has stopped.
struct Call {
    tid: i32,
    number: i64,
    args: [u64; 4],
    caller: Registers,
    begin_ns: u64,
    /// CPU time of the thread so far, ns, if its end is waited for.
    begin_cpu_ns: Option<u64>,
    stack: [u8; STACK_BYTES],
    stack_bytes: usize,
}

impl Call {
    /// The call that begins.
    fn begin(tid: i32) -> Option<Self> {
        let (number, mut args, caller) = call(&registers(tid)?);
        let mut stack = [0; STACK_BYTES];
        let stack_bytes = process_memory::read(tid, caller.sp, &mut stack).unwrap_or(0);
        if number == libc::SYS_clone3 {
            // The flags are the first word of `struct clone_args`.
            let mut flags = [0; 8];
            let _ = process_memory::read(tid, args[0], &mut flags);
            args[0] = u64::from_ne_bytes(flags);
        }
        let call = Self { tid, number, args, caller, begin_ns: 0, begin_cpu_ns: None, stack, stack_bytes };
        let begin_cpu_ns = if call.is_awaited() { cpu_ns(tid) } else { None };
        // Last, so that what was done here takes no part in it.
        Some(Self { begin_cpu_ns, begin_ns: now_ns(), ..call })
    }

    /// Whether its end is waited for: a fork, which copies memory; mremap, whose result is an address; a call that populates
    /// memory, or gives much of it back. The stop at the end is short beside what such a call takes.
    fn is_awaited(&self) -> bool {
        let is_copy = || self.args[0] & libc::CLONE_VM as u64 == 0;
        let is_long = self.args[1] >= LONG_BYTES;
        match self.number {
            libc::SYS_mremap => true,
            libc::SYS_munmap => is_long,
            libc::SYS_madvise => is_long && !is_mark(self.args[2]),
            libc::SYS_mmap => is_long && self.args[3] & (libc::MAP_POPULATE | libc::MAP_LOCKED) as u64 != 0,
            libc::SYS_clone | libc::SYS_clone3 => is_copy(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork => true,
            _ => false,
        }
    }

    /// Writes it down, with its result if it has ended.
    fn write(&self, journal: &Journal, result: Option<i64>) {
        // Which process it belongs to is known to those who see it begin.
        let writer = Writer { pid: 0, tid: self.tid as u32 };
        let [addr, len_bytes, from, begin_ns] = self.args;
        let (kind, time_ns) = (Kind::called(self.number), self.begin_ns);
        let entry = Entry { kind, time_ns, begin_ns, addr, len_bytes, from };
        let end = result.map_or(End::default(), |result| {
            let ns = now_ns().saturating_sub(self.begin_ns).max(1);
            let cpu_ns = cpu_ns(self.tid).zip(self.begin_cpu_ns);
            let cpu_ns = cpu_ns.map_or(ns, |(now, then)| now.saturating_sub(then));
            End { result, ns, cpu_ns: cpu_ns.min(ns) }
        });
        let caller = Caller { registers: self.caller, stack: &self.stack[..self.stack_bytes], end };
        journal.write_with_copy(writer, entry, caller);
    }
}

/// CPU time of a thread, ns (`/proc/PID/schedstat`, CONFIG_SCHED_INFO).
fn cpu_ns(tid: i32) -> Option<u64> {
    let mut digits = [0; 20];
    let tid = text::decimal(tid as u64, &mut digits);
    let mut buffer = [0; 64];
    Some(text::number(text::read_joined(&[b"/proc/", tid, b"/schedstat"], &mut buffer)?)?.0)
}

/// What an event stop tells: the new process.
fn message(tid: i32) -> Option<i64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: a place for one word.
    let rc = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0_usize, &raw mut message) };
    (rc == 0).then_some(message as i64)
}

/// Registers of a thread that has stopped.
#[cfg(target_arch = "x86_64")]
fn registers(tid: i32) -> Option<libc::user_regs_struct> {
    let mut regs = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: a place for the registers of a thread that has stopped.
    let rc = unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0_usize, regs.as_mut_ptr()) };
    // SAFETY: the kernel has filled it in.
    (rc == 0).then(|| unsafe { regs.assume_init() })
}

/// Registers of a thread that has stopped.
#[cfg(target_arch = "aarch64")]
fn registers(tid: i32) -> Option<libc::user_regs_struct> {
    const NT_PRSTATUS: usize = 1;
    let mut regs = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
    let mut place = libc::iovec { iov_base: regs.as_mut_ptr().cast(), iov_len: size_of_val(&regs) };
    // SAFETY: a place for the registers of a thread that has stopped.
    let rc = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, &raw mut place) };
    // SAFETY: the kernel has filled it in.
    (rc == 0).then(|| unsafe { regs.assume_init() })
}

/// Number, arguments and caller.
#[cfg(target_arch = "x86_64")]
fn call(regs: &libc::user_regs_struct) -> (i64, [u64; 4], Registers) {
    let caller = Registers { ip: regs.rip, sp: regs.rsp, bp: regs.rbp, lr: 0 };
    (regs.orig_rax as i64, [regs.rdi, regs.rsi, regs.rdx, regs.r10], caller)
}

/// Number, arguments and caller.
#[cfg(target_arch = "aarch64")]
fn call(regs: &libc::user_regs_struct) -> (i64, [u64; 4], Registers) {
    let caller = Registers { ip: regs.pc, sp: regs.sp, bp: regs.regs[29], lr: regs.regs[30] };
    (regs.regs[8] as i64, [regs.regs[0], regs.regs[1], regs.regs[2], regs.regs[3]], caller)
}

/// What the call returned that has just ended.
fn result(regs: &libc::user_regs_struct) -> i64 {
    #[cfg(target_arch = "x86_64")]
    return regs.rax as i64;
    #[cfg(target_arch = "aarch64")]
    return regs.regs[0] as i64;
}

fn request(request: PtraceRequest, tid: i32, with: usize) -> Result<()> {
    // SAFETY: these requests take integers, and touch no memory of ours.
    let rc = unsafe { libc::ptrace(request, tid, 0_usize, with) };
    if rc == -1 { Err(Error::last("ptrace")) } else { Ok(()) }
}

/// `libc` declares these numbers with the type of the C library's parameter.
#[cfg(target_env = "gnu")]
type PtraceRequest = libc::c_uint;
#[cfg(not(target_env = "gnu"))]
type PtraceRequest = libc::c_int;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::journal::{Next, QueueId, Reader};
    use crate::spawn::{Ending, Plan, hold};

    #[test]
    fn the_calls_of_a_program_and_of_its_children_are_written_with_their_callers() {
        let mut reader = Reader::create().unwrap();
        let words =
            ["sh", "-c", "sh -c 'kill -STOP $$; exit 7' & sleep 0.2; kill -CONT $!; wait $!"].map(Into::into);
        let filter = Filter::new([libc::SYS_mmap, libc::SYS_munmap]);
        let held = hold(&Plan::new(&words, &[]).unwrap().filtered(Some(filter))).unwrap();
        let follower = match Follower::start(held.pid(), reader.journal()) {
            Ok(follower) => follower,
            Err(error) => return faultless_wants::missing_feature("ptrace", error),
        };
        let name = std::fs::read_to_string(format!("/proc/{}/comm", follower.pid)).unwrap();
        assert_eq!(name, "follower\n", "it is not killed by the name of the recorder");
        let child = held.release_filtered().unwrap();
        let pid = child.pid() as u32;
        assert_eq!(child.wait().unwrap().0, Ending::Status(7));
        follower.finish();
        let (mut stack, mut calls) = (Vec::new(), Vec::new());
        while let Next::Entry(writer, entry, Some(caller)) = reader.next(QueueId::Long, &mut stack) {
            let is_whole = caller.registers.ip != 0 && caller.stack.len() == STACK_BYTES;
            calls.push((writer.tid, entry.kind.call(), is_whole));
        }
        let is_call = |number: &Option<i64>| [Some(libc::SYS_mmap), Some(libc::SYS_munmap)].contains(number);
        assert!(calls.len() > 10 && calls.iter().all(|(_, number, _)| is_call(number)), "{calls:?}");
        assert!(calls.iter().any(|&(tid, _, is_whole)| tid == pid && is_whole), "{calls:?}");
        assert!(calls.iter().any(|&(tid, ..)| tid != pid), "the child's");
    }

    #[test]
    fn of_a_fork_the_child_and_the_time_are_seen() {
        let mut reader = Reader::create().unwrap();
        let calls = [libc::SYS_clone, libc::SYS_clone3, crate::syscall::number("fork").unwrap_or(-1)];
        let plan = Plan::new(&["sh", "-c", "(exit 3); exit $?"].map(Into::into), &[]).unwrap();
        let held = hold(&plan.filtered(Some(Filter::new(calls)))).unwrap();
        let begin_ns = now_ns();
        let follower = match Follower::start(held.pid(), reader.journal()) {
            Ok(follower) => follower,
            Err(error) => return faultless_wants::missing_feature("ptrace", error),
        };
        assert_eq!(held.release_filtered().unwrap().wait().unwrap().0, Ending::Status(3));
        follower.finish();
        let mut stack = Vec::new();
        let Next::Entry(writer, entry, Some(caller)) = reader.next(QueueId::Long, &mut stack) else {
            panic!("no entry")
        };
        let End { result, ns, cpu_ns } = caller.end;
        assert!(result > 0 && result != i64::from(writer.tid), "{:?}", caller.end);
        assert!(cpu_ns > 0 && cpu_ns <= ns && entry.time_ns >= begin_ns && ns < now_ns() - begin_ns);
        assert!(matches!(reader.next(QueueId::Long, &mut stack), Next::Nothing), "one fork");
    }

    const MAPPED_BYTES: usize = 3 * LONG_BYTES as usize;

    /// What `of_a_call_on_much_memory_the_time_is_seen` runs as a program of its own.
    #[test]
    fn much_memory_is_mapped_and_given_back() {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        for len in [MAPPED_BYTES, 8192] {
            // SAFETY: a new mapping, which nothing else knows.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, -1, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            // SAFETY: the mapping from above, whole.
            assert_eq!(unsafe { libc::munmap(at, len) }, 0);
        }
    }

    #[test]
    fn of_a_call_on_much_memory_the_time_is_seen() {
        let mut reader = Reader::create().unwrap();
        let own = std::env::current_exe().unwrap();
        let name = "follow::tests::much_memory_is_mapped_and_given_back";
        let words = [own.as_os_str(), "--exact".as_ref(), name.as_ref(), "--quiet".as_ref()].map(Into::into);
        let filter = Filter::new([libc::SYS_munmap]);
        let held = hold(&Plan::new(&words, &[]).unwrap().filtered(Some(filter))).unwrap();
        let follower = match Follower::start(held.pid(), reader.journal()) {
            Ok(follower) => follower,
            Err(error) => return faultless_wants::missing_feature("ptrace", error),
        };
        assert_eq!(held.release_filtered().unwrap().wait().unwrap().0, Ending::Status(0));
        follower.finish();
        let (mut stack, mut ends) = (Vec::new(), Vec::new());
        while let Next::Entry(_, entry, Some(caller)) = reader.next(QueueId::Long, &mut stack) {
            ends.push((entry.len_bytes, caller.end.ns > 0 && caller.end.result == 0));
        }
        assert!(ends.contains(&(MAPPED_BYTES as u64, true)), "{ends:?}");
        assert!(ends.iter().all(|(len, is_timed)| *is_timed == (*len >= LONG_BYTES)), "{ends:?}");
    }

    #[test]
    fn without_a_follower_nothing_is_filtered() {
        let filter = Filter::new([libc::SYS_mmap]);
        let held = hold(&Plan::new(&["true".into()], &[]).unwrap().filtered(Some(filter))).unwrap();
        assert_eq!(held.release().unwrap().wait().unwrap().0, Ending::Status(0));
    }
}
