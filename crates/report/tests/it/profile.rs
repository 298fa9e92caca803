//! Fixed recordings -> the text and JSON of `report`.

use faultless_report::json;
use faultless_report::profile::{Layout, explain, html, text};
use faultless_trace::diff::Run;
use faultless_trace::filter::Filter;
use faultless_trace::findings::{Findings, Next, Sort, Wanted};
use faultless_trace::measurement::{Interval, Percent};
use faultless_trace::recording::Recording;
use faultless_trace::sites::Group;
use faultless_trace::tree::Shape;

use super::recorded::mixed;
use super::timeline::{opened, written};

const NARROW: Layout = Layout { colour: false, width: Some(20), whole: false, only_tables: true };

const SCREEN: Layout = Layout { colour: false, width: Some(100), whole: false, only_tables: false };

fn wanted() -> Wanted {
    Wanted { top: 10, ..Wanted::default() }
}

fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end());
    }
}

#[test]
fn text_of_every_fault_with_blocks() {
    let text = text(&Findings::new(&mixed(true), &wanted()).unwrap(), SCREEN);
    assert_fits(&text, 100);
    insta::assert_snapshot!("report_every_fault", text);
}

#[test]
fn no_line_is_wider_than_the_reader_and_no_column_is_lost() {
    let long =
        "void ns::Long<std::vector<int>>::method_with_a_long_name_that_ends_in_its_own(int, char)".repeat(2);
    for every in [true, false] {
        let mut findings = Findings::new(&mixed(every), &wanted()).unwrap();
        for table in &mut findings.tables {
            table.sites.rows.iter_mut().for_each(|row| row.label = format!("{long} {}", row.label));
        }
        findings.mechanisms.iter_mut().for_each(|mechanism| mechanism.taken_in = vec![long.clone()]);
        let heads = |text: &str, name: &str| text.split_whitespace().filter(|word| *word == name).count();
        let whole = explain(&findings, Layout::default());
        for width in [60, 80, 120] {
            let text = explain(&findings, Layout { width: Some(width), ..SCREEN });
            assert_fits(&text, width);
            for name in ["time", "share", "refault", "site", "mapping", "MiB", "saves"] {
                assert_eq!(heads(&text, name), heads(&whole, name), "{name} at {width}: {text}");
            }
        }
        let shape = Shape { alloc: false, inverted: false, whole: false };
        let tree = Wanted { tree: Some(shape), ..wanted() };
        let mut tree = Findings::new(&mixed(every), &tree).unwrap();
        let nodes = tree.tree.iter_mut().flatten();
        nodes.enumerate().for_each(|(depth, node)| (node.name, node.depth) = (long.clone(), depth as u32));
        for width in [60, 80, 120] {
            assert_fits(&text(&tree, Layout { width: Some(width), ..SCREEN }), width);
        }
    }
}

#[test]
fn text_of_samples_and_bursts() {
    let text = text(&Findings::new(&mixed(false), &wanted()).unwrap(), SCREEN);
    assert_fits(&text, 100);
    insta::assert_snapshot!("report_sampled", text);
}

#[test]
fn explanation_of_samples_and_bursts() {
    let findings = Findings::new(&mixed(false), &wanted()).unwrap();
    let explained = explain(&findings, SCREEN);
    assert_fits(&explained, 100);
    insta::assert_snapshot!("report_sampled_explained", explained);
    assert!(text(&findings, SCREEN).trim_end().ends_with("--explain says what is missing and why"));
}

/// Most of the time is of faults that were counted and not recorded.
#[test]
fn the_answer_and_the_rows_divide_by_the_same_time() {
    let mut recording = mixed(true);
    let observation = &mut recording.observation;
    observation.usage.minor_faults += 100_000;
    observation.usage.system_ns += 100_000_000;
    observation.counts.all_faults = observation.counts.user_faults;
    let findings = Findings::new(&recording, &wanted()).unwrap();
    let (count, share) = findings.most.unwrap();
    let rows = &findings.tables[0].sites.rows[..count as usize];
    let sum: f64 = rows.iter().map(|row| row.share).sum();
    assert!((share - sum).abs() < 1e-6, "{share}, {sum}");
    let answer = text(&findings, SCREEN).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = format!(
        "{} of the time in faults is in no call site, and {count} call sites make {} of the rest",
        Percent(findings.unplaced),
        Percent(share)
    );
    assert!(answer.contains(&said), "{answer}");
}

#[test]
fn rows_that_may_be_nothing_are_one_line() {
    let mut findings = Findings::new(&mixed(true), &wanted()).unwrap();
    for row in &mut findings.tables[0].sites.rows {
        row.faults.low = 0.0;
    }
    let dear = text(&findings, Layout::default());
    assert!(dear.contains("worker_start  src"), "12 % of the time: {dear}");
    for row in &mut findings.tables[0].sites.rows {
        row.time_ns = row.time_ns.times(1e-3);
    }
    let text = text(&findings, Layout::default());
    let all = "and 2 sites, about 2.82 us and 2 400 faults together";
    assert!(text.contains(all) && !text.contains("worker_start  src"), "{text}");
}

#[test]
fn rows_that_are_exact_are_shown_however_small() {
    let mut findings = Findings::new(&mixed(true), &wanted()).unwrap();
    let rows = &mut findings.tables[0].sites.rows;
    let small = rows.last_mut().unwrap();
    // 0.2 % of the faults, each counted.
    small.faults = Interval { value: 25.0, low: 25.0, high: 25.0 };
    small.time_ns = small.time_ns.times(1e-3);
    small.share *= 1e-3;
    let label = small.label.clone();
    let shown = |findings: &Findings| {
        let text = text(findings, Layout::default());
        let table = text.split("By who allocated").next().unwrap().to_owned();
        table.lines().any(|line| line.contains(&label) && line.contains(" 25 "))
    };
    assert!(shown(&findings));
    findings.tables[0].sites.rows.last_mut().unwrap().faults =
        Interval { value: 25.0, low: 1.0, high: 900.0 };
    assert!(!shown(&findings), "it may be nothing");
}

#[test]
fn faults_that_take_little_time_have_no_next_step_in_text_and_page() {
    let run = Run::new(mixed(true));
    let mut findings = Findings::new(&run.recording, &wanted()).unwrap();
    findings.no_cure = Some("first touches".to_owned());
    findings.next = Some(Next::Advise);
    let said =
        |findings: &Findings| [text(findings, Layout::default()), html(&run, findings, &Filter::default())];
    let nothing = "Next: nothing. Page faults take too little time to be worth a change.";
    let step = "Next: faultless advise -- mixed --blocks 40 measures";
    assert!(said(&findings).iter().all(|text| text.contains(step) && !text.contains(nothing)));
    findings.time_ns = Some(Interval { value: 2e5, low: 1e5, high: 9e5 });
    assert!(said(&findings).iter().all(|text| text.contains(nothing) && !text.contains(step)));
    findings.wait_ns = 3e9;
    assert!(said(&findings).iter().all(|text| text.contains(step)), "faults that wait are worth a step");
    findings.command = vec!["mixed".into(), "x".repeat(99)];
    let what = "CMD: the same command";
    let is_explained =
        |text: &String| text.contains("faultless advise -- CMD measures") && text.contains(what);
    assert!(said(&findings).iter().all(is_explained), "a command without room has a name that is explained");
    findings.command = vec!["mixed".into(), "x".repeat(50)];
    let [text, _] = said(&findings);
    let command = format!("faultless advise -- mixed {} ", "x".repeat(50));
    assert!(text.lines().any(|line| line.contains(&command)), "{command} is in one line: {text}");
}

#[test]
fn text_of_one_table_sorted_filtered_and_cut() {
    let wanted = Wanted {
        by: Some(Group::Stack),
        sort: Sort::Faults,
        top: 1,
        filter: Filter { sites: vec!["_table".to_owned()], ..Filter::default() },
        tree: None,
    };
    let narrow = text(&Findings::new(&mixed(true), &wanted).unwrap(), NARROW);
    assert_fits(&narrow, 60);
    assert!(narrow.contains("By stack") && !narrow.contains("By kind"), "{narrow}");
    assert!(narrow.contains("fill_table <") && !narrow.contains("decode_chunk <"), "{narrow}");
    let none = Filter { sites: vec!["no such text".to_owned()], ..Filter::default() };
    let reason = Findings::new(&mixed(true), &Wanted { filter: none, ..wanted.clone() }).unwrap_err();
    assert!(
        reason.contains("site no such text; the recording has") && reason.contains("fill_table"),
        "{reason}"
    );
    let top_none = Wanted { top: 0, filter: Filter::default(), ..wanted };
    let text = text(&Findings::new(&mixed(true), &top_none).unwrap(), Layout::default());
    assert!(text.contains("--top N shows more of them"), "{text}");
}

#[test]
fn a_call_tree_shows_each_function_with_all_that_it_leads_to() {
    for (shape, first) in
        [(Shape::default(), "main"), (Shape { inverted: true, ..Shape::default() }, "decode")]
    {
        let findings = Findings::new(&mixed(true), &Wanted { tree: Some(shape), ..wanted() }).unwrap();
        let tree = findings.tree.as_ref().unwrap();
        let of =
            |depth: u32| tree.iter().filter(|node| node.depth == depth).map(|node| node.faults).sum::<f64>();
        assert!((of(0) - of(1)).abs() < 1e-6 * of(0), "{tree:?}");
        let own: f64 = tree.iter().map(|node| node.own_faults).sum();
        assert!((of(0) - own).abs() < 1e-6 * own, "what functions take themselves adds up to all");
        let text = text(&findings, Layout { only_tables: true, ..Layout::default() });
        assert!(text.contains("Call tree") && text.contains(first), "{text}");
    }
}

#[test]
fn json_of_one_table() {
    let wanted = Wanted { by: Some(Group::Alloc), top: 1, ..Wanted::default() };
    insta::assert_snapshot!("report.json", json(&Findings::new(&mixed(true), &wanted).unwrap()));
}

#[test]
fn text_of_nothing_and_of_a_recording_without_an_end() {
    let nothing = text(&Findings::new(&Recording::default(), &wanted()).unwrap(), Layout::default());
    assert!(nothing.contains("no page faults"), "{nothing}");
    let mut cut = mixed(false);
    cut.footer = None;
    cut.missing.push("the end: the recorder was killed".to_owned());
    let observation = &mut cut.observation;
    (observation.usage, observation.counts, observation.exit) = Default::default();
    let text = text(&Findings::new(&cut, &wanted()).unwrap(), Layout::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("has no end") && text.contains("the recorder was killed"), "{text}");
    assert!(text.contains("decode_chunk"), "{text}");
    assert!(text.contains("of the time recorded") && !text.contains("of the CPU time"), "{text}");
}

#[test]
fn every_line_of_the_page_fits_a_screen_of_500_pixels() {
    let run = Run::new(mixed(true));
    let mut findings = Findings::new(&run.recording, &wanted()).unwrap();
    let long = "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296";
    let cures = findings.mechanisms.iter_mut().flat_map(|mechanism| &mut mechanism.cures);
    cures.for_each(|cure| cure.how = long.into());
    let told = "<script>addEventListener('load',()=>setTimeout(()=>{const e=document.documentElement;\
                e.dataset.wide=Math.max(0,e.scrollWidth-e.clientWidth,...Array.from(document.querySelectorAll('.scroll,pre'),\
                x=>x.scrollWidth-x.clientWidth))},1000))</script>";
    let page = html(&run, &findings, &Filter::default()) + told;
    assert!(page.contains(long));
    let Some((browser, folder)) = written(&page) else { return };
    let (document, _) = opened(&browser, folder.path(), 500);
    assert!(document.contains("data-wide=\"0\""), "{}", &document[..300]);
}
