use proptest::prelude::*;

use super::*;

fn facts() -> Facts {
    Facts {
        kernel: "6.12".into(),
        architecture: "x86_64".into(),
        libc: Some("2.41".into()),
        page_bytes: 4096,
        processors: 2,
        huge_pages: "off".into(),
        random_addresses: false,
        recorded: Recorded::User,
    }
}

fn reading(faults: u64, peak_rss_bytes: u64, heap: u64) -> Reading {
    let kinds = [(Kind::HeapFirstWrite, heap), (Kind::FileRead, faults - heap.min(faults))].into();
    Reading { faults, peak_rss_bytes, again_bytes: Some(heap * 2048), kinds }
}

fn budget(runs: &[Reading]) -> Budget {
    let sites = [("grow <- main".to_owned(), 4000), ("parse <- main".to_owned(), 5000)].into();
    Budget::new("prog a b".into(), facts(), runs, sites).unwrap()
}

#[test]
fn the_limit_lies_above_the_runs_by_their_range_and_by_a_least_room() {
    let equal = Limit::of(&[10_000; 10], 100.0).unwrap();
    assert_eq!(equal, Limit { limit: 10_100, median: 10_000, min: 10_000, max: 10_000 });
    let apart = Limit::of(&[10_000, 10_050, 10_400], 100.0).unwrap();
    assert_eq!(apart, Limit { limit: 10_800, median: 10_050, min: 10_000, max: 10_400 });
    assert!((apart.resolution() - 0.0746).abs() < 1e-3);
    assert_eq!(Limit::of(&[], 1.0), None);
}

#[test]
fn the_same_figures_pass_and_a_twentieth_more_does_not() {
    let runs = vec![reading(10_000, 40 << 20, 4000); 10];
    let budget = budget(&runs);
    assert!(!Checked::new(&budget, runs[..3].to_vec()).over);
    let more = Checked::new(&budget, vec![reading(10_500, 40 << 20, 4500); 3]);
    let over: Vec<&str> = more.figures.iter().filter(|one| one.over).map(|one| one.figure.as_str()).collect();
    assert_eq!(over, ["faults", "again_bytes", "kinds.heap_first_write"]);
    assert!((more.figures[0].growth() - 0.05).abs() < 1e-9);
    let rss = Checked::new(&budget, vec![reading(10_000, 42 << 20, 4000); 3]);
    assert!(rss.over && rss.figures[1].over && !rss.figures[0].over);
}

#[test]
fn one_odd_run_of_three_is_no_alarm() {
    let budget = budget(&vec![reading(10_000, 40 << 20, 4000); 10]);
    let [same, odd] = [10_000, 13_000].map(|faults| reading(faults, 40 << 20, 4000));
    assert!(!Checked::new(&budget, vec![same.clone(), odd.clone(), same.clone()]).over);
    assert!(Checked::new(&budget, vec![odd.clone(), same, odd]).over);
}

#[test]
fn a_kind_that_the_budget_lacks_may_not_appear_in_numbers() {
    let budget = budget(&vec![reading(10_000, 40 << 20, 4000); 10]);
    let mut shifted = reading(10_000, 40 << 20, 4000);
    shifted.kinds = [(Kind::HeapFirstWrite, 4000), (Kind::FileRead, 5000), (Kind::CowAfterFork, 1000)].into();
    let found = Checked::new(&budget, vec![shifted; 3]);
    let over: Vec<&str> =
        found.figures.iter().filter(|one| one.over).map(|one| one.figure.as_str()).collect();
    assert_eq!(over, ["kinds.cow_after_fork"]);
}

#[test]
fn the_site_that_grew_is_named_first_and_those_that_did_not_are_not() {
    let budget = budget(&vec![reading(10_000, 40 << 20, 4000); 10]);
    let now = [("grow <- main", 4480), ("parse <- main", 5002), ("new <- main", 90), ("tiny <- main", 3)];
    let sites = now.map(|(name, faults)| (name.to_owned(), faults)).into();
    let found = Checked::new(&budget, vec![reading(10_575, 40 << 20, 4575); 3]).with_sites(&budget, &sites);
    let names: Vec<&str> = found.growth.iter().map(|growth| growth.site.as_str()).collect();
    assert_eq!(names, ["grow <- main", "new <- main"]);
    assert_eq!((found.growth[0].before, found.growth[0].now), (4000, 4480));
}

#[test]
fn another_host_is_told_by_what_differs() {
    let mut budgets = Budgets::default();
    budgets.put(budget(&[reading(10_000, 40 << 20, 4000)]));
    assert!(budgets.find("prog a b", &facts()).unwrap().1.is_empty());
    assert!(budgets.find("other", &facts()).is_none());
    let other = Facts { kernel: "6.1".into(), processors: 4, ..facts() };
    let (_, differs) = budgets.find("prog a b", &other).unwrap();
    assert!(other.is_comparable(&facts()) && !Facts { page_bytes: 65536, ..facts() }.is_comparable(&facts()));
    assert_eq!(differs, ["kernel 6.1 instead of 6.12", "processors 4 instead of 2"]);
    let mut here = budget(&[reading(9_000, 40 << 20, 4000)]);
    budgets.put(here.clone());
    assert_eq!(budgets.budgets.len(), 1, "the same host: replaced");
    here.host = other;
    budgets.put(here);
    assert_eq!(budgets.budgets.len(), 2);
}

#[test]
fn a_budget_of_another_host_has_more_room_and_a_site_that_grew_exceeds_it() {
    let budget = budget(&vec![reading(10_000, 40 << 20, 4000); 10]);
    let of = |faults: u64, grow: u64| {
        let sites = [("grow <- main", grow), ("parse <- main", 5100), ("_dl_start", 90)];
        let sites = sites.map(|(name, faults)| (name.to_owned(), faults)).into();
        let runs = vec![reading(faults, 40 << 20, 4000); 3];
        let found = Checked::elsewhere(&budget, runs, &sites, &["kernel 6.1 instead of 6.12".into()]);
        let over = found.figures.into_iter().filter(|figure| figure.over).map(|figure| figure.words);
        (over.collect::<Vec<_>>(), found.notes.join(" "))
    };
    let (over, notes) = of(10_600, 4100);
    assert!(over.is_empty() && notes.contains("kernel 6.1 instead of 6.12"), "{over:?} {notes}");
    assert_eq!(of(10_700, 4700).0, ["grow <- main"]);
    assert_eq!(of(11_500, 4100).0, ["faults"]);
}

#[test]
fn a_bad_file_is_told_by_its_line() {
    let said = |text: &str| Budgets::parse(text).unwrap_err();
    assert!(said("version = 2").starts_with("version 2 of the budget file"), "{}", said("version = 2"));
    let missing = said("version = 1\n[[budget]]\nname = \"a\"\n");
    assert!(missing.starts_with("line 2: missing field"), "{missing}");
    assert!(said("version = 1\nbudgets = 3\n").contains("unknown field"));
    assert!(said("").contains("missing field `version`"));
    assert!(said("{").contains("--update"));
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        values in proptest::collection::vec((1_u64..1 << 40, 1_u64..1 << 40, 0_u64..1 << 30), 1..12),
        name in "\\PC*|[\\x00-\\x7f]*",
        site in "\\PC*|[\\x00-\\x7f]*",
    ) {
        let runs: Vec<Reading> = values.iter().map(|&(faults, rss, heap)| reading(faults, rss, heap)).collect();
        let mut found = budget(&runs);
        found.name = name;
        found.sites.insert(site, 7);
        let mut budgets = Budgets::default();
        budgets.put(found);
        prop_assert_eq!(Budgets::parse(&budgets.text()).unwrap(), budgets);
    }

    #[test]
    fn no_text_breaks_the_parser(text in "\\PC*") {
        let _ = Budgets::parse(&text);
        let _ = Budgets::parse(&format!("version = 1\n{text}"));
    }
}
