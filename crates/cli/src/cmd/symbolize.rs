//! `faultless symbolize`: in: a trace, and where debug files are. Out: the trace with the names of its places.
//!
//! The names are added behind what the trace holds, which stays as it was, damage included.

mod sources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::trace_file;
use faultless_console::{Outcome, sink::Sink};
use faultless_prof::symbols::debug_files::{self, Wanted};
use faultless_prof::symbols::name_recording;
use faultless_trace::file::{Line, Writer};
use faultless_trace::measurement::Count;
use faultless_trace::recording::{Name, Recording};
use sources::Sources;

/// Files without a debug file that are named at the end.
const MISSING_SHOWN: usize = 20;

/// Name the functions of a trace afterwards, from debug files.
///
/// A trace holds the build ids of files and the places in them. So a program can be recorded where no debug files are
/// (`record --no-symbols`), and named elsewhere. After the given sources, this machine's own files are asked, if they have
/// the same build ids. The network is used only for a URL that is given here.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES
  faultless record --no-symbols -- ./program && faultless symbolize
  faultless symbolize --debuginfod /usr/lib/debug run.trace
  faultless symbolize --debuginfod http://debug.example:8002 -o named.trace run.trace",
    after_long_help = "EXAMPLES
  faultless record --no-symbols -- ./program && faultless symbolize
  faultless symbolize --debuginfod /usr/lib/debug run.trace
  faultless symbolize --debuginfod http://debug.example:8002 -o named.trace run.trace

DEBUG FILES
  A folder holds .build-id/xx/yyyy.debug, xx/yyyy.debug, or HEX/debuginfo as
  debuginfod's clients keep it. What a server sends is kept where these clients
  look for it: DEBUGINFOD_CACHE_PATH, else ~/.cache/debuginfod_client.

  Of a server that speaks https only, debuginfod-find(1) fetches into the same
  folder: debuginfod-find debuginfo BUILDID

  To make one for a program of yours:
    objcopy --only-keep-debug program program.debug
    readelf -n program                           # prints its build id

EXIT STATUS
  0  every file with nameless places was found
  1  some were not: they are listed on stderr
  2  nothing could be done, for the reason on stderr"
)]
pub(crate) struct Args {
    /// Where debug files are: a folder, or the URL of a debuginfod server
    ///
    /// The first that has a file is taken.
    #[arg(long, value_name = "URL|DIR")]
    debuginfod: Vec<String>,
    /// Write the named trace to FILE, atomically [default: TRACE is replaced]
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Trace file
    #[arg(value_name = "TRACE", default_value = trace_file::DEFAULT, value_hint = clap::ValueHint::FilePath)]
    trace: PathBuf,
}

pub(crate) fn run(args: Args) -> Outcome {
    let sources = Sources::new(&args.debuginfod)?;
    let output = args.output.as_deref().unwrap_or(&args.trace);
    let (bytes, recording) = trace_file::raw(&args.trace)?;
    let sink = Sink::file(output)?;
    let found = look_up(&recording, sources);
    if args.output.is_some() || !found.names.is_empty() {
        sink.fill(|out| {
            out.write_all(&bytes)?;
            let mut behind = Writer::behind(out);
            let mut lines = found.names.iter().map(|(frame, names)| Line::Symbol(*frame, names.clone()));
            lines.try_for_each(|line| behind.line(&line))?;
            behind.finish().map(drop)
        })?;
    }
    eprint!("{}", closing(output, &recording, &found));
    Ok(if found.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What was found.
#[derive(Debug, Default)]
struct Found {
    /// New names, by frame.
    names: BTreeMap<u32, Vec<Name>>,
    /// Files with nameless places that no debug file was found for.
    missing: Vec<Wanted>,
}

fn look_up(recording: &Recording, mut sources: Sources) -> Found {
    let mut found = Found::default();
    let wanted = debug_files::wanted(recording);
    for wanted in &wanted {
        let file = wanted.build_id.as_deref().and_then(|id| sources.find(id, &wanted.path));
        match file.map(|file| debug_files::names(recording, wanted, &file).map_err(|why| (file, why))) {
            Some(Ok(names)) => found.names.extend(names),
            Some(Err((file, why))) => eprintln!("faultless: {}: {why}", file.display()),
            None => {}
        }
    }
    for (number, names) in known_here(recording) {
        found.names.entry(number).or_insert(names);
    }
    let lacks_all = |wanted: &Wanted| {
        let mut nameless = wanted.frames.iter().filter(|(_, is_named)| !is_named).peekable();
        nameless.peek().is_some() && nameless.all(|(frame, _)| !found.names.contains_key(frame))
    };
    found.missing = wanted.into_iter().filter(lacks_all).collect();
    found
}

/// The names that this machine itself knows: those in its own files, and of the kernel and of generated code if they have
/// not changed since.
fn known_here(recording: &Recording) -> Vec<(u32, Vec<Name>)> {
    let (header, stacks) = (recording.header.clone(), recording.stacks.clone());
    let mut named = Recording { header, stacks, ..Recording::default() };
    name_recording(&mut named);
    let both = recording.stacks.frames.iter().zip(named.stacks.frames).zip(0..);
    let new = both.filter(|((before, after), _)| before.names.is_empty() && !after.names.is_empty());
    new.map(|((_, after), number)| (number, after.names)).collect()
}

/// The lines at the end.
fn closing(path: &Path, recording: &Recording, found: &Found) -> String {
    let frames = &recording.stacks.frames;
    let had = frames.iter().filter(|frame| !frame.names.is_empty()).count() as u64;
    let is_new = |frame: &&u32| frames.get(**frame as usize).is_some_and(|frame| frame.names.is_empty());
    let new = found.names.keys().filter(is_new).count() as u64;
    let (named, all) = (Count(had + new), Count(frames.len() as u64));
    let mut text = format!("faultless: {}: {named} of {all} places have names, ", path.display());
    text += &format!("{} had before\n", Count(had));
    for wanted in found.missing.iter().take(MISSING_SHOWN) {
        let id = wanted.build_id.as_deref().unwrap_or("it has no build id");
        let places = Count(wanted.nameless() as u64).of("place");
        text += &format!("faultless: no names for {places} of {}: {id}\n", wanted.path);
    }
    let more = found.missing.len().saturating_sub(MISSING_SHOWN);
    if more > 0 {
        text += &format!("faultless: nor for {} more\n", Count(more as u64).of("file"));
    }
    text
}
