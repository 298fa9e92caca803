//! Requirements of single tests. Each function says whether the machine meets one; if not, it records that
//! the test skips.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use faultless_trace::recording::Recording;
use faultless_wants as wants;

use crate::{FAULTLESS, text};

/// Whether this process may become another user, and has the program for it.
#[track_caller]
pub(crate) fn other_users() -> bool {
    root("only root can become another user") && wants::program("setpriv", "util-linux")
}

/// Whether this process is root's.
#[track_caller]
pub(crate) fn root(why: &str) -> bool {
    let is_root = faultless_os::host::user().0 == 0;
    if !is_root {
        wants::missing_feature("root", why);
    }
    is_root
}

/// Whether children get SIGINT. A shell makes background jobs ignore it.
#[track_caller]
pub(crate) fn sigint() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    let is_ignored = u64::from_str_radix(ignored, 16).unwrap() >> 1 & 1 == 1;
    if is_ignored {
        wants::missing_feature(
            "SIGINT",
            "these tests run in the background of a script, where it is ignored",
        );
    }
    !is_ignored
}

/// Whether the faults of a recording were counted.
#[track_caller]
pub(crate) fn events(recording: &Recording) -> bool {
    let is_counted = recording.observation.counts.user_faults.is_some();
    if !is_counted {
        wants::missing_feature("perf events", format_args!("{:?}", recording.observation.sources));
    }
    is_counted
}

/// Copies a program without holding it open for writing here. A child that another test forks meanwhile would
/// inherit that descriptor, and the copy could not be executed.
pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let out = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
}

/// Whether `faultless record` works here at all.
#[track_caller]
pub(crate) fn recorder() -> bool {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    let tried = || {
        let folder = tempfile::tempdir().unwrap();
        let out =
            Command::new(FAULTLESS).args(["record", "--", "true"]).current_dir(&folder).output().unwrap();
        let said = text(&out.stderr);
        // The tests have to find any other failure.
        (!out.status.success() && said.contains("perf_event_open()")).then_some(said)
    };
    let refusal = REFUSAL.get_or_init(tried);
    if let Some(why) = refusal {
        wants::missing_feature("perf events", why);
    }
    refusal.is_none()
}
