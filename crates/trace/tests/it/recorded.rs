//! Recordings of made-up programs with known truth, as `faultless record` would see them: samples of each
//! thread, bursts, stacks, blocks. Shared by the tests of `trace` and `report`.
#![allow(dead_code, reason = "each test program uses some of them")]

use std::collections::{BTreeMap, HashMap};

use faultless_trace::measurement::Rng;
use faultless_trace::observation::{
    Access, Counts, Exit, Level, Map, Record, SourceNote, Usage, What, Window,
};
use faultless_trace::recording::{Footer, Frame, Header, Module, Name, Recording, Settings};

use super::scenario::{ANON, MIB, OFFSET_NS, PAGE, calibration, count_in_window, host, sample};

/// Faults per sample.
pub(crate) const PERIOD: u64 = 97;

/// The true figures of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Truth {
    pub(crate) faults: f64,
    pub(crate) time_ns: f64,
}

/// A run being made up. Bursts are recorded for the first `duty.0` of every `duty.1` ns.
pub(crate) struct Run {
    pub(crate) r: Recording,
    pub(crate) now: u64,
    pub(crate) truth: BTreeMap<String, Truth>,
    pub(crate) rng: Rng,
    duty: (u64, u64),
    /// The first faults are all recorded: how many, and when that ended, ns.
    first: u64,
    first_end_ns: u64,
    window: Option<Window>,
    since_sample: HashMap<u32, u64>,
    faults: u64,
    resident: u64,
    next_level: u64,
}

impl Run {
    pub(crate) fn new(command: &str, duty: (u64, u64), seed: u64) -> Self {
        let mut r = Recording::default();
        let calibration = calibration(1190.0, OFFSET_NS);
        r.observation.command = command.split(' ').map(str::to_owned).collect();
        r.observation.host = host();
        r.observation.calibration = Some(calibration);
        r.header = Header {
            version: 1,
            tool: "faultless 0.1.0".into(),
            command: r.observation.command.clone(),
            host: host(),
            calibration: Some(calibration),
            settings: Settings {
                every_fault: duty.0 == duty.1,
                sample_period: if duty.0 == duty.1 { 0 } else { PERIOD },
                user_only: true,
                ..Settings::default()
            },
            begin_ns: 1_000_000,
            ..Header::default()
        };
        for path in ["/usr/bin/program", "/lib/libc.so.6"] {
            r.stacks.modules.push(Module { path: path.into(), ..Module::default() });
        }
        let mut run = Self {
            r,
            now: 1_000_000,
            truth: BTreeMap::new(),
            rng: Rng::from_seed(seed),
            duty,
            first: 0,
            first_end_ns: 0,
            window: None,
            since_sample: HashMap::new(),
            faults: 0,
            resident: 0,
            next_level: 0,
        };
        let map =
            Map { begin: ANON, len_bytes: 1 << 40, prot: 3, flags: 2, name: "//anon".into(), file_offset: 0 };
        run.push(1, What::Map(map));
        run.push(1, What::Name("program".into()));
        run
    }

    /// Records all of the `first` faults, then samples one in `period`. The first period has `skip` faults already.
    pub(crate) fn sampled_as(mut self, first: u64, period: u64, skip: u64) -> Self {
        self.first = first;
        self.r.header.settings.sample_period = period;
        self.since_sample.insert(1, skip);
        self
    }

    pub(crate) fn push(&mut self, tid: u32, what: What) {
        self.r.observation.records.push(Record { time_ns: self.now, pid: 1, tid, what });
    }

    /// The stack of functions of the program, leaf first.
    pub(crate) fn stack_of(&mut self, functions: &[&str]) -> u32 {
        let stacks = &mut self.r.stacks;
        let begin = stacks.frames.len() as u32;
        stacks.frames.extend(functions.iter().map(|function| Frame {
            module: Some(0),
            address: 16,
            names: vec![Name { function: (*function).into(), ..Name::default() }],
        }));
        stacks.stacks.push((begin..stacks.frames.len() as u32).collect());
        stacks.stacks.len() as u32 - 1
    }

    /// The stack `main` -> `function`, through `memset` if requested.
    pub(crate) fn stack(&mut self, function: &str, through_memset: bool) -> u32 {
        let stacks = &mut self.r.stacks;
        let mut frame = |module: u32, function: &str, line: u32| {
            let name =
                Name { function: function.into(), file: Some("src/program.c".into()), line: Some(line) };
            stacks.frames.push(Frame { module: Some(module), address: u64::from(line), names: vec![name] });
            stacks.frames.len() as u32 - 1
        };
        let mut frames = Vec::new();
        if through_memset {
            frames.push(frame(1, "__memset_avx2_unaligned_erms", 1));
        }
        frames.push(frame(0, function, 10 + function.len() as u32));
        frames.push(frame(0, "main", 5));
        stacks.stacks.push(frames);
        stacks.stacks.len() as u32 - 1
    }

    /// A fault that takes `ns`.
    pub(crate) fn fault(&mut self, tid: u32, stack: u32, addr: u64, access: Access, ns: u64) {
        let label = self.r.stacks.labels(stack);
        let site = label.iter().find(|name| !name.contains("memset")).cloned().unwrap_or_default();
        let truth = self.truth.entry(site).or_default();
        *truth = Truth { faults: truth.faults + 1.0, time_ns: truth.time_ns + ns as f64 };
        let recorded = self.open_window();
        self.faults += 1;
        if recorded {
            self.push(
                tid,
                What::Enter { addr, ip: 1, kernel: false, access: Some(access), mapped_bytes: None },
            );
            let end = What::End { addr, major: false, stack: Some(stack), mapped_bytes: None };
            let time_ns = self.now + ns + OFFSET_NS;
            self.r.observation.records.push(Record { time_ns, pid: 1, tid, what: end });
        }
        let since = self.since_sample.entry(tid).or_default();
        *since += 1;
        let period = self.r.header.settings.sample_period;
        if *since == period && period > 0 {
            *since = 0;
            self.push(tid, sample(addr, access, Some(stack), period));
        }
        self.resident += PAGE;
        self.step(ns + 500);
    }

    /// A first write whose time scatters around `ns`.
    pub(crate) fn write(&mut self, tid: u32, stack: u32, addr: u64, ns: u64) {
        let spread = self.rng.below(ns as usize) as u64;
        self.fault(tid, stack, addr, Access::Write, ns / 2 + spread);
    }

    pub(crate) fn step(&mut self, ns: u64) {
        self.now += ns;
        if self.now >= self.next_level {
            self.next_level = self.now + 500_000;
            let level = Level { time_ns: self.now, faults: self.faults, anon_bytes: self.resident };
            self.r.observation.levels.push(level);
        }
    }

    /// A block that is touched whole, page by page, and freed if `freed`.
    pub(crate) fn block(&mut self, allocating: u32, touching: u32, addr: u64, len_bytes: u64, freed: bool) {
        self.push(1, What::Alloc { addr, len_bytes, stack: Some(allocating) });
        for page in 0..len_bytes / PAGE {
            self.write(1, touching, addr + page * PAGE, 1000);
        }
        if freed {
            self.push(1, What::Free { addr });
            self.resident -= len_bytes / PAGE * PAGE;
            // The next block is a mapping of its own.
            let name = "//anon".to_owned();
            self.push(1, What::Map(Map { begin: addr, len_bytes, prot: 3, flags: 2, name, file_offset: 0 }));
        }
        self.step(200_000);
    }

    fn open_window(&mut self) -> bool {
        if self.faults <= self.first && self.first > 0 {
            self.first_end_ns = self.now;
            self.window.iter_mut().for_each(|window| window.end_ns = self.now);
        }
        if self.faults < self.first {
            let begin_ns = self.now;
            let new = Window { begin_ns, end_ns: begin_ns, faults: 0, recorded: true, lost: 0 };
            self.window.get_or_insert(new).faults += 1;
            return true;
        }
        let since_ns = self.first_end_ns;
        count_in_window(&mut self.r.observation, &mut self.window, self.duty, self.now, since_ns)
    }

    pub(crate) fn finish(mut self) -> (Recording, BTreeMap<String, Truth>) {
        self.step(1_000_000);
        let observation = &mut self.r.observation;
        observation.windows.extend(self.window.take());
        observation.records.sort_by_key(|record| record.time_ns);
        observation.exit = Exit::Status(0);
        observation.usage = Usage {
            wall_ns: self.now,
            user_ns: self.now / 2,
            system_ns: self.now * 2 / 3,
            minor_faults: self.faults,
            peak_rss_bytes: observation.levels.iter().map(|level| level.anon_bytes).max().unwrap_or(0)
                + MIB / 4,
            ..Usage::default()
        };
        observation.counts = Counts { user_faults: Some(self.faults), ..Counts::default() };
        self.r.footer = Some(Footer {
            exit: Exit::Status(0),
            usage: observation.usage,
            counts: observation.counts,
            sources: vec![SourceNote { source: "page-faults:u".into(), used: true, note: String::new() }],
            recorder_cpu_ns: self.now / 50,
            event_losses: Some(Vec::new()),
            ..Footer::default()
        });
        (self.r, self.truth)
    }
}

/// A program that makes and frees 1 MiB blocks, keeps a large table, and reads before it writes.
pub(crate) fn mixed(every_fault: bool) -> Recording {
    let duty = if every_fault { (1 << 50, 1 << 50) } else { (2_000_000, 40_000_000) };
    let mut run = Run::new("mixed --blocks 40", duty, 7);
    run.r.header.settings.alloc_from_bytes = Some(64 << 10);
    let (decode, alloc) = (run.stack("decode_chunk", true), run.stack("make_chunk", false));
    let (fill, load) = (run.stack("fill_table", false), run.stack("load_table", false));
    let (probe, worker) = (run.stack("probe", false), run.stack("worker_start", false));
    run.block(load, fill, ANON + (1 << 30), 8 * MIB, false);
    for _ in 0..40 {
        run.block(alloc, decode, ANON, MIB, true);
    }
    for page in 0..600 {
        run.fault(1, probe, ANON + (2 << 30) + page * PAGE, Access::Read, 500);
        run.fault(1, probe, ANON + (2 << 30) + page * PAGE, Access::Write, 1200);
    }
    for tid in 100..140 {
        run.push(tid, What::Fork { parent: 1 });
        run.push(tid, What::Name("worker".into()));
        for page in 0..30 {
            run.write(tid, worker, ANON + (3 << 30) + u64::from(tid) * MIB + page * PAGE, 1500);
        }
        run.push(tid, What::Exit);
    }
    run.finish().0
}

/// Of each end of a fault whether it was major, to be changed.
pub(crate) fn ends(recording: &mut Recording) -> impl Iterator<Item = &mut bool> {
    recording.observation.records.iter_mut().filter_map(|record| match &mut record.what {
        What::End { major, .. } => Some(major),
        _ => None,
    })
}

/// The same program on a cold disk: every 50th of its faults waits for it.
pub(crate) fn cold() -> Recording {
    let mut cold = mixed(true);
    let waits = ends(&mut cold).step_by(50).map(|major| *major = true).count() as u64;
    let observation = &mut cold.observation;
    observation.usage.major_faults = waits;
    observation.usage.minor_faults -= waits;
    observation.counts.major_faults = Some(waits);
    cold
}
