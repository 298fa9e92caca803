//! Settings of the environment: those that mechanisms suggest, and others of a runtime that act on them.
//!
//! What the user has set in the same variable stays, and ours comes last: the last one wins.

use std::ffi::OsString;

use faultless_trace::advice::Expected;
use faultless_trace::heaps::Heap;
use faultless_trace::why::{Advised, Mechanism};

use super::facts::Facts;

/// A variable and its value, without what the user has set.
pub(super) type Variable = (String, String);

/// A setting to try.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) variables: Vec<Variable>,
    pub(super) expected: Expected,
}

/// The arm that sets thresholds of glibc's malloc.
pub(super) const THRESHOLDS: &str = "glibc thresholds";

/// Variables whose settings are lists, and what stands between two of them.
const LISTS: [(&str, &str); 6] = [
    ("GLIBC_TUNABLES", ":"),
    ("GODEBUG", ","),
    ("JAVA_TOOL_OPTIONS", " "),
    ("LD_PRELOAD", ":"),
    ("NODE_OPTIONS", " "),
    ("MALLOC_CONF", ","),
];

/// A setting of a runtime that no recording suggests by itself.
struct Knob {
    heap: &'static str,
    name: &'static str,
    what: &'static str,
    /// `{MIB}` stands for a quarter more than the program's peak memory, `{HEAP}` for the same as Java says it, or for the
    /// largest heap that the command line allows.
    variables: &'static [(&'static str, &'static str)],
    /// Beginnings of the names of mechanisms on which it acts.
    acts_on: &'static [&'static str],
    /// It changes how often the runtime collects, so it saves time beside that of faults.
    is_beyond_faults: bool,
}

const KNOBS: [Knob; 11] = [
    Knob {
        heap: "Java",
        name: "Java, large start",
        what: "the heap begins as large as it will be",
        variables: &[("JAVA_TOOL_OPTIONS", "-Xms{HEAP}")],
        acts_on: &["java", "first_touch"],
        is_beyond_faults: true,
    },
    Knob {
        heap: "Java",
        name: "Java, huge pages",
        what: "the heap asks for huge pages",
        variables: &[("JAVA_TOOL_OPTIONS", "-XX:+UseTransparentHugePages")],
        acts_on: &["java", "first_touch"],
        is_beyond_faults: false,
    },
    Knob {
        heap: "Java",
        name: "Java, touched at start",
        what: "a heap on huge pages as large as it will be, which several threads touch at the start",
        variables: &[("JAVA_TOOL_OPTIONS", "-Xms{HEAP} -XX:+AlwaysPreTouch -XX:+UseTransparentHugePages")],
        acts_on: &["java", "first_touch"],
        is_beyond_faults: true,
    },
    Knob {
        heap: "Java",
        name: "Java, no uncommit",
        what: "the heap does not shrink",
        variables: &[(
            "JAVA_TOOL_OPTIONS",
            "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockExperimentalVMOptions -XX:MaxHeapFreeRatio=100 -XX:-ZUncommit -XX:-ShenandoahUncommit",
        )],
        acts_on: &["java"],
        is_beyond_faults: false,
    },
    Knob {
        heap: "Go",
        name: "GOGC",
        what: "a larger heap, so fewer collections",
        variables: &[("GOGC", "200")],
        acts_on: &["go", "first_touch"],
        is_beyond_faults: true,
    },
    Knob {
        heap: "Go",
        name: "GOMEMLIMIT",
        what: "collections only near a limit, a quarter above today's peak",
        variables: &[("GOGC", "off"), ("GOMEMLIMIT", "{MIB}MiB")],
        acts_on: &["go", "first_touch"],
        is_beyond_faults: true,
    },
    Knob {
        heap: "Node",
        name: "semi-space",
        what: "larger semi-spaces, so fewer collections",
        variables: &[("NODE_OPTIONS", "--max-semi-space-size=64")],
        acts_on: &["runtime_arenas", "v8", "first_touch"],
        is_beyond_faults: true,
    },
    Knob {
        heap: ".NET",
        name: ".NET, generation 0",
        what: "64 MiB for new objects, so fewer collections; freed segments are kept",
        variables: &[("DOTNET_GCgen0size", "4000000"), ("DOTNET_GCRetainVM", "1")],
        acts_on: &["dotnet", "own_mapping", "first_touch"],
        is_beyond_faults: true,
    },
    Knob {
        heap: "Arrow",
        name: "Arrow, system malloc",
        what: "Arrow's buffers come from malloc",
        variables: &[("ARROW_DEFAULT_MEMORY_POOL", "system")],
        acts_on: &["allocator", "oversize"],
        is_beyond_faults: false,
    },
    Knob {
        heap: "NumPy",
        name: "NumPy, base pages",
        what: "NumPy asks for no huge pages",
        variables: &[("NUMPY_MADVISE_HUGEPAGE", "0")],
        acts_on: &["huge_page", "khugepaged"],
        is_beyond_faults: true,
    },
    Knob {
        heap: "jemalloc",
        name: "jemalloc, 10 s",
        what: "jemalloc keeps what is freed for 10 s, large blocks included",
        variables: &[("MALLOC_CONF", "oversize_threshold:0,dirty_decay_ms:10000,muzzy_decay_ms:10000")],
        acts_on: &["allocator", "oversize"],
        is_beyond_faults: false,
    },
];

/// The settings that these mechanisms suggest, each once; then the first ones of all mechanisms together, if they differ;
/// then those of runtimes.
pub(super) fn settings(mechanisms: &[&Mechanism], facts: &Facts) -> Vec<Setting> {
    let mut found: Vec<Setting> = Vec::new();
    let mut firsts: Vec<Setting> = Vec::new();
    let has_glibc = facts.heaps.is_empty() || facts.heap("glibc").is_some();
    for mechanism in mechanisms {
        let suggested = mechanism.cures.iter().filter_map(|cure| suggested(mechanism, cure));
        let suggested = suggested.filter(|setting| has_glibc || setting.name != THRESHOLDS);
        for (index, setting) in suggested.enumerate() {
            if index == 0 {
                add(&mut firsts, setting.clone());
            }
            add(&mut found, setting);
        }
    }
    if firsts.len() > 1 {
        found.push(together(&firsts));
    }
    for (knob, heap) in KNOBS.iter().filter_map(|knob| Some((knob, facts.heap(knob.heap)?))) {
        let acts = |one: &&Mechanism| knob.acts_on.iter().any(|begin| one.id.starts_with(begin));
        let setting = knob.setting(facts, heap);
        let is_new = found.iter().all(|known| known.variables != setting.variables);
        // What the command line says goes first.
        let is_said = setting.sets("-Xms") && facts.command.contains("-Xms");
        if mechanisms.iter().any(acts) && is_new && !is_said {
            found.push(setting);
        }
    }
    found
}

/// The setting of a cure, if it has one.
fn suggested(mechanism: &Mechanism, cure: &Advised) -> Option<Setting> {
    let variable = cure.variable.clone()?;
    let name = match variable.0.as_str() {
        "GLIBC_TUNABLES" => THRESHOLDS.to_owned(),
        // A list of options, and this is one.
        "JAVA_TOOL_OPTIONS" | "NODE_OPTIONS" => variable.1.clone(),
        name => name.to_owned(),
    };
    let expected = expected(mechanism, cure);
    Some(Setting { name, what: mechanism.what.clone(), variables: vec![variable], expected })
}

/// What a cure of a mechanism saves, and whether that is mostly another time than that of faults.
pub(super) fn expected(mechanism: &Mechanism, cure: &Advised) -> Expected {
    let saves = &cure.saves_ns;
    Expected {
        saves_ns: (saves.high > 0.0).then_some([saves.low, saves.high]),
        is_beyond_faults: mechanism.call_ns.unwrap_or(0.0) + mechanism.wait_ns > mechanism.fault_ns.value,
    }
}

/// Both of two that act on one arm.
pub(super) fn both(a: Expected, b: Expected) -> Expected {
    let sum = |[low, high]: [f64; 2], [more, most]: [f64; 2]| [low + more, high + most];
    Expected {
        saves_ns: a.saves_ns.zip(b.saves_ns).map(|(a, b)| sum(a, b)).or(a.saves_ns).or(b.saves_ns),
        is_beyond_faults: a.is_beyond_faults || b.is_beyond_faults,
    }
}

/// Adds a setting. Where one does all that another does, it is one setting, which saves what both do.
fn add(settings: &mut Vec<Setting>, setting: Setting) {
    match settings.iter_mut().find(|known| known.covers(&setting) || setting.covers(known)) {
        Some(known) => {
            known.expected = both(known.expected, setting.expected);
            if !known.covers(&setting) {
                known.variables = setting.variables;
            }
        }
        None => settings.push(setting),
    }
}

/// Whether `value` has each word of `other`. Without mapped blocks there is no threshold for them.
fn has_words(name: &str, value: &str, other: &str) -> bool {
    let between = LISTS.iter().find(|(list, _)| name.ends_with(list)).map_or("\0", |(_, between)| between);
    let has = |wanted: &str| {
        let unmapped =
            wanted.starts_with("glibc.malloc.mmap_threshold=").then_some("glibc.malloc.mmap_max=0");
        value.split(between).any(|word| word == wanted || Some(word) == unmapped)
    };
    other.split(between).all(has)
}

fn together(settings: &[Setting]) -> Setting {
    let mut all = Setting {
        name: "all settings".to_owned(),
        what: "the settings of all mechanisms".to_owned(),
        ..Setting::default()
    };
    for setting in settings {
        for (name, value) in &setting.variables {
            match all.variables.iter_mut().find(|(known, _)| known == name) {
                Some((_, before)) => *before = join(name, Some(before.as_str()), value),
                None => all.variables.push((name.clone(), value.clone())),
            }
        }
        all.expected = both(all.expected, setting.expected);
    }
    // Of one that may save anything nothing is expected of all.
    if settings.iter().any(|setting| setting.expected.saves_ns.is_none()) {
        all.expected.saves_ns = None;
    }
    all
}

impl Setting {
    fn covers(&self, other: &Self) -> bool {
        let covers = |(name, value): &Variable| {
            let mut own = self.variables.iter().filter(|(own, _)| own == name);
            own.any(|(_, own)| has_words(name, own, value))
        };
        other.variables.iter().all(covers)
    }

    fn sets(&self, option: &str) -> bool {
        self.variables.iter().any(|(_, value)| value.contains(option))
    }
}

impl Knob {
    fn setting(&self, facts: &Facts, heap: &Heap) -> Setting {
        let mib = ((facts.peak_bytes + facts.peak_bytes / 4) >> 20).max(16).to_string();
        let most = facts.command.split("-Xmx").nth(1).and_then(|rest| rest.split([' ', '\'']).next());
        let largest = most.map_or_else(|| format!("{mib}m"), str::to_owned);
        let variables = self.variables.iter();
        Setting {
            name: self.name.to_owned(),
            what: self.what.to_owned(),
            variables: variables
                .map(|(name, value)| {
                    let name = heap.variable.as_deref().unwrap_or(name);
                    (name.to_owned(), value.replace("{MIB}", &mib).replace("{HEAP}", &largest))
                })
                .collect(),
            expected: Expected { saves_ns: None, is_beyond_faults: self.is_beyond_faults },
        }
    }
}

/// Each variable with what the user has set in it.
pub(super) fn kept(variables: &[Variable]) -> Vec<(OsString, OsString)> {
    let own = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let keep = |(name, value): &Variable| {
        (OsString::from(name), OsString::from(join(name, own(name).as_deref(), value)))
    };
    variables.iter().map(keep).collect()
}

/// `before` and `value` in one variable; `value` alone if the variable holds one setting. Libraries that are preloaded act in
/// the order of the list, so ours comes first there.
fn join(name: &str, before: Option<&str>, value: &str) -> String {
    let ends =
        |(list, _): &&(&str, &str)| name == *list || *list == "MALLOC_CONF" && name.ends_with("MALLOC_CONF");
    match (LISTS.iter().find(ends), before.filter(|before| !before.is_empty())) {
        (Some((_, between)), Some(before)) if name == "LD_PRELOAD" => format!("{value}{between}{before}"),
        (Some((_, between)), Some(before)) => format!("{before}{between}{value}"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_trace::stat::Interval;

    fn mechanism(id: &str, variables: &[(&str, &str)], saves: f64) -> Mechanism {
        let saves_ns = Interval { value: saves, low: saves, high: saves };
        let cure = |(name, value): &(&str, &str)| Advised {
            variable: Some(((*name).to_owned(), (*value).to_owned())),
            saves_ns,
            ..Advised::default()
        };
        Mechanism { id: id.to_owned(), cures: variables.iter().map(cure).collect(), ..Mechanism::default() }
    }

    fn facts(heaps: &[&str]) -> Facts {
        let facts = Facts::read(String::new(), "true".as_ref(), None);
        let heap = |name: &&str| Heap { name: (*name).to_owned(), ..Heap::default() };
        Facts { heaps: heaps.iter().map(heap).collect(), peak_bytes: 80 << 20, ..facts }
    }

    #[test]
    fn a_setting_of_two_mechanisms_is_one_arm_with_both_savings_and_different_ones_are_tried_together() {
        let tunables = ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=4294967296");
        let (top, arena) = (mechanism("top", &[tunables], 3.0), mechanism("arena", &[tunables], 4.0));
        let purge = mechanism("purge", &[("MALLOC_CONF", "a:1"), ("MALLOC_CONF", "a:2")], 5.0);
        let found = settings(&[&top, &arena, &purge], &facts(&[]));
        let said: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.expected.saves_ns.unwrap()[0])).collect();
        let names =
            [("glibc thresholds", 7.0), ("MALLOC_CONF", 5.0), ("MALLOC_CONF", 5.0), ("all settings", 12.0)];
        assert_eq!(said, names);
        assert_eq!(
            found[3].variables[1],
            ("MALLOC_CONF".to_owned(), "a:1".to_owned()),
            "the first of two ways"
        );
    }

    #[test]
    fn settings_of_a_runtime_need_the_runtime_and_a_mechanism_of_it() {
        let names = |id: &str, heaps: &[&str]| -> Vec<String> {
            settings(&[&mechanism(id, &[], 0.0)], &facts(heaps)).into_iter().map(|one| one.name).collect()
        };
        assert_eq!(names("go_scavenger", &["Go"]), ["GOGC", "GOMEMLIMIT"]);
        assert_eq!(names("heap_top_trimmed", &["Go"]), [""; 0]);
        assert_eq!(names("go_scavenger", &["Java"]), [""; 0]);
        assert_eq!(names("allocator_purge", &["jemalloc"]), ["jemalloc, 10 s"]);
        let java = settings(&[&mechanism("java_uncommit", &[], 0.0)], &facts(&["Java"]));
        assert_eq!(java[0].variables, [("JAVA_TOOL_OPTIONS".to_owned(), "-Xms100m".to_owned())]);
        let given = Facts { command: "java -Xmx2g Main".to_owned(), ..facts(&["Java"]) };
        let java = settings(&[&mechanism("java_uncommit", &[], 0.0)], &given);
        assert_eq!(java[0].variables[0].1, "-Xms2g", "no more than the command line allows");
    }

    #[test]
    fn what_the_user_has_set_stays_and_ours_wins() {
        assert_eq!(join("GODEBUG", Some("a=1"), "b=2"), "a=1,b=2");
        assert_eq!(join("_RJEM_MALLOC_CONF", Some("a:1"), "b:2"), "a:1,b:2");
        assert_eq!(join("JAVA_TOOL_OPTIONS", Some("-Xms1m"), "-Xms2m"), "-Xms1m -Xms2m");
        assert_eq!(join("LD_PRELOAD", Some("a.so"), "b.so"), "b.so:a.so");
        assert_eq!(join("GOGC", Some("100"), "200"), "200");
        assert_eq!(join("MALLOC_CONF", Some(""), "a:1"), "a:1");
    }
}
