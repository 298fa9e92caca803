//! Observations of made-up programs with known truth. Shared by the tests of `trace` and `report`.
#![allow(dead_code, reason = "each test program uses some of them")]

use faultless_trace::observation::{
    Access, Calibration, Counts, Exit, Host, KernelSamples, Level, Map, Observation, Record, SourceNote,
    Usage, What, Window,
};

pub(crate) const PAGE: u64 = 4096;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const ANON: u64 = 0x7f00_0000_0000;
pub(crate) const HEAP: u64 = 0x5555_5570_0000;
pub(crate) const CODE: u64 = 0x5555_5555_4000;
/// Time of one fault as the pair reads it, before a spread of 0 to 180 ns.
pub(crate) const READ_NS: u64 = 1400;
/// The calibrated offset.
pub(crate) const OFFSET_NS: u64 = 300;
/// From one fault to the next.
pub(crate) const STEP_NS: u64 = 2000;

/// A program being made up: time moves with every fault; windows are opened and closed by time.
pub(crate) struct Script {
    pub(crate) o: Observation,
    pub(crate) now: u64,
    /// Recording is on for the first figure of every second, in ns.
    duty: (u64, u64),
    window: Option<Window>,
    faults: u64,
    resident: u64,
    next_level: u64,
    n: u64,
}

impl Script {
    pub(crate) fn new(command: &str, on_ns: u64, period_ns: u64) -> Self {
        let o = Observation {
            command: command.split(' ').map(str::to_owned).collect(),
            exit: Exit::Status(0),
            host: host(),
            calibration: Some(calibration(1190.0, OFFSET_NS)),
            ..Observation::default()
        };
        let duty = (on_ns, period_ns);
        Script { o, now: 1_000_000, duty, window: None, faults: 0, resident: 0, next_level: 0, n: 0 }
    }

    pub(crate) fn push(&mut self, pid: u32, tid: u32, what: What) {
        self.o.records.push(Record { time_ns: self.now, pid, tid, what });
    }

    pub(crate) fn map(&mut self, pid: u32, begin: u64, len_bytes: u64, prot: u32, name: &str) {
        let map = Map { begin, len_bytes, prot, flags: 2, name: name.to_owned(), file_offset: 0 };
        self.push(pid, pid, What::Map(map));
    }

    /// Code, data, bss, heap and stack of a program.
    pub(crate) fn program(&mut self, pid: u32) {
        self.map(pid, CODE, 0x10_0000, 5, "/usr/bin/program");
        self.map(pid, CODE + 0x10_0000, 0x1_0000, 3, "/usr/bin/program");
        self.map(pid, CODE + 0x11_0000, 0x2_0000, 3, "//anon");
        self.map(pid, HEAP, 64 * MIB, 3, "[heap]");
        self.map(pid, 0x7ffe_0000_0000, 0x2_1000, 3, "[stack]");
    }

    /// One fault of the first thread of `pid`.
    pub(crate) fn fault(&mut self, pid: u32, addr: u64, access: Access) {
        self.timed_fault(pid, pid, addr, access, READ_NS);
        self.step(STEP_NS);
    }

    /// A fault that does not advance the clock.
    pub(crate) fn timed_fault(&mut self, pid: u32, tid: u32, addr: u64, access: Access, ns: u64) {
        let recorded = count_in_window(&mut self.o, &mut self.window, self.duty, self.now, 0);
        self.n += 1;
        self.faults += 1;
        if recorded {
            let end = self.now + ns + self.n * 37 % 180;
            let enter =
                What::Enter { addr, ip: CODE, kernel: false, access: Some(access), mapped_bytes: None };
            self.push(pid, tid, enter);
            let end = Record {
                time_ns: end,
                pid,
                tid,
                what: What::End { addr, major: false, stack: None, mapped_bytes: None },
            };
            self.o.records.push(end);
        }
    }

    /// Lets time pass.
    pub(crate) fn step(&mut self, ns: u64) {
        self.now += ns;
        if self.now >= self.next_level {
            self.next_level = self.now + 500_000;
            let anon_bytes = self.resident;
            self.o.levels.push(Level { time_ns: self.now, faults: self.faults, anon_bytes });
        }
    }

    /// First writes to `pages` pages from `begin` on.
    pub(crate) fn touch(&mut self, pid: u32, begin: u64, pages: u64) {
        for page in 0..pages {
            self.resident += PAGE;
            self.fault(pid, begin + page * PAGE, Access::Write);
        }
    }

    pub(crate) fn release(&mut self, pages: u64) {
        self.resident = self.resident.saturating_sub(pages * PAGE);
        self.step(STEP_NS);
    }

    /// Ends the program: `others` faults were taken without a user-mode event.
    pub(crate) fn finish(mut self, others: u64) -> Observation {
        self.step(1_000_000);
        self.o.windows.extend(self.window.take());
        self.o.records.sort_by_key(|r| r.time_ns);
        let kernel_ns = (self.faults + others) * 1300;
        self.o.usage = Usage {
            wall_ns: self.now,
            user_ns: self.now / 2,
            system_ns: kernel_ns,
            minor_faults: self.faults + others,
            major_faults: 0,
            peak_rss_bytes: self.o.levels.iter().map(|l| l.anon_bytes).max().unwrap_or(0) + 4 * MIB,
        };
        self.o.counts = Counts { user_faults: Some(self.faults), ..Counts::default() };
        let source =
            |source: &str, note: &str| SourceNote { source: source.into(), used: true, note: note.into() };
        self.o.sources = vec![
            source("page-faults:u", "counted over the whole run"),
            source("fault pairs", "recorded in windows"),
            source("/proc/PID/statm", "read every 0.5 ms"),
        ];
        self.o
    }
}

/// Counts a fault in the window of its time: recording is on for the first part of every period, and windows begin at
/// `since_ns` at the earliest. Whether the fault is recorded.
pub(crate) fn count_in_window(
    o: &mut Observation,
    open: &mut Option<Window>,
    (on_ns, period_ns): (u64, u64),
    now: u64,
    since_ns: u64,
) -> bool {
    let begin = now - now % period_ns;
    let recorded = now - begin < on_ns;
    let [begin_ns, end_ns] =
        if recorded { [begin, begin + on_ns] } else { [begin + on_ns, begin + period_ns] };
    let begin_ns = begin_ns.max(since_ns);
    match open {
        Some(window) if window.begin_ns == begin_ns => window.faults += 1,
        window => {
            o.windows.extend(window.take());
            *window = Some(Window { begin_ns, end_ns, faults: 1, recorded, lost: 0 });
        }
    }
    recorded
}

/// A sampled minor fault of user mode.
pub(crate) fn sample(addr: u64, access: Access, stack: Option<u32>, weight: u64) -> What {
    let (kernel, major, access, mapped_bytes) = (false, false, Some(access), None);
    What::Sample { addr, ip: CODE, kernel, major, access, stack, weight, mapped_bytes }
}

pub(crate) fn calibration(truth_p50_ns: f64, offset_ns: u64) -> Calibration {
    Calibration {
        truth_p50_ns,
        pair_p50_ns: truth_p50_ns + offset_ns as f64,
        record_cost_ns: 640.0,
        pages: 4096,
        offset_error_ns: 0.0,
        read_offset_ns: None,
        mapped_offset_ns: None,
    }
}

pub(crate) fn host() -> Host {
    Host {
        kernel: "6.12.0".into(),
        cpu: "Example 9000".into(),
        cpus: 2,
        memory_bytes: 16 << 30,
        page_bytes: PAGE,
        thp_bytes: 2 * MIB,
        thp: "madvise".into(),
        mthp_bytes: Vec::new(),
        hypervisor: None,
        perf_paranoid: Some(2),
        root: false,
    }
}

/// 64 MiB touched once, every fault recorded.
pub(crate) fn touch_loop() -> Observation {
    let mut s = Script::new("touch 64", 1 << 40, 1 << 41);
    s.program(1);
    s.map(1, ANON, 64 * MIB, 3, "//anon");
    s.touch(1, ANON, 16384);
    s.finish(0)
}

/// Eight bursts of 64 MiB, released after each; recorded 5 % of the time.
pub(crate) fn bursts() -> Observation {
    let mut s = Script::new("bursts 8 64", 2_000_000, 40_000_000);
    s.program(1);
    for _ in 0..8 {
        s.map(1, ANON, 64 * MIB, 3, "//anon");
        s.touch(1, ANON, 16384);
        for _ in 0..128 {
            s.release(128);
            s.step(100_000);
        }
    }
    s.finish(100)
}

/// A parent touches 8 MiB of heap and forks. Both write all of it. The child then runs another program.
pub(crate) fn fork() -> Observation {
    let mut s = Script::new("forks", 1 << 40, 1 << 41);
    s.program(1);
    s.touch(1, HEAP, 2048);
    s.push(2, 2, What::Fork { parent: 1 });
    for page in 0..2048 {
        s.fault(2, HEAP + page * PAGE, Access::Write);
        s.fault(1, HEAP + page * PAGE, Access::Write);
    }
    s.push(2, 2, What::Exec);
    s.program(2);
    s.touch(2, HEAP, 100);
    s.push(2, 2, What::Exit);
    s.finish(0)
}

/// Recorded in bursts, and half of the records of every other burst are lost.
pub(crate) fn lost() -> Observation {
    let mut o = bursts();
    let mut keep = Vec::new();
    for (index, window) in o.windows.iter_mut().filter(|w| w.recorded).enumerate() {
        if index % 2 == 0 {
            window.lost = window.faults;
            keep.push((
                window.begin_ns,
                window.begin_ns + (window.end_ns - window.begin_ns) / 2,
                window.end_ns,
            ));
        }
    }
    let is_lost = |r: &Record| {
        !matches!(r.what, What::Map(_))
            && keep.iter().any(|(_, half, end)| (*half..*end).contains(&r.time_ns))
    };
    o.records.retain(|r| !is_lost(r));
    o
}

/// The same program without any event: only `wait4`, /proc, and perhaps the calibration.
pub(crate) fn denied(calibrated: bool) -> Observation {
    let mut o = bursts();
    (o.records, o.windows, o.counts) = (Vec::new(), Vec::new(), Counts::default());
    o.calibration = o.calibration.filter(|_| calibrated);
    for (source, note) in [
        (
            "page-faults:u",
            "perf_event_open: Operation not permitted; allow it with --security-opt seccomp=unconfined",
        ),
        ("fault pairs", "needs page-faults:u"),
    ] {
        o.sources.retain(|s| s.source != source);
        o.sources.push(SourceNote { source: source.into(), used: false, note: note.into() });
    }
    o
}

/// The events counted an unwaited-for daemon.
pub(crate) fn orphan() -> Observation {
    let mut o = touch_loop();
    o.usage.minor_faults = 10_000;
    o.counts.before_exec_faults = 7;
    o
}

/// A program that does everything, seen by root: two threads that wait for each other, chunks that come and go.
pub(crate) fn pipeline() -> Observation {
    pipeline_of(40)
}

/// The same with so many rounds of chunks.
pub(crate) fn pipeline_of(rounds: u64) -> Observation {
    let mut s = Script::new("chunk-pipeline --workers 2", 4_000_000, 40_000_000);
    s.program(1);
    s.now += 1;
    s.push(1, 2, What::Fork { parent: 1 });
    for page in 0..200 {
        s.fault(1, CODE + page % 0x100 * PAGE, Access::Execute);
    }
    s.touch(1, CODE + 0x10_0000, 16);
    s.touch(1, CODE + 0x11_0000, 30);
    s.touch(1, HEAP, 900);
    s.map(1, ANON, 24 * MIB, 3, "//anon");
    for page in 0..300 {
        s.fault(1, ANON + page * PAGE, Access::Read);
        s.resident += PAGE;
        s.fault(1, ANON + page * PAGE, Access::Write);
    }
    for round in 0..rounds {
        s.map(1, ANON, 24 * MIB, 3, "//anon");
        for page in 0..3072 {
            let (first, second) = (ANON + page * PAGE, ANON + 12 * MIB + page * PAGE);
            s.timed_fault(1, 1, first, Access::Write, READ_NS);
            if round % 4 == 3 {
                s.step(STEP_NS);
            }
            s.step(200);
            s.timed_fault(1, 2, second, Access::Write, if round % 4 == 3 { READ_NS } else { 2 * READ_NS });
            s.resident += 2 * PAGE;
            s.step(2 * STEP_NS);
        }
        for _ in 0..48 {
            s.release(128);
        }
    }
    let mut o = s.finish(2300);
    o.usage.major_faults = 12;
    o.counts = Counts {
        all_faults: o.counts.user_faults.map(|user| user + 2000),
        major_faults: Some(12),
        before_exec_faults: 9,
        ..o.counts
    };
    o.usage.minor_faults -= 12;
    o.host.root = true;
    o.host.hypervisor = Some("KVM".into());
    o.kernel = Some(kernel_samples());
    o.sources.push(SourceNote {
        source: "cpu-clock with kernel stacks".into(),
        used: true,
        note: "997 samples per CPU second".into(),
    });
    o
}

fn kernel_samples() -> KernelSamples {
    let path = "do_anonymous_page __handle_mm_fault handle_mm_fault exc_page_fault asm_exc_page_fault";
    let stack = |leaves: &str, n| (format!("{leaves}{path}").split(' ').map(str::to_owned).collect(), n);
    let mut stacks = vec![
        stack("clear_page_erms ", 1900),
        stack("rmqueue get_page_from_freelist ", 1300),
        stack("charge_memcg ", 800),
        stack("folio_add_lru ", 500),
        stack("", 700),
    ];
    stacks.push((vec!["exc_page_fault".into(), "asm_exc_page_fault".into()], 900));
    stacks.push((vec!["zap_pte_range".into(), "unmap_vmas".into()], 1500));
    KernelSamples { period_ns: 40_000, total: 9_000, stacks }
}
