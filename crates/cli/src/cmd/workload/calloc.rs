//! calloc-sparse and calloc-full: a ring of zeroed blocks. One line per page is written, or every byte.
//!
//! Fresh memory is zero already; recycled memory must be cleared. A calloc that also clears fresh memory
//! touches every page. The check for zero reads the line just written, so it touches no page before the
//! write.

use clap::builder::RangedU64ValueParser;
use faultless_console::Failure;
use faultless_os::page;
use faultless_os::touch::Sampler;

use super::body::{Body, mix};
use super::truth::{PAGES, Truth, part_pages, to_next_page};

/// Allocate zeroed 4 MiB blocks, 8 alive; check that they are zero.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Blocks in total.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000_000))]
    blocks: usize,
    /// Size of a block in KiB.
    #[arg(long, value_name = "KIB", default_value_t = 4 << 10, value_parser = RangedU64ValueParser::<usize>::new().range(1..=16_777_216))]
    block_kib: usize,
    /// Blocks alive at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    ring: usize,
}

/// How much of a block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// One line per page.
    Sparse,
    /// Every byte.
    Full,
}

/// The byte written and the checked rest of its cache line.
const LINE: usize = 64;

pub(super) fn run(args: &Args, fill: Fill) -> Result<Body, Failure> {
    let len = args.block_kib << 10;
    let mut ring: Vec<Vec<u8>> = Vec::new();
    ring.resize_with(args.ring, Vec::new);
    let (mut sampler, mut body) = (Sampler::new(), Body::default());
    for index in 0..args.blocks {
        let slot = &mut ring[index % args.ring];
        drop(std::mem::take(slot));
        let mut block = std::hint::black_box(vec![0_u8; len]);
        let value = (index % 255) as u8 + 1;
        let found = write(&mut block, value, fill, &mut sampler);
        if found != 0 {
            return Err(Failure(format!(
                "calloc returned memory that is not zero (block {index}): the allocator in use is broken"
            )));
        }
        body.checksum = mix(body.checksum, spot_sum(&block));
        body.processed_bytes += len as u64;
        *slot = block;
    }
    body.truth = Truth::from(sampler);
    Ok(body)
}

/// Writes page by page. Returns the bits that were not zero before, in the checked lines.
///
/// A full block is split at real page boundaries, so that the timed store is the first one to its page. A
/// sparse block is split at multiples of the page size from its start, so that the same bytes are written
/// wherever it lies.
fn write(block: &mut [u8], value: u8, fill: Fill, sampler: &mut Sampler) -> u8 {
    let head = if fill == Fill::Full { to_next_page(block) } else { 0 };
    let (head, rest) = block.split_at_mut(head);
    let mut found = write_page(head, value, fill);
    for part in rest.chunks_mut(part_pages() * page::size()) {
        let mut pages = part.chunks_mut(page::size());
        let lead = pages.len().saturating_sub(PAGES) / 2;
        found = pages.by_ref().take(lead).fold(found, |found, page| found | write_page(page, value, fill));
        sampler.begin();
        for page in pages.by_ref().take(PAGES) {
            sampler.write(&mut page[0], value);
            found |= write_page(page, value, fill);
        }
        sampler.end();
        found = pages.fold(found, |found, page| found | write_page(page, value, fill));
    }
    found
}

/// Writes the first byte, checks its line, then fills the rest of the page for a full block.
fn write_page(part: &mut [u8], value: u8, fill: Fill) -> u8 {
    let [first, rest @ ..] = part else { return 0 };
    *first = value;
    let line = &rest[..rest.len().min(LINE - 1)];
    let found = line.iter().fold(0, |found, byte| found | byte);
    if fill == Fill::Full {
        rest.fill(value);
    }
    found
}

/// One byte per page and the last one. In a sparse block the last one must have stayed zero.
fn spot_sum(block: &[u8]) -> u64 {
    let bytes = block.iter().step_by(page::size()).chain(block.last());
    bytes.fold(0, |checksum, byte| mix(checksum, u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dirty_byte_is_found() {
        let mut block = vec![0_u8; 5 * page::size()];
        block[3 * page::size() + 5] = 1;
        assert_ne!(write(&mut block, 2, Fill::Sparse, &mut Sampler::new()), 0);
    }

    #[test]
    fn sparse_writes_one_byte_per_page_and_full_writes_all() {
        let written = |fill| {
            let mut block = vec![0_u8; 8 * page::size()];
            write(&mut block, 9, fill, &mut Sampler::new());
            block.iter().filter(|byte| **byte != 0).count()
        };
        assert_eq!(written(Fill::Sparse), 8);
        assert_eq!(written(Fill::Full), 8 * page::size());
    }
}
