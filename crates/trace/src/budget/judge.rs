//! A budget and the runs of today -> which figures are over, and which sites grew.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Budget, Facts, Limit, Reading, count, kinds_of, median};
use crate::kind::Kind;
use crate::measurement::Percent;
use crate::tuning as t;

/// The answer of `faultless check`. This is also its JSON document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// Version of this document's shape.
    pub schema: u32,
    /// The program's name in the budget.
    pub name: String,
    /// The host of the budget and of the runs.
    pub host: Facts,
    /// Whether some figure is over its limit.
    pub over: bool,
    /// Every figure of the budget, and kinds that it lacks where they are over.
    pub figures: Vec<Compared>,
    /// The sites that took more faults than in the budget, most first. Empty if nothing is over, or no stack shows it.
    pub growth: Vec<Growth>,
    /// The raw runs.
    pub runs: Vec<Reading>,
    /// Things the reader must know.
    pub notes: Vec<String>,
}

/// A figure beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its field in the budget: `faults`, `peak_rss_bytes`, `again_bytes`, `kinds.stack`.
    pub figure: String,
    /// As a reader sees it.
    pub words: String,
    /// Whether it counts bytes, or faults.
    pub is_bytes: bool,
    /// The budget.
    pub budget: Limit,
    /// The median of today's runs.
    pub now: u64,
    /// Over the limit.
    pub over: bool,
}

/// A site that took more faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// Function and caller.
    pub site: String,
    /// Faults in the budget; 0 for a new site, or a small one.
    pub before: u64,
    /// Faults now.
    pub now: u64,
}

impl Compared {
    /// Growth over the median of the budget, as a share; negative for less.
    pub fn growth(&self) -> f64 {
        (self.now as f64 - self.budget.median as f64) / self.budget.median.max(1) as f64
    }
}

impl Checked {
    /// Compares `runs` with their budget.
    pub fn new(budget: &Budget, runs: Vec<Reading>) -> Self {
        Self::of(budget, runs, true)
    }

    /// Compares `runs` and the `sites` of a recorded one with the budget of another host, which differs in this.
    ///
    /// Another kernel, C library or number of processors changes the start of a program, and hardly what its own code
    /// takes. So the totals have more room, kinds are left out, and each site is a figure of its own where it grew.
    pub fn elsewhere(
        budget: &Budget,
        runs: Vec<Reading>,
        sites: &BTreeMap<String, u64>,
        differs: &[String],
    ) -> Self {
        let room = 1.0 + t::GATE_HOST_SHARE;
        let wider = |limit: &Limit| Limit { limit: (limit.limit as f64 * room).ceil() as u64, ..*limit };
        let wide = Budget {
            faults: wider(&budget.faults),
            peak_rss_bytes: wider(&budget.peak_rss_bytes),
            again_bytes: budget.again_bytes.as_ref().map(wider),
            ..budget.clone()
        };
        let mut checked = Self::of(&wide, runs, false).with_sites(&wide, sites);
        let least = t::GATE_SHARE * budget.faults.median as f64;
        for Growth { site, before, now } in checked.growth.clone() {
            let limit = (before as f64 * room + least.max(t::GATE_PAGES)) as u64;
            if now > limit {
                let budget = Limit { limit, median: before, min: before, max: before };
                let (figure, words) = (format!("sites.{site}"), site);
                checked.figures.push(Compared { figure, words, is_bytes: false, budget, now, over: true });
            }
        }
        checked.over = checked.figures.iter().any(|figure| figure.over);
        checked.notes.push(format!(
            "the budget is of another host ({}): limits are {} higher, kinds are not compared, and each site may take as much \
             more; --strict refuses such a budget",
            differs.join(", "),
            Percent(t::GATE_HOST_SHARE)
        ));
        checked
    }

    fn of(budget: &Budget, runs: Vec<Reading>, with_kinds: bool) -> Self {
        let mut figures = Vec::new();
        let mut add = |figure: &str, words: &str, is_bytes, budget: &Limit, values: Vec<u64>| {
            let now = median(&values);
            let (figure, words, budget) = (figure.to_owned(), words.to_owned(), *budget);
            figures.push(Compared { figure, words, is_bytes, budget, now, over: now > budget.limit });
        };
        add("faults", "faults", false, &budget.faults, runs.iter().map(|run| run.faults).collect());
        let rss = runs.iter().map(|run| run.peak_rss_bytes).collect();
        add("peak_rss_bytes", "peak RSS", true, &budget.peak_rss_bytes, rss);
        let mut notes = Vec::new();
        if let Some(limit) = &budget.again_bytes {
            match runs.iter().map(|run| run.again_bytes).collect::<Option<Vec<u64>>>() {
                Some(again) => add("again_bytes", "taken again", true, limit, again),
                None => notes.push(
                    "memory given back and taken again: not compared, for these runs were too short to tell"
                        .into(),
                ),
            }
        }
        let kinds = budget.kinds.keys().copied().chain(kinds_of(&runs));
        let kinds: std::collections::BTreeSet<Kind> = kinds.collect();
        for kind in kinds.into_iter().filter(|_| with_kinds) {
            let limit = budget.kinds.get(&kind).copied().unwrap_or_else(|| unseen(budget));
            let values: Vec<u64> = runs.iter().map(|run| count(run, kind)).collect();
            if budget.kinds.contains_key(&kind) || median(&values) > limit.limit {
                let name = serde_json::to_value(kind).unwrap_or_default();
                let figure = format!("kinds.{}", name.as_str().unwrap_or_default());
                add(&figure, kind.words(), false, &limit, values);
            }
        }
        let over = figures.iter().any(|figure| figure.over);
        let (name, host) = (budget.name.clone(), budget.host.clone());
        Self { schema: 1, name, host, over, figures, growth: Vec::new(), runs, notes }
    }

    /// Adds the sites of a recorded run, to tell which grew.
    pub fn with_sites(mut self, budget: &Budget, sites: &BTreeMap<String, u64>) -> Self {
        let more: u64 = self.figures.first().map_or(0, |faults| faults.now.abs_diff(faults.budget.median));
        // A site below this share is not in the budget.
        let least =
            (t::GATE_SITE_SHARE * budget.faults.median as f64).max(t::GATE_GROWTH_SHARE * more as f64);
        let grown = sites.iter().filter_map(|(site, &now)| {
            let before = budget.sites.get(site).copied().unwrap_or(0);
            let is_grown = now as f64 > before as f64 + least;
            is_grown.then(|| Growth { site: site.clone(), before, now })
        });
        self.growth = grown.collect();
        self.growth.sort_by_key(|growth| std::cmp::Reverse(growth.now - growth.before));
        self.growth.truncate(t::NAMED_SITES);
        self
    }
}

/// The limit of a kind that the budget lacks: what such a kind may have had, and room above it.
fn unseen(budget: &Budget) -> Limit {
    let share = t::GATE_SHARE + t::GATE_ESTIMATE_SHARE;
    Limit { limit: (share * budget.faults.median as f64).max(t::GATE_PAGES) as u64, ..Limit::default() }
}
