//! What `record` says beside the file.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use faultless_prof::{Options, Recorded};
use indicatif::{HumanBytes, HumanCount};

use crate::cmd::sink;

/// The lines at the end.
pub(super) fn closing(recorded: &Recorded, path: &str, options: &Options) -> String {
    let usage = recorded.usage;
    let faults = usage.minor_faults + usage.major_faults;
    let of = format!("{} faults, {} recorded", HumanCount(faults), HumanCount(recorded.recorded));
    let mut text = format!("faultless: {path}: {of}, {}", HumanBytes(recorded.file_bytes));
    let _ =
        writeln!(text, "; recording took about {:.1} % of the program's CPU time", 100.0 * recorded.overhead);
    if let Some(error) = &recorded.trouble {
        let reason = sink::reason(error);
        let _ = writeln!(
            text,
            "faultless: {path}: {reason}; the program ran on, the file holds what fitted; name a FILE elsewhere with -o"
        );
    }
    if recorded.cut_short {
        let _ = writeln!(
            text,
            "faultless: {path}: no single faults after {}: the file had grown to --max-size; raise it, or leave out --all",
            HumanBytes(options.max_bytes)
        );
    }
    let lost = recorded.event_losses.as_ref();
    let lost = lost.map_or(recorded.lost, |losses| losses.iter().map(|loss| loss.lost).sum());
    if lost > 0 {
        let _ = writeln!(
            text,
            "faultless: {} records were lost because the rings were full; counts are exact all the same, the rest is scaled",
            HumanCount(lost)
        );
    }
    let seen = recorded.counts.user_faults.unwrap_or(faults);
    if seen * 10 < faults && faults > 1000 {
        text += "faultless: the kernel took the events away, as from a set-user-ID program: run as root to see into it\n";
    }
    for source in recorded.sources.iter().filter(|source| !source.used && source.note != "not asked for") {
        let _ = writeln!(text, "faultless: missing: {}: {}", source.source, source.note);
    }
    let file = if path == crate::cmd::trace_file::DEFAULT { String::new() } else { format!(" {path}") };
    let _ = writeln!(text, "faultless: see it: faultless report{file}");
    text
}

/// The kernel closes a user's events when a set-user-ID program starts: said before it runs.
pub(super) fn warn_of_privileged(command: &[OsString]) {
    let Some(path) = command.first().and_then(|word| find(Path::new(word))) else { return };
    let Ok(file) = path.metadata() else { return };
    const SET_ID: u32 = 0o6000;
    let own = std::fs::metadata("/proc/self").map_or(0, |process| process.uid());
    if own != 0 && own != file.uid() && file.permissions().mode() & SET_ID != 0 {
        eprintln!(
            "faultless: {}: a set-user-ID program: the kernel shows nothing of it to a user; run as root",
            path.display()
        );
    }
}

/// The file that a command means.
fn find(command: &Path) -> Option<PathBuf> {
    if command.components().count() > 1 {
        return Some(command.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(|path| path.is_file())
}
