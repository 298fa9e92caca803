//! The capabilities of faultless on this machine, and remedies for the missing ones.

use faultless_os::Error;
use faultless_os::host::Host;
use serde::Serialize;

use crate::cmd::glibc;

/// One ability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Capability {
    pub(super) what: &'static str,
    pub(super) here: bool,
    /// How it works here, or why it does not.
    pub(super) why: String,
    /// The remedy.
    pub(super) change: Option<String>,
}

/// All abilities.
pub(super) fn all(host: &Host) -> Vec<Capability> {
    vec![
        count(host),
        pairs(host),
        kernel_mode(host),
        phases(host),
        thp(host),
        probe("prefault in place", &host.probes.populate_write, "kernel >= 5.14"),
        interposer(),
        tunables(host),
    ]
}

fn yes(what: &'static str, why: impl Into<String>) -> Capability {
    Capability { what, here: true, why: why.into(), change: None }
}

fn no(what: &'static str, why: impl Into<String>, change: impl Into<String>) -> Capability {
    Capability { what, here: false, why: why.into(), change: Some(change.into()) }
}

fn count(host: &Host) -> Capability {
    const WHAT: &str = "count faults and find avoidable ones";
    if host.hides_proc() {
        no(WHAT, "counted by wait4; memory can't be read, /proc is hidden", "mount -t proc proc /proc")
    } else {
        yes(WHAT, "wait4 and sampling of /proc; no rights needed")
    }
}

fn probe(what: &'static str, answer: &Result<(), Error>, change: &str) -> Capability {
    match answer {
        Ok(()) => yes(what, "tried, works"),
        Err(error) => no(what, error.to_string(), change),
    }
}

fn pairs(host: &Host) -> Capability {
    const WHAT: &str = "time single faults of user mode";
    match &host.probes.perf_user {
        Ok(()) => yes(WHAT, "perf software events, user mode; no root needed"),
        Err(error) => no(WHAT, error.to_string(), perf_remedy(host, error, 2)),
    }
}

fn kernel_mode(host: &Host) -> Capability {
    const WHAT: &str = "time faults taken inside system calls";
    match &host.probes.perf_kernel {
        Ok(()) => yes(WHAT, "perf software events, kernel mode too"),
        Err(error) => no(WHAT, error.to_string(), perf_remedy(host, error, 1)),
    }
}

const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// How to make perf open at `level`. In perf_event_open(2), level 2 allows user space only, and level 1 the
/// kernel too. CAP_PERFMON (Linux 5.8) overrides the level.
fn perf_remedy(host: &Host, error: &Error, level: i64) -> String {
    let paranoid = host.sysctl.get("kernel/perf_event_paranoid").copied();
    match paranoid {
        None => "a kernel with perf events (CONFIG_PERF_EVENTS)".into(),
        // The kernel itself refuses with EACCES, a seccomp profile with EPERM.
        Some(found) if error.errno == EACCES && found > level => {
            let root = root(host);
            format!("{root}, CAP_PERFMON, or sysctl kernel.perf_event_paranoid={level} (now {found})")
        }
        Some(_) if error.errno == EPERM || host.seccomp == Some(true) => {
            "a container with --cap-add=PERFMON, or a seccomp profile that allows perf_event_open".into()
        }
        Some(_) => format!("{} or CAP_PERFMON", root(host)),
    }
}

/// A root user who is refused is root of a user namespace (user_namespaces(7)).
fn root(host: &Host) -> &'static str {
    if host.root { "root outside this container" } else { "root" }
}

/// kernel.rst, kptr_restrict: 2 hides addresses from everybody.
fn phases(host: &Host) -> Capability {
    const WHAT: &str = "split the kernel's time in a fault into phases";
    let hidden = host.sysctl.get("kernel/kptr_restrict").is_some_and(|level| *level >= 2);
    match (&host.probes.perf_kernel, host.root) {
        (Ok(()), true) if !hidden => yes(WHAT, "cpu-clock samples with kernel stacks"),
        (Ok(()), true) => {
            no(WHAT, "kernel addresses are hidden from root too", "sysctl kernel.kptr_restrict=1")
        }
        (Ok(()), false) => no(WHAT, "kernel addresses are hidden from users", root(host)),
        (Err(error), _) => no(WHAT, error.to_string(), root(host)),
    }
}

fn thp(host: &Host) -> Capability {
    const WHAT: &str = "back the pool with THP";
    match &host.thp {
        Some(thp) if thp.available() => {
            yes(WHAT, format!("transparent_hugepage is {}", thp.word().unwrap_or_default()))
        }
        Some(thp) => {
            let word = thp.word().unwrap_or_default();
            no(WHAT, format!("transparent_hugepage is {word}"), super::huge::enable_thp(thp))
        }
        None if host.hides_sys() => no(WHAT, "not known: /sys is hidden", "mount -t sysfs sys /sys"),
        None => no(WHAT, "no THP in this kernel", "CONFIG_TRANSPARENT_HUGEPAGE"),
    }
}

fn interposer() -> Capability {
    yes(
        "run programs with the pool",
        "LD_PRELOAD: dynamically linked programs; not static, setuid or own-allocator ones (ld.so(8))",
    )
}

fn tunables(host: &Host) -> Capability {
    const WHAT: &str = "THP through glibc's malloc (GLIBC_TUNABLES hugetlb=1)";
    match &host.glibc {
        Some(text) if glibc::has_hugetlb(host) => match &host.thp {
            Some(thp) if !thp.available() => no(WHAT, "THP are off", super::huge::enable_thp(thp)),
            _ => yes(WHAT, format!("glibc {text}")),
        },
        Some(text) => no(WHAT, format!("glibc {text}"), "glibc >= 2.35, or `faultless run`"),
        None => no(WHAT, "not running on glibc", "`faultless run`, or a glibc system"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::host::Thp;

    fn denied(paranoid: i64) -> Host {
        let mut host = Host::default();
        host.probes.perf_user = Err(Error::new("perf_event_open", 13));
        host.sysctl.insert("kernel/perf_event_paranoid".into(), paranoid);
        host
    }

    #[test]
    fn denied_perf_names_the_remedy_that_fits() {
        assert!(pairs(&denied(4)).change.unwrap().contains("perf_event_paranoid=2 (now 4)"));
        let mut container = denied(2);
        container.seccomp = Some(true);
        assert!(pairs(&container).change.unwrap().contains("seccomp"));
        let mut filtered = denied(4);
        filtered.probes.perf_user = Err(Error::new("perf_event_open", EPERM));
        assert!(pairs(&filtered).change.unwrap().contains("seccomp"));
        let mut bare = denied(2);
        bare.sysctl.clear();
        assert!(pairs(&bare).change.unwrap().contains("CONFIG_PERF_EVENTS"));
    }

    #[test]
    fn root_of_a_container_is_not_told_to_become_root() {
        let container = Host { root: true, ..denied(3) };
        assert!(pairs(&container).change.unwrap().starts_with("root outside this container, "));
        assert_eq!(phases(&container).change.unwrap(), "root outside this container");
    }

    #[test]
    fn the_tunable_needs_glibc_2_35() {
        let here = |version: &str| tunables(&Host { glibc: Some(version.into()), ..Host::default() }).here;
        assert!(here("2.36") && here("2.35") && here("3.0"));
        assert!(!here("2.31"));
        let off = Host { glibc: Some("2.36".into()), thp: Some(Thp::default()), ..Host::default() };
        assert!(!tunables(&off).here);
    }

    #[test]
    fn what_is_missing_always_says_what_would_change_that() {
        for capability in all(&Host::default()) {
            assert_eq!(capability.here, capability.change.is_none(), "{capability:?}");
        }
    }
}
