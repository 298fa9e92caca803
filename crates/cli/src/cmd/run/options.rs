//! How the pool behaves in a program: the flags, and the variables that tell the interposer.
//!
//! In: words. Out: `FAULTLESS_*` variables. Defaults that depend on the machine are computed here, where
//! reading files costs little.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use faultless_console::{Failure, sink::Sink};
use faultless_os::host::Cgroup;
use faultless_pool::{process, tuning};

use super::size::{Decay, Marks, decay, marks, size, threshold};

/// The pages behind the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Transparent huge pages, if the kernel has them on request
    #[default]
    Thp,
    /// Base pages only
    Base,
    /// Transparent huge pages of 64 KiB, if the kernel has them on request but not the large ones (Linux 6.8)
    #[value(name = "mthp-64K")]
    Mthp64K,
    /// Like mthp-64K, with 256 KiB
    #[value(name = "mthp-256K")]
    Mthp256K,
    /// Like mthp-64K, with 1 MiB
    #[value(name = "mthp-1M")]
    Mthp1M,
    /// Pages from the reserved pool while it has some (vm.nr_hugepages); not for programs that fork and write, or
    /// protect or drop parts of blocks
    Hugetlb,
}

/// When pages become resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Prefault {
    /// At the first touch
    #[default]
    None,
    /// When the block is allocated, by one call (MADV_POPULATE_WRITE)
    Populate,
    /// Ahead of need, by a thread on an idle processor; see --stock
    Ahead,
}

/// When freed memory is overwritten with zeroes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Scrub {
    /// When the program asks for zeroed memory
    #[default]
    OnGet,
    /// Ahead of need, by a thread on an idle processor; see --stock
    Ahead,
    /// When it is freed: protects secrets in large blocks; small blocks are never overwritten
    OnFree,
}

/// What the program's own mappings get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mappings {
    /// Nothing
    #[default]
    Off,
    /// Transparent huge pages, from 2 MiB on
    Thp,
    /// The same, and below 32 MiB pages from the pool, which keeps them when the program unmaps all of a mapping
    Recycle,
}

/// The format of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SummaryFormat {
    /// A few lines to read
    #[default]
    Text,
    /// One line with a JSON object
    Json,
    /// OpenMetrics text, as for Prometheus
    Openmetrics,
}

/// How the pool behaves in the program.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Pages behind the pool
    #[arg(long, value_enum, default_value_t)]
    policy: Policy,

    /// When pages become resident
    #[arg(long, value_enum, default_value_t)]
    prefault: Prefault,

    /// With the first large block, make this much resident, such as 256M
    ///
    /// Applies to each process.
    #[arg(long, value_name = "SIZE", value_parser = size, hide_short_help = true)]
    prewarm: Option<u64>,

    /// When freed large blocks are overwritten with zeroes
    #[arg(long, value_enum, default_value_t)]
    scrub: Scrub,

    /// Free memory to keep ready, with --prefault ahead or --scrub ahead: refilled to the second size when
    /// below the first [default: 64M-256M]
    #[arg(long, value_name = "SIZE-SIZE", value_parser = marks)]
    stock: Option<Marks>,

    /// Keep at most this much freed memory, such as 64M; 0 keeps none [default: a quarter of the memory, at
    /// most 4G]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    retain: Option<u64>,

    /// Return unused freed memory within this time, such as 200ms, or never [default: 1s]
    ///
    /// About 16 MiB stay. The default is 10s in a virtual machine whose host takes freed pages.
    #[arg(long, value_name = "TIME", value_parser = decay)]
    decay: Option<Decay>,

    /// Smallest block from the pool, at least 16K [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = threshold)]
    threshold: Option<u64>,

    /// Allocator of smaller blocks
    #[arg(long, value_enum, default_value_t)]
    pub(super) small: Small,

    /// What memory gets that the program maps for itself, by mmap(2) instead of malloc
    ///
    /// For programs with an allocator of their own that gets its memory from mmap. Only private anonymous memory to
    /// read and write, mapped without an address or further flags. Mappings that the C library makes for itself are not
    /// seen.
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    mappings: Mappings,

    /// Abort on a double or invalid free [default: report and continue]
    ///
    /// Notices a second free of a large block, and a free of an address without a block.
    #[arg(long)]
    strict: bool,

    /// Report on stderr, at the exit of each process, what the pool did
    ///
    /// A program that defines malloc itself says that the pool did not act. Static and set-user-ID programs, and
    /// programs whose environment was replaced, do not load the pool and report nothing: advise lists them.
    #[arg(long)]
    summary: bool,

    /// Report in this format; implies --summary
    #[arg(long, value_enum, value_name = "FORMAT")]
    summary_format: Option<SummaryFormat>,

    /// Report into FILE, atomically, instead of stderr
    ///
    /// %p in the name becomes the process id. Without %p, the last process to exit overwrites the others. A
    /// confined process (seccomp, Landlock) writes no file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    summary_file: Option<PathBuf>,
}

/// The allocator of blocks below the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Small {
    /// The program's usual allocator
    #[default]
    Next,
    /// mimalloc 3, for programs with many small objects; no effect in a program with its own allocator
    Mimalloc,
}

/// Default watermarks.
const STOCK: Marks = Marks { low: 64 << 20, high: 256 << 20 };

impl Options {
    /// The defaults with these pages.
    pub(crate) fn of(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// The variables for the interposer.
    ///
    /// # Errors
    /// Options contradict each other, or the report's file can't be written.
    pub(super) fn variables(&self) -> Result<Vec<(OsString, OsString)>, Failure> {
        if self.stock.is_some() && self.prefault != Prefault::Ahead && self.scrub != Scrub::Ahead {
            let remedy = "add --prefault ahead or --scrub ahead, or leave --stock out";
            return Err(Failure(format!("--stock is for memory that is made ready ahead of need; {remedy}")));
        }
        let marks = self.stock.unwrap_or(STOCK);
        let with_marks = |word: String, is_ahead: bool| {
            if is_ahead { format!("{word}:{}-{}", marks.low, marks.high) } else { word }
        };
        let summary = self.summary || self.summary_format.is_some() || self.summary_file.is_some();
        let summary_file = self.summary_file.as_deref().map(Sink::replaceable).transpose()?;
        let mut variables: Vec<(OsString, OsString)> = vec![
            ("FAULTLESS_POLICY".into(), word(self.policy).into()),
            (
                "FAULTLESS_PREFAULT".into(),
                with_marks(word(self.prefault), self.prefault == Prefault::Ahead).into(),
            ),
            ("FAULTLESS_SCRUB".into(), with_marks(word(self.scrub), self.scrub == Scrub::Ahead).into()),
            ("FAULTLESS_PREWARM".into(), self.prewarm.unwrap_or(0).to_string().into()),
            ("FAULTLESS_RETAIN".into(), self.retain_bytes().to_string().into()),
            ("FAULTLESS_DECAY".into(), self.decay_text().into()),
            ("FAULTLESS_MAPPINGS".into(), word(self.mappings).into()),
            ("FAULTLESS_STRICT".into(), if self.strict { "1" } else { "0" }.into()),
            ("FAULTLESS_SUMMARY".into(), if summary { "1" } else { "0" }.into()),
            ("FAULTLESS_SUMMARY_FILE".into(), summary_file.unwrap_or_default().into()),
            ("FAULTLESS_SUMMARY_FORMAT".into(), word(self.summary_format.unwrap_or_default()).into()),
        ];
        // An outer `record --alloc` has set "never" for programs without a pool.
        let is_recorded = std::env::var_os("FAULTLESS_RECORD").is_some();
        let threshold =
            self.threshold.or(is_recorded.then_some(faultless_pool::tuning::THRESHOLD_BYTES as u64));
        if let Some(threshold) = threshold {
            variables.push(("FAULTLESS_THRESHOLD".into(), threshold.to_string().into()));
        }
        Ok(variables)
    }

    fn retain_bytes(&self) -> u64 {
        let retain = self.retain.unwrap_or_else(default_retain);
        static TOLD: std::sync::Once = std::sync::Once::new();
        if self.retain.is_none() && !std::path::Path::new("/proc/meminfo").exists() {
            TOLD.call_once(|| eprintln!(
                "faultless: /proc is hidden, so how much memory there is can't be known: up to {} GiB of freed memory are kept; --retain sets another amount",
                retain >> 30
            ));
        }
        retain
    }

    fn decay_text(&self) -> String {
        let decay = match self.decay {
            Some(Decay::Never) => None,
            Some(Decay::After(time)) => Some(time.as_millis()),
            None => process::policy().retain.decay_ns.map(|ns| u128::from(ns / NS_PER_MS)),
        };
        decay.map_or_else(|| "never".into(), |ms| format!("{ms}ms"))
    }
}

const NS_PER_MS: u64 = 1_000_000;

/// A value's name on the command line, which the interposer understands too.
fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A share of the memory that this process may use: the machine's, or its control group's if that is less.
fn default_retain() -> u64 {
    let memory = faultless_os::map::memory_bytes().map(|bytes| bytes as u64);
    let group = Cgroup::now().and_then(|group| group.max_bytes);
    let bytes = memory.into_iter().chain(group).min().unwrap_or(u64::MAX);
    (bytes / tuning::RETAIN_SHARE as u64).min(tuning::RETAIN_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(options: &Options, name: &str) -> String {
        let variables = options.variables().unwrap_or_else(|Failure(reason)| panic!("{reason}"));
        let found = variables.into_iter().find(|(key, _)| key == name);
        found.map_or_else(String::new, |(_, value)| value.into_string().unwrap())
    }

    #[test]
    fn the_default_keeps_at_most_the_maximum() {
        assert!(default_retain() <= 4 << 30);
    }

    #[test]
    fn values_are_told_in_the_words_of_the_command_line() {
        let options = Options { policy: Policy::Mthp64K, prefault: Prefault::Populate, ..Options::default() };
        assert_eq!(value(&options, "FAULTLESS_POLICY"), "mthp-64K");
        assert_eq!(value(&options, "FAULTLESS_PREFAULT"), "populate");
        assert_eq!(value(&options, "FAULTLESS_SCRUB"), "on-get");
        assert_eq!(value(&options, "FAULTLESS_MAPPINGS"), "off");
        assert_eq!(value(&options, "FAULTLESS_SUMMARY"), "0");
    }

    #[test]
    fn watermarks_go_with_what_is_done_ahead() {
        let stock = Some(Marks { low: 1, high: 2 });
        let options = Options { scrub: Scrub::Ahead, stock, ..Options::default() };
        assert_eq!(value(&options, "FAULTLESS_SCRUB"), "ahead:1-2");
        assert_eq!(value(&options, "FAULTLESS_PREFAULT"), "none");
        let contradictory = Options { stock, ..Options::default() }.variables();
        assert!(contradictory.is_err_and(|failure| failure.0.contains("--scrub ahead")));
    }

    #[test]
    fn a_form_of_the_report_asks_for_it() {
        let options = Options { summary_format: Some(SummaryFormat::Json), ..Options::default() };
        assert_eq!(value(&options, "FAULTLESS_SUMMARY"), "1");
        assert_eq!(value(&options, "FAULTLESS_SUMMARY_FORMAT"), "json");
        assert_eq!(value(&options, "FAULTLESS_SUMMARY_FILE"), "");
        let options = Options { summary_file: Some("report-%p".into()), ..Options::default() };
        assert_eq!(value(&options, "FAULTLESS_SUMMARY"), "1");
        let file = value(&options, "FAULTLESS_SUMMARY_FILE");
        assert!(file.starts_with('/') && file.ends_with("/report-%p"), "{file}");
    }
}
