//! How interpreters are made to name the code that they run.
//!
//! In: flags. Out: variables for the environment of the command. Python's trampolines change nothing that a
//! program sees, so they are on by default. Node's and Java's options print lines or make more than tables,
//! so they are for those who ask.

use std::ffi::OsString;

use faultless_prof::Runtimes;

/// CPython 3.12 and later: trampolines, and a table of them in /tmp.
const PYTHON: &str = "PYTHONPERFSUPPORT";
/// Node's options, beside those that are set.
const NODE: (&str, &str) = ("NODE_OPTIONS", "--perf-basic-prof");
/// Java 17 and later. The machine prints that it has picked them up.
const JAVA: (&str, &str) =
    ("JAVA_TOOL_OPTIONS", "-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer");

/// Variables for the command, and the runtimes whose tables are then ours to remove.
pub(in crate::cmd) fn variables(python: bool, jit: bool) -> (Vec<(OsString, OsString)>, Runtimes) {
    chosen(python, jit, |name| std::env::var_os(name))
}

fn chosen(
    python: bool,
    jit: bool,
    set: impl Fn(&str) -> Option<OsString>,
) -> (Vec<(OsString, OsString)>, Runtimes) {
    let mut variables = Vec::new();
    // A user who has set it decides, and keeps the tables.
    let python = python && set(PYTHON).is_none();
    if python {
        variables.push((PYTHON.into(), "1".into()));
    }
    for (name, options) in [NODE, JAVA].into_iter().filter(|_| jit) {
        let mut value = set(name).unwrap_or_default();
        if !value.is_empty() {
            value.push(" ");
        }
        value.push(options);
        variables.push((name.into(), value));
    }
    (variables, Runtimes { python, jit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_has_set_stays() {
        let user = |name: &str| (name != "JAVA_TOOL_OPTIONS").then(|| OsString::from("--own"));
        let (variables, runtimes) = chosen(true, true, user);
        assert_eq!(runtimes, Runtimes { python: false, jit: true });
        assert_eq!(variables[0], ("NODE_OPTIONS".into(), "--own --perf-basic-prof".into()));
        assert!(variables[1].1.to_string_lossy().starts_with("-XX:"));
        let (variables, runtimes) = chosen(true, false, |_| None);
        assert_eq!((variables.len(), runtimes), (1, Runtimes { python: true, jit: false }));
    }
}
