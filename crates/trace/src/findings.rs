//! A recording -> the answer of `faultless report`: how much time went to faults, where, and what to do about
//! it.
//!
//! [`Stat`] gives the parts that need no sites: totals, the avoidable curve, serialisation, kernel phases.
//! `sites` gives the rows, `why` the mechanisms. [`Findings`] is also the JSON document of `report --json`.

mod kernel;
mod notes;

use serde::{Deserialize, Serialize};

pub use kernel::{FaultPath, bare};
pub use notes::lost_of;

use crate::avoid::Point;
use crate::fault::Faults;
use crate::filter::Filter;
use crate::heaps::{self, Heap};
use crate::kind::Kind;
use crate::measurement::{Count, Interval};
use crate::observation::{Exit, Host, SourceNote, What};
use crate::profile::{Profile, Selected, Selection};
use crate::program::{Program, has_no_huge_pages};
use crate::recording::{Recording, Settings};
use crate::sites::{Group, Grouping, SiteRow, Sites};
use crate::stat::missing::denied;
use crate::stat::{KernelTime, Missing, Part, Serialisation, Stat};
use crate::tree::{Node, Shape};
use crate::tuning::{JUDGED_RECORDS, MOST_SHARE, MOST_SITES};
use crate::why::{self, Mechanism};

/// The request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// This grouping only; `None`: all of the usual ones.
    pub by: Option<Group>,
    /// The figure to sort by, largest first.
    pub sort: Sort,
    /// Rows per table at most.
    pub top: usize,
    /// Only faults that hold these conditions.
    pub filter: Filter,
    /// A call tree of this shape instead of tables.
    pub tree: Option<Shape>,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Time.
    #[default]
    Time,
    /// Faults.
    Faults,
    /// Memory made resident.
    Bytes,
    /// Faults on memory that the same site had given back.
    Refault,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Version of this document's shape.
    pub schema: u32,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How it ended; `None` if the recorder was killed before.
    pub exit: Option<Exit>,
    /// The machine.
    pub host: Host,
    /// How it was recorded.
    pub settings: Settings,
    /// CPU time of the program, ns; 0 if not known.
    pub cpu_ns: u64,
    /// CPU time in faults, ns; `None` if no time is known.
    pub time_ns: Option<Interval>,
    /// Time of major faults, ns. They wait for a disk: in the tables, but no CPU time.
    pub wait_ns: f64,
    /// Faults of the run.
    pub faults: u64,
    /// How few call sites make most of the time of all call sites, disk waits included, and their share. Of the
    /// faults if no time is known.
    pub most: Option<(u64, f64)>,
    /// Share of the time of the run that is in no call site, 0 to 1. Of the faults if no time is known.
    #[serde(default)]
    pub unplaced: f64,
    /// The gain from keeping freed pages, by the readings of resident memory.
    pub avoidable: Option<Point>,
    /// The reason if no mechanism has a cure.
    #[serde(default)]
    pub no_cure: Option<String>,
    /// What the filter left of the run; `None` without one.
    #[serde(default)]
    pub selected: Option<Selected>,
    /// The requested tables.
    pub tables: Vec<Table>,
    /// The requested call tree.
    #[serde(default)]
    pub tree: Option<Vec<Node>>,
    /// The allocators and runtimes of the programs that fault most, with the settings in force.
    #[serde(default)]
    pub heaps: Vec<Heap>,
    /// Why: the mechanisms behind the faults, most time first.
    #[serde(default)]
    pub mechanisms: Vec<Mechanism>,
    /// CPU time in the calls that gave memory back, ns; `None` if they were not recorded.
    #[serde(default)]
    pub giving_ns: Option<f64>,
    /// Memory that these calls gave back, bytes a second ...
    #[serde(default)]
    pub given_bytes_per_s: Option<f64>,
    /// ... and that faults took again.
    #[serde(default)]
    pub taken_bytes_per_s: Option<f64>,
    /// The next step.
    #[serde(default)]
    pub next: Option<Next>,
    /// Faults that are in no table, by kind, with seconds.
    pub beyond: Vec<Beyond>,
    /// The 95 % intervals of their seconds.
    #[serde(default)]
    pub beyond_seconds: Vec<Option<(f64, f64)>>,
    /// Kernel time, as root.
    pub kernel: Option<KernelTime>,
    /// Whether faults wait for each other.
    pub serialisation: Serialisation,
    /// Waits for the lock of the address space: for reading, for writing.
    pub lock_waits: [LockWaits; 2],
    /// What the figures rest on.
    pub coverage: Coverage,
    /// What the reader must know.
    pub notes: Vec<String>,
    /// The notes about method. They do not change how to read the figures.
    #[serde(skip)]
    pub details: Vec<String>,
    /// Parts of the answer that could not be given, and why.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// The sources that were used, those that were denied, and the remedy.
    #[serde(default)]
    pub sources: Vec<SourceNote>,
}

/// The rows of a grouping that were requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The rows.
    pub sites: Sites,
    /// Rows that were left out because of `top`.
    pub left_out: u64,
    /// Their sum, and the share of the largest.
    #[serde(default)]
    pub left: Left,
}

/// The sum of rows that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Left {
    /// Their faults.
    pub faults: f64,
    /// Their time, ns.
    pub time_ns: f64,
    /// The share of the largest, 0 to 1.
    pub largest: f64,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Try the cures that need no change of the program.
    Advise,
    /// Look at who calls the sites: no cure that `advise` tries acts on them.
    Tree,
    /// The same, of a program that was running already.
    Restart,
    /// Record as root: most faults were not seen.
    Root,
}

/// A kind, its faults, and their seconds.
pub type Beyond = (Kind, u64, Option<f64>);

/// Waits for `mmap_lock`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWaits {
    /// How many.
    pub waits: u64,
    /// All of them, ns.
    pub time_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
    /// The system calls that waited, or faults, and how long, ns; the longest first. Some may not be known.
    #[serde(default)]
    pub by: Vec<(String, u64)>,
}

/// What the figures rest on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Faults recorded singly.
    pub recorded: u64,
    /// The faults that the events counted, if each is recorded singly and nothing was lost.
    #[serde(default)]
    pub complete: Option<u64>,
    /// Those with their own time.
    pub timed: u64,
    /// Faults sampled at large.
    pub sampled: u64,
    /// Sampled faults with their own time.
    pub sampled_timed: u64,
    /// Records that were lost.
    pub lost: u64,
    /// Blocks recorded.
    pub blocks: u64,
    /// CPU time of the recorder while the program ran, ns.
    pub recorder_cpu_ns: Option<u64>,
    /// Share of the time at places without a name, 0 to 1.
    pub unnamed: f64,
}

impl Findings {
    /// Version of the JSON document; rises when a field changes its meaning or goes.
    pub const SCHEMA: u32 = 5;

    /// The findings of a recording. An unknown part is left out, with a note.
    ///
    /// # Errors
    /// No fault passes the filter; the reason names the alternatives.
    pub fn new(recording: &Recording, wanted: &Wanted) -> Result<Self, String> {
        Self::with_profile(recording, wanted).map(|(findings, _)| findings)
    }

    /// The findings and the weighted faults that they rest on.
    ///
    /// # Errors
    /// As [`Findings::new`].
    pub fn with_profile(recording: &Recording, wanted: &Wanted) -> Result<(Self, Profile), String> {
        let observation = &recording.observation;
        let faults = Faults::from_observation(observation);
        let profile = Profile::of(&faults, observation, &recording.stacks);
        let stat = Stat::of(observation, &faults, &profile);
        let selection = wanted.filter.select(recording, &profile)?;
        let grouping = Grouping::new(recording, &profile);
        let group = |by| grouping.sites(by, &selection);
        let sites = group(Group::Site);
        let owners = group(Group::Alloc);
        let has_blocks = !profile.blocks.blocks.is_empty();
        let beyond = profile.totals.beyond.clone();
        let interval_of = |(kind, ..): &Beyond| {
            profile.totals.rows.iter().find(|row| row.kind == *kind).and_then(|row| row.seconds_interval)
        };
        let beyond_seconds = beyond.iter().map(interval_of).collect();
        let knee = stat.avoidable.as_ref().and_then(|curve| curve.knee);
        let plateau = stat.avoidable.as_ref().and_then(|curve| curve.points.last());
        let most_avoidable = plateau.map(|plateau| plateau.high);
        let cpu_ns = stat.cpu_ns();
        // A recording that was cut off tells neither: at least its records do.
        let last_ns = observation.records.iter().map(|record| record.time_ns).max().unwrap_or(0);
        let seen_ns = last_ns.saturating_sub(recording.header.begin_ns);
        let or_seen = |ns: u64| if ns > 0 { ns } else { seen_ns };
        let heaps = heaps::heaps(recording, &profile);
        let (mechanisms, giving) = why::mechanisms(
            recording,
            &profile,
            &grouping,
            why::Run {
                run_ns: (recording.header.begin_ns, or_seen(stat.usage.wall_ns)),
                cpu_ns: or_seen(cpu_ns) as f64,
                lost: lost_of(recording) > 0,
                knee,
                most_avoidable,
                memory: Program::new(recording, &heaps, has_blocks).memory,
                no_huge_pages: has_no_huge_pages(observation),
            },
        );
        let whole = selection.is_part().then(|| grouping.sites(Group::Site, &Selection::default()));
        let whole = whole.as_ref().unwrap_or(&sites);
        // Without an end not all is known, and nothing rules a cure out.
        let is_known = !whole.rows.is_empty() && recording.footer.is_some();
        let no_cure = is_known.then(|| no_cure(&mechanisms, whole.all.records, stat.faults())).flatten();
        let (kernel, no_phases) = kernel::kernel_time(recording).unzip();
        let no_phases = no_phases.flatten();
        let coverage = notes::coverage(recording, &profile, &sites);
        let (notes, details) = notes::notes(recording, &stat, &profile, &coverage, no_phases.clone());
        let groups: Vec<Group> = match wanted.by {
            _ if wanted.tree.is_some() => Vec::new(),
            Some(by) => vec![by],
            None => [Group::Site, Group::Alloc, Group::Kind, Group::Mapping, Group::Thread]
                .into_iter()
                .filter(|by| *by != Group::Alloc || has_blocks)
                .collect(),
        };
        let wait_ns = profile.totals.wait_ns;
        let time_ns = stat.time.as_ref().map(|time| time.seconds.times(1e9));
        let all = time_ns.map_or(0.0, |time_ns| time_ns.value + wait_ns);
        let placed = figure(whole, &whole.all) / if all > 0.0 { all } else { stat.faults() as f64 };
        // Sums of rounded parts miss the whole by a hair.
        let unplaced = (1e9 * (1.0 - placed)).round().max(0.0) / 1e9;
        let tables = groups.into_iter().map(|by| {
            let found = match by {
                Group::Site => sites.clone(),
                Group::Alloc => owners.clone(),
                by => group(by),
            };
            cut(found, wanted)
        });
        // Where switches were not recorded, the time of calls holds their waits.
        let giving_max_ns = (cpu_ns as f64 - time_ns.map_or(0.0, |time_ns| time_ns.value)).max(0.0);
        let findings = Self {
            schema: Self::SCHEMA,
            command: recording.header.command.clone(),
            exit: recording.footer.as_ref().map(|footer| footer.exit),
            host: observation.host.clone(),
            settings: recording.header.settings.clone(),
            cpu_ns,
            time_ns,
            wait_ns,
            faults: stat.faults(),
            most: most(whole),
            unplaced,
            avoidable: knee,
            no_cure,
            selected: selection.of(&profile),
            tables: tables.collect(),
            tree: wanted.tree.map(|shape| Node::tree(recording, &profile, &selection, shape)),
            next: match is_hidden(recording, &whole.all) && mechanisms.is_empty() {
                true => Some(Next::Root),
                false => next(&mechanisms, observation.attached),
            },
            heaps,
            mechanisms,
            giving_ns: giving.map(|giving| giving.ns.min(giving_max_ns)),
            given_bytes_per_s: giving.map(|giving| giving.given_bytes_per_s),
            taken_bytes_per_s: giving.map(|giving| giving.taken_bytes_per_s),
            beyond,
            beyond_seconds,
            kernel,
            serialisation: stat.serialisation,
            lock_waits: lock_waits(recording),
            coverage,
            missing: missing(stat.missing, &observation.sources, &notes, no_phases),
            notes,
            details,
            sources: observation.sources.clone(),
        };
        Ok((findings, profile))
    }
}

/// Whether most faults were taken where this user sees none.
fn is_hidden(recording: &Recording, seen: &SiteRow) -> bool {
    let usage = &recording.observation.usage;
    recording.header.settings.user_only && 2.0 * seen.faults.value < usage.minor_faults as f64
}

/// What to do next; `None` if nothing takes time.
fn next(mechanisms: &[Mechanism], is_attached: bool) -> Option<Next> {
    let first = mechanisms.first()?;
    match mechanisms.iter().any(Mechanism::can_be_tried) {
        true if is_attached => Some(Next::Restart),
        true => Some(Next::Advise),
        false => (!first.is_over()).then_some(Next::Tree),
    }
}

/// The reason if no mechanism has a cure, of so many recorded faults of all.
fn no_cure(mechanisms: &[Mechanism], records: u64, faults: u64) -> Option<String> {
    let is_open = |one: &Mechanism| one.is_over() || one.can_be_tried() || !one.cures.is_empty();
    if mechanisms.iter().any(is_open) {
        return None;
    }
    // Of few faults a part is this program's own, before the exec.
    if records < JUDGED_RECORDS.min(faults / 2) {
        let (records, faults) = (Count(records), Count(faults));
        return Some(format!("{records} of {faults} faults were recorded, too few to judge one"));
    }
    Some(match mechanisms.first() {
        Some(first) => first.what.clone(),
        None => "nothing that they do takes 1 % of the CPU time".to_owned(),
    })
}

/// The time of a row, or its faults if no time is known.
fn figure(sites: &Sites, row: &SiteRow) -> f64 {
    if sites.all.time_ns.value > 0.0 { row.time_ns.value } else { row.faults.value }
}

/// How few call sites make most of what all of them make.
fn most(sites: &Sites) -> Option<(u64, f64)> {
    let all = figure(sites, &sites.all).max(f64::MIN_POSITIVE);
    let mut share = 0.0;
    for (index, row) in sites.rows.iter().take(MOST_SITES).enumerate() {
        share += figure(sites, row) / all;
        if share >= MOST_SHARE || index + 1 == MOST_SITES.min(sites.rows.len()) {
            return Some((index as u64 + 1, share.min(1.0)));
        }
    }
    None
}

fn cut(mut sites: Sites, wanted: &Wanted) -> Table {
    sites.rows.retain(|row| row.faults.value.round() > 0.0);
    let by = |row: &SiteRow| match wanted.sort {
        Sort::Time => row.time_ns.value,
        Sort::Faults => row.faults.value,
        Sort::Bytes => row.resident_bytes,
        Sort::Refault => row.refault.unwrap_or(0.0) * row.faults.value,
    };
    sites.rows.sort_by(|a, b| by(b).total_cmp(&by(a)));
    let left_out = sites.rows.len().saturating_sub(wanted.top) as u64;
    let mut left = Left::default();
    for row in sites.rows.iter().skip(wanted.top) {
        left.faults += row.faults.value;
        left.time_ns += row.time_ns.value;
        left.largest = left.largest.max(row.share);
    }
    sites.rows.truncate(wanted.top);
    Table { sites, left_out, left }
}

/// Missing parts of `stat`, then kernel-mode faults outside all rows, `mmap_lock` waits, and kernel phases.
fn missing(
    mut missing: Vec<Missing>,
    sources: &[SourceNote],
    notes: &[String],
    no_phases: Option<String>,
) -> Vec<Missing> {
    let user_only = notes.iter().find(|note| *note == notes::USER_ONLY).cloned();
    let no_locks = denied(sources, "waits for mmap_lock");
    for (part, why) in [(Part::KernelMode, user_only), (Part::LockWaits, no_locks), (Part::Kernel, no_phases)]
    {
        if missing.iter().all(|missing| missing.part != part) {
            missing.extend(why.map(|why| Missing { part, why }));
        }
    }
    missing
}

fn lock_waits(recording: &Recording) -> [LockWaits; 2] {
    let mut found = [LockWaits::default(), LockWaits::default()];
    for record in &recording.observation.records {
        let What::LockWait { write, wait_ns, by } = &record.what else { continue };
        let waits = &mut found[usize::from(*write)];
        waits.waits += 1;
        waits.time_ns = waits.time_ns.saturating_add(*wait_ns);
        waits.longest_ns = waits.longest_ns.max(*wait_ns);
        let Some(by) = by else { continue };
        match waits.by.iter_mut().find(|(known, _)| known == by) {
            Some((_, time_ns)) => *time_ns = time_ns.saturating_add(*wait_ns),
            None => waits.by.push((by.clone(), *wait_ns)),
        }
    }
    for waits in &mut found {
        waits.by.sort_by_key(|(_, time_ns)| std::cmp::Reverse(*time_ns));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Record;

    #[test]
    fn waits_for_the_lock_are_added_up_by_what_waited() {
        let wait = |write, wait_ns, by: Option<&str>| Record {
            time_ns: 0,
            pid: 1,
            tid: 1,
            what: What::LockWait { write, wait_ns, by: by.map(str::to_owned) },
        };
        let mut recording = Recording::default();
        recording.observation.records = vec![
            wait(false, 10, Some("faults")),
            wait(false, 20, Some("mincore")),
            wait(true, 5, None),
            wait(false, 15, Some("faults")),
        ];
        let [reading, writing] = lock_waits(&recording);
        assert_eq!((reading.waits, reading.time_ns, reading.longest_ns), (3, 45, 20));
        assert_eq!(reading.by, [("faults".to_owned(), 25), ("mincore".to_owned(), 20)]);
        assert_eq!((writing.waits, writing.by), (1, Vec::new()));
    }

    #[test]
    fn call_sites_make_their_share_of_the_time_that_the_answer_names() {
        let of = |ns| SiteRow { time_ns: Interval { value: ns, low: ns, high: ns }, ..SiteRow::default() };
        let sites = Sites { rows: vec![of(50.0), of(25.0), of(5.0)], all: of(80.0), ..Sites::default() };
        assert_eq!(most(&sites), Some((2, 0.9375)));
    }
}
