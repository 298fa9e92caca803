//! Mechanisms by which a thread waits, or others pay.

use super::*;
use crate::observation::{Calibration, GROUP_LIMIT, Level, TLB_INTERRUPTS};

const HUGE: u64 = 2 << 20;
const FILE: u64 = 0x7f00_0000_0000;

fn cpu(stack: u32) -> What {
    What::Cpu { kernel: true, stack: Some(stack) }
}

fn call(call: Call, args: [u64; 4], ns: Option<u64>) -> What {
    What::Call { call, args, result: None, ns, off_ns: 0, stack: Some(1) }
}

fn madvise(advice: u64) -> What {
    call(Call::Madvise, [HEAP, PAGE, advice, 0], Some(5_000))
}

fn switch(out: bool) -> What {
    What::Switch { out, preempted: false }
}

/// A fault that is off its processor meanwhile.
fn blocked(addr: u64, major: bool) -> Vec<What> {
    let access = Some(crate::observation::Access::Read);
    let enter = What::Enter { addr, ip: 1, kernel: false, access, mapped_bytes: Some(0) };
    let end = What::End { addr, major, stack: Some(0), mapped_bytes: Some(PAGE) };
    let meanwhile = (0..4).map(|addr| What::Free { addr });
    [enter, switch(true)].into_iter().chain(meanwhile).chain([switch(false), end]).collect()
}

fn huge(at: u64) -> [What; 2] {
    let [enter, mut end] = touch(at * HUGE / PAGE);
    if let What::End { mapped_bytes, .. } = &mut end {
        *mapped_bytes = Some(HUGE);
    }
    [enter, end]
}

fn map(begin: u64, name: &str) -> What {
    What::Map(Map { begin, len_bytes: 1 << 30, prot: 1, flags: 1, name: name.into(), file_offset: 0 })
}

/// As [`recording`], with kernel stacks: 2 compacts and 3 clears in a fault, 4 reclaims, 5 tears down.
fn seen(events: impl IntoIterator<Item = What>) -> Recording {
    let mut recording = recording(events);
    let stacks = &mut recording.stacks;
    stacks.modules.push(Module { path: "[kernel]".into(), ..Module::default() });
    for functions in [
        &["compact_zone", "try_to_compact_pages", "handle_mm_fault"][..],
        &["clear_page_erms", "handle_mm_fault"],
        &["shrink_folio_list", "try_to_free_mem_cgroup_pages"],
        &["zap_pte_range", "exit_mmap"],
    ] {
        let first = stacks.frames.len() as u32;
        stacks.frames.extend(functions.iter().map(|function| Frame {
            module: Some(2),
            names: vec![Name { function: (*function).to_owned(), ..Name::default() }],
            ..Frame::default()
        }));
        stacks.stacks.push((first..stacks.frames.len() as u32).collect());
    }
    recording.header.settings.cpu_hertz = 1_000_000;
    recording
}

fn moved(recording: &mut Recording, counters: &[(&str, u64)]) {
    recording.observation.machine = counters.iter().map(|(name, rise)| ((*name).to_owned(), *rise)).collect();
}

/// Gives the records of which this is true to another thread, or process.
fn give(recording: &mut Recording, tid: u32, pid: u32, is: impl Fn(&What) -> bool) {
    for record in recording.observation.records.iter_mut().filter(|record| is(&record.what)) {
        (record.pid, record.tid) = (pid, tid);
    }
}

/// The mechanism of this name.
fn of(recording: &Recording, id: &str) -> Option<Mechanism> {
    found(recording).into_iter().find(|found| found.id == id)
}

#[test]
fn a_thread_that_faults_nothing_is_named_as_the_victim_of_another_ones_calls() {
    let flush = |sent| What::Flush { sent, weight: 11 };
    let round = || [madvise(4), flush(true), flush(false)];
    let mut recording = seen((0..100).flat_map(|_| round()).chain([What::Name("walker".into())]));
    let is_sender = |what: &What| matches!(what, What::Call { .. } | What::Flush { sent: true, .. });
    give(&mut recording, 2, 1, is_sender);
    let lost = crate::observation::EventLoss { event: "TLB flush".into(), cpu: 0, lost: 200 };
    recording.observation.event_losses = Some(vec![lost]);
    let first = of(&recording, "tlb_victim").unwrap();
    assert_eq!(
        (first.calls, first.share),
        (2_200, 0.0),
        "with lost ones; the victim's time is none of the faults'"
    );
    assert_eq!(
        (first.victims.as_slice(), first.wait_ns),
        (&["walker (1): 2 200 flushes".to_owned()][..], 4_400_000.0)
    );
    assert_eq!(first.caller.as_deref(), Some("madvise <- send"));
}

#[test]
fn without_the_tracepoint_calls_beside_a_running_thread_count_up_to_the_machines_interrupts() {
    let round = |page| touch(page).into_iter().chain([madvise(4), switch(false)]);
    let with = |interrupts, advice| {
        let mut recording = recording((0..100).flat_map(round));
        give(&mut recording, 2, 1, |what| matches!(what, What::Switch { .. }));
        for record in &mut recording.observation.records {
            if let What::Call { args, .. } = &mut record.what {
                args[2] = advice;
            }
        }
        moved(&mut recording, &[(TLB_INTERRUPTS, interrupts)]);
        of(&recording, "tlb_victim").map(|found| found.calls)
    };
    assert_eq!((with(1_000, 4), with(40, 4)), (Some(99), Some(40)));
    assert_eq!(
        (with(0, 4), with(1_000, 14)),
        (None, None),
        "no interrupt, and advice that takes nothing away"
    );
}

#[test]
fn compaction_in_a_fault_is_named_by_its_samples_or_by_the_machines_stalls() {
    let faults = || (0..100).flat_map(huge);
    let mut root = seen(faults().chain((0..40).map(|at| cpu(if at < 30 { 2 } else { 3 }))));
    moved(&mut root, &[("compact_stall", 15)]);
    let first = of(&root, "huge_page_compaction").unwrap();
    assert!(
        first.what.contains("75 %") && first.what.contains("25 %") && first.what.contains("15 stalls"),
        "{first:?}"
    );
    let user = |stalls| {
        let mut user = recording(faults());
        user.observation.counts.huge_ns = Some(100);
        moved(&mut user, &[("compact_stall", stalls)]);
        of(&user, "huge_page_compaction")
    };
    assert!(user(50).unwrap().what.contains("up to") && user(1).is_none());
}

#[test]
fn memory_that_grows_without_faults_is_khugepageds_if_it_made_huge_pages() {
    let with = |collapsed| {
        let mut recording = recording((0..20).flat_map(touch));
        let level = |time_ns, anon_bytes| Level { time_ns, faults: 20, anon_bytes };
        recording.observation.levels = vec![level(30_000, 1 << 20), level(40_000, 200 << 20)];
        let counts = &mut recording.observation.counts;
        (counts.huge_at_most, counts.huge_collapsed) = (Some(0), Some(collapsed));
        recording.observation.usage.peak_rss_bytes = 200 << 20;
        moved(&mut recording, &[("thp_collapse_alloc", collapsed)]);
        of(&recording, "khugepaged").map(|found| found.grown_bytes)
    };
    assert_eq!((with(50), with(0)), (Some(100.0 * (1 << 20) as f64), None));
}

#[test]
fn a_file_that_is_not_in_memory_is_told_by_its_faults_and_their_order() {
    let read = |major, step: u64, advice: Option<u64>| {
        let faults = (0..30_u64).flat_map(move |at| blocked(FILE + at * step % (1 << 30), major));
        let recording =
            recording([map(FILE, "/data/weights")].into_iter().chain(advice.map(madvise)).chain(faults));
        let first = of(&recording, "cold_file").unwrap();
        assert!(first.wait_ns > 0.0, "{first:?}");
        let words: Vec<&str> = first.what.split(' ').collect();
        (words[words.len() - 3..].join(" "), first.caller)
    };
    let said = |what: &str| what.to_owned();
    assert_eq!(read(true, PAGE, Some(1)), (said("read-ahead is off"), Some(said("madvise <- send"))));
    assert_eq!(read(true, 128 << 10, None), (said("use, with read-ahead"), None));
    assert_eq!(read(true, 377 << 20, None), (said("at a time"), None));
    assert_eq!(read(false, PAGE, None).0, "as minor ones");
}

#[test]
fn major_faults_without_a_file_are_swap_or_another_threads_only_with_evidence() {
    let faults = || (0..30).flat_map(|page| blocked(HEAP + page * PAGE, true));
    let mut swapped = recording(faults());
    assert_eq!(of(&swapped, "swap_in"), None);
    moved(&mut swapped, &[("pswpin", 30)]);
    assert_eq!(of(&swapped, "swap_in").unwrap().faults.value, 30.0);
    let uffd = recording([call(Call::Userfaultfd, [0; 4], None)].into_iter().chain(faults()));
    assert_eq!(of(&uffd, "userfaultfd").unwrap().faults.value, 30.0);
}

#[test]
fn a_control_group_at_its_limit_takes_the_time_that_samples_show() {
    let with = |counters: &[(&str, u64)]| {
        let mut recording = seen((0..20).flat_map(touch).chain((0..30).map(|_| cpu(4))));
        moved(&mut recording, counters);
        of(&recording, "direct_reclaim").map(|found| (found.what.contains("group"), found.call_ns))
    };
    assert_eq!(with(&[(GROUP_LIMIT, 7)]), Some((true, Some(30_000.0))), "outside faults");
    assert_eq!(with(&[("allocstall_normal", 7)]), Some((false, Some(30_000.0))));
    assert_eq!(with(&[]), None);
}

#[test]
fn a_fork_that_copies_is_timed_and_one_that_shares_or_is_small_is_not() {
    let fork = |ns, shares: bool| {
        let child = What::Fork { parent: 1 };
        let freed = if shares { vec![What::Exec] } else { Vec::new() };
        let events = [call(Call::Clone, [0; 4], Some(ns)), child].into_iter().chain(freed).chain([cpu(5)]);
        let mut recording = seen(events.chain((0..2_000).flat_map(touch)));
        let of_child = |what: &What| matches!(what, What::Fork { .. } | What::Cpu { .. });
        give(&mut recording, 7, 7, of_child);
        let last = recording.observation.records.iter().rposition(|record| record.what == What::Exec);
        if let Some(exec) = last.filter(|_| shares) {
            (recording.observation.records[exec].pid, recording.observation.records[exec].tid) = (7, 7);
        }
        of(&recording, "fork_page_tables").map(|found| found.call_ns)
    };
    assert_eq!(fork(500_000, false), Some(Some(501_000.0)), "with the sample that tears the copy down");
    assert_eq!((fork(500_000, true), fork(90_000, false)), (None, None));
}

#[test]
fn first_touches_far_above_the_usual_price_are_the_hosts_in_a_guest_only() {
    let with = |hypervisor: Option<&str>, truth_p50_ns| {
        let mut recording = recording((0..1_500).flat_map(touch));
        recording.observation.host.hypervisor = hypervisor.map(str::to_owned);
        let pair_p50_ns = truth_p50_ns;
        let found = Calibration {
            truth_p50_ns,
            pair_p50_ns,
            record_cost_ns: 500.0,
            pages: 64,
            offset_error_ns: 0.0,
            read_offset_ns: None,
            mapped_offset_ns: None,
        };
        recording.observation.calibration = Some(found);
        of(&recording, "cold_guest_memory").is_some()
    };
    assert_eq!((with(Some("kvm"), 200.0), with(Some("kvm"), 500.0), with(None, 200.0)), (true, false, false));
}

#[test]
fn a_program_with_none_of_these_has_none() {
    let recording = seen((0..500).flat_map(touch).chain((0..50).map(|_| cpu(3))));
    let ids: Vec<String> = found(&recording).into_iter().map(|found| found.id).collect();
    assert_eq!(ids, ["first_touch"]);
}
