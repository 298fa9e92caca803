//! The one way for a test to skip: something is missing -> a record, or a panic.
//!
//! A test that can't run says what it lacks and returns. There are three kinds:
//!
//! | kind | functions | with `FAULTLESS_TEST_REQUIRE=all` |
//! |---|---|---|
//! | package: a program, a library or a Python package that can be installed | [`program`], [`missing_package`] | the test panics |
//! | feature: the kernel, the hardware or a right | [`missing_feature`] | counted against `crates/wants/missing.txt` |
//! | request: the test runs only when asked for | [`asked`] | nothing |
//!
//! Without the variable the test passes. The last test program of `cargo test` (`tests/summary.rs`) lists all
//! skips.
//!
//! With the variable, `missing.txt` names what may be missing, and in how many tests: features, and packages that
//! some distributions lack. A test that lacks another package or feature panics. The summary fails if more
//! tests skip than allowed.
//!
//! This crate does not detect features: the test does. Only tests depend on it.
//!
//! ```
//! # fn prints_what_sh_prints() {
//! if !faultless_wants::program("sh", "dash") {
//!     return;
//! }
//! // compare something with the output of sh
//! # }
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it speaks to who runs the tests")]

mod allowed;
mod record;
pub mod summary;

use std::env;
use std::fmt::Display;
use std::panic::Location;
use std::path::PathBuf;

use allowed::Allowed;
use record::{Kind, Record};

/// The variable that turns missing packages into failures. Its one value is `all`.
const REQUIRE: &str = "FAULTLESS_TEST_REQUIRE";

/// Whether a program is on the PATH. If not, the test skips. `package` is Debian's name of its package.
///
/// # Panics
/// With `FAULTLESS_TEST_REQUIRE=all`, if the program is missing.
#[track_caller]
#[must_use]
pub fn program(name: &str, package: &str) -> bool {
    let is_there = find(name).is_some();
    if !is_there {
        missing_package(package, format_args!("no program {name} on the PATH"));
    }
    is_there
}

/// The path of a program, as [`program`] finds it.
///
/// # Panics
/// With `FAULTLESS_TEST_REQUIRE=all`, if the program is missing.
#[track_caller]
#[must_use]
pub fn path_of(name: &str, package: &str) -> Option<PathBuf> {
    program(name, package).then(|| find(name)).flatten()
}

/// Records that the test, or a part of it, skips because a package is missing. `why` says what was tried, and
/// the result.
///
/// # Panics
/// With `FAULTLESS_TEST_REQUIRE=all`, unless `missing.txt` names the package.
#[track_caller]
pub fn missing_package(package: &str, why: impl Display) {
    skip(Kind::Package, package, &why);
}

/// Records that the test, or a part of it, skips because the kernel, the hardware or a right is missing.
/// `feature` is a name in `missing.txt`; `why` is the observation.
///
/// # Panics
/// With `FAULTLESS_TEST_REQUIRE=all`, unless `missing.txt` names the feature.
#[track_caller]
pub fn missing_feature(feature: &str, why: impl Display) {
    skip(Kind::Feature, feature, &why);
}

/// Whether the environment asks for a test that takes long or changes the machine. If not, the test skips,
/// for the reason `why`.
#[track_caller]
#[must_use]
pub fn asked(variable: &str, why: &str) -> bool {
    let is_asked = env::var_os(variable).is_some();
    if !is_asked {
        skip(Kind::Request, variable, &why);
    }
    is_asked
}

/// Whether everything must be there except for the list.
fn requires_all() -> bool {
    let value = env::var_os(REQUIRE).unwrap_or_default();
    assert!(value.is_empty() || value == "all", "{REQUIRE}={value:?}: the one value is all");
    value == "all"
}

#[track_caller]
fn skip(kind: Kind, what: &str, why: &dyn Display) {
    let thread = std::thread::current();
    let record = Record {
        kind,
        package: env::var("CARGO_PKG_NAME").unwrap_or_default(),
        // The harness names a thread after its test, unless all tests share one.
        test: thread.name().filter(|name| *name != "main").unwrap_or("a test").to_owned(),
        location: Location::caller().to_string(),
        what: what.to_owned(),
        why: why.to_string(),
    };
    eprintln!("skipped: {record}");
    record.keep();
    assert!(!requires_all() || Allowed::committed().allows(kind, what), "{REQUIRE}=all: {record}");
}

/// An executable file of this name on the PATH.
fn find(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let folders = env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&folders).map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_the_path_has_it() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find("no-such-program-of-faultless"), None);
        assert_eq!(find("etc/passwd"), None, "no right to execute");
    }
}
