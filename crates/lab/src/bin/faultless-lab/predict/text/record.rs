//! A record of the kernel lab beside the model, as text and as tables of a page.

use faultless_lab::predict::record::{Row, Sum};
use faultless_report::lab::page::{self, Table, TableRow};
use faultless_trace::stat::Interval;

use super::{Compared, short};

/// What is said of a record without a patched kernel.
const NO_ROWS: &str = "The record has no patched kernel that scrubs: there is nothing to predict.";

fn table(id: &str, title: &str, heads: &[&str], rows: Vec<Vec<String>>, remark: String) -> Table {
    Table {
        id: id.into(),
        title: title.into(),
        heads: heads.iter().map(|head| (*head).to_owned()).collect(),
        rows: rows.into_iter().map(|texts| TableRow { is_document: false, texts }).collect(),
        remark,
    }
}

/// The tables of a record: parameters, sums, rows.
pub(super) fn tables(found: &Compared) -> Vec<Table> {
    let ends = |low: f64, high: f64| if low == high { low.to_string() } else { format!("{low} to {high}") };
    let taken = found.taken.iter();
    let taken = taken.map(|taken| {
        vec![taken.name.to_owned(), ends(taken.range.low, taken.range.high), taken.from.clone()]
    });
    let sums = found.sums.iter().map(|sum: &Sum| {
        let same = if sum.holds() { "yes" } else { "no" };
        vec![bare(&sum.cell), format!("{:.0}", sum.counted), format!("{:.0}", sum.predicted), same.to_owned()]
    });
    let rows = found.rows.iter().map(|row: &Row| {
        let Interval { low, high, .. } = row.predicted;
        let [low, high, counted] = [low, high, row.counted].map(short);
        let range = if low == high { low } else { format!("{low} to {high}") };
        let holds = if row.holds { "yes" } else { "no" };
        vec![bare(&row.cell), row.figure.words().to_owned(), range, counted, holds.to_owned()]
    });
    let all = found.rows.len();
    let inside = found.rows.iter().filter(|row| row.holds).count();
    let remark = match all {
        0 => NO_ROWS.to_owned(),
        _ => format!(
            "{inside} of {all} counts are inside. All of them are held out: a row's interval comes from the path, \
             the clearing and the unmapping of one thread, from the pages that were free, and from the kernel's rules."
        ),
    };
    vec![
        table(
            "record-parameters",
            "Counted by the record",
            &["", "range", "cells"],
            taken.collect(),
            String::new(),
        ),
        table(
            "record-sums",
            "One thread: the model beside the count",
            &["cell", "counted", "model", "same"],
            sums.collect(),
            "Path instructions, the program's instructions and cleared bytes, all pages together.".into(),
        ),
        table(
            "record-rows",
            "The pool: the model beside the count",
            &["cell", "", "model", "counted", "inside"],
            rows.collect(),
            remark,
        ),
    ]
}

/// A cell's words without those that all cells here have.
fn bare(cell: &str) -> String {
    let words = cell.split(' ').filter(|word| !word.starts_with("plan=") && *word != "test=pft");
    words.collect::<Vec<_>>().join(" ")
}

/// The tables as text.
pub(crate) fn counted(found: &Compared) -> String {
    tables(found).iter().map(|table| page::text(table) + "\n").collect()
}
