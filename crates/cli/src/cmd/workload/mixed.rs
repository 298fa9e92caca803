//! mixed: the `random_mixed` benchmark of the explicit-prefault report. xorshift32 picks a slot. A full slot
//! is freed; an empty one gets a block of random size, and one byte of it is written.

use clap::builder::RangedU64ValueParser;
use faultless_console::Failure;
use faultless_os::touch::Sampler;

use super::body::{Body, mix};
use super::truth::{Probe, Truth};

/// Allocate and free small blocks at random in a working set of slots.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Operations, each one malloc or one free.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u64>::new().range(1..=100_000_000_000))]
    ops: u64,
    /// Number of slots.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = RangedU64ValueParser::<u32>::new().range(1..=16_777_216))]
    working_set: u32,
    /// Seed of the generator, not 0.
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    seed: u32,
    /// Largest block in bytes; the smallest is 16.
    #[arg(long, value_name = "BYTES", default_value_t = 1039, value_parser = RangedU64ValueParser::<u32>::new().range(16..=1 << 30))]
    max_size: u32,
}

/// Smallest block in bytes, as in the original.
const MIN_SIZE: u32 = 16;
/// Groups of probed first touches, spread over the run.
const GROUPS: u64 = 64;
/// Pages in a group.
const GROUP_PAGES: usize = 2;

pub(super) fn run(args: &Args) -> Result<Body, Failure> {
    let mut slots: Vec<Option<Vec<u8>>> = Vec::new();
    slots.resize_with(args.working_set as usize, || None);
    let (mut random, span) = (args.seed, args.max_size - MIN_SIZE + 1);
    let (mut sampler, mut probe) = (Sampler::new(), Probe::new(GROUPS as usize * GROUP_PAGES));
    let (mut body, group_ops) = (Body::default(), (args.ops / GROUPS).max(1));
    for op in 0..args.ops {
        if op % group_ops == 0 {
            probe.touch(&mut sampler, GROUP_PAGES);
        }
        random = xorshift32(random);
        match &mut slots[(random % args.working_set) as usize] {
            full @ Some(_) => {
                let byte = full.take().and_then(|block| block.first().copied());
                body.checksum = mix(body.checksum, u64::from(byte.unwrap_or(0)));
            }
            empty => {
                let len = MIN_SIZE + random % span;
                *empty = Some(one_byte(len as usize, random as u8));
                body.processed_bytes += u64::from(len);
            }
        }
    }
    body.truth = Truth::from(sampler);
    Ok(body)
}

/// A block of `len` bytes; only the first is written.
fn one_byte(len: usize, byte: u8) -> Vec<u8> {
    let mut block = Vec::with_capacity(len);
    block.push(byte);
    std::hint::black_box(block)
}

fn xorshift32(mut state: u32) -> u32 {
    state ^= state << 13;
    state ^= state >> 17;
    state ^ (state << 5)
}
