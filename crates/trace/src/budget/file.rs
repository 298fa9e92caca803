//! The budget file: TOML, made to be read and reviewed. In: its text. Out: [`Budgets`], and back.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use super::{Budget, Facts, Limit};

/// Version of the file's shape.
const VERSION: u32 = 1;

/// All budgets of a file: one for each program and host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    version: u32,
    /// The budgets, in the order of the file.
    #[serde(default, rename = "budget")]
    pub budgets: Vec<Budget>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { version: VERSION, budgets: Vec::new() }
    }
}

impl Budgets {
    /// Reads a budget file.
    ///
    /// # Errors
    /// It is none, or of another version: where, what, and the remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let bad = |error: toml::de::Error| {
            let line = error
                .span()
                .map(|span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("{line}{}; mend the line, or write the file anew with --update", error.message())
        };
        let Version { version } = toml::from_str(text).map_err(bad)?;
        if version != VERSION {
            return Err(format!(
                "version {version} of the budget file, and this program reads version {VERSION}; write it anew with --update"
            ));
        }
        toml::from_str(text).map_err(bad)
    }

    /// The budget of a program whose host differs least from this one, and in what; `None` if it has no budget at all.
    pub fn find(&self, name: &str, host: &Facts) -> Option<(&Budget, Vec<String>)> {
        let own = self.budgets.iter().filter(|budget| budget.name == name);
        own.map(|budget| (budget, host.differences(&budget.host))).min_by_key(|(_, differs)| differs.len())
    }

    /// Puts a budget in, instead of the one of the same program and host.
    pub fn put(&mut self, budget: Budget) {
        let same = |old: &&mut Budget| old.name == budget.name && old.host == budget.host;
        match self.budgets.iter_mut().find(same) {
            Some(old) => *old = budget,
            None => self.budgets.push(budget),
        }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# Page faults and memory that programs may take: `faultless check --budget FILE -- CMD` compares,\n\
             # --update writes. Limits may be changed by hand.\nversion = {VERSION}\n"
        );
        for budget in &self.budgets {
            // Writing into a String does not fail.
            let _ = write(&mut text, budget);
        }
        text
    }
}

fn write(text: &mut String, budget: &Budget) -> fmt::Result {
    let Budget { name, runs, host, faults, peak_rss_bytes, again_bytes, kinds, sites } = budget;
    writeln!(text, "\n[[budget]]\nname = {}\nruns = {runs}", quoted(name))?;
    writeln!(text, "faults = {}", limit(faults))?;
    writeln!(text, "peak_rss_bytes = {}", limit(peak_rss_bytes))?;
    if let Some(again) = again_bytes {
        writeln!(text, "again_bytes = {}", limit(again))?;
    }
    writeln!(text, "\n[budget.host]\nkernel = {}", quoted(&host.kernel))?;
    writeln!(text, "architecture = {}", quoted(&host.architecture))?;
    if let Some(libc) = &host.libc {
        writeln!(text, "libc = {}", quoted(libc))?;
    }
    writeln!(text, "page_bytes = {}\nprocessors = {}", host.page_bytes, host.processors)?;
    writeln!(text, "huge_pages = {}", quoted(&host.huge_pages))?;
    writeln!(text, "random_addresses = {}", host.random_addresses)?;
    writeln!(text, "recorded = {}", word(&host.recorded))?;
    if !kinds.is_empty() {
        writeln!(text, "\n[budget.kinds]")?;
    }
    for (kind, found) in kinds {
        writeln!(text, "{} = {}", word(kind).trim_matches('"'), limit(found))?;
    }
    if !sites.is_empty() {
        writeln!(text, "\n[budget.sites]")?;
    }
    let mut sites: Vec<_> = sites.iter().collect();
    sites.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (name, faults) in sites {
        writeln!(text, "{} = {faults}", quoted(name))?;
    }
    Ok(())
}

fn limit(found: &Limit) -> String {
    let Limit { limit, median, min, max } = found;
    format!("{{ limit = {limit}, median = {median}, min = {min}, max = {max} }}")
}

/// A string as TOML. Its escapes are those of JSON, and DEL has one too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A unit variant by its name in quotes.
fn word(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
