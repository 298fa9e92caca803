//! The heaps of a program; its mechanisms: what happens, what it costs, who takes, who gives back, and the cures.

use faultless_trace::heaps::Heap;
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent};
use faultless_trace::why::{Advised, Mechanism};

use crate::figure::Figure;
use crate::palette::Palette;
use crate::table::{hang, shorten, wrap};
use crate::text::plain;

/// Columns below which cures begin at the left.
const NARROW: usize = 80;
/// Columns of a place at most.
const PLACE: usize = 60;

/// `memory: jemalloc 5.3.0 (in the program), MALLOC_CONF=dirty_decay_ms:0`, and where the pool can't act.
pub(crate) fn heaps(heaps: &[Heap], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut programs: Vec<&str> = heaps.iter().map(|heap| heap.program.as_str()).collect();
    programs.dedup();
    for program in &programs {
        let own: Vec<&Heap> = heaps.iter().filter(|heap| heap.program == *program).collect();
        let of = if programs.len() > 1 { format!(" of {}", plain(program)) } else { String::new() };
        let all: Vec<String> = own.iter().map(|heap| heap_of(heap)).collect();
        lines.extend(wrap(" ", &format!("memory{of}: {}", all.join("; ")), width));
        if let Some((heap, why)) = own.iter().find_map(|heap| Some((heap, heap.hidden.as_ref()?))) {
            let who = if heap.name == "Go" || heap.name == "Java" { &heap.name } else { &heap.program };
            lines.extend(wrap(" ", &format!("{} {why}: the pool can't act there", plain(who)), width));
        }
    }
    lines
}

fn heap_of(heap: &Heap) -> String {
    let version = heap.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let detail = heap.detail.as_ref().map(|detail| format!(" ({})", plain(detail))).unwrap_or_default();
    let settings: String = heap.settings.iter().map(|setting| format!(", {}", plain(setting))).collect();
    format!("{}{version}{detail}{settings}", heap.name)
}

/// What the share of a mechanism is of: without an end, a recording does not know the CPU time.
pub(crate) fn whole(cpu_ns: u64) -> &'static str {
    if cpu_ns > 0 { CPU_TIME } else { "time recorded" }
}

pub(crate) const CPU_TIME: &str = "CPU time";

/// The mechanisms by their share of the `whole`.
pub(crate) fn lines(mechanisms: &[Mechanism], whole: &str, palette: Palette, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, mechanism) in (1..).zip(mechanisms) {
        let head = format!("{number}  {}: {}", plain(&mechanism.what), cost(mechanism, whole));
        lines.extend(hang("   ", 6, &head, width).into_iter().map(|line| palette.bad(&line)));
        for (name, text) in evidence(mechanism) {
            lines.extend(hang(&format!("      {name:<9}"), 15, &text, width));
        }
        for cure in &mechanism.cures {
            // The longest word of a setting has 52 columns.
            let head = if width < NARROW { "   cure " } else { "      cure     " };
            lines.extend(wrap(head, &plain(&cure.how), width).into_iter().map(|line| palette.good(&line)));
            let gain = gain(cure);
            if !gain.is_empty() {
                lines.extend(wrap("               ", &gain, width));
            }
        }
    }
    lines
}

/// `31 % of the CPU time, 1 200 times a second`.
pub(crate) fn cost(mechanism: &Mechanism, whole: &str) -> String {
    let mut parts = Vec::new();
    if mechanism.share > 0.0 {
        parts.push(format!("{} of the {whole}", Percent(mechanism.share)));
    }
    if mechanism.wait_ns > 0.0 {
        let whose = if mechanism.victims.is_empty() { "of waiting" } else { "of other threads" };
        parts.push(format!("{} {whose}", Nanos(mechanism.wait_ns)));
    }
    if mechanism.grown_bytes > 0.0 {
        parts.push(format!("{} more memory", Bytes(mechanism.grown_bytes as u64)));
    }
    let least = if mechanism.calls_are_least { "at least " } else { "" };
    match mechanism.calls {
        0 => {}
        _ if mechanism.per_s >= 1.5 => {
            parts.push(format!("{least}{} times a second", Count(mechanism.per_s.round() as u64)));
        }
        calls => parts.push(format!("{least}{}", Count(calls).of("call"))),
    }
    parts.join(", ")
}

pub(crate) fn evidence(mechanism: &Mechanism) -> Vec<(&'static str, String)> {
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
        let place = if mechanism.calls > 0 { "in the calls" } else { "in the kernel" };
        figures.push(format!("{} {place}", Nanos(ns)));
    }
    if mechanism.cycled_bytes_per_s > 0.0 {
        figures.push(format!("{} a second taken again", Bytes(mechanism.cycled_bytes_per_s as u64)));
    }
    figures.extend(mechanism.when.clone());
    if !figures.is_empty() {
        found.push(("takes", figures.join("; ")));
    }
    if !mechanism.taken_in.is_empty() {
        let places = mechanism.taken_in.iter().map(|place| shorten(&plain(place), PLACE));
        found.push(("taken in", places.collect::<Vec<_>>().join(", ")));
    }
    if !mechanism.paid_by.is_empty() {
        found.push(("paid by", plain(&mechanism.paid_by.join(", "))));
    }
    if !mechanism.victims.is_empty() {
        found.push(("delays", plain(&mechanism.victims.join(", "))));
    }
    found.extend(mechanism.caller.as_ref().map(|caller| ("by", plain(caller))));
    found
}

/// `saves 28 to 31 ms; keeps up to 2 MiB; both settings together`.
pub(crate) fn gain(cure: &Advised) -> String {
    let mut parts = Vec::new();
    if cure.saves_ns.high > 0.0 {
        parts.push(format!("saves {}", Figure::nanos_range(cure.saves_ns)));
    }
    if cure.saves_wait_ns > 0.0 {
        parts.push(format!("up to {} of waiting", Nanos(cure.saves_wait_ns)));
    }
    if let Some(bytes) = cure.keeps_bytes {
        let mib = 1024.0 * 1024.0;
        parts.push(format!("keeps up to {}", Bytes(((bytes / mib).ceil() * mib) as u64)));
    }
    parts.extend(cure.note.clone());
    parts.join("; ")
}
