//! `perf_event_open(2)` for the software events that describe page faults, and for tracepoints.
//!
//! In: a [`Spec`] of one of a few shapes, and whom to watch. Out: an open [`Event`] that counts, or writes
//! records into a [`crate::ring::Ring`]. All records carry pid, tid, CLOCK_MONOTONIC time and event id at
//! fixed offsets, so that events of different shapes can share a ring.
//!
//! It does not decide what to try next if the kernel refuses (`prof`), or read the rings (`ring`).

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys as sys;
use sys::bindings as c;

use crate::error::{Error, Result};

/// A software event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Software {
    /// Every fault, as it is entered (x86) or handled (elsewhere). Only real traps count, not populate.
    PageFaults,
    /// Minor faults, once they have been handled.
    MinorFaults,
    /// Major faults, once they have been handled.
    MajorFaults,
    /// Never fires; carries the records of mappings and tasks.
    Dummy,
    /// CPU time, by high-resolution timer.
    CpuClock,
    /// CPU time of the task, exact.
    TaskClock,
    /// A tracepoint, by its number ([`crate::tracepoint`]).
    Tracepoint(u32),
}

/// What an event writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing; it is read.
    Count,
    /// A sample for every `period`-th occurrence: ip, pid, tid, time, address, and the size of the page
    /// mapped there. On x86-64 also the user's RSI and RDI if wanted.
    Faults {
        /// Occurrences per sample.
        period: u64,
        /// The user's RSI and RDI too.
        registers: bool,
    },
    /// A sample this many times per second of CPU time: ip, pid, tid, time and the kernel's call chain.
    KernelStacks {
        /// Samples per second.
        hertz: u64,
    },
    /// A sample for every `period`-th occurrence: as [`Output::Faults`], with the user's call chain by frame
    /// pointers, registers, and this much of the stack from its pointer on.
    FaultStacks {
        /// Occurrences per sample.
        period: u64,
        /// Bytes of stack, a multiple of 8.
        stack_bytes: u32,
    },
    /// A sample this many times per second of CPU time: ip, pid, tid, time, the call chains of kernel and user, registers and
    /// this much of the user's stack.
    CpuStacks {
        /// Samples per second.
        hertz: u64,
        /// Bytes of stack, a multiple of 8.
        stack_bytes: u32,
    },
    /// A sample for one in so many occurrences of a tracepoint: ip, pid, tid, time, address, its fields, and the
    /// user's instruction.
    Fields {
        /// Occurrences per sample.
        period: u64,
    },
    /// As [`Output::Fields`] for every occurrence, with the registers that unwinding needs, and this much of the user's stack.
    FieldStacks {
        /// Bytes of stack, a multiple of 8.
        stack_bytes: u32,
    },
    /// A sample for one in so many occurrences: ip, pid, tid, time, address and the user's call chain by
    /// frame pointers.
    UserStacks {
        /// Occurrences per sample.
        period: u64,
    },
    /// No samples; records of mmap, names, exec, fork and exit. A poll on the event returns when its ring has
    /// received this many more bytes, including redirected ones.
    Tasks {
        /// Bytes.
        wake_bytes: u32,
    },
    /// No samples; a record for each context switch (Linux 4.3).
    Switches,
    /// No samples; every occurrence runs the program of [`Event::run_at_overflow`]. From Linux 6.4 on the kernel prepares
    /// all that an event would write before it runs a program, so this is an event of its own that writes nothing.
    Program,
}

/// Which event, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The event.
    pub event: Software,
    /// Its output.
    pub output: Output,
    /// Leave kernel mode out; required without rights (`perf_event_paranoid` 2).
    pub user_only: bool,
    /// Follow children and threads.
    pub inherit: bool,
    /// Stay off until the task's next exec.
    pub on_exec: bool,
    /// Stay off until [`Event::enable`]. Members of a group follow their leader and leave this false.
    pub disabled: bool,
}

/// Whom to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The task; 0 is the calling thread, -1 all tasks of a processor (needs rights).
    pub pid: i32,
    /// Only while on this processor; `None` for all, which excludes `inherit` with a ring.
    pub cpu: Option<u32>,
}

/// An open event; closed when dropped.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
    /// Reading it also returns its losses.
    tells_losses: bool,
    tells_pages: bool,
}

/// The registers RSI and RDI in the numbering of `PERF_SAMPLE_REGS_USER` (`PERF_REG_X86_SI`, `PERF_REG_X86_DI`).
const USER_REGS: u64 = 1 << 4 | 1 << 5;
/// The size of the page at a sample's address. It concerns the process's own memory, so it needs no right.
const PAGE_SIZE: u64 = c::PERF_SAMPLE_DATA_PAGE_SIZE as u64;

/// The registers that unwinding needs, with the above: RSI, RDI, RBP, RSP and RIP; on aarch64 FP, LR, SP and
/// PC.
const STACK_REGS: u64 = if cfg!(target_arch = "x86_64") { 0b1_1111 << 4 } else { 0b1111 << 29 };

/// The instruction pointer among them.
const IP_REG: u64 = if cfg!(target_arch = "x86_64") { 1 << 8 } else { 1 << 32 };

impl Event {
    /// Opens an event, as a member of `group` where one is given.
    ///
    /// # Errors
    /// EACCES or EPERM for lack of rights, ENOSYS if a sandbox hides the call, ESRCH if the task is gone,
    /// EMFILE.
    pub fn open(spec: &Spec, target: Target, group: Option<&Event>) -> Result<Self> {
        let mut attr = attributes(spec);
        let mut opened = Self::with(attr, target, group);
        let is_unknown = |opened: &Result<Self>| opened.as_ref().is_err_and(|e| e.errno == libc::EINVAL);
        // Linux before 6.0 reports no losses, before 5.11 no page sizes.
        if is_unknown(&opened) && attr.read_format != 0 {
            attr.read_format = 0;
            opened = Self::with(attr, target, group);
        }
        if is_unknown(&opened) && attr.sample_type & PAGE_SIZE != 0 {
            attr.sample_type &= !PAGE_SIZE;
            opened = Self::with(attr, target, group);
        }
        opened
    }

    fn with(mut attr: c::perf_event_attr, target: Target, group: Option<&Event>) -> Result<Self> {
        let cpu = target.cpu.map_or(-1, |cpu| cpu as i32);
        let group = group.map_or(-1, |leader| leader.fd.as_raw_fd());
        let flags = u64::from(c::PERF_FLAG_FD_CLOEXEC) as libc::c_ulong;
        // SAFETY: `attr` is an initialised perf_event_attr whose `size` is its own; it asks for software events only.
        let fd = unsafe { sys::perf_event_open(&raw mut attr, target.pid, cpu, group, flags) };
        if fd < 0 {
            return Err(Error::last("perf_event_open"));
        }
        // SAFETY: the kernel has just handed out this descriptor and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let tells_pages = attr.sample_type & PAGE_SIZE != 0;
        Ok(Self { fd, tells_losses: attr.read_format != 0, tells_pages })
    }

    /// Whether its samples end with the size of the page mapped at their address ([`Sample::mapped_bytes`]);
    /// since Linux 5.11.
    ///
    /// [`Sample::mapped_bytes`]: crate::ring::Sample::mapped_bytes
    pub fn tells_pages(&self) -> bool {
        self.tells_pages
    }

    /// The id that records of this event and of its inherited children carry.
    ///
    /// # Errors
    /// None in practice.
    pub fn id(&self) -> Result<u64> {
        let mut id = 0_u64;
        // SAFETY: the ioctl writes one u64, and `id` is one.
        let rc = unsafe { sys::ioctls::ID(self.fd.as_raw_fd(), &raw mut id) };
        if rc < 0 { Err(Error::last("ioctl(PERF_EVENT_IOC_ID")) } else { Ok(id) }
    }

    /// What has been counted so far, inherited children included.
    ///
    /// # Errors
    /// None in practice.
    pub fn count(&self) -> Result<u64> {
        self.read().map(|[count, _]| count)
    }

    /// Its records that did not fit into the ring, including those of inherited children. `None` before Linux
    /// 6.0, which does not tell.
    pub fn lost(&self) -> Option<u64> {
        if self.tells_losses { self.read().ok().map(|[_, lost]| lost) } else { None }
    }

    /// The count, and what was lost.
    fn read(&self) -> Result<[u64; 2]> {
        let mut words = [0_u64; 2];
        // SAFETY: the buffer is two writable u64; by its read_format the kernel writes one or both.
        let len = unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), 16) };
        if len > 0 { Ok(words) } else { Err(Error::last("read(perf event")) }
    }

    /// Switches the event on, in inherited children too. A leader takes its group along.
    ///
    /// # Errors
    /// None in practice.
    pub fn enable(&self) -> Result<()> {
        // SAFETY: this ioctl takes an integer and touches no memory of ours.
        let rc = unsafe { sys::ioctls::ENABLE(self.fd.as_raw_fd(), 0) };
        if rc < 0 { Err(Error::last("ioctl(PERF_EVENT_IOC_ENABLE")) } else { Ok(()) }
    }

    /// Switches it off in the same way.
    ///
    /// # Errors
    /// None in practice.
    pub fn disable(&self) -> Result<()> {
        // SAFETY: this ioctl takes an integer and touches no memory of ours.
        let rc = unsafe { sys::ioctls::DISABLE(self.fd.as_raw_fd(), 0) };
        if rc < 0 { Err(Error::last("ioctl(PERF_EVENT_IOC_DISABLE")) } else { Ok(()) }
    }

    /// Lets a tracepoint's event and its inherited children fire only if this expression of its fields holds
    /// (Documentation/trace/events.rst of the kernel).
    ///
    /// # Errors
    /// EINVAL for an unknown field, or an event of no tracepoint.
    pub fn filter(&self, expression: &CStr) -> Result<()> {
        let text = expression.as_ptr().cast_mut();
        // SAFETY: the ioctl reads the C string at `text`, which lives until then, and writes nothing.
        let rc = unsafe { sys::ioctls::SET_FILTER(self.fd.as_raw_fd(), text) };
        if rc < 0 { Err(Error::last("ioctl(PERF_EVENT_IOC_SET_FILTER")) } else { Ok(()) }
    }

    /// Runs this BPF program at each overflow. If it returns 0, no sample is written.
    ///
    /// # Errors
    /// EEXIST if it runs one already, EINVAL if the program is not of type `perf_event`.
    pub fn run_at_overflow(&self, program: BorrowedFd<'_>) -> Result<()> {
        // SAFETY: this ioctl takes a descriptor and touches no memory of ours.
        let rc = unsafe { sys::ioctls::SET_BPF(self.fd.as_raw_fd(), program.as_raw_fd() as u32) };
        if rc < 0 { Err(Error::last("ioctl(PERF_EVENT_IOC_SET_BPF")) } else { Ok(()) }
    }

    /// Restarts its period, with this many occurrences. Inherited children keep theirs.
    ///
    /// # Errors
    /// EINVAL for an event that only counts.
    pub fn begin_period(&self, period: u64) -> Result<()> {
        let at = (&raw const period).expose_provenance() as u64;
        // SAFETY: the ioctl takes the address of a u64, which it reads; `period` lives until then.
        let rc = unsafe { sys::ioctls::PERIOD(self.fd.as_raw_fd(), at) };
        if rc < 0 { Err(Error::last("ioctl(PERF_EVENT_IOC_PERIOD")) } else { Ok(()) }
    }

    /// Sends its records into the ring of `owner`, which watches the same processor.
    ///
    /// # Errors
    /// EINVAL when the two do not match.
    pub fn redirect_to(&self, owner: &Event) -> Result<()> {
        // SAFETY: this ioctl takes a descriptor and touches no memory of ours.
        let rc = unsafe { sys::ioctls::SET_OUTPUT(self.fd.as_raw_fd(), owner.fd.as_raw_fd()) };
        if rc < 0 { Err(Error::last("ioctl(PERF_EVENT_IOC_SET_OUTPUT")) } else { Ok(()) }
    }
}

/// Does `work` without a limit on locked memory, against which BPF maps counted before Linux 5.11. Where the kernel refuses,
/// the limit stays.
pub fn without_lock_limit<T>(work: impl FnOnce() -> T) -> T {
    let set = |new: Option<&libc::rlimit>| {
        let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `new` is null or a valid rlimit, and `old` is valid for a write of one.
        let rc = unsafe { libc::prlimit(0, libc::RLIMIT_MEMLOCK, new, &raw mut old) };
        (rc == 0).then_some(old)
    };
    let none = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let before = set(Some(&none));
    let done = work();
    if let Some(before) = before {
        set(Some(&before));
    }
    done
}

impl From<Event> for OwnedFd {
    fn from(event: Event) -> Self {
        event.fd
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn attributes(spec: &Spec) -> c::perf_event_attr {
    let common = c::PERF_SAMPLE_IDENTIFIER | c::PERF_SAMPLE_TID | c::PERF_SAMPLE_TIME;
    let place = c::PERF_SAMPLE_IP | c::PERF_SAMPLE_ADDR;
    let fault = (common | place) as u64 | PAGE_SIZE;
    let mut attr = c::perf_event_attr::default();
    attr.type_ = match spec.event {
        Software::Tracepoint(_) => c::PERF_TYPE_TRACEPOINT,
        _ => c::PERF_TYPE_SOFTWARE,
    };
    attr.size = size_of::<c::perf_event_attr>() as u32;
    attr.config = u64::from(config(spec.event));
    attr.sample_type = common as u64;
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_use_clockid(1);
    attr.set_inherit(spec.inherit.into());
    attr.set_disabled((spec.disabled || spec.on_exec).into());
    attr.set_enable_on_exec(spec.on_exec.into());
    attr.set_exclude_kernel(spec.user_only.into());
    attr.set_exclude_hv(1);
    match spec.output {
        Output::Count => {}
        Output::Faults { period, registers } => {
            attr.sample_period = period;
            attr.sample_type = fault;
            if registers && cfg!(target_arch = "x86_64") {
                attr.sample_type |= c::PERF_SAMPLE_REGS_USER as u64;
                attr.sample_regs_user = USER_REGS;
            }
        }
        Output::KernelStacks { hertz } => {
            attr.set_freq(1);
            attr.sample_freq = hertz;
            attr.sample_type = (common | place | c::PERF_SAMPLE_CALLCHAIN) as u64;
            attr.set_exclude_callchain_user(1);
        }
        Output::FaultStacks { period, stack_bytes } => {
            attr.sample_period = period;
            attr.sample_type = fault;
            attr.set_exclude_callchain_kernel(1);
            with_stack(&mut attr, stack_bytes);
        }
        Output::CpuStacks { hertz, stack_bytes } => {
            attr.set_freq(1);
            attr.sample_freq = hertz;
            attr.sample_type = (common | place) as u64;
            with_stack(&mut attr, stack_bytes);
        }
        Output::Fields { period } => {
            attr.sample_period = period;
            attr.sample_type = (common | place | c::PERF_SAMPLE_RAW | c::PERF_SAMPLE_REGS_USER) as u64;
            attr.sample_regs_user = IP_REG;
        }
        Output::FieldStacks { stack_bytes } => {
            attr.sample_period = 1;
            let stack = c::PERF_SAMPLE_RAW | c::PERF_SAMPLE_REGS_USER | c::PERF_SAMPLE_STACK_USER;
            attr.sample_type = (common | place | stack) as u64;
            attr.sample_regs_user = STACK_REGS;
            attr.sample_stack_user = stack_bytes;
        }
        Output::UserStacks { period } => {
            attr.sample_period = period;
            attr.sample_type = (common | place | c::PERF_SAMPLE_CALLCHAIN) as u64;
            attr.set_exclude_callchain_kernel(1);
        }
        Output::Switches => attr.set_context_switch(1),
        Output::Program => (attr.sample_period, attr.sample_type) = (1, 0),
        Output::Tasks { wake_bytes } => {
            attr.set_watermark(1);
            attr.__bindgen_anon_2.wakeup_watermark = wake_bytes;
            attr.set_mmap(1);
            attr.set_mmap2(1);
            attr.set_mmap_data(1);
            attr.set_comm(1);
            attr.set_comm_exec(1);
            attr.set_task(1);
        }
    }
    if spec.output != Output::Count {
        attr.set_sample_id_all(1);
        attr.read_format = u64::from(c::PERF_FORMAT_LOST);
    }
    attr
}

fn with_stack(attr: &mut c::perf_event_attr, stack_bytes: u32) {
    attr.sample_type |=
        (c::PERF_SAMPLE_CALLCHAIN | c::PERF_SAMPLE_REGS_USER | c::PERF_SAMPLE_STACK_USER) as u64;
    attr.sample_regs_user = STACK_REGS;
    attr.sample_stack_user = stack_bytes;
}

fn config(event: Software) -> u32 {
    match event {
        Software::PageFaults => c::PERF_COUNT_SW_PAGE_FAULTS,
        Software::MinorFaults => c::PERF_COUNT_SW_PAGE_FAULTS_MIN,
        Software::MajorFaults => c::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
        Software::Dummy => c::PERF_COUNT_SW_DUMMY,
        Software::CpuClock => c::PERF_COUNT_SW_CPU_CLOCK,
        Software::TaskClock => c::PERF_COUNT_SW_TASK_CLOCK,
        Software::Tracepoint(id) => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_faults_of_this_thread_exactly() {
        let spec = Spec {
            event: Software::PageFaults,
            output: Output::Count,
            user_only: true,
            inherit: false,
            on_exec: false,
            disabled: false,
        };
        let event = match Event::open(&spec, Target { pid: 0, cpu: None }, None) {
            Ok(event) => event,
            Err(error) => return faultless_wants::missing_feature("perf events", error),
        };
        let mut ticks = Vec::with_capacity(300);
        let before = event.count().unwrap();
        crate::touch::time_first_touches(256, &mut ticks).unwrap();
        let counted = event.count().unwrap() - before;
        assert!((256..256 + 16).contains(&counted), "{counted} faults for 256 pages");
        event.disable().unwrap();
        let before = event.count().unwrap();
        crate::touch::time_first_touches(256, &mut ticks).unwrap();
        assert_eq!(event.count().unwrap(), before, "a disabled event counts nothing");
    }
}
