//! `faultless stat`.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use faultless_prof::{Kernel, Request, Sources};
use faultless_trace::Stat;
use faultless_trace::observation::Exit;

use super::Failure;

/// Run a program and tell what its page faults cost.
///
/// The program keeps its stdin, stdout, signals and exit status. The report goes to stderr when it has ended.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Report as JSON.
    #[arg(long)]
    json: bool,
    /// Write the report to FILE instead of stderr; it appears there whole or not at all.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Use only these sources of data; what the kernel refuses is left out by itself and named in the report.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sources: Option<Vec<SourceArg>>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceArg {
    /// Only the kernel's totals at the end (wait4), which are always there
    None,
    /// Exact counts of faults over the process tree (perf software events)
    Counters,
    /// The time of single faults, recorded in bursts; needs counters
    Pairs,
    /// Kernel stacks by CPU clock, as root; named like this also for short programs, where it costs 50 ms
    Kernel,
    /// Faults and memory over time, for the avoidable curve
    Levels,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> super::Outcome {
    let sink = Sink::prepare(args.output.as_deref())?;
    let allow = args.sources.as_deref().map_or_else(Sources::default, sources);
    let host = faultless_prof::host();
    let observation =
        faultless_prof::observe(Request { command: args.command, allow, host, ..Request::default() })?;
    let exit = observation.exit;
    let stat = Stat::from_observation(&observation);
    let report = if args.json {
        faultless_report::stat::json(&stat)
    } else {
        faultless_report::stat::text(&stat, sink.wants_colour())
    };
    sink.write(&report)?;
    Ok(code(exit))
}

fn sources(list: &[SourceArg]) -> Sources {
    let has = |source| list.contains(&source);
    Sources {
        counters: has(SourceArg::Counters),
        pairs: has(SourceArg::Pairs),
        kernel: if has(SourceArg::Kernel) { Kernel::Always } else { Kernel::No },
        levels: has(SourceArg::Levels),
    }
}

/// The program's status as a shell gives it.
fn code(exit: Exit) -> ExitCode {
    match exit {
        Exit::NotStarted => ExitCode::from(2),
        Exit::Status(status) => ExitCode::from(status as u8),
        Exit::Signal(signal) => ExitCode::from(128_u8.saturating_add(signal as u8)),
    }
}

/// Where the report goes; made before the program runs, so that hours of it are not lost to a typing error.
#[derive(Debug)]
enum Sink {
    Stderr,
    /// A pipe, a terminal, `/dev/null`: nothing to keep whole.
    Direct(PathBuf, File),
    /// A file beside the final one, renamed over it at the end.
    Aside(Aside),
}

#[derive(Debug)]
struct Aside {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Sink {
    fn prepare(output: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = output else { return Ok(Self::Stderr) };
        let failure =
            |error| Failure(format!("{}: {}; name another FILE after -o", path.display(), reason(&error)));
        // The file that a symbolic link points to is to be replaced, not the link.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if target.exists() {
            let file = OpenOptions::new().write(true).open(&target).map_err(failure)?;
            if !file.metadata().map_err(failure)?.is_file() {
                return Ok(Self::Direct(target, file));
            }
        }
        let mut name =
            target.file_name().ok_or_else(|| failure(io::ErrorKind::IsADirectory.into()))?.to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failure)?;
        Ok(Self::Aside(Aside { file, path, target }))
    }

    fn wants_colour(&self) -> bool {
        matches!(self, Self::Stderr) && io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    fn write(self, report: &str) -> Result<(), Failure> {
        let failure = |path: &Path, error| {
            Failure(format!("{}: {}; the report is lost", path.display(), reason(&error)))
        };
        match self {
            Self::Stderr => {
                // Nobody reads it any more: that is no failure of the program that was run.
                let _ = io::stderr().lock().write_all(report.as_bytes());
                Ok(())
            }
            Self::Direct(path, mut file) => {
                file.write_all(report.as_bytes()).map_err(|error| failure(&path, error))
            }
            Self::Aside(mut aside) => {
                aside.put(report.as_bytes()).map_err(|error| failure(&aside.target, error))
            }
        }
    }
}

impl Aside {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()?;
        std::fs::rename(&self.path, &self.target)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Gone already once it has been renamed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// An I/O error without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
