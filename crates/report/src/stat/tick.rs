//! Lines of `stat -I`: what happened since the last one.

use faultless_trace::Stat;
use faultless_trace::measurement::{Bytes, Count, Nanos};
use faultless_trace::observation::Tick;
use serde::Serialize;

/// A line of text, below a head if it is the first.
pub fn tick(tick: &Tick, is_first: bool) -> String {
    let head = ["time", "faults", "faults/s", "CPU", "anonymous"];
    let unknown = || "-".to_owned();
    let per_s = |faults: u64| faults as f64 * 1e9 / tick.span_ns.max(1) as f64;
    let cells = [
        format!("{:.3} s", tick.time_ns as f64 / 1e9),
        tick.faults.map_or_else(unknown, |faults| Count(faults).to_string()),
        tick.faults.map_or_else(unknown, |faults| Count(per_s(faults).round() as u64).to_string()),
        tick.cpu_ns.map_or_else(unknown, |ns| Nanos(ns as f64).to_string()),
        tick.anon_bytes.map_or_else(unknown, |bytes| Bytes(bytes).to_string()),
    ];
    let line = |cells: [&str; 5]| {
        let [time, faults, rate, cpu, anonymous] = cells;
        format!("{time:>11} {faults:>12} {rate:>12} {cpu:>9} {anonymous:>11}\n")
    };
    let head = if is_first { line(head) } else { String::new() };
    head + &line(cells.each_ref().map(String::as_str))
}

/// A line of JSON: `{"tick": {...}}`.
pub fn tick_json(tick: &Tick) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        tick: &'a Tick,
    }
    line(&Line { tick })
}

/// The whole answer in one line of JSON: `{"stat": {...}}`.
pub fn json_line(stat: &Stat) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        stat: &'a Stat,
    }
    line(&Line { stat })
}

fn line(document: &impl Serialize) -> String {
    // Only maps with keys that are not strings can fail. There is none.
    serde_json::to_string(document).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stay_in_place_and_the_unknown_is_a_dash() {
        let known = Tick {
            time_ns: 2_000_000_000,
            span_ns: 1_000_000_000,
            faults: Some(12_345),
            cpu_ns: Some(812_000_000),
            anon_bytes: Some(45 << 20),
        };
        let first = tick(&known, true);
        let [head, line] = first.lines().collect::<Vec<_>>()[..] else { panic!("{first}") };
        assert_eq!(head.len(), line.len());
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>().join(" "),
            "2.000 s 12 345 12 345 812 ms 45 MiB"
        );
        let unknown = tick(&Tick { time_ns: 1, ..Tick::default() }, false);
        assert_eq!(unknown.split_whitespace().collect::<Vec<_>>(), ["0.000", "s", "-", "-", "-", "-"]);
        assert_eq!(tick_json(&known).lines().count(), 1);
    }
}
