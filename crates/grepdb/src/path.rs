//! Paths in a tree: their form, and their order in a database.
//!
//! A *tree path* is a path below the root, as bytes of the file system, without a slash at either end. The root
//! itself is empty.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name of the folder with the database, below the root.
pub const FOLDER: &str = ".faultless";

/// The order of files in a database: by the names of their folders, then by their own. The files of a folder are
/// neighbours.
pub(crate) fn path_order(a: &[u8], b: &[u8]) -> Ordering {
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    // Neighbours share long prefixes.
    let shared = shared_prefix_bytes(a, b);
    a[shared..].iter().map(key).cmp(b[shared..].iter().map(key))
}

pub(crate) fn shared_prefix_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The tree path of `path`. A path outside `root` is returned whole.
pub(crate) fn tree_path(root: &Path, path: &Path) -> Vec<u8> {
    path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec()
}

pub(crate) fn disk_path(root: &Path, tree_path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(tree_path))
}

/// Whether the file at `path` lies in `folder` or in a folder below it.
pub(crate) fn is_below(path: &[u8], folder: &[u8]) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Paths in formats of serde, which itself takes only those in UTF-8.
pub(crate) mod any_bytes {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| path.as_os_str()))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<OsString>::deserialize(from)?.into_iter().map(PathBuf::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_comes_with_all_that_is_in_it() {
        let mut paths = ["a/c", "a-b", "a/b/c", "a/b", "a"];
        paths.sort_by(|a, b| path_order(a.as_bytes(), b.as_bytes()));
        assert_eq!(paths, ["a", "a/b", "a/b/c", "a/c", "a-b"]);
    }
}
