//! Weighted faults -> rows by call site, function, stack, allocating site, kind, mapping, thread or process.
//! A row has faults and time with their 95 % intervals, and resident memory. A row of blocks also has their
//! lifetimes and refaults.
//!
//! All rows of a grouping add up to all faults of the profile. Nothing is judged (`why` does).

mod lives;
mod naming;
mod refault;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::kind::{ALL, KINDS, Kind};
use crate::measurement::Interval;
use crate::profile::{Profile, Selection, Tally, Weighted, Whole};
use crate::program::Spawns;
use crate::recording::Recording;

pub use lives::BlockLives;
pub(crate) use naming::Naming;
pub use naming::stem;

pub use crate::tuning::THREADS_SHOWN;

/// What rows stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Function and line that touched: the caller of `memset`, not `memset`.
    #[default]
    Site,
    /// Function that touched.
    Function,
    /// The whole stack.
    Stack,
    /// Function and line that allocated the block.
    Alloc,
    /// What the fault was.
    Kind,
    /// Name of the mapping.
    Mapping,
    /// Name of the thread; all that differ in a number if they are many.
    Thread,
    /// Process.
    Process,
}

/// One group of faults: a site, a mapping, a thread or a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteRow {
    /// The label for a reader.
    pub label: String,
    /// `file:line` where known.
    pub place: Option<String>,
    /// The most frequent library function at the leaf.
    pub leaf: Option<String>,
    /// The stack with the most time: index into the recording's stacks.
    pub stack: Option<u32>,
    /// Faults.
    pub faults: Interval,
    /// Time in them, waits included, ns.
    pub time_ns: Interval,
    /// How much of it they waited, ns.
    #[serde(default)]
    pub wait_ns: f64,
    /// Memory that they made resident, bytes.
    pub resident_bytes: f64,
    /// Share of all time, or of all faults if no time is known; 0 to 1.
    pub share: f64,
    /// Records that the row rests on.
    pub records: u64,
    /// Kinds with faults and ns, most time first.
    pub kinds: Vec<(Kind, f64, f64)>,
    /// Share of its faults on pages that an earlier block of the same allocating site had covered and given
    /// back. `None` if no fault fell into a recorded block.
    pub refault: Option<f64>,
    /// Lower bound of its share of faults on pages that the same mapping had before.
    pub again: f64,
    /// Share of its faults that copied for a child which then ran another program.
    #[serde(default)]
    pub spawned: f64,
    /// The allocating site of most of its time, if more than half.
    pub allocated_by: Option<String>,
    /// For an allocating site its blocks.
    pub lives: Option<BlockLives>,
}

/// The rows of a grouping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sites {
    /// What rows stand for.
    pub by: Group,
    /// Largest share first.
    pub rows: Vec<SiteRow>,
    /// The sum of all faults of the run, also of those that a filter left out.
    pub all: SiteRow,
    /// The sum of the rows, if a filter left some faults out.
    #[serde(default)]
    pub shown: Option<SiteRow>,
}

/// Label of faults without a stack.
pub const NO_STACK: &str = "[no stack]";
/// Label of faults outside all recorded blocks.
pub(crate) const NO_BLOCK: &str = "[no recorded block]";

/// Label of faults in the interposer of `record --alloc` and its journal.
pub(crate) const RECORDER: &str = "[of the recording]";

/// The name of a row, and its file and line.
pub(crate) type Label = (String, Option<String>);

/// A row being added up.
#[derive(Default)]
struct Sum {
    tally: Tally,
    wait_ns: f64,
    kinds: Vec<(f64, f64)>,
    resident_bytes: f64,
    in_blocks: f64,
    refaulted: f64,
    again: f64,
    spawned: f64,
    stacks: HashMap<u32, f64>,
    owners: HashMap<usize, f64>,
}

impl Sites {
    /// Groups the faults of a recording.
    pub fn new(recording: &Recording, profile: &Profile, by: Group) -> Self {
        Grouping::new(recording, profile).sites(by, &Selection::default())
    }
}

/// What all tables of a recording need, worked out once.
pub(crate) struct Grouping<'a> {
    profile: &'a Profile,
    naming: Naming<'a>,
    /// For each fault.
    refaulted: Vec<bool>,
    /// For each fault: it copied for a child that then ran another program.
    spawned: Vec<bool>,
}

impl<'a> Grouping<'a> {
    pub(crate) fn new(recording: &'a Recording, profile: &'a Profile) -> Self {
        let spawns = Spawns::new(&recording.observation);
        let is_spawned =
            |fault: &Weighted| fault.kind == Kind::CowAfterFork && spawns.cover(fault.pid, fault.time_ns);
        Self {
            profile,
            naming: Naming::new(recording, profile),
            refaulted: refault::refaulted(profile),
            spawned: profile.faults.iter().map(is_spawned).collect(),
        }
    }

    /// For each fault: its memory was in an earlier block.
    pub(crate) fn refaulted(&self) -> &[bool] {
        &self.refaulted
    }

    /// The names that it uses.
    pub(crate) fn naming(&self) -> &Naming<'a> {
        &self.naming
    }

    /// Groups the selected faults. Shares are of the whole run, so the rows of all parts of a run add up to it.
    pub(crate) fn sites(&self, by: Group, selection: &Selection) -> Sites {
        let Self { profile, naming, .. } = self;
        let observation = &naming.recording.observation;
        let mut keys = Keys::default();
        let mut owners = Keys::default();
        let host = &observation.host;
        let (mut all, mut shown) = (Sum::new(), Sum::new());
        let mut sums: Vec<Sum> = Vec::new();
        for (index, (fault, basis)) in profile.faults.iter().zip(&profile.basis).enumerate() {
            let (refaulted, spawned) = (self.refaulted[index], self.spawned[index]);
            let owner = fault.block.map(|_| owners.number(Group::Alloc, fault, profile, naming));
            let key = selection.holds(index).then(|| keys.number(by, fault, profile, naming));
            sums.resize_with(sums.len().max(key.map_or(0, |key| key + 1)), Sum::new);
            let row = key.and_then(|key| sums.get_mut(key));
            let shown = key.map(|_| &mut shown);
            for sum in std::iter::once(&mut all).chain(row).chain(shown) {
                sum.tally.add(fault, basis);
                let kind = &mut sum.kinds[fault.kind as usize];
                *kind = (kind.0 + fault.faults, kind.1 + fault.time_ns());
                sum.wait_ns += fault.wait_ns;
                sum.resident_bytes += host.bytes_made_resident(fault.kind).unwrap_or(0.0) * fault.faults;
                sum.again += basis.again * fault.faults;
                sum.spawned += if spawned { fault.faults } else { 0.0 };
                if owner.is_some() {
                    sum.in_blocks += fault.faults;
                    sum.refaulted += if refaulted { fault.faults } else { 0.0 };
                }
            }
            let Some(key) = key else { continue };
            let weight = fault.time_ns().max(fault.faults * f64::MIN_POSITIVE);
            if let Some(stack) = fault.stack {
                *sums[key].stacks.entry(stack).or_default() += weight;
            }
            if let Some(owner) = owner {
                *sums[key].owners.entry(owner).or_default() += weight;
            }
        }
        let calibration = observation.calibration;
        let offset_doubt_ns = calibration.map_or(0.0, |found| found.offset_doubt_ns());
        let whole = Whole { all: &all.tally, doubt: profile.doubt, offset_doubt_ns, huge: profile.huge };
        let mut sum = all.row(&whole, None);
        // The exact count is known, whatever the parts, and the time of minor faults is the run's.
        sum.faults = Interval { low: sum.faults.value, high: sum.faults.value, ..sum.faults };
        if let Some(time) = profile.totals.time.as_ref().filter(|time| time.seconds.value > 0.0) {
            let wait_ns = profile.totals.wait_ns;
            let part = (sum.time_ns.value - wait_ns) / time.seconds.value;
            let at = |seconds: f64| seconds * part + wait_ns;
            sum.time_ns = Interval { low: at(time.seconds.low), high: at(time.seconds.high), ..sum.time_ns };
        }
        let all_ns = sum.time_ns;
        let shown = selection
            .is_part()
            .then(|| SiteRow { label: "shown".to_owned(), ..shown.row(&whole, Some(all_ns)) });
        let mut lives = match by {
            Group::Alloc => lives::by_owner(profile, &mut |block| keys.of_block(block, profile, naming)),
            _ => Vec::new(),
        };
        sums.resize_with(sums.len().max(lives.len()), Sum::new);
        lives.resize(sums.len(), None);
        let finish = |(sum, (label, lives)): (Sum, (Label, Option<BlockLives>))| {
            let by_stack = matches!(by, Group::Site | Group::Function | Group::Stack);
            let owner = sum
                .owner()
                .filter(|_| by_stack)
                .and_then(|owner| owners.labels.get(owner))
                .map(|(label, _)| label.clone());
            let leaf = sum.stack().and_then(|stack| naming.leaf(stack)).filter(|_| by == Group::Site);
            let row = sum.row(&whole, Some(all_ns));
            SiteRow { label: label.0, place: label.1, leaf, allocated_by: owner, lives, ..row }
        };
        let labels = keys.labels.into_iter().zip(lives);
        let mut rows: Vec<SiteRow> = sums.into_iter().zip(labels).map(finish).collect();
        let size = |row: &SiteRow| (row.share, row.faults.value);
        rows.sort_by(|a, b| {
            size(b).partial_cmp(&size(a)).unwrap_or(std::cmp::Ordering::Equal).then(a.label.cmp(&b.label))
        });
        Sites { by, rows, all: SiteRow { label: "all".to_owned(), ..sum }, shown }
    }
}

impl Sum {
    fn new() -> Self {
        Self { kinds: vec![(0.0, 0.0); KINDS], ..Self::default() }
    }

    fn stack(&self) -> Option<u32> {
        heaviest(&self.stacks).map(|(stack, _)| stack)
    }

    /// The allocating site of more than half of its time.
    fn owner(&self) -> Option<usize> {
        let most = heaviest(&self.owners);
        most.filter(|(_, weight)| 2.0 * weight > self.tally.time_ns + self.wait_ns).map(|(owner, _)| owner)
    }

    /// A row; its time is bounded by the time of all, if known.
    fn row(&self, whole: &Whole<'_>, all_ns: Option<Interval>) -> SiteRow {
        let (all, (faults, cpu_ns)) = (whole.all, self.tally.intervals(whole));
        let mut time_ns = cpu_ns.map(|ns| ns + self.wait_ns);
        if let Some(all_ns) = all_ns {
            time_ns.high = time_ns.high.min(all_ns.high).max(time_ns.value);
            time_ns = if self.tally.records == all.records { all_ns } else { time_ns };
        }
        let part = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let share = match all_ns.unwrap_or(time_ns).value {
            all_ns if all_ns > 0.0 => part(time_ns.value, all_ns),
            _ => part(self.tally.faults, all.faults),
        };
        let kinds = ALL.into_iter().zip(&self.kinds).filter(|(_, (faults, _))| *faults > 0.0);
        let mut kinds: Vec<(Kind, f64, f64)> =
            kinds.map(|(kind, (faults, ns))| (kind, *faults, *ns)).collect();
        kinds.sort_by(|a, b| b.2.total_cmp(&a.2).then(b.1.total_cmp(&a.1)));
        SiteRow {
            stack: self.stack(),
            faults,
            time_ns,
            wait_ns: self.wait_ns,
            resident_bytes: self.resident_bytes,
            share,
            records: self.tally.records,
            kinds,
            refault: (self.in_blocks > 0.0).then(|| self.refaulted / self.in_blocks),
            again: part(self.again, self.tally.faults),
            spawned: part(self.spawned, self.tally.faults),
            ..SiteRow::default()
        }
    }
}

/// The entry of the largest weight; of equals the first.
fn heaviest<K: Copy + Ord>(weights: &HashMap<K, f64>) -> Option<(K, f64)> {
    let most = weights.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
    most.map(|(key, weight)| (*key, *weight))
}

/// Numbers of rows, by label.
#[derive(Default)]
struct Keys {
    number_of: HashMap<Label, usize>,
    labels: Vec<Label>,
    /// Rows of known stacks, kinds, mappings and threads, so that each label is built once.
    known: HashMap<(u32, u32), usize>,
}

impl Keys {
    fn number(&mut self, by: Group, fault: &Weighted, profile: &Profile, naming: &Naming<'_>) -> usize {
        const NONE: u32 = u32::MAX;
        if by == Group::Alloc {
            return match fault.block {
                Some(block) => self.of_block(block, profile, naming),
                None => self.known((NONE, NONE), || (NO_BLOCK.to_owned(), None)),
            };
        }
        let stack = fault.stack.unwrap_or(NONE);
        let is_place = matches!(by, Group::Site | Group::Function | Group::Stack | Group::Mapping);
        if is_place && naming.is_recorder(fault) {
            return self.known((NONE, NONE), || (RECORDER.to_owned(), None));
        }
        match by {
            Group::Site | Group::Alloc => self.known((stack, 0), || naming.site(fault.stack, NO_STACK)),
            Group::Function => self.known((stack, 0), || (naming.site(fault.stack, NO_STACK).0, None)),
            Group::Stack => self.known((stack, 0), || {
                let stacks = &naming.recording.stacks;
                let shown = fault.stack.map(|stack| stacks.shown(stack, false)).unwrap_or_default();
                let labels: Vec<String> = shown.into_iter().map(|shown| stacks.label(shown)).collect();
                (if labels.is_empty() { NO_STACK.to_owned() } else { labels.join(" < ") }, None)
            }),
            Group::Kind => self.known((fault.kind as u32, 0), || (fault.kind.words().to_owned(), None)),
            Group::Mapping => self.known((fault.mapping, 0), || {
                let name = profile.mappings.get(fault.mapping as usize);
                (name.map_or("[unknown]", String::as_str).to_owned(), None)
            }),
            Group::Thread => {
                self.known((fault.pid, fault.tid), || (naming.threads_row(fault.pid, fault.tid), None))
            }
            Group::Process => self.known((fault.pid, 0), || {
                (format!("{} ({})", naming.thread(fault.pid, fault.pid), fault.pid), None)
            }),
        }
    }

    fn of_block(&mut self, block: u32, profile: &Profile, naming: &Naming<'_>) -> usize {
        let stack = profile.blocks.blocks.get(block as usize).and_then(|block| block.stack);
        self.known((stack.unwrap_or(u32::MAX), 0), || naming.site(stack, NO_STACK))
    }

    fn known(&mut self, key: (u32, u32), label: impl FnOnce() -> Label) -> usize {
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let label = label();
        let next = self.labels.len();
        let number = *self.number_of.entry(label.clone()).or_insert(next);
        if number == next {
            self.labels.push(label);
        }
        self.known.insert(key, number);
        number
    }
}
