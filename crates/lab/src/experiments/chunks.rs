//! chunks: the pipeline of "A queue of page faults", with the memory of its blocks from three sources.
//!
//! One thread fills a block of 640 KiB with 128 KiB of "compressed" data and hands it over a bounded queue.
//! Workers unpack it to 512 KiB in the same block, read every byte, and free the block. The document's search
//! took 932 blocks.
//!
//! The sources are our pool, malloc, and mmap and munmap per block. Unpacking is a copy and searching is a hash at
//! some 8 GB/s. They stand in for LZ4 and a regular expression, at the speed at which page faults begin to matter
//! according to the document.
//!
//! `reader=file` reads the packed data from a file in the page cache, as the document's main thread does, with a queue that
//! holds as many chunks as the document's program queued then: 256 MB. Only the pool's requests depend on that.
//!
//! `passes` is how often a worker reads each block. More passes slow down everything but the faults.
//! So a few cells with more passes show at which speed of the rest the faults become noticeable.
//!
//! The phase `price` maps, touches and unmaps blocks on one thread, as Bruce Dawson did for his 175 us per MB.
//! With this price `claims` repeats the document's argument that price times count explains the difference.

mod claims;
mod pipeline;

use faultless_os::advise;

use super::threshold;
use crate::cell::{Cell, Refusal};
use crate::document::Document;
use crate::experiment::{
    Chart, Column, DocumentPoint, DocumentRow, Effort, Experiment, Parameter, Scope, Sheet, Trial,
};
use crate::results::{Quantities, faults, wall_ms};
use pipeline::{MEMORIES, Memory, Plan};

pub(super) struct Chunks;

/// Bytes of a chunk as it is read, and unpacked; a block holds both.
const PACKED: usize = 128 << 10;
const COPIES: usize = 4;
const BLOCK: usize = PACKED * (COPIES + 1);
/// Chunks in the document.
const DOCUMENT_CHUNKS: usize = 932;
/// Chunks in its queue: `kMaxQueuedChunkData` of qgrep, commit 97a138b of December 2014, counts packed and unpacked bytes.
const QUEUED_CHUNKS: usize = (256 << 20) / BLOCK;
/// Passes over each block beside the single one: speeds from about that of the document down to a hundredth of it.
const PASSES: &[usize] = &[4, 16, 64];

static SHEET: Sheet = Sheet {
    name: "chunks",
    about: "How much time does a pipeline of 640 KiB blocks lose to page faults, by the source of its blocks?",
    documents: &[Document::Queue],
    parameters: &[
        Parameter::named("memory", "pool, malloc or mmap: where blocks come from"),
        Parameter::named("workers", "threads that unpack and search"),
        Parameter::named("queue", "most chunks between the reader and the workers"),
        Parameter::named("chunks", "chunks in all; 932 in the document"),
        Parameter::usual("passes", "1", "how often a worker reads each chunk"),
        Parameter::usual("reader", "memory", "memory, or file: where the packed chunks come from"),
    ],
    columns: &[
        Column { head: "total ms", values: |_, found| wall_ms(found, "timed") },
        Column { head: "page faults", values: |_, found| faults(found, "timed") },
    ],
    theirs: document_totals,
    charts: CHARTS,
    claims: claims::claims,
    unjudged: claims::unjudged,
    ..Sheet::BLANK
};

impl Experiment for Chunks {
    fn sheet(&self) -> &'static Sheet {
        &SHEET
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let chunks = scope.pick([24, DOCUMENT_CHUNKS, DOCUMENT_CHUNKS, DOCUMENT_CHUNKS]);
        let queues: &[usize] = scope.pick([&[4], &[8], &[8], &[2, 8, 64]]);
        let mut workers = scope.threads();
        match scope.effort {
            Effort::Verify => workers.truncate(1),
            Effort::Quick => workers.retain(|&count| count <= scope.processors),
            Effort::Default | Effort::Full => {}
        }
        let cell = |memory: &str, workers: usize, queue: usize, passes: usize| {
            let words =
                format!("memory={memory} workers={workers} queue={queue} chunks={chunks} passes={passes}");
            SHEET.cell(&words)
        };
        let mut cells = Vec::new();
        for &queue in queues {
            for &workers in &workers {
                cells.extend(MEMORIES.map(|(memory, _)| cell(memory, workers, queue, 1)));
            }
        }
        let mut ahead = vec![1, scope.processors];
        ahead.dedup();
        cells.extend(ahead.into_iter().map(|workers| {
            SHEET.cell(&format!(
                "memory=pool workers={workers} queue={QUEUED_CHUNKS} chunks={chunks} reader=file"
            ))
        }));
        if let Some(&workers) = workers.iter().rfind(|count| **count <= scope.processors) {
            let passes: &[usize] = scope.pick([&[2], &[16], PASSES, PASSES]);
            for memory in ["pool", "mmap"] {
                cells.extend(passes.iter().map(|&passes| cell(memory, workers, queues[0], passes)));
            }
        }
        cells
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let plan = Plan::of(cell)?;
        let file_bytes = if plan.reads_file { plan.chunks * PACKED } else { 0 };
        Ok((plan.most_blocks() * BLOCK + file_bytes + (8 << 20)) as u64)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let plan = Plan::of(cell)?;
        if plan.memory == Memory::Malloc {
            if let Some(other) = threshold::preloaded()? {
                return Err(Refusal(format!(
                    "{cell}: {other} answers instead of the C library's malloc: unset LD_PRELOAD"
                )));
            }
            // Memory of malloc is touched before it could be advised.
            advise::disable_thp()?;
        }
        Ok(pipeline::trial(plan))
    }
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "chunks-time",
        title: "Chunks of 640 KiB through a queue of 8: time",
        x: "workers",
        x_label: "workers",
        y_label: "us per chunk",
        values: |cell, found| match (cell.number("queue"), cell.number("passes")) {
            (Ok(8), Ok(1)) => us_per_chunk(cell, found),
            _ => Vec::new(),
        },
        document: points,
        ..Chart::BLANK
    },
    Chart {
        id: "chunks-passes",
        title: "Chunks of 640 KiB, a worker per processor: time by the work for each byte",
        x: "passes",
        x_label: "passes over each chunk",
        y_label: "us per chunk",
        values: us_per_chunk,
        ..Chart::BLANK
    },
];

fn us_per_chunk(cell: &Cell, found: &Quantities) -> Vec<f64> {
    let chunks = cell.number("chunks").unwrap_or(1) as f64;
    wall_ms(found, "timed").iter().map(|ms| ms * 1e3 / chunks).collect()
}

/// The document's table: a system with its pool or without, and the times of 8 threads and of one, ms.
const DOCUMENT_MS: [(&str, [f64; 2]); 10] = [
    ("Windows 32-bit, pool", [120.0, 433.0]),
    ("Windows 32-bit, no pool", [204.0, 471.0]),
    ("OSX 64-bit, pool beside mmap", [107.0, 510.0]),
    ("OSX 64-bit, mmap", [165.0, 604.0]),
    ("OSX 32-bit, pool", [131.0, 570.0]),
    ("OSX 32-bit, no pool", [142.0, 610.0]),
    ("OSX 64-bit, pool", [113.0, 510.0]),
    ("OSX 64-bit, no pool", [124.0, 543.0]),
    ("Windows 64-bit, pool", [100.0, 404.0]),
    ("Windows 64-bit, no pool", [120.0, 404.0]),
];

fn document_totals() -> Vec<DocumentRow> {
    let row = |memory: &str, workers: u32, ms: f64| {
        let of = [
            ("memory", memory.to_owned()),
            ("workers", workers.to_string()),
            ("chunks", DOCUMENT_CHUNKS.to_string()),
        ];
        (of.to_vec(), vec![Some(ms), None])
    };
    DOCUMENT_MS
        .iter()
        .flat_map(|(memory, [eight, one])| [row(memory, 8, *eight), row(memory, 1, *one)])
        .collect()
}

/// Two systems on which blocks were mapped anew, as points of the chart: the document gives ms for all of its chunks.
fn points() -> Vec<DocumentPoint> {
    let us = |ms: f64| ms * 1e3 / DOCUMENT_CHUNKS as f64;
    let systems = DOCUMENT_MS[..4].iter();
    systems.flat_map(|(name, [eight, one])| [(*name, 8.0, us(*eight)), (*name, 1.0, us(*one))]).collect()
}
