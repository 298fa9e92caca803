//! Lines of `stat -I`: what happened since the last one.

use faultless_trace::measurement::{Bytes, Count, Nanos};
use faultless_trace::observation::Tick;

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
    }
}
