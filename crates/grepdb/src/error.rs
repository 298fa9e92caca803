//! What can go wrong, as the user reads it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::damage::Part;

/// What went wrong, and with which file.
#[derive(Debug)]
pub enum Error {
    /// The system refused something.
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
    /// There is no database in this folder.
    Missing(PathBuf),
    /// A part of the database is not what was written.
    Damaged {
        /// File of the database.
        path: PathBuf,
        /// Which part of it.
        part: Part,
    },
    /// A file of another version.
    Version {
        /// File of the database.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Somebody else is changing the database.
    Locked(PathBuf),
    /// Somebody else is watching the tree.
    Watched(PathBuf),
    /// The kernel does not let the tree be watched.
    Watch(String),
    /// A project file says something that means nothing.
    Project {
        /// The file.
        path: PathBuf,
        /// Its line.
        line: usize,
        /// Why.
        why: String,
    },
    /// The pattern is none.
    Pattern(String),
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }

    /// Both name the same damaged part.
    pub(crate) fn is_same_damage(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Damaged { path: a, part: b }, Self::Damaged { path: c, part: d }) => (b, a) == (d, c),
            _ => false,
        }
    }

    /// A part of the database is not what was written: what it held is still in the tree.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, source } => write!(f, "{what} {}: {source}", path.display()),
            Self::Missing(path) => {
                write!(f, "{}: there is no database; `faultless grep init` makes one", path.display())
            }
            Self::Damaged { path, part } => {
                let remedy = match part {
                    Part::Manifest => "`faultless grep build` makes the database anew",
                    Part::Segment => "`faultless grep update` makes it anew",
                    Part::Index => "every chunk is searched; `faultless grep update` makes it anew",
                    Part::Dictionary | Part::Text(_) => {
                        "its files are searched in the tree; `faultless grep update` makes it anew"
                    }
                    Part::Files(_) => {
                        "all files that are not known are searched; `faultless grep update` makes it anew"
                    }
                };
                write!(f, "{}: {part} is damaged; {remedy}", path.display())
            }
            Self::Version { path, found } => write!(
                f,
                "{}: version {found} of the format; `faultless grep build` makes the database anew",
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

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
