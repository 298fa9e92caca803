//! The candidate cures that can work for this program on this machine.

use std::ffi::OsString;

use faultless_console::Failure;
use faultless_trace::advice::Expected;
use faultless_trace::rounds::Arm;
use faultless_trace::why::{Advised, Mechanism};

use super::super::bench::Way;
use super::super::run;
use super::allocators;
use super::facts::Facts;
use super::settings::{self, THRESHOLDS, Variable};

/// Never give memory back, never map single blocks, grow by 64 MiB: the thresholds of glibc's malloc (mallopt(3)).
const KEEP: &str =
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864";
/// Request transparent huge pages for all of malloc's memory.
const HUGE: &str = "glibc.malloc.hugetlb=1";

/// Mechanisms on which the pool acts, or any other malloc in the place of glibc's.
const OF_MALLOC: [&str; 5] =
    ["heap_top_trimmed", "block_above_mmap_threshold", "arena_trimmed", "allocator_purge", "oversize_blocks"];
/// Fresh memory, which huge pages take with fewer faults.
const FRESH: &str = "first_touch";
/// Runtimes whose heap does not come from malloc.
const HEAPS: [&str; 4] = [".NET", "Go", "Java", "Node"];
/// The beginning of a cure that is our own program.
const RUN: &str = "faultless run ";

/// Arms that are tried before others of which as little is known.
const POOL: &str = "pool";
const HUGE_HEAP: &str = "glibc huge pages";

/// The arms so far.
struct List<'a> {
    facts: &'a Facts,
    words: &'a [OsString],
    ways: Vec<Way>,
    expected: Vec<Expected>,
}

impl List<'_> {
    /// Adds an arm: variables of the environment, and how its command line begins.
    fn add(
        &mut self,
        name: &str,
        what: &str,
        adopt: &str,
        environment: Vec<(OsString, OsString)>,
        expected: Expected,
    ) {
        let alike = |way: &&Way| way.arm.name.split(" (").next() == Some(name);
        let name = match self.ways.iter().filter(alike).count() {
            0 => name.to_owned(),
            before => format!("{name} ({})", before + 1),
        };
        let adopt = format!("{adopt}{}", self.facts.command);
        let arm = Arm { name, what: what.to_owned(), adopt };
        self.ways.push(Way { arm, command: self.words.to_vec(), environment });
        self.expected.push(expected);
    }

    /// Adds an arm of variables alone.
    fn set(&mut self, name: &str, what: &str, variables: &[Variable], expected: Expected) {
        let environment = settings::kept(variables);
        self.add(name, what, &assigned(&environment), environment, expected);
    }

    /// Adds an arm of `faultless run` with these options.
    fn run(&mut self, name: &str, what: &str, options: &str, expected: Expected) -> Result<(), Failure> {
        let adopt = format!("{} run {options} -- ", self.facts.own);
        self.add(name, what, &adopt, Vec::new(), expected);
        let before = [std::env::current_exe()?.into_os_string(), "run".into()];
        let options = options.split(' ').map(OsString::from).chain(["--".into()]);
        if let Some(way) = self.ways.last_mut() {
            way.command = before.into_iter().chain(options).chain(self.words.iter().cloned()).collect();
        }
        Ok(())
    }

    fn set_tunables(&mut self, name: &str, what: &str, value: &str) {
        self.set(name, what, &[tunables(value)], Expected::default());
    }
}

/// The baseline first, then every cure that can be tried here, the least invasive first: a variable of the
/// environment, a preloaded library, both. With `mechanisms`, only cures that act on one of them.
pub(super) fn candidates(
    facts: &Facts,
    words: &[OsString],
    mechanisms: Option<&[&Mechanism]>,
) -> Result<(Vec<Way>, Vec<Expected>), Failure> {
    let mut list = List { facts, words, ways: Vec::new(), expected: Vec::new() };
    list.add("as it is", "the program unchanged", "", Vec::new(), Expected::default());
    if facts.is_glibc && mechanisms.is_none() {
        list.set_tunables(THRESHOLDS, "glibc's malloc keeps what is freed and maps no block by itself", KEEP);
    }
    for setting in settings::settings(mechanisms.unwrap_or_default(), facts) {
        list.set(&setting.name, &setting.what, &setting.variables, setting.expected);
    }
    let has = |is: &dyn Fn(&&Mechanism) -> bool| mechanisms.is_none_or(|found| found.iter().any(is));
    let is_reached = facts.immune.is_none();
    let cycles = is_reached && has(&|one| is_of_malloc(one));
    let has_heap = HEAPS.iter().any(|heap| facts.heap(heap).is_some());
    let grows = is_reached && !(has_heap && mechanisms.is_some()) && has(&|one| one.id == FRESH);
    if facts.thp && facts.is_glibc && facts.has_hugetlb && (cycles || grows) {
        let what = "glibc's malloc asks for huge pages for the heap and for mapped blocks";
        list.set_tunables(HUGE_HEAP, what, HUGE);
    }
    if cycles && facts.is_glibc {
        for (name, library) in allocators::installed() {
            let preload = [("LD_PRELOAD".to_owned(), library.to_owned())];
            list.set(name, &format!("all blocks from {name}"), &preload, Expected::default());
        }
    }
    pools(&mut list, mechanisms.unwrap_or_default(), (cycles, grows))?;
    Ok((list.ways, list.expected))
}

/// Whether it is malloc that gives the memory back.
fn is_of_malloc(mechanism: &Mechanism) -> bool {
    let sets = |cure: &Advised| cure.variable.as_ref().is_some_and(|(name, _)| name == "GLIBC_TUNABLES");
    OF_MALLOC.contains(&mechanism.id.as_str()) || mechanism.cures.iter().any(sets)
}

/// Adds the arms of our own pool, and others of `faultless run` that a mechanism suggests.
fn pools(
    list: &mut List<'_>,
    mechanisms: &[&Mechanism],
    (cycles, grows): (bool, bool),
) -> Result<(), Failure> {
    let facts = list.facts;
    let own = &facts.own;
    let pool = |policy: run::Policy| run::environment(&run::Options::of(policy));
    let mut expected = Expected::default();
    let mut is_whole = true;
    for mechanism in mechanisms {
        let is_ours = |cure: &&Advised| cure.how.starts_with(RUN);
        is_whole &= !is_of_malloc(mechanism) || mechanism.cures.iter().any(|cure| is_ours(&cure));
        let ours = mechanism.cures.iter().filter(is_ours);
        for cure in ours {
            let options = cure.how[RUN.len()..].split("-- ").next().unwrap_or_default().trim_end();
            let mut saves = settings::expected(mechanism, cure);
            // Base pages are more faults, each far cheaper.
            saves.is_beyond_faults |= options.contains("huge-pages");
            if options.is_empty() {
                expected = settings::both(expected, saves);
                continue;
            }
            let name = format!("run {options}");
            if !list.ways.iter().any(|way| way.arm.name == name) {
                list.run(&name, &mechanism.what, options, saves)?;
            }
        }
    }
    // It acts on all mechanisms of malloc, and of some it is not known how much.
    if !is_whole {
        expected.saves_ns = None;
    }
    if facts.thp && (cycles || grows) {
        let what = "large blocks from the pool, on huge pages, kept when freed";
        list.add(POOL, what, &format!("{own} run -- "), pool(run::Policy::Thp)?, expected);
    }
    if cycles {
        let what = "large blocks from the pool, kept when freed";
        let adopt = format!("{own} run --policy base -- ");
        list.add("pool, base pages", what, &adopt, pool(run::Policy::Base)?, expected);
    }
    if facts.thp && facts.is_glibc && facts.has_hugetlb && (cycles || grows) {
        let huge = settings::kept(&[tunables(HUGE)]);
        let what = "large blocks from the pool and the small ones' heap on huge pages: THP for all of malloc";
        let adopt = format!("{}{own} run -- ", assigned(&huge));
        let both = pool(run::Policy::Thp)?.into_iter().chain(huge).collect();
        list.add("pool + huge heap", what, &adopt, both, Expected::default());
    }
    Ok(())
}

fn tunables(value: &str) -> Variable {
    ("GLIBC_TUNABLES".to_owned(), value.to_owned())
}

/// `NAME=value ` of each variable, as a shell takes it.
fn assigned(environment: &[(OsString, OsString)]) -> String {
    let assign = |(name, value): &(OsString, OsString)| {
        let value = faultless_report::command(&[value.to_string_lossy().into_owned()]);
        format!("{}={value} ", name.to_string_lossy())
    };
    environment.iter().map(assign).collect()
}

/// Takes away the arms that say least, so that at most so many are left. Out: their names.
pub(super) fn limit(ways: &mut Vec<Way>, expected: &mut Vec<Expected>, most: usize) -> Vec<String> {
    let rank = |arm: &usize| match (ways[*arm].arm.name.as_str(), expected[*arm]) {
        _ if *arm == 0 => 0,
        (_, Expected { saves_ns: Some(_), .. }) => 1,
        (POOL, _) => 2,
        (_, Expected { is_beyond_faults: true, .. }) | (HUGE_HEAP, _) => 3,
        _ => 4,
    };
    let mut order: Vec<usize> = (0..ways.len()).collect();
    order.sort_by_key(rank);
    let mut left_out = order.split_off(most.min(order.len()));
    left_out.sort_unstable_by(|a, b| b.cmp(a));
    let names = left_out.into_iter().map(|arm| {
        expected.remove(arm);
        ways.remove(arm).arm.name
    });
    let mut names: Vec<String> = names.collect();
    names.reverse();
    names
}

/// Whether an arm has the pool in it.
pub(super) fn is_pooled(way: &Way) -> bool {
    way.environment.iter().any(|(name, _)| name == "FAULTLESS_POLICY")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arms_that_say_least_go_where_time_is_short() {
        let names = ["as it is", "glibc thresholds", HUGE_HEAP, "jemalloc", POOL, "pool, base pages", "GOGC"];
        let most = |most| {
            let way = |name: &&str| Way {
                arm: Arm { name: (*name).to_owned(), what: String::new(), adopt: String::new() },
                command: Vec::new(),
                environment: Vec::new(),
            };
            let mut ways: Vec<Way> = names.iter().map(way).collect();
            let mut expected = vec![Expected::default(); names.len()];
            expected[1].saves_ns = Some([1.0, 2.0]);
            expected[6].is_beyond_faults = true;
            let gone = limit(&mut ways, &mut expected, most);
            assert_eq!((ways.len(), expected.len()), (names.len() - gone.len(), ways.len()));
            gone
        };
        assert_eq!(most(9), [""; 0]);
        assert_eq!(most(5), ["jemalloc", "pool, base pages"]);
        assert_eq!(most(3), [HUGE_HEAP, "jemalloc", "pool, base pages", "GOGC"]);
    }
}
