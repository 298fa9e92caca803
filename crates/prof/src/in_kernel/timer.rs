//! The BPF programs that time faults (`bpf/faults.bpf.c`), and their tables.
//!
//! In: the processors, and events to run at. Out: sums by process. All of it is gone with the last event and the [`Timer`].
//!
//! It does not open events (`session`), or know who is watched.

use std::os::fd::AsFd;
use std::path::Path;
use std::{fmt, fs};

use aya::maps::{HashMap, MapData, MapError, PerCpuArray};
use aya::programs::PerfEvent;
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use faultless_os::host::user;
use faultless_os::perf::{Event, without_lock_limit};
use faultless_trace::observation::{FaultSum, FaultSums};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::tuning as t;

#[cfg(target_arch = "x86_64")]
static PROGRAMS: &[u8] = include_bytes_aligned!("../../bpf/faults.x86_64.o");
#[cfg(target_arch = "aarch64")]
static PROGRAMS: &[u8] = include_bytes_aligned!("../../bpf/faults.aarch64.o");

/// What the kernel calls its first namespace of processes (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// CAP_SYS_ADMIN, which stands for the two others (capability.h).
const SYS_ADMIN: u32 = 21;
/// CAP_PERFMON.
const PERFMON: u32 = 38;
/// CAP_BPF.
const BPF: u32 = 39;

/// `struct sums` of the programs: four sums of five words.
type Sums = [u64; 20];
/// `struct under_way`: its last word is `beyond`.
type UnderWay = [u64; 4];

/// The point of a fault at which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// It begins: PAGE_FAULTS.
    Begin,
    /// A minor fault has been handled: PAGE_FAULTS_MIN.
    MinorEnd,
    /// A major fault has been handled: PAGE_FAULTS_MAJ.
    MajorEnd,
}

/// The loaded programs.
pub(crate) struct Timer {
    programs: Ebpf,
    /// By processor and process.
    sums: HashMap<MapData, u64, Sums>,
    under_way: PerCpuArray<MapData, UnderWay>,
    cpus: Vec<u32>,
    /// Switches of threads are known to the programs.
    pub(crate) tells_switches: bool,
}

impl Timer {
    /// Loads them for these processors.
    ///
    /// # Errors
    /// There is no right, or the kernel refuses: the text says why, and what would help.
    pub(crate) fn load(cpus: &[u32]) -> Result<Self, String> {
        is_allowed()?;
        let types = Btf::from_sys_fs().ok();
        // Linux before 5.11 lets no program read fields of tasks.
        let without = |why| if types.is_some() { Self::loaded(cpus, None) } else { Err(why) };
        without_lock_limit(|| Self::loaded(cpus, types.as_ref()).or_else(without)).map_err(|why| {
            format!(
                "{why}; needs Linux 5.8 with CONFIG_BPF_SYSCALL, and a container also a seccomp profile that allows bpf(2)"
            )
        })
    }

    fn loaded(cpus: &[u32], types: Option<&Btf>) -> Result<Self, String> {
        let knows_tasks = u64::from(types.is_some());
        let mut programs = EbpfLoader::new()
            .btf(types)
            .set_global("KNOWS_TASKS", &knows_tasks, true)
            .set_max_entries("sums", t::TIMED_PROCESSES_MAX)
            .load(PROGRAMS)
            .map_err(|error| with_causes(&error))?;
        for (_, program) in programs.programs_mut() {
            let program: &mut PerfEvent = program.try_into().map_err(|error| with_causes(&error))?;
            program.load().map_err(|error| with_causes(&error))?;
        }
        let mut map = |name: &str| programs.take_map(name).ok_or_else(|| format!("no BPF map {name}"));
        let (sums, under_way) = (map("sums")?, map("under_way")?);
        let failed = |error: MapError| with_causes(&error);
        Ok(Self {
            sums: HashMap::try_from(sums).map_err(failed)?,
            under_way: PerCpuArray::try_from(under_way).map_err(failed)?,
            programs,
            cpus: cpus.to_vec(),
            tells_switches: types.is_some(),
        })
    }

    /// Lets the program for this point run at an event of [`Output::Program`](faultless_os::perf::Output::Program).
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn run_at(&self, event: &Event, point: Point) -> Result<(), String> {
        let name = match point {
            Point::Begin => "fault_begins",
            Point::MinorEnd => "minor_ends",
            Point::MajorEnd => "major_ends",
        };
        let program = self.programs.program(name).ok_or_else(|| format!("no BPF program {name}"))?;
        let program: &PerfEvent = program.try_into().map_err(|error| with_causes(&error))?;
        let fd = program.fd().map_err(|error| with_causes(&error))?;
        event.run_at_overflow(fd.as_fd()).map_err(|error| error.to_string())
    }

    /// Faults of a process so far.
    pub(crate) fn of(&self, pid: u32) -> FaultSums {
        let found = self.keys(pid).filter_map(|key| self.sums.get(&key, 0).ok());
        found.map(sums).fold(FaultSums::default(), FaultSums::plus)
    }

    /// Faults of all processes so far.
    pub(crate) fn by_process(&self) -> FxHashMap<u32, FaultSums> {
        let mut all: FxHashMap<u32, FaultSums> = FxHashMap::default();
        for (key, words) in self.sums.iter().flatten() {
            let of_process = all.entry(key as u32).or_default();
            *of_process = of_process.plus(sums(words));
        }
        all
    }

    /// Makes room where this process was. Returns its sums.
    pub(crate) fn take(&mut self, pid: u32) -> FaultSums {
        let taken = self.of(pid);
        for key in self.keys(pid).collect::<Vec<_>>() {
            // It may never have run there.
            let _ = self.sums.remove(&key);
        }
        taken
    }

    /// The same for many processes, in one pass.
    pub(crate) fn take_all(&mut self, pids: &FxHashSet<u32>) -> FaultSums {
        let keys: Vec<u64> = self.sums.keys().flatten().filter(|&key| pids.contains(&(key as u32))).collect();
        let mut taken = FaultSums::default();
        for key in keys {
            taken = self.sums.get(&key, 0).map_or(taken, |words| taken.plus(sums(words)));
            let _ = self.sums.remove(&key);
        }
        taken
    }

    /// Faults of processes for which there was no room.
    pub(crate) fn beyond(&self) -> u64 {
        let each = self.under_way.get(&0, 0);
        each.map_or(0, |each| each.iter().map(|words| words[words.len() - 1]).sum())
    }

    fn keys(&self, pid: u32) -> impl Iterator<Item = u64> {
        self.cpus.iter().map(move |&cpu| u64::from(cpu) << 32 | u64::from(pid))
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("cpus", &self.cpus).finish_non_exhaustive()
    }
}

/// Whether loading is worth a try; else what is missing.
fn is_allowed() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let has = |capability: u32| effective >> capability & 1 == 1;
    let is_able = has(SYS_ADMIN) || (has(PERFMON) && has(BPF));
    if !is_able {
        let whom = if user().0 == 0 { "CAP_BPF and CAP_PERFMON" } else { "root, or CAP_BPF and CAP_PERFMON" };
        return Err(format!(
            "needs {whom}: then the kernel times every fault, and threads pay nothing at a switch"
        ));
    }
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace != Path::new(FIRST_NAMESPACE) {
        return Err(
            "processes have other numbers in this container than in the kernel: run it on the host, or \
                    with the host's process ids (--pid=host)"
                .into(),
        );
    }
    Ok(())
}

/// An error with all that it stems from.
fn with_causes(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(of) = cause {
        (text, cause) = (format!("{text}: {of}"), of.source());
    }
    text
}

fn sums(words: Sums) -> FaultSums {
    let mut of = words.chunks_exact(5).map(|words| FaultSum {
        faults: words[0],
        timed: words[1],
        ns: words[2],
        switched: words[3],
        switched_ns: words[4],
    });
    let mut both = || [of.next().unwrap_or_default(), of.next().unwrap_or_default()];
    FaultSums { minor: both(), major: both() }
}
