//! A small record and a comparison of two -> pages, pictures, tables, text.

use faultless_report::lab::Quantity;
use faultless_report::lab::compare::{self, Comparison, Fact};
use faultless_report::lab::page::{self, Claim, Experiment, PhaseRow, Report, Table, TableRow, Unjudged};
use faultless_report::svg::{self, Line, Plot, Point};
use faultless_trace::change::{Change, Direction};
use faultless_trace::stat::Interval;
use faultless_trace::verdict::Verdict;

fn interval(value: f64, spread: f64) -> Interval {
    Interval { value, low: value * (1.0 - spread), high: value * (1.0 + spread) }
}

fn line(name: &str, is_document: bool, points: &[(&str, f64)], spread: f64) -> Line {
    let point = |&(x, value): &(&str, f64)| {
        let Interval { value, low, high } = interval(value, spread);
        Point { x: x.into(), value, low, high }
    };
    Line { name: name.into(), is_document, points: points.iter().map(point).collect() }
}

fn numbers() -> Plot {
    Plot {
        id: "touch-first".into(),
        title: "First touch by threads".into(),
        x_label: "threads".into(),
        y_label: "us per page, all threads together".into(),
        x_is_bytes: false,
        remark: "Only those of one thread are alike.".into(),
        lines: vec![
            line("write", false, &[("1", 0.52), ("2", 0.31), ("4", 0.33)], 0.12),
            line("read", false, &[("1", 0.21), ("2", 0.13), ("4", 0.12)], 0.3),
            line("write", true, &[("1", 0.25), ("3", 0.15), ("4", 0.14)], 0.0),
        ],
    }
}

fn words() -> Plot {
    Plot {
        id: "prefault-timed".into(),
        title: "How the pages of a slab allocator come about, by what is done before the timed loop".into(),
        x_label: "prefault".into(),
        y_label: "million operations per s".into(),
        x_is_bytes: false,
        lines: vec![
            line("timed", false, &[("none", 3.1), ("MAP_POPULATE", 4.4), ("touch <page>", 4.2)], 0.05),
            line("setup", false, &[("none", 90.0), ("MAP_POPULATE", 12.0)], 0.1),
            line("", true, &[("none", 4.02), ("touch <page>", 4.09)], 0.0),
        ],
        ..Plot::default()
    }
}

fn claim(id: &str, verdict: Verdict, here: &str) -> Claim {
    Claim {
        id: id.into(),
        document: "Oops All Page Faults!".into(),
        quote: "we are triggering two of them per \"page\"".into(),
        there: "131,145 faults for 65,536 pages = 2.00".into(),
        here: here.into(),
        verdict,
        why: "the zero page is read, then copied <on write>".into(),
    }
}

fn row(threads: &str, phase: &str, faults: f64, violations: &[&str]) -> PhaseRow {
    let figure = |name: &str, interval: Interval| Quantity { name: name.into(), interval };
    PhaseRow {
        parameters: vec!["write".into(), threads.into()],
        phase: phase.into(),
        samples: 5,
        quantities: vec![
            figure("wall_ns", interval(8.3e6, 0.04)),
            figure("cpu_ns", interval(8.2e6, 0.04)),
            figure("user_ns", interval(1.1e6, 0.2)),
            figure("system_ns", interval(7.1e6, 0.05)),
            figure("minor_faults", interval(faults, 0.0)),
            figure("major_faults", interval(0.0, 0.0)),
            figure("resident_bytes", interval(67_108_864.0, 0.0)),
        ],
        faults: Some((16_384.0, 16_424.0)),
        violations: violations.iter().map(|&text| text.into()).collect(),
    }
}

fn table() -> Table {
    let row = |is_document, texts: [&str; 3]| TableRow { is_document, texts: texts.map(Into::into).into() };
    Table {
        id: "rates".into(),
        title: "The document's table, with ours".into(),
        heads: ["", "Threads", "fault/wsec"].map(Into::into).into(),
        rows: vec![
            row(true, ["document: with, \"and\" without", "1", "69 566"]),
            row(false, ["kernel", "1", ""]),
        ],
        remark: "Medians.".into(),
    }
}

fn report() -> Report {
    Report {
        name: "2026-01-02-host".into(),
        asked: "touch at quick effort:".into(),
        measured: "2 cells, 10 samples, 1 of them disturbed by other programs or the hypervisor.".into(),
        unfinished: Some("The last run was interrupted.".into()),
        machine: vec![("kernel".into(), "6.1.0".into()), ("cpu".into(), "One & Two, 2 processors".into())],
        violations: vec!["touch threads=2: first: 3 faults, must be 16384 to 16424".into()],
        experiments: vec![Experiment {
            name: "touch".into(),
            question: "What does the first touch of a page cost?".into(),
            sources: vec!["Oops All Page Faults!".into()],
            plots: vec![numbers(), words()],
            tables: vec![table()],
            claims: vec![
                claim("a", Verdict::Reproduced, "2.00 per page"),
                claim("b", Verdict::Refuted, "1.00 per page (0.99 to 1.01)"),
                claim("c", Verdict::CannotSay, ""),
            ],
            unjudged: vec![Unjudged {
                document: "Oops All Page Faults!".into(),
                quote: "131,145 page-faults:u # 273.724 K/sec".into(),
                there: "273.724 K/sec".into(),
                here: "812 K/sec".into(),
                why: "the price of a fault on another machine".into(),
            }],
            parameters: vec!["access".into(), "threads".into()],
            rows: vec![
                row("1", "first", 16_390.0, &[]),
                row("2", "first", 3.0, &["first: 3 faults, must be 16384 to 16424"]),
            ],
            how: vec!["2 cells in 5 rounds.".into()],
            refused: vec!["access=write threads=64: needs 9 MiB of memory, and 3 MiB are available".into()],
            command: "faultless lab touch --quick".into(),
        }],
    }
}

fn change(
    kind: Direction,
    quantity: &str,
    figures: [Option<Interval>; 2],
    ratio: Option<Interval>,
) -> Change {
    let phase = if quantity.is_empty() { "" } else { "first" };
    Change {
        kind,
        experiment: "touch".into(),
        cell: "access=write threads=2".into(),
        phase: phase.into(),
        quantity: quantity.into(),
        figures,
        ratio,
    }
}

fn comparison() -> Comparison {
    let both = |a: f64, b: f64| [Some(interval(a, 0.1)), Some(interval(b, 0.1))];
    let fact = |name: &str, a: &str, b: &str| Fact { name: name.into(), values: [a.into(), b.into()] };
    Comparison {
        names: ["before".into(), "after".into()],
        facts: vec![
            fact("kernel", "6.1.0", "6.12.0"),
            fact("THP", "", "madvise"),
            fact("page", "4096", "4096"),
        ],
        changes: vec![
            change(Direction::More, "minor_faults", both(0.0, 512.0), None),
            change(Direction::Less, "wall_ns", both(8.3e6, 2.1e6), Some(interval(0.253, 0.1))),
            change(Direction::More, "gb_per_s", both(1.5, 6.0), Some(interval(4.0, 0.2))),
            change(Direction::Added, "", [None, None], None),
            change(Direction::Removed, "pool_bytes", [Some(interval(3e6, 0.0)), None], None),
            change(Direction::Alike, "system_ns", both(1e6, 1.01e6), Some(interval(1.01, 0.1))),
        ],
        caveats: vec!["B: 1 cell could not be measured: touch access=write threads=64: needs 9 MiB".into()],
        how: vec!["How to read it.".into()],
    }
}

#[test]
fn pictures_of_lines_and_of_rows() {
    insta::assert_snapshot!("lab_lines.svg", svg::plot(&numbers()));
    insta::assert_snapshot!("lab_rows.svg", svg::plot(&words()));
    insta::assert_snapshot!("lab_lines.csv", svg::csv(&numbers()));
}

#[test]
fn a_documents_table_has_its_rows_and_ours_and_what_is_not_known_is_left_empty() {
    let html = report().html();
    assert!(html.contains("<tr class=\"theirs\"><td>document: with, &quot;and&quot; without</td>"), "{html}");
    assert!(
        html.contains("<td>kernel</td><td class=\"right\" data-name=\"Threads:\">1</td><td></td></tr>"),
        "{html}"
    );
    let csv = page::csv(&table());
    assert_eq!(csv.lines().nth(1), Some("\"document: with, \"\"and\"\" without\",1,69 566"));
}

#[test]
fn page_of_a_record() {
    let html = report().html();
    assert!(!html.contains("<on write>") && !html.contains("<page>"), "text breaks out of the page");
    assert!(
        !html.contains("http://") || html.matches("http://").count() == html.matches("www.w3.org").count()
    );
    insta::assert_snapshot!("lab_page.html", html);
}

#[test]
fn an_empty_record_is_a_page_too() {
    let html = Report::default().html();
    assert!(!html.contains("Statements") && html.ends_with("</html>"));
}

#[test]
fn the_terminal_begins_with_the_machine_and_the_documents_table() {
    insta::assert_snapshot!("lab_page.text", report().text(100, false));
    let brief = report().text(100, true);
    assert!(brief.ends_with("Statements: 1 refuted here, 1 reproduced, 1 cannot say\n"), "{brief}");
}

#[test]
fn two_records_as_a_page_and_as_text() {
    insta::assert_snapshot!("lab_compare.html", comparison().html());
    insta::assert_snapshot!("lab_compare.text", compare::text(&comparison()));
}
