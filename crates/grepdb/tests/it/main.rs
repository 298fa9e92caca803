//! The library from outside. One test program for all: each has to be linked after every change.

mod fresh;
mod library;

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Writes a file with a modification time `age` seconds ago, so that its time is settled.
fn write(root: &Path, path: &str, text: impl AsRef<[u8]>, age: u64) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let time = SystemTime::now() - Duration::from_secs(age);
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
}
