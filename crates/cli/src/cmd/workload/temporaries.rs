//! temporaries: `a = b + c * d` on arrays, as NumPy evaluates it: each result is a new array, and the old one
//! is freed.
//!
//! Each array size from 1 to 64 MiB gets the same share of the bytes written. The result shows at which size
//! an allocator begins to return memory.

use std::ops::{Add, Mul};

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use faultless_os::touch::Sampler;

use super::body::{Body, mix};
use super::truth::{Truth, extend};

/// Compute a = b + c * d on arrays of 1 to 64 MiB; each result is a new array.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// MiB of results to write, shared evenly by the array sizes.
    #[arg(long, value_name = "MIB", default_value_t = 7168, value_parser = RangedU64ValueParser::<usize>::new().range(1..=16_777_216))]
    total_mib: usize,
    /// Largest array in MiB; sizes double from 1 MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1 << 12))]
    max_mib: usize,
    /// Element type of the arrays.
    #[arg(long, value_enum, default_value_t = Element::F64)]
    element: Element,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Element {
    F32,
    F64,
}

/// One result in this many is filled page by page and timed.
const SAMPLED: usize = 4;
/// Elements before an operand repeats; no multiple of a page's elements.
const PATTERN: usize = 251 * 67;
/// Elements of each result that go into the checksum.
const SPOTS: usize = 64;

pub(super) fn run(args: &Args) -> Body {
    match args.element {
        Element::F32 => evaluate::<f32>(args, |value| u64::from(value.to_bits())),
        Element::F64 => evaluate::<f64>(args, f64::to_bits),
    }
}

fn evaluate<T>(args: &Args, bits: fn(T) -> u64) -> Body
where
    T: Copy + From<u8> + Add<Output = T> + Mul<Output = T>,
{
    let sizes: Vec<usize> = std::iter::successors(Some(1), |mib| Some(mib * 2))
        .take_while(|mib| *mib <= args.max_mib)
        .map(|mib| mib << 20)
        .collect();
    let share_bytes = (args.total_mib << 20) / sizes.len();
    let [b, c, d] = [3_u8, 5, 7].map(|factor| operand::<T>(args.max_mib << 20, factor));
    let mut sampler = Sampler::new();
    let mut body = Body::default();
    let mut result = Vec::new();
    for size in sizes {
        let len = size / size_of::<T>();
        let operands = [&b[..len], &c[..len], &d[..len]];
        for round in 0..(share_bytes / size).max(1) {
            // As in Python, the assignment frees the previous result after the new one exists.
            result = new_result(operands, round, &mut sampler);
            body.checksum = spots(&result, len / SPOTS, body.checksum, bits);
            body.processed_bytes += size as u64;
        }
    }
    drop(result);
    body.truth = Truth::from(sampler);
    body
}

/// An operand whose pattern reveals a wrong length or order. The pattern is copied, because computing it
/// costs more than the arithmetic. Operands are not sampled.
fn operand<T: Copy + From<u8>>(len_bytes: usize, factor: u8) -> Vec<T> {
    let len = len_bytes / size_of::<T>();
    let mut array = Vec::with_capacity(len);
    array.extend((0..PATTERN.min(len)).map(|index| T::from((index % 251) as u8 % (factor * 8))));
    while array.len() < len {
        array.extend_from_within(..PATTERN.min(len - array.len()));
    }
    array
}

fn new_result<T>([b, c, d]: [&[T]; 3], round: usize, sampler: &mut Sampler) -> Vec<T>
where
    T: Copy + Add<Output = T> + Mul<Output = T>,
{
    let mut result = Vec::with_capacity(b.len());
    let fill = |result: &mut Vec<T>, count: usize| {
        let at = result.len();
        let (b, c, d) = (&b[at..at + count], &c[at..at + count], &d[at..at + count]);
        result.extend((0..count).map(|index| b[index] + c[index] * d[index]));
    };
    extend(&mut result, b.len(), sampler, round.is_multiple_of(SAMPLED), fill);
    std::hint::black_box(result)
}

fn spots<T: Copy>(result: &[T], step: usize, checksum: u64, bits: fn(T) -> u64) -> u64 {
    result.iter().step_by(step.max(1)).fold(checksum, |sum, value| mix(sum, bits(*value)))
}
