//! A recording -> the mechanisms behind its faults, each with its evidence, its cost, and the cures that act on it.
//!
//! A mechanism is one file below this one: what it is (`Rule::about`), the evidence that proves it (`Rule::find`),
//! and its cures. The rules stand in one table and are tried in order; a fault belongs to the first mechanism that
//! claims it. `given` tells who gave memory back and who took it again, `owner` which allocator or runtime called.
//!
//! The savings are hypotheses: `faultless advise` measures them.

mod arena;
mod cold_file;
mod cold_guest;
mod compaction;
mod copy;
mod cures;
mod file_pages;
mod fork;
mod fresh;
mod given;
mod growing_queue;
mod growth;
mod heap_top;
mod huge_flag;
mod java;
mod khugepaged;
mod lock;
mod mmap_threshold;
mod numpy;
mod oversize;
mod own_mapping;
mod owner;
mod populate;
mod purge;
mod ranges;
mod reclaim;
mod remapped;
mod runtime;
mod seen;
mod swap;
mod taken_again;
mod thread_stack;
mod threshold_learned;
mod tlb;
mod userfaultfd;
mod v8;
mod when;
mod zero_page;

use serde::{Deserialize, Serialize};

use crate::avoid::Point;
use crate::kind::Kind;
use crate::measurement::{Interval, Percent};
use crate::profile::{Profile, Selection, Weighted};
use crate::program::Memory;
use crate::recording::Recording;
use crate::sites::{Group, Grouping, NO_STACK, Naming, SiteRow, Sites};
use cures::{Proposed, malloc_settings};
use given::{Caller, Given, Giving};

/// A mechanism is shown if it takes at least this share of the CPU time.
const SHOWN_SHARE: f64 = 0.01;
/// The same for a mechanism that slows other threads: its waits are a part of what they lose.
const SHOWN_OF_OTHERS: f64 = 0.0025;
/// Share of the CPU time, or of the run for waits, from which on a mechanism is worth a trial.
pub const TRIED_FROM: f64 = 0.02;
/// From this share of the CPU time on a start is not passed over.
const MUCH: f64 = 0.1;
/// Most of them that are shown.
const SHOWN: usize = 6;
/// Below this share of its length a block is used sparsely.
const DENSE_SHARE: f64 = 0.5;
/// A process that pays less of a mechanism is not named, and neither are more of them.
const PAYS: f64 = 0.05;
const PAYERS: usize = 3;
/// Places that are named for a mechanism.
const PLACES: usize = 2;

/// A mechanism that was found in a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mechanism {
    /// Its name, which does not change.
    pub id: String,
    /// What happens, in a sentence.
    pub what: String,
    /// Its faults.
    pub faults: Interval,
    /// Their time, waits included, ns.
    pub fault_ns: Interval,
    /// How much of it they waited, ns.
    #[serde(default)]
    pub fault_wait_ns: f64,
    /// Time in the calls that gave the memory back or made the others wait, ns; `None` if calls were not timed.
    pub call_ns: Option<f64>,
    /// Time that other threads waited because of it, ns.
    pub wait_ns: f64,
    /// Its share of the CPU time, 0 to 1; waits take none. Of the time recorded, if a recording has no end.
    pub share: f64,
    /// Such calls.
    pub calls: u64,
    /// Records were lost, so there may have been more calls.
    pub calls_are_least: bool,
    /// Calls a second, or faults a second if it makes no calls.
    pub per_s: f64,
    /// Memory that was given back and taken again, bytes ...
    pub cycled_bytes: f64,
    /// ... and bytes a second.
    pub cycled_bytes_per_s: f64,
    /// Where the memory is touched, most time first.
    pub taken_in: Vec<String>,
    /// Threads that it interrupts or makes wait, and how often, the most often first.
    #[serde(default)]
    pub victims: Vec<String>,
    /// Memory that it adds without a fault, bytes.
    #[serde(default)]
    pub grown_bytes: f64,
    /// Processes that pay for its faults and how much of them, most time first; empty if one pays nearly all.
    #[serde(default)]
    pub paid_by: Vec<String>,
    /// Who calls, from the call up to the program's function.
    pub caller: Option<String>,
    /// When its faults happen, if not all the time alike.
    pub when: Option<String>,
    /// They have ended early.
    #[serde(default)]
    pub ends_early: bool,
    /// What can be done; empty: nothing, for the reason in `what`.
    pub cures: Vec<Advised>,
}

impl Mechanism {
    /// Whether `faultless advise` has a cure that acts on it, and it takes enough time for a trial.
    pub fn can_be_tried(&self) -> bool {
        let is_tried = |cure: &Advised| cure.variable.is_some() || cure.how.starts_with("faultless run ");
        self.share >= TRIED_FROM
            && !self.is_over()
            && (self.cures.iter().any(is_tried) || self.id == fresh::RULE.id)
    }
}

/// A cure of a mechanism.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advised {
    /// A line to copy, or an instruction.
    pub how: String,
    /// The variable of the environment that does it; `None`: it needs a change of the program.
    pub variable: Option<(String, String)>,
    /// CPU time that it saves, ns.
    pub saves_ns: Interval,
    /// Time of waiting that it saves at most, ns.
    #[serde(default)]
    pub saves_wait_ns: f64,
    /// Memory that it keeps, bytes; `None` if it keeps none, or that is not known.
    pub keeps_bytes: Option<f64>,
    /// What else to know.
    pub note: Option<String>,
}

/// What rules see.
pub(crate) struct Scene<'a> {
    recording: &'a Recording,
    profile: &'a Profile,
    naming: &'a Naming<'a>,
    grouping: &'a Grouping<'a>,
    given: Given,
    run: Run,
}

/// What is known of the run.
pub(crate) struct Run {
    /// Begin and length, ns.
    pub(crate) run_ns: (u64, u64),
    /// CPU time, ns.
    pub(crate) cpu_ns: f64,
    /// Records were lost.
    pub(crate) lost: bool,
    /// What keeping freed memory would avoid, by the readings of resident memory.
    pub(crate) knee: Option<Point>,
    /// Upper bound of the share of all faults that keeping any amount avoids, 0 to 1.
    pub(crate) most_avoidable: Option<f64>,
    /// Who gives it memory.
    pub(crate) memory: Memory,
    /// It has switched huge pages off.
    pub(crate) no_huge_pages: bool,
}

/// A mechanism, for the table of rules and the documentation.
pub(crate) struct Rule {
    /// Its name, in the JSON and in the documentation.
    pub(crate) id: &'static str,
    /// Its name for a reader.
    pub(crate) title: &'static str,
    /// What it is.
    pub(crate) about: &'static str,
    /// How to see it without this tool.
    pub(crate) by_hand: &'static str,
    /// The cures: what to do, what it costs, and where that is written.
    pub(crate) cures: &'static [[&'static str; 3]],
    /// Its claims.
    find: for<'a> fn(&'a Scene<'a>) -> Vec<Claim<'a>>,
}

/// What a rule found: a mechanism without its figures.
#[derive(Default)]
struct Claim<'a> {
    what: String,
    /// Which faults are its.
    faults: Faults<'a>,
    /// The givers whose calls are its.
    givers: Vec<u32>,
    /// Time of other calls, ns, and how many.
    calls: (u64, f64),
    wait_ns: f64,
    /// The waits of its faults are its own.
    is_blocked: bool,
    victims: Vec<String>,
    grown_bytes: f64,
    caller: Option<String>,
    cures: Vec<Proposed>,
    /// What it is if its faults end early: then there is nothing to cure.
    early: Option<String>,
}

/// The faults of a claim.
#[derive(Default)]
enum Faults<'a> {
    #[default]
    None,
    /// Those whose pages its givers gave back.
    Given,
    /// Those of which this is true.
    Of(Box<dyn Fn(&Weighted) -> bool + 'a>),
    /// These, by their number in the profile.
    These(Vec<bool>),
}

impl Mechanism {
    /// Its faults have ended early, and it has no cure. Where it takes much, huge pages may be worth a try.
    pub fn is_over(&self) -> bool {
        self.ends_early && self.cures.is_empty() && self.share < MUCH
    }
}

impl Faults<'_> {
    fn of_kind(kind: Kind) -> Self {
        Self::Of(Box::new(move |fault| fault.kind == kind))
    }
}

/// All mechanisms, in the order in which they claim.
pub(crate) const RULES: &[Rule] = &[
    reclaim::RULE,
    populate::RULE,
    huge_flag::RULE,
    numpy::RULE,
    v8::BUFFERS_RULE,
    growth::RULE,
    threshold_learned::RULE,
    heap_top::RULE,
    mmap_threshold::RULE,
    arena::RULE,
    oversize::RULE,
    purge::RULE,
    runtime::GO,
    java::UNCOMMIT,
    java::HEAP,
    v8::HEAP,
    runtime::PYTHON,
    runtime::DOTNET,
    thread_stack::RULE,
    own_mapping::RULE,
    userfaultfd::RULE,
    zero_page::RULE,
    copy::RULE,
    swap::RULE,
    cold_file::RULE,
    remapped::RULE,
    file_pages::RULE,
    compaction::RULE,
    cold_guest::RULE,
    khugepaged::RULE,
    taken_again::RULE,
    growing_queue::RULE,
    fresh::MAPPED,
    lock::RULE,
    tlb::RULE,
    fork::RULE,
];

impl Scene<'_> {
    /// So much of the run, by the second.
    fn per_s(&self, amount: f64) -> f64 {
        if self.run.run_ns.1 > 0 { amount / (self.run.run_ns.1 as f64 / 1e9) } else { 0.0 }
    }

    /// The givers of which `is` is true, with their numbers.
    fn givers(&self, is: impl Fn(&Caller) -> bool) -> Vec<(u32, &Caller)> {
        let numbered = (0..).zip(&self.given.givers);
        numbered.filter(|(_, giver)| giver.resident_bytes > 0.0 && is(giver)).collect()
    }

    /// The largest block that malloc handed out, bytes, as far as it is known.
    fn largest_block(&self) -> u64 {
        let recorded = self.profile.blocks.blocks.iter().map(|block| block.len_bytes).max();
        let mapped = self.given.givers.iter().filter(|giver| giver.owner == owner::Owner::Malloc);
        recorded.max(mapped.map(|giver| giver.longest_bytes).max()).unwrap_or(u64::MAX)
    }

    /// Whether a file of this name lies on a stack, or a function that begins so.
    fn passes(&self, stack: Option<u32>, file: &str, functions: &[&str]) -> bool {
        let stacks = &self.recording.stacks;
        let mut frames = stack.into_iter().flat_map(|stack| stacks.frames_of(stack));
        let is_it =
            |name: &crate::recording::Name| functions.iter().any(|begin| name.function.contains(begin));
        frames.any(|frame| {
            !file.is_empty() && stacks.module(frame).is_some_and(|module| module.short_name().contains(file))
                || frame.names.iter().any(is_it)
        })
    }

    /// Whether a file of the program shows this allocator or runtime.
    fn has_heap(&self, name: &str) -> bool {
        let mut marks = self.recording.footer.iter().flat_map(|footer| &footer.marks);
        marks.any(|mark| mark.name == name)
    }

    /// The variable that holds the settings of an allocator, by the files of the program.
    fn variable(&self, name: &str) -> Option<&str> {
        let mut marks = self.recording.footer.iter().flat_map(|footer| &footer.marks);
        marks.find(|mark| mark.name == name && mark.variable.is_some())?.variable.as_deref()
    }

    /// Faults of which this is true, by their number in the profile.
    fn faults_of(&self, is_its: impl Fn(usize, &Weighted) -> bool) -> (Vec<bool>, f64) {
        let faults = self.profile.faults.iter().enumerate();
        let of: Vec<bool> = faults.map(|(index, fault)| is_its(index, fault)).collect();
        let sum =
            self.profile.faults.iter().zip(&of).filter(|(_, of)| **of).map(|(fault, _)| fault.faults).sum();
        (of, sum)
    }

    /// Who mapped the memory of a fault, by its number in the profile.
    fn maker(&self, index: usize) -> Option<&Caller> {
        self.given.made_by[index].map(|maker| &self.given.makers[maker as usize])
    }

    /// Whether these givers gave back little of what they had asked for: blocks of calloc, or sparse ones. A kept block
    /// would have to be zeroed whole.
    fn is_sparse(givers: &[(u32, &Caller)]) -> bool {
        let sum = |of: fn(&Caller) -> f64| givers.iter().map(|(_, giver)| of(giver)).sum::<f64>();
        sum(|giver| giver.resident_bytes) < DENSE_SHARE * sum(|giver| giver.bytes)
    }

    /// One claim on all memory that these givers gave back, if they did so more than once.
    fn cycle(&self, givers: &[(u32, &Caller)], what: String, cures: Vec<Proposed>) -> Option<Claim<'static>> {
        if givers.iter().map(|(_, giver)| giver.calls).sum::<u64>() < 2 {
            return None;
        }
        let most = givers.iter().max_by(|a, b| a.1.resident_bytes.total_cmp(&b.1.resident_bytes))?.1;
        Some(Claim {
            what,
            faults: Faults::Given,
            givers: givers.iter().map(|(number, _)| *number).collect(),
            caller: Some(self.caller(most)),
            cures,
            ..Claim::default()
        })
    }

    /// `brk <- free <- send_reply (msg.c:61)`.
    fn caller(&self, giver: &Caller) -> String {
        let call = giver.call.name();
        let site = named(&giver.site, giver.place.as_deref());
        let stacks = &self.recording.stacks;
        if giver.site.ends_with(call) {
            // The runtime's own wrapper of the call: who calls that?
            let labels = giver.stack.map(|stack| stacks.labels(stack)).unwrap_or_default();
            let is_known = |label: &&String| !label.contains("+0x") && !label.ends_with(call);
            let above: Vec<&str> = labels.iter().filter(is_known).take(3).map(String::as_str).collect();
            return std::iter::once(call).chain(above).collect::<Vec<_>>().join(" <- ");
        }
        let library = giver.stack.and_then(|stack| {
            let labels = stacks.labels(stack);
            let at = labels.iter().position(|label| *label == giver.site)?;
            let between = || labels[..at].iter().rev();
            let is_known = |label: &&String| !label.contains("+0x") && !label.contains(call);
            let by_malloc = between().find(|label| owner::is_malloc(label));
            by_malloc.or_else(|| between().find(is_known)).cloned()
        });
        match library {
            Some(library) => format!("{call} <- {} <- {site}", bare(&library)),
            None => format!("{call} <- {site}"),
        }
    }
}

/// What these givers' memory would cost if it were kept, bytes.
fn kept_bytes(givers: &[(u32, &Caller)]) -> f64 {
    givers.iter().map(|(_, giver)| giver.kept_bytes).sum()
}

/// The longest range that one of them gave back, bytes.
fn longest_bytes(givers: &[(u32, &Caller)]) -> u64 {
    givers.iter().map(|(_, giver)| giver.longest_bytes).max().unwrap_or(0)
}

/// Without the underscores and prefixes that glibc's own names have.
fn bare(function: &str) -> &str {
    function.trim_start_matches("__GI_").trim_start_matches('_').trim_start_matches("libc_")
}

/// `send_reply (src/msg.c:61)`: of a path the last two parts, as the rest says little.
fn named(site: &str, place: Option<&str>) -> String {
    let tail = |place: &str| {
        let at = place.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
        format!("{site} ({})", &place[at..])
    };
    place.map_or_else(|| site.to_owned(), tail)
}

/// The mechanisms of a recording, most time first, and what calls gave back; `None` if such calls were not recorded.
pub(crate) fn mechanisms(
    recording: &Recording,
    profile: &Profile,
    grouping: &Grouping<'_>,
    run: Run,
) -> (Vec<Mechanism>, Option<Giving>) {
    let naming = grouping.naming();
    let given = Given::new(recording, profile, naming);
    let scene = Scene { recording, profile, naming, grouping, given, run };
    let mut taken = vec![false; profile.faults.len()];
    let mut counted = vec![false; scene.given.givers.len()];
    let mut found: Vec<Mechanism> = Vec::new();
    for rule in RULES.iter().chain([&fresh::RULE]) {
        for claim in (rule.find)(&scene) {
            let of = claimed(&scene, &claim, &mut taken);
            found.extend(mechanism(&scene, rule, claim, &of, &mut counted));
        }
    }
    // What waits takes no CPU time: it is beside the length of the run. Memory is beside the most that there was.
    let peak_bytes = recording.observation.usage.peak_rss_bytes.max(1) as f64;
    let weight = |mechanism: &Mechanism| {
        let waits = mechanism.wait_ns / scene.run.run_ns.1.max(1) as f64;
        mechanism.share.max(waits).max(mechanism.grown_bytes / peak_bytes).min(1.0)
    };
    found.retain(|mechanism| {
        weight(mechanism) >= if mechanism.victims.is_empty() { SHOWN_SHARE } else { SHOWN_OF_OTHERS }
    });
    found.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    found.truncate(SHOWN);
    (found, scene.giving())
}

/// The page of all mechanisms, as Markdown.
pub fn documentation() -> String {
    let mut page = HEAD.to_owned();
    for rule in RULES.iter().chain([&fresh::RULE]) {
        let Rule { id, title, about, by_hand, cures, .. } = rule;
        let row = |[how, price, source]: &[&str; 3]| format!("|`{how}`|{price}|{source}|\n");
        let cures: String = cures.iter().map(row).collect();
        page.push_str(&format!(
            "\n## {title}\n\n`{id}`. {about}\n\nBy hand: {by_hand}\n\n|cure|price|source|\n|---|---|---|\n{cures}"
        ));
    }
    page.push_str(SETTINGS);
    page.push_str(&crate::heaps::documentation());
    page
}

/// Before the settings that are recorded.
const SETTINGS: &str = "\n## Settings that are recorded\n\n`faultless report` names the program's allocators and runtimes, \
                        with the settings in force. Of the environment and the command lines of its processes, a recording \
                        holds these and nothing else; of a variable that has words of its own, only those.\n\n\
                        |heap|variables and words|\n|---|---|\n";

const HEAD: &str = "# Mechanisms\n\nWhat is behind the page faults of a program, as `faultless report` names it. This page is made from \
                    the files in `crates/trace/src/why`.\n";

/// The faults of a claim, which no other can claim then.
fn claimed(scene: &Scene<'_>, claim: &Claim<'_>, taken: &mut [bool]) -> Vec<bool> {
    let is_its = |index: usize, fault: &Weighted| match claim.faults {
        Faults::None => false,
        Faults::Given => scene.given.causes[index].is_some_and(|giver| claim.givers.contains(&giver)),
        Faults::Of(ref is_its) => is_its(fault),
        Faults::These(ref these) => these[index],
    };
    let faults = scene.profile.faults.iter().enumerate();
    let of: Vec<bool> = faults.map(|(index, fault)| !taken[index] && is_its(index, fault)).collect();
    taken.iter_mut().zip(&of).for_each(|(taken, of)| *taken |= of);
    of
}

/// `counted`: the givers whose calls are those of a mechanism before.
fn mechanism(
    scene: &Scene<'_>,
    rule: &Rule,
    claim: Claim<'_>,
    of: &[bool],
    counted: &mut [bool],
) -> Option<Mechanism> {
    let selection = Selection::of_faults(of.to_vec());
    let sites = scene.grouping.sites(Group::Site, &selection);
    let shown = sites.shown.clone().unwrap_or_default();
    let new = claim.givers.iter().filter(|giver| !counted[**giver as usize]);
    let givers: Vec<&Caller> = new.map(|giver| &scene.given.givers[*giver as usize]).collect();
    let calls = claim.calls.0 + givers.iter().map(|giver| giver.calls).sum::<u64>();
    let call_ns = claim.calls.1 + givers.iter().map(|giver| giver.ns as f64).sum::<f64>();
    let is_taken = shown.faults.value >= 1.0;
    let others = call_ns + claim.wait_ns + claim.grown_bytes;
    if !is_taken && (others <= 0.0 || matches!(claim.faults, Faults::Given)) {
        return None;
    }
    claim.givers.iter().for_each(|giver| counted[*giver as usize] = true);
    let fault_cpu_ns = shown.time_ns.map(|ns| (ns - shown.wait_ns).max(0.0));
    let cost_ns = fault_cpu_ns.value + call_ns;
    let usage = &scene.recording.observation.usage;
    let peak_bytes = if usage.peak_rss_bytes > 0 { usage.peak_rss_bytes as f64 } else { f64::INFINITY };
    let cycled = if claim.givers.is_empty() { 0.0 } else { shown.resident_bytes };
    let when = when::when(scene, of);
    let is_start = when.as_ref().is_some_and(|when| when.is_start);
    let (what, cures) = match claim.early.filter(|_| is_start) {
        Some(early) => (early, Vec::new()),
        None => (claim.what, claim.cures),
    };
    let blocked_ns = if claim.is_blocked { shown.wait_ns } else { 0.0 };
    let cures = cures.into_iter().map(|cure| {
        let saves_ns = saved(fault_cpu_ns, call_ns, cure.saves).map(|ns| ns.min(scene.run.cpu_ns));
        let keeps_bytes = cure.keeps_bytes.map(|bytes| bytes.min(peak_bytes));
        let saves_wait_ns = blocked_ns * cure.saves[1];
        Advised {
            how: cure.how,
            variable: cure.variable,
            saves_ns,
            saves_wait_ns,
            keeps_bytes,
            note: cure.note,
        }
    });
    Some(Mechanism {
        id: rule.id.to_owned(),
        what,
        faults: shown.faults,
        fault_ns: shown.time_ns,
        fault_wait_ns: shown.wait_ns,
        call_ns: (call_ns > 0.0).then_some(call_ns),
        wait_ns: claim.wait_ns + blocked_ns,
        share: if scene.run.cpu_ns > 0.0 { (cost_ns / scene.run.cpu_ns).min(1.0) } else { 0.0 },
        calls,
        calls_are_least: scene.run.lost,
        per_s: scene.per_s(if calls > 0 { calls as f64 } else { shown.faults.value }),
        cycled_bytes: cycled,
        cycled_bytes_per_s: scene.per_s(cycled),
        taken_in: places(&sites),
        victims: claim.victims,
        grown_bytes: claim.grown_bytes,
        paid_by: payers(&scene.grouping.sites(Group::Process, &selection)),
        caller: claim.caller,
        ends_early: when.as_ref().is_some_and(|when| when.is_over),
        when: when.map(|when| when.text),
        cures: cures.collect(),
    })
}

/// What a cure that saves between these shares saves of the faults and the calls. The time of the faults and the share miss
/// independently of each other, so their errors add up by their squares.
fn saved(fault_ns: Interval, call_ns: f64, [low, high]: [f64; 2]) -> Interval {
    let (share, error) = ((low + high) / 2.0, (high - low) / 2.0);
    let all_ns = fault_ns.value + call_ns;
    let end_ns = |fault_ns: f64| (share * fault_ns).hypot(error * all_ns);
    Interval {
        low: (share * all_ns - end_ns(fault_ns.value - fault_ns.low)).max(0.0),
        value: share * all_ns,
        high: share * all_ns + end_ns(fault_ns.high - fault_ns.value),
    }
}

/// The processes, if more than one pays a part worth a word.
fn payers(processes: &Sites) -> Vec<String> {
    let all = processes.shown.as_ref().map_or(0.0, |shown| shown.time_ns.value);
    let weighty: Vec<_> = processes.rows.iter().filter(|row| row.time_ns.value > PAYS * all).collect();
    let words = |row: &&SiteRow| format!("{} {}", row.label, Percent(row.time_ns.value / all));
    if weighty.len() < 2 { Vec::new() } else { weighty.iter().take(PAYERS).map(words).collect() }
}

/// The sites with most of the time.
fn places(sites: &Sites) -> Vec<String> {
    let all = sites.shown.as_ref().map_or(0.0, |shown| shown.time_ns.value);
    let weighty = sites.rows.iter().filter(|row| row.label != NO_STACK && row.time_ns.value > 0.1 * all);
    let label = |row: &SiteRow| named(&row.label, row.place.as_deref());
    weighty.take(PLACES).map(label).collect()
}

#[cfg(test)]
mod tests;
