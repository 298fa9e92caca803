//! Counts of rows and the exact count of the whole -> counts of rows that agree with the whole.
//!
//! Samples assign faults to rows, coarsely; the total was counted. If the whole has grown by 2000, some row
//! has grown, and samples mostly leave one candidate only. All other rows are assumed unchanged. So the named
//! rows have to add up to the exact difference, and their interval is the possible change of the others.
//!
//! In: differences of all rows with their variances. Out: the same, adjusted for the judgement. The row shown
//! keeps its own samples; [`super::DiffRow::explains`] stands beside them.

use crate::tuning::DIFF_RIVAL_ODDS;

/// A count before and after.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountChange {
    pub(super) before: f64,
    pub(super) after: f64,
    /// Sampling variances of both.
    pub(super) seen: [f64; 2],
    /// Variance of the difference from run to run.
    pub(super) own: f64,
    /// Variance of faults that may have moved here from other rows, or there. They change no sum.
    pub(super) moved: f64,
    /// For a row on one side only: the least faults that are certain; else 0.
    pub(super) certain: f64,
}

impl CountChange {
    pub(super) fn difference(&self) -> f64 {
        self.after - self.before
    }

    /// Sampling variance of the difference.
    pub(super) fn measured(&self) -> f64 {
        self.seen[0] + self.seen[1]
    }

    /// The variance that decides: with the variation from run to run.
    pub(super) fn judged(&self) -> f64 {
        self.measured() + self.own + self.moved
    }

    fn misfit(&self, difference: f64) -> f64 {
        (self.difference() - difference).powi(2) / (self.measured() + self.own).max(f64::MIN_POSITIVE)
    }

    /// Shifts the difference, and sets the variance that is left.
    fn shift(&mut self, by: f64, measured: f64) {
        let [before, after] = self.seen;
        // A row on one side only stays so.
        let after_part = match (self.before > 0.0, self.after > 0.0) {
            (true, false) => 0.0,
            (false, true) => 1.0,
            _ if before + after > 0.0 => after / (before + after),
            _ => 0.5,
        };
        self.before = (self.before - by * (1.0 - after_part)).max(0.0);
        self.after = (self.after + by * after_part).max(0.0);
        self.seen = [measured * (1.0 - after_part), measured * after_part];
    }
}

/// Adjusts the named rows so that they add up to `whole`. The named row is the one that explains the whole
/// alone, unless another is certain; without one, those that pass `is_named`. Returns the row if the whole
/// has changed and it is the only one.
pub(super) fn settle(
    rows: &mut [CountChange],
    whole: &CountChange,
    is_named: impl Fn(&CountChange) -> bool,
) -> Option<usize> {
    let sure = rows.iter().any(|row| row.certain > 0.0 && is_named(row));
    let explains = (is_named(whole) && !sure).then(|| explanation(rows, whole)).flatten();
    let named: Vec<usize> = match explains {
        Some(row) => vec![row],
        None => (0..rows.len()).filter(|row| is_named(&rows[*row])).collect(),
    };
    if named.is_empty() || explains.is_none() && !sure && is_of_all(rows, whole, &named) {
        return None;
    }
    let sum = |of: &dyn Fn(&CountChange) -> f64| named.iter().map(|row| of(&rows[*row])).sum::<f64>();
    let missing = whole.difference() - sum(&CountChange::difference);
    let others: f64 = rows.iter().map(|row| row.own).sum::<f64>() - sum(&|row| row.own);
    let variance = sum(&CountChange::measured) + others + whole.measured();
    if variance <= 0.0 {
        return None;
    }
    let taken: f64 = sum(&|row: &CountChange| 0.5 * (row.before + row.after));
    let all = 0.5 * (whole.before + whole.after);
    let moved = missing * sum(&CountChange::measured) / variance;
    for (at, row) in rows.iter_mut().enumerate() {
        let own = row.measured();
        if named.contains(&at) {
            row.shift(missing * own / variance, own - own * own / variance);
        } else if all > taken {
            // Faults that samples assigned to the named rows by chance are missing from the others.
            let share = 0.5 * (row.before + row.after) / (all - taken);
            row.shift(-moved * share, own);
        }
    }
    (named.len() == 1 && is_named(whole)).then(|| named[0])
}

/// The one row that explains the difference of the whole, all others being unchanged. It must do so much
/// better than any other row, and than equal growth of all rows.
fn explanation(rows: &[CountChange], whole: &CountChange) -> Option<usize> {
    let difference = whole.difference();
    let mut found: Vec<(f64, usize)> =
        rows.iter().enumerate().map(|(at, row)| (row.misfit(difference) - row.misfit(0.0), at)).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (best, row) = *found.first()?;
    let rival = found.get(1).map_or(f64::INFINITY, |second| second.0).min(alike(rows, whole));
    // Twice the logarithm of the ratio of their likelihoods.
    (rival - best > 2.0 * DIFF_RIVAL_ODDS.ln()).then_some(row)
}

/// Misfit of equal growth of all rows, less the misfit of no change.
fn alike(rows: &[CountChange], whole: &CountChange) -> f64 {
    let all = (whole.before + whole.after).max(f64::MIN_POSITIVE);
    let part = |row: &CountChange| whole.difference() * (row.before + row.after) / all;
    rows.iter().map(|row| row.misfit(part(row)) - row.misfit(0.0)).sum()
}

/// Whether equal growth of all rows fits better than growth of the named ones.
fn is_of_all(rows: &[CountChange], whole: &CountChange, named: &[usize]) -> bool {
    let own: f64 = named.iter().map(|row| -rows[*row].misfit(0.0)).sum();
    alike(rows, whole) < own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: f64, after: f64, deviation: f64) -> CountChange {
        CountChange {
            before,
            after,
            seen: [deviation * deviation / 2.0; 2],
            own: (0.01 * before).powi(2),
            moved: 0.0,
            certain: 0.0,
        }
    }

    fn is_named(change: &CountChange) -> bool {
        change.difference().abs() > 3.3 * change.judged().sqrt()
    }

    #[test]
    fn a_row_that_alone_explains_the_whole_has_its_exact_difference() {
        let whole = change(20_000.0, 22_000.0, 0.0);
        let rows =
            [change(0.0, 1_600.0, 600.0), change(8_000.0, 8_300.0, 900.0), change(12_000.0, 12_100.0, 900.0)];
        let mut settled = rows;
        settle(&mut settled, &whole, is_named);
        assert!(!is_named(&rows[0]) && is_named(&settled[0]), "{:?}", settled[0]);
        assert!(
            (settled[0].difference() - 2_000.0).abs() < 40.0 && settled[0].before == 0.0,
            "{:?}",
            settled[0]
        );
        assert!(!settled[1..].iter().any(is_named));
    }

    #[test]
    fn where_two_rows_explain_it_as_well_neither_is_named() {
        let whole = change(20_000.0, 22_000.0, 0.0);
        let rows = [change(10_000.0, 11_000.0, 900.0), change(10_000.0, 11_000.0, 900.0)];
        let mut settled = rows;
        settle(&mut settled, &whole, is_named);
        assert!(!settled.iter().any(is_named), "{settled:?}");
    }
}
