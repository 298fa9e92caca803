//! Conditions on faults -> the faults that hold them. Every view of a recording takes the same conditions.
//!
//! A text condition holds if the name contains the text, whatever the case. Several values of one condition:
//! one has to hold. Several conditions: all have to hold. Times count from the begin of the recording.
//!
//! Faults that no record represents (`Totals::beyond`) have a kind and nothing else, so any other condition
//! leaves them out.

use std::ops::Range;

use crate::kind::Kind;
use crate::measurement::Nanos;
use crate::profile::{Profile, Selection, Weighted};
use crate::recording::Recording;
use crate::sites::{NO_STACK, Naming};

/// The conditions; none of them by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Names or numbers of threads.
    pub threads: Vec<String>,
    /// Names or numbers of processes.
    pub processes: Vec<String>,
    /// Since the begin of the recording, ns.
    pub time_ns: Option<Range<u64>>,
    /// Kinds, in words.
    pub kinds: Vec<String>,
    /// Names of mappings.
    pub mappings: Vec<String>,
    /// Functions, or `file:line`, of touching sites.
    pub sites: Vec<String>,
    /// Without faults of kernel mode.
    pub user_only: bool,
}

impl Filter {
    /// The faults of `profile` that hold the conditions.
    ///
    /// # Errors
    /// No fault holds them. The reason names what the recording has instead.
    pub fn select(&self, recording: &Recording, profile: &Profile) -> Result<Selection, String> {
        if *self == Self::default() {
            return Ok(Selection::default());
        }
        let naming = Naming::new(recording, profile);
        let (begin_ns, _) = recording.bounds_ns();
        let holds = |fault: &Weighted| self.holds(fault, profile, &naming, begin_ns);
        let only_kinds = Self { kinds: Vec::new(), user_only: false, ..self.clone() } == Self::default();
        let is_kernel = |kind| matches!(kind, Kind::KernelMode | Kind::KernelOrPopulate | Kind::Populate);
        let holds_beyond = |kind: Kind| {
            only_kinds && contains(&self.kinds, kind.words()) && !(self.user_only && is_kernel(kind))
        };
        let selection = Selection::new(profile, self.words(), holds, holds_beyond);
        let is_empty = selection.of(profile).is_none_or(|selected| selected.faults <= 0.0);
        if is_empty && !profile.faults.is_empty() {
            return Err(self.nothing(profile, &naming));
        }
        Ok(selection)
    }

    /// Whether a thread may be shown.
    pub(crate) fn holds_thread(&self, pid: u32, tid: u32, process: &str, thread: &str) -> bool {
        named(&self.processes, pid, process) && named(&self.threads, tid, thread)
    }

    fn holds(&self, fault: &Weighted, profile: &Profile, naming: &Naming<'_>, begin_ns: u64) -> bool {
        let since = fault.time_ns.saturating_sub(begin_ns);
        let is_site = || {
            let (function, place) = naming.site(fault.stack, NO_STACK);
            contains(&self.sites, &function) || place.is_some_and(|place| contains(&self.sites, &place))
        };
        let is_thread = || {
            let name = |tid| naming.thread(fault.pid, tid);
            self.holds_thread(fault.pid, fault.tid, &name(fault.pid), &name(fault.tid))
        };
        let any_thread = self.threads.is_empty() && self.processes.is_empty();
        !(self.user_only && fault.kernel)
            && self.time_ns.as_ref().is_none_or(|range| range.contains(&since))
            && contains(&self.kinds, fault.kind.words())
            && contains(&self.mappings, mapping(profile, fault))
            && (any_thread || is_thread())
            && (self.sites.is_empty() || is_site())
    }

    /// The conditions as a phrase: `thread worker; kind heap; from 1.00 s to 2.00 s`.
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        let lists = [
            ("thread", &self.threads),
            ("process", &self.processes),
            ("kind", &self.kinds),
            ("mapping", &self.mappings),
            ("site", &self.sites),
        ];
        for (what, values) in lists.into_iter().filter(|(_, values)| !values.is_empty()) {
            words.push(format!("{what} {}", values.join(" or ")));
        }
        if let Some(Range { start, end }) = self.time_ns.clone() {
            let from = Nanos(start as f64);
            words.push(match end {
                u64::MAX => format!("from {from}"),
                end => format!("from {from} to {}", Nanos(end as f64)),
            });
        }
        if self.user_only {
            words.push("user mode".to_owned());
        }
        words.join("; ")
    }

    /// Whether only a span of time is asked for.
    fn is_of_time(&self) -> bool {
        self.time_ns.is_some() && *self == Self { time_ns: self.time_ns.clone(), ..Self::default() }
    }

    /// Why nothing is left, and the names to choose from.
    fn nothing(&self, profile: &Profile, naming: &Naming<'_>) -> String {
        const NAMED: usize = 8;
        let faults = &profile.faults;
        let names: Vec<String> = if !self.threads.is_empty() {
            faults.iter().map(|fault| naming.thread(fault.pid, fault.tid)).collect()
        } else if !self.processes.is_empty() {
            faults.iter().map(|fault| naming.thread(fault.pid, fault.pid)).collect()
        } else if !self.kinds.is_empty() {
            faults.iter().map(|fault| fault.kind.words().to_owned()).collect()
        } else if !self.mappings.is_empty() {
            faults.iter().map(|fault| mapping(profile, fault).to_owned()).collect()
        } else if !self.sites.is_empty() {
            faults.iter().map(|fault| naming.site(fault.stack, NO_STACK).0).collect()
        } else {
            Vec::new()
        };
        let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        names.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
        let mut names: Vec<(String, usize)> = counts.into_iter().collect();
        names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let has = match names.len() {
            0 => String::new(),
            _ => {
                let names: Vec<String> = names.into_iter().take(NAMED).map(|(name, _)| name).collect();
                format!("; the recording has, most faults first: {}", names.join("; "))
            }
        };
        match self.is_of_time() {
            true => format!("no fault was recorded {}", self.words()),
            false => format!("no recorded fault is of {}{has}", self.words()),
        }
    }
}

fn mapping<'a>(profile: &'a Profile, fault: &Weighted) -> &'a str {
    profile.mappings.get(fault.mapping as usize).map_or("[unknown]", String::as_str)
}

fn contains(texts: &[String], name: &str) -> bool {
    let lower = || name.to_lowercase();
    texts.is_empty() || texts.iter().any(|text| lower().contains(&text.to_lowercase()))
}

/// A number is the number of the thread or process, anything else a part of its name.
fn named(texts: &[String], number: u32, name: &str) -> bool {
    texts.is_empty()
        || texts.iter().any(|text| match text.parse::<u32>() {
            Ok(wanted) => wanted == number,
            Err(_) => name.to_lowercase().contains(&text.to_lowercase()),
        })
}
