//! `faultless` from outside, one test program for all of it: each is linked anew after every change.
//!
//! `strict_commit` and `workload_faults` are programs of their own: one sets what holds for the whole machine, the other counts the
//! faults of all its children.

mod advise;
mod denied;
mod diff;
mod doctor;
mod export;
mod foreign;
mod fuzzed;
mod interpose;
mod interpose_altered;
mod interpose_owners;
mod interpose_programs;
mod interpose_record;
mod interpose_small;
mod interposed;
mod machine;
mod man;
mod output;
mod programs;
mod record;
mod report;
mod rules;
mod run;
mod stat;
mod top;
mod traced;
mod unbreakable;
mod unbreakable_found;
mod workload;

const FAULTLESS: &str = env!("CARGO_BIN_EXE_faultless");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
