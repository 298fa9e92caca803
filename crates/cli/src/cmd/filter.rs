//! The conditions on faults that every view of a recording takes.
//!
//! In: words. Out: a [`Filter`], and on stderr what it leaves of the run.

use std::ops::Range;

use faultless_console::Failure;
use faultless_report::selected;
use faultless_trace::filter::Filter;
use faultless_trace::profile::{Profile, Selected};
use faultless_trace::recording::Recording;

/// Which faults to show. Repeat a flag for either; several flags have to hold together.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only threads of this name or number
    ///
    /// NAME may be a part of the name.
    #[arg(long, value_name = "NAME|TID")]
    thread: Vec<String>,
    /// Only processes of this name or number
    ///
    /// NAME may be a part of the name.
    #[arg(long, value_name = "NAME|PID")]
    process: Vec<String>,
    /// Only this span, such as 1s..2.5s or ..300ms
    ///
    /// Times count from the begin of the run.
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    time: Option<Range<u64>>,
    /// Only these kinds, such as heap or zero-page
    ///
    /// Those with TEXT in their name.
    #[arg(long, value_name = "TEXT")]
    kind: Vec<String>,
    /// Only mappings with TEXT in their name
    #[arg(long, value_name = "TEXT")]
    mapping: Vec<String>,
    /// Only sites with TEXT in function or file:line
    ///
    /// Sites are where the program touches memory.
    #[arg(long, value_name = "TEXT")]
    site: Vec<String>,
    /// Leave out faults in kernel mode
    #[arg(long)]
    user_only: bool,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            threads: self.thread.clone(),
            processes: self.process.clone(),
            time_ns: self.time.clone(),
            kinds: self.kind.clone(),
            mappings: self.mapping.clone(),
            sites: self.site.clone(),
            user_only: self.user_only,
        }
    }

    /// Whether no filter is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.filter() == Filter::default()
    }

    /// The same without the mode, for views that treat it themselves.
    pub(crate) fn of_any_mode(&self) -> Filter {
        Filter { user_only: false, ..self.filter() }
    }

    pub(crate) fn user_only(&self) -> bool {
        self.user_only
    }

    /// The selected faults of a recording.
    ///
    /// # Errors
    /// None is left.
    pub(crate) fn profile(&self, recording: &Recording) -> Result<Profile, Failure> {
        let profile = Profile::new(recording);
        let selection = self.filter().select(recording, &profile).map_err(Failure)?;
        Ok(profile.keep(&selection))
    }
}

/// Says on stderr what a filter left of the run.
pub(crate) fn say(selected: Option<&Selected>) {
    if let Some(selected) = selected {
        eprintln!("faultless: {}", selected::sentence(selected));
    }
}

/// `1s..2.5s`, `..300ms`, `2s..`.
fn range(text: &str) -> Result<Range<u64>, String> {
    const EXPECTED: &str = "expected a range such as 1s..2.5s, ..300ms or 2s..";
    let (from, to) = text.split_once("..").ok_or(EXPECTED)?;
    let at = |text: &str, open: u64| if text.is_empty() { Some(open) } else { nanos(text) };
    let range = at(from, 0).ok_or(EXPECTED)?..at(to, u64::MAX).ok_or(EXPECTED)?;
    if range.is_empty() { Err(format!("{EXPECTED}, from the earlier to the later")) } else { Ok(range) }
}

/// `2.5s`, `300ms` or `80us` in ns.
fn nanos(text: &str) -> Option<u64> {
    let units = [("ms", 1e6), ("us", 1e3), ("ns", 1.0), ("s", 1e9)];
    let (number, ns) = units.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)))?;
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * ns).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn a_range_of_time_may_be_open_at_either_end_and_is_never_empty() {
        assert_eq!(range("1s..2.5s"), Ok(1_000_000_000..2_500_000_000));
        assert_eq!(range("..300ms"), Ok(0..300_000_000));
        assert_eq!(range("2s.."), Ok(2_000_000_000..u64::MAX));
        for wrong in ["", "1s", "2s..1s", "1..2x", "a..b"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
