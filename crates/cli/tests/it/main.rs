//! `faultless` from outside. One test program holds all modules, because each test program is linked anew after
//! every change.
//!
//! `strict_commit` and `workload_faults` are separate programs: one changes a setting of the whole machine,
//! the other counts the faults of all its children.

mod advise;
mod attach;
mod check;
mod compare;
mod denied;
mod diff;
mod doctor;
mod export;
mod export_parquet;
mod fuzzed;
mod heaps;
mod in_kernel;
mod interpose;
mod interpose_altered;
mod interpose_confined;
mod interpose_mappings;
mod interpose_memory;
mod interpose_owners;
mod interpose_programs;
mod interpose_record;
mod interpose_small;
mod interpose_thread;
mod interposed;
mod locks;
mod machine;
mod man;
mod output;
mod places;
mod programs;
mod record;
mod report;
mod rules;
mod run;
mod runtimes;
mod stat;
mod symbolize;
mod top;
mod traced;
mod unbreakable;
mod unbreakable_found;
mod why;
mod why_waits;
mod workload;

const FAULTLESS: &str = env!("CARGO_BIN_EXE_faultless");

fn faultless(words: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(FAULTLESS);
    command.args(words);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
