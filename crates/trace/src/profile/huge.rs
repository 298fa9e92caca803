//! Faults of huge pages are few and expensive, so samples count them badly. The growth of memory and the machine's
//! count bound their number.
//!
//! In: faults with their weights, and the readings of memory. Out: weights that add up to the likely number of huge
//! pages, and bounds of it.
//!
//! The evidence must be the process's own: a recorded or sampled fault behind which a huge page was mapped, or
//! memory that grew by more than its faults and khugepaged can have brought. Without it there are none: the machine's
//! count is that of all programs.
//!
//! With evidence the machine's count is the maximum, and the number itself where memory shows four fifths of it. Memory
//! grows by a huge page per such fault, and by at most a page for each other fault. Growth beyond that between two
//! readings gives the minimum. If enough faults were seen between the readings, the share that takes a page is known,
//! which gives a better estimate.

use super::weigh::{Huge, Weights};
use crate::fault::{Fault, Faults};
use crate::kind::Kind;
use crate::levels;
use crate::observation::{Level, Observation};
use crate::tuning::{HUGE_SHOWN_SHARE, PRICED_FAULTS};

/// Adjusts the weights of huge-page faults. A program with evidence is assumed to have caused all of the machine's in
/// two cases: its memory shows most of them, or no growth was read, and samples allow all.
pub(super) fn settle(found: &Faults, weights: &mut Weights, observation: &Observation) {
    let Some(most) = observation.counts.huge_at_most.map(|most| most as f64) else { return };
    // Populated pages are counted without a user-mode fault; each may be a huge page. Where no event tells the modes, the
    // growth is all that is known. khugepaged brings memory without a fault.
    let counts = observation.counts;
    let known = counts.user_faults.map(|user| user.saturating_add(counts.before_exec_faults));
    let populated = known.map_or(0, |known| observation.usage.minor_faults.saturating_sub(known));
    let collapsed = counts.huge_collapsed.unwrap_or(0) as f64;
    let grown = grown(found, weights, observation).map(|grown| (grown - populated as f64).max(0.0));
    weights.collapsed = grown[0].min(collapsed);
    let [least, likely] = grown.map(|grown| (grown - collapsed).clamp(0.0, most));
    let (mut exact, mut given) = (0.0, [0.0; 2]);
    for (weight, fault) in weights.recorded.iter().zip(&found.faults).filter(|(_, f)| !f.kernel) {
        let huge = fault.kind == Kind::Thp;
        given[usize::from(huge)] += weight.extra;
        exact += if huge { weight.exact } else { 0.0 };
    }
    let (mut seen, mut squares) = (0.0, 0.0);
    let sampled = weights.samples.iter().zip(&found.samples).filter(|(_, (fault, _))| !fault.kernel);
    for (weight, (fault, _)) in sampled {
        let huge = fault.kind == Kind::Thp;
        given[usize::from(huge)] += weight;
        (seen, squares) = (seen + weight, squares + weight * weight);
    }
    let [others, estimate] = given;
    if exact + estimate + least <= 0.0 {
        return;
    }
    let [fewest, unseen] =
        if seen > 0.0 { bounds(estimate, squares / seen) } else { [0.0, others + estimate] };
    let unseen = unseen.min(others + estimate);
    let counted = exact + estimate;
    let all = if likely >= HUGE_SHOWN_SHARE * most {
        most
    } else if likely > 0.0 && likely >= exact + fewest {
        likely
    } else if likely <= 0.0 && counted > 0.0 && most <= exact + unseen {
        most
    } else {
        // Memory that was given back between two readings did not grow.
        counted
    };
    let all = all.min(most);
    let least = least.max(exact).min(most);
    weights.huge = Some(Huge { least, most: most.min(exact + unseen).max(all).max(least) });
    let left = (all - exact).max(0.0);
    if others + estimate <= left || others <= 0.0 && left < estimate {
        return;
    }
    let part = |new: f64, old: f64| if old > 0.0 { new / old } else { 1.0 };
    let scales = [part(others + estimate - left, others), part(left, estimate)];
    weights
        .scale(found, |fault| if fault.kernel { 1.0 } else { scales[usize::from(fault.kind == Kind::Thp)] });
    weights.huge_unseen = if estimate > 0.0 { 0.0 } else { left };
}

/// The fewest and the most faults that samples allow, if their estimate is `estimate` and each represents `each`: the
/// 95 % score interval of a Poisson count, times `each`.
fn bounds(estimate: f64, each: f64) -> [f64; 2] {
    const Z: f64 = 1.96;
    let number = if each > 0.0 { estimate / each } else { 0.0 };
    let (middle, half) = (number + Z * Z / 2.0, Z * (number + Z * Z / 4.0).sqrt());
    [middle - half, middle + half].map(|number| number * each)
}

/// Huge pages that memory grew by between readings, beyond the error of the readings: first beyond a page for
/// each fault, then beyond the pages that the other faults took. A fork brings memory without faults, so
/// readings around one say nothing.
fn grown(found: &Faults, weights: &Weights, observation: &Observation) -> [f64; 2] {
    let host = &observation.host;
    let (page, huge) = (host.page_bytes as f64, host.thp_bytes as f64);
    let step = huge - page;
    if step <= 0.0 {
        return [0.0; 2];
    }
    let seen = BasePageFaults::new(found, weights, host.page_bytes);
    let noise_bytes = levels::noise_pages(host.cpus) as f64 * page;
    let disturbed = levels::disturbed(&observation.levels, &levels::lifecycle(observation));
    let mut sums = [0.0; 2];
    for (pair, disturbed) in observation.levels.windows(2).zip(disturbed.iter().skip(1)) {
        let [Level { time_ns: from, .. }, Level { time_ns: to, .. }] = [pair[0], pair[1]];
        let faults = pair[1].faults.saturating_sub(pair[0].faults) as f64;
        let grown = pair[1].anon_bytes as f64 - pair[0].anon_bytes as f64;
        let (part, error) = seen.taking(from, to).unwrap_or((1.0, 0.0));
        let bounds = [(1.0, 0.0), (part, error)];
        for (sum, (part, error)) in sums.iter_mut().zip(bounds) {
            let beyond = grown - faults * part * page;
            if !disturbed && beyond > noise_bytes + faults * error * page {
                *sum += (beyond / step).round();
            }
        }
    }
    sums
}

/// Faults of base pages: time, weight, and whether it takes a page.
struct BasePageFaults(Vec<(u64, f64, bool)>);

impl BasePageFaults {
    fn new(found: &Faults, weights: &Weights, page_bytes: u64) -> Self {
        let recorded = found.faults.iter().zip(weights.recorded.iter().map(|weight| weight.faults()));
        let sampled = found.samples.iter().map(|(fault, _)| fault).zip(weights.samples.iter().copied());
        let of_base_pages = recorded
            .chain(sampled)
            .filter(|(fault, weight)| fault.kind != Kind::Thp && !fault.kernel && *weight > 0.0);
        let takes = |fault: &Fault| fault.kind.anonymous_bytes(page_bytes, page_bytes) > 0.0;
        let mut seen: Vec<_> =
            of_base_pages.map(|(fault, weight)| (fault.enter_ns, weight, takes(fault))).collect();
        seen.sort_by_key(|(time_ns, ..)| *time_ns);
        Self(seen)
    }

    /// Share of the faults in a span of time that take a page, and twice its standard error; `None` with too
    /// few faults.
    fn taking(&self, from_ns: u64, to_ns: u64) -> Option<(f64, f64)> {
        let at = |ns| self.0.partition_point(|(time_ns, ..)| *time_ns < ns);
        let seen = self.0.get(at(from_ns)..at(to_ns))?;
        if (seen.len() as u64) < PRICED_FAULTS {
            return None;
        }
        let all: f64 = seen.iter().map(|(_, weight, _)| weight).sum();
        let squares: f64 = seen.iter().map(|(_, weight, _)| weight * weight).sum();
        let part = seen.iter().filter(|(.., takes)| *takes).map(|(_, weight, _)| weight).sum::<f64>() / all;
        // Kish's effective number: samples represent more faults than recorded faults do.
        Some((part, 2.0 * (part * (1.0 - part) * squares / (all * all)).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Counts, Host};

    const PAGE: u64 = 4096;
    const HUGE: u64 = 2 << 20;

    /// A hundred faults, each tenth one a sample; memory grows by a page for each, and by `huge` huge pages.
    fn run(huge: u64, at_most: u64, seen: usize) -> (Faults, Weights, Observation) {
        let mut found = Faults::default();
        for n in 0..100 {
            let kind = if n < seen { Kind::Thp } else { Kind::MmapFirstWrite };
            found.samples.push((Fault::timed(kind, n as u64, 1000), 10));
        }
        let level = |faults, anon_bytes| Level { time_ns: faults, faults, anon_bytes };
        let observation = Observation {
            host: Host { page_bytes: PAGE, thp_bytes: HUGE, ..Host::default() },
            counts: Counts { huge_at_most: Some(at_most), ..Counts::default() },
            levels: vec![level(0, 0), level(1000, 1000 * PAGE + huge * (HUGE - PAGE))],
            ..Observation::default()
        };
        (found, Weights { samples: vec![10.0; 100], ..Weights::default() }, observation)
    }

    fn huge_faults(grown: u64, at_most: u64, seen: usize) -> f64 {
        let (found, mut weights, observation) = run(grown, at_most, seen);
        settle(&found, &mut weights, &observation);
        let thp =
            weights.samples.iter().zip(&found.samples).filter(|(_, (fault, _))| fault.kind == Kind::Thp);
        let all: f64 = weights.samples.iter().sum::<f64>() + weights.huge_unseen;
        assert!((all - 1000.0).abs() < 1e-6, "{all}");
        thp.map(|(weight, _)| weight).sum::<f64>() + weights.huge_unseen
    }

    #[test]
    fn without_evidence_of_its_own_a_program_has_none_of_the_machines() {
        let bounds = |collapsed, grown, seen| {
            let (found, mut weights, mut observation) = run(grown, 500, seen);
            observation.counts.huge_collapsed = Some(collapsed);
            settle(&found, &mut weights, &observation);
            weights.huge.map(|huge| (huge.least, huge.most.round()))
        };
        assert_eq!(bounds(0, 0, 0), None);
        assert_eq!(bounds(0, 15, 0), Some((15.0, 38.0)), "none of a hundred samples, one for ten");
        assert_eq!(bounds(20, 15, 0), None, "khugepaged's");
        assert_eq!(bounds(20, 15, 1), Some((0.0, 57.0)));
    }

    #[test]
    fn faults_of_huge_pages_lie_between_what_memory_grew_by_and_what_the_machine_had() {
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-6, "{found} for {wanted}");
        near(huge_faults(0, 500, 3), 30.0);
        near(huge_faults(0, 12, 3), 12.0);
        near(huge_faults(50, 500, 3), 50.0);
        near(huge_faults(17, 20, 0), 20.0);
        near(huge_faults(30, 100, 1), 30.0);
        near(huge_faults(1, 500, 50), 500.0);
        near(huge_faults(15, 61, 0), 15.0);
        near(huge_faults(15, 0, 0), 0.0);
        near(huge_faults(1, 500, 0), 1.0);
        near(huge_faults(0, 500, 100), 1000.0);
        near(huge_faults(0, 3, 100), 1000.0);
    }
}
