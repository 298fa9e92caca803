//! scale: the price of a first touch by number of faulting threads, and what they wait for.
//!
//! Each thread touches the same amount of memory. Without waiting, the time therefore stays the same up to the
//! number of processors. The four arrangements differ in what the threads share, each step one lock less:
//!
//! | `memory` | shared by the faulting threads | what it adds |
//! |---|---|---|
//! | `interleaved` | address space, mapping, page tables | the page-table lock |
//! | `shared` | address space, mapping | the mapping's VMA lock (since Linux 6.4; before that, nothing) |
//! | `own` | address space | the mmap lock (faults take it before Linux 6.4), counters of the address space |
//! | `process` | nothing but the machine | the zone lock, memory bandwidth, the hypervisor |
//!
//! `writers` map and unmap memory beside the faulting threads, which takes the mmap lock for writing. With
//! `beside=threads` they share the address space. With `beside=processes` they do not, which shows their cost
//! without the shared lock.

use faultless_os::touch::{Churner, Region, Touched, Toucher};
use faultless_os::{counters, page, procfs};

use super::memory;
use super::team::{self, Beside, Done};
use crate::cell::{Cell, Refusal};
use crate::experiment::{Chart, Document, Experiment, Notes, Phase, Scope, Trial};
use crate::results::{Quantities, wall_ns};

pub(crate) struct Scale;

/// Pages that a writer maps and unmaps at once, without touching them.
const WRITER_PAGES: usize = 16;

impl Experiment for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn about(&self) -> &'static str {
        "Where do page faults of several threads wait for each other, or for threads that map memory?"
    }

    fn documents(&self) -> &'static [Document] {
        &Document::ALL
    }

    fn cells(&self, scope: &Scope) -> Vec<Cell> {
        let mib = scope.pick([2, 16, 64, 256]);
        let cell = |memory: &str, threads: usize, writers: usize, beside: &str| {
            let cell = Cell::of("scale").with("memory", memory).with("threads", threads);
            cell.with("mib", mib).with("writers", writers).with("beside", beside)
        };
        let mut cells = Vec::new();
        for (memory, _) in MEMORIES {
            for threads in scope.threads() {
                // Scaling beyond the processors is not expected.
                if threads <= scope.processors || scope.pick([false, false, true, true]) {
                    cells.push(cell(memory, threads, 0, "none"));
                }
            }
        }
        let counts: &[usize] = scope.pick([&[1], &[1], &[1, 2], &[1, 2, 4, 8]]);
        for &writers in counts {
            for beside in ["threads", "processes"] {
                cells.push(cell("own", 1, writers, beside));
                if scope.processors > 1 && scope.pick([false, false, true, true]) {
                    cells.push(cell("own", scope.processors, writers, beside));
                }
            }
        }
        cells
    }

    fn charts(&self) -> &'static [Chart] {
        CHARTS
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        let Asked { each_bytes, threads, .. } = Asked::of(cell)?;
        Ok((each_bytes as u64).saturating_mul(threads as u64))
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        let Asked { memory, beside, each_bytes, threads, writers } = Asked::of(cell)?;
        Ok(Box::new(Faulting {
            memory,
            beside,
            each_bytes,
            threads,
            writers,
            regions: Vec::new(),
            touchers: Vec::new(),
            threads_beside: None,
            processes_beside: Vec::new(),
        }))
    }
}

/// A cell's parameters.
struct Asked {
    memory: Memory,
    beside: Option<Neighbour>,
    each_bytes: usize,
    threads: usize,
    writers: usize,
}

impl Asked {
    fn of(cell: &Cell) -> Result<Self, Refusal> {
        let memory = cell.choice("memory", &MEMORIES)?;
        let places = [
            ("none", None),
            ("threads", Some(Neighbour::Threads)),
            ("processes", Some(Neighbour::Processes)),
        ];
        let beside = cell.choice("beside", &places)?;
        let (each_bytes, threads) = (cell.mib("mib")?, cell.number("threads")?);
        let writers = cell.count("writers")?;
        if (writers > 0) != beside.is_some() {
            return Err(Refusal(format!("{cell}: writers=0 goes with beside=none, and only with it")));
        }
        Ok(Self { memory, beside, each_bytes, threads, writers })
    }
}

fn wall_us(cell: &Cell, found: &Quantities) -> Vec<f64> {
    let pages = cell.number("mib").map_or(1, |mib| (mib << 20) / page::size()) as f64;
    wall_ns(found, "first").iter().map(|ns| ns / 1e3 / pages).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Interleaved,
    Shared,
    Own,
    Process,
}

const MEMORIES: [(&str, Memory); 4] = [
    ("interleaved", Memory::Interleaved),
    ("shared", Memory::Shared),
    ("own", Memory::Own),
    ("process", Memory::Process),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Neighbour {
    Threads,
    Processes,
}

struct Faulting {
    memory: Memory,
    beside: Option<Neighbour>,
    each_bytes: usize,
    threads: usize,
    writers: usize,
    regions: Vec<Region>,
    touchers: Vec<Toucher>,
    threads_beside: Option<Beside>,
    processes_beside: Vec<Churner>,
}

/// The state of an ended process: proc(5).
const ENDED: u8 = b'Z';
/// Faults of this process around one `fork`: the next write to a shared page copies it.
const FORK_FAULTS: u64 = 256;

impl Trial for Faulting {
    fn phases(&self) -> Vec<Phase> {
        let pages = self.threads * self.each_bytes / page::size();
        let forks = match (self.memory, self.beside) {
            (Memory::Process, _) => self.threads,
            (_, Some(Neighbour::Processes)) => self.writers,
            _ => 0,
        };
        let setup = Phase::new("setup", 0, self.writers);
        let end = Phase::new("end", 0, 0).sum(u64::from(self.beside.is_some()));
        let most = setup.faults.end() + forks as u64 * FORK_FAULTS;
        vec![
            setup.faults(0..=most),
            Phase::new("first", pages, self.threads).touches(pages).sum(self.sum()),
            end.faults(0..=FORK_FAULTS),
        ]
    }

    fn run(&mut self, phase: usize, notes: &mut Notes) -> Result<u64, Refusal> {
        match (phase, self.memory) {
            (0, _) => {
                team::note_processors(notes);
                self.set_up()
            }
            (1, Memory::Process) => Ok(self.touch_apart()?.noted(notes, true)),
            // Faults of other processes are counted there. But this process was forked, so its own writes copy.
            (1, _) => Ok(self.touch()?.noted(notes, self.beside.is_some())),
            _ => {
                self.touchers.clear();
                if let Some(beside) = self.threads_beside.take() {
                    return beside.end(notes);
                }
                let is_at_work =
                    |child: &Churner| procfs::stat(child.pid()).is_some_and(|stat| stat.state != ENDED);
                let at_work = self.processes_beside.drain(..).filter(is_at_work).count();
                Ok(u64::from(at_work == self.writers && at_work > 0))
            }
        }
    }
}

impl Faulting {
    fn set_up(&mut self) -> Result<u64, Refusal> {
        let (count, len_bytes) = match self.memory {
            Memory::Interleaved | Memory::Shared => (1, self.threads * self.each_bytes),
            Memory::Own => (self.threads, self.each_bytes),
            Memory::Process => (0, 0),
        };
        for _ in 0..count {
            self.regions.push(Region::base_pages(len_bytes, page::size())?);
        }
        if self.memory == Memory::Process {
            for _ in 0..self.threads {
                self.touchers.push(Toucher::new(self.each_bytes)?);
            }
        }
        let len_bytes = WRITER_PAGES * page::size();
        match self.beside {
            None => {}
            Some(Neighbour::Threads) => {
                self.threads_beside = Some(Beside::start(self.writers, len_bytes as u64, move || {
                    Ok(Region::new(len_bytes, page::size())?.len_bytes() as u64)
                }));
            }
            Some(Neighbour::Processes) => {
                for _ in 0..self.writers {
                    self.processes_beside.push(Churner::new(len_bytes)?);
                }
            }
        }
        Ok(0)
    }

    /// The checksum of the touches.
    fn sum(&self) -> u64 {
        let (threads, pages) = (self.threads, self.each_bytes / page::size());
        match self.memory {
            Memory::Interleaved | Memory::Shared => memory::marks(0..threads * pages, 0),
            Memory::Own => threads as u64 * memory::marks(0..pages, 0),
            // Other processes report how many pages they touched.
            Memory::Process => (threads * pages) as u64,
        }
    }

    fn touch(&mut self) -> Result<Done, Refusal> {
        let (threads, memory) = (self.threads, self.memory);
        let regions: Vec<_> = self.regions.iter_mut().map(Region::atomics).collect();
        let pages = self.each_bytes / page::size();
        team::together((0..threads).collect(), |thread: usize| {
            let (region, first, step) = match memory {
                Memory::Interleaved => (regions[0], thread, threads),
                Memory::Shared => (regions[0], thread * pages, 1),
                Memory::Own | Memory::Process => (regions[thread], 0, 1),
            };
            Ok(memory::touch(region, (first..).step_by(step).take(pages), 0, true))
        })
    }

    fn touch_apart(&mut self) -> Result<Done, Refusal> {
        let begin_ns = counters::now_ns();
        for toucher in &mut self.touchers {
            toucher.go()?;
        }
        let told = self.touchers.iter_mut().map(|toucher| {
            let touched = toucher.wait().map_err(|error| {
                Refusal(format!("a process apart ended before it had touched its memory: {error}"))
            })?;
            let Touched { pages: sum, faults, cpu_ns } = touched;
            Ok(Done { sum, cpu_ns, faults, begin_ns, end_ns: counters::now_ns() })
        });
        told.sum()
    }
}

const CHARTS: &[Chart] = &[
    Chart {
        id: "scale-threads",
        title: "First touch, the same amount by each thread",
        x: "threads",
        x_label: "faulting threads",
        y_label: "us per page of one thread",
        values: |cell, found| {
            if cell.count("writers") == Ok(0) { wall_us(cell, found) } else { Vec::new() }
        },
        ..Chart::BLANK
    },
    Chart {
        id: "scale-writers",
        title: "First touch while others map and unmap memory",
        x: "writers",
        x_label: "threads or processes that map and unmap",
        idle: &["beside"],
        y_label: "us per page of one thread",
        values: |cell, found| {
            if cell.text("memory") == Ok("own") { wall_us(cell, found) } else { Vec::new() }
        },
        ..Chart::BLANK
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial;

    fn sample(words: &str) -> crate::sample::Sample {
        trial::measure(&Scale, &Cell::parse("scale", words.split(' ')).unwrap())
    }

    #[test]
    fn writers_without_a_place_are_refused() {
        let refused = sample("memory=own threads=1 mib=1 writers=2 beside=none").refused.unwrap();
        assert!(refused.contains("writers=0 goes with beside=none"), "{refused}");
    }
}
