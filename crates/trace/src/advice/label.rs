//! The intervals of an arm -> its standing, and a phrase for readers. Only printed figures and the thresholds
//! that the phrase names decide.

use super::{Score, Standing};
use crate::measurement::{Interval, Percent};
use crate::tuning::{FEWER_FAULTS, MAX_LOSS, MIN_GAIN, SAME_MEMORY};

/// The effect that an interval of a ratio of times shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Less,
    PerhapsLittleLess,
    Same,
    NotCertain,
    PerhapsLittleMore,
    More,
}

impl Effect {
    /// Rounds the ends to three decimals first, as they are printed.
    fn of(ratio: &Interval) -> Self {
        let printed = |end: f64| (end * 1000.0).round();
        let (low, high) = (printed(ratio.low), printed(ratio.high));
        let (gain, loss) = (printed(1.0 - MIN_GAIN), printed(1.0 + MAX_LOSS));
        if high < gain {
            Self::Less
        } else if high < 1000.0 {
            Self::PerhapsLittleLess
        } else if low > loss {
            Self::More
        } else if low > 1000.0 {
            Self::PerhapsLittleMore
        } else if low >= gain && high <= loss {
            Self::Same
        } else {
            Self::NotCertain
        }
    }

    fn words(self, ratio: &Interval, what: &str, less: &str, more: &str) -> String {
        match self {
            Self::Less => less.into(),
            Self::More => more.into(),
            Self::PerhapsLittleLess => {
                format!("{less}, but perhaps by less than the {} that count", Percent(MIN_GAIN))
            }
            Self::PerhapsLittleMore => {
                format!("{more}, but perhaps by less than the {} that count", Percent(MAX_LOSS))
            }
            Self::Same => format!("{what}no difference that counts ({})", between(ratio)),
            Self::NotCertain if ratio.high == f64::MAX => {
                format!("{what}not certain (one round has no interval)")
            }
            Self::NotCertain => format!("{what}not certain ({})", between(ratio)),
        }
    }
}

/// The standing of `score` compared with the baseline, and the label that gives the reason.
pub(super) fn judged(
    score: &Score,
    base: &Score,
    differs: bool,
    max_rss_increase: f64,
) -> (Standing, String) {
    if differs {
        return (Standing::Differs, "not compared: it ends or prints differently".into());
    }
    let (Some(wall), Some(cpu)) = (&score.wall, &score.cpu) else {
        return (Standing::NotJudged, "not judged: no round was finished".into());
    };
    let changes = [Effect::of(wall), Effect::of(cpu)];
    let words = words(wall, cpu);
    let any = |change| changes.contains(&change);
    let gains = any(Effect::Less) || any(Effect::PerhapsLittleLess);
    let more_memory = score.peak_rss_bytes / base.peak_rss_bytes - 1.0;
    if any(Effect::More) {
        let why = if gains {
            format!("; not recommended: {} more of either time rules it out", Percent(MAX_LOSS))
        } else {
            String::new()
        };
        return (Standing::Hurts, words + &why);
    }
    if gains && score.faults.value >= base.faults.value * (1.0 - FEWER_FAULTS) {
        let why = format!("; not counted: it takes away less than {} of the faults", Percent(FEWER_FAULTS));
        return (Standing::SameFaults, words + &why);
    }
    if gains && more_memory > max_rss_increase + SAME_MEMORY {
        let (more, allowed) = (Percent(more_memory), Percent(max_rss_increase));
        let why = format!("; not recommended: {more} more memory, {allowed} are allowed");
        return (Standing::TooMuchMemory, words + &why);
    }
    let standing = if any(Effect::Less) {
        Standing::Helps
    } else if any(Effect::PerhapsLittleMore) {
        Standing::SmallLoss
    } else if any(Effect::PerhapsLittleLess) {
        Standing::SmallGain
    } else if any(Effect::NotCertain) {
        Standing::NotCertain
    } else {
        Standing::NoDifference
    };
    (standing, words)
}

/// One phrase if both times agree, else one for each.
fn words(wall: &Interval, cpu: &Interval) -> String {
    let [of_wall, of_cpu] = [wall, cpu].map(Effect::of);
    if of_wall == of_cpu {
        return of_wall.words(wall, "", "faster", "slower");
    }
    let elapsed = of_wall.words(wall, "elapsed time ", "faster", "slower");
    elapsed + "; " + &of_cpu.words(cpu, "CPU time ", "less CPU time", "more CPU time")
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
    use super::super::{Arm, Score, Standing};
    use super::*;

    /// An arm with these intervals, as a share of the baseline's faults and memory.
    fn score(wall: (f64, f64), cpu: (f64, f64), faults: f64, memory: f64) -> Score {
        let ratio = |(low, high): (f64, f64)| Some(Interval { value: f64::midpoint(low, high), low, high });
        Score {
            arm: Arm { name: "pool".into(), what: String::new(), adopt: String::new() },
            wall_ns: 1e9,
            cpu_ns: 1e9,
            faults: Interval { value: 1000.0 * faults, low: 0.0, high: 0.0 },
            fault_time: None,
            peak_rss_bytes: 1e9 * memory,
            wall: ratio(wall),
            cpu: ratio(cpu),
            beside_fastest: None,
            standing: Standing::NotJudged,
            label: String::new(),
            runs: Vec::new(),
        }
    }

    fn said(score: &Score) -> (Standing, String) {
        judged(score, &self::score((1.0, 1.0), (1.0, 1.0), 1.0, 1.0), false, 0.5)
    }

    #[test]
    fn the_label_follows_the_intervals_and_names_the_threshold_that_decides() {
        use Standing::*;
        let little = "faster, but perhaps by less than the 2.0 % that count";
        let unsure = "not certain (between 8.0 % less and 12 % more time)";
        let level = "no difference that counts (between 1.5 % less and 0.4 % more time)";
        for (wall, cpu, standing, label) in [
            // Excludes 1 by much, by little, and at the threshold as printed.
            ((0.2, 0.3), (0.2, 0.3), Helps, "faster"),
            ((0.9, 0.9794), (0.9, 0.9794), Helps, "faster"),
            ((0.9, 0.9796), (0.9, 0.9796), SmallGain, little),
            ((0.918, 0.988), (0.918, 0.988), SmallGain, little),
            ((0.95, 0.9994), (0.95, 0.9994), SmallGain, little),
            // Contains 1: narrow, wide.
            ((0.95, 0.9996), (0.95, 0.9996), NotCertain, "not certain (between <0.1 % and 5.0 % less time)"),
            ((0.985, 1.004), (0.985, 1.004), NoDifference, level),
            ((0.92, 1.12), (0.92, 1.12), NotCertain, unsure),
            ((0.92, 1.12), (0.5, 2.0), NotCertain, unsure),
            ((0.0, f64::MAX), (0.0, f64::MAX), NotCertain, "not certain (one round has no interval)"),
            // Losses.
            ((1.001, 1.1), (1.001, 1.1), SmallLoss, "slower, but perhaps by less than the 3.0 % that count"),
            ((1.04, 1.1), (1.04, 1.1), Hurts, "slower"),
            // The two times disagree.
            (
                (0.5, 0.6),
                (0.918, 0.988),
                Helps,
                "faster; less CPU time, but perhaps by less than the 2.0 % that count",
            ),
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
            (
                (0.918, 0.988),
                (1.001, 1.1),
                SmallLoss,
                &format!("{little}; more CPU time, but perhaps by less than the 3.0 % that count"),
            ),
        ] {
            assert_eq!(said(&score(wall, cpu, 0.1, 1.0)), (standing, label.to_owned()), "{wall:?} {cpu:?}");
        }
    }

    #[test]
    fn what_keeps_a_gain_from_being_recommended_is_said() {
        let fast = (0.5, 0.6);
        let (standing, label) = said(&score(fast, fast, 0.96, 1.0));
        assert_eq!(standing, Standing::SameFaults);
        assert_eq!(label, "faster; not counted: it takes away less than 5.0 % of the faults");
        let (standing, label) = said(&score(fast, fast, 0.1, 1.62));
        assert_eq!(standing, Standing::TooMuchMemory);
        assert_eq!(label, "faster; not recommended: 62 % more memory, 50 % are allowed");
        assert_eq!(said(&score((0.92, 1.12), (0.92, 1.12), 1.0, 9.0)).0, Standing::NotCertain);
    }

    #[test]
    fn an_arm_without_rounds_or_with_other_output_is_not_judged() {
        let mut none = score((1.0, 1.0), (1.0, 1.0), 1.0, 1.0);
        let differs = judged(&none, &none, true, 0.5);
        assert_eq!(differs, (Standing::Differs, "not compared: it ends or prints differently".into()));
        (none.wall, none.cpu) = (None, None);
        assert_eq!(said(&none), (Standing::NotJudged, "not judged: no round was finished".into()));
    }
}
