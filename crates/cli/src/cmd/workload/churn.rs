//! thread-churn: short-lived threads, one after another, as in a server with a thread per request.
//!
//! A thread makes, writes and frees its blocks one by one, so at most one block is alive. Only one block and
//! a little state of each thread (stack, thread-local data) must fault. An allocator that keeps memory per
//! thread, or returns it when a thread ends, faults again for every thread.

use std::thread;

use clap::builder::RangedU64ValueParser;
use faultless_console::Failure;
use faultless_os::touch::Sampler;

use super::body::{Body, mix, sum};
use super::truth::{Truth, extend};

/// Run 200 threads, one after another; each makes, writes and frees 8 blocks of 1 MiB.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of threads.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    threads: u64,
    /// Blocks per thread.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    blocks: u64,
    /// Size of a block in KiB.
    #[arg(long, value_name = "KIB", default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::new().range(1..=16_777_216))]
    block_kib: usize,
}

/// The state handed from one thread to the next.
struct Shift {
    checksum: u64,
    sampler: Sampler,
}

pub(super) fn run(args: &Args) -> Result<Body, Failure> {
    let words = (args.block_kib << 10) / 8;
    let mut shift = Shift { checksum: 0, sampler: Sampler::new() };
    for index in 0..args.threads {
        thread::scope(|scope| scope.spawn(|| work(args.blocks, words, index, &mut shift)).join())
            .map_err(|_| Failure("a thread failed".into()))?;
    }
    Ok(Body {
        checksum: shift.checksum,
        processed_bytes: args.threads * args.blocks * (words * 8) as u64,
        truth: Truth::from(shift.sampler),
    })
}

/// The work of one thread. Its first block is timed: it is new if the previous thread took its memory along.
fn work(blocks: u64, words: usize, thread: u64, shift: &mut Shift) {
    for index in 0..blocks {
        let value = mix(thread, index);
        let mut block: Vec<u64> = Vec::with_capacity(words);
        let fill = |block: &mut Vec<u64>, count: usize| block.resize(block.len() + count, value);
        extend(&mut block, words, &mut shift.sampler, index == 0, fill);
        let block = std::hint::black_box(block);
        shift.checksum = mix(shift.checksum, sum(&block));
    }
}
