//! The functions behind each cell, on disk, and two kernels compared function by function.
//!
//! ```text
//! FOLDER/functions.csv  cell, function, path_instructions, cleared_bytes, string_bytes, llc_misses
//! ```
//! In: functions of a cell on both sides and its pages. Out: per function the instructions per page before and after,
//! and whether it was added, removed, grown or shrunk. A kernel compared with itself gives no change.
//!
//! A function that ran on one side only counts as added or removed. Whether the other kernel lacks it, or its compiler
//! inlined it, only the source tells.

use std::collections::BTreeMap;
use std::path::Path;

use faultless_console::Failure;
use faultless_trace::diff::Class;
use serde::{Deserialize, Serialize};

use crate::counts::{Function, USER};
use crate::record::{Cell, read_table, write_table};
use crate::session::Measured;

/// Name of the table in a record's folder.
const FILE: &str = "functions.csv";
const HEADS: &str = "cell,function,path_instructions,cleared_bytes,string_bytes,llc_misses\n";

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Parameters of the cell as `NAME=VALUE` words.
    pub(crate) cell: String,
    /// Its name in `System.map`.
    pub(crate) function: String,
    /// Instructions without the iterations of `rep stos` and `rep movs`.
    pub(crate) path_instructions: u64,
    /// Bytes stored by `rep stos` in functions that clear pages.
    pub(crate) cleared_bytes: u64,
    /// Bytes stored by any other `rep stos` or `rep movs`: structures set to zero, copies.
    pub(crate) string_bytes: u64,
    /// Misses of the last level, of all its instructions.
    pub(crate) llc_misses: u64,
}

/// Writes the functions of a record, except idle time. An older table is replaced.
///
/// # Errors
/// The folder can't be written.
pub(crate) fn write(folder: &Path, cells: &[Measured]) -> Result<(), Failure> {
    let tests = cells.iter().filter(|found| !found.cell.has("test=settle"));
    let rows = tests.flat_map(|found| found.functions.iter().map(|function| row(&found.cell, function)));
    write_table(folder, FILE, HEADS, rows)
}

fn row(cell: &Cell, function: &Function) -> Row {
    Row {
        cell: cell.0.clone(),
        function: function.name.clone(),
        path_instructions: function.path,
        cleared_bytes: function.cleared_bytes,
        string_bytes: function.string_bytes,
        llc_misses: function.misses().map(|of| of[2]).iter().sum(),
    }
}

/// Functions by cell.
pub(crate) type Table = BTreeMap<Cell, Vec<Row>>;

/// Reads the functions of a record.
///
/// # Errors
/// It is no record of the kernel lab.
pub(crate) fn read(folder: &Path) -> Result<Table, Failure> {
    let mut table = Table::new();
    for row in read_table::<Row>(folder, FILE)? {
        table.entry(Cell(row.cell.clone())).or_default().push(row);
    }
    Ok(table)
}

/// One function on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Change {
    /// Its name, without what the compiler appended.
    pub(crate) function: String,
    /// What happened to it.
    pub(crate) class: Class,
    /// Path instructions per page, before and after.
    #[serde(rename = "path_instructions")]
    pub(crate) path: [f64; 2],
    /// Cleared and copied bytes per page, before and after.
    pub(crate) bytes: [f64; 2],
}

/// A sum over the kernel's functions of a cell.
pub(crate) fn sum(rows: &[Row], of: fn(&Row) -> u64) -> u64 {
    rows.iter().filter(|row| row.function != USER).map(of).sum()
}

/// Fewer instructions per page are no change: a timer's interrupt or another process of the boot.
const LEAST_PATH: f64 = 1.0;
/// A smaller part of the larger side is no change.
const LEAST_SHARE: f64 = 0.02;
/// Fewer bytes per page are no change.
const LEAST_BYTES: f64 = 16.0;

/// Compares the functions of one cell, the largest change first: its rows and its pages before and after.
pub(crate) fn compare(rows: [&[Row]; 2], pages: [f64; 2]) -> Vec<Change> {
    let mut sums: BTreeMap<&str, [[f64; 2]; 2]> = BTreeMap::new();
    for (side, rows) in rows.into_iter().enumerate() {
        for row in rows.iter().filter(|row| row.function != USER) {
            let [path, bytes] = sums.entry(bare(&row.function)).or_default();
            path[side] += row.path_instructions as f64 / pages[side];
            bytes[side] += (row.cleared_bytes + row.string_bytes) as f64 / pages[side];
        }
    }
    let change = |(function, [path, bytes]): (&str, [[f64; 2]; 2])| Change {
        class: class(path, bytes),
        function: function.to_owned(),
        path,
        bytes,
    };
    let mut changes: Vec<Change> = sums.into_iter().map(change).collect();
    let size = |change: &Change| (change.path[1] - change.path[0]).abs();
    changes.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.function.cmp(&b.function)));
    changes
}

fn class(path: [f64; 2], bytes: [f64; 2]) -> Class {
    let differs = |[before, after]: [f64; 2], least: f64| {
        let by = (after - before).abs();
        by >= least && by >= LEAST_SHARE * before.max(after)
    };
    let (by_path, by_bytes) = (differs(path, LEAST_PATH), differs(bytes, LEAST_BYTES));
    let more = if by_path { path[1] > path[0] } else { bytes[1] > bytes[0] };
    match (by_path || by_bytes, path[0] + bytes[0] == 0.0, path[1] + bytes[1] == 0.0) {
        (false, ..) => Class::Unchanged,
        (true, true, _) => Class::Added,
        (true, _, true) => Class::Removed,
        _ if more => Class::Grown,
        _ => Class::Shrunk,
    }
}

/// A function's name without the compiler's copies of it: `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
fn bare(name: &str) -> &str {
    name.find('.').filter(|&at| at > 0).map_or(name, |at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: &str, path_instructions: u64, cleared_bytes: u64) -> Row {
        let (cell, function) = ("arm=base test=pft".to_owned(), function.to_owned());
        Row { cell, function, path_instructions, cleared_bytes, string_bytes: 0, llc_misses: 0 }
    }

    fn classes(before: &[Row], after: &[Row]) -> Vec<(String, Class)> {
        let changes = compare([before, after], [10.0, 20.0]);
        changes.into_iter().map(|change| (change.function, change.class)).collect()
    }

    #[test]
    fn functions_are_added_removed_grown_and_shrunk_per_page() {
        let before = [
            row("down_read", 200, 0),
            row("handle_mm_fault.isra.0", 1000, 0),
            row("clear_page_erms", 40, 40_960),
            row("memset", 40, 0),
            row("tick", 1, 0),
            row(USER, 10, 0),
        ];
        let after = [
            row("lock_vma_under_rcu", 2000, 0),
            row("handle_mm_fault", 3000, 0),
            row("clear_page_erms", 80, 0),
            row("memset", 80, 0),
            row(USER, 2000, 0),
        ];
        let found = classes(&before, &after);
        let expected = [
            ("lock_vma_under_rcu", Class::Added),
            ("handle_mm_fault", Class::Grown),
            ("down_read", Class::Removed),
            ("tick", Class::Unchanged),
            ("clear_page_erms", Class::Shrunk),
            ("memset", Class::Unchanged),
        ];
        assert_eq!(found, expected.map(|(name, class)| (name.to_owned(), class)));
    }

    #[test]
    fn a_kernel_beside_itself_names_nothing() {
        let rows = [row("a", 1000, 0), row("b.part.0", 7, 4096)];
        let found = compare([&rows, &rows], [3.0, 3.0]);
        assert!(found.iter().all(|change| change.class == Class::Unchanged));
    }

    #[test]
    fn a_table_is_read_back_without_idle_time() {
        let folder = tempfile::tempdir().unwrap();
        let function =
            Function { name: "f,g".into(), path: 3, clear_misses: [9, 8, 7], ..Function::default() };
        let measured = |cell: &str| Measured {
            cell: Cell(cell.into()),
            quantities: BTreeMap::new(),
            functions: vec![function.clone()],
        };
        write(folder.path(), &[measured("arm=base test=pft"), measured("arm=base test=settle")]).unwrap();
        let table = read(folder.path()).unwrap();
        let [rows] = &table.values().collect::<Vec<_>>()[..] else { panic!("{table:?}") };
        assert_eq!((rows[0].function.as_str(), rows[0].llc_misses), ("f,g", 7));
    }
}
