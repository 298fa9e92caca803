//! The cures that help -> the fastest, the cures level with it, and the one to recommend.
//!
//! Intervals against the baseline say little about two cures against each other. So cures are compared in
//! pairs, round by round. Among level cures the choice follows a fixed order, so that the next invocation
//! chooses alike.

use super::label::between;
use super::{Score, Standing};
use crate::measurement::{Count, Interval, Percent, paired_estimate, paired_interval};
use crate::rounds::{Run, ratio};
use crate::tuning::{ADVISE_ERROR, FALSELY_SLOWER, MIN_GAIN, WORTHWHILE_BYTES, WORTHWHILE_SHARE};

/// The winner, all cures level with the fastest, and the reason for the choice if there are several. Adds to
/// the label of each other cure how it compares with the fastest.
pub(super) fn choose(scores: &mut [Score]) -> (Option<usize>, Vec<usize>, Option<String>) {
    let level = level(scores);
    let Some((winner, why)) = cheapest(scores, &level) else {
        return (None, level, None);
    };
    let names: Vec<&str> = level.iter().map(|&index| scores[index].arm.name.as_str()).collect();
    let choice = (level.len() > 1).then(|| {
        let number = ["two", "three", "four", "five", "six"].get(level.len() - 2).copied().unwrap_or("cures");
        format!(
            "these {number} are level: {}. Recommended: {}, {why}",
            names.join("; "),
            scores[winner].arm.name
        )
    });
    (Some(winner), level, choice)
}

/// The fastest of the cures that help, and the cures level with it; empty if nothing helps.
fn level(scores: &mut [Score]) -> Vec<usize> {
    let helps = |&index: &usize| scores[index].standing == Some(Standing::Helps);
    let (mut level, dropped): (Vec<usize>, Vec<usize>) =
        (0..scores.len()).filter(helps).partition(|&index| scores[index].dropped_after.is_none());
    // What one had been faster than may have been the better one after all.
    if level.is_empty() {
        level.clone_from(&dropped);
    }
    let walls: Vec<Vec<f64>> = scores.iter().map(|score| score.figures.column(|run| run.wall_ns)).collect();
    let faster = |a: usize, b: usize| if paired_estimate(&walls[b], &walls[a]) < 1.0 { b } else { a };
    let Some(fastest) = level.iter().copied().reduce(faster) else { return Vec::new() };
    // The same rounds also decide which cure is the fastest, so the error is divided among all pairs.
    let pairs = level.len() * (level.len() - 1) / 2;
    let error = FALSELY_SLOWER / pairs.max(1) as f64;
    let (name, wall) = (scores[fastest].arm.name.clone(), scores[fastest].figures.wall_ns.ratio);
    for index in dropped.into_iter().filter(|index| !level.contains(index)) {
        let score = &mut scores[index];
        score.label =
            score.label.replace("; dropped", &format!("; slower than {name} in its rounds; dropped"));
    }
    level.retain(|&index| {
        let score = &mut scores[index];
        if index == fastest {
            return true;
        }
        let overlap = score.figures.wall_ns.ratio.zip(wall).is_none_or(|(own, best)| own.low <= best.high);
        score.beside_fastest = paired_interval(&walls[index], &walls[fastest], error);
        let (is_level, words) = compared(score.beside_fastest, overlap, score.figures.runs.len());
        let relation = if is_level { "level with" } else { "slower than" };
        score.label += &format!("; {relation} {name} ({words})");
        is_level
    });
    level
}

/// Whether a cure is level with the fastest, and why. `overlap`: their printed intervals overlap.
fn compared(beside: Option<Interval>, overlap: bool, rounds: usize) -> (bool, String) {
    match beside {
        Some(ratio) if ratio.low > 1.0 && ratio.value > 1.0 + MIN_GAIN => (false, between(&ratio)),
        Some(ratio) if ratio.low > 1.0 => {
            (true, format!("slower by less than the {} that count, {}", Percent(MIN_GAIN), between(&ratio)))
        }
        _ if !overlap => (false, "their intervals do not overlap".into()),
        Some(ratio) => (true, between(&ratio)),
        None => (true, format!("{} too few to tell them apart", Count(rounds as u64).are("round"))),
    }
}

/// The first of `level` that no other beats by CPU time, then by memory, each by a margin beyond noise.
fn cheapest(scores: &[Score], level: &[usize]) -> Option<(usize, &'static str)> {
    let less = |of: fn(&Run) -> u64, a: usize, b: usize| {
        let [a, b] = [a, b].map(|index| scores[index].figures.column(of));
        ratio(&a, &b, ADVISE_ERROR).is_some_and(|ratio| ratio.high < 1.0 - WORTHWHILE_SHARE)
    };
    let rss = |index: usize| scores[index].figures.peak_rss_bytes.median.value;
    let less_cpu = |a, b| less(|run| run.cpu_ns, a, b);
    let less_memory = |a, b| rss(b) - rss(a) > WORTHWHILE_BYTES && less(|run| run.peak_rss_bytes, a, b);
    let unbeaten = |among: &[usize], beats: &dyn Fn(usize, usize) -> bool| {
        let free = |&&b: &&usize| !among.iter().any(|&a| beats(a, b));
        let left: Vec<usize> = among.iter().filter(free).copied().collect();
        if left.is_empty() { among.to_vec() } else { left }
    };
    let by_cpu = unbeaten(level, &less_cpu);
    let by_memory = unbeaten(&by_cpu, &less_memory);
    let winner = *by_memory.first()?;
    let why = match winner {
        _ if winner == level[0] => "the simplest to apply",
        _ if winner == by_cpu[0] => "which takes less CPU time",
        _ => "which takes less memory",
    };
    Some((winner, why))
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::tests::{series, terms};
    use crate::observation::Host;

    #[test]
    fn differences_below_what_counts_are_level_however_certain() {
        let exact = |name, ms: u64| series(name, &[ms; 12], 20);
        let all = vec![exact("as it is", 1000), exact("a", 505), exact("b", 500)];
        let advice = judge(vec![], Host::default(), all, &terms()).unwrap();
        assert_eq!((advice.winner, &advice.level[..]), (Some(1), &[1, 2][..]));
        assert!(advice.scores[1].label.contains("level with b (slower by less than the 2.0 % that count"));
    }

    #[test]
    fn of_level_cures_cpu_time_decides_then_memory_then_the_order() {
        let fast = [50, 51, 49, 50, 52, 50, 51, 49];
        let rival = [51, 50, 50, 49, 52, 51, 50, 50];
        let chosen = |cpu: u64, rss: u64| {
            let mut second = series("b", &fast, rss);
            second.runs.iter_mut().for_each(|run| run.cpu_ns = run.cpu_ns * cpu / 100);
            let all = vec![series("as it is", &[100; 8], 400), series("a", &rival, 500), second];
            let advice = judge(vec![], Host::default(), all, &terms()).unwrap();
            (advice.winner.unwrap(), advice.choice.unwrap())
        };
        let same = "these two are level: a; b. Recommended: ";
        assert_eq!(chosen(100, 500), (1, format!("{same}a, the simplest to apply")));
        assert_eq!(chosen(100, 420), (2, format!("{same}b, which takes less memory")));
        assert_eq!(chosen(80, 500), (2, format!("{same}b, which takes less CPU time")));
        assert_eq!(chosen(120, 420).0, 1);
    }
}
