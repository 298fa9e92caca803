//! What the guest printed: the serial console -> cells with the guest's counters, and what failed.
//!
//! The guest's programs (`kernel/lab/guest`) print `cell NAME PARAMETER=VALUE ... : COUNTER=VALUE ...`. The first line is
//! `begin`, the last `end`. All other lines are the kernel's.

use faultless_console::Failure;

/// A cell as the guest saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The program, then its `NAME=VALUE` parameters.
    pub(crate) words: Vec<String>,
    /// The kernel's counters, as differences over the cell; `pages` and `virtual_ns` among them.
    pub(crate) counters: Vec<(String, i64)>,
}

/// A boot as the guest saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Boot {
    /// In the order of the plugin's sections.
    pub(crate) cells: Vec<Seen>,
    /// What the guest's programs could not do.
    pub(crate) failures: Vec<String>,
    /// Kernel settings that this kernel lacks.
    pub(crate) absent: Vec<String>,
}

/// Reads the serial console.
///
/// # Errors
/// The guest did not reach its end, or a cell's line is damaged.
pub(crate) fn parse(text: &str) -> Result<Boot, Failure> {
    let mut boot = Boot::default();
    let (mut has_begun, mut has_ended) = (false, false);
    for line in text.lines().map(str::trim_end) {
        match line.split_once(' ') {
            None if line == "begin" => has_begun = true,
            None if line == "end" => has_ended = true,
            Some(("cell", rest)) => boot.cells.push(cell(rest)?),
            Some(("failed", rest)) => boot.failures.push(rest.to_owned()),
            Some(("absent", rest)) => boot.absent.push(rest.to_owned()),
            _ => {}
        }
    }
    if has_ended {
        return Ok(boot);
    }
    let panic = text.lines().find(|line| line.contains("Kernel panic") || line.contains("BUG:"));
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let why = panic.unwrap_or(last);
    let how_far = if has_begun { "stopped within its plan" } else { "did not start its first program" };
    Err(Failure(format!("the guest {how_far}; its console says: {}", why.trim())))
}

fn cell(rest: &str) -> Result<Seen, Failure> {
    let damaged = || Failure(format!("the guest's console: cell {rest}: the line is damaged; run it again"));
    let (words, counters) = rest.split_once(" : ").ok_or_else(damaged)?;
    let counters = counters.split_whitespace().map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    Ok(Seen {
        words: words.split_whitespace().map(str::to_owned).collect(),
        counters: counters.collect::<Option<_>>().ok_or_else(damaged)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[    0.1] Linux\nbegin\nabsent /proc/sys/vm/scrub_start\n\
        cell pft lines=1 mib=64 : pages=16384 virtual_ns=99 pgfault=16390 zero_hit=-1\r\nfailed kinds: Cannot\nend\n";

    #[test]
    fn cells_failures_and_absent_settings_are_read() {
        let boot = parse(TEXT).unwrap();
        assert_eq!(boot.cells[0].words, ["pft", "lines=1", "mib=64"]);
        assert_eq!(boot.cells[0].counters[3], ("zero_hit".into(), -1));
        assert_eq!((boot.failures.len(), boot.absent.len()), (1, 1));
    }

    #[test]
    fn a_guest_that_stops_early_is_told_with_its_reason() {
        let stopped = TEXT.replace("end\n", "Kernel panic - not syncing: Out of memory\n");
        assert!(parse(&stopped).unwrap_err().0.contains("within its plan; its console says: Kernel panic"));
        assert!(parse("").unwrap_err().0.contains("did not start its first program"));
        assert!(parse(&TEXT.replace("pages=16384", "pages=16[ 3.1]")).unwrap_err().0.contains("damaged"));
        assert!(parse(&TEXT.replace(" : ", " ")).unwrap_err().0.contains("damaged"));
    }
}
