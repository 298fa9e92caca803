//! Median, MAD, minimum and number of a few figures.

/// How figures lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; of an even number, the upper of the two.
    pub median: f64,
    /// Median of the distances to the median.
    pub mad: f64,
    /// The smallest.
    pub min: f64,
    /// How many.
    pub n: usize,
}

impl Spread {
    /// `None` without figures.
    pub fn of(figures: &[f64]) -> Option<Self> {
        let median = median(figures)?;
        let distances: Vec<f64> = figures.iter().map(|figure| (figure - median).abs()).collect();
        Some(Self {
            median,
            mad: self::median(&distances)?,
            min: figures.iter().copied().fold(f64::INFINITY, f64::min),
            n: figures.len(),
        })
    }
}

/// The middle figure.
pub(super) fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    let middle = sorted.len() / 2;
    (!sorted.is_empty()).then(|| *sorted.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_moves_neither_median_nor_mad_far() {
        let spread = Spread::of(&[3.0, 1.0, 2.0, 1000.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.0, mad: 1.0, min: 1.0, n: 5 });
        assert_eq!(Spread::of(&[]), None);
    }
}
