//! Fixed recordings -> the text and JSON of `report`.

use faultless_report::profile::{explain, json, text};
use faultless_trace::findings::{Findings, Sort, Wanted};
use faultless_trace::recording::Recording;
use faultless_trace::sites::Group;

use super::recorded::mixed;
use super::spread::assert_narrow;

fn wanted() -> Wanted {
    Wanted { top: 10, ..Wanted::default() }
}

fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        // A word is never broken.
        assert!(
            line.chars().count() <= width || line.contains("GLIBC_TUNABLES"),
            "{} columns: {line}",
            line.chars().count()
        );
        assert_eq!(line, line.trim_end());
    }
    assert_narrow(text);
}

#[test]
fn text_of_every_fault_with_blocks() {
    let text = text(&Findings::new(&mixed(true), &wanted()), false, None);
    assert_fits(&text, 100);
    insta::assert_snapshot!("report_every_fault", text);
}

#[test]
fn text_of_samples_and_bursts() {
    let text = text(&Findings::new(&mixed(false), &wanted()), false, None);
    assert_fits(&text, 100);
    insta::assert_snapshot!("report_sampled", text);
}

#[test]
fn explanation_of_samples_and_bursts() {
    let findings = Findings::new(&mixed(false), &wanted());
    let explained = explain(&findings, false, None);
    assert_fits(&explained, 100);
    insta::assert_snapshot!("report_sampled_explained", explained);
    assert!(text(&findings, false, None).trim_end().ends_with("--explain says what is missing and why"));
}

#[test]
fn rows_that_may_be_nothing_are_one_line() {
    let mut findings = Findings::new(&mixed(true), &wanted());
    for row in &mut findings.tables[0].sites.rows {
        row.faults.low = 0.0;
    }
    let dear = text(&findings, false, None);
    assert!(dear.contains("worker_start  src"), "12 % of the time: {dear}");
    for row in &mut findings.tables[0].sites.rows {
        row.time_ns = row.time_ns.times(1e-3);
    }
    let text = text(&findings, false, None);
    let all = "and 2 sites, about 2.82 us and 2 400 faults together";
    assert!(text.contains(all) && !text.contains("worker_start  src"), "{text}");
}

#[test]
fn a_recording_that_was_cut_is_not_one_without_faults() {
    let mut cut = mixed(false);
    cut.footer = None;
    let findings = Findings::new(&cut, &wanted());
    assert_eq!(findings.no_cure, None, "no curve is known");
    let text = text(&Findings::new(&Recording::default(), &wanted()), false, None);
    assert!(text.contains("has no end: it was cut"), "{text}");
}

#[test]
fn text_of_one_table_sorted_filtered_and_cut() {
    let wanted =
        Wanted { by: Some(Group::Stack), sort: Sort::Faults, top: 1, filter: Some("_table".to_owned()) };
    let narrow = text(&Findings::new(&mixed(true), &wanted), false, Some(20));
    assert_fits(&narrow, 72);
    assert!(narrow.contains("By stack") && !narrow.contains("By kind"), "{narrow}");
    assert!(narrow.contains("fill_table <") && !narrow.contains("decode_chunk <"), "{narrow}");
    let none = Wanted { filter: Some("no such text".to_owned()), ..wanted };
    assert!(text(&Findings::new(&mixed(true), &none), false, None).contains("no row holds"));
    let top_none = Wanted { top: 0, filter: None, ..none };
    let text = text(&Findings::new(&mixed(true), &top_none), false, None);
    assert!(!text.contains("no row holds") && text.contains("more: --top N"), "{text}");
}

#[test]
fn json_of_one_table() {
    let wanted = Wanted { by: Some(Group::Alloc), top: 1, ..Wanted::default() };
    insta::assert_snapshot!("report.json", json(&Findings::new(&mixed(true), &wanted)));
}

#[test]
fn text_of_nothing_and_of_a_recording_without_an_end() {
    let nothing = text(&Findings::new(&Recording::default(), &wanted()), false, None);
    assert!(nothing.contains("no page faults"), "{nothing}");
    let mut cut = mixed(false);
    cut.footer = None;
    cut.missing.push("the end: the recorder was killed".to_owned());
    let observation = &mut cut.observation;
    (observation.usage, observation.counts, observation.exit) = Default::default();
    let text = text(&Findings::new(&cut, &wanted()), false, None);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("has no end") && text.contains("the recorder was killed"), "{text}");
    assert!(text.contains("decode_chunk"), "{text}");
}

#[test]
fn colour_changes_no_letter_of_a_report() {
    let findings = Findings::new(&mixed(true), &wanted());
    assert_eq!(crate::unstyled(&text(&findings, true, None)), text(&findings, false, None));
}
