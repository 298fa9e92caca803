//! A boot as cells: what the guest saw of each and what the plugin counted of it, joined.
//!
//! In: [`Boot`] and [`Counts`], whose cells and sections have one order. Out: [`Measured`].

use faultless_console::Failure;

use crate::counts::{Counts, Function, Section};
use crate::guest::{Boot, Seen};
use crate::plan::{Arm, Plan};
use crate::record::{Cell, Quantities};

/// Instructions of the kernel, without the iterations of `rep stos` and `rep movs`.
pub(crate) const PATH: &str = "path_instructions";
/// Instructions of the program.
pub(crate) const USER: &str = "user_instructions";
/// Bytes that the kernel cleared, in functions that clear pages.
pub(crate) const CLEARED: &str = "cleared_bytes";
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
pub(crate) const PAGES: &str = "pages";
/// Pages that needed zeroes and had them, as the patched kernel counts.
pub(crate) const HIT: &str = "zero_hit";
/// Pages that needed zeroes and were cleared.
pub(crate) const MISS: &str = "zero_miss";
/// Pages that were cleared in the background.
pub(crate) const SCRUBBED: &str = "zero_scrubbed";

/// One cell of a boot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) cell: Cell,
    pub(crate) quantities: Quantities,
    pub(crate) functions: Vec<Function>,
}

/// Joins the two accounts of one boot.
///
/// # Errors
/// They do not have the same number of cells.
pub(crate) fn join(arm: &Arm, plan: &Plan, boot: &Boot, counts: Counts) -> Result<Vec<Measured>, Failure> {
    let (cells, sections) = (boot.cells.len(), counts.sections.len());
    if cells != sections {
        return Err(Failure(format!(
            "{} on {}: the guest printed {cells} cells, the plugin counted {sections} sections; build again",
            plan.name, arm.name
        )));
    }
    let cells = boot.cells.iter().zip(counts.sections);
    cells.map(|(seen, section)| measured(arm, plan, seen, section)).collect()
}

fn measured(arm: &Arm, plan: &Plan, seen: &Seen, section: Section) -> Result<Measured, Failure> {
    let [program, parameters @ ..] = &seen.words[..] else {
        return Err(Failure("the guest's console: a cell without a name; build again".into()));
    };
    let mut words = vec![format!("arm={}", arm.name), format!("plan={}", plan.name)];
    if !parameters.iter().any(|word| word.starts_with("test=")) {
        words.push(format!("test={program}"));
    }
    words.extend(parameters.iter().cloned());
    let mut quantities = counted(&section);
    let seen = seen.counters.iter().map(|(name, value)| (format!("guest {name}"), *value as f64));
    quantities.extend(seen);
    Ok(Measured { cell: Cell(words.join(" ")), quantities, functions: section.functions })
}

/// What the plugin counted of a section.
fn counted(section: &Section) -> Quantities {
    let mut quantities = Quantities::new();
    let mut add = |phase: &str, quantity: &str, value: u64| {
        quantities.insert(format!("{phase} {quantity}"), value as f64);
    };
    add("section", PATH, section.kernel(|function| function.path));
    add("section", USER, section.user(|function| function.path));
    add("section", CLEARED, section.kernel(|function| function.cleared_bytes));
    add("section", STRINGS, section.kernel(|function| function.string_bytes));
    for (level, quantity) in [L1, L2, LLC].into_iter().enumerate() {
        let all = |function: &Function| function.misses().map(|of| of[level]).iter().sum();
        add("section", quantity, section.kernel(all) + section.user(all));
    }
    add("section", CLEAR_LLC, section.kernel(|function| function.clear_misses[2]));
    for (quantity, value) in [PATH, CLEARED, LLC].into_iter().zip(section.paused) {
        add("paused", quantity, value);
    }
    for laps in &section.laps {
        for (value, at) in laps.quantiles.iter().zip(["p50", "p90", "p99", "max"]) {
            add("laps", &format!("{}_{at}", laps.what), *value);
        }
    }
    if let Some(laps) = section.laps.first() {
        add("laps", "count", laps.count);
    }
    quantities
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ARMS, PLANS};
    use crate::{counts, guest};

    const CONSOLE: &str = "begin\ncell pft mib=64 lines=1 : pages=10 virtual_ns=99 zero_hit=9\n\
        cell pool test=settle ms=5 : pages=0 virtual_ns=5\nend\n";
    const COUNTS: &str = "cache,x\nfunction,1,[user],50,0,0,0,1,1,1,0,0,0,0,0,0\n\
        function,1,clear_page_erms,40,40960,0,40960,2,0,0,640,640,640,0,0,0\n\
        laps,1,path,10,500,510,600,700\nlaps,1,llc_misses,10,1,2,3,4\nend,1\nend,2\nsections,2\n";

    #[test]
    fn cells_and_sections_meet_in_order() {
        let (boot, counts) = (guest::parse(CONSOLE).unwrap(), counts::parse(COUNTS).unwrap());
        let found = join(&ARMS[0], &PLANS[0], &boot, counts).unwrap();
        assert_eq!(found[0].cell.0, "arm=base plan=lines test=pft mib=64 lines=1");
        assert_eq!(found[1].cell.0, "arm=base plan=lines test=settle ms=5");
        for (name, value) in [
            ("section path_instructions", 40.0),
            ("section user_instructions", 50.0),
            ("section cleared_bytes", 40_960.0),
            ("section llc_misses", 641.0),
            ("section clear_llc_misses", 640.0),
            ("guest zero_hit", 9.0),
            ("laps path_p99", 600.0),
        ] {
            assert_eq!(found[0].quantities.get(name), Some(&value), "{name}");
        }
    }

    #[test]
    fn accounts_of_different_boots_are_refused() {
        let mut boot = guest::parse(CONSOLE).unwrap();
        boot.cells.pop();
        let told = join(&ARMS[0], &PLANS[0], &boot, counts::parse(COUNTS).unwrap()).unwrap_err().0;
        assert!(told.contains("printed 1 cells, the plugin counted 2"), "{told}");
    }
}
