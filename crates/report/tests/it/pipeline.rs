//! Generated recordings of any size: the grep database of "A queue of page faults", with and without its
//! pool.

use faultless_trace::observation::{Level, Observation, Record, What, Window};
use faultless_trace::recording::{Frame, Header, Module, Name, Recording, Stacks};

const PID: u32 = 4000;
/// Pages of a chunk.
const PAGES: u64 = 160;

/// What to generate.
#[derive(Clone, Copy)]
pub(crate) struct Pipeline {
    pub(crate) workers: u32,
    pub(crate) chunks: u64,
    pub(crate) pool: bool,
    /// Every fault; else bursts of 2 ms in 20 ms, and samples.
    pub(crate) every_fault: bool,
}

/// Pseudo-random numbers, the same every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

struct Script(Vec<Record>);

impl Script {
    fn push(&mut self, time_ns: u64, tid: u32, what: What) {
        self.0.push(Record { time_ns, pid: PID, tid, what });
    }
    fn on(&mut self, time_ns: u64, tid: u32) {
        self.push(time_ns, tid, What::Switch { out: false, preempted: false });
    }
    fn off(&mut self, time_ns: u64, tid: u32, preempted: bool) {
        self.push(time_ns, tid, What::Switch { out: true, preempted });
    }
}

impl Pipeline {
    pub(crate) fn recording(self) -> Recording {
        let mut dice = Dice(7);
        let mut script = Script(Vec::new());
        let mut end_ns = 0;
        script.on(0, PID);
        script.push(0, PID, What::Name("qgrep".into()));
        for page in 0..40 {
            let is_major = page % 13 == 5;
            let len = if is_major { 9_000 } else { 900 };
            self.fault(
                &mut script,
                &mut dice,
                100_000 + page * 85_000,
                PID,
                0x7000_0000 + (page << 12),
                len,
                4,
                is_major,
            );
        }
        let mut free_ns = Vec::new();
        for worker in 0..=self.workers {
            let (tid, born_ns) = (PID + 1 + worker, 3_000_000 + u64::from(worker) * 60_000);
            script.push(born_ns, tid, What::Fork { parent: PID });
            let name = if worker == 0 { "output".to_owned() } else { format!("worker-{worker}") };
            script.push(born_ns + 1, tid, What::Name(name));
            script.on(born_ns + 30_000, tid);
            script.off(born_ns + 60_000, tid, false);
            free_ns.push(born_ns + 60_000);
        }
        let mut main_ns = 3_800_000;
        for chunk in 0..self.chunks {
            // The main thread reads the next chunk, and waits while the queue is full.
            main_ns += 55_000 + dice.next(20_000);
            if !self.pool && chunk % 3 == 0 {
                script.push(main_ns, PID, What::LockWait { write: true, wait_ns: 9_000 + dice.next(30_000) });
            }
            let worker = (1..=self.workers as usize).min_by_key(|&worker| free_ns[worker]).unwrap_or(1);
            let begin_ns = main_ns.max(free_ns[worker]) + 2_000;
            if free_ns[worker] > main_ns + 400_000 {
                script.off(main_ns, PID, false);
                main_ns = free_ns[worker] - 300_000;
                script.on(main_ns, PID);
            }
            free_ns[worker] = self.work(&mut script, &mut dice, begin_ns, PID + 1 + worker as u32, chunk);
            if chunk % 40 == 17 {
                let at = begin_ns.max(free_ns[0]);
                script.on(at, PID + 1);
                script.off(at + 40_000, PID + 1, false);
                free_ns[0] = at + 50_000;
            }
            end_ns = end_ns.max(free_ns[worker]);
        }
        for worker in 0..=self.workers {
            script.push(end_ns + u64::from(worker) * 9_000, PID + 1 + worker, What::Exit);
        }
        end_ns += 200_000;
        script.push(end_ns, PID, What::Exit);
        script.0.sort_by_key(|record| record.time_ns);
        self.finish(script.0, end_ns)
    }

    /// A chunk is decompressed into fresh memory, then searched.
    fn work(self, script: &mut Script, dice: &mut Dice, begin_ns: u64, tid: u32, chunk: u64) -> u64 {
        script.on(begin_ns, tid);
        let mut now = begin_ns + 5_000;
        let addr = 0x7f00_0000_0000 + chunk * (PAGES << 12);
        let is_fresh = !self.pool || chunk < u64::from(self.workers) * 2;
        for page in 0..PAGES {
            now += 1_500 + dice.next(1_200);
            if is_fresh {
                let len = 700 + dice.next(1_800) * (1 + u64::from(self.workers) / 4);
                now = self.fault(script, dice, now, tid, addr + (page << 12), len, (page % 3) as u32, false);
            }
        }
        if dice.next(12) == 0 {
            script.off(now + 10, tid, true);
            now += 300_000 + dice.next(900_000);
            script.on(now, tid);
        }
        for step in 1..4 {
            script.push(now + step * 90_000, tid, What::Cpu { kernel: false, stack: Some(5) });
        }
        now += 320_000 + dice.next(120_000);
        script.off(now, tid, false);
        now + 3_000
    }

    #[allow(clippy::too_many_arguments)]
    fn fault(
        self,
        script: &mut Script,
        dice: &mut Dice,
        now: u64,
        tid: u32,
        addr: u64,
        len: u64,
        stack: u32,
        major: bool,
    ) -> u64 {
        if !self.every_fault && now % 20_000_000 > 2_000_000 {
            if dice.next(31) == 0 {
                let stack = Some(stack);
                let what = What::Sample {
                    addr,
                    ip: 7,
                    kernel: false,
                    major,
                    access: None,
                    stack,
                    weight: 31,
                    mapped_bytes: None,
                };
                script.push(now + len, tid, what);
            }
            return now + len;
        }
        script.push(
            now,
            tid,
            What::Enter { addr, ip: 0x40_1000, kernel: false, access: None, mapped_bytes: None },
        );
        let mut end_ns = now + len;
        if major || dice.next(60) == 0 {
            script.off(now + 300, tid, false);
            end_ns += 30_000 + dice.next(40_000);
            script.on(end_ns - 300, tid);
        }
        script.push(end_ns, tid, What::End { addr, major, stack: Some(stack), mapped_bytes: None });
        end_ns
    }

    fn finish(self, records: Vec<Record>, end_ns: u64) -> Recording {
        let faults = records.iter().filter(|record| matches!(record.what, What::Enter { .. })).count() as u64;
        let window = |begin_ns: u64, end_ns, recorded| Window { begin_ns, end_ns, faults, recorded, lost: 0 };
        let windows = if self.every_fault {
            vec![window(0, end_ns, true)]
        } else {
            (0..end_ns.div_ceil(20_000_000))
                .map(|at| at * 20_000_000)
                .flat_map(|at| {
                    [
                        window(at, at + 2_000_001, true),
                        window(at + 2_000_001, end_ns.min(at + 20_000_000).max(at + 2_000_001), false),
                    ]
                })
                .collect()
        };
        let mut levels = Vec::new();
        let (mut seen, mut next_ns) = (0, 0);
        for record in &records {
            seen += match record.what {
                What::Enter { .. } => 1,
                What::Sample { weight, .. } => weight,
                _ => 0,
            };
            if record.time_ns >= next_ns {
                let live = if self.pool { 16.min(seen / PAGES) } else { 60.min(seen / PAGES) };
                let anon_bytes = (4 << 20) + (live + seen % 7) * (PAGES << 12);
                levels.push(Level { time_ns: record.time_ns, faults: seen, anon_bytes });
                next_ns = record.time_ns + 2_000_000;
            }
        }
        let command = ["./qgrep", "search", "linux", "fooo?bar"].map(String::from);
        let header = Header { command: command.into(), ..Header::default() };
        let observation = Observation { records, windows, levels, ..Observation::default() };
        Recording { header, observation, stacks: stacks(), ..Recording::default() }
    }
}

fn stacks() -> Stacks {
    let functions = [
        "LZ4_decompress_safe",
        "__memmove_avx_unaligned_erms",
        "std::vector<char>::_M_fill_insert",
        "processChunk(Chunk const&, Regex&)",
        "WorkQueue::worker()",
        "main",
        "_dl_relocate_object",
        "re2::DFA::InlinedSearchLoop<true, true, false>",
    ];
    let frame = |function: &&str| {
        let names = vec![Name { function: (*function).to_owned(), file: None, line: None }];
        Frame { module: Some(0), address: 0, names }
    };
    Stacks {
        modules: vec![Module { path: "/usr/bin/qgrep".into(), build_id: None }],
        frames: functions.iter().map(frame).collect(),
        stacks: vec![vec![0, 3, 4], vec![1, 0, 3, 4], vec![2, 3, 4], vec![3, 4], vec![6, 5], vec![7, 3, 4]],
    }
}
