//! A line of the file. Frequent ones are arrays, whose fields the header names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observation::{Access, Call, Level, Map, Record, What, Window};
use crate::recording::{Footer, Frame, Header, Loss, Module, Name};

/// Declares [`Line`] and its conversions. Of each kind of record: its name in the file, and the fields of [`What`].
macro_rules! lines {
    ($($name:literal $what:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* })*) => {
        /// One line; the arrays of records begin with time in ns, process and thread.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Line {
            /// First line.
            Header(Box<Header>),
            $(
                #[doc = concat!("[`What::", stringify!($what), "`]: time, pid, tid" $(, ", ", stringify!($field))*)]
                $what(u64, u32, u32 $(, $(#[$attribute])* $type)*),
            )*
            /// [`What::Map`]: time, pid, tid, mapping.
            Map(u64, u32, u32, Map),
            /// [`What::Name`]: time, pid, tid, name.
            Name(u64, u32, u32, String),
            /// [`What::Settings`]: time, pid, tid, settings.
            Settings(u64, u32, u32, Vec<String>),
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
            fn from(Record { time_ns, pid, tid, what }: Record) -> Self {
                match what {
                    $(What::$what { $($field),* } => Self::$what(time_ns, pid, tid $(, $field)*),)*
                    What::Map(map) => Self::Map(time_ns, pid, tid, map),
                    What::Name(name) => Self::Name(time_ns, pid, tid, name),
                    What::Settings(settings) => Self::Settings(time_ns, pid, tid, settings),
                }
            }
        }

        impl Line {
            /// The record that this line is, or the line itself.
            pub(super) fn into_record(self) -> Result<Record, Self> {
                let (time_ns, pid, tid, what) = match self {
                    $(Self::$what(time_ns, pid, tid $(, $field)*) => {
                        (time_ns, pid, tid, What::$what { $($field),* })
                    })*
                    Self::Map(time_ns, pid, tid, map) => (time_ns, pid, tid, What::Map(map)),
                    Self::Name(time_ns, pid, tid, name) => (time_ns, pid, tid, What::Name(name)),
                    Self::Settings(time_ns, pid, tid, settings) => (time_ns, pid, tid, What::Settings(settings)),
                    line => return Err(line),
                };
                Ok(Record { time_ns, pid, tid, what })
            }
        }

        /// The fields of the kinds that are arrays.
        pub(super) fn columns() -> BTreeMap<String, Vec<String>> {
            let columns: Vec<(&str, Vec<&str>)> = vec![
                $(($name, vec!["time_ns", "pid", "tid" $(, stringify!($field))*]),)*
                ("map", vec!["time_ns", "pid", "tid", "map"]),
                ("name", vec!["time_ns", "pid", "tid", "name"]),
                ("settings", vec!["time_ns", "pid", "tid", "settings"]),
                ("module", vec!["number", "module"]),
                ("frame", vec!["number", "frame"]),
                ("stack", vec!["number", "frames"]),
                ("symbol", vec!["frame", "names"]),
            ];
            let owned = |fields: Vec<&str>| fields.into_iter().map(str::to_owned).collect();
            columns.into_iter().map(|(name, fields)| (name.to_owned(), owned(fields))).collect()
        }
    };
}

lines! {
    "enter" Enter {
        addr: u64, ip: u64, kernel: bool, access: Option<Access>, #[serde(default)] mapped_bytes: Option<u64>
    }
    "end" End { addr: u64, major: bool, stack: Option<u32>, #[serde(default)] mapped_bytes: Option<u64> }
    "sample_enter" SampleEnter { addr: u64, ip: u64, mapped_bytes: Option<u64> }
    "sample" Sample {
        addr: u64, ip: u64, kernel: bool, major: bool, access: Option<Access>, stack: Option<u32>, weight: u64,
        #[serde(default)] mapped_bytes: Option<u64>
    }
    "cpu" Cpu { kernel: bool, stack: Option<u32> }
    "switch" Switch { out: bool, preempted: bool }
    "lock_wait" LockWait { write: bool, wait_ns: u64, #[serde(default)] by: Option<String> }
    "call" Call { call: Call, args: [u64; 4], result: Option<i64>, ns: Option<u64>, off_ns: u64, stack: Option<u32> }
    "flush" Flush { sent: bool, weight: u64 }
    "alloc" Alloc { addr: u64, len_bytes: u64, stack: Option<u32> }
    "free" Free { addr: u64 }
    "move" Move { from: u64, addr: u64, len_bytes: u64, stack: Option<u32> }
    "no_huge_pages" NoHugePages {}
    "fork" Fork { parent: u32 }
    "exec" Exec {}
    "exit" Exit {}
}
