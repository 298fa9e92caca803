//! Options that name running processes, the same for `stat` and `record`.
//!
//! In: process ids, a control group, a time, and the words of the command line. Out: a [`Target`], or one line that
//! says which word is no process.

mod cgroup;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use faultless_console::{Failure, span};
use faultless_prof::{Attach, Request, Until};

/// Which running processes, and for how long.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Watch running processes, their threads and future children, until they end or Ctrl-C. With CMD: until CMD has
    /// ended.
    #[arg(short, long, value_name = "PID,...", value_parser = pids)]
    pid: Vec<Pids>,
    /// Watch the processes that are in this control group now, and their future children. PATH as /proc/PID/cgroup
    /// prints it, or a folder below /sys/fs/cgroup.
    #[arg(long, value_name = "PATH", conflicts_with = "pid", value_hint = clap::ValueHint::DirPath)]
    cgroup: Option<PathBuf>,
    /// Stop watching after this time, such as 10s or 500ms.
    #[arg(long = "for", value_name = "TIME", value_parser = span, conflicts_with = "command")]
    span: Option<Duration>,
}

/// Whom to watch.
pub(crate) enum Target {
    Command(Vec<OsString>),
    Running(Attach),
}

impl Args {
    /// Whether running processes are named.
    pub(crate) fn is_given(&self) -> bool {
        !self.pid.is_empty() || self.cgroup.is_some() || self.span.is_some()
    }

    /// The target, where `command` holds the other words of the command line. Leading numbers after `-p` are process
    /// ids too: `-p $(pidof program)` gives several.
    pub(crate) fn target(&self, command: Vec<OsString>) -> Result<Target, Failure> {
        let mut pids = match &self.cgroup {
            Some(path) => cgroup::members(Path::new("/"), path)?,
            None => self.pid.iter().flat_map(|pids| pids.0.iter().copied()).collect(),
        };
        if pids.is_empty() {
            return match self.span {
                Some(_) => {
                    Err(Failure("--for is for -p and --cgroup; `timeout 10 CMD` ends a command".into()))
                }
                None => Ok(Target::Command(command)),
            };
        }
        let numbers = command.iter().map_while(|word| word.to_str()?.parse().ok());
        let more: Vec<u32> = numbers.take_while(|_| self.cgroup.is_none()).collect();
        let words = command[more.len()..].to_vec();
        if let Some(option) = words.first().filter(|word| word.as_encoded_bytes().starts_with(b"-")) {
            return Err(Failure(format!("{}: write options before the process ids", option.display())));
        }
        pids.extend(more);
        Ok(Target::Running(Attach { pids, until: self.until(words) }))
    }

    /// When to end, where `words` is a command that says so.
    pub(crate) fn until(&self, words: Vec<OsString>) -> Until {
        match self.span {
            Some(span) => Until::Span(span),
            None if words.is_empty() => Until::Ended,
            None => Until::Command(Request { command: words, ..Request::default() }),
        }
    }
}

/// Process ids of one word.
#[derive(Clone, Debug)]
struct Pids(Vec<u32>);

/// Ids with commas or blanks between them: `-p "$(pidof program)"` gives blanks.
fn pids(word: &str) -> Result<Pids, String> {
    let parts = word.split([',', ' ', '\t', '\n']).filter(|part| !part.is_empty());
    let pids: Vec<u32> = parts.map(super::pid).collect::<Result<_, _>>()?;
    if pids.is_empty() { Err(super::NO_PID.into()) } else { Ok(Pids(pids)) }
}
