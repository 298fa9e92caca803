//! Runs with known changes: the diff names exactly these, and nothing if nothing changed.

use faultless_trace::diff::{BeforeAfter, By, COUNTED, Cause, Class, Diff, Pair, Run, Settings};
use faultless_trace::measurement::Rng;
use faultless_trace::observation::Window;
use faultless_trace::profile::Block;
use faultless_trace::recording::Loss;
use faultless_trace::stat::{Interval, Kind};

use super::recorded;
use super::runs::{Conditions, QUIET, Site, counted, program, run, site, with_basis};
use super::scenario::{ANON, PAGE};

/// One function removed (`index`), one called twice as often (`decode`), one with doubled price (`load`), one
/// added.
fn other_build() -> Vec<Site> {
    let mut sites = program();
    sites[0].faults *= 2;
    sites[3].price_ns *= 2.0;
    sites[2] = site(&["rank", "search", "main"], 1_000, 800.0);
    sites
}

fn named(diff: &Diff) -> Vec<(&str, Class, Option<Cause>)> {
    let changed = diff.rows.iter().filter(|row| row.class != Class::Unchanged);
    let mut named: Vec<_> = changed.map(|row| (row.name.as_str(), row.class, row.cause)).collect();
    named.sort_by_key(|row| row.0);
    named
}

fn diff(before: &[Run], after: &[Run]) -> Diff {
    Diff::new(before, after, &Settings::default()).unwrap()
}

/// Noise of a shared machine: the common price drifts, single prices vary a little, counts hardly.
fn shared_machine(seed: u64, period: u32) -> Conditions {
    machine(seed, period, (0.01, 0.05))
}

fn machine(seed: u64, period: u32, apart: (f64, f64)) -> Conditions {
    let mut rng = Rng::from_seed(seed.wrapping_mul(77) + 5);
    let price = 0.85 + 0.3 * rng.below(1000) as f64 / 1000.0;
    let calibrated = price * (0.95 + 0.1 * rng.below(1000) as f64 / 1000.0);
    Conditions { seed, period, price, calibrated, apart }
}

#[test]
fn what_was_added_removed_and_made_slower_is_named_and_nothing_else() {
    let expected = [
        ("decode <- work", Class::Grown, Some(Cause::Faults)),
        ("index <- main", Class::Removed, None),
        ("load <- main", Class::Grown, Some(Cause::Price)),
        ("rank <- search", Class::Added, None),
    ];
    for period in [1, 7] {
        let runs = |sites: &[Site], seeds: std::ops::Range<u64>| -> Vec<Run> {
            seeds.map(|seed| run(sites, shared_machine(seed, period))).collect()
        };
        let single = diff(&runs(&program(), 0..1), &runs(&other_build(), 1..2));
        // One recording a side can't tell a changed price from a chance result.
        let counted: Vec<_> = expected.into_iter().filter(|row| row.2 != Some(Cause::Price)).collect();
        assert_eq!(named(&single), counted, "period {period}");
        // Sampled faults have the price of bursts.
        let bursts =
            |sites: &[Site], seeds| runs(sites, seeds).into_iter().map(in_bursts).collect::<Vec<_>>();
        let three = diff(&bursts(&program(), 0..3), &bursts(&other_build(), 3..6));
        assert_eq!(named(&three), expected, "period {period}, three a side");
    }
}

/// The same faults, spread over forty bursts.
fn in_bursts(mut run: Run) -> Run {
    let mut seen = vec![0; run.recording.stacks.stacks.len()];
    for fault in &run.profile.faults {
        seen[fault.stack.unwrap() as usize] += 1_u64;
    }
    let mut next = vec![0; seen.len()];
    for fault in &mut run.profile.faults {
        let stack = fault.stack.unwrap() as usize;
        fault.time_ns = 40_000 * next[stack] / seen[stack];
        next[stack] += 1;
    }
    run.profile.faults.sort_by_key(|fault| fault.time_ns);
    let window = |begin_ns, len_ns, recorded| Window {
        begin_ns,
        end_ns: begin_ns + len_ns,
        faults: 340,
        recorded,
        lost: 0,
    };
    let burst = |at: u64| [window(at * 1000, 1000, true), window(at * 1000 + 1000, 0, false)];
    run.recording.observation.windows = (0..40).flat_map(burst).collect();
    with_basis(run)
}

#[test]
fn a_program_beside_itself_names_nothing() {
    // With repeats the spread may be larger than the assumption without.
    let (small, large) = ((0.01, 0.05), (0.05, 0.15));
    for (period, repeats, apart) in [(1, 1, small), (1, 3, large), (7, 3, large)] {
        for round in 0..4 {
            let runs = |from: u64| -> Vec<Run> {
                (from..from + repeats).map(|seed| run(&program(), machine(seed, period, apart))).collect()
            };
            let found = diff(&runs(round * 100), &runs(round * 100 + 50));
            assert_eq!(named(&found), [], "period {period}, {repeats} a side, round {round}");
        }
    }
}

/// A recording of 7 200 faults by the recorder's rules: all of the first `first`, samples with a period of that recording's own, bursts, and
/// counts that are exact. Five functions touch through one helper, in pieces of unlike length; `added` brings a tenth more.
fn sampled(seed: u64, first: u64, added: bool) -> Run {
    const CALLERS: [(&str, u64); 5] =
        [("parse", 96), ("decode", 72), ("index", 36), ("report", 24), ("store", 12)];
    let mut chance = Rng::from_seed(seed.wrapping_mul(7919) + 1);
    let period = [97, 193, 197, 223, 331][chance.below(5)];
    let price_ns = 800 + 400 * chance.below(1000) as u64 / 1000;
    let made = recorded::Run::new("program", (20_000, 2_000_000), seed);
    let mut made = made.sampled_as(first, period, chance.below(period as usize) as u64);
    // The same in every run: the program's own.
    let mut lengths = Rng::from_seed(5);
    let stacks = CALLERS.map(|(caller, _)| made.stack_of(&["grab", caller, "main"]));
    let new = made.stack_of(&["grab", "export", "main"]);
    for _ in 0..30 {
        let pieces = CALLERS
            .iter()
            .zip(stacks)
            .map(|((_, mean), stack)| (stack, mean / 2 + lengths.below(*mean as usize + 1) as u64));
        let pieces: Vec<(u32, u64)> = pieces.chain(added.then_some((new, 24))).collect();
        for (stack, faults) in pieces {
            for page in 0..faults {
                made.write(1, stack, ANON + page * PAGE, price_ns);
            }
        }
    }
    Run::new(made.finish().0)
}

#[test]
fn one_recording_a_side_names_an_added_caller_first_and_nothing_of_a_program_beside_itself() {
    const PAIRS: u64 = 4;
    let (mut quiet, mut first) = (0, 0);
    for pair in 0..PAIRS {
        let recorded = 1_000 + 400 * pair;
        let before = [sampled(3 * pair, recorded, false)];
        quiet +=
            u64::from(named(&diff(&before, &[sampled(3 * pair + 1, 6_500 - recorded, false)])).is_empty());
        let found = diff(&before, &[sampled(3 * pair + 2, recorded, true)]);
        let Interval { value, low, high } = found.faults.difference;
        assert!(
            (value - 720.0).abs() < 0.01 && low == value && high == value,
            "it was counted: {:?}",
            found.faults
        );
        let row = &found.rows[0];
        let is_right = (row.name.as_str(), row.class) == ("grab <- export", Class::Added);
        let added = row.faults.difference;
        first += u64::from(is_right && added.low < 720.0 && added.high > 720.0);
        adds_up(&found, &before[0]);
        assert_no_news_of_nothing(&found);
    }
    assert!(
        quiet == PAIRS && first == PAIRS,
        "of {PAIRS} pairs {quiet} named nothing, {first} the added caller"
    );
}

/// `cache` begins where each fault is recorded, and goes on where few are.
#[test]
fn an_added_row_has_at_least_the_faults_that_were_recorded() {
    let run = |seed: u64, added: u64| {
        let made = recorded::Run::new("program", (20_000, 20_000_000), seed);
        let mut made = made.sampled_as(600, 1_999, seed);
        let [parse, cache] = ["parse", "cache"].map(|function| made.stack_of(&[function, "main"]));
        for page in 0..500 + added {
            made.write(1, if page < 500 { parse } else { cache }, ANON + page * PAGE, 800);
        }
        [Run::new(made.finish().0)]
    };
    let found = diff(&run(1, 0), &run(2, 6_000));
    assert_eq!(named(&found), [("cache <- main", Class::Added, None)]);
    assert_no_news_of_nothing(&found);
}

/// What is only on one side is more than its interval.
fn assert_no_news_of_nothing(found: &Diff) {
    for row in found.rows.iter().filter(|row| matches!(row.class, Class::Added | Class::Removed)) {
        let Interval { low, high, .. } = row.faults.difference;
        assert!(low > 0.0 || high < 0.0, "{row:?}");
    }
}

#[test]
fn a_machine_that_is_dearer_for_all_is_no_change_of_the_program() {
    let dear = Conditions { seed: 2, price: 1.6, ..QUIET };
    let found = diff(&[run(&program(), QUIET)], &[run(&program(), dear)]);
    assert_eq!(named(&found), []);
    assert!((found.price.ratio.value - 1.6).abs() < 0.05 && found.price.is_told(), "{:?}", found.price);
    let times = found.time_ns;
    assert!((times.after.value / times.before.value - 1.6).abs() < 0.05, "as measured: {times:?}");
}

/// One row of three has nearly all the time. Lower prices of two small rows say nothing about the machine.
#[test]
fn a_price_is_common_only_if_rows_that_weigh_say_so() {
    let mut sites = [
        site(&["parse", "main"], 14_000, 1200.0),
        site(&["load", "main"], 500, 1200.0),
        site(&["store", "main"], 500, 1200.0),
    ];
    let before = run(&sites, QUIET);
    sites[0].price_ns *= 0.98;
    sites[1].price_ns *= 0.75;
    sites[2].price_ns *= 0.90;
    let found = diff(&[before], &[run(&sites, QUIET)]);
    assert!(!found.price.is_told() && (found.price.ratio.value - 0.98).abs() < 0.01, "{:?}", found.price);
    let times = found.time_ns;
    assert!((times.after.value / times.before.value - 0.97).abs() < 0.01, "{times:?}");
    assert_eq!(named(&found), []);
}

/// Rows of the profile, major faults and the rest make the totals, on both sides.
fn adds_up(found: &Diff, before: &Run) {
    let totals = &before.profile.totals;
    assert_eq!(found.faults.before.value, totals.faults() as f64);
    assert_eq!(found.time_ns.before.value, totals.time_ns());
    for side in [0, 1] {
        let of = |pair: &Pair| if side == 0 { pair.before.value } else { pair.after.value };
        let faults: f64 = found.rows.iter().map(|row| of(&row.faults)).sum();
        let time_ns: f64 = found.rows.iter().map(|row| of(&row.time_ns)).sum();
        let (rest, major) = (&found.rest, &found.major);
        let near = |sum: f64, whole: f64| assert!((sum / whole - 1.0).abs() < 1e-6, "{sum} of {whole}");
        near(faults + major.faults[side] + rest.faults[side], of(&found.faults));
        near(time_ns + rest.time_ns[side], of(&found.time_ns));
        assert!(rest.faults[side].abs() < 2.0 && rest.time_ns[side].abs() < 1e4, "{rest:?}");
    }
}

/// System calls take over what `decode` touched.
#[test]
fn faults_that_were_only_counted_have_a_row_and_without_their_time_no_gain_is_told() {
    let before = counted(run(&program(), QUIET), 5);
    let found = diff(std::slice::from_ref(&before), &[counted(run(&program()[1..], QUIET), 6_005)]);
    adds_up(&found, &before);
    let changed = [(COUNTED, Class::Grown, Some(Cause::Faults)), ("decode <- work", Class::Removed, None)];
    assert_eq!(named(&found), changed);
    assert_eq!(found.untimed, Some(6_000.0));
    assert!(found.time_ns.difference.high < 0.0 && !found.time_ns.significant, "{:?}", found.time_ns);
    let alike = diff(std::slice::from_ref(&before), &[counted(run(&program(), QUIET), 7)]);
    assert_eq!((named(&alike), alike.untimed), (Vec::new(), None));
}

/// Cold and warm: waiting for the disk is in no price, no row and no CPU time.
#[test]
fn major_faults_are_apart() {
    let mut cold = run(&program(), QUIET);
    for fault in cold.profile.faults.iter_mut().step_by(500) {
        (fault.kind, fault.cost_ns) = (Kind::Major, 3e6);
    }
    let cold = with_basis(cold);
    let found = diff(std::slice::from_ref(&cold), &[run(&program(), QUIET)]);
    assert_eq!(named(&found), []);
    adds_up(&found, &cold);
    let BeforeAfter { faults, time_ns } = found.major;
    assert_eq!((faults, time_ns), ([28.0, 0.0], [84e6, 0.0]));
    assert_eq!(found.faults.difference.value, 0.0);
    assert!(found.time_ns.before.value < 14e6 && !found.price.is_told(), "{found:#?}");
}

/// Generated code has the same name in every process.
#[test]
fn generated_code_is_no_change() {
    let sites = [site(&["[stripped]", "main"], 1000, 700.0), site(&["add", "[stripped]"], 1000, 700.0)];
    let in_process = |pid: u32| {
        let mut run = run(&sites, QUIET);
        run.recording.stacks.modules[2].path = format!("[jit {pid}]");
        [run]
    };
    let found = diff(&in_process(2963), &in_process(2975));
    assert_eq!(named(&found), []);
    let mut names: Vec<_> = found.rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["[jit] <- main", "add <- [jit]"]);
}

/// Two sites whose faults so many threads share evenly.
fn shared(threads: u32, mark: u32, sweep: u32) -> [Run; 1] {
    let mut run = run(&[site(&["mark", "gc"], mark, 700.0), site(&["sweep", "gc"], sweep, 700.0)], QUIET);
    let faults = run.profile.faults.iter_mut().enumerate();
    faults.for_each(|(at, fault)| fault.tid = 1 + at as u32 % threads);
    let counts = &mut run.recording.observation.counts;
    (counts.user_faults, counts.all_faults) = (Some((mark + sweep).into()), Some((mark + sweep).into()));
    [run]
}

/// Chance gives a thread one of two pieces of shared work. A single thread always does the same.
#[test]
fn work_that_threads_share_may_move_between_rows() {
    let found = |threads| named(&diff(&shared(threads, 2000, 1500), &shared(threads, 1300, 2200))).len();
    assert_eq!((found(1), found(4)), (2, 0));
}

/// Each thread works on a site of its own, and chance decides how much of the common work it gets.
#[test]
fn work_may_move_between_sites_of_several_threads() {
    let parts = |first: u32, second: u32| {
        let sites = ["read", "half", "merge"].map(|name| vec![name, "main"]);
        let faults = [3000, first, second];
        let sites: Vec<Site> =
            sites.iter().zip(faults).map(|(stack, faults)| site(stack, faults, 700.0)).collect();
        let mut run = run(&sites, QUIET);
        run.profile.faults.iter_mut().for_each(|fault| fault.tid = 1 + fault.stack.unwrap());
        [run]
    };
    assert_eq!(named(&diff(&parts(420, 160), &parts(330, 250))), []);
    assert_eq!(named(&diff(&parts(420, 160), &parts(420, 250))).len(), 1);
}

/// Two processes run one function, and one of them does more of it.
#[test]
fn growth_of_a_site_that_processes_share_evenly_is_named() {
    let forked = |child: u32| {
        let sites = [3000, child].map(|faults| site(&["work", "main"], faults, 700.0));
        let mut run = run(&sites, QUIET);
        run.profile.faults.iter_mut().for_each(|fault| fault.pid = 1 + fault.stack.unwrap());
        [run]
    };
    assert_eq!(named(&diff(&forked(3000), &forked(3000))), []);
    let found = diff(&forked(3000), &forked(4000));
    assert_eq!(named(&found), [("work <- main", Class::Grown, Some(Cause::Faults))]);
}

/// Chance moves work and adds none: what the whole has more, a row has more.
#[test]
fn work_that_threads_share_is_named_if_the_whole_grew_by_it() {
    let found = diff(&shared(4, 2000, 1500), &shared(4, 2000, 3000));
    assert_eq!(named(&found), [("sweep <- gc", Class::Grown, Some(Cause::Faults))]);
}

/// A sender's site and a receiver's, and some faults of the receiver in the sender's site; sampled.
fn messages(sender: u32, receiver: u32, seed: u64) -> [Run; 1] {
    let sites = [
        site(&["main"], sender, 2400.0),
        site(&["main"], 300, 2400.0),
        site(&["move", "main"], receiver, 2000.0),
    ];
    let mut run = run(&sites, Conditions { seed, period: 97, ..QUIET });
    run.profile.faults.iter_mut().for_each(|fault| fault.pid = 1 + u32::from(fault.stack != Some(0)));
    [run]
}

/// Two processes use one site, but nearly all of its faults are one's: chance does not move half of them.
#[test]
fn the_largest_change_is_named_first_though_two_processes_have_its_site() {
    let found = diff(&messages(192_000, 500, 1), &messages(294_000, 89_000, 2));
    let expected = ["main", "move <- main"].map(|name| (name, Class::Grown, Some(Cause::Faults)));
    assert_eq!(named(&found), expected);
    assert_eq!(found.rows[0].name, "main");
    assert_eq!(named(&diff(&messages(192_000, 500, 3), &messages(192_000, 500, 4))), []);
}

/// A copy after fork may be any process's, and a read of a file any function's. More of them in all are a change.
#[test]
fn copies_after_fork_are_named_if_no_other_row_lost_them() {
    let copies = |child: u32, parent: u32| {
        let sites = [site(&["child", "main"], child, 900.0), site(&["parent", "main"], parent, 900.0)];
        let mut run = run(&[sites.to_vec(), program()].concat(), QUIET);
        run.profile.faults.iter_mut().filter(|fault| fault.stack < Some(2)).for_each(|fault| {
            fault.kind = Kind::CowAfterFork;
        });
        [with_basis(run)]
    };
    assert_eq!(named(&diff(&copies(2000, 1000), &copies(1200, 1800))), []);
    let found = diff(&copies(2000, 1000), &copies(2600, 800));
    assert_eq!(named(&found), [("child <- main", Class::Grown, Some(Cause::Faults))]);
}

/// Complete recordings of one thread: a large row that grew by 2 % is named.
#[test]
fn exact_counts_show_a_small_growth_of_a_large_row() {
    let found = |mark| named(&diff(&shared(1, 40_000, 10_000), &shared(1, mark, 10_000))).len();
    assert_eq!((found(40_100), found(41_000)), (0, 1));
}

/// However long they take, and however sharp the threshold.
#[test]
fn fewer_than_four_faults_get_no_name() {
    let sharp = Settings { threshold: 0.0001, ..Settings::default() };
    let with = |faults| {
        let sites = [program(), vec![site(&["tail", "main"], faults, 50_000.0)]].concat();
        named(&Diff::new(&[run(&program(), QUIET)], &[run(&sites, QUIET)], &sharp).unwrap()).len()
    };
    assert_eq!((with(3), with(4)), (0, 1));
}

#[test]
fn of_a_single_site_the_calibration_says_what_the_machine_is_dearer() {
    let one = [site(&["fill", "main"], 4_000, 700.0)];
    let runs = |price, calibrated| {
        (1..4).map(|seed| run(&one, Conditions { seed, price, calibrated, ..QUIET })).collect::<Vec<_>>()
    };
    let with = |price, calibrated| diff(&runs(1.0, 1.0), &runs(price, calibrated));
    assert_eq!(named(&with(2.0, 2.0)), []);
    assert_eq!(named(&with(2.0, 1.0)), [("fill <- main", Class::Grown, Some(Cause::Price))]);
}

/// A host that takes memory back makes the faults of one site thirty times as dear in one run.
#[test]
fn one_recording_a_side_blames_no_site_for_a_price() {
    let mut sites = program();
    sites[1].price_ns *= 30.0;
    let found = diff(&[run(&program(), QUIET)], &[run(&sites, QUIET)]);
    assert_eq!(named(&found), []);
    assert!(found.time_ns.significant, "{:?}", found.time_ns);
}

#[test]
fn what_is_small_is_not_worth_a_word() {
    let mut sites = program();
    sites.push(site(&["tail", "main"], 60, 800.0));
    let found = diff(&[run(&program(), QUIET)], &[run(&sites, QUIET)]);
    assert_eq!(named(&found), []);
    let sharp = Settings { threshold: 0.001, ..Settings::default() };
    let found = Diff::new(&[run(&program(), QUIET)], &[run(&sites, QUIET)], &sharp).unwrap();
    assert_eq!(named(&found), [("tail <- main", Class::Added, None)]);
}

#[test]
fn rows_are_what_was_asked_for() {
    let mut sites = program();
    sites[2].mapping = "/opt/program";
    sites[3].stack = vec!["[stripped]", "main"];
    let by = |by| {
        let runs = [run(&sites, QUIET)];
        let settings = Settings { by, ..Settings::default() };
        let found = Diff::new(&runs, &runs, &settings).unwrap();
        found.rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        by(By::Function),
        ["decode <- work", "clear <- work", "[libstripped.so] <- main", "index <- main", "report <- main"]
    );
    assert_eq!(by(By::Stack)[1], "__memset_avx2_unaligned_erms <- clear <- work <- main");
    assert_eq!(by(By::Mapping), ["//anon", "[program]"]);
}

#[test]
fn places_without_names_are_matched_within_one_build_and_by_file_across_builds() {
    let sites = [site(&["[stripped]", "main"], 1000, 700.0)];
    let built = |build: &str| {
        let mut run = run(&sites, QUIET);
        run.recording.stacks.modules[2].build_id = Some(build.into());
        run
    };
    let name = |a: &str, b: &str| diff(&[built(a)], &[built(b)]).rows[0].name.clone();
    assert!(name("aa", "aa").starts_with("libstripped.so+0x"));
    assert_eq!(name("aa", "bb"), "[libstripped.so] <- main");
}

#[test]
fn counts_of_root_and_of_a_user_are_refused() {
    let mut sites = program();
    sites.push(site(&["copy_to_user", "read", "main"], 1_000, 800.0));
    let root = run(&sites, QUIET);
    let mut user = run(&program(), QUIET);
    user.recording.header.settings.user_only = true;
    let refused = Diff::new(std::slice::from_ref(&root), std::slice::from_ref(&user), &Settings::default());
    let said = refused.unwrap_err();
    assert!(said.contains("--user-only") && said.contains("record both"), "{said}");
    let settings = Settings { user_only: true, ..Settings::default() };
    let found = Diff::new(&[root], &[user], &settings).unwrap();
    assert!(found.user_only && named(&found).is_empty());
}

#[test]
fn allocating_sites_need_allocations_and_a_side_needs_a_recording() {
    let runs = [run(&program(), QUIET)];
    let settings = Settings { by: By::Alloc, ..Settings::default() };
    let said = Diff::new(&runs, &runs, &settings).unwrap_err();
    assert!(said.contains("--alloc"), "{said}");
    assert!(Diff::new(&runs, &[], &Settings::default()).is_err());
}

#[test]
fn a_site_that_allocates_more_is_named_whoever_touches_it() {
    // All touches of `decode` go to a block of `report`'s stack; the rest touch no block.
    let owned = |sites: &[Site]| {
        let mut run = run(sites, QUIET);
        run.recording.header.settings.alloc_from_bytes = Some(65536);
        run.profile.blocks.blocks.push(Block { stack: Some(4), ..Block::default() });
        let of_decode = run.profile.faults.iter_mut().filter(|fault| fault.stack == Some(0));
        of_decode.for_each(|fault| fault.block = Some(0));
        run
    };
    let settings = Settings { by: By::Alloc, ..Settings::default() };
    let mut more = program();
    more[0].faults *= 2;
    let found = Diff::new(&[owned(&program())], &[owned(&more)], &settings).unwrap();
    assert_eq!(named(&found), [("report", Class::Grown, Some(Cause::Faults))]);
    assert!(found.rows.iter().any(|row| row.name == "[no recorded block]"));
}

#[test]
fn recordings_that_are_not_alike_are_warned_of() {
    let mut other = run(&program(), Conditions { period: 7, calibrated: 1.5, ..QUIET });
    other.recording.header.host.kernel = "6.12".into();
    other.recording.header.host.thp = "never".into();
    other.recording.losses = vec![Loss { cpu: None, begin_ns: 0, end_ns: 1, lost: 5000 }];
    other.recording.footer = None;
    let found = diff(&[run(&program(), QUIET)], &[other]);
    let words = ["kernel", "huge pages", "every fault", "lost 5 000", "cut off"];
    for word in words {
        assert!(found.warnings.iter().any(|line| line.contains(word)), "{word}: {:#?}", found.warnings);
    }
    assert_eq!(diff(&[run(&program(), QUIET)], &[run(&program(), QUIET)]).warnings, [""; 0]);
    let sampled = |period| run(&program(), Conditions { period, ..QUIET });
    assert_eq!(
        diff(&[sampled(7)], &[sampled(11)]).warnings,
        [""; 0],
        "each recording has a period of its own"
    );
}

#[test]
fn nothing_beside_nothing_is_nothing() {
    let none = || [run(&[], QUIET)];
    let found = diff(&none(), &none());
    assert!(found.rows.is_empty() && !found.time_ns.significant);
    let found = diff(&none(), &[run(&program(), QUIET)]);
    assert_eq!(found.count(Class::Added), 5);
    assert!(found.rows.iter().all(|row| row.faults.difference.low.is_finite()));
}
