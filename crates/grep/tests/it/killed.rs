//! `faultless index update`, killed at any point or out of disk space.
//!
//! The database is the old one or the new one, and is whole after the next update. `FAULTLESS_TEST_KILLS`
//! sets the number of kills.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// In every file, followed by text that makes this version of the file unique.
const MARK: &str = "marker";

/// A tree, and its expected content.
struct Tree {
    folder: tempfile::TempDir,
    rng: fastrand::Rng,
    /// The marked line of each file.
    now: BTreeMap<String, String>,
    changes: u64,
}

impl Tree {
    /// A tree with a database.
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Self { folder, rng: fastrand::Rng::with_seed(seed), now: BTreeMap::new(), changes: 0 };
        (0..150).for_each(|_| tree.write());
        tree.run("build");
        tree
    }

    fn write(&mut self) {
        self.changes += 1;
        let name = format!("d{}/f{}", self.rng.u8(..5), self.rng.u8(..60));
        let line = format!("{MARK} {}", self.changes);
        let filler = format!("something else {}\n", self.rng.u32(..));
        let text = format!("{}{line}\n", filler.repeat(self.rng.usize(..600)));
        let path = self.folder.path().join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        // Old enough to be trusted, and never the same.
        file.set_modified(SystemTime::now() - Duration::from_secs(100_000_000 - self.changes)).unwrap();
        self.now.insert(name, line);
    }

    fn remove(&mut self) {
        let at = self.rng.usize(..self.now.len());
        let name = self.now.keys().nth(at).unwrap().clone();
        fs::remove_file(self.folder.path().join(&name)).unwrap();
        self.now.remove(&name);
    }

    fn change(&mut self) {
        (0..self.rng.usize(1..60)).for_each(|_| self.write());
        (0..self.rng.usize(..5)).for_each(|_| self.remove());
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = crate::index();
        command.arg(verb).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs a verb that must succeed.
    fn run(&self, verb: &str) {
        let out = self.command(verb).output().unwrap();
        assert!(out.status.success(), "{verb}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// A copy of the tree, to come back to.
    fn kept(&self) -> Kept {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(self.folder.path()).unwrap().flatten() {
            if entry.file_name() != ".faultless" {
                copy(&entry.path(), folder.path());
            }
        }
        Kept { folder, lines: self.now.clone() }
    }

    /// Whether the database has the tree as it is now; if not, it must have the tree as it was `before`.
    ///
    /// A search checks the files that it names. Only beside its own tree does a database give no warning.
    fn is_renewed(&self, before: &Kept) -> bool {
        let (found, said) = found(self.folder.path());
        if said.is_empty() && found == self.now {
            return true;
        }
        let _ = fs::remove_dir_all(before.folder.path().join(".faultless"));
        copy(&self.folder.path().join(".faultless"), before.folder.path());
        assert_eq!(self::found(before.folder.path()), (before.lines.clone(), String::new()));
        false
    }

    /// Checks that the next update leaves the tree unchanged, and nothing extra in the database's folder.
    fn is_whole_after_an_update(&self) {
        self.run("update");
        assert_eq!(found(self.folder.path()), (self.now.clone(), String::new()));
        self.has_no_scraps();
    }

    fn has_no_scraps(&self) {
        let entries = fs::read_dir(self.folder.path().join(".faultless/grep")).unwrap().flatten();
        let names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        let segments = names.iter().filter(|name| name.ends_with(".segment")).count();
        assert!(segments <= 12 && !names.iter().any(|name| name.ends_with(".new")), "{names:?}");
    }
}

/// A copy of a tree.
struct Kept {
    folder: tempfile::TempDir,
    lines: BTreeMap<String, String>,
}

/// Copies with all times.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// The matches of a search in `folder`, and its warnings.
fn found(folder: &Path) -> (BTreeMap<String, String>, String) {
    let out = crate::grep().arg(MARK).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{}: {said}", out.status);
    let text = String::from_utf8(out.stdout).unwrap();
    let lines = text.lines().map(|line| {
        let (path, rest) = line.split_once(':').unwrap();
        (path.to_owned(), rest[rest.find(MARK).unwrap()..].to_owned())
    });
    (lines.collect(), said)
}

#[test]
fn a_database_whose_update_was_killed_is_that_from_before_or_that_from_after() {
    let kills = std::env::var("FAULTLESS_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12);
    let mut tree = Tree::new(3);
    let mut before = tree.kept();
    let (mut takes, mut finished, mut renewed) = (Duration::from_millis(300), 0, 0);
    for kill in 0..kills {
        tree.change();
        let mut update = tree.command("update").stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(takes.mul_f64(tree.rng.f64() * 1.1));
        // It may have ended already.
        let _ = update.kill();
        finished += usize::from(update.wait().unwrap().signal().is_none());
        if tree.is_renewed(&before) {
            renewed += 1;
            before = tree.kept();
        }
        if kill % 3 == 0 {
            let begun = Instant::now();
            tree.is_whole_after_an_update();
            takes = begun.elapsed().mul_f64(0.5);
            before = tree.kept();
        }
    }
    assert!(finished < kills, "none of {kills} was killed, {renewed} had renewed the database");
    tree.is_whole_after_an_update();
}

/// Checks that an update failed: one line that names the file, exit status 2, the old database, and no
/// unfinished files.
fn has_failed(tree: &Tree, out: &Output, before: &Kept) {
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.lines().count() == 1 && said.contains(".faultless/grep"), "{said}");
    assert!(!tree.is_renewed(before));
}

#[test]
fn a_file_that_may_not_grow_leaves_the_database_from_before() {
    let mut tree = Tree::new(4);
    let before = tree.kept();
    let mut failed = 0;
    let links = tempfile::tempdir().unwrap();
    let link = crate::index_link(links.path());
    for blocks in [0, 1, 2, 3, 5, 8, 13, 20, 40] {
        tree.change();
        // The limit is in blocks of 512 bytes. Without the signal a write fails with EFBIG.
        let update = format!("ulimit -f {blocks}; trap '' XFSZ; exec \"$0\" update");
        let out = Command::new("sh")
            .args(["-c", &update])
            .arg(&link)
            .current_dir(tree.folder.path())
            .output()
            .unwrap();
        if out.status.success() {
            break;
        }
        failed += 1;
        has_failed(&tree, &out, &before);
    }
    assert!(failed >= 3, "{failed} failed");
    tree.is_whole_after_an_update();
}

/// A small file system, unmounted on drop.
struct Mounted<'p>(&'p Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_database_from_before() {
    let mut tree = Tree::new(5);
    let place = tree.folder.path().join(".faultless");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=700k", "tmpfs"]).arg(&place).output();
    if !mount.as_ref().is_ok_and(|out| out.status.success()) {
        return faultless_wants::missing_feature("mounts", format_args!("no small tmpfs: {mount:?}"));
    }
    let _mounted = Mounted(&place);
    tree.run("build");
    let before = tree.kept();
    let filler = place.join("filler");
    let mut failed = 0;
    for free_kib in [0, 4, 8, 16, 32, 64, 128] {
        tree.change();
        fs::write(&filler, vec![1; 2 << 20]).unwrap_err();
        let full = fs::metadata(&filler).unwrap().len();
        fs::File::options()
            .write(true)
            .open(&filler)
            .unwrap()
            .set_len(full.saturating_sub(free_kib << 10))
            .unwrap();
        let out = tree.command("update").output().unwrap();
        if out.status.success() {
            break;
        }
        failed += 1;
        has_failed(&tree, &out, &before);
    }
    assert!(failed > 0);
    fs::remove_file(&filler).unwrap();
    tree.is_whole_after_an_update();
}
