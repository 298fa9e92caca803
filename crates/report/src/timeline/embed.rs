//! The data of a timeline's page: JSON, and spans and faults as bytes. `data.js` reads both.
//!
//! The bytes are varints (7 bits a byte, low bits first) of numbers below 2^53, deflated, in base64. Each lane
//! has, in this order:
//!
//! | what | numbers of each |
//! |---|---|
//! | thread | process, number, index of its name, begin, time in faults, the recorded part of it, how many follow of each |
//! | spans | length * 8 + state |
//! | faults | time since the last, duration + 1 or 0, class, change of address (zigzag) |
//! | lock waits | change of end (zigzag), length * 2 + write |
//! | samples | time since the last, stack + 1 or 0 |

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use faultless_trace::timeline::{Class, Lane, State, managing};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};

use super::groups::groups;
use super::{Shown, state_name};
use crate::text::Strings;

/// JavaScript holds integers below this exactly. Addresses above become 0.
const EXACT: u64 = 1 << 53;

/// JSON that is safe inside a script element, and base64.
pub(super) fn embed(shown: &Shown<'_>) -> (String, String) {
    let (mut bytes, mut names) = (Vec::new(), Strings::default());
    for lane in &shown.timeline.lanes {
        let counts = [lane.spans.len(), lane.faults.len(), lane.lock_waits.len(), lane.cpu.len()];
        let begin_ns = lane.begin_ns.saturating_sub(shown.timeline.begin_ns);
        let times = [begin_ns, lane.fault_ns.round() as u64, lane.recorded_ns.round() as u64];
        let head = [u64::from(lane.pid), u64::from(lane.tid), names.index(&lane.name) as u64];
        let counts = counts.map(|count| count as u64);
        head.into_iter().chain(times).chain(counts).for_each(|number| varint(&mut bytes, number));
        write(lane, &mut bytes);
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let deflated = encoder.write_all(&bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    (about(shown, &names.table).to_string().replace('<', "\\u003c"), STANDARD.encode(deflated))
}

fn write(lane: &Lane, out: &mut Vec<u8>) {
    for &(len_ns, state) in &lane.spans {
        varint(out, len_ns.min(EXACT / 8 - 1) * 8 + state as u64);
    }
    let (mut time, mut place) = (lane.begin_ns, 0);
    for &(time_ns, duration_ns, addr, class) in &lane.faults {
        let addr = if addr < EXACT { addr } else { 0 };
        varint(out, time_ns - time.min(time_ns));
        varint(out, duration_ns.map_or(0, |ns| ns.min(EXACT - 2) + 1));
        varint(out, u64::from(class));
        varint(out, zigzag(addr as i64 - place));
        (time, place) = (time_ns, addr as i64);
    }
    let mut time = lane.begin_ns;
    for &(end_ns, wait_ns, write) in &lane.lock_waits {
        varint(out, zigzag((end_ns as i64).wrapping_sub(time as i64)));
        varint(out, wait_ns.min(EXACT / 2 - 1) * 2 + u64::from(write));
        time = end_ns;
    }
    let mut time = lane.begin_ns;
    for &(time_ns, stack) in &lane.cpu {
        varint(out, time_ns.saturating_sub(time));
        varint(out, stack.map_or(0, |stack| u64::from(stack) + 1));
        time = time_ns;
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Everything but the lanes' bytes. Times count from the begin.
fn about(shown: &Shown<'_>, names: &[String]) -> Value {
    let timeline = shown.timeline;
    let since = |ns: u64| ns.saturating_sub(timeline.begin_ns);
    let mut texts = Strings::default();
    let stacks: Vec<Vec<i64>> =
        shown.labels().iter().map(|labels| labels.iter().map(|label| texts.index(label)).collect()).collect();
    let index = |number: Option<u32>| number.map_or(-1, i64::from);
    let class = |class: &Class| {
        json!([
            class.kind.words(),
            index(class.stack),
            index(class.owner),
            index(class.mapping),
            class.in_flight,
            class.weight,
            class.cost_ns,
            u8::from(class.kernel),
            u8::from(class.major),
        ])
    };
    let manages: Vec<usize> = managing(shown.stacks)
        .iter()
        .enumerate()
        .filter(|(_, is_one)| **is_one)
        .map(|(stack, _)| stack)
        .collect();
    let levels: Vec<[u64; 3]> =
        timeline.levels.iter().map(|level| [since(level.time_ns), level.faults, level.anon_bytes]).collect();
    let losses: Vec<[u64; 3]> =
        timeline.losses.iter().map(|loss| [since(loss.begin_ns), since(loss.end_ns), loss.lost]).collect();
    let recorded: Vec<[u64; 2]> =
        timeline.recorded.iter().map(|span| [since(span.0), since(span.1)]).collect();
    json!({
        "name": shown.name,
        "length": timeline.end_ns - timeline.begin_ns,
        "faults": timeline.faults,
        "time": timeline.fault_ns,
        "elsewhere": [timeline.elsewhere.0, timeline.elsewhere.1],
        "states": State::ALL.map(state_name),
        "lanes": timeline.lanes.len(),
        "names": names,
        "groups": groups(timeline).iter().map(|group| json!([group.name, group.lanes])).collect::<Vec<_>>(),
        "classes": timeline.classes.iter().map(class).collect::<Vec<_>>(),
        "mappings": timeline.mappings,
        "recorded": recorded,
        "losses": losses,
        "levels": levels,
        "stacks": stacks,
        "manages": manages,
        "labels": texts.table,
    })
}
