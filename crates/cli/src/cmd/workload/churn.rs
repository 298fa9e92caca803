//! thread-churn: threads that come, use some blocks and go, one after another, as in a server with a thread per request.
//!
//! The blocks of one thread are made, written and freed one by one, so that never more than one of them is alive. What
//! must fault is therefore one block and a little of each thread's own (stack, thread-local state): an allocator that
//! keeps memory per thread, or gives it back when a thread ends, faults for every thread instead.

use std::thread;

use clap::builder::RangedU64ValueParser;
use faultless_os::touch::Sampler;

use super::body::{Body, mix, sum};
use super::truth::{Truth, extend_timed};
use crate::cmd::Failure;

/// 200 threads, one after another, each making, writing and freeing 8 blocks of 1 MiB.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Threads.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    threads: u64,
    /// Blocks that each thread makes.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    blocks: u64,
    /// Size of a block in KiB.
    #[arg(long, value_name = "KIB", default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::new().range(1..=16_777_216))]
    block_kib: usize,
}

/// Blocks of one thread.
struct Shift {
    checksum: u64,
    sampler: Sampler,
}

/// Runs it.
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

/// What one thread does; the first of its blocks, which is new where the thread before took its memory along, is timed.
fn work(blocks: u64, words: usize, thread: u64, shift: &mut Shift) {
    for index in 0..blocks {
        let value = mix(thread, index);
        let mut block: Vec<u64> = Vec::with_capacity(words);
        let fill = |block: &mut Vec<u64>, count: usize| block.resize(block.len() + count, value);
        match index {
            0 => extend_timed(&mut block, words, &mut shift.sampler, fill),
            _ => fill(&mut block, words),
        }
        let block = std::hint::black_box(block);
        shift.checksum = mix(shift.checksum, sum(&block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_makes_all_its_blocks() {
        let of = |threads, blocks| run(&Args { threads, blocks, block_kib: 64 }).unwrap();
        assert_eq!(of(3, 4).processed_bytes, 12 * 64 * 1024);
        assert_eq!(of(3, 4).checksum, of(3, 4).checksum);
        assert_ne!(of(3, 4).checksum, of(4, 3).checksum);
    }
}
