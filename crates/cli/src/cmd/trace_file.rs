//! A trace file from the command line: read whole, or one line that says why not and what to do.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use faultless_prof::perfdata;
use faultless_prof::symbols::name_recording;
use faultless_trace::file;
use faultless_trace::measurement::Count;
use faultless_trace::observation::{Record, SourceNote, What};
use faultless_trace::recording::Recording;

use super::{Failure, sink};

/// The name that `record` writes and every view reads where none is given.
pub(crate) const DEFAULT: &str = "faultless.trace";

/// Sources without which there are no single faults.
const EVENTS: [&str; 2] = ["page-faults:u", "fault pairs"];

/// The trace to read.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArg {
    /// Trace file written by `faultless record`, or perf.data of `perf record -e page-faults -c 1 -g -d`.
    #[arg(value_name = "FILE", default_value = DEFAULT, value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
}

impl TraceArg {
    /// Reads it. What it should hold and does not is said on stderr.
    ///
    /// # Errors
    /// It can't be read, or is no trace.
    pub(crate) fn load(&self) -> Result<Recording, Failure> {
        load(&self.file)
    }
}

/// Reads the trace at `path`.
///
/// # Errors
/// It can't be read, or is no trace.
pub(crate) fn load(path: &Path) -> Result<Recording, Failure> {
    let name = path.display();
    let bytes = bytes(path).map_err(|error| {
        let reason = sink::reason(&error);
        Failure(format!("{name}: {reason}; name a trace FILE, or write one: faultless record -- CMD"))
    })?;
    let is_foreign = perfdata::is_perf_data(&bytes);
    let read = match is_foreign {
        true => perfdata::read(&bytes).map_err(|error| error.to_string()),
        false => file::read(&bytes).map_err(|error| error.to_string()),
    };
    let mut recording = read.map_err(|error| Failure(format!("{name}: {error}")))?;
    // What `record` has finished holds all names that there were.
    if is_foreign || recording.footer.is_none() {
        name_recording(&mut recording);
    }
    for missing in &recording.missing {
        eprintln!("faultless: {name}: missing: {missing}");
    }
    if let Some(counted) = only_counted(&recording) {
        eprintln!("faultless: {name}: missing: single faults: {counted}");
    }
    Ok(recording)
}

/// Where faults were counted and none was recorded: how many, and why as far as is known.
fn only_counted(recording: &Recording) -> Option<String> {
    let observation = &recording.observation;
    let counted = observation.usage.minor_faults + observation.usage.major_faults;
    let single = |record: &Record| matches!(record.what, What::Enter { .. } | What::Sample { .. });
    if counted == 0 || observation.records.iter().any(single) {
        return None;
    }
    let denied = |source: &&SourceNote| !source.used && EVENTS.contains(&source.source.as_str());
    let why = match observation.sources.iter().find(denied) {
        Some(source) => format!("; {}: {}", source.source, source.note),
        None if recording.header.settings.user_only => {
            "; the kernel shows nothing of a set-user-ID program to a user: record it as root".to_owned()
        }
        None => String::new(),
    };
    Some(format!("{} were counted and none was recorded{why}", Count(counted)))
}

/// All of a file or pipe. Devices have no end, and hold no trace.
fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let kind = file.metadata()?.file_type();
    let mut bytes = Vec::new();
    if !kind.is_char_device() && !kind.is_block_device() {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
