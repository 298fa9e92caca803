//! The report for programs: every number by its name, as JSON or as OpenMetrics text.
//!
//! In: what the pool did. Out: text. Names are those of `faultless_pool::Stats`; bytes and nanoseconds end them.
//!
//! Reference: OpenMetrics 1.0: a counter's sample has `_total` behind the family's name, and `# EOF` ends the text.

use faultless_pool::Stats;

use super::{NAME_BYTES, name_of_process, process};
use crate::large::Outcome;
use crate::line::Line;

/// How a number behaves over time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// One number of the report.
pub(super) struct Number(&'static [u8], Kind, u64);

const COUNT: usize = 26;

/// All numbers, in the order of the report.
pub(super) fn numbers(stats: &Stats, forwarded: u64, outcome: &Outcome) -> [Number; COUNT] {
    use Kind::{Counter, Gauge};
    let refused = matches!(outcome, Outcome::Open(pool) if pool.is_keeper_refused());
    [
        Number(b"pool_open", Gauge, matches!(outcome, Outcome::Open(_)) as u64),
        Number(b"dirty_hits", Counter, stats.dirty_hits),
        Number(b"zeroed_hits", Counter, stats.zeroed_hits),
        Number(b"fresh", Counter, stats.fresh),
        Number(b"reused_bytes", Counter, stats.reused_bytes),
        Number(b"cleared_bytes", Counter, stats.cleared_bytes),
        Number(b"in_use_bytes", Gauge, stats.in_use_bytes as u64),
        Number(b"peak_in_use_bytes", Gauge, stats.peak_in_use_bytes as u64),
        Number(b"retained_bytes", Gauge, stats.retained_bytes as u64),
        Number(b"peak_retained_bytes", Gauge, stats.peak_retained_bytes as u64),
        Number(b"zeroed_bytes", Gauge, stats.zeroed_bytes as u64),
        Number(b"purges", Counter, stats.purges),
        Number(b"purged_bytes", Counter, stats.purged_bytes),
        Number(b"purge_ns", Counter, stats.purge_ns),
        Number(b"purge_failures", Counter, stats.purge_failures),
        Number(b"populate_failures", Counter, stats.populate_failures),
        Number(b"populate_missing_bytes", Counter, stats.populate_missing_bytes),
        Number(b"stocked_bytes", Counter, stats.stocked_bytes),
        Number(b"stock_ns", Counter, stats.stock_ns),
        Number(b"scrubbed_bytes", Counter, stats.scrubbed_bytes),
        Number(b"scrub_ns", Counter, stats.scrub_ns),
        Number(b"grown_in_place", Counter, stats.grown_in_place),
        Number(b"grown_by_pages", Counter, stats.grown_by_pages),
        Number(b"grown_by_copy", Counter, stats.grown_by_copy),
        Number(b"forwarded", Counter, forwarded),
        Number(b"keeper_refused", Gauge, refused as u64),
    ]
}

/// `{"name": "sort", "pid": 7, "dirty_hits": 1, ...}`
pub(super) fn json(line: &mut Line, numbers: &[Number]) {
    let mut name = [0; NAME_BYTES];
    line.text(b"{\"name\": ").quoted(name_of_process(&mut name)).text(b", \"pid\": ").number(process());
    for Number(name, _, value) in numbers {
        line.text(b", ").quoted(name).text(b": ").number(*value);
    }
    line.text(b"}");
}

/// Two lines per number; the caller ends the last.
pub(super) fn open_metrics(line: &mut Line, numbers: &[Number]) {
    let mut name = [0; NAME_BYTES];
    let command = name_of_process(&mut name);
    for Number(name, kind, value) in numbers {
        let (kind, suffix): (&[u8], &[u8]) = match kind {
            Kind::Counter => (b"counter", b"_total"),
            Kind::Gauge => (b"gauge", b""),
        };
        line.text(b"# TYPE faultless_").text(name).text(b" ").text(kind).text(b"\nfaultless_").text(name);
        line.text(suffix).text(b"{command=").quoted(command).text(b",pid=\"").number(process());
        line.text(b"\"} ").number(*value).text(b"\n");
    }
    line.text(b"# EOF");
}
