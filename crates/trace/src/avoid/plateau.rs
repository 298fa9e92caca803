//! Counts -> the share of faults that a program would have avoided if it had kept everything, with bounds.
//!
//! In any order of faults and releases, each process takes its peak of keepable pages once, and needs no
//! further such fault. So the avoidable faults are those that take keepable pages, less those that built up
//! the peaks. A peak is at least as high as a reading, and at most the largest resident size that the kernel
//! noted (`ru_maxrss`). Of processes born while attached no peak is known: all their faults may have built it up.
//!
//! It is not known whether faults of kernel mode, populated pages and faults of unknown kind take a keepable
//! page. The bounds allow for all of them and for none.

use std::collections::{HashMap, HashSet};

use crate::kind::{Kind, KindRow};
use crate::levels::noise_pages;
use crate::observation::{Observation, What};
use crate::profile::Weighted;

/// Bounds of the share of all faults that keeping everything avoids; `None` without a known peak.
pub(crate) fn plateau(rows: &[KindRow], faults: &[Weighted], observation: &Observation) -> Option<[f64; 2]> {
    let host = &observation.host;
    let page = host.page_bytes.max(1) as f64;
    let huge_pages = (host.thp_bytes as f64 / page).max(1.0);
    let peak_pages = Some(observation.usage.peak_rss_bytes as f64 / page).filter(|peak| *peak > 0.0)?;
    let all: f64 = rows.iter().map(|row| row.faults as f64).sum();
    let [_, zero_reads] = bounds(rows, |kind| kind == Kind::ZeroPageRead);
    let [others, _] =
        bounds(rows, |kind| kind.is_fresh() && !may_be_fresh(kind) && kind != Kind::WriteAfterZeroRead);
    let [after_reads, _] = bounds(rows, |kind| kind == Kind::WriteAfterZeroRead);
    let [known, _] = bounds(rows, |kind| !kind.is_fresh());
    let [_, most] = bounds(rows, Kind::is_fresh);
    // Without an earlier read, such a write only regained its right: it took no page.
    let fewest = others + after_reads.min(zero_reads);
    let most = most.min(all - known);

    let peak = peaks(faults, observation, peak_pages, huge_pages, most);
    let there =
        observation.levels.iter().filter(|level| level.faults == 0).map(|level| level.anon_bytes).max();
    let highest = observation.levels.iter().max_by_key(|level| level.anon_bytes).copied().unwrap_or_default();
    // Upper bound of the faults of these kinds up to the highest reading.
    let until = |of: fn(Kind) -> bool| {
        let some = faults.iter().filter(|fault| fault.time_ns <= highest.time_ns && of(fault.kind));
        let add = |(sum, squares), fault: &Weighted| (sum + fault.faults, squares + fault.faults.powi(2));
        let (sum, squares) = some.fold((0.0, 0.0), add);
        sum + 2.0 * f64::sqrt(squares)
    };
    let huge = until(|kind| kind == Kind::Thp);
    let not_keepable =
        until(|kind| matches!(kind, Kind::BssFirstWrite | Kind::Stack | Kind::FilePrivateWrite));
    let grown = highest.anon_bytes.saturating_sub(there.unwrap_or(0)) as f64 / page;
    let seen = (grown - noise_pages(host.cpus) as f64 - not_keepable).max(0.0);
    // The fewest faults that make this many pages resident.
    let largest = host.mthp_bytes.iter().copied().max().map_or(1.0, |bytes| (bytes as f64 / page).max(1.0));
    let by_huge = (seen / huge_pages).min(huge);
    let least_peak = by_huge + (seen - by_huge * huge_pages).max(0.0) / largest;
    let share = |faults: f64| if all > 0.0 { (faults / all).clamp(0.0, 1.0) } else { 0.0 };
    let low = share(fewest - peak);
    Some([low, share(most - least_peak).max(low)])
}

/// Processes whose peak nobody read.
pub(super) fn unread(observation: &Observation) -> HashSet<u32> {
    let records = if observation.attached { &observation.records[..] } else { &[] };
    records.iter().filter(|record| record.begins_process()).map(|record| record.pid).collect()
}

/// The most faults that can have built up the peaks of all processes. Memory of one process does not serve
/// another.
fn peaks(faults: &[Weighted], observation: &Observation, peak_pages: f64, huge_pages: f64, most: f64) -> f64 {
    let mut programs: HashMap<u32, f64> = HashMap::new();
    let mut forks = 0;
    for record in &observation.records {
        match record.what {
            What::Exec => *programs.entry(record.pid).or_default() += 1.0,
            _ if record.begins_process() => forks += 1,
            _ => {}
        }
    }
    let unread = unread(observation);
    let mut taken: HashMap<(u32, bool), (f64, f64)> = HashMap::new();
    for fault in faults.iter().filter(|fault| fault.kind.is_fresh()) {
        let sums = taken.entry((fault.pid, fault.kind == Kind::Thp)).or_default();
        *sums = (sums.0 + fault.faults, sums.1 + fault.faults * fault.faults);
    }
    let most_of = |pid, is_huge| {
        let peaks = peak_pages * programs.get(&pid).copied().unwrap_or(0.0).max(1.0);
        if is_huge { peaks / huge_pages } else { peaks }
    };
    let Some(pid) = faults.first().map(|fault| fault.pid) else { return most };
    if forks == 0 && faults.iter().all(|fault| fault.pid == pid) {
        let huge = taken.get(&(pid, true)).map_or(0.0, |(faults, _)| faults.min(most_of(pid, true)));
        return huge + most_of(pid, false).min(most);
    }
    let scale = most / taken.values().map(|(faults, _)| faults).sum::<f64>().max(1.0);
    let seen = taken.keys().filter(|(_, is_huge)| !is_huge).count();
    let (mut peaks, mut variance, mut excess) = (0.0, 0.0, 0.0);
    let mut room = (forks + 1_usize).saturating_sub(seen) as f64 * peak_pages;
    for ((pid, is_huge), (faults, squares)) in taken {
        let faults = faults * scale.max(1.0);
        let is_unread = unread.contains(&pid);
        let most = if is_unread { faults } else { most_of(pid, is_huge) };
        peaks += faults.min(most);
        variance += if faults < most || is_unread { squares } else { 0.0 };
        excess += (faults - most).max(0.0);
        room += (most - faults).max(0.0);
    }
    // A recorded fault of one process stands for faults of others. So what is beyond a process's peak may have
    // built up the peaks of others, unless every fault is recorded.
    let is_complete = faults.iter().all(|fault| fault.faults <= 1.0);
    let of_others = if is_complete { 0.0 } else { f64::min(excess, room) };
    peaks + of_others + 2.0 * f64::sqrt(variance)
}

/// Whether a fault of this kind may or may not take a keepable page.
fn may_be_fresh(kind: Kind) -> bool {
    use Kind::{KernelMode, KernelOrPopulate, Populate, Unknown, Unplaced, UserUnknown};
    matches!(kind, KernelMode | KernelOrPopulate | Populate | Unknown | Unplaced | UserUnknown)
}

/// Least and most faults of some kinds together.
fn bounds(rows: &[KindRow], of: impl Fn(Kind) -> bool) -> [f64; 2] {
    let (mut sum, mut below, mut above) = (0.0, 0.0, 0.0);
    for row in rows.iter().filter(|row| of(row.kind)) {
        let faults = row.faults as f64;
        let (low, high) = row.interval.map_or((faults, faults), |(low, high)| (low as f64, high as f64));
        (sum, below, above) = (sum + faults, below + (faults - low).powi(2), above + (high - faults).powi(2));
    }
    [sum - f64::sqrt(below), sum + f64::sqrt(above)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Source;
    use crate::observation::{Counts, Host, Level, Record, Usage};

    const PAGE: u64 = 4096;

    fn row(kind: Kind, faults: u64) -> KindRow {
        KindRow::new(kind, faults, Source::Counted)
    }

    fn fault(pid: u32, kind: Kind, faults: f64) -> Weighted {
        Weighted { pid, tid: pid, kind, faults, ..Weighted::default() }
    }

    /// Read at these pages, with this peak.
    fn observed(pages: &[u64], peak_pages: u64) -> Observation {
        let level = |(n, pages): (usize, &u64)| Level {
            time_ns: n as u64,
            faults: 1 + n as u64,
            anon_bytes: pages * PAGE,
        };
        Observation {
            host: Host { page_bytes: PAGE, thp_bytes: 512 * PAGE, cpus: 1, ..Host::default() },
            usage: Usage { peak_rss_bytes: peak_pages * PAGE, ..Usage::default() },
            counts: Counts::default(),
            levels: pages.iter().enumerate().map(level).collect(),
            ..Observation::default()
        }
    }

    fn holds(truth: f64, [low, high]: [f64; 2], width: f64) {
        assert!(low <= truth && truth <= high && high - low <= width, "{truth} in {low} to {high}");
    }

    #[test]
    fn a_peak_that_readings_missed_is_in_the_bounds() {
        // 200 rounds of 200 pages. Two readings saw 40 and 120 of them.
        let rows = [row(Kind::MmapFirstWrite, 40_000), row(Kind::FileRead, 100)];
        let faults = [fault(1, Kind::MmapFirstWrite, 40_000.0)];
        holds(39_800.0 / 40_100.0, plateau(&rows, &faults, &observed(&[40, 120], 450)).unwrap(), 0.015);
    }

    #[test]
    fn huge_pages_and_base_pages_have_peaks_of_their_own() {
        let rows = [row(Kind::MmapFirstWrite, 40_000), row(Kind::Thp, 20), row(Kind::FileRead, 100)];
        let faults = [fault(1, Kind::MmapFirstWrite, 40_000.0), fault(1, Kind::Thp, 20.0)];
        holds(38_019.0 / 40_120.0, plateau(&rows, &faults, &observed(&[1500], 2400)).unwrap(), 0.07);
    }

    #[test]
    fn what_short_processes_held_is_not_known_and_one_does_not_serve_another() {
        let mut observation = observed(&[60], 400);
        let fork = |pid| Record { time_ns: 1, pid, tid: pid, what: What::Fork { parent: 1 } };
        observation.records = (2..12).map(fork).collect();
        let rows = [row(Kind::MmapFirstWrite, 600), row(Kind::FileRead, 1400)];
        let faults = Vec::from_iter((1..12).map(|pid| fault(pid, Kind::MmapFirstWrite, 600.0 / 11.0)));
        let [low, high] = plateau(&rows, &faults, &observation).unwrap();
        assert!(low == 0.0 && (0.28..=0.3).contains(&high), "{low} to {high}");
    }

    #[test]
    fn the_peak_of_a_server_does_not_count_for_the_children_it_forks() {
        // 20 children of 2048 pages each, of an idle server and of one that took 100 pages 300 times.
        let mut observation = Observation { attached: true, ..observed(&[60], 300) };
        let fork = |pid| Record { time_ns: 1, pid, tid: pid, what: What::Fork { parent: 1 } };
        observation.records = (2..22).map(fork).collect();
        let of_server = |own: u64| {
            let rows = [row(Kind::MmapFirstWrite, own + 20 * 2048)];
            let some = |pid, n: u64| (0..n / 16).map(move |_| fault(pid, Kind::MmapFirstWrite, 16.0));
            let faults = Vec::from_iter((2..22).flat_map(|pid| some(pid, 2048)).chain(some(1, own)));
            plateau(&rows, &faults, &observation).unwrap()
        };
        assert_eq!(of_server(32)[0], 0.0);
        let low = of_server(30_000)[0];
        assert!((0.38..29_900.0 / 70_960.0).contains(&low), "{low}");
    }

    #[test]
    fn each_of_several_processes_attached_to_has_a_peak() {
        let rows = [row(Kind::MmapFirstWrite, 800)];
        let faults = [1, 2].map(|pid| fault(pid, Kind::MmapFirstWrite, 400.0));
        let [low, _] = plateau(&rows, &faults, &observed(&[60], 400)).unwrap();
        assert_eq!(low, 0.0, "all was taken for the first time");
    }

    #[test]
    fn without_a_peak_nothing_is_known() {
        assert_eq!(plateau(&[row(Kind::MmapFirstWrite, 10)], &[], &observed(&[5], 0)), None);
    }
}
