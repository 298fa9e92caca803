//! perf.data of `perf record` with page-fault samples -> a [`Recording`] that every view can read.
//!
//! In: the bytes of a file, or of a `perf record -o -` pipe. Fault samples weigh their period. It also takes
//! samples of the CPU clock, switches, mappings, names, forks and lost records. The header gives the
//! machine's facts except its name. Code addresses are mapped to files by the mappings in perf.data.
//!
//! [`Recording::missing`] says what perf.data lacks: the end of a fault, so there are no times, and without
//! `perf record -d` the address. Copied stacks (`--call-graph dwarf`) are not unwound; they give only the
//! leaf, with a note. Compressed files are refused.

mod code;
mod container;
#[cfg(test)]
mod tests;

use std::fmt;

use faultless_trace::file;
use faultless_trace::observation::{Exit, Host, Map, Observation, Record, SourceNote, What};
use faultless_trace::recording::{Footer, Header, Loss, Recording, Settings};
use linux_perf_event_reader::{
    AttrFlags, ContextSwitchRecord, CpuMode, EventRecord, Mmap2FileId, PerfEventType, RawData,
    RawEventRecord, RecordType, SampleFormat, SampleRecord, SamplingPolicy, SoftwareCounterType,
    TaskWasPreempted,
};

use crate::elf::hexadecimal;
use code::Code;
use container::{Container, Event, Raw, lossy, word};

/// Why a file can't be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It does not begin as perf.data does.
    NotPerfData,
    /// From a machine with the other byte order.
    BigEndian,
    /// WriteCost with `perf record -z`.
    Compressed,
    /// It names no event that can be read.
    NoEvents,
    /// Events, but no page faults.
    NoFaults,
    /// Its records do not say which of several events they belong to.
    Ambiguous,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPerfData => "not a perf.data file; name one that `perf record -e page-faults -c 1 -g -d` wrote",
            Self::BigEndian => "perf.data of a big-endian machine, which is not read; record on a little-endian one",
            Self::Compressed => "compressed perf.data, which is not read; record without -z",
            Self::NoEvents => "perf.data without a readable event: nothing was written into it; record again",
            Self::NoFaults => {
                "perf.data without page-fault samples; record them: perf record -e page-faults -c 1 -g -d -- CMD"
            }
            Self::Ambiguous => {
                "perf.data whose records do not say to which event they belong; record page-faults alone"
            }
        })
    }
}

impl std::error::Error for Refused {}

/// Whether `bytes` begin like perf.data, of whatever machine.
pub fn is_perf_data(bytes: &[u8]) -> bool {
    bytes.starts_with(container::MAGIC) || bytes.starts_with(container::MAGIC_SWAPPED)
}

/// Reads a perf.data file. [`Recording::missing`] names what it lacks.
///
/// # Errors
/// It is not perf.data, is compressed, or holds no page faults.
pub fn read(bytes: &[u8]) -> Result<Recording, Refused> {
    let container = Container::read(bytes)?;
    let roles = roles(&container.events);
    if !roles.iter().any(|role| matches!(role, Role::Fault { .. })) {
        return Err(Refused::NoFaults);
    }
    let ids = container.events[0].info.id_parse_info;
    let told_apart = ids.sample_record_id_offset_from_start.is_some()
        && container.events.iter().all(|event| event.info.id_parse_info == ids);
    if container.events.len() > 1 && !told_apart {
        return Err(Refused::Ambiguous);
    }
    let mut import =
        Import { container: &container, roles, code: Code::default(), out: Recording::default() };
    import.code.build_ids = build_ids(&container);
    import.records();
    Ok(import.finish())
}

/// What an event's samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Fault { major: bool },
    Clock,
    Other,
}

fn roles(events: &[Event]) -> Vec<Role> {
    use SoftwareCounterType as Counter;
    let counter = |event: &Event| match event.attr.type_ {
        PerfEventType::Software(counter) => Some(counter),
        _ => None,
    };
    // Minor and major faults are also page faults; with all three recorded, they would count twice.
    let all = events.iter().any(|event| matches!(counter(event), Some(Counter::PageFaults)));
    let role = |event| match counter(event) {
        Some(Counter::PageFaults) => Role::Fault { major: false },
        Some(Counter::PageFaultsMin) if !all => Role::Fault { major: false },
        Some(Counter::PageFaultsMaj) if !all => Role::Fault { major: true },
        Some(Counter::CpuClock | Counter::TaskClock) => Role::Clock,
        _ => Role::Other,
    };
    events.iter().map(role).collect()
}

struct Import<'a> {
    container: &'a Container<'a>,
    roles: Vec<Role>,
    code: Code,
    out: Recording,
}

impl Import<'_> {
    /// All records in the order of time; perf writes them processor by processor.
    fn records(&mut self) {
        let container = self.container;
        let mut order: Vec<(u64, usize, RawEventRecord<'_>)> = Vec::new();
        let mut damaged = 0_u64;
        for raw in &container.records {
            match self.event(raw) {
                Some((event, record)) => order.push((record.timestamp().unwrap_or(0), event, record)),
                None => damaged += 1,
            }
        }
        order.sort_by_key(|(time_ns, ..)| *time_ns);
        let mut before_ns = 0;
        for (time_ns, event, record) in order {
            match record.parse() {
                Ok(parsed) => self.record(time_ns, before_ns, event, &record, &parsed),
                Err(_) => damaged += 1,
            }
            before_ns = time_ns;
        }
        if damaged > 0 {
            self.out
                .missing
                .push(format!("{damaged} records of the file are damaged or of an unknown event"));
        }
    }

    /// The event that a record belongs to; `None` if there is none, or if its lengths are wrong.
    fn event<'r>(&self, raw: &Raw<'r>) -> Option<(usize, RawEventRecord<'r>)> {
        let kind = RecordType(raw.kind);
        let first = &self.container.events[0];
        let data = RawData::from(raw.body);
        let id = RawEventRecord::new(kind, raw.misc, data, first.info).id();
        let index = match id.and_then(|id| self.container.by_id.get(&id)) {
            Some(&index) => index,
            None if self.container.events.len() == 1 || kind != RecordType::SAMPLE => 0,
            None => return None,
        };
        let event = &self.container.events[index];
        let record = RawEventRecord::new(kind, raw.misc, data, event.info);
        has_sound_lengths(raw, event).then_some((index, record))
    }

    fn record(
        &mut self,
        time_ns: u64,
        before_ns: u64,
        event: usize,
        raw: &RawEventRecord<'_>,
        parsed: &EventRecord<'_>,
    ) {
        match parsed {
            EventRecord::Sample(sample) => self.sample(time_ns, event, sample),
            EventRecord::Comm(comm) => {
                if comm.is_execve {
                    self.code.exec(comm.pid as u32);
                    self.push(time_ns, comm.pid, comm.tid, What::Exec);
                }
                let name = lossy(&comm.name.as_slice());
                if comm.is_execve && self.out.header.command.is_empty() {
                    self.out.header.command = vec![name.clone()];
                }
                self.push(time_ns, comm.pid, comm.tid, What::Name(name));
            }
            EventRecord::Fork(fork) => {
                self.code.fork(fork.pid as u32, fork.ppid as u32);
                self.push(time_ns, fork.pid, fork.tid, What::Fork { parent: fork.ppid as u32 });
            }
            EventRecord::Exit(exit) => self.push(time_ns, exit.pid, exit.tid, What::Exit),
            EventRecord::Mmap2(map) => {
                let name = lossy(&map.path.as_slice());
                if let Mmap2FileId::BuildId(id) = &map.file_id {
                    self.code.build_ids.entry(name.clone()).or_insert_with(|| hexadecimal(id));
                }
                let found = Map {
                    begin: map.address,
                    len_bytes: map.length,
                    prot: map.protection,
                    flags: map.flags,
                    name,
                    file_offset: map.page_offset,
                };
                self.map(time_ns, map.pid, map.tid, found);
            }
            EventRecord::Mmap(map) => {
                // Records of this old kind say only whether code was mapped.
                const READ_EXECUTE: u32 = 5;
                const READ_WRITE: u32 = 3;
                const PRIVATE: u32 = 2;
                let found = Map {
                    begin: map.address,
                    len_bytes: map.length,
                    prot: if map.is_executable { READ_EXECUTE } else { READ_WRITE },
                    flags: PRIVATE,
                    name: lossy(&map.path.as_slice()),
                    file_offset: map.page_offset,
                };
                self.map(time_ns, map.pid, map.tid, found);
            }
            EventRecord::ContextSwitch(switch) => {
                let Ok(common) = raw.common_data() else { return };
                let what = match switch {
                    ContextSwitchRecord::In { .. } => What::Switch { out: false, preempted: false },
                    ContextSwitchRecord::Out { preempted, .. } => {
                        What::Switch { out: true, preempted: *preempted == TaskWasPreempted::Yes }
                    }
                };
                self.push(time_ns, common.pid.unwrap_or(0), common.tid.unwrap_or(0), what);
            }
            EventRecord::Lost(lost) => self.loss(time_ns, before_ns, raw, lost.count),
            EventRecord::Raw(other) if other.record_type == RecordType::LOST_SAMPLES => {
                let lost = word(&other.data.as_slice(), 0).unwrap_or(0);
                self.loss(time_ns, before_ns, raw, lost);
            }
            _ => {}
        }
    }

    fn sample(&mut self, time_ns: u64, event: usize, sample: &SampleRecord<'_>) {
        let (pid, tid) = (sample.pid.unwrap_or(0), sample.tid.unwrap_or(0));
        let ip = sample.ip.unwrap_or(0);
        let kernel = sample.cpu_mode == CpuMode::Kernel;
        let chain = sample.callchain.iter().flat_map(|chain| (0..chain.len()).filter_map(|at| chain.get(at)));
        let mut chain = chain.collect::<Vec<u64>>();
        if chain.is_empty() {
            chain.push(ip);
        }
        let stack = self.code.stack(pid as u32, chain.into_iter(), kernel);
        let what = match self.roles[event] {
            Role::Fault { major } => What::Sample {
                addr: sample.addr.unwrap_or(0),
                ip,
                kernel,
                major,
                access: None,
                stack,
                weight: sample.period.unwrap_or(period(&self.container.events[event])).max(1),
                mapped_bytes: None,
            },
            Role::Clock => What::Cpu { kernel, stack },
            Role::Other => return,
        };
        self.push(time_ns, pid, tid, what);
    }

    fn map(&mut self, time_ns: u64, pid: i32, tid: i32, map: Map) {
        // The kernel's own mappings have process -1.
        if pid >= 0 {
            self.code.map(pid as u32, &map);
            self.push(time_ns, pid, tid, What::Map(map));
        }
    }

    fn loss(&mut self, time_ns: u64, before_ns: u64, raw: &RawEventRecord<'_>, lost: u64) {
        let cpu = raw.common_data().ok().and_then(|common| common.cpu);
        self.out.losses.push(Loss { cpu, begin_ns: before_ns, end_ns: time_ns, lost });
    }

    fn push(&mut self, time_ns: u64, pid: i32, tid: i32, what: What) {
        self.out.observation.records.push(Record { time_ns, pid: pid as u32, tid: tid as u32, what });
    }

    fn finish(self) -> Recording {
        let Self { container, roles, code, mut out } = self;
        let events: Vec<&Event> = container
            .events
            .iter()
            .zip(&roles)
            .filter(|(_, role)| matches!(role, Role::Fault { .. }))
            .map(|(event, _)| event)
            .collect();
        let has = |format| events.iter().all(|event| event.attr.sample_format.contains(format));
        let mut missing = container.missing.clone();
        missing.append(&mut out.missing);
        missing.push("times: perf.data has no end of a fault".to_owned());
        if !has(SampleFormat::ADDR) {
            missing.push("what was touched: recorded without perf record -d".to_owned());
        }
        if has(SampleFormat::STACK_USER) {
            missing.push(
                "callers: copied stacks (--call-graph dwarf) are not unwound; record with -g".to_owned(),
            );
        } else if !has(SampleFormat::CALLCHAIN) {
            missing.push("callers: recorded without perf record -g".to_owned());
        }
        let attached = out.header.command.is_empty();
        if let Some((_, command)) = container.command() {
            out.header.command = command;
        }
        let host = host(container);
        let begin = out.observation.records.iter().map(|record| record.time_ns).find(|&ns| ns > 0);
        let version = container.text(feature::VERSION).unwrap_or_default();
        let samples = events.iter().map(|event| period(event)).max().unwrap_or(1);
        out.header = Header {
            version: file::VERSION,
            tool: format!("perf {version}").trim_end().to_owned(),
            host: host.clone(),
            settings: Settings {
                every_fault: samples == 1,
                sample_period: samples,
                stack_bytes: events.iter().map(|event| event.attr.sample_stack_user).max().unwrap_or(0),
                attached,
                user_only: events.iter().all(|event| event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL)),
                ..Settings::default()
            },
            begin_ns: begin.unwrap_or(0),
            ..out.header
        };
        let note = "samples of `perf record`, with no durations".to_owned();
        let sources = vec![SourceNote { source: "perf.data".to_owned(), used: true, note }];
        // The file does not say how the program ended, nor that it failed.
        out.observation = Observation {
            command: out.header.command.clone(),
            host,
            exit: Exit::Status(0),
            sources: sources.clone(),
            ..out.observation
        };
        out.footer = Some(Footer { exit: Exit::Status(0), sources, ..Footer::default() });
        out.stacks = code.stacks;
        out.missing = missing;
        out
    }
}

/// Numbers of sections (`tools/perf/util/header.h`).
mod feature {
    pub(super) const BUILD_ID: u64 = 2;
    pub(super) const OS_RELEASE: u64 = 4;
    pub(super) const VERSION: u64 = 5;
    pub(super) const ARCH: u64 = 6;
    pub(super) const NR_CPUS: u64 = 7;
    pub(super) const CPU_DESC: u64 = 8;
    pub(super) const TOTAL_MEM: u64 = 10;
    pub(super) const CMDLINE: u64 = 11;
}

impl Container<'_> {
    /// The words of `perf record`, and the words of the command if `--` separates them.
    fn command(&self) -> Option<(Vec<String>, Vec<String>)> {
        let mut words = self.list(feature::CMDLINE);
        let split = words.iter().position(|word| word == "--")?;
        let command = words.split_off(split).split_off(1);
        (!command.is_empty()).then_some((words, command))
    }
}

fn host(container: &Container<'_>) -> Host {
    let word_of = |number| container.features.get(&number).and_then(|section| word(section, 0));
    let cpus = word_of(feature::NR_CPUS).map_or(0, |both| (both >> 32) as u32); // available, online
    let arch = container.text(feature::ARCH).unwrap_or_default();
    Host {
        kernel: container.text(feature::OS_RELEASE).unwrap_or_default(),
        cpu: container.text(feature::CPU_DESC).unwrap_or_default(),
        cpus,
        memory_bytes: word_of(feature::TOTAL_MEM).unwrap_or(0).saturating_mul(1024),
        // Not in the file; the usual size on these machines.
        page_bytes: if arch == "ppc64le" { 64 << 10 } else { 4 << 10 },
        ..Host::default()
    }
}

/// The build ids that perf looked up: path -> hexadecimal.
fn build_ids(container: &Container<'_>) -> std::collections::HashMap<String, String> {
    const SIZED: u16 = 1 << 15; // PERF_RECORD_MISC_BUILD_ID_SIZE
    const LONGEST: usize = 20;
    let mut found = std::collections::HashMap::new();
    let mut rest = container.features.get(&feature::BUILD_ID).copied().unwrap_or_default();
    while let Some(head) = rest.get(..8) {
        let misc = u16::from_le_bytes([head[4], head[5]]);
        let len = usize::from(u16::from_le_bytes([head[6], head[7]]));
        // Process, the id in 24 bytes, the path.
        let (Some(id), Some(path)) = (rest.get(12..36), rest.get(36..len)) else { break };
        let id_bytes = if misc & SIZED != 0 { usize::from(id[LONGEST]).min(LONGEST) } else { LONGEST };
        found.insert(lossy(path), hexadecimal(&id[..id_bytes]));
        rest = &rest[len..];
    }
    found
}

/// Faults per sample if the samples don't say.
fn period(event: &Event) -> u64 {
    match event.attr.sampling_policy {
        SamplingPolicy::Period(period) => period.get(),
        SamplingPolicy::NoSampling | SamplingPolicy::Frequency(_) => 1,
    }
}

/// Whether the lengths inside a record fit it. The library trusts them.
fn has_sound_lengths(raw: &Raw<'_>, event: &Event) -> bool {
    const BUILD_ID: u16 = 1 << 14; // PERF_RECORD_MISC_MMAP_BUILD_ID
    const LONGEST: u8 = 20;
    match RecordType(raw.kind) {
        RecordType::MMAP2 if raw.misc & BUILD_ID != 0 => raw.body.get(32).is_some_and(|&len| len <= LONGEST),
        RecordType::SAMPLE => {
            let format = event.attr.sample_format;
            let before = SampleFormat::IDENTIFIER
                | SampleFormat::IP
                | SampleFormat::TID
                | SampleFormat::TIME
                | SampleFormat::ADDR
                | SampleFormat::ID
                | SampleFormat::STREAM_ID
                | SampleFormat::CPU
                | SampleFormat::PERIOD;
            let at = 8 * format.intersection(before).bits().count_ones() as usize;
            let chain = word(raw.body, at).is_some_and(|len| len <= raw.body.len() as u64 / 8);
            // Counter values (READ) lie before the chain in several layouts; page-fault recordings have none.
            !format.contains(SampleFormat::READ) && (chain || !format.contains(SampleFormat::CALLCHAIN))
        }
        _ => true,
    }
}
