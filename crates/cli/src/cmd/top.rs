//! `faultless top`: page faults of a running system or program, live.
//!
//! In: nothing, a process or a command. Out: a screen that is redrawn every interval (`screen`), one frame as
//! text, or a line of JSON per interval. `prof::live` observes, `model` holds the state, `frame` draws it.
//!
//! It does not record (`faultless record`).

mod frame;
mod json;
mod model;
mod screen;
mod sites;
mod table;
mod theme;

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::status;
use crate::pager;
use faultless_console::{Failure, Outcome, no_stdout};
use faultless_os::spawn;
use faultless_prof::Request;
use faultless_prof::live::Live;
use faultless_trace::measurement::Count;
use model::Model;

/// Show page faults of a running system or program, live.
///
/// Each process has a row: faults per second, the time in them, and their share of the process's CPU time.
/// The price of a fault is measured here. The row also shows which share of the faults is avoidable, and how
/// much freed memory that takes. Below the processes are the functions that touch the memory. Root sees
/// functions of all processes, other users see functions of their own processes with -p or --. A process that
/// begins and ends between two frames is in no row; `faultless stat -p` counts its faults.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  faultless top\n  faultless top -p $(pidof -s redis-server)\n  faultless top -- python3 script.py\n  \
                  faultless top --once -d 5\n  faultless top --json | jq '.processes[0]'\n\nKeys: ? shows them, q quits."
)]
pub(crate) struct Args {
    /// Watch this process and its descendants
    #[arg(short, long, value_name = "PID", value_parser = super::pid, conflicts_with = "command")]
    pid: Option<u32>,

    /// Seconds between frames, from 0.2 to 3600
    #[arg(short, long = "delay", value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    delay: Duration,

    /// Print one frame as text after one interval, then exit
    #[arg(long)]
    once: bool,

    /// Print one line of JSON per interval; with --once only one
    #[arg(long)]
    json: bool,

    /// Run this program and watch it. It is terminated when the view ends; its output goes to stderr with
    /// --once or --json, else nowhere
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Length of a first short interval before plain output.
const FIRST_INTERVAL: Duration = Duration::from_millis(200);

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.2..=3600.0).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err("expected a number of seconds from 0.2 to 3600".into()),
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let plain = args.once || args.json;
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !plain && !is_terminal {
        return Err(Failure(
            "the live view needs a terminal for input and output; use --once for one frame as text, or --json".into(),
        ));
    }
    spawn::remember_requests_to_end();
    let started = !args.command.is_empty();
    let subject = subject(&args);
    let mut live = match (args.pid, started) {
        (Some(pid), _) => Live::of_process(pid).map_err(Failure)?,
        (None, true) => match Live::of_command(request(args.command, plain)?) {
            Ok(live) => live,
            Err(failure) => return status::not_started(failure),
        },
        (None, false) if faultless_os::procfs::is_hidden() => {
            return Err(Failure(faultless_os::procfs::HIDDEN.into()));
        }
        (None, false) => Live::of_system(),
    };
    let mut model = Model::new(machine(), subject, live.notes());
    if plain {
        if args.once && (started || args.pid.is_some()) {
            live.name_all();
        }
        if !started {
            // A first short interval tells which processes are busy, and so whose memory to follow.
            std::thread::sleep(FIRST_INTERVAL);
            live.poll(model.threads_wanted());
        }
        print(&mut live, &mut model, args.delay, args.once, args.json)?;
    } else {
        screen::run(&mut live, &mut model, args.delay)?;
    }
    Ok(if started { end(&mut live, &model.subject) } else { ExitCode::SUCCESS })
}

fn subject(args: &Args) -> String {
    match (args.pid, args.command.first()) {
        (Some(pid), _) => {
            let found = faultless_os::procfs::running(pid, None);
            format!("{} ({pid})", found.map(|found| found.name).unwrap_or_default())
        }
        (None, Some(word)) => word.to_string_lossy().rsplit('/').next().unwrap_or_default().to_owned(),
        (None, None) => "all processes".to_owned(),
    }
}

fn machine() -> String {
    let host = faultless_prof::host();
    let kernel = host.kernel.split(['-', '+']).next().unwrap_or_default();
    format!("Linux {kernel}, {}", Count(host.cpus.into()).of("CPU"))
}

/// The command, with its output kept away from ours.
fn request(command: Vec<OsString>, plain: bool) -> Result<Request, Failure> {
    let null = || File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    let output = || if plain { std::io::stderr().as_fd().try_clone_to_owned() } else { null() };
    Ok(Request {
        command,
        stdin: if plain { None } else { Some(null()?) },
        stdout: Some(output()?),
        stderr: if plain { None } else { Some(null()?) },
        ..Request::default()
    })
}

/// Prints one interval after the other to stdout.
fn print(live: &mut Live, model: &mut Model, delay: Duration, once: bool, json: bool) -> Result<(), Failure> {
    loop {
        let until = Instant::now() + delay;
        while Instant::now() < until && !spawn::asked_to_end() && !live.has_ended() {
            let rest = until.saturating_duration_since(Instant::now());
            std::thread::sleep(Duration::from_nanos(live.pause_ns()).min(rest));
            live.tick();
        }
        if spawn::asked_to_end() && !once {
            return Ok(());
        }
        model.take(live.poll(model.threads_wanted()));
        let text = if json { json::line(model)? } else { frame::text(model, width()) };
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // The reader has closed the pipe early.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(|error| no_stdout(&error))?,
        }
        if once || model.interval.ended.is_some() || spawn::asked_to_end() {
            return Ok(());
        }
    }
}

/// Columns for one frame as text: those of the reader, else of any terminal at hand.
fn width() -> u16 {
    const USUAL: u16 = 100;
    let said = pager::columns(None).and_then(|columns| u16::try_from(columns).ok());
    said.unwrap_or_else(|| terminal_size::terminal_size().map_or(USUAL, |(width, _)| width.0))
}

/// The program's own status if it ended first; otherwise it is asked to end.
fn end(live: &mut Live, subject: &str) -> ExitCode {
    const PATIENCE: Duration = Duration::from_secs(2);
    let by_itself = live.has_ended();
    if !by_itself && !spawn::asked_to_end() {
        // `spawn` forwards this to the program.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }
    let begin = Instant::now();
    while !live.has_ended() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    match live.exit() {
        Some(exit) if by_itself => status::of(exit),
        Some(_) => ExitCode::SUCCESS,
        None => {
            eprintln!("faultless: {subject} was asked to end and still runs");
            ExitCode::SUCCESS
        }
    }
}
