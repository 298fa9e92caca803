//! Rows about limits, pressure, swap, and other causes of slow or repeated faults.

use faultless_os::host::Host;
use faultless_prof::price::Prices;
use faultless_trace::measurement::{Bytes, Count, Nanos};

use super::row::{Grade, Row, Rule};

pub(super) const RULES: &[Rule] = &[
    cgroup_high,
    cgroup_max,
    pressure,
    direct_reclaim,
    overcommit,
    address_space,
    max_map_count,
    swap,
    zswap,
    ksm,
    numa_balancing,
    zone_reclaim,
    tunables,
];

/// A PSI share of time above this percentage should be fixed before anything about faults.
const PRESSURE: f64 = 5.0;
/// The kernel's default of `vm.max_map_count` is 65530 (include/linux/mm.h, DEFAULT_MAX_MAP_COUNT).
const MAP_COUNT: i64 = 65_530;

/// cgroup-v2.rst, memory.events: processes above memory.high are throttled and have to reclaim. Version 2
/// only.
fn cgroup_high(host: &Host, _: &Prices) -> Option<Row> {
    let cgroup = host.cgroup.as_ref()?;
    let events = cgroup.high_events.filter(|events| *events > 0)?;
    let limit = cgroup.high_bytes.map_or("unset now".into(), |high| Bytes(high).to_string());
    let meaning = format!(
        "throttled {} above this limit: tasks reclaim memory and wait, as if faults were slow",
        Count(events).of("time")
    );
    Some(
        Row::new("cgroup memory.high", limit, Grade::Act, meaning)
            .advice("raise memory.high, or use less memory; watch `high` in memory.events")
            .source("cgroup-v2.rst"),
    )
}

/// cgroup-v2.rst and cgroup-v1/memory.rst: page cache and anonymous memory are both charged.
fn cgroup_max(host: &Host, _: &Prices) -> Option<Row> {
    let cgroup = host.cgroup.as_ref()?;
    let max = cgroup.max_bytes?;
    let used = Bytes(cgroup.current_bytes.unwrap_or(0));
    let meaning = format!("page cache and memory kept for reuse count too; {used} in use now");
    Some(
        Row::new("cgroup memory limit", Bytes(max).to_string(), Grade::Note, meaning)
            .advice("keep what a pool retains well below it")
            .source("cgroup-v2.rst; cgroup-v1/memory.rst"),
    )
}

/// psi.rst (4.20): the share of time in which some task waited for memory.
fn pressure(host: &Host, _: &Prices) -> Option<Row> {
    let some = host.pressure?.some_avg10;
    let value = format!("some avg10 = {some:.2} %");
    let row = if some > PRESSURE {
        let meaning = "tasks wait for memory to be reclaimed";
        Row::new("memory pressure", value, Grade::Act, meaning)
            .advice("free memory or add some first: measurements now show reclaim, not faults")
    } else {
        Row::new("memory pressure", value, Grade::Good, "tasks hardly wait for memory")
    };
    Some(row.source("psi.rst"))
}

/// vm.rst, watermark_scale_factor (4.6): a high rate of allocstall means that kswapd starts too late for
/// bursts.
fn direct_reclaim(host: &Host, _: &Prices) -> Option<Row> {
    let stalls: u64 =
        host.vmstat.iter().filter(|(name, _)| name.starts_with("allocstall_")).map(|(_, count)| count).sum();
    let factor = host.sysctl.get("vm/watermark_scale_factor")?;
    let row = if stalls > 0 {
        let meaning = format!("{} since boot needed direct reclaim", Count(stalls).of("allocation"));
        Row::new("vm.watermark_scale_factor", factor.to_string(), Grade::Note, meaning)
            .advice("raise it (unit 1/10000 of memory) so that kswapd starts earlier before bursts")
    } else {
        let meaning = "no allocation since boot needed direct reclaim";
        Row::new("vm.watermark_scale_factor", factor.to_string(), Grade::Good, meaning)
    };
    Some(row.source("vm.rst"))
}

/// overcommit-accounting.rst and proc(5): what each mode refuses, and that MAP_NORESERVE counts in mode 0 only.
fn overcommit(host: &Host, _: &Prices) -> Option<Row> {
    const SETTING: &str = "vm.overcommit_memory";
    let mode = *host.sysctl.get("vm/overcommit_memory")?;
    let row = if mode == 2 {
        let left = host.memory.commit_limit_bytes.zip(host.memory.committed_bytes);
        let left =
            left.map_or("unknown".into(), |(limit, used)| Bytes(limit.saturating_sub(used)).to_string());
        let meaning = format!("mappings fail beyond CommitLimit (left: {left}); MAP_NORESERVE is ignored");
        Row::new(SETTING, "2", Grade::Note, meaning)
            .advice("reserve address space with PROT_NONE, and make it usable in steps")
    } else {
        let meaning = match mode {
            0 => "only mappings that are obviously too large are refused; MAP_NORESERVE ones are not checked",
            _ => "no mapping is refused for its size",
        };
        Row::new(SETTING, mode.to_string(), Grade::Good, meaning)
    };
    Some(row.source("overcommit-accounting.rst; proc(5)"))
}

/// getrlimit(2), RLIMIT_AS.
fn address_space(host: &Host, _: &Prices) -> Option<Row> {
    let limit = host.limits.address_space_bytes?;
    let meaning = "reservations count as used: large ones fail although memory is free";
    Some(
        Row::new("ulimit -v", Bytes(limit).to_string(), Grade::Note, meaning)
            .advice("ulimit -v unlimited; limit memory with a cgroup instead")
            .source("getrlimit(2)"),
    )
}

/// vm.rst, max_map_count.
fn max_map_count(host: &Host, _: &Prices) -> Option<Row> {
    const SETTING: &str = "vm.max_map_count";
    let count = *host.sysctl.get("vm/max_map_count")?;
    let row = if count < MAP_COUNT {
        let meaning =
            "fewer mappings than usual: madvise and mprotect on parts of memory split them and may fail";
        Row::new(SETTING, count.to_string(), Grade::Note, meaning)
            .advice(format!("sysctl vm.max_map_count={MAP_COUNT}"))
    } else {
        Row::new(SETTING, count.to_string(), Grade::Good, "room for as many mappings as usual")
    };
    Some(row.source("vm.rst"))
}

/// mm/memory.c, do_swap_page(): a page outside the swap cache is a major fault, whatever its source.
fn swap(host: &Host, _: &Prices) -> Option<Row> {
    let swaps = host.swaps.as_ref()?;
    let used: u64 = swaps.iter().map(|swap| swap.used_bytes).sum();
    let pages_in = host.vmstat.get("pswpin").copied().unwrap_or(0);
    if swaps.is_empty() {
        let meaning = "anonymous memory never comes back from a disk";
        return Some(Row::new("swap", "none", Grade::Good, meaning).source("proc(5)"));
    }
    let value = format!("{} in use, {} read back since boot", Bytes(used), Count(pages_in).of("page"));
    let meaning = "a page that comes back from swap is a major fault: I/O or decompression, not clearing";
    let grade = if pages_in > 0 { Grade::Note } else { Grade::Good };
    let row = Row::new("swap", value, grade, meaning).source("mm/memory.c; getrusage(2)");
    Some(match grade {
        Grade::Note => {
            row.advice("count major faults apart; mlock or a smaller working set for the hot part")
        }
        _ => row,
    })
}

/// zswap.rst (3.11): a compressed cache for pages on their way to swap.
fn zswap(host: &Host, _: &Prices) -> Option<Row> {
    host.zswap_enabled.filter(|enabled| *enabled)?;
    let meaning = "pages swapped out stay in memory compressed at first: their next touch decompresses";
    Some(Row::new("zswap", "on", Grade::Note, meaning).source("zswap.rst"))
}

/// ksm.rst and madvise(2): MADV_MERGEABLE since 2.6.32.
fn ksm(host: &Host, prices: &Prices) -> Option<Row> {
    host.ksm_runs.filter(|runs| *runs)?;
    let price =
        prices.ns("cow_after_fork").map(|price| format!(" (as copy on write after fork: {})", Nanos(price)));
    let meaning = format!(
        "equal pages of memory that asked for it are merged, write-protected: the next write copies{}",
        price.unwrap_or_default()
    );
    Some(
        Row::new("KSM", "running", Grade::Note, meaning)
            .advice("no MADV_MERGEABLE on memory that is written often")
            .source("ksm.rst; madvise(2)"),
    )
}

/// kernel.rst, numa_balancing (3.8): pages are unmapped from time to time to trap the next access.
fn numa_balancing(host: &Host, _: &Prices) -> Option<Row> {
    let mode = *host.sysctl.get("kernel/numa_balancing")?;
    if mode == 0 {
        return None;
    }
    let hints = host.vmstat.get("numa_hint_faults").copied().unwrap_or(0);
    let meaning = format!(
        "pages are unmapped now and then to see who touches them: {} from it since boot",
        Count(hints).of("fault")
    );
    Some(
        Row::new("kernel.numa_balancing", mode.to_string(), Grade::Note, meaning)
            .advice("0 for jobs that are pinned to nodes; they show as minor faults without new memory")
            .source("kernel.rst"),
    )
}

/// vm.rst, zone_reclaim_mode.
fn zone_reclaim(host: &Host, _: &Prices) -> Option<Row> {
    let mode = *host.sysctl.get("vm/zone_reclaim_mode")?;
    (mode != 0).then(|| {
        let meaning = "a fault reclaims memory of the own node before it takes free memory of another";
        Row::new("vm.zone_reclaim_mode", mode.to_string(), Grade::Act, meaning)
            .advice("sysctl vm.zone_reclaim_mode=0, unless each job fits into a node")
            .source("vm.rst")
    })
}

/// glibc manual, Memory Allocation Tunables.
fn tunables(host: &Host, _: &Prices) -> Option<Row> {
    let value = host.glibc_tunables.clone()?;
    let meaning = "programs started from here run with these settings of malloc";
    Some(
        Row::new("GLIBC_TUNABLES", value, Grade::Note, meaning)
            .advice("unset it before comparing allocators")
            .source("glibc manual, Memory Allocation Tunables"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::host::{Cgroup, Pressure};

    #[test]
    fn throttling_asks_for_action_only_when_it_happened() {
        let mut host = Host {
            cgroup: Some(Cgroup { high_bytes: Some(1 << 30), ..Cgroup::default() }),
            ..Host::default()
        };
        assert_eq!(cgroup_high(&host, &Prices::default()), None);
        host.cgroup.as_mut().unwrap().high_events = Some(7);
        let row = cgroup_high(&host, &Prices::default()).unwrap();
        assert_eq!((row.grade, row.value.as_str()), (Grade::Act, "1 GiB"));
    }

    #[test]
    fn pressure_above_the_threshold_comes_first() {
        let with = |some_avg10| Host { pressure: Some(Pressure { some_avg10 }), ..Host::default() };
        assert_eq!(pressure(&with(20.0), &Prices::default()).unwrap().grade, Grade::Act);
        assert_eq!(pressure(&with(0.1), &Prices::default()).unwrap().grade, Grade::Good);
    }

    #[test]
    fn strict_overcommit_tells_what_is_left() {
        let mut host = Host::default();
        host.sysctl.insert("vm/overcommit_memory".into(), 2);
        host.memory.commit_limit_bytes = Some(3 << 30);
        host.memory.committed_bytes = Some(1 << 30);
        assert!(overcommit(&host, &Prices::default()).unwrap().meaning.contains("left: 2 GiB"));
    }
}
