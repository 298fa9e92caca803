//! The events of one run: which could be opened, and a note on each.
//!
//! In: the held child and what may be used. Out: a [`Session`]. Every source is tried by opening it, from the most telling
//! form down: with kernel mode, else user mode only; the largest ring that can be mapped, else smaller ones.
//!
//! What it does not do: read the rings (`drain`), or decide when to record (`duty`).

use std::os::fd::{AsFd, BorrowedFd};

use faultless_os::perf::{Event, Output, Software, Spec, Target};
use faultless_os::ring::Ring;
use faultless_os::{Error, Result};
use faultless_trace::observation::{Counts, SourceNote};

use crate::{Kernel, Sources, tuning as t};

/// Everything that is open on the program.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// PAGE_FAULTS in user mode, the whole tree.
    user: Option<Event>,
    /// PAGE_FAULTS in all modes.
    all: Option<Event>,
    /// PAGE_FAULTS_MIN.
    minor: Option<Event>,
    /// PAGE_FAULTS_MAJ.
    major: Option<Event>,
    /// CPU time of the tree.
    clock: Option<Event>,
    /// One per processor.
    pub(crate) lanes: Vec<Lane>,
    /// One per processor; empty without the rights.
    pub(crate) kernel: Vec<KernelLane>,
    /// What became of each source.
    pub(crate) notes: Vec<SourceNote>,
}

/// What is recorded on one processor.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Mappings, tasks and faults.
    pub(crate) ring: Ring,
    /// The event that owns the ring and writes mappings and tasks; readable once the ring holds [`t::WAKE_BYTES`] more.
    tasks: Event,
    /// Entry and ends of faults.
    pub(crate) faults: Option<Faults>,
}

/// The group that records single faults.
#[derive(Debug)]
pub(crate) struct Faults {
    /// Entries; switches the others with it.
    leader: Event,
    _ends: [Event; 2],
    /// Ids of entry, minor end and major end.
    pub(crate) ids: [u64; 3],
}

/// Kernel stacks of one processor.
#[derive(Debug)]
pub(crate) struct KernelLane {
    pub(crate) ring: Ring,
    _event: Event,
}

impl Session {
    /// Opens what is allowed and possible on the held child `pid`. Everything begins with its exec.
    pub(crate) fn open(pid: i32, allow: Sources) -> Self {
        let mut session = Self::default();
        if allow.counters {
            session.open_counters(pid);
        } else {
            session.note("page-faults:u", false, "not asked for");
        }
        let cpus = online_cpus(pid);
        if allow.pairs && session.user.is_some() {
            session.open_lanes(pid, &cpus);
        } else if allow.pairs {
            session.note("fault pairs", false, "need the counter page-faults:u");
        } else {
            session.note("fault pairs", false, "not asked for");
        }
        if allow.kernel != Kernel::No {
            session.open_kernel(pid, &cpus, allow.kernel.hertz());
        } else {
            session.note(KERNEL, false, "not asked for");
        }
        session
    }

    fn open_counters(&mut self, pid: i32) {
        let count = |event, user_only| {
            let spec = Spec { event, user_only, ..COUNT };
            Event::open(&spec, Target { pid, cpu: None }, None)
        };
        self.user = self.noted("page-faults:u", count(Software::PageFaults, true));
        self.all = self.noted("page-faults in kernel mode too", count(Software::PageFaults, false));
        let any_mode = |event| count(event, false).or_else(|_| count(event, true));
        self.minor = any_mode(Software::MinorFaults).ok();
        self.major = self.noted("major-faults", any_mode(Software::MajorFaults));
        self.clock = count(Software::TaskClock, true).ok();
    }

    fn open_lanes(&mut self, pid: i32, cpus: &[u32]) {
        let opened = |pages, user_only| -> Result<Vec<Lane>> {
            cpus.iter().map(|&cpu| Lane::open(Target { pid, cpu: Some(cpu) }, pages, user_only)).collect()
        };
        let mut pages = t::RING_PAGES_MAX;
        let mut user_only = self.all.is_none();
        loop {
            match opened(pages, user_only) {
                Ok(lanes) => {
                    let kib = lanes.first().map_or(0, |lane| lane.ring.data_bytes() >> 10);
                    let modes = if user_only { "user mode only" } else { "user and kernel mode" };
                    self.note("fault pairs", true, &format!("{modes}, {kib} KiB of ring per processor"));
                    self.lanes = lanes;
                    return;
                }
                Err(error) if error.call == "perf_event_open" && error.is_denied() && !user_only => {
                    user_only = true
                }
                Err(error) if error.call.starts_with("mmap") && pages > t::RING_PAGES_MIN => pages /= 2,
                Err(error) => return self.note("fault pairs", false, &remedy(error)),
            }
        }
    }

    fn open_kernel(&mut self, pid: i32, cpus: &[u32], hertz: u64) {
        let lanes: Result<Vec<KernelLane>> = cpus
            .iter()
            .map(|&cpu| {
                let spec =
                    Spec { event: Software::CpuClock, output: Output::KernelStacks { hertz }, ..COUNT };
                let event = Event::open(&spec, Target { pid, cpu: Some(cpu) }, None)?;
                Ok(KernelLane { ring: Ring::map(&event, t::KERNEL_RING_PAGES)?, _event: event })
            })
            .collect();
        self.kernel = self.noted(KERNEL, lanes).unwrap_or_default();
    }

    /// Become readable when there is something worth reading in the rings of faults.
    pub(crate) fn wakers(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lanes.iter().map(|lane| lane.tasks.as_fd())
    }

    /// Faults in user mode so far.
    pub(crate) fn user_faults(&self) -> Option<u64> {
        self.user.as_ref()?.count().ok()
    }

    /// CPU time of the tree so far.
    pub(crate) fn cpu_ns(&self) -> Option<u64> {
        self.clock.as_ref()?.count().ok()
    }

    /// The exact counts so far.
    pub(crate) fn counts(&self, before_exec_faults: u64) -> Counts {
        let count = |event: &Option<Event>| event.as_ref()?.count().ok();
        Counts {
            user_faults: count(&self.user),
            all_faults: count(&self.all),
            minor_faults: count(&self.minor),
            major_faults: count(&self.major),
            cpu_ns: count(&self.clock),
            before_exec_faults,
        }
    }

    /// Whether single faults can be recorded.
    pub(crate) fn records_faults(&self) -> bool {
        self.lanes.iter().any(|lane| lane.faults.is_some())
    }

    /// Switches the recording of single faults, in all processes of the tree.
    pub(crate) fn record_faults(&self, on: bool) {
        for faults in self.lanes.iter().filter_map(|lane| lane.faults.as_ref()) {
            // The kernel refuses this for no event that it has opened; were one to stay off, its window would hold too few
            // records, which shows against the window's exact count.
            let _ = if on { faults.leader.enable() } else { faults.leader.disable() };
        }
    }

    /// Writes down what became of a source.
    pub(crate) fn note(&mut self, source: &str, used: bool, note: &str) {
        self.notes.push(SourceNote { source: source.into(), used, note: note.into() });
    }

    fn noted<T>(&mut self, source: &str, opened: Result<T>) -> Option<T> {
        match opened {
            Ok(value) => {
                self.note(source, true, "");
                Some(value)
            }
            Err(error) => {
                self.note(source, false, &remedy(error));
                None
            }
        }
    }
}

/// Name of the source of kernel stacks.
pub(crate) const KERNEL: &str = "cpu-clock with kernel stacks";

const COUNT: Spec = Spec {
    event: Software::PageFaults,
    output: Output::Count,
    user_only: false,
    inherit: true,
    on_exec: true,
    disabled: false,
};

impl Lane {
    fn open(target: Target, pages: usize, user_only: bool) -> Result<Self> {
        let spec = Spec {
            event: Software::Dummy,
            output: Output::Tasks { wake_bytes: t::WAKE_BYTES },
            user_only: true,
            ..COUNT
        };
        let tasks = Event::open(&spec, target, None)?;
        let ring = Ring::map(&tasks, pages)?;
        let entry = Spec { output: Output::EveryFault, user_only, ..COUNT };
        let leader = Event::open(&entry, target, None)?;
        let end = |event| Event::open(&Spec { event, on_exec: false, ..entry }, target, Some(&leader));
        let ends = [end(Software::MinorFaults)?, end(Software::MajorFaults)?];
        for event in [&leader, &ends[0], &ends[1]] {
            event.redirect_to(&tasks)?;
        }
        let ids = [leader.id()?, ends[0].id()?, ends[1].id()?];
        Ok(Self { ring, tasks, faults: Some(Faults { leader, _ends: ends, ids }) })
    }
}

/// Why a source is missing, and what would change that.
pub(crate) fn remedy(error: Error) -> String {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid = paranoid.trim();
    match std::io::Error::from(error).kind() {
        _ if error.call.starts_with("mmap") => {
            format!("{error}; raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK")
        }
        // The kernel's own refusal is EACCES; EPERM is what seccomp profiles of containers answer, to root as well.
        std::io::ErrorKind::PermissionDenied if error.errno == 1 => format!(
            "{error}; a sandbox forbids the call: allow perf_event_open in its seccomp profile, or give the container CAP_PERFMON"
        ),
        std::io::ErrorKind::PermissionDenied => format!(
            "{error}; kernel.perf_event_paranoid is {paranoid}: run as root, with CAP_PERFMON, or set it to 1 (a container may \
             also forbid the call)"
        ),
        std::io::ErrorKind::Unsupported => {
            format!("{error}; the kernel lacks perf events or a sandbox hides them")
        }
        _ => error.to_string(),
    }
}

/// Processors online, from sysfs; where that is hidden, those that an event on `pid` can be opened for; at least processor 0.
pub(crate) fn online_cpus(pid: i32) -> Vec<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut cpus = parse_cpus(&list);
    if cpus.is_empty() {
        let spec = Spec { event: Software::Dummy, user_only: true, ..COUNT };
        let known = |cpu: &u32| Event::open(&spec, Target { pid, cpu: Some(*cpu) }, None).is_ok();
        cpus = (0..t::CPUS_MAX).take_while(known).collect();
    }
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// `0-3,8` as numbers.
fn parse_cpus(list: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_cpus("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse_cpus("0\n"), [0]);
        assert!(parse_cpus("").is_empty());
    }

    #[test]
    fn a_refusal_names_the_setting_that_would_change_it() {
        let text = remedy(Error::new("perf_event_open", 13));
        assert!(text.contains("perf_event_paranoid"), "{text}");
        let text = remedy(Error::new("perf_event_open", 1));
        assert!(text.contains("seccomp") && !text.contains("run as root"), "{text}");
        let text = remedy(Error::new("perf_event_open", 38));
        assert!(text.contains("sandbox"), "{text}");
    }
}
