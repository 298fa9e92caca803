//! `faultless record`: in: a command or running processes. Out: a trace file, and a summary on stderr.

mod file;
pub(super) mod runtimes;
mod text;

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use faultless_console::{Failure, Outcome};
use faultless_prof::{Options, Progress, Recorded, Request, Runtimes, Task};
use faultless_trace::measurement::Count;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use self::file::PartFile;
use super::attach::{self, Target};
use super::run::size::size;
use super::{status, trace_file};

/// Record who takes page faults and what they cost, into a trace file.
///
/// At least the first 8,000 faults are recorded one by one, so a short program is covered completely. Later
/// faults are recorded in short bursts. Between the bursts a sample of them, one in a few hundred, is recorded
/// with its stack. All others are only counted, so the program stays about as fast as it was.
///
/// The program keeps its stdin, stdout, signals and exit status. While it runs, the file is called FILE.part.
/// If the recorder is killed, `faultless report FILE.part` still reads it. Of the environment and of children's words only
/// settings of allocators and runtimes are recorded; MECHANISMS.md lists them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  faultless record -- python3 script.py\n  faultless record --all -o grep.trace -- grep -r word .\n  \
    faultless record --jit -- node app.js\n  faultless record -p $(pidof redis-server) --for 10s\n  faultless report                                # shows the result"
)]
pub(crate) struct Args {
    #[command(flatten)]
    running: attach::Args,
    /// Refused: a trace is of named processes. With `stat`, as with perf, it is the whole machine.
    #[arg(short, long, hide = true)]
    all_cpus: bool,
    /// Record every fault. A program that only faults takes several times as long.
    #[arg(long)]
    all: bool,
    /// Also record who allocates and frees blocks of at least SIZE [default: 64K].
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "64K", value_parser = size, conflicts_with_all = ["pid", "cgroup"])]
    alloc: Option<u64>,
    /// Do not record who gives memory back [default: root sees it by tracepoints; else seccomp and ptrace stop the program at
    /// each such call: that takes 5 to 50 us, no debugger can trace it, set-user-ID programs in it run without their rights, and
    /// seccomp's strict mode and CLONE_UNTRACED fail].
    #[arg(long, conflicts_with_all = ["pid", "cgroup"])]
    no_calls: bool,
    /// Of running processes also record who gives memory back. It needs root, and slows each system call of the machine by 0.1
    /// to 0.4 us.
    #[arg(long, conflicts_with = "no_calls")]
    calls: bool,
    /// Do not name Python functions [default: Python 3.12 and later runs with perf trampolines, which name them].
    #[arg(long)]
    no_python: bool,
    /// Also name Node and Java functions, through NODE_OPTIONS and JAVA_TOOL_OPTIONS.
    #[arg(long, conflicts_with_all = ["pid", "cgroup"])]
    jit: bool,
    /// Do not name the functions of files: `faultless symbolize` does it later, also on another machine.
    #[arg(long)]
    no_symbols: bool,
    /// CPU clock samples per second of CPU time; 0 for none [default: 199 as root, else 0: only root sees the
    /// kernel].
    #[arg(short = 'F', long, value_name = "HZ")]
    frequency: Option<u64>,
    /// Stop recording single faults once the file has grown to SIZE.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "2G")]
    max_size: u64,
    /// Trace file to write; - is standard output, and the program's own output then goes to standard error.
    #[arg(short, long, value_name = "FILE", default_value = trace_file::DEFAULT, value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,
    /// The program and its arguments.
    #[arg(required_unless_present_any = ["pid", "cgroup", "all_cpus"], trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let is_running = args.running.is_given();
    let (variables, runtimes) = match is_running {
        true => (Vec::new(), Runtimes::default()),
        false => runtimes::variables(!args.no_python, args.jit),
    };
    // Following would take such a program's rights.
    let is_privileged = text::warn_of_privileged(&args.command);
    let options = Options {
        runtimes,
        every_fault: args.all,
        alloc_from_bytes: args.alloc,
        cpu_hertz: args.frequency,
        max_bytes: args.max_size,
        names: names_folder(),
        leaves_files: args.no_symbols,
        calls: args.calls || !(args.no_calls || is_running || is_privileged),
        ..Options::default()
    };
    if args.all_cpus {
        return Err(Failure(
            "record takes no whole machine: name processes with -p or --cgroup, or count them all with stat -a".into(),
        ));
    }
    if args.calls && faultless_os::host::user().0 != 0 {
        return Err(Failure("--calls needs root, who sees system calls by tracepoints".into()));
    }
    let task = task(&args, variables)?;
    if args.output == Path::new("-") {
        return to_stdout(task, is_running, &options);
    }
    let part = PartFile::create(&args.output)?;
    let recorded = match record(task, &options, part.out()?) {
        Ok(recorded) => recorded,
        Err(failure) => {
            part.discard();
            return status::not_started(failure);
        }
    };
    let code = code(&recorded, is_running);
    let path = match recorded.trouble {
        Some(_) if text::is_empty(&recorded) => part.discard(),
        Some(_) => part.path().to_owned(),
        None => part.keep()?,
    };
    eprint!("{}", text::closing(&recorded, &short(&path), &options));
    Ok(code)
}

/// Records into standard output. What the program prints goes to standard error instead.
fn to_stdout(task: Task, is_running: bool, options: &Options) -> Outcome {
    let stdout = std::io::stdout();
    if stdout.is_terminal() {
        return Err(Failure(
            "a trace is not for a terminal; send standard output to a file or a pipe".into(),
        ));
    }
    let out = File::from(stdout.as_fd().try_clone_to_owned()?);
    let task = match task {
        Task::Command(request) => {
            let said = std::io::stderr().as_fd().try_clone_to_owned()?;
            Task::Command(Request { stdout: Some(said), ..request })
        }
        task => task,
    };
    let recorded = match record(task, options, Box::new(out)) {
        Ok(recorded) => recorded,
        Err(failure) => return status::not_started(failure),
    };
    eprint!("{}", text::closing(&recorded, "-", options));
    Ok(code(&recorded, is_running))
}

/// The status of the program, or whether a recording of a running one is whole.
fn code(recorded: &Recorded, is_running: bool) -> ExitCode {
    match recorded.trouble {
        Some(_) if is_running => ExitCode::FAILURE,
        _ => status::of(recorded.exit),
    }
}

/// Records, with a line of progress on a terminal.
pub(super) fn record(
    task: Task,
    options: &Options,
    out: Box<dyn Write>,
) -> Result<Recorded, faultless_prof::Failure> {
    let bar = progress_bar();
    let recorded = faultless_prof::record(task, options, out, &mut |progress| show(bar.as_ref(), progress));
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    recorded
}

fn task(args: &Args, variables: Vec<(OsString, OsString)>) -> Result<Task, Failure> {
    Ok(match args.running.target(args.command.clone())? {
        Target::Running(attach) => Task::Running(attach),
        Target::Command(command) => {
            let mut env = variables;
            if args.alloc.is_some() {
                env.extend(recording(&command)?);
            }
            Task::Command(Request { command, env, ..Request::default() })
        }
    })
}

/// The environment that loads the interposer. Blocks still come from the program's own malloc. If the program
/// or a child is `faultless run`, that one adds its pool.
fn recording(command: &[OsString]) -> Result<Vec<(OsString, OsString)>, Failure> {
    if let Some(reason) = command.first().and_then(|name| super::run::immune(name)) {
        eprintln!("faultless: {reason}; who allocates in it can't be recorded");
    }
    Ok(vec![
        ("LD_PRELOAD".into(), super::run::preload(None)?),
        ("FAULTLESS_THRESHOLD".into(), "never".into()),
    ])
}

/// The folder that keeps names from one recording to the next.
pub(super) fn names_folder() -> Option<PathBuf> {
    Some(faultless_prof::cache_folder()?.join("names"))
}

/// The path relative to the current folder, if it lies below.
fn short(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

fn progress_bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("recording {elapsed}: {msg}").ok()?;
    std::io::stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style))
}

fn show(bar: Option<&ProgressBar>, progress: &Progress) {
    let Some(bar) = bar else { return };
    let (faults, recorded) = (Count(progress.faults).of("fault"), Count(progress.recorded));
    bar.set_message(format!("{faults}, {recorded} recorded, {}", HumanBytes(progress.file_bytes)));
    bar.tick();
}
