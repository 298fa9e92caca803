//! JSON lines: an object per fault, in the order of time. Everything is resolved, so `jq` needs no second
//! file.
//!
//! | field | meaning |
//! |---|---|
//! | `time_ns` | begin, CLOCK_MONOTONIC |
//! | `pid`, `tid`, `process`, `thread` | who faulted; the last name of each |
//! | `addr` | faulting address, hexadecimal text (JSON's numbers end at 2^53) |
//! | `kind` | the word of `stat --json` |
//! | `mapping` | the mapping that was touched: a file, `[heap]`, `[stack]`, `//anon` |
//! | `kernel` | taken in kernel mode |
//! | `faults` | how many faults of the run this one stands for; 1 if every fault was recorded |
//! | `cost_ns` | their corrected time |
//! | `stack` | frames, leaf first, inlined ones apart: `function`, or `module` and `offset` in it; `file`, `line` |
//! | `block` | `null`, or the block that was touched: `addr`, `len_bytes`, `born_ns`, `died_ns`, `stack` |

use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

use faultless_trace::profile::Profile;
use faultless_trace::recording::{Recording, Stacks};
use serde::Serialize;

use super::{block, mapping, names};

#[derive(Serialize)]
struct Fault<'a> {
    time_ns: u64,
    pid: u32,
    tid: u32,
    process: &'a str,
    thread: &'a str,
    addr: String,
    kind: String,
    mapping: &'a str,
    kernel: bool,
    faults: f64,
    cost_ns: f64,
    stack: &'a [Place],
    block: Option<Touched<'a>>,
}

#[derive(Serialize)]
struct Touched<'a> {
    addr: String,
    len_bytes: u64,
    born_ns: u64,
    died_ns: Option<u64>,
    stack: &'a [Place],
}

#[derive(Serialize)]
struct Place {
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
}

/// Writes a line per fault.
///
/// # Errors
/// `out` fails.
pub fn write(recording: &Recording, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let processes = names::processes(recording, profile);
    let mut known: HashMap<u32, Rc<[Place]>> = HashMap::new();
    let mut places = |stack: Option<u32>| -> Rc<[Place]> {
        let Some(stack) = stack else { return Rc::new([]) };
        known.entry(stack).or_insert_with(|| places(&recording.stacks, stack).into()).clone()
    };
    for fault in profile.faults.iter().chain(&profile.unplaced()) {
        let block = block(profile, fault);
        let (stack, allocated) = (places(fault.stack), places(block.and_then(|block| block.stack)));
        let (process, thread) = names::of(&processes, fault.pid, fault.tid);
        let line = Fault {
            time_ns: fault.time_ns,
            pid: fault.pid,
            tid: fault.tid,
            process,
            thread,
            addr: format!("{:#x}", fault.addr),
            kind: names::kind(fault.kind),
            mapping: mapping(profile, fault),
            kernel: fault.kernel,
            faults: fault.faults,
            cost_ns: fault.time_ns(),
            stack: &stack,
            block: block.map(|block| Touched {
                addr: format!("{:#x}", block.addr),
                len_bytes: block.len_bytes,
                born_ns: block.born_ns,
                died_ns: block.died_ns,
                stack: &allocated,
            }),
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn places(stacks: &Stacks, stack: u32) -> Vec<Place> {
    let mut places = Vec::new();
    for frame in stacks.frames_of(stack) {
        places.extend(frame.names.iter().map(|name| Place {
            function: Some(name.function.clone()),
            file: name.file.clone(),
            line: name.line,
            module: None,
            offset: None,
        }));
        if frame.names.is_empty() {
            let module = frame.module.and_then(|module| stacks.modules.get(module as usize));
            places.push(Place {
                function: None,
                file: None,
                line: None,
                module: module.map(|module| module.path.clone()),
                offset: Some(format!("{:#x}", frame.address)),
            });
        }
    }
    places
}
