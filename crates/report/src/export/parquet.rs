//! Recordings of many machines as columns: seven tables of Parquet files, which DuckDB, Spark and others query.
//!
//! In: a [`Run`], which is a recording with its findings. Out: a file a [`Table`]. `docs/parquet.md` of `cli` has the
//! columns and their units. The tables of a run add up to the same faults and times, those of `report`.
//!
//! Times of faults are CPU time; what faults waited is in a column of its own, because it costs nobody a processor.
//! Nothing is estimated here. It does not name or write a file.

mod rows;
mod stacks;
mod table;

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::observation::Record;
use faultless_trace::profile::Profile;
use faultless_trace::recording::Recording;
use faultless_trace::sites::{Group, Sites};

use stacks::Stacks;

/// Version of the tables, in the files as `faultless.schema`. It rises when a column changes its meaning or goes.
pub const SCHEMA: &str = "2";

/// A recording as rows.
#[derive(Debug)]
pub struct Run<'a> {
    recording: &'a Recording,
    profile: Profile,
    findings: Findings,
    sites: Sites,
    stacks: Stacks,
    id: String,
    release: Option<&'a str>,
}

impl<'a> Run<'a> {
    /// A run on `host`; `release`: the version of the service, as its owner names it.
    ///
    /// # Errors
    /// Nobody knows when it was, as with `perf.data`.
    pub fn new(recording: &'a Recording, host: &str, release: Option<&'a str>) -> Result<Self, String> {
        if recording.header.begin_unix_ms == 0 {
            return Err("it does not tell on which day it was taken; record it with faultless record".into());
        }
        let wanted = Wanted { by: Some(Group::Kind), ..Wanted::default() };
        let (findings, profile) = Findings::with_profile(recording, &wanted)?;
        let sites = Sites::new(recording, &profile, Group::Site);
        let stacks = Stacks::new(&recording.stacks, &profile);
        Ok(Self { recording, profile, findings, sites, stacks, id: id(recording, host), release })
    }

    /// 32 hexadecimal digits, the same whenever this recording of this host is exported.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The day on which it began, in UTC: `2026-01-31`.
    pub fn date(&self) -> String {
        let begin = UNIX_EPOCH + Duration::from_millis(self.recording.header.begin_unix_ms);
        humantime::format_rfc3339_seconds(begin).to_string().chars().take_while(|&c| c != 'T').collect()
    }

    /// Whether it was recorded to its end and read without damage.
    pub fn is_whole(&self) -> bool {
        self.recording.footer.is_some() && self.recording.missing.is_empty()
    }
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Kinds of faults.
    Kinds,
    /// Functions that touched.
    Sites,
    /// Why there were faults, and what would help.
    Mechanisms,
    /// Weighted faults.
    Samples,
    /// Their stacks.
    Frames,
    /// What a fault of a kind takes.
    Prices,
    /// The run itself.
    Runs,
}

impl Table {
    /// All of them; the run last, so that a reader who finds it finds the others as well.
    pub const ALL: [Self; 7] =
        [Self::Kinds, Self::Sites, Self::Mechanisms, Self::Samples, Self::Frames, Self::Prices, Self::Runs];

    /// Its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kinds => "kinds",
            Self::Sites => "sites",
            Self::Mechanisms => "mechanisms",
            Self::Samples => "samples",
            Self::Frames => "frames",
            Self::Prices => "prices",
            Self::Runs => "runs",
        }
    }

    /// The file of a run.
    ///
    /// # Errors
    /// The library refuses a value.
    pub fn file(self, run: &Run<'_>) -> io::Result<Vec<u8>> {
        match self {
            Self::Kinds => rows::kinds(run),
            Self::Sites => rows::sites(run),
            Self::Mechanisms => rows::mechanisms(run),
            Self::Samples => rows::samples(run),
            Self::Frames => rows::frames(run),
            Self::Prices => rows::prices(run),
            Self::Runs => rows::runs(run),
        }
    }
}

/// A hash of what tells this recording from every other: who ran what, when and for how long.
fn id(recording: &Recording, host: &str) -> String {
    let (header, usage) = (&recording.header, &recording.observation.usage);
    let records = &recording.observation.records;
    let end = |record: Option<&Record>| record.map_or([0; 2], |record| [record.time_ns, record.pid.into()]);
    let begin = [header.begin_unix_ms, header.begin_ns, records.len() as u64];
    let numbers = [&begin[..], &end(records.first()), &end(records.last())].concat();
    let used = [usage.wall_ns, usage.user_ns, usage.system_ns];
    let texts = header.command.iter().map(String::as_str).chain([host, &header.host.kernel]);
    let bytes = texts.flat_map(|text| text.bytes().chain([0]));
    let numbers = numbers.into_iter().chain(used).flat_map(u64::to_le_bytes);
    format!("{:032x}", fnv1a(bytes.chain(numbers)))
}

/// FNV-1a of 128 bits: the same in every version of this program, <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests;
