//! From a process to what was observed of it: as a whole ([`observe`]), or as a trace file ([`record()`]).
//!
//! In: a [`Request`], a command and the sources allowed to watch it. Out: an [`Observation`]: exact counts,
//! bursts of recorded faults, levels of faults and memory over time, kernel stacks, and a note on each
//! source. If the kernel refuses a source, a note says so and the rest goes on. Only a command that can't be
//! executed is an error.
//!
//! It does not correct, scale, classify (`trace`) or print.
//!
//! ```no_run
//! let request = faultless_prof::Request { command: vec!["true".into()], ..Default::default() };
//! let stat = faultless_trace::Stat::from_observation(&faultless_prof::observe(request)?);
//! println!("{} faults", stat.faults());
//! # Ok::<(), faultless_prof::Failure>(())
//! ```
#![forbid(unsafe_code)]

mod address_space;
mod allocations;
mod budget;
mod calibrate;
mod calls;
mod decode;
mod drain;
mod elf;
pub mod facts;
pub mod heaps;
mod in_kernel;
mod kernel;
mod levels;
pub mod live;
mod machine;
mod members;
mod monitor;
mod observe;
mod orphans;
pub mod perfdata;
mod poll_interval;
pub mod price;
mod record;
mod remedy;
mod request;
mod sampler;
mod samples;
mod session;
mod shape;
mod subject;
mod switches;
pub mod symbols;
mod thinning;
mod trace_file;
mod tuning;
mod unwind;
mod windows;
mod write_cost;

use faultless_trace::observation::Observation;

pub use facts::{host, host_name};
pub use monitor::Ticker;
pub use record::{Options, Progress, Recorded, Task, record};
pub use request::{Attach, Failure, Kernel, Request, Sources, Until, not_started};
pub use sampler::Sampler;
pub use symbols::Runtimes;

/// The folder for what one run keeps for the next, of this user alone; nothing is kept if it can't be made.
pub fn cache_folder() -> Option<std::path::PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(std::path::PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(caches?.join("faultless"))
}

/// Runs the command to its end and returns what was observed.
///
/// While it runs, SIGTERM, SIGHUP, SIGINT and SIGQUIT sent to this process are forwarded to it. This process
/// adopts orphaned descendants for the rest of its life (PR_SET_CHILD_SUBREAPER), so that it can ask for
/// their usage.
///
/// # Errors
/// The command did not start.
pub fn observe(request: Request) -> Result<Observation, Failure> {
    observe_with(request, None)
}

/// The same, with reports to `ticker` during the run.
///
/// # Errors
/// As [`observe`].
pub fn observe_with(request: Request, ticker: Option<Ticker<'_>>) -> Result<Observation, Failure> {
    let allow = request.allow;
    let (plan, words) = request.plan()?;
    let observation = observe::run(&plan, allow, &words[0], ticker)?;
    Ok(Observation { command: words, ..observation })
}

/// Watches running processes and returns what was observed of them meanwhile.
///
/// From now on, a request to end this process (SIGINT, SIGTERM, SIGHUP, SIGQUIT) ends the watching instead, also
/// where this process was started with SIGINT ignored, as in the background of a script.
///
/// # Errors
/// There is no such process, or no right to watch it.
pub fn observe_running(
    attach: Attach,
    allow: Sources,
    ticker: Option<Ticker<'_>>,
) -> Result<Observation, Failure> {
    observe::attach(attach, allow, ticker)
}

/// Watches all processes of the machine, this one among them. Ends as [`observe_running`].
///
/// # Errors
/// No right to watch the machine.
pub fn observe_machine(
    until: Until,
    allow: Sources,
    ticker: Option<Ticker<'_>>,
) -> Result<Observation, Failure> {
    observe::machine(until, allow, ticker)
}
