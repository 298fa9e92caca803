//! Fixed runs and a budget -> text, Markdown, XML.

use faultless_report::check::{junit, junit_error, markdown, text, written};
use faultless_trace::budget::{Budget, Checked, Facts, Limit, Reading};

fn budget(name: &str) -> Budget {
    let reading =
        |step: u64| Reading { faults: 20_560 + step, peak_rss_bytes: 81 << 20, ..Reading::default() };
    let runs: Vec<Reading> = (0..10).map(|run| reading(run % 2)).collect();
    let sites = [("grab <- parse".to_owned(), 8_000), ("main".to_owned(), 4_000)].into();
    let host = Facts { page_bytes: 4096, processors: 2, ..Facts::default() };
    Budget::new(name.into(), host, &runs, sites).unwrap()
}

fn checked(name: &str, faults: u64) -> Checked {
    let budget = budget(name);
    let run = Reading { faults, peak_rss_bytes: 81 << 20, ..Reading::default() };
    let found = Checked::new(&budget, vec![run; 3]);
    match found.over {
        true => found.with_sites(&budget, &[("grab <- parse".to_owned(), 9_040)].into()),
        false => found,
    }
}

#[test]
fn the_answer_names_the_figure_and_the_site_that_grew() {
    let said = text(&checked("./engine", 21_604), false);
    assert!(
        said.starts_with(
            "Over budget: faults: 21 604 instead of 20 561 (+5.1 %, limit 20 767).\n\
             Most of the growth is in grab <- parse: 9 040 faults instead of 8 000.\n"
        ),
        "{said}"
    );
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn within_the_budget_the_limit_is_told_and_far_below_it_the_remedy() {
    let said = text(&checked("./engine", 20_600), false);
    assert!(said.starts_with("Within budget: 20 600 faults of at most 20 767.\n"), "{said}");
    let fewer = text(&checked("./engine", 10_000), false);
    assert!(
        fewer.starts_with("Within budget, with 51 % fewer faults: --update makes the budget tighter.\n"),
        "{fewer}"
    );
}

#[test]
fn names_do_not_break_markdown_or_xml() {
    let name = "a|b <c> \"d\" *e*\u{1b}";
    let page = markdown(&checked(name, 21_604));
    assert!(page.starts_with("### ❌ a\\|b \\<c\\> \"d\" \\*e\\*\u{fffd}\n"), "{page}");
    assert!(page.contains("| faults | 21 604 | 20 561 | 20 767 | +5.1 % | over |"), "{page}");
    let xml = junit(&checked(name, 21_604));
    assert!(
        xml.contains(
            "name=\"faultless check: a|b &lt;c&gt; &quot;d&quot; *e*\u{fffd}\" tests=\"2\" failures=\"1\""
        ),
        "{xml}"
    );
    assert!(xml.contains("grab &lt;- parse: 9 040 faults"), "{xml}");
    assert_eq!(xml.matches("<testcase").count(), 2);
    assert!(
        junit_error("a", "no & why").contains("errors=\"1\"")
            && junit_error("a", "no & why").contains("no &amp; why")
    );
}

#[test]
fn a_new_budget_says_which_growth_it_catches() {
    let said = written(&budget("./engine"), "faultless.toml");
    assert!(
        said.starts_with(
            "faultless.toml: budget of 10 runs. Growth above these shares is caught: faults 1.0 %"
        ),
        "{said}"
    );
    assert!(!said.contains("varies"), "{said}");
    let mut budget = budget("./engine");
    let again = Limit { limit: 883_712, median: 0, min: 0, max: 441_856 };
    budget.again_bytes = Some(again);
    let said = written(&budget, "faultless.toml");
    assert!(
        said.contains("So is memory taken again beyond 863 KiB.") && !said.contains("taken again 8"),
        "{said}"
    );
}
