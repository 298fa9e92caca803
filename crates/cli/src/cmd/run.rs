//! `faultless run`: a program, unchanged, with large blocks from the pool.
//!
//! In: flags and a command. Out: the command itself: this process becomes it, so that signals, status, standard input
//! and output pass by nature. What goes with it is an environment: `LD_PRELOAD` and the `FAULTLESS_*` variables of the
//! interposer, which children of the command inherit as well.
//!
//! [`environment`] gives that environment to other verbs.

mod library;
mod program;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::ValueEnum;
use faultless_os::host::Cgroup;
use faultless_pool::tuning;

use super::{Failure, Outcome};
use program::Program;
pub(crate) use program::find;

/// Run a program, unchanged, with large blocks from the pool.
///
/// The program's malloc hands blocks of --threshold and more to a pool that keeps freed pages resident and reuses
/// them, and that takes huge pages where the kernel lets it. Smaller blocks go to the allocator the program would have
/// used anyway, or to the one that --small names. The status is the program's own; 2 if it could not be started. Children use the pool as well; static ones
/// run as they are, and so do those that cannot load it (32-bit, or in a container of their own), where the loader says
/// "cannot be preloaded: ignored".
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  faultless run -- python3 script.py\n  faultless run --retain 64M --summary -- sort big.txt"
)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Which pages back the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Transparent huge pages, where the kernel has them for the asking
    #[default]
    Thp,
    /// Base pages only
    Base,
}

/// When pages become resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prefault {
    /// At the first touch
    #[default]
    None,
    /// When the block is handed out, by one call
    Populate,
}

/// Who serves blocks below the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Small {
    /// The allocator the program would have used anyway
    #[default]
    Next,
    /// mimalloc 3, for programs of many small objects
    Mimalloc,
}

/// How the pool behaves in the program.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Which pages back the pool
    #[arg(long, value_enum, default_value_t)]
    pub(crate) policy: Policy,

    /// When pages become resident
    #[arg(long, value_enum, default_value_t)]
    pub(crate) prefault: Prefault,

    /// Freed memory to keep at most, such as 64M; 0 keeps nothing [default: a quarter of the memory, at most 4G]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) retain: Option<u64>,

    /// Smallest block that comes from the pool, at least 16K [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = threshold)]
    pub(crate) threshold: Option<u64>,

    /// Who serves smaller blocks
    #[arg(long, value_enum, default_value_t)]
    pub(crate) small: Small,

    /// Report on standard error at exit what the pool did, for each process
    #[arg(long)]
    pub(crate) summary: bool,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> Outcome {
    let (name, arguments) = args.command.split_first().ok_or_else(|| Failure("no command given".into()))?;
    let program = find(name)?;
    let mut command = Command::new(&program.path);
    command.arg0(name).args(arguments);
    if let Some(reason) = program.immune() {
        eprintln!("faultless: {reason}; running it as it is");
    }
    // Children of an immune program may use the pool all the same.
    command.envs(environment(&args.options)?);
    let error = command.exec();
    Err(Failure(format!("cannot run {}: {error}; check that its interpreter exists", name.display())))
}

/// The environment under which a dynamically linked program gets its large blocks from the pool.
///
/// # Errors
/// The interposer could not be put where only this user can write.
pub(crate) fn environment(options: &Options) -> Result<Vec<(OsString, OsString)>, Failure> {
    let mut preload = library::install(&library::PRELOAD)?.into_os_string();
    if options.small == Small::Mimalloc {
        preload.push(":");
        preload.push(library::install(&library::SMALL)?);
    }
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let retain = options.retain.unwrap_or_else(default_retain);
    static TOLD: std::sync::Once = std::sync::Once::new();
    if options.retain.is_none() && !std::path::Path::new("/proc/meminfo").exists() {
        TOLD.call_once(|| eprintln!(
            "faultless: /proc is hidden, so how much memory there is can't be known: up to {} GiB of freed memory are kept; --retain sets another amount",
            retain >> 30
        ));
    }
    let policy = match options.policy {
        Policy::Thp => "thp",
        Policy::Base => "base",
    };
    let prefault = match options.prefault {
        Prefault::None => "none",
        Prefault::Populate => "populate",
    };
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("LD_PRELOAD".into(), preload),
        ("FAULTLESS_POLICY".into(), policy.into()),
        ("FAULTLESS_PREFAULT".into(), prefault.into()),
        ("FAULTLESS_RETAIN".into(), retain.to_string().into()),
        ("FAULTLESS_SUMMARY".into(), if options.summary { "1" } else { "0" }.into()),
    ];
    if let Some(threshold) = options.threshold {
        environment.push(("FAULTLESS_THRESHOLD".into(), threshold.to_string().into()));
    }
    Ok(environment)
}

/// Why the interposer cannot act in a program, if it cannot; `None` also when the program can't be found.
pub(crate) fn immune(name: &std::ffi::OsStr) -> Option<String> {
    find(name).ok().as_ref().and_then(Program::immune)
}

/// A share of the memory that this process may use: the machine's, or its control group's where that is less.
fn default_retain() -> u64 {
    let memory = faultless_os::map::memory_bytes().map(|bytes| bytes as u64);
    let group = Cgroup::now().and_then(|group| group.max_bytes);
    let bytes = memory.into_iter().chain(group).min().unwrap_or(u64::MAX);
    (bytes / tuning::RETAIN_SHARE as u64).min(tuning::RETAIN_BYTES as u64)
}

/// A size in bytes, or with one of the suffixes K, M, G, T.
fn size(text: &str) -> Result<u64, String> {
    let bare = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    let (number, shift) = match bare.chars().last().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => (&bare[..bare.len() - 1], 10),
        Some('M') => (&bare[..bare.len() - 1], 20),
        Some('G') => (&bare[..bare.len() - 1], 30),
        Some('T') => (&bare[..bare.len() - 1], 40),
        _ => (bare, 0),
    };
    let number: u64 = number.parse().map_err(|_| "expected a size such as 65536, 64K or 2G".to_string())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_string())
}

fn threshold(text: &str) -> Result<u64, String> {
    let least = tuning::GRANULE_BYTES as u64;
    size(text).and_then(|bytes| if bytes < least { Err("the least is 16K".into()) } else { Ok(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_suffixes_and_nothing_else() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("64K"), Ok(65536));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert!(["", "K", "-1", "1.5G", "12X", "99999999999T"].iter().all(|text| size(text).is_err()));
        assert!(threshold("8K").is_err());
    }

    #[test]
    fn the_default_keeps_at_most_the_maximum() {
        assert!(default_retain() <= 4 << 30);
    }
}
