//! chunk-pipeline: the grep database of the first document.
//!
//! A reader allocates one block per chunk for compressed and uncompressed data together, and fills the
//! compressed part. It passes the chunk through a queue bounded by bytes. A worker "decompresses" it (four
//! copies, the cheapest possible), scans it (a sum) and frees it. The work is light on purpose: fresh memory
//! dominates the cost.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::builder::RangedU64ValueParser;
use faultless_console::Failure;
use faultless_os::touch::Sampler;

use super::body::{Body, mix, sum};
use super::truth::{Truth, extend};

/// Pass 640 KiB chunks from a reader through a queue to workers, which free them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of chunks.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = RangedU64ValueParser::<u64>::new().range(1..=100_000_000))]
    chunks: u64,
    /// Number of worker threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    workers: usize,
    /// Size limit of the queue, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    queue_mib: usize,
}

/// Words of compressed data in a chunk: 128 KiB.
const PACKED_WORDS: usize = (128 << 10) / 8;
/// Copies of the compressed data: 512 KiB uncompressed.
const EXPANSION: usize = 4;
/// Words of a block: 640 KiB.
const BLOCK_WORDS: usize = PACKED_WORDS * (1 + EXPANSION);
/// One chunk in this many is filled page by page and timed: 16 of 160 pages in 1/16 of the blocks, 0.6 % of
/// all.
const SAMPLED: u64 = 16;

struct Chunk {
    index: u64,
    block: Vec<u64>,
}

pub(super) fn run(args: &Args) -> Result<Body, Failure> {
    let queued = ((args.queue_mib << 20) / (BLOCK_WORDS * 8)).max(1);
    let (sender, receiver) = sync_channel::<Chunk>(queued);
    let receiver = Mutex::new(receiver);
    let mut truth = Truth::default();
    let checksum = thread::scope(|scope| {
        let workers: Vec<_> = (0..args.workers).map(|_| scope.spawn(|| work(&receiver))).collect();
        let mut sampler = Sampler::new();
        for index in 0..args.chunks {
            if sender.send(read(index, &mut sampler)).is_err() {
                break;
            }
        }
        drop(sender);
        truth.add(&sampler);
        let mut checksum = 0_u64;
        for worker in workers {
            let (part, sampler) = worker.join().map_err(|_| Failure("a worker thread failed".into()))?;
            checksum = checksum.wrapping_add(part);
            truth.add(&sampler);
        }
        Ok::<u64, Failure>(checksum)
    })?;
    let processed_bytes = args.chunks * (BLOCK_WORDS * 8) as u64;
    Ok(Body { checksum, processed_bytes, truth })
}

/// Makes a chunk: the block, with its compressed part filled.
fn read(index: u64, sampler: &mut Sampler) -> Chunk {
    let mut block = Vec::with_capacity(BLOCK_WORDS);
    let fill = |block: &mut Vec<u64>, count: usize| {
        let first = mix(1, index).wrapping_add(block.len() as u64);
        block.extend((0..count as u64).map(|offset| first.wrapping_add(offset)));
    };
    extend(&mut block, PACKED_WORDS, sampler, index.is_multiple_of(SAMPLED), fill);
    Chunk { index, block }
}

/// Takes chunks until the reader has finished. The sum does not depend on which worker gets which chunk.
fn work(queue: &Mutex<Receiver<Chunk>>) -> (u64, Sampler) {
    let (mut checksum, mut sampler) = (0_u64, Sampler::new());
    loop {
        // The lock is a temporary of this statement, so it is held only while waiting.
        let received = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Chunk { index, mut block }) = received else { break };
        decompress(&mut block, index, &mut sampler);
        checksum = checksum.wrapping_add(mix(index, sum(&block[PACKED_WORDS..])));
    }
    (checksum, sampler)
}

fn decompress(block: &mut Vec<u64>, index: u64, sampler: &mut Sampler) {
    let fill = |block: &mut Vec<u64>, count: usize| {
        let end = block.len() + count;
        while block.len() < end {
            let from = block.len() % PACKED_WORDS;
            let len = (PACKED_WORDS - from).min(end - block.len());
            block.extend_from_within(from..from + len);
        }
    };
    extend(block, BLOCK_WORDS - PACKED_WORDS, sampler, index % SAMPLED == 1, fill);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decompressed_data_repeats_the_packed_data() {
        let mut sampler = Sampler::new();
        for index in [0, 1] {
            let mut chunk = read(index, &mut sampler);
            decompress(&mut chunk.block, index, &mut sampler);
            assert_eq!(chunk.block.len(), BLOCK_WORDS);
            let (packed, rest) = chunk.block.split_at(PACKED_WORDS);
            assert!(rest.chunks(PACKED_WORDS).all(|copy| copy == packed));
        }
    }
}
