//! Contradictions that no observation can bring about, since the rows are made from it; the others are planted in `tests/it/reconcile.rs`.

use super::*;
use crate::measurement::Interval;

/// A run of 10,000 faults of 1 us each; every source is known, and all agree.
fn sound() -> Facts {
    let time_ns = Interval { value: 1e7, low: 0.9e7, high: 1.1e7 };
    Facts {
        waited: Some(10_000),
        user: Some(9_000),
        all: Some(9_900),
        minor: Some(9_900),
        major: Some(0),
        before_exec: 100,
        rows: 10_000,
        rows_user: 9_000,
        time_ns: Some(time_ns),
        rows_time_ns: 1e7,
        ..Facts::default()
    }
}

#[test]
fn a_sound_run_has_no_disagreement() {
    assert_eq!(check(&sound()), []);
    assert_eq!(check(&Facts::default()), []);
}

#[test]
fn rows_that_do_not_add_up_are_told() {
    type Plant = fn(&mut Facts);
    let plants: [(Plant, Check); 3] = [
        (|f| f.rows += 1, Check::RowsTotal),
        (|f| f.rows_user -= 200, Check::RowsUser),
        (|f| f.rows_time_ns *= 2.0, Check::KindsTime),
    ];
    for (plant, expected) in plants {
        let mut facts = sound();
        plant(&mut facts);
        let found: Vec<Check> = check(&facts).into_iter().map(|one| one.check).collect();
        assert_eq!(found, [expected]);
    }
}

#[test]
fn a_sentence_names_both_sources_their_figures_and_the_one_believed() {
    let facts = Facts { rows: 10_001, ..sound() };
    assert_eq!(
        check(&facts)[0].to_string(),
        "two sources disagree (the kinds: 10 001 faults; wait4 and the events beyond it: 10 000 faults). Believed: wait4 and \
         the events beyond it. The kinds do not add up to the total: use the total only."
    );
}
