//! The report for programs: the counters of the pool and of the interposer, as JSON or as OpenMetrics text.
//!
//! In: counters. Out: text. The pool crate defines both formats.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use faultless_pool::{Exposition, Field, Format, Kind, Label, Stats};

use super::name;
use crate::line::Line;
use crate::mappings::{ADVISED, SERVED};
use crate::pool::State;

/// Writes all counters, with the program's name and process number as labels.
pub(super) fn write(line: &mut Line, format: Format, stats: &Stats, forwarded: u64, state: &State) {
    let is_open = matches!(state, State::Open(_));
    let refused = matches!(state, State::Open(pool) if pool.is_thread_refused());
    let level = |name, help, value| Field { name, help, kind: Kind::Gauge, value };
    let count = |name, help, value| Field { name, help, kind: Kind::Counter, value };
    let own = [
        level(c"pool_open", c"Whether there is a pool.", is_open.into()),
        count(c"forwarded", c"Large requests that went to the next malloc.", forwarded),
        count(c"mappings", c"Mappings of the program's own that the pool served.", SERVED.load(Relaxed)),
        count(
            c"mappings_advised",
            c"Mappings of its own with a request for huge pages.",
            ADVISED.load(Relaxed),
        ),
        level(c"thread_refused", c"Whether no background thread could be started.", refused.into()),
    ];
    let mut buffer = [0; name::BYTES];
    let command = str::from_utf8(name::of_process(&mut buffer)).unwrap_or("?");
    let labels: [Label<'_>; 2] = [("command", &command), ("pid", &name::number())];
    let fields = stats.fields().into_iter().chain(own);
    let _ = write!(line, "{}", Exposition::new(format, &labels, fields));
}
