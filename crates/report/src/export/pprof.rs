//! A gzipped pprof profile: faults and their time by stack, thread, kind, mapping and allocating stack.
//!
//! Sample types: `faults/count` and `time/nanoseconds` (the default). Labels of a sample: `process`,
//! `thread`, `kind`, `mapping`, and `allocated_by`, the functions that allocated the block, leaf first. So
//! `-tagfocus kind=stack` and `-tagroot allocated_by` work. Inlined functions are lines of one location. An
//! address is the offset in the module's file. A frame without a function is named `libc.so.6+0x1234`.
//! Figures are whole ns and faults, and add up to the whole.

mod proto;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use faultless_trace::profile::Profile;
use faultless_trace::recording::{Module, Recording, Stacks};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::{Rounding, block, mapping, names};
use crate::text::Strings;

/// What distinguishes one sample from another.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    pid: u32,
    tid: u32,
    stack: Option<u32>,
    kind: faultless_trace::stat::Kind,
    mapping: &'a str,
    allocated_by: Option<u32>,
}

/// Writes the profile.
///
/// # Errors
/// `out` fails.
pub fn write(recording: &Recording, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let message = message(recording, profile);
    let mut packed = GzEncoder::new(out, Compression::default());
    packed.write_all(&message.encode_to_vec())?;
    packed.finish()?.flush()
}

fn message(recording: &Recording, profile: &Profile) -> proto::Profile {
    let mut sums: BTreeMap<Key<'_>, (f64, f64)> = BTreeMap::new();
    for fault in profile.faults.iter().chain(&profile.unplaced()) {
        let key = Key {
            pid: fault.pid,
            tid: fault.tid,
            stack: fault.stack,
            kind: fault.kind,
            mapping: mapping(profile, fault),
            allocated_by: block(profile, fault).and_then(|block| block.stack),
        };
        let sum = sums.entry(key).or_default();
        sum.0 += fault.faults;
        sum.1 += fault.time_ns();
    }
    let processes = names::processes(recording, profile);
    let mut strings = Strings::default();
    // The format wants it first.
    strings.index("");
    let mut code = Code::new(recording, &mut strings);
    let mut samples = Vec::with_capacity(sums.len());
    let [mut whole_faults, mut whole_ns] = [Rounding::default(); 2];
    for (key, (faults, cost_ns)) in sums {
        let process = processes.get(&key.pid);
        let thread = process.and_then(|process| process.threads.get(&key.tid)).map_or("", |name| name);
        let allocated_by = key.allocated_by.map(|stack| recording.stacks.labels(stack).join(" < "));
        let kind = names::kind(key.kind);
        let mut label = Vec::new();
        let texts = [
            ("process", process.map_or("", |process| &process.name)),
            ("thread", thread),
            ("kind", &kind),
            ("mapping", key.mapping),
            ("allocated_by", allocated_by.as_deref().unwrap_or_default()),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            label.push(proto::Label { key: strings.index(name), str: strings.index(text), num: 0 });
        }
        for (name, number) in [("pid", key.pid), ("tid", key.tid)] {
            label.push(proto::Label { key: strings.index(name), str: 0, num: i64::from(number) });
        }
        let location_id = key.stack.map_or_else(Vec::new, |stack| code.locations(stack, &mut strings));
        samples.push(proto::Sample {
            location_id,
            value: vec![whole_faults.next(faults), whole_ns.next(cost_ns)],
            label,
        });
    }
    let mut value = |name, unit| proto::ValueType { r#type: strings.index(name), unit: strings.index(unit) };
    let sample_type = vec![value("faults", "count"), value("time", "nanoseconds")];
    let last_ns = recording.observation.records.last().map_or(0, |record| record.time_ns);
    let comment = recording.missing.iter().map(|text| strings.index(&format!("missing: {text}"))).collect();
    proto::Profile {
        default_sample_type: sample_type[1].r#type,
        period_type: Some(sample_type[0]),
        period: recording.header.settings.sample_period.clamp(1, i64::MAX as u64) as i64,
        sample_type,
        sample: samples,
        mapping: code.mappings,
        location: code.locations,
        function: code.functions,
        time_nanos: i64::try_from(recording.header.begin_unix_ms)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000),
        duration_nanos: i64::try_from(last_ns.saturating_sub(super::begin_ns(recording))).unwrap_or(i64::MAX),
        comment,
        string_table: strings.table,
    }
}

/// Modules, frames and functions, in the order of first use. An id in pprof is the index plus 1.
struct Code<'a> {
    stacks: &'a Stacks,
    /// The module that comes first.
    main: usize,
    mappings: Vec<proto::Mapping>,
    locations: Vec<proto::Location>,
    functions: Vec<proto::Function>,
    by_frame: HashMap<u32, u64>,
    by_name: HashMap<(i64, i64), u64>,
}

impl<'a> Code<'a> {
    fn new(recording: &'a Recording, strings: &mut Strings) -> Self {
        let stacks = &recording.stacks;
        let main = names::main_module(recording);
        // Says that functions are known, so `pprof` does not look up the file offsets as addresses.
        let mapping = |(at, module): (usize, &Module)| proto::Mapping {
            id: id_of(at, main),
            memory_start: 0,
            memory_limit: u64::MAX,
            filename: strings.index(&module.path),
            build_id: strings.index(module.build_id.as_deref().unwrap_or_default()),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        };
        let mut mappings: Vec<proto::Mapping> = stacks.modules.iter().enumerate().map(mapping).collect();
        mappings.sort_by_key(|mapping| mapping.id);
        let (locations, functions) = (Vec::new(), Vec::new());
        let (by_frame, by_name) = (HashMap::new(), HashMap::new());
        Self { stacks, main, mappings, locations, functions, by_frame, by_name }
    }

    fn locations(&mut self, stack: u32, strings: &mut Strings) -> Vec<u64> {
        let frames = self.stacks.stacks.get(stack as usize).map_or(&[][..], Vec::as_slice);
        frames.iter().filter_map(|&frame| self.location(frame, strings)).collect()
    }

    fn location(&mut self, number: u32, strings: &mut Strings) -> Option<u64> {
        if let Some(&id) = self.by_frame.get(&number) {
            return Some(id);
        }
        let stacks = self.stacks;
        let frame = stacks.frames.get(number as usize)?;
        let mut line = Vec::new();
        for name in &frame.names {
            let function = self.function(&name.function, name.file.as_deref().unwrap_or_default(), strings);
            line.push(proto::Line { function_id: function, line: i64::from(name.line.unwrap_or(0)) });
        }
        if line.is_empty() {
            let function = self.function(&stacks.place(frame), "", strings);
            line.push(proto::Line { function_id: function, line: 0 });
        }
        let id = self.locations.len() as u64 + 1;
        let module = frame.module.filter(|&module| (module as usize) < self.mappings.len());
        let mapping_id = module.map_or(0, |module| id_of(module as usize, self.main));
        self.locations.push(proto::Location { id, mapping_id, address: frame.address, line });
        self.by_frame.insert(number, id);
        Some(id)
    }

    fn function(&mut self, name: &str, file: &str, strings: &mut Strings) -> u64 {
        let (name, filename) = (strings.index(name), strings.index(file));
        let next = self.functions.len() as u64 + 1;
        let id = *self.by_name.entry((name, filename)).or_insert(next);
        if id == next {
            self.functions.push(proto::Function { id, name, system_name: name, filename });
        }
        id
    }
}

/// The id of a module. `pprof` takes the mapping that comes first for the program's own file.
fn id_of(module: usize, main: usize) -> u64 {
    let place = match module.cmp(&main) {
        std::cmp::Ordering::Less => module + 1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => module,
    };
    place as u64 + 1
}

#[cfg(test)]
mod tests;
