//! The price of a get and a free by size and number of threads: ns per pair, the least of several rounds.
//!
//! `cargo bench -p faultless-pool`. Every thread takes and frees one block at a time. In `ring` eight blocks are alive,
//! in `mixed` eight of changing sizes. The memory is resident and nothing is written, so only the pool is timed. Two
//! threads with pools of their own show the cost of sharing processors.
#![allow(clippy::print_stdout)]

use std::sync::Barrier;
use std::time::Instant;

use faultless_pool::{Kernel, Policy, Pool};

const ROUNDS: usize = 9;
const PAIRS: usize = 200_000;

/// The sizes that a thread uses in turn, and how many blocks are alive.
struct Case {
    name: &'static str,
    lens: &'static [usize],
    alive: usize,
}

const CASES: &[Case] = &[
    Case { name: "64 KiB", lens: &[64 << 10], alive: 1 },
    Case { name: "640 KiB", lens: &[640 << 10], alive: 1 },
    Case { name: "4 MiB", lens: &[4 << 20], alive: 1 },
    Case { name: "16 MiB", lens: &[16 << 20], alive: 1 },
    Case { name: "640 KiB, ring", lens: &[640 << 10], alive: 8 },
    Case { name: "mixed", lens: &[200 << 10, 70 << 10, 130 << 10, 1 << 20, 256 << 10, 90 << 10], alive: 8 },
];

/// One thread's nanoseconds per pair.
fn pairs(pool: &Pool<Kernel>, case: &Case) -> f64 {
    let mut ring = [0_usize; 8];
    let begin = Instant::now();
    for at in 0..PAIRS {
        let place = &mut ring[at % case.alive];
        if *place != 0 {
            // SAFETY: the block is in the ring alone, and is forgotten here.
            assert!(unsafe { pool.free_raw(*place) });
        }
        let len = case.lens[at % case.lens.len()];
        *place = pool.alloc_raw(len, 1, false).expect("the pool has room").as_ptr() as usize;
    }
    let ns = begin.elapsed().as_nanos() as f64 / PAIRS as f64;
    for block in ring.into_iter().filter(|&block| block != 0) {
        // SAFETY: as above.
        assert!(unsafe { pool.free_raw(block) });
    }
    ns
}

/// Runs the case in several threads at the same time, each in one of the pools.
fn least(pools: &[Pool<Kernel>], case: &Case, threads: usize) -> f64 {
    let barrier = Barrier::new(threads);
    let thread = |pool: &Pool<Kernel>| {
        let round = |_| {
            barrier.wait();
            pairs(pool, case)
        };
        (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
    };
    std::thread::scope(|scope| {
        let all: Vec<_> =
            pools.iter().cycle().take(threads).map(|pool| scope.spawn(move || thread(pool))).collect();
        all.into_iter().map(|thread| thread.join().expect("no thread panics")).fold(0.0, f64::max)
    })
}

fn main() {
    let open = |_| {
        let pool = Pool::open(Kernel::default(), Policy::default()).expect("addresses are to be had");
        pool.prewarm(128 << 20);
        pool
    };
    println!("ns per get and free, the least of {ROUNDS} rounds");
    println!("{:<16}{:>10}{:>22}{:>22}", "", "1 thread", "2 threads, one pool", "2 threads, two pools");
    for case in CASES {
        let pools = [0, 1].map(open);
        let [one, two, apart] =
            [(1, 1), (1, 2), (2, 2)].map(|(of, threads)| least(&pools[..of], case, threads));
        println!(
            "{:<16}{one:>10.1}{two:>16.1} {:.2}x{apart:>16.1} {:.2}x",
            case.name,
            two / one,
            apart / one
        );
    }
}
