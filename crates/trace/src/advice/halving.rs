//! The rounds so far -> the arms that can't win any more.
//!
//! Successive halving (Jamieson & Talwalkar 2016), but on evidence: of the arms that an interval or a count rules out, at
//! most the worse half goes at a time. The baseline always stays.

use super::{Reason, Score, Standing, Terms, scores};
use crate::measurement::paired_estimate;
use crate::rounds::{Series, ratio};
use crate::tuning::{ADVISE_ERROR, FEWER_FAULTS, MIN_GAIN};

/// The arms among `left`, of which the first is the baseline, that can't win any more. Before the first round: those that
/// end or print otherwise in the warm-up, and those that take away hardly any faults there, though they act on faults alone.
/// Later: those that do so in the rounds, and of the others the worst, at most half of all.
pub fn losers(series: &[Series], left: &[usize], terms: &Terms) -> Vec<usize> {
    let scores = scores(series, terms);
    let cures = || left.iter().copied().filter(|&arm| arm > 0);
    let (mut broken, sound): (Vec<usize>, Vec<usize>) =
        cures().partition(|&arm| scores[arm].reason == Some(Reason::Differs));
    if series.first().is_none_or(|base| base.runs.is_empty()) {
        let is_idle = |&arm: &usize| {
            let faults = |arm: usize| scores[arm].figures.faults.median.value;
            // Half of what counts: the number varies a little.
            !terms.expected(arm).is_beyond_faults && faults(arm) >= (1.0 - FEWER_FAULTS / 2.0) * faults(0)
        };
        broken.extend(sound.into_iter().filter(is_idle));
        return broken;
    }
    let walls: Vec<Vec<f64>> = series.iter().map(|arm| arm.column(|run| run.wall_ns)).collect();
    let helping = sound.iter().copied().filter(|&arm| scores[arm].standing == Some(Standing::Helps));
    let fastest = helping.reduce(|a, b| if paired_estimate(&walls[b], &walls[a]) < 1.0 { b } else { a });
    let is_slower = |arm: usize| {
        let beside = fastest.and_then(|best| ratio(&walls[arm], &walls[best], ADVISE_ERROR));
        beside.is_some_and(|beside| beside.low > 1.0 && beside.value > 1.0 + MIN_GAIN)
    };
    let is_lost = |score: &Score, arm: usize| match score.standing {
        Some(Standing::Hurts | Standing::NoDifference) => true,
        // A few rounds can't tell yet whether its gain comes from chance.
        Some(Standing::NotComparable) if score.reason == Some(Reason::SameFaults) => {
            !terms.expected(arm).is_beyond_faults
        }
        Some(Standing::NotComparable) => true,
        _ => is_slower(arm),
    };
    let mut lost: Vec<usize> = sound.iter().copied().filter(|&arm| is_lost(&scores[arm], arm)).collect();
    let worst = |&arm: &usize| scores[arm].figures.wall_ns.ratio.map_or(f64::MAX, |ratio| ratio.value);
    lost.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
    lost.truncate(cures().count().div_ceil(2).saturating_sub(broken.len()));
    broken.extend(lost);
    broken
}

#[cfg(test)]
mod tests {
    use super::super::tests::{series, terms};
    use super::super::{Expected, Terms};
    use super::*;

    const BASE: [u64; 4] = [100, 104, 99, 101];

    fn arm(name: &str, percent: u64) -> Series {
        series(name, &BASE.map(|ms| ms * percent / 100), 20)
    }

    #[test]
    fn what_an_interval_rules_out_goes_the_worse_half_first_and_the_rest_stays() {
        let unsure = series("unsure", &[60, 130, 90, 99], 20);
        let all = vec![
            arm("as it is", 100),
            arm("best", 30),
            series("rival", &[32, 30, 31, 30], 20),
            arm("slow", 60),
            arm("slower", 80),
            arm("worst", 120),
            unsure,
        ];
        let dropped = |left: &[usize]| losers(&all, left, &terms());
        assert_eq!(dropped(&[0, 1, 2, 3, 4, 5, 6]), [5, 6, 4], "three of six");
        assert_eq!(dropped(&[0, 1, 2, 3]), [3]);
        assert_eq!(dropped(&[0, 1, 2]), [0; 0], "30 and 31 % differ by chance");
        assert_eq!(losers(&[all[0].clone(), all[6].clone()], &[0, 1], &terms()), [0; 0]);
    }

    #[test]
    fn the_warm_up_drops_what_breaks_the_program_and_what_leaves_its_faults() {
        let mut all = vec![arm("as it is", 100), arm("acts", 50), arm("idle", 50), arm("other", 50)];
        all[2].warm_up.faults = 990;
        all[3].warm_up.stdout_hash = 9;
        all.iter_mut().for_each(|arm| arm.runs.clear());
        assert_eq!(losers(&all, &[0, 1, 2, 3], &terms()), [3, 2]);
        let expected = Expected { is_beyond_faults: true, saves_ns: None };
        let waits = Terms { expected: vec![expected; 4], any_output: true, ..terms() };
        assert_eq!(losers(&all, &[0, 1, 2, 3], &waits), [0; 0]);
    }

    #[test]
    fn an_arm_that_takes_too_much_memory_goes_however_fast() {
        let all = vec![arm("as it is", 100), series("greedy", &[20; 4], 99), arm("modest", 50)];
        assert_eq!(losers(&all, &[0, 1, 2], &terms()), [1]);
    }
}
