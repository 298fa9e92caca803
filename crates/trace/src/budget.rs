//! Runs of a program -> a budget of its faults and memory; later runs and that budget -> a judgement.
//!
//! A budget holds, for each figure, what the runs showed and a limit. The median of later runs is compared with
//! the limit. Faults are counted with huge pages off, so each stands for one base page: a count of faults is a
//! count of bytes, and a huge page that is not to be had changes nothing.
//!
//! `file` reads and writes the budget file, `judge` compares. Nothing here runs a program or reads a clock.

mod file;
mod judge;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diff::Run;
use crate::kind::Kind;
use crate::measurement::percentile;
use crate::observation::SourceNote;
use crate::stat::Stat;
use crate::tuning as t;

pub use file::Budgets;
pub use judge::{Checked, Compared, Growth};

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Minor and major faults: exact.
    pub faults: u64,
    /// Largest resident set of a single process, bytes: exact.
    pub peak_rss_bytes: u64,
    /// Memory given back and taken again, bytes: at least this much, by readings over time. `None` if the run was
    /// too short for it, or it may be nothing or much.
    pub again_bytes: Option<u64>,
    /// Faults by kind. Exact in short programs, else estimates. Empty if no single fault was recorded.
    pub kinds: BTreeMap<Kind, u64>,
}

/// A budget: one program on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The command, or the name that the user gave it.
    pub name: String,
    /// Runs that the figures rest on.
    pub runs: u32,
    /// Where they were taken.
    pub host: Facts,
    /// Minor and major faults.
    pub faults: Limit,
    /// Largest resident set of a single process, bytes.
    pub peak_rss_bytes: Limit,
    /// Memory given back and taken again, bytes; `None` if some run was too short for it.
    #[serde(default)]
    pub again_bytes: Option<Limit>,
    /// Faults by kind; kinds with few faults are left out.
    #[serde(default)]
    pub kinds: BTreeMap<Kind, Limit>,
    /// Faults by function and caller, in one recorded run. They have no limits: they tell which site grew.
    #[serde(default)]
    pub sites: BTreeMap<String, u64>,
}

/// Facts of a host that change counts of faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Version of the kernel, without patch level: `6.12`.
    pub kernel: String,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// Version of the C library, if known.
    #[serde(default)]
    pub libc: Option<String>,
    /// Base page size.
    pub page_bytes: u64,
    /// Processors online.
    pub processors: u32,
    /// `off` if they could be switched off for the program, else the setting of the machine.
    pub huge_pages: String,
    /// Whether addresses are random. `check` fixes them where it may.
    pub random_addresses: bool,
    /// Faults that could be recorded one by one.
    pub recorded: Recorded,
}

/// Faults that could be recorded one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recorded {
    /// None: only totals are known.
    #[default]
    None,
    /// Those in user mode.
    User,
    /// All.
    All,
}

/// What the runs showed of a figure, and the most that it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The most that passes.
    pub limit: u64,
    /// The middle value of the runs.
    pub median: u64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

impl Reading {
    /// The figures of a run with huge pages off.
    pub fn of(stat: &Stat) -> Self {
        let before = stat.rows.iter().find(|row| row.kind == Kind::BeforeExec).map_or(0, |row| row.faults);
        let faults = stat.faults().saturating_sub(before);
        let again_bytes = stat
            .avoidable
            .as_ref()
            .and_then(|curve| curve.points.last())
            .filter(|all| all.low > 0.0 || all.high <= t::WIDE_BOUNDS)
            .map(|all| (all.low * stat.faults() as f64 * stat.host.page_bytes as f64) as u64);
        let is_recorded = recorded(&stat.sources) != Recorded::None;
        let rows = stat.rows.iter().filter(|row| is_recorded && row.kind != Kind::BeforeExec);
        let kinds = rows.map(|row| (row.kind, row.faults)).collect();
        Self { faults, peak_rss_bytes: stat.usage.peak_rss_bytes, again_bytes, kinds }
    }
}

/// Which faults the sources of a run recorded one by one.
pub fn recorded(sources: &[SourceNote]) -> Recorded {
    let pairs = sources.iter().find(|note| note.source == PAIRS && note.used);
    match pairs {
        None => Recorded::None,
        Some(note) if note.note.contains("user mode only") => Recorded::User,
        Some(_) => Recorded::All,
    }
}

/// The source of single faults.
const PAIRS: &str = "fault pairs";

impl Limit {
    /// The spread of some runs, and a limit above it: by as much again as the runs lie apart, and by `least`.
    ///
    /// A later run of the same distribution rarely lies beyond the largest of ten by their range, and an alarm takes
    /// two of three such runs (`tests` simulates it).
    fn of(values: &[u64], least: f64) -> Option<Self> {
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        let room = (max - min).max(least.ceil() as u64);
        Some(Self { limit: max.saturating_add(room), median: median(values), min, max })
    }

    /// The smallest growth over the median that the limit catches, as a share.
    pub fn resolution(&self) -> f64 {
        (self.limit.saturating_sub(self.median)) as f64 / self.median.max(1) as f64
    }
}

impl Budget {
    /// The budget that these runs give; `None` without a run.
    pub fn new(name: String, host: Facts, runs: &[Reading], sites: BTreeMap<String, u64>) -> Option<Self> {
        let column = |of: fn(&Reading) -> u64| -> Vec<u64> { runs.iter().map(of).collect() };
        let exact = |values: &[u64], least: f64| {
            Limit::of(values, (median(values) as f64 * t::GATE_SHARE).max(least))
        };
        let page = host.page_bytes as f64;
        let faults = exact(&column(|run| run.faults), t::GATE_PAGES)?;
        let rss_pages = t::GATE_RSS_PAGES * f64::from(host.processors.max(1));
        let rss = exact(&column(|run| run.peak_rss_bytes), rss_pages * page)?;
        let estimate = (faults.median as f64 * t::GATE_ESTIMATE_SHARE).max(t::GATE_PAGES);
        let again: Option<Vec<u64>> = runs.iter().map(|run| run.again_bytes).collect();
        let kinds = kinds_of(runs).filter_map(|kind| {
            let of_kind: Vec<u64> = runs.iter().map(|run| count(run, kind)).collect();
            let limit = Limit::of(&of_kind, estimate)?;
            (limit.max as f64 >= t::GATE_SHARE * faults.median as f64).then_some((kind, limit))
        });
        Some(Self {
            name,
            runs: runs.len() as u32,
            faults,
            peak_rss_bytes: rss,
            again_bytes: again.and_then(|all| Limit::of(&all, estimate * page)),
            kinds: kinds.collect(),
            sites: largest(sites, faults.median),
            host,
        })
    }
}

/// The middle one; 0 of none.
fn median(values: &[u64]) -> u64 {
    let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    percentile(&values, 0.5).unwrap_or(0.0).round() as u64
}

/// Kinds that some run took.
fn kinds_of(runs: &[Reading]) -> impl Iterator<Item = Kind> + use<> {
    let kinds: std::collections::BTreeSet<Kind> =
        runs.iter().flat_map(|run| run.kinds.keys().copied()).collect();
    kinds.into_iter()
}

fn count(run: &Reading, kind: Kind) -> u64 {
    run.kinds.get(&kind).copied().unwrap_or(0)
}

/// The sites with at least a small share of `faults`.
fn largest(sites: BTreeMap<String, u64>, faults: u64) -> BTreeMap<String, u64> {
    let least = t::GATE_SITE_SHARE * faults as f64;
    sites.into_iter().filter(|(_, own)| *own as f64 >= least).collect()
}

/// Faults by function and caller, as `diff` names them, and by kind where no stack shows a site.
pub fn sites(run: &Run) -> BTreeMap<String, u64> {
    let mut sites: BTreeMap<String, f64> = crate::diff::call_sites(run);
    for (kind, faults, _) in &run.profile.totals.beyond {
        if *kind != Kind::BeforeExec {
            *sites.entry(format!("[{}]", kind.words())).or_default() += *faults as f64;
        }
    }
    sites.into_iter().map(|(name, faults)| (name, faults.round() as u64)).collect()
}

impl Facts {
    /// Counts of faults mean the same on both: the pages are as large, and huge pages are set alike.
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.architecture == other.architecture
            && self.page_bytes == other.page_bytes
            && self.huge_pages == other.huge_pages
    }

    /// Each fact that differs, in words: what it is here, and what it is in `budget`.
    pub fn differences(&self, budget: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, here: &str, there: &str| {
            if here != there {
                found.push(format!("{what} {here} instead of {there}"));
            }
        };
        let libc = |facts: &Self| facts.libc.clone().unwrap_or_else(|| "unknown".into());
        compare("kernel", &self.kernel, &budget.kernel);
        compare("architecture", &self.architecture, &budget.architecture);
        compare("C library", &libc(self), &libc(budget));
        compare("page size", &self.page_bytes.to_string(), &budget.page_bytes.to_string());
        compare("processors", &self.processors.to_string(), &budget.processors.to_string());
        compare("huge pages", &self.huge_pages, &budget.huge_pages);
        let random = |facts: &Self| if facts.random_addresses { "random" } else { "fixed" };
        compare("addresses", random(self), random(budget));
        let recorded = |facts: &Self| match facts.recorded {
            Recorded::None => "none",
            Recorded::User => "of user mode",
            Recorded::All => "all",
        };
        compare("recorded faults", recorded(self), recorded(budget));
        found
    }
}

#[cfg(test)]
mod tests;
