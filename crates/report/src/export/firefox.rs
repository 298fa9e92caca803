//! The Firefox Profiler's processed profile.
//!
//! Each thread has the weighted stacks of its faults as samples; bursts and lock waits are markers. Memory
//! and faults are counters. Allocations have their stacks. Samples of the CPU clock form a thread of their
//! own.
//!
//! The viewer is not made for a million samples or markers. So consecutive faults of a thread with the same
//! stack and kind are one sample if they lie within `SAMPLE_NS`. Faults closer than `BURST_NS` are one
//! marker. Weights are ms, or faults. The category of a frame is the kind of the fault. Frames have functions
//! but neither file nor line: the library has no way to add them. The document is built in memory.
//!
//! Format:
//! <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>.

mod markers;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use faultless_trace::observation::What;
use faultless_trace::profile::Profile;
use faultless_trace::recording::{Recording, Stacks};
use faultless_trace::stat::Kind;
use fxprof_processed_profile as fx;
use fxprof_processed_profile::{
    CategoryColor, CategoryPairHandle, CpuDelta, StackHandle, ThreadHandle, Timestamp,
};
use serde_json::Value;

use super::{Weight, begin_ns, names};
use crate::text::plain;
use markers::{Burst, LockWait};

/// Faults of one stack and kind within this time are one sample. A pixel of a second on a wide screen is 500
/// us.
const SAMPLE_NS: u64 = 500_000;
/// A fault joins the burst of its thread if it begins this soon after the last one ends. Filling a page takes
/// less than 10 us.
const BURST_NS: u64 = 50_000;
/// How much time a sample of the CPU clock stands for if the rate is unknown: 1 kHz is usual.
const CPU_PERIOD_NS: u64 = 1_000_000;

/// Writes the profile.
///
/// # Errors
/// `out` fails.
pub fn write(
    recording: &Recording,
    profile: &Profile,
    weight: Weight,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut document = Document::new(recording, weight);
    document.people(profile);
    document.faults(profile);
    document.rest();
    document.levels();
    document.write(out)
}

/// A sample being summed.
struct Sample {
    begin_ns: u64,
    stack: Option<u32>,
    kind: Kind,
    weight: f64,
}

struct Document<'a> {
    recording: &'a Recording,
    weight: Weight,
    begin_ns: u64,
    out: fx::Profile,
    threads: BTreeMap<(u32, u32), ThreadHandle>,
    main: Option<fx::ProcessHandle>,
    categories: HashMap<Kind, fx::CategoryHandle>,
    cpu: CategoryPairHandle,
    stacks: HashMap<(ThreadHandle, u32, CategoryPairHandle), Option<StackHandle>>,
}

impl<'a> Document<'a> {
    fn new(recording: &'a Recording, weight: Weight) -> Self {
        let header = &recording.header;
        let product = header.command.first().map_or("program", String::as_str);
        let begin = fx::ReferenceTimestamp::from_millis_since_unix_epoch(header.begin_unix_ms as f64);
        let mut out = fx::Profile::new(product, begin, fx::SamplingInterval::from_millis(1));
        out.set_os_name(&format!("Linux {}", header.host.kernel));
        // All names are resolved: the viewer need not look up symbols.
        out.set_symbolicated(true);
        let cpu = out.add_category("CPU", CategoryColor::Green).into();
        let begin_ns = begin_ns(recording);
        let (threads, categories, stacks) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Self { recording, weight, begin_ns, out, threads, main: None, categories, cpu, stacks }
    }

    fn time(&self, time_ns: u64) -> Timestamp {
        Timestamp::from_nanos_since_reference(time_ns.saturating_sub(self.begin_ns))
    }

    fn people(&mut self, profile: &Profile) {
        let begin = self.time(self.begin_ns);
        for (pid, process) in names::processes(self.recording, profile) {
            let handle = self.out.add_process(&process.name, pid, begin);
            self.main.get_or_insert(handle);
            for (tid, name) in process.threads {
                let thread = self.out.add_thread(handle, tid, begin, tid == pid);
                self.out.set_thread_name(thread, &name);
                self.out.set_thread_samples_weight_type(thread, self.weight_type());
                self.out.set_thread_show_markers_in_timeline(thread, true);
                self.threads.insert((pid, tid), thread);
            }
        }
    }

    fn weight_type(&self) -> fx::WeightType {
        match self.weight {
            Weight::Time => fx::WeightType::TracingMs,
            Weight::Faults => fx::WeightType::Samples,
        }
    }

    /// The unit of the whole numbers that the library takes: us, or faults. [`Document::write`] turns us into
    /// ms.
    fn unit(&self) -> f64 {
        match self.weight {
            Weight::Time => 1e3,
            Weight::Faults => 1.0,
        }
    }

    fn faults(&mut self, profile: &Profile) {
        let mut open: BTreeMap<ThreadHandle, Vec<Sample>> = BTreeMap::new();
        let mut bursts: BTreeMap<ThreadHandle, Burst> = BTreeMap::new();
        let mut carry: HashMap<ThreadHandle, f64> = HashMap::new();
        for fault in &profile.faults {
            let Some(&thread) = self.threads.get(&(fault.pid, fault.tid)) else { continue };
            let samples = open.entry(thread).or_default();
            if samples.first().is_some_and(|first| fault.time_ns.saturating_sub(first.begin_ns) > SAMPLE_NS) {
                let done = std::mem::take(samples);
                self.samples(thread, done, &mut carry);
            }
            let samples = open.entry(thread).or_default();
            let weight = self.weight.of(fault);
            match samples.iter_mut().find(|open| open.stack == fault.stack && open.kind == fault.kind) {
                Some(sample) => sample.weight += weight,
                None => {
                    let (begin_ns, stack, kind) = (fault.time_ns, fault.stack, fault.kind);
                    samples.push(Sample { begin_ns, stack, kind, weight });
                }
            }
            match bursts.get_mut(&thread) {
                Some(burst) if fault.time_ns.saturating_sub(burst.end_ns) <= BURST_NS => burst.add(fault),
                _ => {
                    if let Some(done) = bursts.insert(thread, Burst::new(fault)) {
                        self.burst(thread, done);
                    }
                }
            }
        }
        for fault in profile.unplaced() {
            let Some(&thread) = self.threads.get(&(fault.pid, fault.tid)) else { continue };
            let (begin_ns, stack, kind) = (fault.time_ns, None, fault.kind);
            open.entry(thread).or_default().push(Sample {
                begin_ns,
                stack,
                kind,
                weight: self.weight.of(&fault),
            });
        }
        for (thread, samples) in open {
            self.samples(thread, samples, &mut carry);
        }
        for (thread, burst) in bursts {
            self.burst(thread, burst);
        }
    }

    /// Adds samples. A thread's rounding error goes to its next sample, so sums stay exact.
    fn samples(
        &mut self,
        thread: ThreadHandle,
        samples: Vec<Sample>,
        carry: &mut HashMap<ThreadHandle, f64>,
    ) {
        for sample in samples {
            let category = self.category(sample.kind).into();
            let stack = self.stack(thread, sample.stack, category);
            let time = self.time(sample.begin_ns);
            let rest = carry.entry(thread).or_default();
            let exact = sample.weight / self.unit() + *rest;
            let weight = exact.round().clamp(0.0, f64::from(i32::MAX));
            *rest = (exact - weight).clamp(-1.0, 1.0);
            self.out.add_sample(thread, time, stack, CpuDelta::ZERO, weight as i32);
        }
    }

    fn burst(&mut self, thread: ThreadHandle, burst: Burst) {
        let timing = fx::MarkerTiming::Interval(self.time(burst.begin_ns), self.time(burst.end_ns));
        let kind = burst.kind();
        let category = self.category(kind);
        let kind = self.out.intern_string(&names::kind(kind));
        self.out.add_marker(thread, timing, burst.marker(kind, category));
    }

    /// Lock waits, allocations, the CPU clock.
    fn rest(&mut self) {
        let recording = self.recording;
        let hertz = recording.header.settings.cpu_hertz;
        let period_ns = 1_000_000_000_u64.checked_div(hertz).unwrap_or(CPU_PERIOD_NS);
        let mut clocks: BTreeMap<ThreadHandle, ThreadHandle> = BTreeMap::new();
        let mut live: HashMap<(u32, u64), u64> = HashMap::new();
        for record in &recording.observation.records {
            let Some(&thread) = self.threads.get(&(record.pid, record.tid)) else { continue };
            let time = self.time(record.time_ns);
            match record.what {
                What::LockWait { write, wait_ns, .. } => {
                    let begin = self.time(record.time_ns.saturating_sub(wait_ns));
                    let marker = LockWait { write };
                    self.out.add_marker(thread, fx::MarkerTiming::Interval(begin, time), marker);
                }
                What::Alloc { addr, len_bytes, stack } => {
                    self.allocation(thread, time, stack, addr, len_bytes);
                    live.insert((record.pid, addr), len_bytes);
                }
                What::Free { addr } => {
                    if let Some(len_bytes) = live.remove(&(record.pid, addr)) {
                        self.free(thread, time, addr, len_bytes);
                    }
                }
                What::Move { from, addr, len_bytes, stack } => {
                    if let Some(old_bytes) = live.remove(&(record.pid, from)) {
                        self.free(thread, time, from, old_bytes);
                    }
                    self.allocation(thread, time, stack, addr, len_bytes);
                    live.insert((record.pid, addr), len_bytes);
                }
                What::Cpu { stack, .. } => {
                    let clock = match clocks.get(&thread) {
                        Some(&clock) => clock,
                        None => *clocks.entry(thread).or_insert(self.clock(record.pid, record.tid)),
                    };
                    let stack = self.stack(clock, stack, self.cpu);
                    self.out.add_sample(clock, time, stack, CpuDelta::from_nanos(period_ns), 1);
                }
                _ => {}
            }
        }
    }

    /// A thread beside `tid` for samples of the CPU clock: their weights have another unit.
    fn clock(&mut self, pid: u32, tid: u32) -> ThreadHandle {
        let begin = self.time(self.begin_ns);
        let process = self.out.add_process("CPU clock", pid, begin);
        let thread = self.out.add_thread(process, tid, begin, tid == pid);
        self.out.set_thread_name(thread, "CPU clock");
        thread
    }

    fn allocation(
        &mut self,
        thread: ThreadHandle,
        time: Timestamp,
        stack: Option<u32>,
        addr: u64,
        bytes: u64,
    ) {
        let stack = self.stack(thread, stack, fx::CategoryHandle::OTHER.into());
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.out.add_allocation_sample(thread, time, stack, addr, bytes);
    }

    fn free(&mut self, thread: ThreadHandle, time: Timestamp, addr: u64, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.out.add_allocation_sample(thread, time, None, addr, -bytes);
    }

    /// Resident memory and faults of all processes, shown with the first one.
    fn levels(&mut self) {
        let levels = &self.recording.observation.levels;
        let Some(process) = self.main.filter(|_| !levels.is_empty()) else { return };
        let memory = self.out.add_counter(process, "malloc", "Memory", "Resident anonymous memory");
        let faults = self.out.add_counter(process, "page faults", "Faults", "Page faults");
        let (mut bytes_before, mut faults_before) = (0_u64, levels.first().map_or(0, |level| level.faults));
        for level in levels {
            let time = self.time(level.time_ns);
            let bytes = level.anon_bytes as f64 - bytes_before as f64;
            let new = level.faults.saturating_sub(faults_before);
            self.out.add_counter_sample(memory, time, bytes, 0);
            self.out.add_counter_sample(faults, time, new as f64, u32::try_from(new).unwrap_or(u32::MAX));
            (bytes_before, faults_before) = (level.anon_bytes, level.faults);
        }
    }

    fn category(&mut self, kind: Kind) -> fx::CategoryHandle {
        if let Some(&category) = self.categories.get(&kind) {
            return category;
        }
        let colour = match kind {
            Kind::Major => CategoryColor::Red,
            Kind::Thp => CategoryColor::Blue,
            Kind::FileRead | Kind::FilePrivateWrite | Kind::Shared => CategoryColor::Purple,
            Kind::CowAfterFork | Kind::WriteAfterZeroRead | Kind::ZeroPageRead => CategoryColor::Yellow,
            Kind::KernelMode | Kind::Populate | Kind::KernelOrPopulate => CategoryColor::Brown,
            _ => CategoryColor::Orange,
        };
        let category = self.out.add_category(&names::kind(kind).replace('_', " "), colour);
        self.categories.insert(kind, category);
        category
    }

    fn stack(
        &mut self,
        thread: ThreadHandle,
        stack: Option<u32>,
        category: CategoryPairHandle,
    ) -> Option<StackHandle> {
        let stack = stack?;
        if let Some(&known) = self.stacks.get(&(thread, stack, category)) {
            return known;
        }
        let labels = labels(&self.recording.stacks, stack);
        let frames: Vec<fx::FrameInfo> = labels
            .iter()
            .rev()
            .map(|label| fx::FrameInfo {
                frame: fx::Frame::Label(self.out.intern_string(label)),
                category_pair: category,
                flags: fx::FrameFlags::empty(),
            })
            .collect();
        let handle = self.out.intern_stack_frames(thread, frames.into_iter());
        self.stacks.insert((thread, stack, category), handle);
        handle
    }

    fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let mut document = serde_json::to_value(&self.out)?;
        if self.weight == Weight::Time {
            in_ms(&mut document);
        }
        serde_json::to_writer(&mut *out, &document)?;
        out.flush()
    }
}

fn labels(stacks: &Stacks, stack: u32) -> Vec<String> {
    stacks.labels(stack).iter().map(|label| plain(label)).collect()
}

/// Turns weights from us into ms. The library takes whole numbers only; the format allows fractions.
fn in_ms(document: &mut Value) {
    let threads = document.get_mut("threads").and_then(Value::as_array_mut);
    for samples in threads.into_iter().flatten().filter_map(|thread| thread.get_mut("samples")) {
        if samples.get("weightType").and_then(Value::as_str) != Some("tracing-ms") {
            continue;
        }
        let weights = samples.get_mut("weight").and_then(Value::as_array_mut);
        for weight in weights.into_iter().flatten() {
            *weight = Value::from(weight.as_f64().unwrap_or(0.0) / 1e3);
        }
    }
}

#[cfg(test)]
mod tests;
