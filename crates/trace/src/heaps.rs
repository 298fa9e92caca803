//! Which allocators and runtimes a recorded program has, in which version, and the settings in force: the one place
//! that says so.
//!
//! In: what the program's files show ([`Mark`], which `prof` reads), the settings with which a process began, and the
//! names of threads. Out: [`Heap`]s of the programs that fault most. What is not known is left out.
//!
//! It does not say who made a call (`why::owner`).

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::observation::What;
use crate::profile::Profile;
use crate::recording::{Mark, Recording};

/// An allocator or a runtime of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// The program's file, without its folder.
    pub program: String,
    /// Its name.
    pub name: String,
    /// Its version, if that is known.
    #[serde(default)]
    pub version: Option<String>,
    /// Where it is: `static`, `in polars.abi3.so`, its collector.
    #[serde(default)]
    pub detail: Option<String>,
    /// The variable that holds its settings, where builds differ in that.
    #[serde(default)]
    pub variable: Option<String>,
    /// Settings in force: variables, and words of the command line.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Why the pool can't act on it: a clause.
    #[serde(default)]
    pub hidden: Option<String>,
}

/// A kind of heap.
struct Known {
    name: &'static str,
    /// The variables that are its settings; beginnings of them where they end in `_`.
    variables: &'static [&'static str],
    /// Beginnings of such words of the command line, and of words in those variables that may be kept. Empty: the whole
    /// value is.
    words: &'static [&'static str],
    /// Its memory does not come from a malloc that can be replaced.
    hidden: Option<&'static str>,
}

const fn known(
    name: &'static str,
    variables: &'static [&'static str],
    words: &'static [&'static str],
    hidden: Option<&'static str>,
) -> Known {
    Known { name, variables, words, hidden }
}

const WITHOUT: Option<&str> = Some("allocates without malloc");

/// All kinds, in the order of their naming. Only these settings are recorded: what else is in an environment or on a
/// command line may be private.
const KNOWN: [Known; 22] = [
    known(
        "Go",
        &["GOGC", "GOMEMLIMIT", "GODEBUG"],
        &["madvdontneed=", "gcstoptheworld=", "gcpercent="],
        WITHOUT,
    ),
    known(
        "Java",
        &["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"],
        &["-Xm", "-Xs", "-XX:"],
        Some("keeps Java objects in a heap of its own"),
    ),
    known(
        "Node",
        &["NODE_OPTIONS"],
        &[
            "--max-semi-space-size",
            "--min-semi-space-size",
            "--max-old-space-size",
            "--semi-space-growth-factor",
        ],
        None,
    ),
    known(
        ".NET",
        &[
            "DOTNET_gcServer",
            "DOTNET_gcConcurrent",
            "DOTNET_GCgen0size",
            "DOTNET_GCConserveMemory",
            "DOTNET_GCHeapCount",
            "DOTNET_GCHeapHardLimit",
            "DOTNET_GCRetainVM",
        ],
        &[],
        WITHOUT,
    ),
    known("CPython", &["PYTHONMALLOC"], &[], None),
    known("R", &["R_GC_MEM_GROW", "R_NSIZE", "R_VSIZE"], &[], None),
    known("Ruby", &["RUBY_GC_"], &[], None),
    known("NumPy", &["NUMPY_MADVISE_HUGEPAGE"], &[], None),
    known("PyTorch", &[], &[], None),
    known("Polars", &[], &[], None),
    known("Arrow", &["ARROW_DEFAULT_MEMORY_POOL"], &[], None),
    known("DuckDB", &[], &[], None),
    known(Mark::OWN, &[], &[], Some("has a malloc of its own")),
    known(
        "jemalloc",
        &["MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF", "JE_ARROW_MALLOC_CONF"],
        &[],
        None,
    ),
    known("mimalloc", &["MIMALLOC_"], &[], None),
    known("tcmalloc", &["TCMALLOC_"], &[], None),
    known("snmalloc", &[], &[], None),
    known("rpmalloc", &[], &[], None),
    known("hoard", &[], &[], None),
    known("scudo", &["SCUDO_OPTIONS"], &[], None),
    known("musl", &[], &[], None),
    known(
        "glibc",
        &[
            "GLIBC_TUNABLES",
            "MALLOC_ARENA_MAX",
            "MALLOC_ARENA_TEST",
            "MALLOC_MMAP_MAX_",
            "MALLOC_MMAP_THRESHOLD_",
            "MALLOC_TOP_PAD_",
            "MALLOC_TRIM_THRESHOLD_",
            "MALLOC_PERTURB_",
        ],
        &[],
        None,
    ),
];

/// Allocators that stand in for the C library's malloc: names, and parts of the file names of their libraries.
pub const ALLOCATORS: [&str; 7] =
    ["jemalloc", "tcmalloc", "mimalloc", "snmalloc", "hoard", "rpmalloc", "scudo"];

/// The settings of allocators and runtimes in an environment and a command line: all that is recorded of them.
/// `variables`: `NAME=value`.
pub fn settings<'a>(
    variables: impl Iterator<Item = &'a str>,
    words: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let of_variable = |variable: &'a str| {
        let (name, value) = variable.split_once('=')?;
        let heap = KNOWN.iter().find(|heap| is_variable(heap, name))?;
        if heap.words.is_empty() {
            return Some(variable.to_owned());
        }
        let separator = if heap.name == "Go" { ',' } else { ' ' };
        let is_kept =
            |word: &&str| name.starts_with("GOGC") || name.starts_with("GOMEM") || is_word(heap, word);
        let kept: Vec<&str> = value.split(separator).filter(is_kept).collect();
        (!kept.is_empty()).then(|| format!("{name}={}", kept.join(&separator.to_string())))
    };
    let of_word = |word: &&str| KNOWN.iter().any(|heap| heap.name != "Go" && is_word(heap, word));
    let words = words.filter(of_word).map(str::to_owned);
    variables.filter_map(of_variable).chain(words).collect()
}

fn is_variable(heap: &Known, name: &str) -> bool {
    heap.variables.iter().any(|known| name == *known || known.ends_with('_') && name.starts_with(known))
}

/// Whether a word of a command line is a setting of this heap.
fn is_word(heap: &Known, word: &str) -> bool {
    heap.words.iter().any(|begin| word.starts_with(begin))
}

/// The settings that are recorded, as Markdown.
pub(crate) fn documentation() -> String {
    let of = |heap: &Known| {
        let names = heap
            .variables
            .iter()
            .map(|name| format!("`{name}{}`", if name.ends_with('_') { "..." } else { "" }));
        let words = heap.words.iter().map(|word| format!("`{word}...`"));
        let all: Vec<String> = names.chain(words).collect();
        (!all.is_empty()).then(|| format!("|{}|{}|\n", heap.name, all.join(" ")))
    };
    KNOWN.iter().filter_map(of).collect()
}

/// A process at its end: its program's files, and its settings.
#[derive(Clone, Default)]
struct Process<'a> {
    files: Vec<&'a str>,
    settings: &'a [String],
    collector: Option<&'static str>,
}

/// Programs that fault at least this share of all are named.
const NAMED_SHARE: f64 = 0.25;

/// The heaps of the programs that fault most.
pub(crate) fn heaps(recording: &Recording, profile: &Profile) -> Vec<Heap> {
    let marks = recording.footer.as_ref().map_or(&[][..], |footer| &footer.marks);
    let mut faults: HashMap<u32, f64> = HashMap::new();
    for fault in &profile.faults {
        *faults.entry(fault.pid).or_default() += fault.faults;
    }
    let all: f64 = faults.values().sum();
    // Processes of one program with the same settings are one.
    let mut programs: BTreeMap<(&str, &[String]), (f64, Process<'_>)> = BTreeMap::new();
    for (pid, process) in processes(recording) {
        let Some(first) = process.files.first() else { continue };
        let of = programs.entry((first, process.settings)).or_insert((0.0, process.clone()));
        of.0 += faults.get(&pid).copied().unwrap_or(0.0);
    }
    let mut weighty: Vec<_> =
        programs.into_iter().filter(|(_, (faults, _))| *faults >= NAMED_SHARE * all).collect();
    weighty.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let of = |((file, _), (_, process))| of_process(file, &process, marks);
    let mut found: Vec<Heap> = weighty.into_iter().flat_map(of).collect();
    found.dedup();
    found
}

/// What is known of each process at its end.
fn processes(recording: &Recording) -> HashMap<u32, Process<'_>> {
    let mut processes: HashMap<u32, Process<'_>> = HashMap::new();
    for record in &recording.observation.records {
        match &record.what {
            What::Fork { parent } if *parent != record.pid => {
                let parent = processes.get(parent).cloned().unwrap_or_default();
                processes.insert(record.pid, parent);
            }
            // The settings of a command are noted before its exec is seen.
            What::Exec => {
                let process = processes.entry(record.pid).or_default();
                (process.files, process.collector) = (Vec::new(), None);
            }
            What::Settings(settings) => processes.entry(record.pid).or_default().settings = settings,
            What::Map(map) if map.name.starts_with('/') && !map.name.starts_with("//") => {
                let files = &mut processes.entry(record.pid).or_default().files;
                if !files.contains(&map.name.as_str()) {
                    files.push(&map.name);
                }
            }
            What::Name(name) => {
                let process = processes.entry(record.pid).or_default();
                process.collector = collector(name).or(process.collector);
            }
            _ => {}
        }
    }
    processes
}

/// The collector of a Java machine, by the name of one of its threads.
fn collector(thread: &str) -> Option<&'static str> {
    const THREADS: [(&str, &str); 4] =
        [("G1 ", "G1"), ("ZDriver", "ZGC"), ("ZDirector", "ZGC"), ("Shenandoah", "Shenandoah")];
    THREADS.iter().find(|(begin, _)| thread.starts_with(begin)).map(|(_, collector)| *collector)
}

/// The heaps of a process, in the order of [`KNOWN`]; its malloc last.
fn of_process(program: &str, process: &Process<'_>, marks: &[Mark]) -> Vec<Heap> {
    let here = |mark: &&Mark| process.files.contains(&mark.file.as_str());
    let has = |name: &str| marks.iter().filter(here).any(|mark| mark.file == program && mark.name == name);
    let is_static = has(Mark::STATIC);
    // An allocator in the program, or in a library of its own, is its malloc; one in another library is that one's.
    let serves_all = |mark: &&Mark| mark.file == program || file_of(&mark.file).contains(&mark.name);
    let replaces =
        marks.iter().filter(here).filter(serves_all).any(|mark| ALLOCATORS.contains(&mark.name.as_str()));
    let mut found = Vec::new();
    for kind in &KNOWN {
        for mark in marks.iter().filter(here).filter(|mark| mark.name == kind.name) {
            // Neither acts beside a malloc that replaces it.
            let is_replaced = matches!(kind.name, "glibc" | "musl" | Mark::OWN) && replaces;
            if is_replaced
                || kind.name == "glibc" && has(Mark::OWN)
                || has("Go") && kind.name != "Go" && is_static
            {
                continue;
            }
            found.push(heap(program, process, kind, mark, is_static));
        }
    }
    found.dedup_by(|a, b| a.name == b.name && a.version == b.version && a.detail == b.detail);
    if is_static && !found.iter().any(|heap| heap.hidden.is_some()) {
        match found.last_mut() {
            Some(last) => last.hidden = Some("is linked statically".to_owned()),
            None => found.push(Heap {
                program: file_of(program).to_owned(),
                name: Mark::STATIC.to_owned(),
                hidden: Some("loads no library".to_owned()),
                ..Heap::default()
            }),
        }
    }
    found
}

fn heap(program: &str, process: &Process<'_>, kind: &Known, mark: &Mark, is_static: bool) -> Heap {
    let is_allocator = ALLOCATORS.contains(&kind.name);
    let file = file_of(&mark.file);
    let detail = match kind.name {
        "Java" => process.collector.map(str::to_owned),
        "CPython" => (!process.settings.iter().any(|setting| setting.starts_with("PYTHONMALLOC=")))
            .then(|| "pymalloc for objects up to 512 bytes".to_owned()),
        "glibc" => is_static.then(|| "static".to_owned()),
        _ if is_allocator && mark.file == program => Some("in the program".to_owned()),
        _ if is_allocator && !file.contains(kind.name) => Some(format!("in {file}")),
        _ => None,
    };
    let is_its = |setting: &&String| {
        let name = setting.split_once('=').map_or("", |(name, _)| name);
        match &mark.variable {
            Some(variable) => name == variable,
            None => is_variable(kind, name) || is_word(kind, setting),
        }
    };
    Heap {
        program: file_of(program).to_owned(),
        name: kind.name.to_owned(),
        version: mark.version.clone(),
        detail,
        variable: mark.variable.clone(),
        settings: process.settings.iter().filter(is_its).cloned().collect(),
        hidden: match is_allocator && mark.file == program {
            true => Some("is a malloc inside the program".to_owned()),
            false => kind.hidden.map(str::to_owned),
        },
    }
}

fn file_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Map, Record};
    use crate::recording::Footer;

    /// The heaps of one process that mapped these files, whose first is the program.
    type Marks<'a> = [(&'a str, Option<&'a str>)];

    fn found(files: &[(&str, &Marks<'_>)], settings: &[&str], thread: &str) -> Vec<Heap> {
        let map = |(file, _): &(&str, _)| What::Map(Map { name: (*file).to_owned(), ..Map::default() });
        let settings = What::Settings(settings.iter().map(|setting| (*setting).to_owned()).collect());
        let name = What::Name(thread.to_owned());
        let whats = [settings, What::Exec, name].into_iter().chain(files.iter().map(map));
        let mut recording = Recording::default();
        recording.observation.records =
            whats.map(|what| Record { time_ns: 0, pid: 1, tid: 1, what }).collect();
        let mark = |file: &str, (name, version): &(&str, Option<&str>)| Mark {
            file: file.to_owned(),
            name: (*name).to_owned(),
            version: version.map(str::to_owned),
            variable: None,
        };
        let marks = files.iter().flat_map(|(file, marks)| marks.iter().map(move |one| mark(file, one)));
        recording.footer = Some(Footer { marks: marks.collect(), ..Footer::default() });
        heaps(&recording, &Profile::new(&recording))
    }

    fn named(heaps: &[Heap]) -> Vec<(&str, Option<&str>, bool)> {
        heaps
            .iter()
            .map(|heap| (heap.name.as_str(), heap.version.as_deref(), heap.hidden.is_some()))
            .collect()
    }

    const LIBC: (&str, &[(&str, Option<&str>)]) = ("/lib/libc.so.6", &[("glibc", Some("2.36"))]);

    #[test]
    fn a_library_in_the_place_of_malloc_is_named_without_the_c_library() {
        let jemalloc: (&str, &[_]) = ("/lib/libjemalloc.so.2", &[("jemalloc", Some("5.3.0"))]);
        let conf = ["MALLOC_CONF=dirty_decay_ms:0", "GOGC=50"];
        let heaps = found(&[("/bin/x", &[]), jemalloc, LIBC], &conf, "x");
        assert_eq!(named(&heaps), [("jemalloc", Some("5.3.0"), false)]);
        assert_eq!(heaps[0].settings, ["MALLOC_CONF=dirty_decay_ms:0"]);
        // Of another library it is that one's.
        let polars: (&str, &[_]) = ("/lib/polars.abi3.so", &[("Polars", Some("1.9")), ("jemalloc", None)]);
        let heaps = found(&[("/bin/python3.11", &[("CPython", Some("3.11"))]), polars, LIBC], &[], "python3");
        let names: Vec<&str> = heaps.iter().map(|heap| heap.name.as_str()).collect();
        assert_eq!(names, ["CPython", "Polars", "jemalloc", "glibc"]);
        assert_eq!(heaps[2].detail.as_deref(), Some("in polars.abi3.so"));
    }

    #[test]
    fn where_the_pool_cant_act_the_reason_is_given() {
        let go: &[_] = &[("Go", Some("1.26")), (Mark::STATIC, None)];
        assert_eq!(named(&found(&[("/bin/x", go)], &[], "x")), [("Go", Some("1.26"), true)]);
        assert_eq!(
            named(&found(&[("/bin/x", &[(Mark::STATIC, None), ("glibc", None)])], &[], "x")),
            [("glibc", None, true)]
        );
        assert_eq!(named(&found(&[("/bin/x", &[(Mark::STATIC, None)])], &[], "x")), [("static", None, true)]);
        let own: &[_] = &[("jemalloc", None), (Mark::OWN, None)];
        assert_eq!(named(&found(&[("/bin/x", own), LIBC], &[], "x")), [("jemalloc", None, true)]);
        assert_eq!(
            named(&found(&[("/bin/x", &[(Mark::OWN, None)]), LIBC], &[], "x")),
            [(Mark::OWN, None, true)]
        );
    }

    #[test]
    fn a_java_machine_has_its_collector_and_its_flags() {
        let jvm: (&str, &[_]) = ("/jdk/lib/server/libjvm.so", &[("Java", Some("17.0.9"))]);
        let heaps =
            found(&[("/jdk/bin/java", &[]), jvm, LIBC], &["-Xmx1g", "GLIBC_TUNABLES=x"], "G1 Main Marker");
        assert_eq!(
            (heaps[0].detail.as_deref(), &*heaps[0].settings),
            (Some("G1"), &["-Xmx1g".to_owned()][..])
        );
        assert_eq!(heaps[1].settings, ["GLIBC_TUNABLES=x"]);
    }

    #[test]
    fn nothing_but_settings_of_memory_is_recorded() {
        let variables = [
            "PASSWORD=x",
            "MALLOC_CONF=narenas:1",
            "JAVA_TOOL_OPTIONS=-Dsecret=x -Xmx1g -XX:+UseZGC",
            "NODE_OPTIONS=--require ./x.js",
            "GODEBUG=madvdontneed=1,http2debug=1",
            "GOGC=50",
            "MALLOC_CONFIDENTIAL=x",
        ];
        let words = ["java", "-Xms1g", "-Dkey=x", "--max-semi-space-size=16", "GOGC=50", "password"];
        let kept = settings(variables.into_iter(), words.into_iter());
        let wanted = [
            "MALLOC_CONF=narenas:1",
            "JAVA_TOOL_OPTIONS=-Xmx1g -XX:+UseZGC",
            "GODEBUG=madvdontneed=1",
            "GOGC=50",
            "-Xms1g",
            "--max-semi-space-size=16",
        ];
        assert_eq!(kept, wanted);
    }
}
