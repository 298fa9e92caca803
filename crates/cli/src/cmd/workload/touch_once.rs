//! touch-once: every byte is written exactly once, so no fault is avoidable.

use clap::builder::RangedU64ValueParser;
use faultless_os::touch::Sampler;

use super::body::{Body, mix, sum};
use super::truth::{Truth, extend_timed};

/// Write one large block once from start to end; no fault is avoidable.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Size in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = RangedU64ValueParser::<usize>::new().range(1..=16_777_216))]
    mib: usize,
}

pub(super) fn run(args: &Args) -> Body {
    let words = (args.mib << 20) / 8;
    let mut block: Vec<u64> = Vec::with_capacity(words);
    let mut sampler = Sampler::new();
    extend_timed(&mut block, words, &mut sampler, |block, n| {
        let at = block.len() as u64;
        block.extend((0..n as u64).map(|offset| at + offset));
    });
    let block = std::hint::black_box(block);
    let checksum = mix(0, sum(&block));
    Body { checksum, processed_bytes: (words * 8) as u64, truth: Truth::from(sampler) }
}
