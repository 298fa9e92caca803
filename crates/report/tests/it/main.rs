//! Golden texts, documents and pictures of fixed observations.

mod advice;
mod change;
mod check;
mod golden;
mod lab;
mod profile;
#[path = "../../../trace/tests/it/recorded.rs"]
mod recorded;
#[path = "../../../trace/tests/it/runs.rs"]
mod runs;
#[path = "../../../trace/tests/it/scenario.rs"]
mod scenario;
mod timeline;
mod views;

#[test]
fn colour_changes_no_letter() {
    use faultless_report::{advice as report_of_advice, diff, profile as report, stat};
    use faultless_trace::diff::{By, Class};
    use faultless_trace::findings::{Findings, Wanted};

    let advice = advice::everything();
    let difference = change::diff(By::Function);
    let observed = faultless_trace::Stat::from_observation(&scenario::pipeline());
    let findings = Findings::new(&recorded::mixed(true), &Wanted::default()).unwrap();
    let shown = |colour| {
        let layout = report::Layout { colour, ..report::Layout::default() };
        [
            report_of_advice::text(&advice, colour, None),
            diff::text(&difference, &Class::ALL, colour, None),
            stat::text(&observed, colour, None),
            report::text(&findings, layout),
        ]
    };
    assert_eq!(shown(true).map(|text| unstyled(&text)), shown(false));
}

/// A coloured text without its styles.
fn unstyled(coloured: &str) -> String {
    assert!(coloured.contains("\x1b[1m"));
    let mut plain = String::new();
    let mut rest = coloured;
    while let Some((before, style)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = style.split_once('m').unwrap().1;
    }
    plain + rest
}
