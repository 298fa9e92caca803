//! Boots: arms (a kernel with its settings) and plans (the tests of one boot).
//!
//! In: an arm and a plan. Out: the text that the guest's init carries out, and QEMU's arguments, which make two runs
//! byte-identical.

use std::fmt::Write as _;
use std::path::Path;

/// A kernel with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// A word that names it.
    pub name: &'static str,
    /// A description of a few words.
    pub about: &'static str,
    /// Whether its kernel has the patch.
    pub is_patched: bool,
    /// Words of the kernel's command line, beside the common ones.
    pub arguments: &'static str,
    /// Files and the values to write, in this order.
    pub settings: &'static [(&'static str, &'static str)],
    /// Its plans.
    pub plans: &'static [&'static str],
}

const ALL_PLANS: &[&str] = &["lines", "kinds", "pool", "threads"];
const ALL_PLANS_AND_EMPTY_CACHE: &[&str] = &["lines", "kinds", "pool", "threads", "empty-cache"];

/// All arms.
pub const ARMS: [Arm; 5] = [
    Arm {
        name: "base",
        about: "the unpatched kernel",
        is_patched: false,
        arguments: "",
        settings: &[],
        plans: ALL_PLANS_AND_EMPTY_CACHE,
    },
    Arm {
        name: "off",
        about: "the patched kernel, switched off, as it boots",
        is_patched: true,
        arguments: "",
        settings: &[],
        plans: ALL_PLANS,
    },
    Arm {
        name: "on",
        about: "the patched kernel with scrub_start 4 and scrub_stop 2",
        is_patched: true,
        arguments: "",
        settings: &[("/proc/sys/vm/scrub_stop", "2"), ("/proc/sys/vm/scrub_start", "4")],
        plans: ALL_PLANS_AND_EMPTY_CACHE,
    },
    Arm {
        name: "on-large",
        about: "the patched kernel with scrub_start 9 and scrub_stop 9: only blocks of 2 MiB and more",
        is_patched: true,
        arguments: "",
        settings: &[("/proc/sys/vm/scrub_stop", "9"), ("/proc/sys/vm/scrub_start", "9")],
        plans: &["pool", "threads"],
    },
    Arm {
        name: "init-on-alloc",
        about: "the unpatched kernel with init_on_alloc=1, as Debian boots it",
        is_patched: false,
        arguments: "init_on_alloc=1",
        settings: &[],
        plans: &["kinds"],
    },
];

/// The tests of one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// A word that names it.
    pub name: &'static str,
    /// Its subject, in a few words.
    pub about: &'static str,
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory of the machine.
    pub mib: u32,
    /// Its steps.
    steps: &'static [Step],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Idle time for the scrubber, then a program with these words.
    Run(&'static str),
    /// Keeps per-CPU lists short, or gives them their default.
    PerCpuLists(bool),
}

use Step::{PerCpuLists, Run};

/// All plans.
pub const PLANS: [Plan; 5] = [
    Plan {
        name: "lines",
        about: "the document's page-fault test by cache lines touched",
        vcpus: 1,
        mib: 384,
        steps: &[
            PerCpuLists(true),
            Run("pft mib=64 lines=1 pcp=short"),
            Run("pft mib=64 lines=2 pcp=short"),
            Run("pft mib=64 lines=4 pcp=short"),
            Run("pft mib=64 lines=8 pcp=short"),
            Run("pft mib=64 lines=16 pcp=short"),
            Run("pft mib=64 lines=32 pcp=short"),
            Run("pft mib=64 lines=64 pcp=short"),
            PerCpuLists(false),
            Run("pft mib=64 lines=1 pcp=default"),
            Run("pft mib=64 lines=64 pcp=default"),
        ],
    },
    Plan {
        name: "kinds",
        about: "kinds of faults, page tables, huge pages, fork and unmapping",
        vcpus: 1,
        mib: 384,
        steps: &[
            PerCpuLists(true),
            Run("kinds kind=populate mib=16"),
            Run("kinds kind=zero-page mib=16"),
            Run("kinds kind=write-after-read mib=16"),
            Run("kinds kind=copy-on-write mib=16"),
            Run("kinds kind=reuse mib=16"),
            Run("kinds kind=fork mib=16"),
            Run("kinds kind=shmem mib=16"),
            Run("kinds kind=tmpfs-write mib=16"),
            Run("kinds kind=page-tables mib=16"),
            Run("kinds kind=munmap mib=16"),
            Run("kinds kind=thp mib=32"),
            Run("kinds kind=mthp-64k mib=32"),
            Run("kinds kind=hugetlb mib=32"),
        ],
    },
    Plan {
        name: "pool",
        about: "a finite stock: bursts after idle time, hot recycling, and a stock that runs dry",
        vcpus: 1,
        mib: 256,
        steps: &[
            PerCpuLists(true),
            Run("pool test=burst mib=16 rep=8 ms=1000 pcp=short"),
            Run("pool test=burst mib=16 rep=8 ms=10 pcp=short"),
            Run("pool test=hot kib=256 rep=256 lines=1 pcp=short"),
            Run("pool test=dry mib=360 pcp=short"),
            PerCpuLists(false),
            Run("pool test=burst mib=16 rep=8 ms=1000 pcp=default"),
            Run("pool test=hot kib=256 rep=256 lines=1 pcp=default"),
            Run("pool test=hot kib=256 rep=256 lines=64 pcp=default"),
            Run("pool test=hot kib=16384 rep=8 lines=1 pcp=default"),
        ],
    },
    Plan {
        name: "threads",
        about: "the document's page-fault test by threads, and churn",
        vcpus: 8,
        mib: 512,
        steps: &[
            Run("pft mib=64 rep=3 threads=1 lines=1 pcp=default"),
            Run("pft mib=64 rep=3 threads=2 lines=1 pcp=default"),
            Run("pft mib=64 rep=3 threads=4 lines=1 pcp=default"),
            Run("pft mib=64 rep=3 threads=8 lines=1 pcp=default"),
            Run("pool test=churn mib=128 rep=200 threads=4"),
        ],
    },
    Plan {
        name: "empty-cache",
        about: "the document's page-fault test with empty caches: nobody has left pages in them",
        vcpus: 1,
        mib: 384,
        steps: &[
            PerCpuLists(true),
            Run("pft mib=64 lines=1 cache=empty pcp=short"),
            Run("pft mib=64 lines=64 cache=empty pcp=short"),
            PerCpuLists(false),
            Run("pft mib=64 lines=1 cache=empty pcp=default"),
            Run("pft mib=64 lines=64 cache=empty pcp=default"),
        ],
    },
];

/// Idle time before a test, in virtual ms: the scrubber clears all of these machines within it.
const SETTLE_MS: u32 = 5000;
/// Divides the pages of a zone for the longest per-CPU lists.
const PER_CPU_LISTS: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
/// The shortest that the kernel takes on such a small machine.
const SHORT_LISTS: &str = "1000";
/// 0 gives the kernel's own choice.
const DEFAULT_LISTS: &str = "0";

impl Plan {
    /// The plan as the guest's init reads it.
    pub fn text(&self, arm: &Arm) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "# {} on {}", self.name, arm.name);
        for (path, value) in arm.settings {
            let _ = writeln!(text, "write {path} {value}");
        }
        text.push_str("write /sys/kernel/mm/transparent_hugepage/enabled madvise\narm\n");
        let mut number = 0;
        for step in self.steps {
            match step {
                PerCpuLists(is_short) => {
                    let value = if *is_short { SHORT_LISTS } else { DEFAULT_LISTS };
                    let _ = writeln!(text, "write {PER_CPU_LISTS} {value}");
                }
                Run(words) => {
                    number += 1;
                    let _ =
                        writeln!(text, "run pool test=settle ms={SETTLE_MS} before={number}\nrun {words}");
                }
            }
        }
        text
    }

    /// Its tests, as a program with its parameters.
    pub fn tests(&self) -> impl Iterator<Item = &'static str> {
        self.steps.iter().filter_map(|step| match step {
            Run(words) => Some(*words),
            PerCpuLists(_) => None,
        })
    }

    /// How many cells it has: each test, and the idle time before it.
    pub fn cells(&self) -> usize {
        self.tests().count() * 2
    }
}

impl Arm {
    /// Whether it zeroes in the background.
    pub fn scrubs(&self) -> bool {
        self.settings.iter().any(|(path, _)| path.ends_with("scrub_start"))
    }
}

/// Finds an arm by its name.
pub fn arm(name: &str) -> Option<&'static Arm> {
    ARMS.iter().find(|arm| arm.name == name)
}

/// Finds a plan by its name.
pub fn plan(name: &str) -> Option<&'static Plan> {
    PLANS.iter().find(|plan| plan.name == name)
}

/// The files of one boot.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The kernel.
    pub kernel: &'a Path,
    /// The addresses of its functions.
    pub map: &'a Path,
    /// The guest's files.
    pub initramfs: &'a Path,
    /// The plugin.
    pub plugin: &'a Path,
    /// Where the guest's console goes.
    pub console: &'a Path,
    /// Where the plugin's counts go.
    pub counts: &'a Path,
}

/// The words behind `qemu-system-x86_64`.
///
/// The clock counts instructions, and jumps over idle time. There is no randomness: no address randomisation, no random
/// instructions, a fixed seed, a fixed date.
pub fn qemu(plan: &Plan, arm: &Arm, files: &Files) -> Vec<String> {
    let shown = |path: &Path| path.display().to_string();
    let (vcpus, mib) = (plan.vcpus.to_string(), format!("{}M", plan.mib));
    // A comma within a value is doubled.
    let value = |path: &Path| shown(path).replace(',', ",,");
    let plugin =
        format!("{},map={},out={},cpus={vcpus}", value(files.plugin), value(files.map), value(files.counts));
    let append = format!(
        "console=ttyS0 quiet loglevel=1 panic=-1 nokaslr norandmaps random.trust_cpu=off no_timer_check {}",
        arm.arguments
    );
    let words = [
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-accel",
        "tcg,thread=single",
        "-icount",
        "shift=0,sleep=off",
        "-rtc",
        "base=2026-01-01,clock=vm",
        "-seed",
        "1",
        "-cpu",
        "max,-rdrand,-rdseed",
        "-smp",
        &vcpus,
        "-m",
        &mib,
        "-kernel",
        &shown(files.kernel),
        "-initrd",
        &shown(files.initramfs),
        "-append",
        append.trim_end(),
        "-serial",
        &format!("file:{}", shown(files.console)),
        "-plugin",
        &plugin,
    ];
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_plans_are_known() {
        for arm in &ARMS {
            assert_eq!(super::arm(arm.name), Some(arm));
            assert!(!arm.name.contains(' ') && arm.plans.iter().all(|name| plan(name).is_some()));
        }
        assert!(arm("none").is_none() && plan("none").is_none());
    }

    #[test]
    fn every_test_comes_after_idle_time_and_is_another_cell() {
        for plan in &PLANS {
            let text = plan.text(&ARMS[2]);
            let runs: Vec<&str> = text.lines().filter(|line| line.starts_with("run ")).collect();
            assert_eq!(runs.len(), plan.cells());
            assert!(runs.iter().step_by(2).all(|line| line.contains("test=settle")), "{text}");
            let distinct: std::collections::BTreeSet<_> = runs.iter().collect();
            assert_eq!(distinct.len(), runs.len(), "{text}");
            let stop = text.find("scrub_stop").unwrap();
            assert!(stop < text.find("scrub_start").unwrap(), "the range is set before it starts");
        }
    }

    #[test]
    fn the_machine_has_no_source_of_randomness() {
        let path = Path::new("a,b");
        let files =
            Files { kernel: path, map: path, initramfs: path, plugin: path, console: path, counts: path };
        let words = qemu(&PLANS[0], &ARMS[4], &files).join(" ");
        for word in [
            "shift=0,sleep=off",
            "nokaslr",
            "norandmaps",
            "clock=vm",
            "-rdrand,-rdseed",
            "-seed 1",
            "init_on_alloc=1",
            "a,,b",
        ] {
            assert!(words.contains(word), "{word}: {words}");
        }
    }
}
