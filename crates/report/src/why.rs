//! The mechanisms: what happens, what it costs, who takes, who gives back, and the cures.

use faultless_trace::measurement::{Bytes, Count, Nanos, Percent};
use faultless_trace::why::{Advised, Mechanism};

use crate::figure::Figure;
use crate::palette::Palette;
use crate::table::{hang, wrap};
use crate::text::plain;

/// The mechanisms by their share of the CPU time.
pub(crate) fn lines(mechanisms: &[Mechanism], palette: Palette, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, mechanism) in (1..).zip(mechanisms) {
        let head = format!("{number}  {}: {}", plain(&mechanism.what), cost(mechanism));
        lines.extend(hang("   ", 6, &head, width).into_iter().map(|line| palette.bad(&line)));
        for (name, text) in evidence(mechanism) {
            lines.extend(hang(&format!("      {name:<9}"), 15, &text, width));
        }
        for cure in &mechanism.cures {
            lines.extend(
                wrap("      cure     ", &plain(&cure.how), width).into_iter().map(|line| palette.good(&line)),
            );
            lines.extend(wrap("               ", &gain(cure), width));
        }
    }
    lines
}

/// `31 % of the CPU time, 1 200 times a second`.
fn cost(mechanism: &Mechanism) -> String {
    let share = format!("{} of the CPU time", Percent(mechanism.share));
    match mechanism.calls {
        0 => share,
        _ if mechanism.per_s >= 1.5 => format!("{share}, {} times a second", Count(mechanism.per_s as u64)),
        calls => format!("{share}, {}", Count(calls).of("call")),
    }
}

fn evidence(mechanism: &Mechanism) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let faults = match mechanism.faults {
        exact if exact.high - exact.low < 1.0 => Count(exact.value.round() as u64).to_string(),
        range => Figure::count_range(range).to_string(),
    };
    let mut figures = Vec::new();
    if mechanism.faults.high >= 1.0 {
        figures.push(format!("{faults} faults, {}", Figure::nanos_range(mechanism.fault_ns)));
    }
    if let Some(ns) = mechanism.call_ns {
        figures.push(format!("{} in the calls", Nanos(ns)));
    }
    if mechanism.wait_ns > 0.0 {
        figures.push(format!("{} waited", Nanos(mechanism.wait_ns)));
    }
    if mechanism.cycled_bytes_per_s > 0.0 {
        figures.push(format!("{} a second taken again", Bytes(mechanism.cycled_bytes_per_s as u64)));
    }
    figures.extend(mechanism.when.clone());
    found.push(("takes", figures.join("; ")));
    if !mechanism.taken_in.is_empty() {
        found.push(("taken in", plain(&mechanism.taken_in.join(", "))));
    }
    found.extend(mechanism.caller.as_ref().map(|caller| ("by", plain(caller))));
    found
}

/// `saves 28 to 31 % of it, +2 MiB; both settings together`.
fn gain(cure: &Advised) -> String {
    let mut text = format!("saves {}", Figure::nanos_range(cure.saves_ns));
    if let Some(bytes) = cure.keeps_bytes {
        let mib = 1024.0 * 1024.0;
        text.push_str(&format!(", keeps {}", Bytes(((bytes / mib).ceil() * mib) as u64)));
    }
    if let Some(note) = &cure.note {
        text.push_str("; ");
        text.push_str(note);
    }
    text
}
