use std::collections::BTreeSet;

use super::rows::FITTED;
use super::*;

#[test]
fn the_fit_reads_seven_rows_and_predicts_the_other_nine() {
    let source = Source::default();
    let fit = fit(&source, 1500, 1).unwrap();
    assert_eq!(source.read(), BTreeSet::from(FITTED), "the fit reads these rows and no other");
    let runs = fit.run().unwrap();
    let rows = runs.predictions(REPEATED);
    let (tried, kept, effective) = runs.counts();
    assert!(effective >= 5.0, "{kept} of {tried}, as {effective}");
    for row in &rows {
        assert!(row.off().abs() <= MOST_OFF, "{row:?}");
    }
    assert!(holds(&rows), "{rows:#?}");
}

#[test]
fn a_row_far_off_or_two_outside_are_not_held() {
    let row = |low, value, high| Predicted {
        row: "",
        is_fitted: false,
        per_wall_s: Interval { value, low, high },
        document_per_wall_s: 100.0,
        per_cpu_s: Interval::default(),
        document_per_cpu_s: 1.0,
        hit_ratio: Interval::default(),
    };
    let good = row(90.0, 95.0, 110.0);
    assert!(good.holds() && holds(&vec![good.clone(); 9]));
    let (outside, wide, far) = (row(101.0, 110.0, 120.0), row(50.0, 100.0, 150.0), row(99.0, 131.0, 140.0));
    assert!(!outside.holds() && !wide.holds());
    let with = |others: &[&Predicted]| {
        let mut rows = vec![good.clone(); 9 - others.len()];
        rows.extend(others.iter().map(|row| (*row).clone()));
        holds(&rows)
    };
    assert!(with(&[&outside]) && with(&[&wide]) && !with(&[&outside, &wide]) && !with(&[&far]));
}
