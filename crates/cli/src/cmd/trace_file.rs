//! A trace file named on the command line.
//!
//! In: a path. Out: the whole recording, or one line with the reason and the remedy.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use faultless_console::{Failure, reason};
use faultless_prof::perfdata;
use faultless_prof::symbols::name_recording;
use faultless_trace::file;
use faultless_trace::measurement::Count;
use faultless_trace::observation::{Record, SourceNote, What};
use faultless_trace::recording::Recording;

/// The file that `record` writes and every view reads by default.
pub(crate) const DEFAULT: &str = "faultless.trace";

/// Without these sources no single faults are recorded.
const EVENTS: [&str; 2] = ["page-faults:u", "fault pairs"];

/// The trace to read.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArg {
    /// Trace file, or perf.data of perf record
    ///
    /// Written by `faultless record`, or by `perf record -e page-faults -c 1 -g -d`.
    #[arg(value_name = "FILE", default_value = DEFAULT, value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
}

impl TraceArg {
    /// Reads the trace. Missing parts are reported on stderr.
    ///
    /// # Errors
    /// The file can't be read, or is no trace.
    pub(crate) fn load(&self) -> Result<Recording, Failure> {
        load(&self.file)
    }
}

/// Reads the trace at `path`.
///
/// # Errors
/// The file can't be read, or is no trace.
pub(crate) fn load(path: &Path) -> Result<Recording, Failure> {
    let name = path.display();
    let bytes = open(path)?;
    let is_foreign = perfdata::is_perf_data(&bytes);
    let read = if is_foreign {
        perfdata::read(&bytes).map_err(|error| error.to_string())
    } else {
        file::read(&bytes)
    };
    let mut recording = read.map_err(|error| Failure(format!("{name}: {error}")))?;
    // `record` adds all names when it finishes a file.
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

/// The trace at `path` with its bytes, to be added to.
///
/// # Errors
/// The file can't be read, or is no trace of ours.
pub(crate) fn raw(path: &Path) -> Result<(Vec<u8>, Recording), Failure> {
    let name = path.display();
    let bytes = open(path)?;
    if perfdata::is_perf_data(&bytes) {
        let remedy = "name a trace of `faultless record`";
        return Err(Failure(format!("{name}: a file of perf, which takes no names; {remedy}")));
    }
    let recording = file::read(&bytes).map_err(|error| Failure(format!("{name}: {error}")))?;
    Ok((bytes, recording))
}

fn open(path: &Path) -> Result<Vec<u8>, Failure> {
    bytes(path).map_err(|error| {
        let (name, reason) = (path.display(), reason(&error));
        Failure(format!("{name}: {reason}; name a trace FILE, or write one: faultless record -- CMD"))
    })
}

/// Fails if the allocation recorder was off: nothing is known of who allocated. `otherwise` is what else to do.
///
/// # Errors
/// There is no allocation in the recording.
pub(crate) fn needs_allocations(recording: &Recording, otherwise: &str) -> Result<(), Failure> {
    match recording.header.settings.alloc_from_bytes {
        Some(_) => Ok(()),
        None => {
            let remedy = "record it with faultless record --alloc";
            Err(Failure(format!("the recording holds no allocations; {remedy}, or {otherwise}")))
        }
    }
}

/// If faults were counted but none was recorded: how many, and why.
fn only_counted(recording: &Recording) -> Option<String> {
    let observation = &recording.observation;
    let counted = observation.usage.minor_faults + observation.usage.major_faults;
    let single = |record: &Record| matches!(record.what, What::Enter { .. } | What::Sample { .. });
    if counted == 0 || observation.records.iter().any(single) {
        return None;
    }
    let why = match denied(&observation.sources) {
        Some(why) => format!("; {why}"),
        None if recording.header.settings.user_only => {
            "; the kernel shows nothing of a set-user-ID program to a user: record it as root".to_owned()
        }
        None => String::new(),
    };
    let were = if counted == 1 { "was" } else { "were" };
    Some(format!("{} {were} counted and none was recorded{why}", Count(counted)))
}

/// Why there are no single faults, if the sources say.
pub(crate) fn denied(sources: &[SourceNote]) -> Option<String> {
    let denied = |source: &&SourceNote| !source.used && EVENTS.contains(&source.source.as_str());
    sources.iter().find(denied).map(|source| format!("{}: {}", source.source, source.note))
}

/// The whole content of a file or pipe. Devices have no end and hold no trace.
fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(if path == Path::new("-") { Path::new("/dev/stdin") } else { path })?;
    let kind = file.metadata()?.file_type();
    let mut bytes = Vec::new();
    if !kind.is_char_device() && !kind.is_block_device() {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
