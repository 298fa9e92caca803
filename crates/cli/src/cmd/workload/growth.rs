//! growth: one block grown by realloc, from 4 KiB to 1 GiB by 1.5x. Each step writes the new bytes.

use clap::builder::RangedU64ValueParser;
use faultless_os::touch::Sampler;

use super::body::{Body, mix};
use super::truth::{Truth, extend_timed};

/// Grow one block by realloc from 4 KiB by 1.5x, and write all new bytes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Final size in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_048_576))]
    max_mib: usize,
}

/// First size in bytes, as in the original.
const FIRST_BYTES: usize = 4 << 10;

pub(super) fn run(args: &Args) -> Body {
    let max = args.max_mib << 20;
    let (mut sampler, mut checksum) = (Sampler::new(), 0);
    let mut block: Vec<u8> = Vec::new();
    let mut target = FIRST_BYTES;
    for step in 0_u8.. {
        let target_now = target.min(max);
        let added = target_now - block.len();
        // One realloc to exactly this size, as the length equals the capacity before it.
        block.reserve_exact(added);
        let value = step.wrapping_mul(37) | 1;
        extend_timed(&mut block, added, &mut sampler, |block, n| block.resize(block.len() + n, value));
        checksum = mix(checksum, ends(&block));
        if target_now == max {
            break;
        }
        target += target / 2;
    }
    let checksum = block.iter().step_by(FIRST_BYTES).fold(checksum, |sum, byte| mix(sum, u64::from(*byte)));
    Body { checksum, processed_bytes: block.len() as u64, truth: Truth::from(sampler) }
}

/// Length, first and last byte: enough to notice a realloc that loses content.
fn ends(block: &[u8]) -> u64 {
    let byte = |at: Option<&u8>| u64::from(at.copied().unwrap_or(0));
    mix(mix(block.len() as u64, byte(block.first())), byte(block.last()))
}
