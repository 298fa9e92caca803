//! Kernel samples -> shares of the phases of the fault path, and seconds spent in releasing memory.
//!
//! The first known function of a stack, from the leaf up, gives the phase: small functions are inlined or
//! unknown, and their callers show the purpose. A sample is in the fault path if a fault's entry or
//! `handle_mm_fault` is on its stack. It is on the release side if an unmapping function is. Prefixes are
//! compared, because names end in compiler suffixes (`.constprop.0`, `.isra.0`). Single phases vary between
//! runs, hence the intervals and the minimum: a sample taken with interrupts off lands on the next
//! instruction that enables them, so "entry" gets too many.

use serde::{Deserialize, Serialize};

use crate::measurement::{Count, Interval, share_interval};
use crate::observation::KernelSamples;
use crate::tuning::{JUDGED_RECORDS, PHASE_SAMPLES};

/// Kernel CPU time by purpose, from samples of the CPU clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTime {
    /// Samples in all, user mode included.
    pub samples: u64,
    /// Samples in the page-fault path. Timed faults give its time more precisely: samples
    /// include the recorder, and are late in code that runs with interrupts off.
    pub fault_samples: u64,
    /// Seconds in unmapping, exit and madvise that releases pages.
    pub release_seconds: Interval,
    /// Share of the time in faults by phase, 0 to 1; `None` with too few samples.
    pub phases: Option<Vec<PhaseShare>>,
}

/// One phase of the fault path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseShare {
    /// `zeroing`, `page allocation`, `memcg`, `LRU`, `page table`, `locks`, `entry`, `other`.
    pub phase: String,
    /// Share with its interval.
    pub share: Interval,
}

/// Phases with their prefixes of function names; the first matching phase wins. A leading `*` means "anywhere
/// in the name".
const PHASES: [(&str, &[&str]); 7] = [
    (
        "zeroing",
        &[
            "clear_page",
            "clear_huge_page",
            "clear_subpage",
            "folio_zero_user",
            "memset",
            "init_on_alloc",
            "kernel_init_pages",
            "clear_user_highpage",
            "copy_page",
            "copy_mc_",
            "wp_page_copy_user",
        ],
    ),
    (
        "memcg",
        &[
            "*mem_cgroup",
            "*memcg",
            "obj_cgroup",
            "try_charge",
            "page_counter",
            "uncharge_",
            "consume_stock",
            "refill_stock",
        ],
    ),
    ("LRU", &["folio_add_lru", "lru_", "folio_batch", "folio_mark_accessed", "workingset_"]),
    (
        "locks",
        &[
            "*spin_lock",
            "*spin_unlock",
            "down_",
            "up_",
            "lock_vma",
            "vma_start_read",
            "vma_end_read",
            "*mmap_lock",
            "lock_mm_and_find_vma",
            "rwsem_",
            "*qspinlock",
            "osq_",
            "rcu_read",
            "mutex_",
        ],
    ),
    (
        "page allocation",
        &[
            "get_page_from_freelist",
            "rmqueue",
            "alloc_frozen_pages",
            "folio_alloc",
            "alloc_pages",
            "alloc_anon_folio",
            "vma_alloc_",
            "post_alloc_hook",
            "prep_new_page",
            "prep_compound_page",
            "free_one_page",
            "free_pcppages",
            "add_to_free_list",
            "del_page_from_free_list",
            "zone_watermark_ok",
            "expand",
            "policy_node",
            "get_vma_policy",
            "mpol_",
            "try_to_compact",
            "compact_",
            "try_to_free_pages",
            "shrink_",
            "kmem_cache_",
            "slab",
            "free_frozen_page",
            "free_unref_page",
        ],
    ),
    (
        "page table",
        &[
            "pte_",
            "set_pte",
            "pmd_",
            "set_pmd",
            "pud_",
            "p4d_",
            "pgd_",
            "do_anonymous_page",
            "do_huge_pmd",
            "map_anon_folio",
            "folio_add_new_anon_rmap",
            "folio_add_file_rmap",
            "folio_add_anon_rmap",
            "folio_set_anon",
            "anon_vma",
            "*rmap",
            "pgtable_",
            "next_uptodate",
            "filemap_map",
            "native_set_p",
            "ptep_",
            "update_mmu",
            "inc_mm_counter",
            "add_mm_counter",
            "mm_trace_rss_stat",
            "flush_tlb",
        ],
    ),
    (
        "entry",
        &[
            "asm_exc_page_fault",
            "exc_page_fault",
            "do_user_addr_fault",
            "error_entry",
            "error_return",
            "irqentry",
            "native_iret",
            "sync_regs",
            "restore_regs",
            "fixup_bad_iret",
            "el0_da",
            "el0t_64_sync",
            "do_mem_abort",
            "do_page_fault",
            "do_translation_fault",
            "native_irq_return",
            "paranoid_",
        ],
    ),
];
/// The name for samples of no phase.
const OTHER: &str = "other";

const FAULT_PATH: [&str; 5] =
    ["asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_user_addr_fault", "do_mem_abort"];
const RECORDING: [&str; 2] = ["perf_", "bpf_"];
const RELEASE: [&str; 15] = [
    "unmap_",
    "zap_",
    "free_pgtables",
    "free_pgd_range",
    "exit_mmap",
    "tlb_",
    "madvise_dontneed",
    "madvise_free",
    "do_munmap",
    "do_vmi_",
    "vms_",
    "vm_munmap",
    "x64_sys_munmap",
    "arm64_sys_munmap",
    "release_pages",
];

/// Classifies the samples. The note gives the reason if there are no phases.
pub fn kernel_time(samples: &KernelSamples) -> (KernelTime, Option<String>) {
    let (mut fault, mut release) = (0_u64, 0_u64);
    let mut phases = [0_u64; PHASES.len() + 1];
    for (stack, n) in &samples.stacks {
        if is_in_fault_path(stack) {
            fault = fault.saturating_add(*n);
            let phase = &mut phases[phase_of(stack)];
            *phase = phase.saturating_add(*n);
        } else if stack.iter().any(|f| is_any(f, &RELEASE)) {
            release = release.saturating_add(*n);
        }
    }
    let total = samples.total.max(fault.saturating_add(release));
    let all_seconds = total as f64 * samples.period_ns as f64 / 1e9;
    let enough = fault >= PHASE_SAMPLES;
    let shares = || {
        let named = PHASES.iter().map(|p| p.0).chain([OTHER]).zip(phases);
        let mut shares: Vec<PhaseShare> = named
            .filter(|(_, n)| *n > 0)
            .map(|(phase, n)| PhaseShare {
                phase: phase.to_owned(),
                share: share_interval(n as f64, fault as f64),
            })
            .collect();
        shares.sort_by(|a, b| b.share.value.total_cmp(&a.share.value));
        shares
    };
    let time = KernelTime {
        samples: samples.total,
        fault_samples: fault,
        release_seconds: share_interval(release as f64, total as f64).times(all_seconds),
        phases: enough.then(shares),
    };
    let note = (!enough && fault > 0).then(|| {
        format!(
            "kernel phases are not given: {} fell into the fault path, {} are needed",
            Count(fault).of("sample"),
            Count(PHASE_SAMPLES)
        )
    });
    (time, note)
}

/// Share of the CPU time that the clock's samples show in the fault path, what recording does there left out; `None` for few
/// samples.
pub(crate) fn fault_share(samples: &KernelSamples) -> Option<Interval> {
    let is_work = |stack: &[String]| is_in_fault_path(stack) && !stack.iter().any(|f| is_any(f, &RECORDING));
    let work = samples
        .stacks
        .iter()
        .filter(|(stack, _)| is_work(stack))
        .map(|(_, n)| *n)
        .fold(0, u64::saturating_add);
    (work >= JUDGED_RECORDS).then(|| share_interval(work as f64, samples.total.max(work) as f64))
}

/// Whether a stack is in the fault path.
pub(crate) fn is_in_fault_path(stack: &[String]) -> bool {
    stack.iter().any(|function| is_any(function, &FAULT_PATH))
}

/// Leading underscores do not count.
fn is_any(function: &str, prefixes: &[&str]) -> bool {
    let function = function.trim_start_matches('_');
    prefixes.iter().any(|p| match p.strip_prefix('*') {
        Some(part) => function.contains(part),
        None => function.starts_with(p),
    })
}

/// Index of the phase that a function's name tells.
fn known(function: &str) -> Option<usize> {
    PHASES.iter().position(|(_, prefixes)| is_any(function, prefixes))
}

/// The phase of a function of the fault path, if its name tells.
pub fn phase_of_function(function: &str) -> Option<&'static str> {
    known(function).map(|phase| PHASES[phase].0)
}

/// The phase of a stack of the fault path: the first known function tells, from the leaf up.
pub fn phase_of_stack(stack: &[String]) -> &'static str {
    PHASES.get(phase_of(stack)).map_or(OTHER, |(phase, _)| phase)
}

/// The locks of a first touch, in the order of [`lock_of`].
pub const LOCKS: [&str; 5] = ["mmap and VMA lock", "page-table lock", "zone lock", "LRU lock", "other lock"];

/// Callers of the locks of [`LOCKS`], as in [`PHASES`]. The innermost known function tells: a lock's own name (that of
/// the VMA), else its caller.
const LOCK_CALLERS: [&[&str]; LOCKS.len()] = [
    &[
        "*mmap_lock",
        "lock_mm_and_find_vma",
        "lock_vma",
        "vma_start_read",
        "vma_end_read",
        "vma_refcount",
        "mmap_read",
    ],
    &["pte_", "pmd_", "do_anonymous_page", "do_huge_pmd", "set_pte_range", "finish_fault"],
    &["rmqueue", "free_pcppages", "free_one_page", "free_unref", "free_frozen", "get_page_from_freelist"],
    &["folio_batch", "folio_lruvec", "lru_", "folio_add_lru"],
    // Of no lock in particular.
    &["rcu_read"],
];

/// Which of [`LOCKS`] a stack of the fault path takes, waits for or gives up: an index. `None` for a stack whose
/// phase is not "locks".
///
/// A sample that falls while interrupts are off is counted when they are on again. So the locks of zone and LRU, taken
/// without interrupts, have the work below them, too.
pub fn lock_of(stack: &[String]) -> Option<usize> {
    let is_lock = is_in_fault_path(stack) && phase_of_stack(stack) == "locks";
    let of = |function: &String| LOCK_CALLERS.iter().position(|callers| is_any(function, callers));
    is_lock.then(|| stack.iter().find_map(of).unwrap_or(LOCKS.len() - 1))
}

/// Index of the phase of a stack of the fault path.
fn phase_of(stack: &[String]) -> usize {
    let generic = |f: &&String| !is_any(f, &["handle_mm_fault", "handle_pte_fault"]);
    match stack.first() {
        // The large dispatchers belong to no phase.
        Some(leaf) if !generic(&leaf) => PHASES.len(),
        _ => stack.iter().filter(generic).find_map(|f| known(f)).unwrap_or(PHASES.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &str, n: u64) -> (Vec<String>, u64) {
        (functions.split(' ').map(str::to_owned).collect(), n)
    }

    fn samples(scale: u64) -> KernelSamples {
        let fault = "do_anonymous_page __handle_mm_fault handle_mm_fault exc_page_fault asm_exc_page_fault";
        let stacks = vec![
            stack(&format!("clear_page_erms {fault}"), 30 * scale),
            stack(&format!("mod_objcg_state charge_memcg __mem_cgroup_charge {fault}"), 20 * scale),
            stack(&format!("unknown_leaf rmqueue.constprop.0 get_page_from_freelist {fault}"), 25 * scale),
            stack(fault, 10 * scale),
            stack("__handle_mm_fault handle_mm_fault exc_page_fault asm_exc_page_fault", 5 * scale),
            stack("exc_page_fault asm_exc_page_fault", 10 * scale),
            stack("zap_pte_range unmap_page_range unmap_vmas exit_mmap do_exit", 40 * scale),
            stack("vfs_read ksys_read do_syscall_64", 60 * scale),
        ];
        KernelSamples { period_ns: 1_000_000, total: 400 * scale, stacks }
    }

    #[test]
    fn stacks_are_classified_from_the_leaf_up() {
        let (time, note) = kernel_time(&samples(100));
        let phases: Vec<_> =
            time.phases.unwrap().into_iter().map(|p| (p.phase, (p.share.value * 100.0).round())).collect();
        let expected = [("zeroing", 30.0), ("page allocation", 25.0), ("memcg", 20.0), ("page table", 10.0)];
        assert_eq!(phases[..4].iter().map(|(p, s)| (p.as_str(), *s)).collect::<Vec<_>>(), expected);
        assert!(
            phases.contains(&("entry".into(), 10.0)) && phases.contains(&("other".into(), 5.0)),
            "{phases:?}"
        );
        assert_eq!(time.fault_samples, 10_000);
        assert!((time.release_seconds.value - 4.0).abs() < 1e-9);
        assert!(time.release_seconds.low < 4.0 && time.release_seconds.high > 4.0);
        assert_eq!(note, None);
    }

    #[test]
    fn a_lock_is_named_by_its_own_function_or_by_its_caller() {
        let fault = "__handle_mm_fault handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault";
        let of =
            |functions: &str| lock_of(&stack(&format!("{functions} {fault}"), 1).0).map(|lock| LOCKS[lock]);
        assert_eq!(of("down_read_trylock lock_mm_and_find_vma"), Some("mmap and VMA lock"));
        assert_eq!(of("vma_end_read"), Some("mmap and VMA lock"));
        let spin = "native_queued_spin_lock_slowpath _raw_spin_lock";
        assert_eq!(of(&format!("{spin} __pte_offset_map_lock do_anonymous_page")), Some("page-table lock"));
        let zone = "_raw_spin_unlock_irqrestore rmqueue_bulk __rmqueue_pcplist get_page_from_freelist alloc_anon_folio";
        assert_eq!(of(&format!("{zone} do_anonymous_page")), Some("zone lock"));
        let lru =
            "_raw_spin_unlock_irqrestore folio_batch_move_lru __folio_batch_add_and_move do_anonymous_page";
        assert_eq!(of(lru), Some("LRU lock"));
        assert_eq!(of("__rcu_read_unlock do_anonymous_page"), Some("other lock"));
        assert_eq!(of("clear_page_erms do_anonymous_page"), None);
        assert_eq!(lock_of(&stack("_raw_spin_lock do_sys_open", 1).0), None);
    }

    #[test]
    fn few_samples_give_seconds_and_no_phases() {
        let (time, note) = kernel_time(&samples(2));
        assert_eq!(time.phases, None);
        assert!(note.unwrap().contains("200 samples"));
        assert_eq!(time.fault_samples, 200);
    }
}
