//! From the rings to records, in the order of time.
//!
//! In: the lanes of a session and the span in which faults are wanted. Out: [`Record`]s with the access decoded, and how many
//! faults there were and how many records the rings lost.
//!
//! What it does not do: pair entries with ends (`trace`).

use std::ops::Range;

use faultless_os::ring::{Raw, Sample, records};
use faultless_trace::observation::{Map, Record, What};

use crate::decode::{Decoder, Fault};
use crate::session::Lane;
use crate::tuning as t;

/// All records so far.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// By id, ascending: looked up for every record.
    roles: Vec<(u64, Role)>,
    decoder: Decoder,
    records: Vec<Record>,
    task_records: usize,
    /// Mappings and tasks that were left out because there were too many.
    pub(crate) omitted: u64,
    bytes: Vec<u8>,
    batch: Vec<(Record, Option<(u64, u64)>)>,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Entry,
    Minor,
    Major,
}

/// What one look at the rings found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drained {
    /// Entries of faults, wanted or not: each has cost the program its time.
    pub(crate) faults: u64,
    /// Records lost.
    pub(crate) lost: u64,
    /// Forks, execs and exits of whole processes, in order.
    pub(crate) tasks: Vec<Task>,
}

/// What happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Fork(u32),
    Exec(u32),
    Exit(u32),
}

impl Drain {
    /// Knows the events of these lanes by their ids.
    pub(crate) fn new(lanes: &[Lane]) -> Self {
        let groups = lanes.iter().filter_map(|lane| lane.faults.as_ref());
        let mut roles: Vec<_> = groups
            .flat_map(|faults| faults.ids.into_iter().zip([Role::Entry, Role::Minor, Role::Major]))
            .collect();
        roles.sort_by_key(|&(id, _)| id);
        Self { roles, ..Self::default() }
    }

    /// Takes what the rings hold. Faults are kept where their time lies in `span`.
    pub(crate) fn take(&mut self, lanes: &mut [Lane], span: Range<u64>) -> Drained {
        let mut drained = Drained::default();
        let mut bytes = std::mem::take(&mut self.bytes);
        for lane in lanes {
            bytes.clear();
            lane.ring.drain_into(&mut bytes);
            for raw in records(&bytes) {
                self.sort_in(raw, &span, &mut drained);
            }
        }
        self.bytes = bytes;
        let mut batch = std::mem::take(&mut self.batch);
        batch.sort_by_key(|(record, _)| record.time_ns);
        for (record, registers) in batch.drain(..) {
            self.keep(record, registers, &mut drained.tasks);
        }
        self.batch = batch;
        drained
    }

    /// The records, sorted by time.
    pub(crate) fn finish(mut self) -> Vec<Record> {
        self.records.sort_by_key(|record| record.time_ns);
        self.records
    }

    fn sort_in(&mut self, raw: Raw<'_>, span: &Range<u64>, drained: &mut Drained) {
        match raw {
            Raw::Sample(sample) => {
                let found = self.roles.binary_search_by_key(&sample.id, |&(id, _)| id);
                let role = found.ok().map(|at| self.roles[at].1);
                drained.faults += u64::from(matches!(role, Some(Role::Entry)));
                if let Some(role) = role.filter(|_| span.contains(&sample.time_ns)) {
                    self.batch.push(fault(&sample, role));
                }
            }
            Raw::Lost { lost, .. } => drained.lost += lost,
            Raw::Map(map) => {
                let what = What::Map(Map {
                    begin: map.begin,
                    len_bytes: map.len_bytes,
                    prot: map.prot,
                    flags: map.flags,
                    name: map.name,
                    file_offset: map.file_offset,
                });
                self.batch.push((Record { time_ns: map.time_ns, pid: map.pid, tid: map.tid, what }, None));
            }
            Raw::Fork(task) => self.task(task, What::Fork { parent: task.parent }),
            Raw::Exec(task) => self.task(task, What::Exec),
            Raw::Exit(task) => self.task(task, What::Exit),
            Raw::Other => {}
        }
    }

    fn task(&mut self, task: faultless_os::ring::Task, what: What) {
        self.batch.push((Record { time_ns: task.time_ns, pid: task.pid, tid: task.tid, what }, None));
    }

    fn keep(&mut self, mut record: Record, registers: Option<(u64, u64)>, tasks: &mut Vec<Task>) {
        let pid = record.pid;
        match &mut record.what {
            What::Enter { addr, ip, kernel, access } => {
                if !*kernel {
                    *access = self.decoder.access(Fault { pid, ip: *ip, addr: *addr, registers });
                }
                return self.records.push(record);
            }
            What::Map(map) => self.decoder.map(pid, map),
            What::Fork { parent } if *parent != pid => {
                self.decoder.fork(pid, *parent);
                tasks.push(Task::Fork(pid));
            }
            What::Fork { .. } => {}
            What::Exec => {
                self.decoder.forget(pid);
                tasks.push(Task::Exec(pid));
            }
            What::Exit if record.tid == pid => {
                self.decoder.forget(pid);
                tasks.push(Task::Exit(pid));
            }
            What::Exit => {}
            _ => return self.records.push(record),
        }
        if self.task_records < t::TASK_RECORDS_MAX {
            self.task_records += 1;
            self.records.push(record);
        } else {
            self.omitted += 1;
        }
    }
}

fn fault(sample: &Sample<'_>, role: Role) -> (Record, Option<(u64, u64)>) {
    let (addr, ip) = (sample.addr, sample.ip);
    let what = match role {
        Role::Entry => What::Enter { addr, ip, kernel: sample.kernel, access: None },
        Role::Minor => What::End { addr, major: false, stack: None },
        Role::Major => What::End { addr, major: true, stack: None },
    };
    let registers = if matches!(role, Role::Entry) { sample.string_registers() } else { None };
    (Record { time_ns: sample.time_ns, pid: sample.pid, tid: sample.tid, what }, registers)
}
