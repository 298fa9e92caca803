//! `faultless top`: page faults of a running system or program, live.
//!
//! In: nothing, a process or a command. Out: a screen that is drawn anew every interval (`screen`), or one frame of it as text,
//! or a line of JSON per interval. `prof::live` looks; `model` keeps what is shown, `frame` draws it.
//!
//! What it does not do: record (`faultless record`).

mod frame;
mod json;
mod model;
mod screen;
mod sites;
mod table;

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use faultless_os::spawn;
use faultless_prof::Request;
use faultless_prof::live::Live;
use faultless_trace::observation::Exit;

use super::{Failure, Outcome};
use model::Model;

/// Page faults of a running system or program, live.
///
/// For each process: faults per second, the time they take (faults times the price of one, which is measured here), their share of
/// the process's CPU time, and which share of them could be avoided with how much freed memory kept. Below: the functions that
/// touch the memory. All processes have rates; functions are to be had of all processes as root, else of one's own with -p or --.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  faultless top\n  faultless top -p $(pidof -s redis-server)\n  faultless top -- python3 script.py\n  \
                  faultless top --once -d 5\n  faultless top --json | jq '.processes[0]'\n\nKeys: ? shows them, q quits."
)]
pub(crate) struct Args {
    /// Watch this process and its descendants
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,

    /// Seconds from one look to the next, from 0.2 to 3600
    #[arg(short, long = "delay", value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    delay: Duration,

    /// Print one frame as text after one interval, and end
    #[arg(long)]
    once: bool,

    /// Print a line of JSON per interval; one only, with --once
    #[arg(long)]
    json: bool,

    /// Start this program and watch it. It ends with the view; its output goes to stderr with --once or --json, else nowhere
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Before the first interval of plain output.
const FIRST_LOOK: Duration = Duration::from_millis(200);

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.2..=3600.0).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err("expected a number of seconds from 0.2 to 3600".into()),
    }
}

/// Runs the verb.
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
        (None, true) => Live::of_command(request(args.command, plain)?)?,
        (None, false) => Live::of_system(),
    };
    let mut model = Model::new(machine(), subject, live.notes());
    if plain {
        if args.once && (started || args.pid.is_some()) {
            live.name_all();
        }
        if !started {
            // Who is busy, and so whose memory is worth following, shows first.
            std::thread::sleep(FIRST_LOOK);
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
    let plural = if host.cpus == 1 { "" } else { "s" };
    format!("Linux {kernel}, {} CPU{plural}", host.cpus)
}

/// The command, with its output out of the way of ours.
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

/// One interval after the other to stdout.
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
        let text = match json {
            true => json::line(model)?,
            false => frame::text(model, terminal_size::terminal_size().map_or(100, |(width, _)| width.0)),
        };
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // The reader has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(|error| super::no_stdout(&error))?,
        }
        if once || model.interval.ended.is_some() || spawn::asked_to_end() {
            return Ok(());
        }
    }
}

/// The program's own status if it has ended by itself; else it ends with the view.
fn end(live: &mut Live, subject: &str) -> ExitCode {
    const PATIENCE: Duration = Duration::from_secs(2);
    let by_itself = live.has_ended();
    if !by_itself && !spawn::asked_to_end() {
        // Reaches the program: `spawn` forwards it.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }
    let begin = Instant::now();
    while !live.has_ended() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    match live.exit() {
        Some(Exit::Status(status)) if by_itself => ExitCode::from(status as u8),
        Some(Exit::Signal(signal)) if by_itself => ExitCode::from(128_u8.saturating_add(signal as u8)),
        Some(_) => ExitCode::SUCCESS,
        None => {
            eprintln!("faultless: {subject} was asked to end and still runs");
            ExitCode::SUCCESS
        }
    }
}
