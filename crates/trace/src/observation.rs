//! Raw observations of one run: the kernel's records and counts, in the order of time.
//!
//! Times are nanoseconds of CLOCK_MONOTONIC. Nothing here is corrected, scaled or classified.

mod calibration;
mod in_kernel;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kind::{Adds, Kind};

pub use calibration::Calibration;
pub use in_kernel::{FaultSum, FaultSums, InKernel};

/// Stands for a command where the whole machine was watched.
pub const ALL_PROCESSES: [&str; 2] = ["all", "processes"];

/// In [`Observation::machine`]: how often processors were interrupted to flush their TLB.
pub const TLB_INTERRUPTS: &str = "tlb_interrupts";
/// In [`Observation::machine`]: how often the control group, or one above it, met its limit of memory.
pub const GROUP_LIMIT: &str = "group_limit";

/// Everything that was observed of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Whether it was attached to: the peak is not that of processes born since.
    #[serde(default)]
    pub attached: bool,
    /// How it ended.
    pub exit: Exit,
    /// The machine.
    pub host: Host,
    /// `wait4` for the program and its waited-for children.
    pub usage: Usage,
    /// Exact counts of software events, if they could be opened.
    pub counts: Counts,
    /// How far counters rose meanwhile that all programs of the machine move: those of `/proc/vmstat` about compaction,
    /// reclaim, huge pages and swap, and two more.
    #[serde(default)]
    pub machine: BTreeMap<String, u64>,
    /// The error of a measured fault, found at start.
    pub calibration: Option<Calibration>,
    /// Every fault, if the kernel timed them itself.
    #[serde(default)]
    pub in_kernel: Option<InKernel>,
    /// Consecutive spans of time with their exact counts; in some of them single faults were recorded.
    pub windows: Vec<Window>,
    /// Records of the rings, sorted by time. Fault records only inside windows that are `recorded`.
    pub records: Vec<Record>,
    /// The fault counter and the resident memory over time, summed over the process tree.
    pub levels: Vec<Level>,
    /// Resident anonymous bytes of the process tree at the last reading before its end; `None` if that was not shortly
    /// before.
    #[serde(default)]
    pub end_bytes: Option<u64>,
    /// Kernel samples of the CPU clock by stack (root only).
    pub kernel: Option<KernelSamples>,
    /// Losses per event; `None` if the kernel does not report them.
    #[serde(default)]
    pub event_losses: Option<Vec<EventLoss>>,
    /// Every source that was tried: whether it was used, else the reason and the remedy.
    pub sources: Vec<SourceNote>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It never started.
    #[default]
    NotStarted,
    /// It returned this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
    /// Not known: it ran before it was watched, and another process waits for it.
    Unknown,
}

/// Facts about the machine that a reader needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// `uname -r`.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors online.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Base page size in bytes.
    pub page_bytes: u64,
    /// Size of a transparent huge page in bytes; 0 if there are none.
    pub thp_bytes: u64,
    /// The chosen word of `transparent_hugepage/enabled`.
    pub thp: String,
    /// Sizes in bytes of mTHP that are not `never`.
    pub mthp_bytes: Vec<u64>,
    /// The hypervisor's name if known; `None` without one.
    pub hypervisor: Option<String>,
    /// `kernel.perf_event_paranoid`.
    pub perf_paranoid: Option<i32>,
    /// Whether the measuring process is root.
    pub root: bool,
}

impl Host {
    /// Bytes of anonymous memory that a fault of this kind makes resident. `None` for file pages
    /// (fault-around maps several), the zero page, shared memory and unknown kinds, and for a write after a
    /// fork: the page was resident before, and is copied only while another process has it too.
    pub fn bytes_made_resident(&self, kind: Kind) -> Option<f64> {
        match kind.adds() {
            Adds::HugePage => Some(self.thp_bytes as f64),
            Adds::Page => Some(self.page_bytes as f64),
            Adds::Nothing | Adds::Unknown => None,
        }
    }
}

/// The kernel's accounting of a finished program (`wait4`), its waited-for children included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Elapsed time from exec to exit.
    pub wall_ns: u64,
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// `ru_minflt`.
    pub minor_faults: u64,
    /// `ru_majflt`.
    pub major_faults: u64,
    /// `ru_maxrss` in bytes: the largest single process; if attached, of those attached to.
    pub peak_rss_bytes: u64,
}

impl Usage {
    /// User and system time together.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }
}

/// Whole-run counts of perf software events over the process tree. `None`: the event could not be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// PAGE_FAULTS taken in user mode (`:u`).
    pub user_faults: Option<u64>,
    /// PAGE_FAULTS taken in user and kernel mode; needs rights.
    pub all_faults: Option<u64>,
    /// PAGE_FAULTS_MIN, in the modes that could be counted. Unlike PAGE_FAULTS this holds no access that ended in a signal.
    pub minor_faults: Option<u64>,
    /// PAGE_FAULTS_MAJ, in the modes that could be counted.
    pub major_faults: Option<u64>,
    /// Faults of huge pages of the whole machine during the run: an upper bound for the program.
    #[serde(default)]
    pub huge_at_most: Option<u64>,
    /// Huge pages that khugepaged made meanwhile, on the whole machine: memory without faults.
    #[serde(default)]
    pub huge_collapsed: Option<u64>,
    /// Time of a fault of a huge page right after the run, ns: the median of a few, by the tick counter.
    /// `None` if the run had none.
    #[serde(default)]
    pub huge_ns: Option<u64>,
    /// CPU time, unwaited-for children included.
    pub cpu_ns: Option<u64>,
    /// Our own faults: in our child before the program's exec, and where its processes map the journal of their
    /// allocations; part of `wait4`'s figure.
    pub before_exec_faults: u64,
    /// Processes that still ran at the end; counted up to then.
    #[serde(default)]
    pub running: u64,
}

impl Counts {
    /// Whether a user's events ended before the program, and their clock with them: a set-user-ID program began.
    pub fn were_taken_away(&self, usage: &Usage) -> bool {
        let is_short = |ns| ns < usage.cpu_ns() / 2;
        self.user_faults.is_some() && self.all_faults.is_none() && self.cpu_ns.is_some_and(is_short)
    }

    /// Faults that could be recorded: of all modes if those were counted, else of user mode.
    pub fn recordable(&self) -> Option<u64> {
        self.all_faults.or(self.user_faults)
    }

    /// Accesses that raised a page-fault event and ended in a signal, as with a guard page or a garbage
    /// collector's barrier.
    pub(crate) fn failed(&self) -> u64 {
        let handled =
            self.minor_faults.zip(self.major_faults).map(|(minor, major)| minor.saturating_add(major));
        self.recordable().zip(handled).map_or(0, |(all, handled)| all.saturating_sub(handled))
    }
}

/// A span of time with its exact number of user-mode faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Begin, inclusive.
    pub begin_ns: u64,
    /// End, exclusive.
    pub end_ns: u64,
    /// Faults counted in it.
    pub faults: u64,
    /// Whether single faults were recorded.
    pub recorded: bool,
    /// Records that the rings lost in it.
    pub lost: u64,
}

/// A record with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When.
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// What.
    pub what: What,
}

impl Record {
    /// Whether a process begins: a thread of one that is there is none.
    pub(crate) fn begins_process(&self) -> bool {
        matches!(self.what, What::Fork { parent } if parent != self.pid)
    }
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A fault began at data address `addr`, by the instruction at `ip`.
    Enter {
        /// Faulting data address.
        addr: u64,
        /// Faulting instruction address.
        ip: u64,
        /// Taken in kernel mode.
        kernel: bool,
        /// The instruction's use of `addr`, if it could be decoded.
        access: Option<Access>,
        /// Size of the page mapped before, 0 for none; `None` if the kernel does not report it (before Linux
        /// 5.11).
        mapped_bytes: Option<u64>,
    },
    /// The fault at `addr` of this thread was handled.
    End {
        /// Faulting data address.
        addr: u64,
        /// It needed I/O.
        major: bool,
        /// The touching stack: index into [`Stacks::stacks`](crate::recording::Stacks), if stacks are
        /// recorded.
        stack: Option<u32>,
        /// Size of the page mapped now; `None` if the kernel does not report it.
        mapped_bytes: Option<u64>,
    },
    /// A sampled fault began. The thread's next sample completes it if address and instruction agree.
    SampleEnter {
        /// Faulting data address.
        addr: u64,
        /// Faulting instruction address.
        ip: u64,
        /// Size of the page mapped before, 0 for none; `None` if the kernel does not report it.
        mapped_bytes: Option<u64>,
    },
    /// A sampled fault was handled, inside or outside recorded windows. It represents `weight` faults.
    Sample {
        /// A sampled fault was handled, inside or outside recorded windows. It represents `weight` faults.
        addr: u64,
        /// Faulting instruction address.
        ip: u64,
        /// Taken in kernel mode.
        kernel: bool,
        /// It needed I/O.
        major: bool,
        /// The instruction's use of `addr`, if it could be decoded.
        access: Option<Access>,
        /// The touching stack.
        stack: Option<u32>,
        /// Faults that it represents.
        weight: u64,
        /// Size of the page mapped now; `None` if the kernel does not report it.
        mapped_bytes: Option<u64>,
    },
    /// A sample of the CPU clock: the thread was running this.
    Cpu {
        /// In kernel mode.
        kernel: bool,
        /// What was running.
        stack: Option<u32>,
    },
    /// The thread got a processor or gave it up.
    Switch {
        /// It gave it up.
        out: bool,
        /// It was still able to run when it gave it up.
        preempted: bool,
    },
    /// The thread has waited for the lock of the address space (`mmap_lock`) up to now.
    LockWait {
        /// For writing: to change mappings. Faults, mincore and MADV_DONTNEED take it for reading.
        write: bool,
        /// How long.
        wait_ns: u64,
        /// The system call that waited, or `faults`; `None` if that is not known.
        by: Option<String>,
    },
    /// The thread called the kernel to change the address space, to make a task, or to end: it began now.
    Call {
        /// Which.
        call: Call,
        /// Its first four arguments.
        args: [u64; 4],
        /// What it returned; `None` if it did not return.
        result: Option<i64>,
        /// How long it took; `None` if that is not known.
        ns: Option<u64>,
        /// How much of it the thread was off its processor.
        off_ns: u64,
        /// Who called.
        stack: Option<u32>,
    },
    /// A thread's change of the address space makes other processors flush their TLB.
    Flush {
        /// This thread sends the request; else it is interrupted by one.
        sent: bool,
        /// Requests that the record represents.
        weight: u64,
    },
    /// A block was allocated.
    Alloc {
        /// First address.
        addr: u64,
        /// Length asked for.
        len_bytes: u64,
        /// Who asked.
        stack: Option<u32>,
    },
    /// A block was freed.
    Free {
        /// First address.
        addr: u64,
    },
    /// A block changed its length, and perhaps its place.
    Move {
        /// First address before.
        from: u64,
        /// First address now.
        addr: u64,
        /// Length now.
        len_bytes: u64,
        /// Who asked.
        stack: Option<u32>,
    },
    /// The thread was given this name.
    Name(String),
    /// The process's settings of allocators and runtimes ([`crate::heaps::settings`]).
    Settings(Vec<String>),
    /// The process has no huge pages, whatever it asks for: prctl(PR_SET_THP_DISABLE).
    NoHugePages,
    /// A mapping appeared (PERF_RECORD_MMAP2) and covers older ones.
    Map(Map),
    /// `pid` came from `parent` by fork or clone; if they are equal, `tid` is a new thread.
    Fork {
        /// Parent process.
        parent: u32,
    },
    /// `pid` replaced its program: all its mappings are gone.
    Exec,
    /// Thread `tid` ended.
    Exit,
}

/// A system call that changes the address space, makes a task, or ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// mmap(2).
    Mmap,
    /// munmap(2).
    Munmap,
    /// mremap(2).
    Mremap,
    /// brk(2).
    Brk,
    /// mprotect(2).
    Mprotect,
    /// madvise(2).
    Madvise,
    /// shmdt(2).
    Shmdt,
    /// fork(2), and clone(2) or clone3(2) for a process or a thread.
    Clone,
    /// vfork(2).
    Vfork,
    /// exit_group(2).
    ExitGroup,
    /// userfaultfd(2).
    Userfaultfd,
}

impl Call {
    /// All of them, with the names of their system calls.
    pub const NAMES: [(&str, Self); 13] = [
        ("mmap", Self::Mmap),
        ("munmap", Self::Munmap),
        ("mremap", Self::Mremap),
        ("brk", Self::Brk),
        ("mprotect", Self::Mprotect),
        ("madvise", Self::Madvise),
        ("shmdt", Self::Shmdt),
        ("fork", Self::Clone),
        ("clone", Self::Clone),
        ("clone3", Self::Clone),
        ("vfork", Self::Vfork),
        ("exit_group", Self::ExitGroup),
        ("userfaultfd", Self::Userfaultfd),
    ];

    /// Its name; of calls that are one here, the first.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, call)| *call == self).map_or("", |(name, _)| name)
    }

    /// The call of that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, call)| *call)
    }
}

/// How an instruction uses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It loads from it.
    Read,
    /// It stores to it.
    Write,
    /// It is being fetched.
    Execute,
}

/// A mapping as PERF_RECORD_MMAP2 describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// First address.
    pub begin: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// File name, or `//anon`, `[heap]`, `[stack]`, `[vdso]`.
    pub name: String,
    /// Offset in the file.
    pub file_offset: u64,
}

/// Counter and resident memory at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// When.
    pub time_ns: u64,
    /// Faults so far of the process tree, counted in user mode, or read from /proc if no event could be
    /// opened.
    pub faults: u64,
    /// Resident anonymous bytes, process tree.
    pub anon_bytes: u64,
}

/// What happened since the last tick, while a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Time since the begin, ns.
    pub time_ns: u64,
    /// Time since the last tick, ns.
    pub span_ns: u64,
    /// Faults: of all modes if those can be counted, else of user mode; `None` without any event.
    pub faults: Option<u64>,
    /// CPU time in user and kernel mode, ns, if it can be counted.
    pub cpu_ns: Option<u64>,
    /// Anonymous memory that is resident now, if it is read.
    pub anon_bytes: Option<u64>,
}

/// Losses of one event (PERF_FORMAT_LOST, Linux 6.0).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLoss {
    /// `entry`, `minor end`, `major end`, `sample entry`, `sample`, `major sample`, `cpu clock`, `tasks`, `switches` and others.
    pub event: String,
    /// Processor.
    pub cpu: u32,
    /// Records.
    pub lost: u64,
}

/// Samples of the CPU clock that fell into the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSamples {
    /// CPU time of the process tree per sample.
    pub period_ns: u64,
    /// All samples, user mode included.
    pub total: u64,
    /// Kernel samples by stack, leaf first, function names only, and how often.
    pub stacks: Vec<(Vec<String>, u64)>,
}

/// A source of data, and whether it was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceNote {
    /// Its name: `page-faults:u`, `fault pairs`, `cpu-clock with kernel stacks`, `/proc/PID/statm`.
    pub source: String,
    /// Whether it was used.
    pub used: bool,
    /// The reason and the remedy if it was not used; else how much of it was read.
    pub note: String,
}

impl SourceNote {
    /// The note of a source that was not requested.
    pub const NOT_ASKED_FOR: &str = "not asked for";
    /// The mappings of a process that ran before. Noted if they can't be read.
    pub const MAPPINGS: &str = "/proc/PID/maps";
    /// Noted if there were more mappings and processes than are kept.
    pub const LEFT_OUT: &str = "mappings";
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotStarted => f.write_str("not started"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
