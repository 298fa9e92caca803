//! Errors, as the user reads them.

use std::fmt;
use std::path::{Path, PathBuf};

/// What went wrong, and with which file.
#[derive(Debug)]
pub enum Error {
    /// The system refused an operation.
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// There is no database in this folder, nor in one above it.
    Missing(PathBuf),
    /// A part of the database is not as it was written.
    Damaged {
        /// File of the database.
        path: PathBuf,
        /// The damaged part.
        part: DamagedPart,
    },
    /// The file has another format version.
    Version {
        /// File of the database.
        path: PathBuf,
        /// The version in the file.
        found: u32,
    },
    /// Another process is changing the database in this folder.
    Locked(PathBuf),
    /// Another process is watching the tree of the database in this folder.
    Watched(PathBuf),
    /// The kernel refuses to watch the tree.
    Watch(String),
    /// A line of a project file is wrong.
    Project {
        /// The project file.
        path: PathBuf,
        /// Number of the line.
        line: usize,
        /// The mistake.
        why: String,
    },
    /// A pattern, a glob or an expression can't be used.
    Pattern(String),
    /// The caller ended a build or an update. The database is as it was.
    Cancelled,
}

/// A part of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagedPart {
    /// The manifest: the list of segments.
    Manifest,
    /// An essential part of a segment: its header, its chunk table, or the whole file.
    Segment,
    /// Posting lists. Without them every chunk is a candidate.
    Index,
    /// The compression dictionary that all texts of a segment need.
    Dictionary,
    /// The text of the chunk with this number.
    Text(u32),
    /// The file table of the chunk with this number.
    Files(u32),
}

impl fmt::Display for DamagedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest => f.write_str("the list of segments"),
            Self::Segment => f.write_str("the segment"),
            Self::Index => f.write_str("the index"),
            Self::Dictionary => f.write_str("the dictionary"),
            Self::Text(chunk) => write!(f, "chunk {chunk}"),
            Self::Files(chunk) => write!(f, "the list of files of chunk {chunk}"),
        }
    }
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn is_same_damage(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Damaged { path: a, part: b }, Self::Damaged { path: c, part: d }) => (b, a) == (d, c),
            _ => false,
        }
    }

    /// Whether a part of the database is damaged. The files themselves are still in the tree.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, source } => write!(f, "{what} {}: {source}", path.display()),
            Self::Missing(path) => {
                write!(f, "{}: no database here or above; `faultless index init` makes one", path.display())
            }
            Self::Damaged { path, part } => {
                let remedy = match part {
                    DamagedPart::Manifest => "`faultless index build` makes the database anew",
                    DamagedPart::Segment => "`faultless index update` makes it anew",
                    DamagedPart::Index => "every chunk is searched; `faultless index update` makes it anew",
                    DamagedPart::Dictionary | DamagedPart::Text(_) => {
                        "its files are searched in the tree; `faultless index update` makes it anew"
                    }
                    DamagedPart::Files(_) => {
                        "all files that are not known are searched; `faultless index update` makes it anew"
                    }
                };
                write!(f, "{}: {part} is damaged; {remedy}", path.display())
            }
            Self::Version { path, found } => write!(
                f,
                "{}: version {found} of the format; `faultless index build` makes the database anew",
                path.display()
            ),
            Self::Locked(path) => {
                write!(f, "{}: another process is updating this database; wait for it", path.display())
            }
            Self::Watched(path) => {
                write!(f, "{}: another process is watching for this database; one is enough", path.display())
            }
            Self::Watch(why) => write!(f, "watch: {why}"),
            Self::Project { path, line, why } => write!(f, "{}:{line}: {why}", path.display()),
            Self::Pattern(why) => f.write_str(why),
            Self::Cancelled => f.write_str("cancelled; the database is as it was"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
