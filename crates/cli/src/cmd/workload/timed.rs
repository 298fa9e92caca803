//! timed: programs that time every one of their own touches, for `doctor --check`.
//!
//! In: the kind of touches, how many per round, and the number of rounds. Out: one line of JSON on stdout:
//! the count and the time of each kind of fault. The tick counter runs around each access, so times include
//! the trap and interrupts. As in `stat`, one touch counts as at most [`WAIT_LATENCY_RATIO`] medians.
//!
//! It does not time its own start, which takes a few hundred more faults, and it does not judge
//! (`doctor::check`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

use clap::ValueEnum;
use faultless_console::{Failure, Outcome, emit};
use faultless_os::counters::{self, Who};
use faultless_os::file::{FileMap, PrivateMap};
use faultless_os::page;
use faultless_os::touch::{HeldCopy, Region, empty_ticks, time_read, time_write};
use faultless_prof::facts;
use faultless_trace::observation::Host;
use faultless_trace::stat::{Kind, WAIT_LATENCY_RATIO};
use serde::{Deserialize, Serialize};

/// Run a program that times each of its own touches.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(super) struct Args {
    /// Kind of touches.
    #[arg(value_enum)]
    what: Touches,
    /// Pages per round.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(16..=1 << 24))]
    pages: u32,
    /// Rounds, each with new memory.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// The touches of a timed program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Touches {
    /// Base pages, by writing
    FirstTouch,
    /// Base pages, by reading, then by writing
    ZeroPage,
    /// Base pages, by writing, and again after a fork
    Copy,
    /// Four huge pages and base pages
    Thp,
    /// Huge pages of an intermediate size
    Mthp,
    /// A file, by reading every sixteenth page
    FileRead,
    /// A private file mapping, by writing
    FileWrite,
    /// Base pages, by two threads at once
    Threads,
    /// First touches, the zero page, copies and private file writes, one after the other
    Phases,
    /// Base pages, by children one after another
    Children,
}

/// Faults of a kind, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timed {
    /// Number of faults.
    pub(crate) faults: u64,
    /// Time of all of them, the trap included, ns.
    pub(crate) ns: f64,
}

/// The output of a timed program.
pub(crate) type TimedTouches = BTreeMap<Kind, Timed>;

/// Huge pages per round.
const THPS: usize = 4;
/// Pages that one file fault maps around it (`fault_around_bytes`, 64 KiB unless root changed it).
const AROUND_PAGES: usize = 16;

pub(super) fn run(args: &Args) -> Outcome {
    let mut times = Times::new();
    for _ in 0..args.rounds {
        args.what.round(&mut times, args.pages as usize)?;
    }
    emit((serde_json::to_string(&times.told)? + "\n").as_bytes(), ExitCode::SUCCESS)
}

impl Touches {
    fn round(self, times: &mut Times, pages: usize) -> Result<(), Failure> {
        let bytes = pages * page::size();
        let base_pages = || Region::base_pages(bytes, page::size());
        match self {
            Self::FirstTouch => times.writes(Kind::MmapFirstWrite, &mut base_pages()?, page::size()),
            Self::ZeroPage => {
                let mut region = base_pages()?;
                times.reads(Kind::ZeroPageRead, &region);
                times.writes(Kind::WriteAfterZeroRead, &mut region, page::size());
            }
            Self::Copy => {
                let mut region = base_pages()?;
                times.writes(Kind::MmapFirstWrite, &mut region, page::size());
                let copy = HeldCopy::new()?;
                times.writes(Kind::CowAfterFork, &mut region, page::size());
                drop(copy);
            }
            Self::Thp => {
                let thp_bytes = times.host().thp_bytes as usize;
                times.writes(Kind::Thp, &mut Region::thp(THPS * thp_bytes, thp_bytes)?, thp_bytes);
                times.writes(Kind::MmapFirstWrite, &mut base_pages()?, page::size());
            }
            Self::Mthp => {
                let page_bytes = times.host().mthp_bytes.iter().copied().max().unwrap_or(0) as usize;
                let page_bytes = page_bytes.max(page::size());
                let mut region = Region::mthp((bytes / page_bytes).max(1), page_bytes)?;
                times.writes(Kind::MmapFirstWrite, &mut region, 2 * page_bytes);
            }
            Self::FileRead => {
                let map = FileMap::new(times.file(bytes)?, bytes)?;
                times.pass(Kind::FileRead, map.time_reads((0..bytes).step_by(AROUND_PAGES * page::size())));
            }
            Self::FileWrite => {
                let mut map = PrivateMap::new(times.file(bytes)?, bytes)?;
                times.pass(Kind::FilePrivateWrite, map.time_writes((0..bytes).step_by(page::size())));
            }
            Self::Threads => times.two_threads(bytes)?,
            Self::Phases => {
                Self::FirstTouch.round(times, 8 * pages)?;
                Self::ZeroPage.round(times, 2 * pages)?;
                Self::Copy.round(times, pages)?;
                Self::FileWrite.round(times, pages)?;
            }
            Self::Children => times.child(pages)?,
        }
        Ok(())
    }
}

/// Times by kind, and the means to take them.
struct Times {
    told: TimedTouches,
    batch: Vec<u64>,
    file: Option<File>,
    host: Option<Host>,
    tick_ns: f64,
    empty_ticks: u64,
}

impl Times {
    fn new() -> Self {
        let (tick_ns, empty_ticks) = (counters::tick_ns(), empty_ticks());
        Self { told: TimedTouches::new(), batch: Vec::new(), file: None, host: None, tick_ns, empty_ticks }
    }

    /// This machine, read on first use.
    fn host(&mut self) -> &Host {
        self.host.get_or_insert_with(facts::host)
    }

    fn writes(&mut self, kind: Kind, region: &mut Region, step_bytes: usize) {
        self.pass(kind, region.bytes_mut().iter_mut().step_by(step_bytes).map(|slot| time_write(slot, 1)));
    }

    fn reads(&mut self, kind: Kind, region: &Region) {
        self.pass(kind, region.bytes().iter().step_by(page::size()).map(time_read));
    }

    /// Times a pass over some memory. If f of n touches faulted, the f slowest are taken to be those.
    fn pass(&mut self, kind: Kind, touches: impl Iterator<Item = u64>) {
        self.batch.clear();
        let before = faults();
        self.batch.extend(touches);
        let faults = (faults() - before).min(self.batch.len() as u64) as usize;
        self.batch.sort_unstable_by(|a, b| b.cmp(a));
        self.batch.truncate(faults);
        self.take(kind);
    }

    /// Adds up the sorted batch.
    fn take(&mut self, kind: Kind) {
        let Some(&median) = self.batch.get(self.batch.len() / 2) else { return };
        let most = median as f64 * WAIT_LATENCY_RATIO;
        let ticks: f64 = self.batch.iter().map(|&ticks| (ticks as f64).min(most)).sum();
        let empty = (self.empty_ticks * self.batch.len() as u64) as f64;
        self.add(
            kind,
            Timed { faults: self.batch.len() as u64, ns: (ticks - empty).max(0.0) * self.tick_ns },
        );
    }

    fn add(&mut self, kind: Kind, more: Timed) {
        let timed = self.told.entry(kind).or_default();
        timed.faults += more.faults;
        timed.ns += more.ns;
    }

    /// A file of this many bytes in the page cache, made on first use.
    fn file(&mut self, bytes: usize) -> std::io::Result<&File> {
        if self.file.is_none() {
            let mut file = super::super::rounds::file_on_disk()?;
            let piece = vec![1; AROUND_PAGES * page::size()];
            for _ in 0..bytes.div_ceil(piece.len()) {
                file.write_all(&piece)?;
            }
            self.file = Some(file);
        }
        self.file.as_ref().ok_or_else(|| std::io::Error::other("no file"))
    }

    /// Two threads at once, each with its own memory.
    fn two_threads(&mut self, bytes: usize) -> Result<(), Failure> {
        let one = || -> faultless_os::Result<TimedTouches> {
            let mut times = Self::new();
            times.writes(
                Kind::MmapFirstWrite,
                &mut Region::base_pages(bytes / 2, page::size())?,
                page::size(),
            );
            Ok(times.told)
        };
        let both = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(one));
            threads.map(|thread| thread.join().unwrap_or_else(|_| Ok(TimedTouches::new())))
        });
        for told in both {
            told?.into_iter().for_each(|(kind, timed)| self.add(kind, timed));
        }
        Ok(())
    }

    /// A child process that does [`Touches::FirstTouch`].
    fn child(&mut self, pages: usize) -> Result<(), Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["workload", "timed", "first-touch", "--pages", &pages.to_string()]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let told: TimedTouches = serde_json::from_slice(&output.stdout)?;
        told.into_iter().for_each(|(kind, timed)| self.add(kind, timed));
        Ok(())
    }
}

/// Faults of this thread.
fn faults() -> u64 {
    counters::rusage(Who::Thread).map_or(0, |usage| usage.minor_faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(what: Touches, pages: usize) -> Vec<(Kind, u64)> {
        let mut times = Times::new();
        what.round(&mut times, pages).unwrap();
        assert!(times.told.values().all(|timed| timed.ns > 50.0 * timed.faults as f64), "{:?}", times.told);
        times.told.into_iter().map(|(kind, timed)| (kind, timed.faults)).collect()
    }

    #[test]
    fn every_touch_of_a_new_page_is_timed_and_none_besides() {
        use Kind::{
            CowAfterFork, FilePrivateWrite, FileRead, MmapFirstWrite, WriteAfterZeroRead, ZeroPageRead,
        };
        assert_eq!(told(Touches::FirstTouch, 300), [(MmapFirstWrite, 300)]);
        assert_eq!(told(Touches::ZeroPage, 300), [(ZeroPageRead, 300), (WriteAfterZeroRead, 300)]);
        assert_eq!(told(Touches::Copy, 300), [(MmapFirstWrite, 300), (CowAfterFork, 300)]);
        assert_eq!(told(Touches::FileWrite, 300), [(FilePrivateWrite, 300)]);
        assert_eq!(told(Touches::Threads, 300), [(MmapFirstWrite, 300)]);
        let [(FileRead, faults)] = told(Touches::FileRead, 1600)[..] else { panic!("files alone") };
        assert!((1..=100).contains(&faults), "{faults}");
        let phases: u64 = told(Touches::Phases, 100).into_iter().map(|(_, faults)| faults).sum();
        assert_eq!(phases, 800 + 2 * 200 + 2 * 100 + 100);
    }
}
