//! The kernel's stacks of first touches, in a test program of its own: faults are counted by process.

use faultless_lab::{Cell, experiments, trial};

#[test]
fn first_touches_are_faults_and_most_samples_lie_in_them() {
    let cell = Cell::of("phases").with("page", "base").with("threads", 1).with("samples", 450);
    let sample = trial::measure(experiments::find("phases").unwrap(), &cell);
    if let Some(why) = sample.refused {
        return faultless_wants::missing_feature("perf events", why);
    }
    assert_eq!(sample.violations, [""; 0]);
    let share = sample.values.iter().find(|value| value.quantity == "fault_share").unwrap().value;
    assert!(share > 0.5, "{share}");
}
