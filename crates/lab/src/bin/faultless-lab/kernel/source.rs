//! The kernel's source: found, fetched or unpacked; and a copy with the patches applied.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use faultless_console::{Failure, reason};

use super::commands;

/// A version of Linux that `--fetch` gets from Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Series {
    /// The version that kernel/prezero is for
    #[value(name = "6.12")]
    Linux612,
    /// An older one, to compare with
    #[value(name = "6.1")]
    Linux61,
}

impl Series {
    /// Its first two numbers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linux612 => "6.12",
            Self::Linux61 => "6.1",
        }
    }

    /// Whether a version is of this series.
    pub(super) fn has(self, version: &str) -> bool {
        version.strip_prefix(self.name()).is_some_and(|rest| rest.starts_with('.'))
    }

    /// Debian's package and its version.
    fn package(self) -> (&'static str, &'static str) {
        match self {
            Self::Linux612 => ("linux-source-6.12", "6.12.117-1~deb12u1"),
            Self::Linux61 => ("linux-source-6.1", "6.1.192-2"),
        }
    }
}

/// The versions that the patches are for.
pub(super) const PATCHED_VERSION: &str = "6.12.";

/// An unpacked source and its version.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) folder: PathBuf,
    pub(super) version: String,
}

impl Source {
    /// The source that a path names: a tree, or an archive, which is unpacked into the work folder once.
    pub(super) fn find(path: &Path, work: &Path) -> Result<Self, Failure> {
        if path.is_dir() {
            return Self::tree(path);
        }
        if !path.is_file() {
            return Err(Failure(format!(
                "{}: there is no kernel source; name a tree or a .tar.xz, or write --fetch",
                path.display()
            )));
        }
        let folder = work.join("source");
        if !folder.is_dir() {
            let aside = work.join("source.part");
            let _ = std::fs::remove_dir_all(&aside);
            std::fs::create_dir_all(&aside).map_err(|error| unusable(&aside, &error))?;
            eprintln!("faultless: unpacking {}", path.display());
            let mut tar = Command::new("tar");
            tar.arg("-xf").arg(path).arg("-C").arg(&aside).arg("--strip-components=1");
            commands::run(&mut tar, &work.join("source.log"))?;
            std::fs::rename(&aside, &folder).map_err(|error| unusable(&folder, &error))?;
        }
        Self::tree(&folder)
    }

    fn tree(folder: &Path) -> Result<Self, Failure> {
        let shown = folder.display();
        let makefile = std::fs::read_to_string(folder.join("Makefile")).unwrap_or_default();
        let version = version(&makefile).ok_or_else(|| {
            Failure(format!("{shown}: is no kernel source; name a tree that has the kernel's Makefile"))
        })?;
        if folder.join(".config").exists() || folder.join("include/config").exists() {
            return Err(Failure(format!(
                "{shown}: was configured already; run `make mrproper` in it, or name another"
            )));
        }
        let folder = folder.canonicalize().map_err(|error| unusable(folder, &error))?;
        Ok(Self { folder, version })
    }

    /// Gets Debian's package; the path of the archive in it.
    pub(super) fn fetch(series: Series, work: &Path) -> Result<PathBuf, Failure> {
        let (package, version) = series.package();
        let archive = work.join(format!("usr/src/{package}.tar.xz"));
        if archive.is_file() {
            return Ok(archive);
        }
        commands::require(&[("apt-get", "apt"), ("dpkg-deb", "dpkg")])?;
        let (log, wanted) = (work.join("source.log"), format!("{package}={version}"));
        eprintln!("faultless: fetching {wanted}");
        let mut apt = Command::new("apt-get");
        apt.current_dir(work).args(["download", &wanted]);
        commands::run(&mut apt, &log).map_err(|failure| {
            Failure(format!("{failure}; run apt-get update, or name a source with --source"))
        })?;
        let files = std::fs::read_dir(work).map_err(|error| unusable(work, &error))?;
        let is_package = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
        };
        let package = files.filter_map(|entry| Some(entry.ok()?.path())).find(is_package);
        let package = package
            .ok_or_else(|| Failure(format!("{wanted}: apt-get left no package; see {}", log.display())))?;
        commands::run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(work), &log)?;
        Ok(archive)
    }

    /// A copy with the patches applied. Later calls change only files that then differ, so that the next build is
    /// incremental.
    pub(super) fn patched(&self, patches: &[PathBuf], work: &Path) -> Result<Self, Failure> {
        let [folder, part, stamp, names, log] =
            ["", ".part", ".sha256", ".files", ".log"].map(|end| work.join(format!("patched-source{end}")));
        let read = |patch: &PathBuf| std::fs::read(patch).map_err(|error| unusable(patch, &error));
        let text = patches.iter().map(read).collect::<Result<Vec<_>, _>>()?.concat();
        let known = format!("{}\n{}\n", self.version, commands::sha256(&text)?);
        if folder.is_dir() && std::fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == known) {
            return Ok(Self { folder, version: self.version.clone() });
        }
        let _ = (std::fs::remove_file(&stamp), std::fs::remove_dir_all(&part));
        if !folder.is_dir() {
            eprintln!("faultless: copying the source");
            let mut copy = Command::new("cp");
            copy.args(["-a", "--reflink=auto"]).arg(&self.folder).arg(&part);
            commands::run(&mut copy, &log)?;
            std::fs::rename(&part, &folder).map_err(|error| unusable(&folder, &error))?;
        }
        let had = std::fs::read_to_string(&names).unwrap_or_default();
        let mut all = touched(&String::from_utf8_lossy(&text));
        all.extend(had.lines().map(str::to_owned));
        let lines: String = all.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(&names, lines).map_err(|error| unusable(&names, &error))?;
        self.apply(patches, &all, &part, &log)?;
        for name in &all {
            replace(&part.join(name), &folder.join(name))
                .map_err(|error| unusable(&folder.join(name), &error))?;
        }
        let _ = std::fs::remove_dir_all(&part);
        std::fs::write(&stamp, known).map_err(|error| unusable(&stamp, &error))?;
        Ok(Self { folder, version: self.version.clone() })
    }

    /// Copies these files into a folder of their own and patches them there.
    fn apply(
        &self,
        patches: &[PathBuf],
        all: &BTreeSet<String>,
        part: &Path,
        log: &Path,
    ) -> Result<(), Failure> {
        for name in all {
            let (from, to) = (self.folder.join(name), part.join(name));
            let parent = to.parent().unwrap_or(part);
            std::fs::create_dir_all(parent).map_err(|error| unusable(parent, &error))?;
            if from.exists() {
                std::fs::copy(&from, &to).map_err(|error| unusable(&to, &error))?;
            }
        }
        for patch in patches {
            let mut apply = Command::new("patch");
            apply.args(["-p1", "-N", "-s", "--no-backup-if-mismatch", "-d"]).arg(part).arg("-i").arg(patch);
            commands::run(&mut apply, log)?;
        }
        Ok(())
    }
}

/// Makes a file what another is: absent, or with its content. A file that is right already keeps its time.
fn replace(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.exists() {
        return if to.exists() { std::fs::remove_file(to) } else { Ok(()) };
    }
    if to.exists() && std::fs::read(from)? == std::fs::read(to)? {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::copy(from, to).map(drop)
}

/// The patches of the checkout, in their order.
pub(super) fn patches(checkout: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(checkout.join("kernel/prezero")).into_iter().flatten();
    let mut found: Vec<PathBuf> = files
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".patch")
                && name.starts_with(|c: char| c.is_ascii_digit())
                && !name.starts_with("0000")
        })
        .collect();
    found.sort();
    found.into_iter().filter_map(|path| path.canonicalize().ok()).collect()
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {}; name a folder that can be written", path.display(), reason(error)))
}

/// The version that a kernel's Makefile states.
fn version(makefile: &str) -> Option<String> {
    let of = |name: &str| {
        let line =
            makefile.lines().find(|line| line.split('=').next().is_some_and(|word| word.trim() == name))?;
        Some(line.split_once('=')?.1.trim().to_owned())
    };
    Some(format!("{}.{}.{}", of("VERSION")?, of("PATCHLEVEL")?, of("SUBLEVEL")?))
}

/// The files that patches change, add or remove.
fn touched(patches: &str) -> BTreeSet<String> {
    let names = patches.lines().filter_map(|line| {
        let rest = line.strip_prefix("--- a/").or_else(|| line.strip_prefix("+++ b/"))?;
        rest.split('\t').next().map(|name| name.trim_end().to_owned())
    });
    names.filter(|name| !name.split('/').any(|part| part == "..")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKEFILE: &str = "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n";

    fn tree(at: &Path, text: &str) {
        std::fs::create_dir_all(at.join("mm")).unwrap();
        std::fs::write(at.join("Makefile"), MAKEFILE).unwrap();
        std::fs::write(at.join("mm/a.c"), text).unwrap();
        std::fs::write(at.join("mm/c.c"), "c\n").unwrap();
    }

    #[test]
    fn a_source_is_a_clean_tree_with_a_version() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), "");
        assert_eq!(Source::find(folder.path(), folder.path()).unwrap().version, "6.12.117");
        std::fs::write(folder.path().join(".config"), "").unwrap();
        let told = Source::find(folder.path(), folder.path()).unwrap_err().0;
        assert!(told.contains("make mrproper"), "{told}");
        let told = Source::find(&folder.path().join("mm"), folder.path()).unwrap_err().0;
        assert!(told.contains("is no kernel source"), "{told}");
        let told = Source::find(&folder.path().join("none"), folder.path()).unwrap_err().0;
        assert!(told.contains("--fetch"), "{told}");
    }

    #[test]
    fn a_version_is_of_one_series() {
        assert!(Series::Linux61.has("6.1.192") && Series::Linux612.has("6.12.117"));
        assert!(!Series::Linux61.has("6.12.117") && !Series::Linux612.has("6.1.192"));
    }

    #[test]
    fn other_patches_replace_the_former_and_leave_other_files_alone() {
        if commands::require(&[("patch", "patch")]).is_err() {
            return faultless_wants::missing_package("patch", "patch(1) applies the kernel's patches");
        }
        let folder = tempfile::tempdir().unwrap();
        let (from, work) = (folder.path().join("from"), folder.path().join("work"));
        tree(&from, "one\n");
        std::fs::create_dir(&work).unwrap();
        let source = Source::find(&from, &work).unwrap();
        let patch = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first = patch(
            "0001-x.patch",
            "--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1 @@\n-one\n+two\n--- /dev/null\n+++ b/mm/b.c\n@@ -0,0 +1 @@\n+new\n--- a/mm/c.c\n+++ b/mm/c.c\n@@ -1 +1 @@\n-c\n+d\n",
        );
        let second = patch(
            "0002-x.patch",
            "--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1 @@\n-one\n+three\n--- a/mm/c.c\n+++ b/mm/c.c\n@@ -1 +1 @@\n-c\n+d\n",
        );
        let read = |name: &str| std::fs::read_to_string(work.join("patched-source").join(name)).ok();
        source.patched(std::slice::from_ref(&first), &work).unwrap();
        assert_eq!((read("mm/a.c").as_deref(), read("mm/b.c").as_deref()), (Some("two\n"), Some("new\n")));
        source.patched(&[first], &work).unwrap();
        let time = || std::fs::metadata(work.join("patched-source/mm/c.c")).unwrap().modified().unwrap();
        let before = time();
        source.patched(&[second], &work).unwrap();
        assert_eq!(before, time(), "a file that both leave alike keeps its time");
        assert_eq!((read("mm/a.c").as_deref(), read("mm/b.c")), (Some("three\n"), None));
        let broken = patch("0003-x.patch", "--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1 @@\n-nine\n+ten\n");
        assert!(source.patched(&[broken], &work).unwrap_err().0.contains("patch failed"));
    }
}
