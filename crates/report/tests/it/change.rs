//! Fixed runs -> flame graphs, and their difference as text, JSON, page and picture.

use faultless_report::diff::{html, json, text};
use faultless_report::flame::{self, Measure, Settings, Stack};
use faultless_trace::diff::{By, Class, Diff, Run, Settings as How};
use faultless_trace::measurement::Nanos;
use faultless_trace::profile::Block;

use super::runs::{Conditions, QUIET, Site, counted, program, run, site};

/// One function is removed, one has twice the faults, one has faults twice as expensive, one is added.
fn other_build() -> Vec<Site> {
    let mut sites = program();
    sites[0].faults *= 2;
    sites[3].price_ns *= 2.0;
    sites[2] = site(&["rank<int, [8]>", "search", "main"], 1_000, 800.0);
    sites
}

fn builds() -> ([Run; 1], [Run; 1]) {
    let mut after = run(&other_build(), Conditions { seed: 2, price: 1.2, calibrated: 1.3, ..QUIET });
    after.recording.header.command[0] = "./program-new".into();
    ([run(&program(), QUIET)], [after])
}

pub(super) fn diff(by: By) -> Diff {
    let (before, after) = builds();
    Diff::new(&before, &after, &How { by, ..How::default() }).unwrap()
}

const CHANGED: [Class; 4] = [Class::Added, Class::Removed, Class::Grown, Class::Shrunk];

/// Without inferno's own script, which is not ours to test.
fn without_script(svg: &str) -> String {
    let (front, rest) = svg.split_once("<script").unwrap();
    let (_, back) = rest.split_once("</script>").unwrap();
    format!("{front}{back}").replace("</g>", "</g>\n")
}

#[test]
fn no_line_is_wider_than_the_reader_and_no_column_is_lost() {
    for by in [By::Function, By::Stack, By::Mapping] {
        let mut diff = diff(by);
        diff.rows.iter_mut().for_each(|row| row.name = format!("{}::end", "ns::a_long_name".repeat(9)));
        for width in [60, 80, 120] {
            let text = text(&diff, &Class::ALL, false, Some(width));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}: {text}");
            for name in ["time before", "faults before"] {
                assert_eq!(text.matches(name).count(), 1, "{width}: {text}");
            }
            assert_eq!(
                text.matches("difference\n").count() + text.matches("difference  ").count(),
                2,
                "{text}"
            );
            assert_eq!(text.matches("::end").count(), diff.rows.len(), "the end of a name stays: {text}");
        }
    }
}

#[test]
fn a_picture_colours_no_difference_that_the_text_leaves_to_chance() {
    let before = [run(&program(), QUIET)];
    let mut other = program();
    other[0].faults += 3;
    let after = [run(&other, Conditions { seed: 2, price: 1.02, ..QUIET })];
    let how = How { threshold: 0.0, ..How::default() };
    let picture = |before: &[Run], after: &[Run]| {
        let diff = Diff::new(before, after, &how).unwrap();
        let settings = Settings { measure: Measure::Time, ..Settings::default() };
        (
            diff.count(Class::Unchanged),
            diff.rows.len(),
            flame::difference(&diff, before, after, settings).unwrap(),
        )
    };
    let (unchanged, rows, svg) = picture(&before, &after);
    assert_eq!(unchanged, rows, "chance explains each difference");
    assert!(
        !svg.contains(" [+") && !svg.contains(" [-") && !svg.contains(" [added]"),
        "{}",
        without_script(&svg)
    );
    assert!(svg.contains("nothing by more than chance") && svg.contains("no change beyond chance"));
    let (before, after) = builds();
    let (_, _, svg) = picture(&before, &after);
    assert!(svg.contains(" [added]") && svg.contains(" [+"), "changes beyond chance keep their colours");
}

#[test]
fn text_of_two_builds() {
    let text = text(&diff(By::Function), &CHANGED, false, None);
    text.lines().for_each(|line| assert!(line.chars().count() <= 100, "{line}"));
    insta::assert_snapshot!("diff", text);
}

/// Many small sites that all grew, each by less than is worth a name.
#[test]
fn a_change_of_the_count_is_said_even_if_no_site_can_be_named() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let with = |faults| {
        let pairs = NAMES.iter().flat_map(|leaf| NAMES.iter().map(move |caller| [*leaf, *caller, "main"]));
        let triples = pairs.flat_map(|stack| NAMES.map(|root| [stack[0], stack[1], root]));
        let sites: Vec<Site> = triples.map(|stack| site(&stack, faults, 800.0)).collect();
        [run(&sites, QUIET)]
    };
    let how = How { by: By::Stack, ..How::default() };
    let diff = Diff::new(&with(80), &with(83), &how).unwrap();
    let text = text(&diff, &CHANGED, false, None).replace("\n ", " ");
    for words in
        ["The count changed, and in which of 64 stacks is not known.", "5 312 faults instead of 5 120 (+192)"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn faults_without_a_time_are_said_where_others_take_less() {
    let before = [counted(run(&program(), QUIET), 5)];
    let diff = Diff::new(&before, &[counted(run(&program()[1..], QUIET), 6_005)], &How::default()).unwrap();
    let text = text(&diff, &CHANGED, false, None).replace("\n ", " ");
    let untimed = "but 6 000 more faults in system calls are untimed, so what all take is not known";
    assert!(text.contains(untimed) && !text.contains(" Page faults take"), "{text}");
    let row = text.split("[in system calls, counted]  (more faults)").nth(1).unwrap();
    let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).take(6).collect();
    assert_eq!(cells[..5], ["-", "-", "-", "5", "6 005"], "{text}");
    assert!(html(&diff).contains("6\u{a0}000 more faults in system calls are untimed"));
}

#[test]
fn a_class_that_is_asked_for_is_shown_alone() {
    let diff = diff(By::Function);
    let added = text(&diff, &[Class::Added], false, None);
    assert!(added.contains(" added     rank") && !added.contains("decode"), "{added}");
    let unchanged = json(&diff, &[Class::Unchanged]);
    assert!(
        unchanged.contains("\"clear <- work\"") && !unchanged.contains("\"decode <- work\""),
        "{unchanged}"
    );
}

#[test]
fn json_of_two_builds() {
    insta::assert_snapshot!("diff.json", json(&diff(By::Function), &[Class::Added]));
}

#[test]
fn page_of_two_builds() {
    let page = html(&diff(By::Stack));
    insta::assert_snapshot!("diff.html", page.replace("<tr", "\n<tr"));
}

#[test]
fn nothing_is_said_to_be_nothing() {
    let none = || [run(&[], QUIET)];
    let diff = Diff::new(&none(), &none(), &How::default()).unwrap();
    assert_eq!(
        text(&diff, &CHANGED, false, None),
        " No page fault was recorded in either, so there is nothing to compare.\n"
    );
    assert!(html(&diff).contains("nothing to compare"));
    assert_eq!(flame::svg(&none()[0], Settings::default()), None);
    assert_eq!(flame::difference(&diff, &none(), &none(), Settings::default()), None);
}

#[test]
fn names_of_programs_can_not_break_out_of_page_or_picture() {
    let runs = [run(&[site(&["<script>x</script>\u{1b}[m; 7", "main"], 500, 800.0)], QUIET)];
    let diff = Diff::new(&runs, &runs, &How::default()).unwrap();
    let svg = flame::svg(&runs[0], Settings::default()).unwrap();
    for document in [html(&diff), svg, text(&diff, &Class::ALL, false, None)] {
        assert!(
            !document.contains("<script>x") && !document.contains('\u{1b}') || !document.contains("<svg")
        );
        assert!(!document.contains('\u{1b}'));
    }
}

#[test]
fn picture_of_who_touched() {
    let mut sites = program();
    sites.push(site(&["[stripped]", "main"], 500, 800.0));
    let run = run(&sites, QUIET);
    insta::assert_snapshot!("flame.svg", without_script(&flame::svg(&run, Settings::default()).unwrap()));
}

#[test]
fn picture_of_owners_below_touchers() {
    let mut run = run(&program(), QUIET);
    let block = Block { stack: Some(4), ..Block::default() };
    run.profile.blocks.blocks.push(block);
    run.profile
        .faults
        .iter_mut()
        .filter(|fault| fault.stack != Some(2))
        .for_each(|fault| fault.block = Some(0));
    let settings = Settings { measure: Measure::Bytes, stack: Stack::Both, ..Settings::default() };
    insta::assert_snapshot!("flame_both.svg", without_script(&flame::svg(&run, settings).unwrap()));
}

#[test]
fn picture_of_what_changed_holds_what_is_gone() {
    let (before, after) = builds();
    let svg = flame::difference(&diff(By::Function), &before, &after, Settings::default()).unwrap();
    for name in ["rank&lt;int, [8]&gt; [added]", "index [removed]", "decode [+14"] {
        assert!(svg.contains(name), "{name}");
    }
    // Its price doubled. One recording a side does not tell that from chance, and seven do.
    assert!(svg.contains("<title>load (") && !svg.contains("load ["), "load has no mark");
    let side = |sites: &[Site], seeds: std::ops::Range<u64>| -> Vec<Run> {
        seeds.map(|seed| run(sites, Conditions { seed, apart: (0.01, 0.01), ..QUIET })).collect()
    };
    let (many, later) = (side(&program(), 1..8), side(&other_build(), 8..15));
    let told = Diff::new(&many, &later, &How::default()).unwrap();
    let told = flame::difference(&told, &many, &later, Settings::default()).unwrap();
    assert!(told.contains("load [+"), "{}", without_script(&told));
    // The totals of all other views.
    let [a, b] = [&before, &after].map(|side| Nanos(side[0].profile.totals.time_ns()));
    assert!(svg.contains(&format!("{a} before, {b} after")), "{a}, {b}");
    let text = text(&diff(By::Function), &CHANGED, false, None);
    assert!(text.contains(&format!("Page faults take {b} instead of {a}")), "{text}");
    insta::assert_snapshot!("flame_change.svg", without_script(&svg));
}
