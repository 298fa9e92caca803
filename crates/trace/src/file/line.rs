//! A line of the file. Frequent ones are arrays, whose fields the header names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observation::{Access, Level, Map, Record, What, Window};
use crate::recording::{Footer, Frame, Header, Loss, Module, Name};

/// One line; the arrays begin with time in ns, process and thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// First line.
    Header(Box<Header>),
    /// [`What::Enter`]: time, pid, tid, addr, ip, kernel, access, mapped bytes.
    Enter(u64, u32, u32, u64, u64, bool, Option<Access>, #[serde(default)] Option<u64>),
    /// [`What::End`]: time, pid, tid, addr, major, stack, mapped bytes.
    End(u64, u32, u32, u64, bool, Option<u32>, #[serde(default)] Option<u64>),
    /// [`What::SampleEnter`]: time, pid, tid, addr, ip, mapped bytes.
    SampleEnter(u64, u32, u32, u64, u64, Option<u64>),
    /// [`What::Sample`]: time, pid, tid, addr, ip, kernel, major, access, stack, weight, mapped bytes.
    Sample(
        u64,
        u32,
        u32,
        u64,
        u64,
        bool,
        bool,
        Option<Access>,
        Option<u32>,
        u64,
        #[serde(default)] Option<u64>,
    ),
    /// [`What::Cpu`]: time, pid, tid, kernel, stack.
    Cpu(u64, u32, u32, bool, Option<u32>),
    /// [`What::Switch`]: time, pid, tid, out, preempted.
    Switch(u64, u32, u32, bool, bool),
    /// [`What::LockWait`]: time, pid, tid, write, wait, by.
    LockWait(u64, u32, u32, bool, u64, #[serde(default)] Option<String>),
    /// [`What::Alloc`]: time, pid, tid, addr, length, stack.
    Alloc(u64, u32, u32, u64, u64, Option<u32>),
    /// [`What::Free`]: time, pid, tid, addr.
    Free(u64, u32, u32, u64),
    /// [`What::Move`]: time, pid, tid, from, addr, length, stack.
    Move(u64, u32, u32, u64, u64, u64, Option<u32>),
    /// [`What::Map`]: time, pid, tid, mapping.
    Map(u64, u32, u32, Map),
    /// [`What::Fork`]: time, pid, tid, parent.
    Fork(u64, u32, u32, u32),
    /// [`What::Exec`]: time, pid, tid.
    Exec(u64, u32, u32),
    /// [`What::Exit`]: time, pid, tid.
    Exit(u64, u32, u32),
    /// [`What::Name`]: time, pid, tid, name.
    Name(u64, u32, u32, String),
    /// A module with its number, which counts up from 0.
    Module(u32, Module),
    /// A frame: its number likewise.
    Frame(u32, Frame),
    /// A stack: its number likewise, and frames, leaf first.
    Stack(u32, Vec<u32>),
    /// Names of a frame, found later: frame, names.
    Symbol(u32, Vec<Name>),
    /// A window.
    Window(Window),
    /// A level.
    Level(Level),
    /// Lost records.
    Loss(Loss),
    /// Last line.
    Footer(Box<Footer>),
}

impl From<Record> for Line {
    fn from(record: Record) -> Self {
        let Record { time_ns: time, pid, tid, what } = record;
        match what {
            What::Enter { addr, ip, kernel, access, mapped_bytes } => {
                Self::Enter(time, pid, tid, addr, ip, kernel, access, mapped_bytes)
            }
            What::End { addr, major, stack, mapped_bytes } => {
                Self::End(time, pid, tid, addr, major, stack, mapped_bytes)
            }
            What::SampleEnter { addr, ip, mapped_bytes } => {
                Self::SampleEnter(time, pid, tid, addr, ip, mapped_bytes)
            }
            What::Sample { addr, ip, kernel, major, access, stack, weight, mapped_bytes } => {
                Self::Sample(time, pid, tid, addr, ip, kernel, major, access, stack, weight, mapped_bytes)
            }
            What::Cpu { kernel, stack } => Self::Cpu(time, pid, tid, kernel, stack),
            What::Switch { out, preempted } => Self::Switch(time, pid, tid, out, preempted),
            What::LockWait { write, wait_ns, by } => Self::LockWait(time, pid, tid, write, wait_ns, by),
            What::Alloc { addr, len_bytes, stack } => Self::Alloc(time, pid, tid, addr, len_bytes, stack),
            What::Free { addr } => Self::Free(time, pid, tid, addr),
            What::Move { from, addr, len_bytes, stack } => {
                Self::Move(time, pid, tid, from, addr, len_bytes, stack)
            }
            What::Name(name) => Self::Name(time, pid, tid, name),
            What::Map(map) => Self::Map(time, pid, tid, map),
            What::Fork { parent } => Self::Fork(time, pid, tid, parent),
            What::Exec => Self::Exec(time, pid, tid),
            What::Exit => Self::Exit(time, pid, tid),
        }
    }
}

impl Line {
    /// The record that this line is, or the line itself.
    pub(super) fn into_record(self) -> Result<Record, Self> {
        let record = |time_ns, pid, tid, what| Ok(Record { time_ns, pid, tid, what });
        match self {
            Self::Enter(time, pid, tid, addr, ip, kernel, access, mapped_bytes) => {
                record(time, pid, tid, What::Enter { addr, ip, kernel, access, mapped_bytes })
            }
            Self::End(time, pid, tid, addr, major, stack, mapped_bytes) => {
                record(time, pid, tid, What::End { addr, major, stack, mapped_bytes })
            }
            Self::SampleEnter(time, pid, tid, addr, ip, mapped_bytes) => {
                record(time, pid, tid, What::SampleEnter { addr, ip, mapped_bytes })
            }
            Self::Sample(time, pid, tid, addr, ip, kernel, major, access, stack, weight, mapped_bytes) => {
                let what = What::Sample { addr, ip, kernel, major, access, stack, weight, mapped_bytes };
                record(time, pid, tid, what)
            }
            Self::Cpu(time, pid, tid, kernel, stack) => record(time, pid, tid, What::Cpu { kernel, stack }),
            Self::Switch(time, pid, tid, out, preempted) => {
                record(time, pid, tid, What::Switch { out, preempted })
            }
            Self::LockWait(time, pid, tid, write, wait_ns, by) => {
                record(time, pid, tid, What::LockWait { write, wait_ns, by })
            }
            Self::Alloc(time, pid, tid, addr, len_bytes, stack) => {
                record(time, pid, tid, What::Alloc { addr, len_bytes, stack })
            }
            Self::Free(time, pid, tid, addr) => record(time, pid, tid, What::Free { addr }),
            Self::Move(time, pid, tid, from, addr, len_bytes, stack) => {
                record(time, pid, tid, What::Move { from, addr, len_bytes, stack })
            }
            Self::Map(time, pid, tid, map) => record(time, pid, tid, What::Map(map)),
            Self::Fork(time, pid, tid, parent) => record(time, pid, tid, What::Fork { parent }),
            Self::Exec(time, pid, tid) => record(time, pid, tid, What::Exec),
            Self::Exit(time, pid, tid) => record(time, pid, tid, What::Exit),
            Self::Name(time, pid, tid, name) => record(time, pid, tid, What::Name(name)),
            line => Err(line),
        }
    }
}

/// The fields of the kinds that are arrays.
pub(super) fn columns() -> BTreeMap<String, Vec<String>> {
    let table: [(&str, &str); 19] = [
        ("enter", "time_ns pid tid addr ip kernel access mapped_bytes"),
        ("end", "time_ns pid tid addr major stack mapped_bytes"),
        ("sample_enter", "time_ns pid tid addr ip mapped_bytes"),
        ("sample", "time_ns pid tid addr ip kernel major access stack weight mapped_bytes"),
        ("cpu", "time_ns pid tid kernel stack"),
        ("switch", "time_ns pid tid out preempted"),
        ("lock_wait", "time_ns pid tid write wait_ns by"),
        ("alloc", "time_ns pid tid addr len_bytes stack"),
        ("free", "time_ns pid tid addr"),
        ("move", "time_ns pid tid from addr len_bytes stack"),
        ("map", "time_ns pid tid map"),
        ("fork", "time_ns pid tid parent"),
        ("exec", "time_ns pid tid"),
        ("exit", "time_ns pid tid"),
        ("name", "time_ns pid tid name"),
        ("module", "number module"),
        ("frame", "number frame"),
        ("stack", "number frames"),
        ("symbol", "frame names"),
    ];
    let words = |fields: &str| fields.split(' ').map(str::to_owned).collect();
    table.map(|(kind, fields)| (kind.to_owned(), words(fields))).into()
}
