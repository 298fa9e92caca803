//! A boot as a sample: what the guest saw of each cell and what the plugin counted of it, joined.
//!
//! In: [`Boot`] and [`Counts`], whose cells and sections have one order. Out: [`Measured`]: a [`Cell`] of the
//! experiment `kernel`, a [`Sample`] for the record, and the functions.

use crate::cell::{Cell, Refusal};
use crate::sample::Sample;

use super::counts::{Counts, Function, Section};
use super::guest::{Boot, Seen};
use super::plan::{Arm, Plan};

/// The experiment's name in a record.
pub const EXPERIMENT: &str = "kernel";
/// The test that is idle time.
pub(crate) const SETTLE: &str = "settle";
/// The phase of what the plugin counted.
pub(crate) const SECTION: &str = "section";
/// The phase of what the guest's kernel counted.
pub const GUEST: &str = "guest";
/// The phase of distributions over single faults.
pub(crate) const LAPS: &str = "laps";

/// The phase of what happened while a section was paused.
pub(crate) const PAUSED: &str = "paused";

/// The instructions of the kernel, without the iterations of `rep stos` and `rep movs`.
pub const PATH: &str = "path_instructions";
/// The instructions of the program.
pub const USER: &str = "user_instructions";
/// Bytes that the kernel cleared, in functions that clear pages.
pub const CLEARED: &str = "cleared_bytes";
/// Bytes that the kernel stored by any other `rep stos` or `rep movs`.
pub(crate) const STRINGS: &str = "string_bytes";
/// Misses of the last level, of the program and all classes of the kernel's instructions.
pub(crate) const LLC: &str = "llc_misses";
/// Misses of the last level of clearing.
pub(crate) const CLEAR_LLC: &str = "clear_llc_misses";
/// Misses of the second level.
pub(crate) const L2: &str = "l2_misses";
/// Misses of the first level.
pub(crate) const L1: &str = "l1_misses";
/// Base pages that were made present, as the guest says.
pub const PAGES: &str = "pages";
/// Pages that needed zeroes and had them, as the patched kernel counts.
pub(crate) const HIT: &str = "zero_hit";
/// Pages that needed zeroes and were cleared.
pub(crate) const MISS: &str = "zero_miss";
/// Pages that were cleared in the background.
pub(crate) const SCRUBBED: &str = "zero_scrubbed";
/// Bytes of a base page of the guest.
pub(crate) const PAGE_BYTES: &str = "page_bytes";

/// One cell of a boot.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its arm, plan, test and parameters.
    pub cell: Cell,
    /// Its quantities.
    pub sample: Sample,
    /// Its functions.
    pub functions: Vec<Function>,
}

/// Joins the two accounts of one boot.
///
/// # Errors
/// They do not have the same number of cells.
pub fn join(arm: &Arm, plan: &Plan, boot: &Boot, counts: &Counts) -> Result<Vec<Measured>, Refusal> {
    let (cells, sections) = (boot.cells.len(), counts.sections.len());
    if cells != sections {
        return Err(Refusal(format!(
            "{} on {}: the guest printed {cells} cells, the plugin counted {sections} sections; build again",
            plan.name, arm.name
        )));
    }
    boot.cells
        .iter()
        .zip(&counts.sections)
        .map(|(seen, section)| measured(arm, plan, seen, section))
        .collect()
}

fn measured(arm: &Arm, plan: &Plan, seen: &Seen, section: &Section) -> Result<Measured, Refusal> {
    let [program, parameters @ ..] = &seen.words[..] else {
        return Err(Refusal("the guest's console: a cell without a name; build again".into()));
    };
    let mut cell = Cell::of(EXPERIMENT).with("arm", arm.name).with("plan", plan.name);
    if !parameters.iter().any(|word| word.starts_with("test=")) {
        cell = cell.with("test", program);
    }
    let given = Cell::parse(EXPERIMENT, parameters.iter().map(String::as_str))?;
    cell.parameters.extend(given.parameters);
    let mut sample = Sample::default();
    let mut add = |quantity: &str, value: u64| sample.add(SECTION, quantity, value as f64);
    add(PATH, section.kernel(|function| function.path));
    add(USER, section.user(|function| function.path));
    add(CLEARED, section.kernel(|function| function.cleared_bytes));
    add(STRINGS, section.kernel(|function| function.string_bytes));
    for (level, quantity) in [L1, L2, LLC].into_iter().enumerate() {
        let all = |function: &Function| {
            [function.path_misses, function.clear_misses, function.string_misses]
                .map(|of| of[level])
                .iter()
                .sum()
        };
        add(quantity, section.kernel(all) + section.user(all));
    }
    add(CLEAR_LLC, section.kernel(|function| function.clear_misses[2]));
    for (quantity, value) in [PATH, CLEARED, LLC].into_iter().zip(section.paused) {
        sample.add(PAUSED, quantity, value as f64);
    }
    for (name, value) in &seen.counters {
        sample.add(GUEST, name, *value as f64);
    }
    for laps in &section.laps {
        for (value, at) in laps.quantiles.iter().zip(["p50", "p90", "p99", "max"]) {
            sample.add(LAPS, &format!("{}_{at}", laps.what), *value as f64);
        }
    }
    if let Some(laps) = section.laps.first() {
        sample.add(LAPS, "count", laps.count as f64);
    }
    Ok(Measured { cell, sample, functions: section.functions.clone() })
}

/// Rows of one cell for tests: its words; and phase, quantity, value.
#[cfg(test)]
pub(crate) fn rows(cell: &str, figures: &[(&str, &str, f64)]) -> Vec<crate::record::Row> {
    let row = |&(phase, quantity, value): &(&str, &str, f64)| crate::record::Row {
        experiment: EXPERIMENT.into(),
        cell: cell.into(),
        round: 1,
        phase: phase.into(),
        quantity: quantity.into(),
        value,
    };
    figures.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plan::{ARMS, PLANS};
    use super::super::{counts, guest};
    use super::*;

    const CONSOLE: &str = "begin\ncell pft mib=64 lines=1 : pages=10 virtual_ns=99 zero_hit=9\n\
        cell pool test=settle ms=5 : pages=0 virtual_ns=5\nend\n";
    const COUNTS: &str = "cache,x\nfunction,1,[user],50,0,0,0,1,1,1,0,0,0,0,0,0\n\
        function,1,clear_page_erms,40,40960,0,40960,2,0,0,640,640,640,0,0,0\n\
        laps,1,path,10,500,510,600,700\nlaps,1,llc_misses,10,1,2,3,4\nend,1\nend,2\nsections,2\n";

    #[test]
    fn cells_and_sections_meet_in_order() {
        let (boot, counts) = (guest::parse(CONSOLE).unwrap(), counts::parse(COUNTS).unwrap());
        let found = join(&ARMS[0], &PLANS[0], &boot, &counts).unwrap();
        assert_eq!(found[0].cell.to_string(), "kernel arm=base plan=lines test=pft mib=64 lines=1");
        assert_eq!(found[1].cell.to_string(), "kernel arm=base plan=lines test=settle ms=5");
        let value = |phase: &str, quantity: &str| {
            let found = found[0].sample.values.iter().find(|v| v.phase == phase && v.quantity == quantity);
            found.map(|value| value.value)
        };
        assert_eq!(value(SECTION, PATH), Some(40.0));
        assert_eq!(value(SECTION, USER), Some(50.0));
        assert_eq!(value(SECTION, CLEARED), Some(40_960.0));
        assert_eq!((value(SECTION, LLC), value(SECTION, CLEAR_LLC)), (Some(641.0), Some(640.0)));
        assert_eq!((value(GUEST, HIT), value(LAPS, "path_p99")), (Some(9.0), Some(600.0)));
    }

    #[test]
    fn accounts_of_different_boots_are_refused() {
        let mut boot = guest::parse(CONSOLE).unwrap();
        boot.cells.pop();
        let counts = counts::parse(COUNTS).unwrap();
        let refusal = join(&ARMS[0], &PLANS[0], &boot, &counts).unwrap_err().0;
        assert!(refusal.contains("printed 1 cells, the plugin counted 2"), "{refusal}");
    }
}
