//! The report for programs: the pool's counters and what only the interposer knows, as JSON or as OpenMetrics text.
//!
//! In: what the pool did. Out: text. The counters' table and both forms are the pool's.

use std::fmt::Write;

use faultless_pool::{Exposition, Field, Format, Kind, Label, Stats};

use super::{NAME_BYTES, name_of_process};
use crate::large::Outcome;
use crate::line::Line;

/// Writes all numbers, with the program's name and process number as labels.
pub(super) fn write(line: &mut Line, format: Format, stats: &Stats, forwarded: u64, outcome: &Outcome) {
    let is_open = matches!(outcome, Outcome::Open(_));
    let refused = matches!(outcome, Outcome::Open(pool) if pool.is_keeper_refused());
    let level = |name, help, value| Field { name, help, kind: Kind::Level, value };
    let own = [
        level(c"pool_open", c"Whether there is a pool.", is_open.into()),
        Field {
            name: c"forwarded",
            help: c"Large requests that went to the next malloc.",
            kind: Kind::Counter,
            value: forwarded,
        },
        level(c"keeper_refused", c"Whether no keeper thread could be had.", refused.into()),
    ];
    let mut name = [0; NAME_BYTES];
    let command = str::from_utf8(name_of_process(&mut name)).unwrap_or("?");
    let labels: [Label<'_>; 2] = [("command", &command), ("pid", &std::process::id())];
    let fields = stats.fields().into_iter().chain(own);
    let _ = write!(line, "{}", Exposition::new(format, &labels, fields));
}
