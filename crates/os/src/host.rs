//! Facts about this machine that affect page faults.
//!
//! In: files below `/proc` and `/sys`, limits, and a few probed calls. Out: [`Host`], in which everything
//! unreadable is `None`. A missing file is no error; in containers most are missing. It allocates.
//!
//! It does not judge (`faultless doctor`), or measure (`prof::price`).
//!
//! Sources: proc(5), Documentation/admin-guide/{sysctl/vm,sysctl/kernel,cgroup-v2,mm/transhuge,mm/hugetlbpage,mm/ksm}.rst
//! and Documentation/accounting/psi.rst of Linux.

mod cgroup;
mod files;
mod huge;
mod parse;
mod probe;
mod system;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use files::Files;

pub use cgroup::Cgroup;
pub use huge::{HugetlbPool, Khugepaged, Mthp, Thp};
pub(crate) use parse::kib;
pub use parse::{Pressure, Release, Swap, chosen};
pub use probe::Probes;
pub use system::{Balloon, Cpu, Kernel, Limits, Memory, glibc};

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Kernel release, version and boot parameters.
    pub kernel: Kernel,
    /// Processors.
    pub cpu: Cpu,
    /// Memory and commit charge.
    pub memory: Memory,
    /// Base page size in bytes.
    pub page_bytes: usize,
    /// Transparent huge pages; `None` if the kernel has none.
    pub thp: Option<Thp>,
    /// hugetlb pools, one per page size.
    pub hugetlb: Vec<HugetlbPool>,
    /// The hypervisor below, by name or `unknown`; `None` if none is visible.
    pub hypervisor: Option<String>,
    /// The virtio balloon, if there is one.
    pub balloon: Option<Balloon>,
    /// Numbers below `/proc/sys`, by path: `vm/overcommit_memory`, `kernel/perf_event_paranoid`.
    pub sysctl: BTreeMap<String, i64>,
    /// Limits of this process.
    pub limits: Limits,
    /// Memory limits of this process's cgroup.
    pub cgroup: Option<Cgroup>,
    /// Memory pressure of the machine; `None` without PSI.
    pub pressure: Option<Pressure>,
    /// Whether KSM runs (`ksm/run` is 1).
    pub ksm_runs: Option<bool>,
    /// Whether zswap is on.
    pub zswap_enabled: Option<bool>,
    /// Swap devices and files in use.
    pub swaps: Option<Vec<Swap>>,
    /// Mitigations by vulnerability.
    pub vulnerabilities: BTreeMap<String, String>,
    /// Counters of `/proc/vmstat`.
    pub vmstat: BTreeMap<String, u64>,
    /// Number of mappings of this process, to compare with `vm/max_map_count`.
    pub maps: Option<usize>,
    /// Version of glibc, if this program runs on it.
    pub glibc: Option<String>,
    /// GLIBC_TUNABLES of this process.
    pub glibc_tunables: Option<String>,
    /// Effective user id is 0.
    pub root: bool,
    /// A seccomp filter is on this process.
    pub seccomp: Option<bool>,
    /// Whether the tracepoints can be listed.
    pub tracefs: bool,
    /// Calls that were tried.
    pub probes: Probes,
}

/// Files of `/proc/sys` that are read.
const SYSCTL: [&str; 17] = [
    "vm/overcommit_memory",
    "vm/overcommit_ratio",
    "vm/max_map_count",
    "vm/swappiness",
    "vm/min_free_kbytes",
    "vm/watermark_scale_factor",
    "vm/watermark_boost_factor",
    "vm/zone_reclaim_mode",
    "vm/percpu_pagelist_high_fraction",
    "vm/unprivileged_userfaultfd",
    "vm/compaction_proactiveness",
    "kernel/numa_balancing",
    "kernel/perf_event_paranoid",
    "kernel/perf_event_mlock_kb",
    "kernel/kptr_restrict",
    "kernel/dmesg_restrict",
    "kernel/yama/ptrace_scope",
];

impl Host {
    /// Reads this machine.
    pub fn read() -> Self {
        Self { limits: Limits::read(), probes: Probes::run(), ..Self::read_below(Path::new("/")) }
    }

    /// Reads only the facts that go with a measurement: kernel, processors, memory, THP, hypervisor, rights.
    /// [`Host::read`] takes 5 ms of CPU time, this a tenth of it.
    pub fn read_basics() -> Self {
        let files = Files::new(Path::new("/"));
        let cpu = Cpu::read(&files);
        let paranoid = "kernel/perf_event_paranoid";
        let level = files.number(&format!("proc/sys/{paranoid}"));
        Self {
            hypervisor: system::hypervisor(&files, &cpu),
            memory: Memory::read(&files),
            page_bytes: crate::page::size(),
            thp: Thp::read(&files),
            sysctl: level.map(|level| (paranoid.to_owned(), level)).into_iter().collect(),
            root: user().0 == 0,
            kernel: Kernel::read(&files),
            cpu,
            ..Self::default()
        }
    }

    /// Reads the files below `root` instead of `/`; limits and probes stay at their defaults.
    pub(crate) fn read_below(root: &Path) -> Self {
        let files = Files::new(root);
        let number = |path: &&str| Some(((*path).to_owned(), files.number(&format!("proc/sys/{path}"))?));
        let kernel = Kernel::read(&files);
        let cpu = Cpu::read(&files);
        let status = files.text("proc/self/status").unwrap_or_default();
        Self {
            hypervisor: system::hypervisor(&files, &cpu),
            memory: Memory::read(&files),
            page_bytes: crate::page::size(),
            thp: Thp::read(&files),
            hugetlb: HugetlbPool::read_all(&files),
            balloon: Balloon::read(&files),
            sysctl: SYSCTL.iter().filter_map(number).collect(),
            cgroup: Cgroup::read(&files),
            pressure: files.text("proc/pressure/memory").and_then(|text| parse::pressure(&text)),
            ksm_runs: files.number("sys/kernel/mm/ksm/run").map(|run| run == 1),
            zswap_enabled: files.text("sys/module/zswap/parameters/enabled").map(|text| text == "Y"),
            swaps: files.text("proc/swaps").map(|text| parse::swaps(&text)),
            vulnerabilities: system::vulnerabilities(&files),
            vmstat: files.text("proc/vmstat").map(|text| parse::counters(&text)).unwrap_or_default(),
            maps: files.text("proc/self/maps").map(|text| text.lines().count()),
            glibc: system::glibc(),
            glibc_tunables: std::env::var("GLIBC_TUNABLES").ok().filter(|value| !value.is_empty()),
            root: user().0 == 0,
            seccomp: parse::field(&status, "Seccomp:").map(|mode| mode != "0"),
            tracefs: !files.names("sys/kernel/tracing/events").is_empty()
                || !files.names("sys/kernel/debug/tracing/events").is_empty(),
            limits: Limits::default(),
            probes: Probes::default(),
            kernel,
            cpu,
        }
    }

    /// Whether /proc is hidden: then kernel, memory and settings are unknown, not absent.
    pub fn hides_proc(&self) -> bool {
        self.kernel.release_text.is_none()
    }

    /// Whether /sys is hidden: every kernel since 4.15 lists vulnerabilities there.
    pub fn hides_sys(&self) -> bool {
        self.thp.is_none() && self.vulnerabilities.is_empty()
    }
}

/// Effective user and group of this process; needs no file.
pub fn user() -> (u32, u32) {
    // SAFETY: geteuid(2) takes nothing and always succeeds.
    let user = unsafe { libc::geteuid() };
    // SAFETY: so does getegid(2).
    let group = unsafe { libc::getegid() };
    (user, group)
}

/// Whether this process may execute a file. The kernel checks mode, access lists and mount options.
pub fn may_execute(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: faccessat(2) reads the C string and nothing else.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_found_in_an_empty_directory_and_nothing_fails() {
        let empty = std::env::temp_dir().join(format!("faultless-host-{}", std::process::id()));
        std::fs::create_dir_all(&empty).unwrap();
        let host = Host::read_below(&empty);
        std::fs::remove_dir_all(&empty).unwrap();
        assert_eq!(host.thp, None);
        assert_eq!(host.hypervisor, None);
        assert!(host.hugetlb.is_empty() && host.sysctl.is_empty() && host.vmstat.is_empty());
        assert_eq!(host.memory, Memory::default());
    }

    #[test]
    fn only_a_file_with_the_right_to_execute_may_be_executed() {
        assert!(may_execute(Path::new("/bin/sh")));
        assert!(!may_execute(Path::new("/proc/self/status")));
        assert!(!may_execute(Path::new("no such file")) && !may_execute(Path::new("a\0b")));
    }

    #[test]
    fn this_machine_has_a_kernel_memory_and_processors() {
        let host = Host::read();
        assert!(host.kernel.release.as_ref().is_some_and(|release| release.major >= 3), "{:?}", host.kernel);
        assert!(host.memory.total_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(host.cpu.online.is_some_and(|cpus| cpus >= 1));
    }
}
