//! The facts of this machine as a trace file keeps them.
//!
//! In: [`faultless_os::host::Host`]. Out: [`faultless_trace::observation::Host`], the few fields that a
//! reader of figures needs. Unknown text is empty, unknown numbers are 0.

use faultless_os::host::Host as Machine;
use faultless_trace::observation::Host;

/// This program and its version, as files name it.
pub(crate) const TOOL: &str = concat!("faultless ", env!("CARGO_PKG_VERSION"));

/// Reads this machine.
pub fn host() -> Host {
    shorten(&Machine::read_basics())
}

/// The name of this machine, as `uname -n` prints it; empty if it can't be read.
pub fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    text.trim().to_owned()
}

/// The counters of huge pages in `/proc/vmstat`: by faults, and by khugepaged.
pub(crate) const HUGE_PAGES: [&str; 2] = ["thp_fault_alloc", "thp_collapse_alloc"];

/// Counters of `/proc/vmstat`; `None` where one is missing.
pub(crate) fn vmstat<const N: usize>(names: [&str; N]) -> Option<[u64; N]> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    let mut values = [0; N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())?;
    }
    Some(values)
}

/// The part of `machine` that goes into a trace file.
pub fn shorten(machine: &Machine) -> Host {
    let thp = machine.thp.as_ref();
    let paranoid = machine.sysctl.get("kernel/perf_event_paranoid");
    Host {
        kernel: machine.kernel.release_text.clone().unwrap_or_default(),
        cpu: machine.cpu.model.clone().unwrap_or_default(),
        cpus: machine.cpu.online.unwrap_or(0),
        memory_bytes: machine.memory.total_bytes.unwrap_or(0),
        page_bytes: machine.page_bytes as u64,
        thp_bytes: thp.and_then(|thp| thp.pmd_bytes).unwrap_or(0) as u64,
        thp: thp.and_then(|thp| thp.enabled.clone()).unwrap_or_default(),
        mthp_bytes: thp
            .map(|thp| thp.mthp_enabled().map(|size| size.len_bytes as u64).collect())
            .unwrap_or_default(),
        hypervisor: machine.hypervisor.clone(),
        perf_paranoid: paranoid.and_then(|level| i32::try_from(*level).ok()),
        root: machine.root,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_facts_are_empty_not_invented() {
        let host = shorten(&Machine::default());
        assert_eq!(host, Host::default());
    }
}
