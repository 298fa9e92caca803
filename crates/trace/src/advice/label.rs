//! The ratios of an arm -> its standing, and a phrase for readers. Only printed figures and the thresholds
//! that the phrase names decide.

use super::{Reason, Score, Standing};
use crate::measurement::{Count, Interval, Percent};
use crate::rounds::{Difference, Figures, Mismatch};
use crate::tuning::{FEWER_FAULTS, MAX_LOSS, SAME_MEMORY, SLOWER_AFTER_PAUSE};

/// What became of an arm, why it is not comparable, and the label.
type Judged = (Option<Standing>, Option<Reason>, String);

/// Gives an arm its standing beside the baseline, and the label with the reason and the rounds after which it was dropped.
/// `is_sure`: its gain is none of chance, whatever its faults.
pub(super) fn judge(score: &mut Score, base: &Figures, max_rss_increase: f64, is_sure: bool) {
    let (standing, reason, mut label) = judged(&score.figures, base, max_rss_increase, is_sure);
    (score.standing, score.reason) = (standing, reason);
    match score.dropped_after {
        None => {}
        Some(0) if reason == Some(Reason::NotJudged) => {
            score.reason = Some(Reason::SameFaults);
            label = "it takes away hardly any faults; dropped after the warm-up".to_owned();
        }
        Some(0) => label += "; dropped after the warm-up",
        Some(rounds) => label += &format!("; dropped after {}", Count(u64::from(rounds)).of("round")),
    }
    score.label = label;
}

/// Adds what runs after a pause say, if there were some.
pub(super) fn after_pause(score: &mut Score) {
    let Some(ratio) = score.after_pause else { return };
    let is_lost = ratio > SLOWER_AFTER_PAUSE && score.standing == Some(Standing::Helps);
    if is_lost {
        (score.standing, score.reason) = (Some(Standing::NotComparable), Some(Reason::OnlyWarm));
    }
    let so = if is_lost { "not recommended: " } else { "" };
    score.label += &format!("; {so}after a pause, {ratio:.2} times as long as unchanged");
}

fn judged(arm: &Figures, base: &Figures, max_rss_increase: f64, is_sure: bool) -> Judged {
    let not_comparable = |reason, label| (Some(Standing::NotComparable), Some(reason), label);
    if let Some(Mismatch { runs, exit }) = arm.mismatch {
        let did = exit.map_or("printed something else".into(), |exit| format!("ended with {exit}"));
        let label = format!("not compared: {runs} of {} {did}", Count(arm.runs.len() as u64).of("run"));
        return not_comparable(Reason::Differs, label);
    }
    let (Some(wall), Some(cpu)) = (&arm.wall_ns.ratio, &arm.cpu_ns.ratio) else {
        return not_comparable(Reason::NotJudged, "not judged: no round was finished".into());
    };
    let changes = [wall, cpu].map(Difference::that_counts);
    let words = words(wall, cpu);
    let any = |change| changes.contains(&change);
    let (gains, loses) = (any(Difference::Less), any(Difference::More));
    let faults = arm.faults.median.value / base.faults.median.value;
    let more_memory = arm.peak_rss_bytes.median.value / base.peak_rss_bytes.median.value - 1.0;
    let standing = if gains && loses {
        let why = format!("; not recommended: {} more of either time rules it out", Percent(MAX_LOSS));
        return (Some(Standing::Hurts), None, words + &why);
    } else if loses {
        Standing::Hurts
    } else if gains && faults >= 1.0 - FEWER_FAULTS && !is_sure {
        let why = format!("; not counted: it takes away less than {} of the faults", Percent(FEWER_FAULTS));
        return not_comparable(Reason::SameFaults, words + &why);
    } else if gains && more_memory > max_rss_increase + SAME_MEMORY {
        let (more, allowed) = (Percent(more_memory), Percent(max_rss_increase));
        let why = format!("; not recommended: {more} more memory, {allowed} are allowed");
        return not_comparable(Reason::TooMuchMemory, words + &why);
    } else if gains {
        Standing::Helps
    } else if any(Difference::NotCertain) {
        Standing::NotCertain
    } else {
        Standing::NoDifference
    };
    (Some(standing), None, words)
}

/// One phrase if both times agree, else one for each.
fn words(wall: &Interval, cpu: &Interval) -> String {
    let of = |ratio: &Interval, what: &str, less: &str, more: &str| match Difference::that_counts(ratio) {
        Difference::Less => less.into(),
        Difference::More => more.into(),
        Difference::None => format!("{what}no difference that counts ({})", between(ratio)),
        Difference::NotCertain if ratio.high == f64::MAX => {
            format!("{what}not certain (one round has no interval)")
        }
        Difference::NotCertain => format!("{what}not certain ({})", between(ratio)),
    };
    if Difference::that_counts(wall) == Difference::that_counts(cpu) {
        return of(wall, "", "faster", "slower");
    }
    let elapsed = of(wall, "elapsed time ", "faster", "slower");
    elapsed + "; " + &of(cpu, "CPU time ", "less CPU time", "more CPU time")
}

/// `between 8.2 % less and 12 % more time`.
pub(super) fn between(ratio: &Interval) -> String {
    let Interval { low, high, .. } = *ratio;
    if high < 1.0 {
        format!("between {} and {} less time", Percent(1.0 - high), Percent(1.0 - low))
    } else if low > 1.0 {
        format!("between {} and {} more time", Percent(low - 1.0), Percent(high - 1.0))
    } else {
        format!("between {} less and {} more time", Percent(1.0 - low), Percent(high - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Quantity;

    /// An arm with these ratios of its times, and a share of the baseline's faults and memory.
    fn arm(wall: (f64, f64), cpu: (f64, f64), faults: f64, memory: f64) -> Figures {
        let ratio = |(low, high): (f64, f64)| Quantity {
            ratio: Some(Interval { value: f64::midpoint(low, high), low, high }),
            ..Quantity::default()
        };
        let median =
            |value| Quantity { median: Interval { value, low: value, high: value }, ..Quantity::default() };
        let (faults, peak_rss_bytes) = (median(1000.0 * faults), median(1e9 * memory));
        Figures { wall_ns: ratio(wall), cpu_ns: ratio(cpu), faults, peak_rss_bytes, ..Figures::default() }
    }

    fn said(figures: &Figures) -> Judged {
        judged(figures, &arm((1.0, 1.0), (1.0, 1.0), 1.0, 1.0), 0.5, false)
    }

    #[test]
    fn the_label_follows_the_intervals_and_names_the_threshold_that_decides() {
        use Standing::*;
        let unsure = "not certain (between 8.0 % less and 12 % more time)";
        let level = "no difference that counts (between 1.5 % less and 0.4 % more time)";
        for (wall, cpu, standing, label) in [
            // Excludes 1 by much, by little, and at the threshold as printed.
            ((0.2, 0.3), (0.2, 0.3), Helps, "faster"),
            ((0.9, 0.9794), (0.9, 0.9794), Helps, "faster"),
            ((0.9, 0.9796), (0.9, 0.9796), NotCertain, "not certain (between 2.0 % and 10 % less time)"),
            ((0.95, 0.9996), (0.95, 0.9996), NotCertain, "not certain (between <0.1 % and 5.0 % less time)"),
            (
                (0.982, 0.99),
                (0.982, 0.99),
                NoDifference,
                "no difference that counts (between 1.0 % and 1.8 % less time)",
            ),
            // Contains 1: narrow, wide.
            ((0.985, 1.004), (0.985, 1.004), NoDifference, level),
            ((0.92, 1.12), (0.92, 1.12), NotCertain, unsure),
            ((0.92, 1.12), (0.5, 2.0), NotCertain, unsure),
            ((0.0, f64::MAX), (0.0, f64::MAX), NotCertain, "not certain (one round has no interval)"),
            // Losses.
            ((1.002, 1.1), (1.002, 1.1), NotCertain, "not certain (between 0.2 % and 10 % more time)"),
            ((1.04, 1.1), (1.04, 1.1), Hurts, "slower"),
            // The two times disagree.
            (
                (0.5, 0.6),
                (0.92, 1.12),
                Helps,
                "faster; CPU time not certain (between 8.0 % less and 12 % more time)",
            ),
            ((0.92, 1.12), (0.5, 0.6), Helps, &format!("elapsed time {unsure}; less CPU time")),
            (
                (0.5, 0.6),
                (1.1, 1.2),
                Hurts,
                "faster; more CPU time; not recommended: 3.0 % more of either time rules it out",
            ),
            ((0.985, 1.004), (1.1, 1.2), Hurts, &format!("elapsed time {level}; more CPU time")),
        ] {
            let judged = (Some(standing), None, label.to_owned());
            assert_eq!(said(&arm(wall, cpu, 0.1, 1.0)), judged, "{wall:?} {cpu:?}");
        }
    }

    #[test]
    fn what_keeps_a_gain_from_being_recommended_is_said() {
        let (fast, unsure) = ((0.5, 0.6), (0.92, 1.12));
        let (_, reason, label) = said(&arm(fast, fast, 0.96, 1.0));
        assert_eq!(reason, Some(Reason::SameFaults));
        assert_eq!(label, "faster; not counted: it takes away less than 5.0 % of the faults");
        let (_, reason, label) = said(&arm(fast, fast, 0.1, 1.62));
        assert_eq!(reason, Some(Reason::TooMuchMemory));
        assert_eq!(label, "faster; not recommended: 62 % more memory, 50 % are allowed");
        assert_eq!(said(&arm(unsure, unsure, 1.0, 9.0)).0, Some(Standing::NotCertain));
    }
}
