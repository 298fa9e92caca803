//! The candidate cures that can work for this program on this machine.

use std::ffi::{OsStr, OsString};

use faultless_console::Failure;
use faultless_trace::rounds::Arm;
use faultless_trace::why::Mechanism;

use faultless_os::host::Host;

use super::super::bench::Way;
use super::super::{glibc, run};

/// Never give memory back, never map single blocks, grow by 64 MiB: the thresholds of glibc's malloc (mallopt(3)).
const KEEP: &str =
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864";
/// The arm that sets such thresholds.
const THRESHOLDS: &str = "glibc thresholds";
/// Request transparent huge pages for all of malloc's memory.
const HUGE: &str = "glibc.malloc.hugetlb=1";

/// The facts that decide which cures can be tried.
pub(super) struct Facts {
    /// Whether malloc is glibc's.
    pub(super) is_glibc: bool,
    /// Whether its malloc can ask for huge pages.
    pub(super) has_hugetlb: bool,
    /// Whether transparent huge pages are available on request.
    pub(super) thp: bool,
    /// /sys is hidden, so huge pages are unknown.
    sys_hidden: bool,
    /// The program as the user typed it, quoted for a shell.
    pub(super) command: String,
    /// This program as a shell finds it.
    pub(super) own: String,
}

impl Facts {
    /// Reads the facts of this machine, and of the program of a command.
    pub(super) fn read(command: String, program: &OsStr) -> Self {
        let host = Host::read();
        Self {
            is_glibc: host.glibc.is_some() && run::allocator(program).is_none(),
            has_hugetlb: glibc::has_hugetlb(&host),
            thp: host.thp.as_ref().is_some_and(|thp| thp.available()),
            sys_hidden: host.hides_sys(),
            command,
            own: own_name(),
        }
    }

    /// What can't be known, and what was not tried for it.
    pub(super) fn unknown(&self) -> Option<String> {
        let note = "/sys is hidden, so whether there are huge pages can't be known: cures by huge pages were not tried";
        self.sys_hidden.then(|| note.to_owned())
    }
}

/// Mechanisms on which settings of glibc's malloc act, or any other malloc in its place.
const OF_MALLOC: [&str; 4] =
    ["heap_top_trimmed", "block_above_mmap_threshold", "arena_trimmed", "allocator_purge"];
/// Share of the CPU time from which on a mechanism is worth an arm.
const TRIED_FROM: f64 = 0.02;
/// Fresh memory, which huge pages take with fewer faults.
const FRESH: &str = "first_touch";

/// The baseline first, then every cure that can be tried here, what is simpler to apply first: a variable of the
/// environment, a preloaded library, both. With `mechanisms`, only cures that act on one of them.
pub(super) fn candidates(
    facts: &Facts,
    words: &[OsString],
    mechanisms: Option<&[Mechanism]>,
) -> Result<Vec<Way>, Failure> {
    let Facts { command, own, .. } = facts;
    let cure = |name: &str, what: &str, adopt: String, environment| Way {
        arm: Arm { name: name.into(), what: what.into(), adopt },
        command: words.to_vec(),
        environment,
    };
    let mut cures = vec![cure("as it is", "the program unchanged", command.clone(), Vec::new())];
    let tunables = |value: &str| vec![("GLIBC_TUNABLES".into(), tunables(value))];
    let pool = |policy: run::Policy| run::environment(&run::Options::of(policy));
    let has = |ids: &[&str]| {
        mechanisms.is_none_or(|found| {
            found.iter().any(|one| one.share >= TRIED_FROM && ids.contains(&one.id.as_str()))
        })
    };
    let is_reached = run::immune(&words[0]).is_none();
    let (cycles, grows) = (is_reached && has(&OF_MALLOC), is_reached && has(&[FRESH]));
    if facts.is_glibc && mechanisms.is_none() {
        cures.push(cure(
            THRESHOLDS,
            "glibc's malloc keeps what is freed and maps no block by itself",
            format!("GLIBC_TUNABLES={} {command}", shown(KEEP)),
            tunables(KEEP),
        ));
    }
    for (name, value, what) in variables(mechanisms.unwrap_or_default()) {
        let (name, set) = match name {
            "GLIBC_TUNABLES" => (THRESHOLDS, tunables(value)),
            name => (name, vec![(name.into(), value.into())]),
        };
        let words: Vec<String> =
            set.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
        let adopt = format!("{} {command}", faultless_report::command(&words));
        cures.push(cure(name, what, adopt, set));
    }
    let is_huge = facts.thp && facts.is_glibc && facts.has_hugetlb && (cycles || grows);
    if is_huge {
        cures.push(cure(
            "glibc huge pages",
            "glibc's malloc asks for huge pages for the heap and for mapped blocks",
            format!("GLIBC_TUNABLES={} {command}", shown(HUGE)),
            tunables(HUGE),
        ));
    }
    if facts.thp && (cycles || grows) {
        cures.push(cure(
            "pool",
            "large blocks from the pool, on huge pages, kept when freed",
            format!("{own} run -- {command}"),
            pool(run::Policy::Thp)?,
        ));
    }
    if cycles {
        cures.push(cure(
            "pool, base pages",
            "large blocks from the pool, kept when freed",
            format!("{own} run --policy base -- {command}"),
            pool(run::Policy::Base)?,
        ));
    }
    if facts.thp && is_reached && mechanisms.is_some() && has(&["own_mapping"]) {
        cures.push(cure(
            "own mappings kept",
            "large blocks and the program's own mappings from the pool, on huge pages, kept when unmapped",
            format!("{own} run --mappings recycle -- {command}"),
            run::environment(&run::Options::for_mappings(run::Mappings::Recycle))?,
        ));
    }
    if is_huge {
        let mut both = pool(run::Policy::Thp)?;
        both.extend(tunables(HUGE));
        cures.push(cure(
            "pool + huge heap",
            "large blocks from the pool and the small ones' heap on huge pages: THP for all of malloc",
            format!("GLIBC_TUNABLES={} {own} run -- {command}", shown(HUGE)),
            both,
        ));
    }
    Ok(cures)
}

/// The variables that mechanisms suggest, with what the mechanism is.
fn variables(mechanisms: &[Mechanism]) -> Vec<(&str, &str, &str)> {
    let mut found: Vec<(&str, &str, &str)> = Vec::new();
    for mechanism in mechanisms.iter().filter(|one| one.share >= TRIED_FROM) {
        for (name, value) in mechanism.cures.iter().filter_map(|cure| cure.variable.as_ref()) {
            if found.iter().all(|(known, ..)| known != name) {
                found.push((name, value, &mechanism.what));
            }
        }
    }
    found
}

/// Keeps the user's own tunables. Ours come last and therefore win.
fn tunables(value: &str) -> OsString {
    match std::env::var_os("GLIBC_TUNABLES") {
        Some(mut own) if !own.is_empty() => {
            own.push(":");
            own.push(value);
            own
        }
        _ => value.into(),
    }
}

fn shown(value: &str) -> String {
    faultless_report::command(&[tunables(value).to_string_lossy().into_owned()])
}

/// `faultless` if a shell finds this very file under that name, else its path.
pub(super) fn own_name() -> String {
    let own = std::env::current_exe().ok();
    let found = run::find("faultless".as_ref()).ok();
    match (own, found.and_then(|program| program.path.canonicalize().ok())) {
        (Some(own), Some(found)) if own == found => "faultless".into(),
        (Some(own), _) => faultless_report::command(&[own.to_string_lossy().into_owned()]),
        (None, _) => "faultless".into(),
    }
}
