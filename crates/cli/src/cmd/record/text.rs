//! The messages of `record` on stderr.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use faultless_console::reason;
use faultless_prof::{Options, Recorded};
use faultless_trace::measurement::Count;
use faultless_trace::observation::SourceNote;
use faultless_trace::stat::lost_records;
use indicatif::HumanBytes;

use crate::cmd::{run, trace_file};

/// The lines at the end.
pub(super) fn closing(recorded: &Recorded, path: &str, options: &Options) -> String {
    let usage = recorded.usage;
    // The final usage of a foreign process is unavailable; the counter replaces it.
    let counted = recorded.counts.all_faults.or(recorded.counts.user_faults).unwrap_or(0);
    let faults = (usage.minor_faults + usage.major_faults).max(counted);
    let of = match (recorded.complete, recorded.user_only) {
        (Some(all), false) => format!("complete: all {}", Count(all).of("fault")),
        (Some(all), true) => format!("complete: all {} in user mode", Count(all).of("fault")),
        (None, _) => format!("{}, {} recorded", Count(faults).of("fault"), Count(recorded.recorded)),
    };
    let mut text = format!("faultless: {path}: {of}, {}", HumanBytes(recorded.file_bytes));
    let _ = writeln!(text, "; recording took about {:.0} ms of CPU time", recorded.cost_ns / 1e6);
    if let Some(error) = &recorded.trouble {
        let reason = reason(error);
        let held = if is_empty(recorded) { "nothing fitted" } else { "the file holds what fitted" };
        let _ = writeln!(
            text,
            "faultless: {path}: {reason}; the program ran on, {held}; name a FILE elsewhere with -o"
        );
    }
    if recorded.cut_short {
        let _ = writeln!(
            text,
            "faultless: {path}: no single faults after {}: the file had grown to --max-size; raise it{}",
            HumanBytes(options.max_bytes),
            if options.every_fault { ", or leave out --all" } else { "" }
        );
    }
    let lost = recorded.event_losses.as_ref();
    let lost = lost.map_or(recorded.lost, |losses| losses.iter().map(|loss| loss.lost).sum());
    text.extend(lost_records(lost, recorded.recorded).map(|note| format!("faultless: {note}\n")));
    if recorded.counts.were_taken_away(&usage) {
        text += "faultless: the kernel took the events away, as from a set-user-ID program: run as root to see into it\n";
    }
    for wait4 in recorded.sources.iter().filter(|source| source.source == "wait4" && !source.note.is_empty())
    {
        let _ = writeln!(text, "faultless: counts are {}", wait4.note);
    }
    for source in recorded.sources.iter().filter(|source| is_told(source)) {
        let _ = writeln!(text, "faultless: missing: {}: {}", source.source, source.note);
    }
    text += &named(recorded.tables);
    if is_empty(recorded) || path == "-" {
        return text;
    }
    let file = if path == trace_file::DEFAULT { String::new() } else { format!(" {path}") };
    if options.leaves_files {
        let _ =
            writeln!(text, "faultless: name its functions: faultless symbolize --debuginfod URL|DIR{file}");
    }
    let _ = writeln!(text, "faultless: see it: faultless report{file}");
    text
}

/// What naming the functions of Python took: instructions under valgrind, 3.12.1 and 3.13.0 alike. A count, as
/// no time is the same twice.
fn named((python, _): (u64, u64)) -> String {
    match python {
        0 => String::new(),
        _ => "faultless: Python's functions are named: its perf trampolines were on, which added 2 % to \
              its instructions in a JSON job and 34 % in a loop of calls; --no-python leaves them off\n"
            .to_owned(),
    }
}

/// Sources that only root or a special kernel has. A user misses nothing without them; `report --explain`
/// lists them.
const FOR_ROOT: [&str; 5] = [
    "BPF",
    "page-faults in kernel mode too",
    "waits for mmap_lock",
    "calls that change the address space",
    "cpu-clock with kernel stacks",
];

/// Whether to report at once that a source is missing: the user may have counted on it.
fn is_told(source: &SourceNote) -> bool {
    let is_for_root = FOR_ROOT.contains(&source.source.as_str());
    !source.used && source.note != SourceNote::NOT_ASKED_FOR && !is_for_root
}

/// Whether not even the header could be written.
pub(super) fn is_empty(recorded: &Recorded) -> bool {
    recorded.file_bytes == 0
}

/// Whether it is a set-user-ID program of another user. Warns before the run: the kernel closes a user's events when a set-user-ID program starts.
pub(super) fn warn_of_privileged(command: &[OsString]) -> bool {
    let Some(path) = command.first().and_then(|word| Some(run::find(word).ok()?.path)) else { return false };
    let Ok(file) = path.metadata() else { return false };
    const SET_ID: u32 = 0o6000;
    let own = std::fs::metadata("/proc/self").map_or(0, |process| process.uid());
    let is_privileged = own != 0 && own != file.uid() && file.permissions().mode() & SET_ID != 0;
    if is_privileged {
        eprintln!(
            "faultless: {}: a set-user-ID program: the kernel shows nothing of it to a user; run as root",
            path.display()
        );
    }
    is_privileged
}
