//! The claim files, and the claims on records that have the documents' own figures.

use std::collections::{BTreeMap, BTreeSet};

use super::formula::{Formula, Samples, Value};
use super::*;
use crate::cell::Cell;
use crate::record::Row;
use crate::renamed;
use crate::results::Results;

mod any_data;
mod mended;
mod modelled;

/// A value of a cell in any version's names: round, phase, quantity, value.
fn row(cell: &str, round: u32, phase: &str, quantity: &str, value: f64) -> Row {
    let (old, words) = cell.split_once(' ').unwrap();
    let cell = renamed::cell(&Cell::parse(old, words.split(' ')).unwrap());
    Row {
        cell: cell.words().join(" "),
        experiment: cell.experiment,
        round,
        phase: renamed::phase(old, phase).into(),
        quantity: quantity.into(),
        value,
    }
}

/// The same value in this many rounds, a little more in each.
fn rounds(count: u32, cell: &str, phase: &str, quantity: &str, value: f64) -> Vec<Row> {
    let value_of = |round: u32| value * (1.0 + f64::from(round) / 1e4);
    (1..=count).map(|round| row(cell, round, phase, quantity, value_of(round))).collect()
}

fn exactly(count: u32, cell: &str, phase: &str, quantity: &str, value: f64) -> Vec<Row> {
    (1..=count).map(|round| row(cell, round, phase, quantity, value)).collect()
}

fn results(rows: &[Vec<Row>]) -> Results {
    Results::of(rows.concat()).unwrap()
}

fn judged(id: &str, results: &Results) -> Finding {
    all().unwrap().iter().find(|claim| claim.id == id).unwrap().judge(results)
}

fn verdict(id: &str, results: &Results) -> Verdict {
    judged(id, results).verdict
}

/// A file with one claim and two arms.
fn file(claim: &str) -> String {
    format!(
        "[arms]\na = \"touch threads=1\"\nb = \"touch threads=2\"\n\n[[claim]]\nid = \"c\"\nsays = \"\"\nquote = \"q\"\nfigure = \"\"\n\
         experiment = \"touch\"\n{claim}\n"
    )
}

fn read(text: &str) -> Result<Vec<Claim>, String> {
    file::read("f.toml", crate::Document::Oops, text)
}

#[test]
fn every_file_is_right_and_every_claim_has_a_name_of_its_own() {
    let claims = all().unwrap();
    let names: BTreeSet<_> = claims.iter().map(|claim| &claim.id).collect();
    assert_eq!((names.len(), claims.len()), (165, 165));
}

#[test]
fn an_empty_record_says_nothing() {
    let nothing = Results::default();
    for claim in all().unwrap() {
        let finding = claim.judge(&nothing);
        assert_eq!(finding.verdict, Verdict::CannotSay, "{}", claim.id);
        assert!(finding.why.contains("decided by"), "{} {}", claim.id, finding.why);
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let wrong = |claim: &str, expected: &str| {
        let error = read(&file(claim)).unwrap_err();
        assert!(error.starts_with("f.toml:") && error.contains(expected), "{error}");
        error.split(':').nth(1).unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(wrong("judge = \"bounds\"\nmeasure = \"a.b.c / \"\nlow = 1", "ends too early"), 5);
    assert_eq!(wrong("judge = \"bounds\"\nhihg = 1.0", "hihg"), 12);
    wrong("judge = \"bounds\"\nmeasure = \"z.first.wall_ns\"\nlow = 1.0", "z is no arm");
    wrong("judge = \"bounds\"\nmeasure = \"a.first.wall_ns\"", "needs `low` or `high`");
    let measured = "measure = \"a.first.wall_ns\"";
    wrong(&format!("judge = \"bounds\"\n{measured}\nlow = 2.0\nhigh = 1.0"), "lies above");
    wrong("judge = \"bounds\"\nmeasure = \"a.threads\"\nlow = 1.0", "has no samples");
    wrong("judge = \"not-measured\"", "needs `decides`");
    wrong("judge = \"not-comparable\"", "needs `decides`");
    let undecided = "no_verdict = [{ where = \"a.threads < 1\", say = \"too few\" }]";
    wrong(&format!("judge = \"bounds\"\n{measured}\nlow = 1.0\n{undecided}"), "decided by");
    wrong("judge = \"bounds\"\nmeasure = \"mean(1)\"\nlow = 1.0", "mean is no function");
    wrong("judge = \"bounds\"\nmeasure = \"ratio(1)\"\nlow = 1.0", "does not take 1");
    wrong(&format!("judge = \"effect\"\n{measured}"), "needs `times`");
    wrong("judge = \"bound\"", "bound is no judge");
    wrong("judge = \"not-measured\"\nwhy = \"{b}\"", "{b} is no term");
    let modelled = |more: &str| {
        format!(
            "judge = \"not-measured\"\ndecides = \"\"\n[claim.modelled]\nunit = \"\"\nmeasure = \"1\"\n{more}"
        )
    };
    wrong(&modelled("judge = \"bounds\"\nlow = 1.0\nrests_on = \"\""), "rests_on");
    wrong(&modelled("judge = \"effect\"\nlow = 1.0\nrests_on = \"r\""), "effect is no judge of a model");
    wrong(&modelled("judge = \"bounds\"\nrests_on = \"r\""), "needs `low` or `high`");
    let unquoted = file("judge = \"not-measured\"").replace("\"q\"", "\" \"");
    assert!(read(&unquoted).unwrap_err().contains("needs a quote"));
    let unknown = "[arms]\na = \"tuoch threads=1\"\n[[claim]]\nid = \"c\"\nsays = \"\"\nquote = \"q\"\nfigure = \"\"\nexperiment = \"touch\"\n\
                   judge = \"not-measured\"";
    assert_eq!(read(unknown).unwrap_err(), "f.toml:2: tuoch is no experiment");
}

#[test]
fn a_term_that_names_itself_is_refused() {
    let terms = BTreeMap::from([("t".to_owned(), "1 + t".to_owned())]);
    assert!(Formula::parse("t", &terms).unwrap_err().contains("defined by itself"));
}

/// Two cells, each without one round, in a record in which every round is twice as slow as the one before.
fn with_gaps() -> Results {
    let rows = |cell, times: f64, gap| {
        let of_round = |round: u32| row(cell, round, "first", "wall_ns", times * f64::from(1 << round));
        (1..=9).filter(|round| *round != gap).map(of_round).collect::<Vec<_>>()
    };
    results(&[rows("touch threads=1", 3.0, 1), rows("touch threads=2", 1.0, 9)])
}

#[test]
fn samples_pair_by_round_and_a_round_of_one_cell_is_left_out() {
    let text = file(
        "judge = \"bounds\"\nmeasure = \"ratio(a.first.wall_ns, b.first.wall_ns)\"\nunit = \"times\"\nlow = 2.9\nhigh = 3.1",
    );
    let paired = read(&text).unwrap()[0].judge(&with_gaps());
    // By order, the second round of one would be held against the first of the other: 6 times.
    assert_eq!((paired.verdict, paired.ours.as_str()), (Verdict::Reproduced, "3.00 times"));
}

#[test]
fn formulas_are_computed_round_by_round() {
    let found = results(&[
        exactly(2, "touch mib=1 threads=1", "first", "wall_ns", 6.0),
        exactly(2, "touch mib=1 threads=2", "first", "wall_ns", 2.0),
        exactly(2, "touch mib=1 threads=2", "first", "own_wall_ns", 1.5),
        exactly(2, "touch mib=2 threads=1", "first", "wall_ns", 8.0),
    ]);
    let written = [
        ("a", "touch threads=1 mib=least"),
        ("b", "touch threads>=2"),
        ("large", "touch mib=most"),
        ("alike", "touch threads=@b"),
        ("both", "touch mib=1 threads=each"),
        ("none", "touch mib=7"),
    ];
    let arms: BTreeMap<_, _> =
        written.into_iter().map(|(name, arm)| (name.to_owned(), arm.parse().unwrap())).collect();
    let samples = Samples::new(&found, &arms);
    let terms = BTreeMap::from([("twice".to_owned(), "a.first.wall_ns + a.first.wall_ns".to_owned())]);
    let value = |text: &str| samples.value(&Formula::parse(text, &terms).unwrap());
    let number = |text: &str| samples.number(&Formula::parse(text, &terms).unwrap());
    assert_eq!(value("a.first.wall_ns"), Some(Value::Rounds([(1, 6.0), (2, 6.0)].into_iter().collect())));
    assert_eq!(number("1 + 2 * 3 - 4 / 2"), Some(5.0));
    assert_eq!(number("(1 + 2) * 3"), Some(9.0));
    assert_eq!(number("2 * twice"), Some(24.0), "a term is one value");
    assert_eq!(number("large.first.wall_ns"), Some(8.0));
    assert_eq!(number("b.threads + alike.threads"), Some(4.0));
    assert_eq!(number("b.first.thread_wall_ns"), Some(1.5));
    assert_eq!(number("a.first.thread_wall_ns"), Some(6.0));
    assert_eq!(number("highest(12 / both.first.wall_ns)"), Some(6.0));
    assert_eq!(number("fastest(both.first.wall_ns, both.threads)"), Some(2.0));
    assert_eq!(number("both.every.wall_ns"), Some(6.0), "the largest of each round");
    assert_eq!(number("max(a.first.wall_ns, b.first.wall_ns, 7)"), Some(7.0));
    assert_eq!((number("none.first.wall_ns"), number("or(none.first.wall_ns, 4)")), (None, Some(4.0)));
    assert_eq!((number("ratio(a.first.wall_ns, 0)"), number("over(0 - 1, 2)")), (None, Some(-0.5)));
    assert_eq!(number("a.pages * page_bytes"), number("a.bytes"));
}

mod queue {
    use super::*;

    /// Eight rounds of a pipeline with eight workers.
    fn pipeline(memory: &str, wall_ms: f64, mib: f64) -> Vec<Row> {
        let cell = format!("chunks memory={memory} workers=8 queue=8 chunks=932");
        let faults = mib * 1_048_576.0 / faultless_os::page::size() as f64;
        let walls = (1..=8).map(|round: u32| {
            row(&cell, round, "timed", "wall_ns", (wall_ms + f64::from(round) / 10.0) * 1e6)
        });
        [
            walls.collect(),
            exactly(8, &cell, "timed", "processors", 8.0),
            exactly(8, &cell, "timed", "minor_faults", faults),
            exactly(8, &cell, "price", "price_bytes", 1_048_576.0),
            exactly(8, &cell, "price", "wall_ns", 175_000.0),
        ]
        .concat()
    }

    /// 600 MB against 100 MB, as the document has it.
    fn document() -> Vec<Row> {
        [pipeline("mmap", 204.0, 600.0), pipeline("pool", 120.0, 100.0)].concat()
    }

    #[test]
    fn the_documents_own_figures_reproduce_its_argument() {
        let finding = judged("queue-explains-8", &results(&[document()]));
        assert_eq!(finding.verdict, Verdict::Reproduced, "{finding:?}");
        assert!(finding.ours.contains("84.0 ms for 87.5 ms"), "{finding:?}");
        let found = judged("queue-win32-8", &results(&[document()]));
        assert!(found.ours.starts_with("1.70 times"), "{found:?}");
    }

    #[test]
    fn a_pool_that_saves_more_than_there_holds_and_one_that_saves_nothing_does_not() {
        let judged = |mmap_ms| {
            judged(
                "queue-win32-8",
                &results(&[pipeline("mmap", mmap_ms, 582.5), pipeline("pool", 120.0, 29.125)]),
            )
        };
        assert_eq!(
            [204.0, 500.0, 125.0].map(|ms| judged(ms).verdict),
            [Verdict::Reproduced, Verdict::Reproduced, Verdict::Refuted]
        );
        let why = judged(204.0).why;
        assert!(why.starts_with("faults per page: mmap 1.00, pool 0.05"), "{why}");
    }

    #[test]
    fn two_workers_can_not_tell_about_eight() {
        let with = |workers: u32| {
            let cell =
                |memory: &str, workers| format!("chunks memory={memory} workers={workers} queue=8 chunks=8");
            results(&[
                rounds(8, &cell("pool", 1), "timed", "wall_ns", 1e6),
                rounds(8, &cell("pool", workers), "timed", "wall_ns", 9e5),
                exactly(8, &cell("pool", workers), "timed", "processors", f64::from(workers)),
            ])
        };
        assert_eq!(verdict("queue-scaling", &with(8)), Verdict::Refuted);
        let few = judged("queue-scaling", &with(7));
        assert_eq!((few.verdict, &few.ours[..4]), (Verdict::CannotSay, "1.11"));
        assert!(few.why.contains("ours has 7"), "{}", few.why);
    }

    #[test]
    fn threads_that_wait_for_a_processor_prove_no_lock() {
        let cell = "chunks memory=mmap workers=8 queue=8 chunks=932";
        let busy = exactly(8, cell, "machine", "others_share", 0.6);
        assert_eq!(verdict("queue-explains-8", &results(&[document(), busy])), Verdict::CannotSay);
    }

    #[test]
    fn cells_that_are_missing_say_nothing() {
        let finding = judged("queue-explains-1", &results(&[document()]));
        assert_eq!((finding.verdict, finding.ours.as_str()), (Verdict::CannotSay, ""));
    }

    #[test]
    fn blocks_that_cost_by_their_pages_cost_the_same_per_page() {
        let cell = |kib: u32, ns_per_page: f64| {
            let cell = format!("threshold allocator=glibc-fixed kib={kib}");
            let pages = f64::from(kib) / 4.0;
            [
                exactly(1, &cell, "later", "wall_ns", 2.0 * pages * ns_per_page),
                exactly(1, &cell, "later", "cycles", 2.0),
                exactly(1, &cell, "later", "pages_per_cycle", pages),
            ]
            .concat()
        };
        let found = judged("queue-grows", &results(&[cell(640, 1600.0), cell(40_960, 1760.0)]));
        assert!(found.ours.starts_with("1.10 times"), "{found:?}");
    }
}

mod hardware {
    use super::*;

    /// One thread needs so many ns of CPU time for the first and the second touch of each page.
    fn touches(first_ns: f64, second_ns: f64) -> Results {
        let pages = (64 << 20) as f64 / faultless_os::page::size() as f64;
        let cell = "touch access=write mib=64 threads=1 lock=no mappers=0 flush=no";
        results(&[
            rounds(3, cell, "first", "own_cpu_ns", first_ns * pages),
            rounds(3, cell, "second", "own_cpu_ns", second_ns * pages),
        ])
    }

    #[test]
    fn a_second_touch_that_was_made_takes_time() {
        let of = |second_ns| verdict("hardware-second-touch", &touches(700.0, second_ns));
        assert_eq!([5.0, 0.1].map(of), [Verdict::Refuted, Verdict::Reproduced]);
    }

    #[test]
    fn a_price_of_windows_is_not_refuted_by_ours_but_a_relation_is() {
        let found = touches(700.0, 25.0);
        assert_eq!(verdict("hardware-first-touch", &found), Verdict::CannotSay);
        assert!(judged("hardware-touch-written", &found).why.starts_with("not comparable: "));
        assert_eq!(verdict("hardware-30-times", &found), Verdict::Reproduced);
        assert_eq!(verdict("hardware-30-times", &touches(100.0, 25.0)), Verdict::Refuted);
    }

    #[test]
    fn the_largest_size_is_the_one_that_is_judged() {
        let rows = |mib: u32| {
            let cell = format!("touch access=write mib={mib} threads=1 lock=no mappers=0 flush=no");
            exactly(3, &cell, "first", "own_cpu_ns", f64::from(mib * mib) * 1e6)
        };
        let us_per_page = 512_000.0 * 512.0 / ((512 << 20) / faultless_os::page::size()) as f64;
        let found = judged("hardware-first-touch", &results(&[rows(64), rows(512)]));
        assert!(found.ours.starts_with(&finding::short(us_per_page)), "{found:?}");
    }

    fn copies(ns: &[(u32, f64)], phase: &str) -> Vec<Row> {
        let cell = |threads| format!("copy kind=copy mib=1 threads={threads}");
        ns.iter().flat_map(|(threads, ns)| exactly(3, &cell(threads), phase, "wall_ns", *ns)).collect()
    }

    #[test]
    fn the_best_of_all_numbers_of_threads_is_taken_round_by_round() {
        let rows = [copies(&[(1, 1000.0), (2, 500.0)], "warm"), copies(&[(1, 1000.0), (2, 2000.0)], "cold")];
        let found = results(&rows);
        assert_eq!(judged("hardware-copy-i7", &found).ours, "2,097 GB/s");
        assert_eq!(judged("hardware-creators-peak", &found).ours, "0.50 times");
    }

    #[test]
    fn new_memory_that_comes_a_page_at_a_time_is_not_64_kib() {
        let of = |faults| {
            results(&[exactly(3, "price kind=touch page=64k mib=16", "timed", "minor_faults", faults)])
        };
        assert_eq!(verdict("hardware-64k", &of(256.0)), Verdict::Reproduced);
        assert_eq!(verdict("hardware-64k", &of(4096.0)), Verdict::Refuted);
        let cell = "filemap how=fault cache=warm mib=16 threads=1";
        let finding = judged("hardware-64k", &results(&[exactly(3, cell, "first", "minor_faults", 256.0)]));
        assert_eq!(finding.verdict, Verdict::CannotSay);
        assert!(finding.ours.contains("of a file"), "{finding:?}");
    }

    fn touched(processors: f64, ns: &[(u32, f64)]) -> Results {
        let cell = |threads| format!("touch access=write mib=1 threads={threads} lock=no mappers=0 flush=no");
        let mut rows: Vec<_> =
            ns.iter().map(|(threads, ns)| exactly(3, &cell(threads), "first", "wall_ns", *ns)).collect();
        rows.push(exactly(3, &cell(&1), "setup", "processors", processors));
        results(&rows)
    }

    #[test]
    fn with_four_processors_the_document_was_faster_too() {
        let of = |count: u32| {
            verdict("hardware-touch-degrades", &touched(f64::from(count), &[(1, 100.0), (count, 70.0)]))
        };
        assert_eq!([4, 8].map(of), [Verdict::CannotSay, Verdict::Refuted]);
    }

    #[test]
    fn few_processors_can_not_tell_about_many_threads() {
        let walls = [(1, 100.0), (4, 20.0), (10, 30.0), (16, 25.0)];
        let few = judged("hardware-touch-4", &touched(2.0, &walls));
        assert!(few.why.contains("decided by 5 processors") && few.ours.is_empty(), "{few:?}");
        let many = judged("hardware-touch-4", &touched(16.0, &walls));
        assert_eq!((many.verdict, many.ours.as_str()), (Verdict::Reproduced, "4.00 threads"));
        // Two numbers of threads that are fastest in every other round.
        let cell = |threads| format!("touch access=write mib=1 threads={threads} lock=no mappers=0 flush=no");
        let changing = |threads: u32, odd: f64, even: f64| {
            let wall = |round: u32| if round.is_multiple_of(2) { even } else { odd };
            (1..=9)
                .map(|round| row(&cell(threads), round, "first", "wall_ns", wall(round)))
                .collect::<Vec<_>>()
        };
        let noted = exactly(9, &cell(1), "setup", "processors", 16.0);
        let uncertain =
            results(&[changing(1, 9.0, 9.0), changing(4, 1.0, 2.0), changing(16, 2.0, 1.0), noted]);
        assert_eq!(verdict("hardware-touch-4", &uncertain), Verdict::CannotSay);
    }
}

mod prefault {
    use super::*;

    #[test]
    fn the_reports_own_figures_reproduce_its_claims() {
        let way = |name: &str, seconds: f64, faults: f64| {
            let cell = format!("prefault way={name} operations=1000000");
            let rows = [
                rounds(8, &cell, "timed", "wall_ns", seconds * 1e9),
                exactly(8, &cell, "timed", "minor_faults", faults),
            ];
            rows.concat()
        };
        let found = results(&[way("none", 0.249, 132_507.0), way("memset", 0.269, 132_831.0)]);
        for id in ["prefault-memset-slower", "prefault-memset-faults", "prefault-off-faults"] {
            assert_eq!(verdict(id, &found), Verdict::Reproduced, "{id}");
        }
        let rate = judged("prefault-baseline-rate", &found);
        assert_eq!(rate.verdict, Verdict::CannotSay);
        assert!(rate.ours.starts_with("4.01 M/s"), "{}", rate.ours);
    }

    #[test]
    fn resident_memory_refutes_that_populating_is_broken() {
        let cell = "prefault way=map-populate operations=1000000";
        let of = |quantity| exactly(3, cell, "look", quantity, 100.0);
        let finding = judged("prefault-map-populate", &results(&[of("mapped_bytes"), of("resident_bytes")]));
        assert_eq!((finding.verdict, finding.ours.as_str()), (Verdict::Refuted, "100 % resident"));
    }
}

mod prezeroing {
    use super::*;

    /// Three rounds of an arm: ns per page of the timed phase.
    fn arm(arm: &str, threads: u32, lines: u32, ns: f64) -> Vec<Row> {
        let cell = format!("fault-rate arm={arm} mib=64 threads={threads} lines={lines}");
        let pages = 1000.0;
        let of = |quantity, value| exactly(3, &cell, "timed", quantity, value * pages);
        [of("pages", 1.0), of("wall_ns", ns), of("user_ns", 0.1 * ns), of("system_ns", 0.9 * ns)].concat()
    }

    /// The document's own figures, per page of 16 KiB.
    fn theirs() -> Results {
        let arms = |threads, fault, zeroing| {
            let ns = [("kernel", fault), ("on-get", zeroing + 100.0), ("ahead", 100.0)];
            ns.map(|(name, ns)| arm(name, threads, 1, ns)).concat()
        };
        results(&[arms(1, 14_371.0, 10_641.0), arms(2, 10_137.0, 6349.0), arms(4, 7372.0, 3595.0)])
    }

    #[test]
    fn the_documents_own_figures_reproduce_what_ran_here_and_nothing_else() {
        let found = theirs();
        assert_eq!(verdict("prezero-without-2-wall", &found), Verdict::Reproduced);
        // No kernel that zeroes ahead ran, whatever the difference of the arms says.
        for id in ["first-pair", "gain-1", "with-2-wall", "gain-2"].map(|id| format!("prezero-{id}")) {
            assert_eq!(verdict(&id, &found), Verdict::CannotSay, "{id} {:?}", judged(&id, &found));
        }
        let rate = judged("prezero-rate-without", &found);
        assert_eq!((rate.verdict, rate.ours.as_str()), (Verdict::CannotSay, "69.6 thousand flt/cpu/s"));
    }

    #[test]
    fn threads_beyond_the_processors_tell_nothing() {
        let found = judged("prezero-gain-4", &theirs());
        assert_eq!(found.verdict, Verdict::CannotSay);
        assert!(found.why.contains("decided by 4 processors; 2 are here"), "{}", found.why);
    }

    #[test]
    fn what_zeroing_ahead_saves_is_compared_with_one_line_and_with_all() {
        let arms =
            |lines, on_get, ahead| [arm("on-get", 1, lines, on_get), arm("ahead", 1, lines, ahead)].concat();
        let of = |on_get_full| {
            let found = results(&[arms(1, 700.0, 100.0), arms(64, on_get_full, 1000.0)]);
            verdict("prezero-no-gain-when-full", &found)
        };
        // 600 ns are saved with one line: 50, nothing, less than nothing, or 500 of them with all.
        assert_eq!(
            [1050.0, 1000.0, 900.0, 1500.0].map(of),
            [Verdict::Reproduced, Verdict::Reproduced, Verdict::Reproduced, Verdict::Refuted]
        );
    }

    #[test]
    fn zeroing_is_held_against_the_largest_other_part_of_a_fault() {
        let of = |zeroing: f64| {
            let shares = [("zeroing_share", zeroing), ("page_table_share", 0.2), ("locks_share", 0.5)];
            let rows =
                shares.map(|(name, share)| exactly(3, "phases page=base samples=450", "names", name, share));
            judged("prezero-zeroing-largest", &results(&rows))
        };
        assert_eq!(of(0.3).verdict, Verdict::Reproduced);
        assert_eq!(of(0.05).verdict, Verdict::Refuted);
        let cell = "phases page=base samples=450";
        let share = |name, odd: f64, even: f64| {
            let of = |round: u32| if round.is_multiple_of(2) { even } else { odd };
            (1..=9).map(|round| row(cell, round, "names", name, of(round))).collect::<Vec<_>>()
        };
        let across = results(&[share("zeroing_share", 0.3, 0.2), share("page_table_share", 0.2, 0.3)]);
        assert_eq!(verdict("prezero-zeroing-largest", &across), Verdict::CannotSay);
        assert!(of(0.05).why.starts_with("a fault is locks 50.0 %, page table 20.0 %, zeroing 5.00 %"));
        // Each lock is a part of the locks, and what was not measured is not mentioned.
        let cell = "phases page=base threads=1 samples=5000";
        let lock = exactly(3, cell, "names", "zone_lock_share", 0.4);
        let zeroing = exactly(3, cell, "names", "zeroing_share", 0.3);
        let found = judged("prezero-zeroing-dominates", &results(&[zeroing, lock]));
        assert!(found.why.starts_with("a fault is zeroing 30.0 %; there 10,641"), "{}", found.why);
    }

    #[test]
    fn the_wall_column_is_refuted_by_the_documents_own_rates() {
        let found = judged("prezero-wall-column", &theirs());
        assert_eq!(found.verdict, Verdict::Refuted);
        assert!(found.ours.starts_with("11.3 7.97 5.80 4.37 0.13 2.93 2.98 2.97 3.55"), "{}", found.ours);
        assert!(judged("prezero-wall-column-lines", &theirs()).ours.ends_with("0.39 0.64 s"));
    }

    #[test]
    fn half_of_an_effect_counts_and_so_does_more() {
        let of = |times: f64| {
            let text = file("judge = \"effect\"\nmeasure = \"a.first.wall_ns\"\ntimes = 1.69");
            let found = results(&[exactly(3, "touch threads=1", "first", "wall_ns", times)]);
            read(&text).unwrap()[0].judge(&found).verdict
        };
        assert_eq!([1.29, 1.31, 9.0].map(of), [Verdict::Refuted, Verdict::Reproduced, Verdict::Reproduced]);
    }

    #[test]
    fn a_loss_is_neither_none_nor_twice_as_much() {
        let of = |share: f64, left: f64| {
            let text = file(&format!("judge = \"loss\"\nmeasure = \"a.first.wall_ns\"\ntimes = {share}"));
            let found = results(&[exactly(3, "touch threads=1", "first", "wall_ns", left)]);
            read(&text).unwrap()[0].judge(&found).verdict
        };
        for share in [0.848, 0.694, 0.515, 0.339, 0.204] {
            assert_eq!(of(share, share), Verdict::Reproduced, "{share}");
            assert_eq!(of(share, 1.0), Verdict::Refuted, "{share}");
            assert_eq!(of(share, (share * share - 0.06).max(0.001)), Verdict::Refuted, "{share}");
        }
        // What loses hardly anything there may lose nothing here.
        assert_eq!(of(0.985, 1.0), Verdict::Reproduced);
    }
}

mod oops {
    use super::*;

    fn phase(array: &str, stride: u32, phase: &str, [ms, faults]: [f64; 2]) -> Vec<Row> {
        let cell = format!("stride array={array} mib=256 stride={stride}");
        [
            rounds(3, &cell, phase, "wall_ns", ms * 1e6),
            exactly(3, &cell, phase, "minor_faults", faults),
            exactly(3, &cell, phase, "major_faults", 0.0),
        ]
        .concat()
    }

    /// The document's figures; some faults of the program's own go with the first loop.
    fn document(second_faults: f64) -> Results {
        let pages = 65_536.0 * 4096.0 / faultless_os::page::size() as f64;
        let mut all = vec![
            phase("shared", 1, "setup", [0.1, 0.0]),
            phase("shared", 1, "first", [368.0, 2.0 * pages + 73.0]),
            phase("shared", 1, "second", [32.0, second_faults]),
        ];
        for (stride, zeroed, ones, prefaulted) in [(1, 377.0, 29.0, 26.0), (16, 359.0, 26.0, 23.0)] {
            all.push(phase("zeroed", stride, "setup", [0.1, 0.0]));
            let zeroed_cell = format!("stride array=zeroed mib=256 stride={stride}");
            for (quantity, bytes) in [("mapped_bytes", 256e6), ("resident_bytes", 0.0)] {
                all.push(exactly(3, &zeroed_cell, "setup", quantity, bytes));
            }
            all.push(phase("zeroed", stride, "timed", [zeroed, 2.0 * pages + 37.0]));
            all.push(phase("ones", stride, "setup", [100.0, pages + 37.0]));
            all.push(phase("ones", stride, "timed", [ones, 0.0]));
            all.push(phase("prefaulted", stride, "setup", [100.0, pages]));
            all.push(phase("prefaulted", stride, "timed", [prefaulted, 0.0]));
            for array in ["ones", "prefaulted"] {
                let cell = format!("stride array={array} mib=256 stride={stride}");
                all.push(exactly(3, &cell, "check", "cpu_ns", 1e7));
            }
        }
        results(&all)
    }

    #[test]
    fn the_documents_own_figures_reproduce_its_claims() {
        let found = document(0.0);
        for claim in all().unwrap().iter().filter(|claim| claim.document == crate::Document::Oops) {
            let finding = claim.judge(&found);
            let expected = match claim.id.as_str() {
                "oops-line" | "oops-fault-rate" | "oops-igor" => Verdict::CannotSay,
                _ => Verdict::Reproduced,
            };
            assert_eq!(finding.verdict, expected, "{} {finding:?}", claim.id);
        }
    }

    #[test]
    fn a_second_stride_that_faults_refutes_that_it_is_free() {
        let found = document(2000.0);
        assert_eq!(verdict("oops-second-stride-free", &found), Verdict::Refuted);
        assert_eq!(verdict("oops-shared-faults", &found), Verdict::Refuted);
    }
}
