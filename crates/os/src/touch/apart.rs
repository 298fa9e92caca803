//! Touches and mappings in separate processes: the same work as threads, without a shared address space.
//!
//! In: a length. Out: a child process, and what it did.
//!
//! The difference to threads is the cost of sharing an address space: its mmap lock, and the locks of its
//! mappings and page tables.

use std::io::{PipeReader, PipeWriter, Read, Write};

use super::Region;
use super::child::{Child, wait_for_ever};
use crate::counters::{self, Who};
use crate::error::{Error, Result};
use crate::page;

/// What a [`Toucher`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Pages that hold what was written.
    pub pages: u64,
    /// Page faults taken.
    pub faults: u64,
    /// CPU time taken, ns.
    pub cpu_ns: u64,
}

/// A child that maps its own memory, waits, and writes once to each base page (THP is off). It reports, and
/// keeps the memory until the drop.
#[derive(Debug)]
pub struct Toucher {
    /// Ends when this value does.
    _child: Child,
    gate: PipeWriter,
    answer: PipeReader,
}

impl Toucher {
    /// Starts the child, which maps its memory before it waits.
    ///
    /// # Errors
    /// EAGAIN or ENOMEM from `fork`, EMFILE from `pipe`.
    pub fn new(len_bytes: usize) -> Result<Self> {
        let pipe = || std::io::pipe().map_err(|_| Error::last("pipe2"));
        let ((mut wait, gate), (answer, mut tell)) = (pipe()?, pipe()?);
        let child = Child::fork(|| {
            let Ok(mut region) = Region::base_pages(len_bytes, page::size()) else { return };
            let now = || {
                counters::rusage(Who::Process).map(|usage| (usage.minor_faults, counters::process_cpu_ns()))
            };
            // Code that runs for the first time takes faults too.
            let _ = now();
            if wait.read(&mut [0]).is_err() {
                return;
            }
            let Ok((faults, cpu_ns)) = now() else { return };
            region.touch_write(page::size());
            let Ok((faults_then, cpu_then_ns)) = now() else { return };
            let pages = region.touch_read(page::size());
            let figures = [pages, faults_then - faults, cpu_then_ns - cpu_ns];
            let _ = figures.iter().try_for_each(|figure| tell.write_all(&figure.to_ne_bytes()));
            // Freeing the memory is not measured: it stays until the parent ends this process.
            wait_for_ever();
        })?;
        Ok(Self { _child: child, gate, answer })
    }

    /// Lets the child touch its memory.
    ///
    /// # Errors
    /// EPIPE: the child has ended.
    pub fn go(&mut self) -> std::io::Result<()> {
        self.gate.write_all(&[1])
    }

    /// Waits until it has.
    ///
    /// # Errors
    /// The child has ended early: it could not map its memory, or was killed for lack of it.
    pub fn wait(&mut self) -> std::io::Result<Touched> {
        let mut figure = || {
            let mut bytes = [0; size_of::<u64>()];
            self.answer.read_exact(&mut bytes).map(|()| u64::from_ne_bytes(bytes))
        };
        Ok(Touched { pages: figure()?, faults: figure()?, cpu_ns: figure()? })
    }
}

/// A child that maps and unmaps memory, without touching it, until the drop.
#[derive(Debug)]
pub struct Churner {
    /// Dropped with this value.
    child: Child,
}

impl Churner {
    /// Starts the child.
    ///
    /// # Errors
    /// EAGAIN or ENOMEM from `fork`.
    pub fn new(len_bytes: usize) -> Result<Self> {
        Child::fork(|| while Region::new(len_bytes, page::size()).is_ok() {}).map(|child| Self { child })
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_process_apart_touches_each_page_once() {
        let pages = 64;
        let mut toucher = Toucher::new(pages * page::size()).unwrap();
        toucher.go().unwrap();
        let touched = toucher.wait().unwrap();
        assert_eq!(touched.pages, pages as u64);
        assert!((64..64 + 16).contains(&touched.faults), "{touched:?}");
    }

    #[test]
    fn a_process_that_can_not_map_is_noticed() {
        let mut toucher = Toucher::new(1 << 60).unwrap();
        assert!(toucher.go().and_then(|()| toucher.wait()).is_err());
    }
}
