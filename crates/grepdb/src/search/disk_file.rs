//! A file that a search reads on disk: it changed since the database read it, or no database has it.

use std::path::PathBuf;

use crate::path::disk_path;
use crate::store::database::Location;

/// A file on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFile {
    /// The path to open.
    pub path: PathBuf,
    /// The path to print.
    pub display_path: Vec<u8>,
    /// The path below the root, which decides its place in the output.
    pub tree_path: Vec<u8>,
    /// The user named the file, so [`binary_named`](crate::engine::Search::binary_named) applies.
    pub is_named: bool,
    /// The user named its encoding, so a byte order mark does not count.
    pub has_encoding: bool,
}

impl DiskFile {
    /// The regular file at `path` below the root, if it exists.
    pub fn at(location: &Location, path: &[u8], display_path: &dyn Fn(&[u8]) -> Vec<u8>) -> Option<Self> {
        let on_disk = disk_path(&location.root, path);
        on_disk.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self {
            path: on_disk,
            display_path: display_path(path),
            tree_path: path.to_vec(),
            is_named: false,
            has_encoding: false,
        })
    }
}
