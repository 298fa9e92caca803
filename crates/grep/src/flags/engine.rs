//! How a search runs.

use faultless_grepdb::engine::BlockSource;

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "How it is done")]
pub(crate) struct Flags {
    /// Use NUM threads [default: one per processor].
    #[arg(short = 'j', long, value_name = "NUM")]
    pub(crate) threads: Option<usize>,
    /// Ignore the index and search all text.
    #[arg(long, hide_short_help = true)]
    pub(crate) brute_force: bool,
    /// Accepted for ripgrep's sake; no effect.
    #[arg(long = "mmap", visible_aliases = ["no-mmap", "no-config"], hide_short_help = true)]
    _ripgreps: bool,
    /// Source of the blocks that hold text.
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t, hide_short_help = true)]
    pub(crate) memory: Source,
    /// Print the cost to stderr: time, page faults, memory.
    ///
    /// Also counts files and chunks. With --memory=all, print a table of all sources to stdout, and no
    /// matches.
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) stat: Option<Form>,
}

/// A form of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Text
    Text,
    /// JSON
    Json,
}

/// Where blocks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Source {
    /// The block pool, which reuses freed blocks
    #[default]
    Pool,
    /// malloc and free
    Malloc,
    /// mmap and munmap per block
    Mmap,
    /// mmap with MAP_POPULATE, and munmap
    Populate,
    /// mmap of whole transparent huge pages, and munmap
    Thp,
    /// Each in turn, with one thread and with all; for --stat
    All,
}

impl Source {
    /// The source to use. For `all` it is the pool.
    pub(crate) fn block_source(self) -> BlockSource {
        match self {
            Self::Pool | Self::All => BlockSource::Pool,
            Self::Malloc => BlockSource::Malloc,
            Self::Mmap => BlockSource::Mmap,
            Self::Populate => BlockSource::Populate,
            Self::Thp => BlockSource::Thp,
        }
    }
}
