//! A Perfetto trace.
//!
//! Each thread has its faults as slices with stacks, its lock waits, and its running times. Memory and fault
//! rate are counters. Samples of the CPU clock are samples.
//!
//! A slice is as long as the corrected time of the fault. It ends at the latest where the thread's next slice
//! begins. A sampled fault is as long as one of the faults that it stands for, and its annotation `faults` says
//! how many. Times are ns of CLOCK_MONOTONIC. Packets are written one by one, each name before the first
//! packet that uses it.

mod interned;
mod proto;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use faultless_trace::observation::What;
use faultless_trace::profile::{Profile, Weighted};
use faultless_trace::recording::Recording;
use prost::Message;

use super::{mapping, names, whole};
use interned::Interned;
use proto::{CounterDescriptor, DebugAnnotation, TracePacket, TrackDescriptor, TrackEvent};

/// The id of our only packet sequence: any number but 0.
const SEQUENCE: u32 = 1;

/// Writes the trace.
///
/// # Errors
/// `out` fails.
pub fn write(recording: &Recording, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut trace = Trace { out, names: Interned::default(), tracks: 0, cleared: false };
    let mut threads = trace.people(recording, profile)?;
    trace.faults(recording, profile, &threads)?;
    trace.waits(recording, &mut threads)?;
    trace.levels(recording)?;
    trace.out.flush()
}

#[derive(Clone, Copy, Default)]
struct Tracks {
    faults: u64,
    /// Created at the first switch or wait.
    states: Option<u64>,
    locks: Option<u64>,
    /// Whether a slice is open in `states`.
    open: bool,
}

type Threads = BTreeMap<(u32, u32), Tracks>;

struct Trace<'a> {
    out: &'a mut dyn Write,
    names: Interned,
    tracks: u64,
    cleared: bool,
}

impl Trace<'_> {
    /// Writes a packet, and before it the names that it uses.
    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        if let Some(interned_data) = self.names.take() {
            self.bare(TracePacket { interned_data: Some(interned_data), ..TracePacket::default() })?;
        }
        self.bare(packet)
    }

    fn bare(&mut self, packet: TracePacket) -> io::Result<()> {
        let sequence_flags = if self.cleared { proto::NEEDS } else { proto::CLEARED | proto::NEEDS };
        self.cleared = true;
        let packet = TracePacket { trusted_packet_sequence_id: SEQUENCE, sequence_flags, ..packet };
        let mut bytes = vec![0x0a]; // field 1, length-delimited
        packet.encode_length_delimited(&mut bytes).map_err(io::Error::other)?;
        self.out.write_all(&bytes)
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        let event =
            TracePacket { timestamp: Some(time_ns), track_event: Some(event), ..TracePacket::default() };
        self.packet(event)
    }

    fn slice(&mut self, begin_ns: u64, end_ns: u64, event: TrackEvent) -> io::Result<()> {
        let end = TrackEvent { r#type: proto::END, track_uuid: event.track_uuid, ..TrackEvent::default() };
        self.event(begin_ns, TrackEvent { r#type: proto::BEGIN, ..event })?;
        self.event(end_ns, end)
    }

    fn track(&mut self, descriptor: TrackDescriptor) -> io::Result<u64> {
        self.tracks += 1;
        let track_descriptor = Some(TrackDescriptor { uuid: self.tracks, ..descriptor });
        self.packet(TracePacket { track_descriptor, ..TracePacket::default() })?;
        Ok(self.tracks)
    }

    /// Processes and threads.
    fn people(&mut self, recording: &Recording, profile: &Profile) -> io::Result<Threads> {
        let mut threads = Threads::new();
        for (pid, process) in names::processes(recording, profile) {
            let signed = pid as i32;
            let process_track = self.track(TrackDescriptor {
                process: Some(proto::ProcessDescriptor {
                    pid: signed,
                    cmdline: if threads.is_empty() { recording.header.command.clone() } else { Vec::new() },
                    process_name: process.name,
                }),
                ..TrackDescriptor::default()
            })?;
            for (tid, thread_name) in process.threads {
                let thread = proto::ThreadDescriptor { pid: signed, tid: i64::from(tid), thread_name };
                let faults = self.track(TrackDescriptor {
                    thread: Some(thread),
                    parent_uuid: Some(process_track),
                    ..TrackDescriptor::default()
                })?;
                threads.insert((pid, tid), Tracks { faults, ..Tracks::default() });
            }
        }
        Ok(threads)
    }

    fn faults(&mut self, recording: &Recording, profile: &Profile, threads: &Threads) -> io::Result<()> {
        // Backward: the begin of the thread's next fault is known.
        let mut next: HashMap<(u32, u32), u64> = HashMap::new();
        let mut ends: Vec<u64> = vec![0; profile.faults.len()];
        for (fault, end_ns) in profile.faults.iter().zip(&mut ends).rev() {
            let each_ns = fault.time_ns() / fault.faults.max(1.0);
            let limit_ns = next.insert((fault.pid, fault.tid), fault.time_ns).unwrap_or(u64::MAX);
            *end_ns = fault.time_ns.saturating_add(whole(each_ns) as u64).min(limit_ns).max(fault.time_ns);
        }
        for (fault, end_ns) in profile.faults.iter().zip(ends) {
            let tracks = threads.get(&(fault.pid, fault.tid)).copied().unwrap_or_default();
            let event = self.fault(recording, profile, fault, tracks.faults);
            self.slice(fault.time_ns, end_ns, event)?;
        }
        Ok(())
    }

    fn fault(
        &mut self,
        recording: &Recording,
        profile: &Profile,
        fault: &Weighted,
        track: u64,
    ) -> TrackEvent {
        let known = &mut self.names;
        let mut notes = vec![
            DebugAnnotation {
                name_iid: known.annotation("addr"),
                pointer_value: Some(fault.addr),
                ..DebugAnnotation::default()
            },
            DebugAnnotation {
                name_iid: known.annotation("mapping"),
                string_value_iid: Some(known.value(mapping(profile, fault))),
                ..DebugAnnotation::default()
            },
        ];
        if fault.faults != 1.0 {
            notes.push(DebugAnnotation {
                name_iid: known.annotation("faults"),
                double_value: Some(fault.faults),
                ..DebugAnnotation::default()
            });
        }
        let category = if fault.kernel { "fault in kernel mode" } else { "fault" };
        TrackEvent {
            category_iids: vec![known.category(category)],
            debug_annotations: notes,
            name_iid: known.event(&names::kind(fault.kind)),
            track_uuid: track,
            callstack_iid: fault.stack.map_or(0, |stack| known.stack(&recording.stacks, stack)),
            ..TrackEvent::default()
        }
    }

    /// Running and waiting times, lock waits, and samples of the CPU clock.
    fn waits(&mut self, recording: &Recording, threads: &mut Threads) -> io::Result<()> {
        for record in &recording.observation.records {
            let tracks = threads.entry((record.pid, record.tid)).or_default();
            match record.what {
                What::Switch { out, preempted } => {
                    let track = match tracks.states {
                        Some(track) => track,
                        None => *tracks.states.insert(self.child("scheduling", tracks.faults)?),
                    };
                    let name = match (out, preempted) {
                        (false, _) => "running",
                        (true, true) => "preempted",
                        (true, false) => "waiting",
                    };
                    if tracks.open {
                        let end =
                            TrackEvent { r#type: proto::END, track_uuid: track, ..TrackEvent::default() };
                        self.event(record.time_ns, end)?;
                    }
                    tracks.open = true;
                    let begin = TrackEvent {
                        r#type: proto::BEGIN,
                        category_iids: vec![self.names.category("scheduling")],
                        name_iid: self.names.event(name),
                        track_uuid: track,
                        ..TrackEvent::default()
                    };
                    self.event(record.time_ns, begin)?;
                }
                What::LockWait { write, wait_ns, .. } => {
                    let track = match tracks.locks {
                        Some(track) => track,
                        None => *tracks.locks.insert(self.child("mmap_lock", tracks.faults)?),
                    };
                    let name = if write { "wait for writing" } else { "wait for reading" };
                    let event = TrackEvent {
                        category_iids: vec![self.names.category("mmap_lock")],
                        name_iid: self.names.event(name),
                        track_uuid: track,
                        ..TrackEvent::default()
                    };
                    self.slice(record.time_ns.saturating_sub(wait_ns), record.time_ns, event)?;
                }
                What::Cpu { kernel, stack } => {
                    let sample = proto::PerfSample {
                        pid: record.pid,
                        tid: record.tid,
                        callstack_iid: stack.map(|stack| self.names.stack(&recording.stacks, stack)),
                        cpu_mode: if kernel { proto::KERNEL } else { proto::USER },
                    };
                    let timestamp = Some(record.time_ns);
                    self.packet(TracePacket {
                        timestamp,
                        perf_sample: Some(sample),
                        ..TracePacket::default()
                    })?;
                }
                _ => {}
            }
        }
        let Some(last_ns) = recording.observation.records.last().map(|record| record.time_ns) else {
            return Ok(());
        };
        for track in threads.values().filter(|tracks| tracks.open).filter_map(|tracks| tracks.states) {
            let end = TrackEvent { r#type: proto::END, track_uuid: track, ..TrackEvent::default() };
            self.event(last_ns, end)?;
        }
        Ok(())
    }

    fn child(&mut self, name: &str, parent: u64) -> io::Result<u64> {
        let name = Some(name.to_owned());
        self.track(TrackDescriptor { name, parent_uuid: Some(parent), ..TrackDescriptor::default() })
    }

    /// Resident memory, and the fault rate between two readings.
    fn levels(&mut self, recording: &Recording) -> io::Result<()> {
        let levels = &recording.observation.levels;
        if levels.is_empty() {
            return Ok(());
        }
        let counter = |unit, unit_name: Option<&str>| {
            Some(CounterDescriptor { unit, unit_name: unit_name.map(str::to_owned) })
        };
        let resident = self.track(TrackDescriptor {
            name: Some("resident anonymous memory".to_owned()),
            counter: counter(proto::BYTES, None),
            ..TrackDescriptor::default()
        })?;
        let rate = self.track(TrackDescriptor {
            name: Some("faults per second".to_owned()),
            counter: counter(0, Some("faults/s")),
            ..TrackDescriptor::default()
        })?;
        let point = |track, value| TrackEvent {
            r#type: proto::COUNTER,
            track_uuid: track,
            double_counter_value: Some(value),
            ..TrackEvent::default()
        };
        let mut before = levels.first();
        for level in levels {
            self.event(level.time_ns, point(resident, level.anon_bytes as f64))?;
            if let Some(before) = before.filter(|before| before.time_ns < level.time_ns) {
                let faults = level.faults.saturating_sub(before.faults) as f64;
                let seconds = (level.time_ns - before.time_ns) as f64 / 1e9;
                // A rate is drawn from the begin of its span.
                self.event(before.time_ns, point(rate, faults / seconds))?;
            }
            before = Some(level);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
