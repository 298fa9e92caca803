//! The kernel's source: found, fetched or unpacked; and a copy with the patches applied.

use std::path::{Path, PathBuf};
use std::process::Command;

use faultless_console::Failure;

use crate::commands;
use crate::record::unwritable;

/// A version of Linux that `--fetch` gets from Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    /// Its first two numbers.
    pub(crate) name: &'static str,
    /// Debian's package.
    package: &'static str,
    /// The version of the package.
    version: &'static str,
}

/// The version that kernel/prezero is for, and an older one to compare with.
pub(crate) const SERIES: [Series; 2] = [
    Series { name: "6.12", package: "linux-source-6.12", version: "6.12.117-1~deb12u1" },
    Series { name: "6.1", package: "linux-source-6.1", version: "6.1.192-2" },
];

impl Series {
    /// Whether a version is of this series.
    pub(crate) fn has(&self, version: &str) -> bool {
        version.strip_prefix(self.name).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// The versions that the patches are for.
pub(crate) const PATCHED_VERSION: &str = "6.12.";

/// An unpacked source and its version.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) folder: PathBuf,
    pub(crate) version: String,
}

impl Source {
    /// The source that a path names: a tree, or an archive, which is unpacked into the work folder once.
    pub(crate) fn find(path: &Path, work: &Path) -> Result<Self, Failure> {
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
            std::fs::create_dir_all(&aside).map_err(|error| unwritable(&aside, &error))?;
            eprintln!("faultless: unpacking {}", path.display());
            let mut tar = Command::new("tar");
            tar.arg("-xf").arg(path).arg("-C").arg(&aside).arg("--strip-components=1");
            commands::run(&mut tar, &work.join("source.log"))?;
            std::fs::rename(&aside, &folder).map_err(|error| unwritable(&folder, &error))?;
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
        let folder = folder.canonicalize().map_err(|error| unwritable(folder, &error))?;
        Ok(Self { folder, version })
    }

    /// Gets Debian's package; the path of the archive in it.
    pub(crate) fn fetch(series: &Series, work: &Path) -> Result<PathBuf, Failure> {
        let Series { package, version, .. } = series;
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
        let files = std::fs::read_dir(work).map_err(|error| unwritable(work, &error))?;
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

    /// A copy with the patches applied; one with the same patches is used again. A copy keeps the time of each file, so
    /// that a kernel is built anew only as far as a patch reaches.
    pub(crate) fn patched(&self, patches: &[PathBuf], work: &Path) -> Result<Self, Failure> {
        let [folder, stamp, log] =
            ["", ".sha256", ".log"].map(|end| work.join(format!("patched-source{end}")));
        let read = |patch: &PathBuf| std::fs::read(patch).map_err(|error| unwritable(patch, &error));
        let text = patches.iter().map(read).collect::<Result<Vec<_>, _>>()?.concat();
        let known = format!("{}\n{}\n", self.version, commands::sha256(&text)?);
        let patched = Self { folder, version: self.version.clone() };
        if std::fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == known) {
            return Ok(patched);
        }
        let _ = (std::fs::remove_file(&stamp), std::fs::remove_dir_all(&patched.folder));
        eprintln!("faultless: copying the source");
        let mut copy = Command::new("cp");
        commands::run(copy.args(["-a", "--reflink=auto"]).arg(&self.folder).arg(&patched.folder), &log)?;
        for patch in patches {
            let mut apply = Command::new("patch");
            apply.args(["-p1", "-N", "-s", "--no-backup-if-mismatch", "-d"]).arg(&patched.folder);
            commands::run(apply.arg("-i").arg(patch), &log)?;
        }
        std::fs::write(&stamp, known).map_err(|error| unwritable(&stamp, &error))?;
        Ok(patched)
    }
}

/// The patches of the checkout, in their order.
pub(crate) fn patches(checkout: &Path) -> Vec<PathBuf> {
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

/// The version that a kernel's Makefile states.
fn version(makefile: &str) -> Option<String> {
    let of = |name: &str| {
        let line =
            makefile.lines().find(|line| line.split('=').next().is_some_and(|word| word.trim() == name))?;
        Some(line.split_once('=')?.1.trim().to_owned())
    };
    Some(format!("{}.{}.{}", of("VERSION")?, of("PATCHLEVEL")?, of("SUBLEVEL")?))
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
        let of = |version| SERIES.map(|series| series.has(version));
        assert_eq!([of("6.12.117"), of("6.1.192")], [[true, false], [false, true]]);
    }

    #[test]
    fn other_patches_replace_the_former_and_a_broken_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (from, work) = (folder.path().join("from"), folder.path().join("work"));
        tree(&from, "one\n");
        std::fs::create_dir(&work).unwrap();
        let source = Source::find(&from, &work).unwrap();
        let patch = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1 @@\n{text}")).unwrap();
            path
        };
        let read = |name: &str| std::fs::read_to_string(work.join("patched-source").join(name)).ok();
        let first = patch("0001-x.patch", "-one\n+two\n--- /dev/null\n+++ b/mm/b.c\n@@ -0,0 +1 @@\n+new\n");
        for _ in 0..2 {
            source.patched(std::slice::from_ref(&first), &work).unwrap();
            assert_eq!(
                (read("mm/a.c").as_deref(), read("mm/b.c").as_deref()),
                (Some("two\n"), Some("new\n"))
            );
        }
        source.patched(&[patch("0002-x.patch", "-one\n+three\n")], &work).unwrap();
        assert_eq!((read("mm/a.c").as_deref(), read("mm/b.c")), (Some("three\n"), None));
        let broken = patch("0003-x.patch", "-nine\n+ten\n");
        for _ in 0..2 {
            let told = source.patched(std::slice::from_ref(&broken), &work).unwrap_err().0;
            assert!(told.contains("patch failed"), "{told}");
        }
    }
}
