//! How a search runs.

use faultless_grepdb::BlockSource;

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "How it is done")]
pub(crate) struct Flags {
    /// Threads; as many as there are processors where none is named.
    #[arg(short = 'j', long, value_name = "NUM")]
    pub(crate) threads: Option<usize>,
    /// Without the index: all text is looked at.
    #[arg(long)]
    pub(crate) brute_force: bool,
    /// As ripgrep's; nothing to do here.
    #[arg(long = "mmap", visible_aliases = ["no-mmap", "no-config"])]
    _ripgreps: bool,
    /// Where the blocks come from that texts are unpacked into.
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t)]
    pub(crate) memory: Source,
    /// What the search took, to stderr: time, page faults, memory, files, chunks. With --memory=all a table of all sources, to stdout, and
    /// no matches.
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) stat: Option<Form>,
}

/// A form of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Where blocks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Source {
    /// The block pool: what has been unpacked into is used again
    #[default]
    Pool,
    /// malloc and free
    Malloc,
    /// mmap and munmap for each block
    Mmap,
    /// The same with MAP_POPULATE
    Populate,
    /// The same on transparent huge pages
    Thp,
    /// One after another, with one thread and all, for --stat
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
