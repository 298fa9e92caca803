//! The stacks of a run, by a number that is the same in every run.

use std::collections::{BTreeSet, HashMap, HashSet};

use faultless_trace::profile::Profile;
use faultless_trace::recording;
use parquet::data_type::ByteArray;

use super::fnv1a;

/// The module of a place in no known file.
pub(super) const UNKNOWN: &str = "[unknown]";

/// A function on a stack.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) function: ByteArray,
    pub(super) module: ByteArray,
    pub(super) build_id: Option<ByteArray>,
    pub(super) address: u64,
    pub(super) file: Option<ByteArray>,
    pub(super) line: Option<u32>,
}

/// The stacks of the faults.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// Number in the recording -> number in all runs.
    pub(super) numbers: HashMap<u32, i64>,
    /// Number in all runs, and the functions, leaf first; in the recording's order, which packs best.
    pub(super) frames: Vec<(i64, Vec<Frame>)>,
}

impl Stacks {
    pub(super) fn new(stacks: &recording::Stacks, profile: &Profile) -> Self {
        let bytes = |text: &String| ByteArray::from(text.as_str());
        let modules =
            stacks.modules.iter().map(|module| (bytes(&module.path), module.build_id.as_ref().map(bytes)));
        let modules: Vec<(ByteArray, Option<ByteArray>)> = modules.collect();
        let unknown = (ByteArray::from(UNKNOWN), None);
        let used: BTreeSet<u32> = profile.faults.iter().filter_map(|fault| fault.stack).collect();
        let (mut found, mut seen) = (Self::default(), HashSet::new());
        for stack in used {
            let frame = |shown: recording::Shown<'_>| {
                let module =
                    shown.0.module.and_then(|module| modules.get(module as usize)).unwrap_or(&unknown);
                Frame {
                    function: bytes(&stacks.label(shown)),
                    module: module.0.clone(),
                    build_id: module.1.clone(),
                    address: shown.0.address,
                    file: shown.1.and_then(|name| name.file.as_ref()).map(bytes),
                    line: shown.1.and_then(|name| name.line),
                }
            };
            let frames: Vec<Frame> = stacks.shown(stack, true).into_iter().map(frame).collect();
            let number = number(&frames);
            found.numbers.insert(stack, number);
            if seen.insert(number) {
                found.frames.push((number, frames));
            }
        }
        found
    }
}

/// The hash that `crates/cli/docs/parquet.md` specifies.
fn number(frames: &[Frame]) -> i64 {
    let mut bytes = Vec::new();
    for frame in frames {
        let texts =
            [Some(&frame.function), Some(&frame.module), frame.build_id.as_ref(), frame.file.as_ref()];
        for text in texts {
            bytes.extend_from_slice(text.map_or(&[], ByteArray::data));
            bytes.push(0);
        }
        // Outside files an address is another one in each process.
        let address = if frame.module.data().starts_with(b"/") { frame.address } else { 0 };
        bytes.extend(address.to_le_bytes());
        bytes.extend(u64::from(frame.line.unwrap_or(0)).to_le_bytes());
    }
    let hash = fnv1a(bytes.into_iter());
    (hash ^ hash >> 64) as i64
}
