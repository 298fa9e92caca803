//! Measures one cell in this process.
//!
//! In: a cell. Out: its sample. Memory is warmed before, in the machine and in the pool; all threads then run the loop without
//! being counted until caches, lists and the keeper are in their stride, and are counted from then on.

use std::collections::VecDeque;
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use faultless_os::counters::{Rusage, Who, process_cpu_ns, rusage, tick, tick_ns};
use faultless_os::touch::{Advice, Region};
use faultless_os::{advise, page, pressure};
use faultless_pool::{Stats, tuning};

use crate::cell::{Arm, Cell, Pause, Sample, Setting};
use crate::supply::{Bytes, Fresh, Pooled, Supply};

/// Bytes per cache line of every processor this is built for.
pub(crate) const LINE_BYTES: usize = 64;
/// Uncounted part before the counted one, as a share of it.
const SETTLE_SHARE: u64 = 3;
/// Time in us that a loop of two instructions does not take unless it is interrupted for longer than a timer's tick.
const JUMP_US: u64 = 10;

/// What one thread did, times in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    gets: u64,
    get: u64,
    touch: u64,
    free: u64,
    pause: u64,
    scrub: u64,
    usage: Rusage,
}

/// The sample of a cell.
pub(crate) fn measure(cell: Cell) -> Sample {
    let waiting = pressure::cpu().map_or(0, |waiting| waiting.0);
    warm_machine(cell);
    let mut sample = match cell.arm {
        Arm::Kernel | Arm::Thp => {
            let supply = Fresh::new(cell.arm);
            run(cell, &[supply], |_| None, Stats::default)
        }
        _ => {
            let count = if cell.arm == Arm::Stock { cell.setting.threads } else { 1 };
            let pools: Vec<_> = (0..count).map(|_| Pooled::new(cell.arm)).collect();
            pools.iter().for_each(|pool| pool.warm(cell.arm, cell.setting, count));
            if cell.arm == Arm::Thread {
                let pooled = Pooled(pools[0].0);
                // Ends with the process.
                std::thread::spawn(move || pooled.scrub_always());
            }
            let scrub = if cell.arm == Arm::Stock { scrub_all } else { |_: &Pooled| None };
            run(cell, &pools, scrub, || sum(&pools))
        }
    };
    sample.set("cpu_waiting", f64::from(waiting) / 10_000.0);
    sample
}

/// Sees to it that a hypervisor backs as much memory as the cell will use, with huge pages where there are any.
fn warm_machine(cell: Cell) {
    let len = (cell.setting.block_kib << 10).next_multiple_of(advise::pmd_bytes().max(1));
    let bytes = len * cell.setting.alive * cell.setting.threads + Pooled::spare_bytes(cell.arm);
    let mut region = Region::new(bytes.max(tuning::FLOOR_BYTES) * 3 / 2, tuning::SLAB_BYTES).expect("memory");
    let all = 0..region.len_bytes();
    let _ = region.advise(all, Advice::HugePage);
    region.touch_write(page::size());
}

/// Zeroes all free memory of a pool, so that the next gets are hits; how long that took.
fn scrub_all(pooled: &Pooled) -> Option<u64> {
    let begin = tick();
    pooled.0.trim();
    while pooled.0.scrub_step(tuning::SLAB_BYTES) > 0 {}
    Some(tick() - begin)
}

fn sum(pools: &[Pooled]) -> Stats {
    pools.iter().map(|pool| pool.0.stats()).fold(Stats::default(), |sum, one| Stats {
        zeroed_hits: sum.zeroed_hits + one.zeroed_hits,
        cleared_bytes: sum.cleared_bytes + one.cleared_bytes,
        scrubbed_bytes: sum.scrubbed_bytes + one.scrubbed_bytes,
        fresh: sum.fresh + one.fresh,
        ..Stats::default()
    })
}

/// Runs the threads, thread `n` with supply `n`, and puts what they did together.
fn run<S: Supply>(
    cell: Cell,
    supplies: &[S],
    prepare: impl Fn(&S) -> Option<u64> + Sync,
    stats: impl Fn() -> Stats,
) -> Sample {
    let (setting, settle) = (cell.setting, Duration::from_millis(cell.ms / SETTLE_SHARE));
    let (settled, begin) = (Barrier::new(setting.threads + 1), Barrier::new(setting.threads + 1));
    let ended = Barrier::new(setting.threads + 1);
    let ns = tick_ns();
    let thread = |at: usize| {
        let worker = Worker { cell, supply: &supplies[at % supplies.len()], prepare: &prepare, ns };
        let mut ring = VecDeque::with_capacity(setting.alive + 1);
        worker.fill(&mut ring);
        worker.work(&mut ring, settle);
        settled.wait();
        begin.wait();
        let before = usage();
        let mut part = worker.work(&mut ring, Duration::from_millis(cell.ms));
        part.usage = since(usage(), before);
        // All stop before anyone cleans up.
        ended.wait();
        part
    };
    std::thread::scope(|scope| {
        let thread = &thread;
        let threads: Vec<_> = (0..setting.threads).map(|at| scope.spawn(move || thread(at))).collect();
        settled.wait();
        let (stats_before, cpu_before, faults_before) = (stats(), process_cpu_ns(), process_faults());
        let clock = Instant::now();
        begin.wait();
        ended.wait();
        let (wall, cpu) = (clock.elapsed(), process_cpu_ns() - cpu_before);
        let (faults, stats_after) = (process_faults() - faults_before, stats());
        let parts: Vec<Part> =
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect();
        let mut sample = put_together(cell, &parts, ns, cpu);
        sample.set("wall_s", wall.as_secs_f64());
        sample.set("process_faults", faults as f64);
        sample
            .set("expected_faults", sample.get("gets") * supplies[0].faults(setting.block_kib << 10) as f64);
        account(&mut sample, stats_before, stats_after);
        sample
    })
}

fn put_together(cell: Cell, parts: &[Part], ns: f64, process_cpu_ns: u64) -> Sample {
    let total = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>() as f64;
    let seconds = |of: fn(&Part) -> u64| total(of) * ns / 1e9;
    let (user, system) = (total(|part| part.usage.user_ns) / 1e9, total(|part| part.usage.system_ns) / 1e9);
    let cpu = process_cpu_ns as f64 / 1e9;
    let beside = (cpu - user - system).max(0.0);
    let mut sample = Sample::default();
    let len_pages = (cell.setting.block_kib << 10).div_ceil(page::size());
    sample.set("gets", total(|part| part.gets));
    sample.set("pages", total(|part| part.gets) * len_pages as f64);
    sample.set("get_s", seconds(|part| part.get));
    sample.set("touch_s", seconds(|part| part.touch));
    sample.set("free_s", seconds(|part| part.free));
    sample.set("pause_s", seconds(|part| part.pause));
    sample.set("user_s", user);
    sample.set("system_s", system);
    sample.set("scrub_cpu_s", if cell.arm == Arm::Stock { seconds(|part| part.scrub) } else { beside });
    sample.set("total_cpu_s", cpu);
    sample.set("faults", total(|part| part.usage.minor_faults));
    sample
}

fn account(sample: &mut Sample, before: Stats, after: Stats) {
    let pages = |after: u64, before: u64| (after - before) as f64 / page::size() as f64;
    sample.set("hits", (after.zeroed_hits - before.zeroed_hits) as f64);
    sample.set("cleared_pages", pages(after.cleared_bytes, before.cleared_bytes));
    sample.set("scrubbed_pages", pages(after.scrubbed_bytes, before.scrubbed_bytes));
    sample.set("fresh", (after.fresh - before.fresh) as f64);
}

/// One requesting thread.
struct Worker<'a, S, P> {
    cell: Cell,
    supply: &'a S,
    prepare: &'a P,
    /// ns per tick.
    ns: f64,
}

impl<S: Supply, P: Fn(&S) -> Option<u64>> Worker<'_, S, P> {
    /// Gets as many blocks as are to be alive, without a pause.
    fn fill(&self, ring: &mut VecDeque<S::Block>) {
        let eager = Cell { setting: Setting { pause: Pause::NONE, ..self.cell.setting }, ..self.cell };
        let worker = Worker { cell: eager, ..*self };
        (0..self.cell.setting.alive).for_each(|_| worker.one(ring, &mut Part::default()));
    }

    /// Gets, touches and frees for so long. The ring holds what is alive.
    fn work(&self, ring: &mut VecDeque<S::Block>, time: Duration) -> Part {
        let (setting, clock) = (self.cell.setting, Instant::now());
        let mut part = Part::default();
        while clock.elapsed() < time {
            if ring.len() == setting.alive && self.cell.arm == Arm::Stock {
                let begin = tick();
                ring.clear();
                part.free += tick() - begin;
            }
            if ring.is_empty() {
                part.scrub += (self.prepare)(self.supply).unwrap_or(0);
            }
            self.one(ring, &mut part);
        }
        part
    }

    /// One block: the oldest is freed, a new one got and touched; then the pause.
    fn one(&self, ring: &mut VecDeque<S::Block>, part: &mut Part) {
        let (setting, len) = (self.cell.setting, self.cell.setting.block_kib << 10);
        let begin = tick();
        if ring.len() == setting.alive {
            drop(ring.pop_front());
        }
        let freed = tick();
        let mut block = self.supply.get(len);
        let got = tick();
        touch(&mut block.bytes()[..len], setting.lines);
        let touched = tick();
        ring.push_back(block);
        part.gets += 1;
        part.free += freed - begin;
        part.get += got - freed;
        part.touch += touched - got;
        match setting.pause {
            Pause::NONE => {}
            Pause::Compute(us) => part.pause += self.compute(us, touched),
            Pause::Wait(us) => std::thread::sleep(Duration::from_micros(us)),
        }
    }

    /// Keeps the processor busy for so many us of its time; how many ticks of it that took. Where the clock jumps somebody else
    /// had the processor.
    fn compute(&self, us: u64, begin: u64) -> u64 {
        let ticks = |us: u64| (us as f64 * 1000.0 / self.ns) as u64;
        let (wanted, jump) = (ticks(us), ticks(JUMP_US));
        let (mut done, mut last) = (0, begin);
        while done < wanted {
            spin_loop();
            let now = tick();
            done += if now - last < jump { now - last } else { 0 };
            last = now;
        }
        done
    }
}

/// Writes to the first `lines` cache lines of every base page, as the old test did.
fn touch(block: &mut [u8], lines: usize) {
    for page in block.chunks_mut(page::size()) {
        for line in page.chunks_mut(LINE_BYTES).take(lines) {
            line[0] = 1;
        }
    }
    black_box(block);
}

/// What this thread used. Giving way brings the kernel's account of a running thread up to date.
fn usage() -> Rusage {
    std::thread::yield_now();
    rusage(Who::Thread).expect("getrusage works")
}

fn process_faults() -> u64 {
    rusage(Who::Process).expect("getrusage works").minor_faults
}

fn since(after: Rusage, before: Rusage) -> Rusage {
    Rusage {
        user_ns: after.user_ns.saturating_sub(before.user_ns),
        system_ns: after.system_ns.saturating_sub(before.system_ns),
        minor_faults: after.minor_faults - before.minor_faults,
        ..after
    }
}
