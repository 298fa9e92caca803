//! A separate process for every sample: this program again, told to measure one cell.
//!
//! In: a cell. Out: its sample, read from the child's standard output as one JSON document, and what other
//! programs took of the processors meanwhile. A request to end this process (Ctrl-C) ends the child as well,
//! without a sample.

use std::ffi::OsString;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use faultless_os::activity::Activity;
use faultless_os::spawn::{self, Ending, Plan};

use crate::cell::{Cell, Refusal};
use crate::sample::{MACHINE, Sample};

/// How to start this program for one cell.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    words: Vec<OsString>,
}

/// How often a waiting parent checks whether the child has ended, ns. Where the kernel reports the end, the wait is
/// shorter.
const LOOK_NS: u64 = 50_000_000;

impl Launcher {
    /// `program` prints a [`Sample`] when it gets these words, the name of an experiment and its parameters.
    /// From now on a request to end this process is remembered until the next sample.
    pub fn new(program: PathBuf, words: &[&str]) -> Self {
        spawn::remember_requests_to_end();
        Self { program, words: words.iter().map(OsString::from).collect() }
    }

    /// Measures a cell, with these variables in its environment; `None` if a request to end came before or
    /// meanwhile. A process that ends without a sample is a violation, and this run does not try its cell
    /// again.
    ///
    /// # Errors
    /// The program could not be started.
    pub fn measure(
        &self,
        cell: &Cell,
        environment: &[(OsString, OsString)],
    ) -> Result<Option<Sample>, Refusal> {
        if spawn::asked_to_end() {
            return Ok(None);
        }
        let mut words = vec![self.program.clone().into_os_string()];
        words.extend(self.words.iter().cloned());
        words.push(cell.experiment.clone().into());
        words.extend(cell.words().into_iter().map(OsString::from));
        let mut printed = tempfile::tempfile().map_err(|error| {
            let folder = std::env::temp_dir();
            Refusal(format!("{}: {error}; name a folder that can be written in TMPDIR", folder.display()))
        })?;
        let plan =
            Plan::new(&words, environment)?.redirect([None, Some(OwnedFd::from(printed.try_clone()?)), None]);
        let before = Activity::now();
        let child = spawn::hold(&plan)?.release()?;
        while !child.ended_within(LOOK_NS, std::iter::empty()) {}
        let (ending, usage) = child.wait()?;
        let after = Activity::now();
        if spawn::asked_to_end() {
            return Ok(None);
        }
        let mut text = String::new();
        printed.rewind()?;
        printed.read_to_string(&mut text)?;
        let what = match ending {
            Ending::Status(0) => serde_json::from_str::<Sample>(&text)
                .map_err(|error| format!("printed something else than a sample ({error})")),
            Ending::Status(status) => Err(format!("ended with status {status}")),
            Ending::Signal(signal) => Err(format!("was ended by signal {signal}")),
        };
        let mut sample = match what {
            Ok(sample) => sample,
            Err(what) => {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                let text = format!("its process {what}; see what this says: {}", words.join(" "));
                let refused = Some(text.clone());
                return Ok(Some(Sample { violations: vec![text], refused, ..Sample::default() }));
            }
        };
        if let (Some(before), Some(after)) = (before, after) {
            let (others, steal) = after.shares_since(&before, usage.user_ns + usage.system_ns);
            sample.add(MACHINE, "others_share", others);
            sample.add(MACHINE, "steal_share", steal);
        }
        Ok(Some(sample))
    }
}
