//! Two flat tables of typed columns (RFC 4180), which any converter takes to Parquet.
//!
//! [`faults`] has a row per fault, in the order of time:
//!
//! | column | meaning |
//! |---|---|
//! | `time_ns` | CLOCK_MONOTONIC |
//! | `pid`, `tid`, `process`, `thread` | who faulted |
//! | `addr` | decimal |
//! | `kind` | the word of `stat --json` |
//! | `mapping` | the mapping that was touched |
//! | `kernel` | `true` or `false` |
//! | `faults`, `cost_ns` | how many faults of the run this one stands for, and their corrected time |
//! | `stack_id` | a stack of the other table |
//! | `block_addr`, `block_bytes`, `block_born_ns`, `block_died_ns`, `block_stack_id` | the block that was touched |
//!
//! [`stacks`] has a row per frame: `stack_id`, `depth` (0 is the leaf), `inlined` (`true` or `false`),
//! `function`, `file`, `line`, `module`, `build_id`, `offset` (in the module's file, decimal).
//!
//! An unknown value is an empty field.

use std::io::{self, Write};

use csv::Writer;
use faultless_trace::profile::Profile;
use faultless_trace::recording::Recording;

use super::{block, mapping, names};

/// Writes the table of faults.
///
/// # Errors
/// `out` fails.
pub fn faults(recording: &Recording, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let processes = names::processes(recording, profile);
    let mut table = Writer::from_writer(out);
    table
        .write_record([
            "time_ns",
            "pid",
            "tid",
            "process",
            "thread",
            "addr",
            "kind",
            "mapping",
            "kernel",
            "faults",
            "cost_ns",
            "stack_id",
            "block_addr",
            "block_bytes",
            "block_born_ns",
            "block_died_ns",
            "block_stack_id",
        ])
        .map_err(cause)?;
    for fault in profile.faults.iter().chain(&profile.unplaced()) {
        let (process, thread) = names::of(&processes, fault.pid, fault.tid);
        let block = block(profile, fault);
        table
            .write_record([
                fault.time_ns.to_string(),
                fault.pid.to_string(),
                fault.tid.to_string(),
                process.to_owned(),
                thread.to_owned(),
                fault.addr.to_string(),
                names::kind(fault.kind),
                mapping(profile, fault).to_owned(),
                fault.kernel.to_string(),
                fault.faults.to_string(),
                fault.time_ns().to_string(),
                text(fault.stack),
                text(block.map(|block| block.addr)),
                text(block.map(|block| block.len_bytes)),
                text(block.map(|block| block.born_ns)),
                text(block.and_then(|block| block.died_ns)),
                text(block.and_then(|block| block.stack)),
            ])
            .map_err(cause)?;
    }
    table.flush()
}

/// Writes the table of stacks.
///
/// # Errors
/// `out` fails.
pub fn stacks(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Writer::from_writer(out);
    table
        .write_record([
            "stack_id", "depth", "inlined", "function", "file", "line", "module", "build_id", "offset",
        ])
        .map_err(cause)?;
    let stacks = &recording.stacks;
    for stack in 0..stacks.stacks.len() as u32 {
        let mut depth = 0_u32;
        for frame in stacks.frames_of(stack) {
            let module = frame.module.and_then(|module| stacks.modules.get(module as usize));
            for at in 0..frame.names.len().max(1) {
                let name = frame.names.get(at);
                table
                    .write_record([
                        stack.to_string(),
                        depth.to_string(),
                        (at + 1 < frame.names.len()).to_string(),
                        name.map_or_else(String::new, |name| name.function.clone()),
                        name.and_then(|name| name.file.clone()).unwrap_or_default(),
                        text(name.and_then(|name| name.line)),
                        module.map_or_else(String::new, |module| module.path.clone()),
                        module.and_then(|module| module.build_id.clone()).unwrap_or_default(),
                        frame.address.to_string(),
                    ])
                    .map_err(cause)?;
                depth += 1;
            }
        }
    }
    table.flush()
}

/// The kind of the error, which `csv` hides. Callers ignore a closed pipe.
fn cause(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
