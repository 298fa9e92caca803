//! bursts and idle-bursts: a server that answers in bursts. Each burst makes and writes many blocks, then
//! frees them all.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use faultless_os::touch::Sampler;

use super::body::{Body, mix, sum};
use super::truth::{Truth, extend};

/// Run 8 bursts of 500 blocks of 1 MiB; free all after each burst.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of bursts.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000))]
    bursts: u64,
    /// Blocks per burst.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    blocks: u64,
    /// Size of a block in KiB.
    #[arg(long, value_name = "KIB", default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::new().range(1..=16_777_216))]
    block_kib: usize,
}

/// Run the same bursts with idle time between them, in which an allocator may give memory back.
#[derive(Debug, clap::Args)]
pub(super) struct IdleArgs {
    #[command(flatten)]
    pub(super) bursts: Args,
    /// Idle time between bursts, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    pub(super) idle_ms: u64,
}

/// One block in this many is filled page by page and timed.
const SAMPLED: u64 = 16;

pub(super) fn run(args: &Args, idle_ms: u64) -> Body {
    let words = (args.block_kib << 10) / 8;
    let (mut sampler, mut body) = (Sampler::new(), Body::default());
    for burst in 0..args.bursts {
        if burst > 0 && idle_ms > 0 {
            std::thread::sleep(Duration::from_millis(idle_ms));
        }
        let blocks: Vec<Vec<u64>> =
            (0..args.blocks).map(|index| block(words, mix(burst, index), index, &mut sampler)).collect();
        for block in &blocks {
            // The first words of each block suffice to notice a block handed out twice.
            body.checksum = mix(body.checksum, sum(&block[..block.len().min(64)]));
        }
        body.processed_bytes += args.blocks * (words * 8) as u64;
    }
    body.truth = Truth::from(sampler);
    body
}

fn block(words: usize, value: u64, index: u64, sampler: &mut Sampler) -> Vec<u64> {
    let mut block = Vec::with_capacity(words);
    let fill = |block: &mut Vec<u64>, count: usize| block.resize(block.len() + count, value);
    extend(&mut block, words, sampler, index.is_multiple_of(SAMPLED), fill);
    std::hint::black_box(block)
}
