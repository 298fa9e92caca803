//! Boots: arms (a kernel with its settings) and plans (the tests of one boot).
//!
//! In: an arm and a plan. Out: the text that the guest's init carries out, and QEMU's arguments, which make two runs
//! byte-identical.

use std::fmt::Write as _;
use std::path::Path;

use crate::Work;

/// A kernel with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    /// A word that names it.
    pub(crate) name: &'static str,
    /// A description of a few words.
    pub(crate) about: &'static str,
    /// Whether its kernel has the patch.
    pub(crate) is_patched: bool,
    /// A word of the kernel's command line, beside the common ones.
    argument: &'static str,
    /// `scrub_stop` and `scrub_start`, in the order in which they are set.
    scrub: Option<[u32; 2]>,
    /// Its plans.
    pub(crate) plans: &'static [&'static str],
}

const BASE: Arm = Arm {
    name: "base",
    about: "the unpatched kernel",
    is_patched: false,
    argument: "",
    scrub: None,
    plans: &["lines", "kinds", "pool", "threads", "empty-cache"],
};

/// All arms.
pub(crate) const ARMS: [Arm; 5] = [
    BASE,
    Arm {
        name: "off",
        about: "the patched kernel, switched off, as it boots",
        is_patched: true,
        plans: &["lines", "kinds", "pool", "threads"],
        ..BASE
    },
    Arm {
        name: "on",
        about: "the patched kernel with scrub_start 4 and scrub_stop 2",
        is_patched: true,
        scrub: Some([2, 4]),
        ..BASE
    },
    Arm {
        name: "on-large",
        about: "the patched kernel with scrub_start 9 and scrub_stop 9: only blocks of 2 MiB and more",
        is_patched: true,
        scrub: Some([9, 9]),
        plans: &["pool", "threads"],
        ..BASE
    },
    Arm {
        name: "init-on-alloc",
        about: "the unpatched kernel with init_on_alloc=1, as Debian boots it",
        argument: "init_on_alloc=1",
        plans: &["kinds"],
        ..BASE
    },
];

/// The tests of one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// A word that names it.
    pub(crate) name: &'static str,
    /// Virtual processors.
    pub(crate) vcpus: u32,
    /// Memory of the machine.
    mib: u32,
    /// Programs of the guest with their words; `[1,2]` stands for one test with each value. [`SHORT`] and [`DEFAULT`]
    /// set the per-CPU lists.
    steps: &'static [&'static str],
}

/// Keeps per-CPU lists short: the shortest that the kernel takes on such a small machine.
const SHORT: &str = "write /proc/sys/vm/percpu_pagelist_high_fraction 1000";
/// Gives them the kernel's own choice.
const DEFAULT: &str = "write /proc/sys/vm/percpu_pagelist_high_fraction 0";

/// All plans.
pub(crate) const PLANS: [Plan; 5] = [
    // The document's page-fault test by cache lines touched.
    Plan {
        name: "lines",
        vcpus: 1,
        mib: 384,
        steps: &[
            SHORT,
            "pft mib=64 lines=[1,2,4,8,16,32,64] pcp=short",
            DEFAULT,
            "pft mib=64 lines=[1,64] pcp=default",
        ],
    },
    // Kinds of faults, page tables, huge pages, fork and unmapping.
    Plan {
        name: "kinds",
        vcpus: 1,
        mib: 384,
        steps: &[
            SHORT,
            "kinds kind=[populate,zero-page,write-after-read,copy-on-write,reuse,fork] mib=16",
            "kinds kind=[shmem,tmpfs-write,page-tables,munmap] mib=16",
            "kinds kind=[thp,mthp-64k,hugetlb] mib=32",
        ],
    },
    // A finite stock: bursts after idle time, hot recycling, and a stock that runs dry.
    Plan {
        name: "pool",
        vcpus: 1,
        mib: 256,
        steps: &[
            SHORT,
            "pool test=burst mib=16 rep=8 ms=[1000,10] pcp=short",
            "pool test=hot kib=256 rep=256 lines=1 pcp=short",
            "pool test=dry mib=360 pcp=short",
            DEFAULT,
            "pool test=burst mib=16 rep=8 ms=1000 pcp=default",
            "pool test=hot kib=256 rep=256 lines=[1,64] pcp=default",
            "pool test=hot kib=16384 rep=8 lines=1 pcp=default",
        ],
    },
    // The document's page-fault test by threads, and churn.
    Plan {
        name: "threads",
        vcpus: 8,
        mib: 512,
        steps: &[
            "pft mib=64 rep=3 threads=[1,2,4,8] lines=1 pcp=default",
            "pool test=churn mib=128 rep=200 threads=4",
        ],
    },
    // The document's page-fault test with empty caches: nobody has left pages in them.
    Plan {
        name: "empty-cache",
        vcpus: 1,
        mib: 384,
        steps: &[
            SHORT,
            "pft mib=64 lines=[1,64] cache=empty pcp=short",
            DEFAULT,
            "pft mib=64 lines=[1,64] cache=empty pcp=default",
        ],
    },
];

/// Idle time before a test, in virtual ms: the scrubber clears all of these machines within it.
const SETTLE_MS: u32 = 5000;

/// A step for each value that `[1,2]` in it stands for.
fn each(step: &'static str) -> Vec<String> {
    match step.split_once('[').and_then(|(before, rest)| Some((before, rest.split_once(']')?))) {
        Some((before, (values, after))) => {
            values.split(',').map(|value| format!("{before}{value}{after}")).collect()
        }
        None => vec![step.to_owned()],
    }
}

impl Plan {
    fn steps(&self) -> impl Iterator<Item = String> {
        self.steps.iter().flat_map(|step| each(step))
    }

    /// Its tests, as a program with its parameters.
    pub(crate) fn tests(&self) -> impl Iterator<Item = String> {
        self.steps().filter(|step| !step.starts_with("write "))
    }

    /// The plan as the guest's init reads it: idle time for the scrubber before each test.
    pub(crate) fn text(&self, arm: &Arm) -> String {
        let mut text = format!("# {} on {}\n", self.name, arm.name);
        if let Some([stop, start]) = arm.scrub {
            let _ = writeln!(
                text,
                "write /proc/sys/vm/scrub_stop {stop}\nwrite /proc/sys/vm/scrub_start {start}"
            );
        }
        text.push_str("write /sys/kernel/mm/transparent_hugepage/enabled madvise\narm\n");
        let mut number = 0;
        for step in self.steps() {
            if step.starts_with("write ") {
                let _ = writeln!(text, "{step}");
                continue;
            }
            number += 1;
            let _ = writeln!(text, "run pool test=settle ms={SETTLE_MS} before={number}\nrun {step}");
        }
        text
    }
}

/// Whether the arm of this name zeroes in the background.
pub(crate) fn scrubs(arm: &str) -> bool {
    ARMS.iter().any(|found| found.name == arm && found.scrub.is_some())
}

/// A test of a plan.
pub(crate) struct Test {
    /// The name of the plan.
    pub(crate) plan: &'static str,
    /// Its number in the plan, from 1.
    pub(crate) number: usize,
    /// The program with its parameters.
    pub(crate) words: String,
}

/// The tests of all plans.
pub(crate) fn tests() -> impl Iterator<Item = Test> {
    let of = |plan: &'static Plan| {
        (1..).zip(plan.tests()).map(|(number, words)| Test { plan: plan.name, number, words })
    };
    PLANS.iter().flat_map(of)
}

/// The machine. Its clock counts instructions and jumps over idle time. It has no randomness: no random instructions, a
/// fixed seed, a fixed date.
const MACHINE: &str = "-nodefaults -no-user-config -display none -no-reboot -accel tcg,thread=single \
     -icount shift=0,sleep=off -rtc base=2026-01-01,clock=vm -seed 1 -cpu max,-rdrand,-rdseed";
/// The kernel's command line, without address randomisation.
const APPEND: &str =
    "console=ttyS0 quiet loglevel=1 panic=-1 nokaslr norandmaps random.trust_cpu=off no_timer_check";

/// The words behind `qemu-system-x86_64`, for a boot whose files are in a folder: `initramfs`, and what it leaves there,
/// `console` and `counts`.
pub(crate) fn qemu(plan: &Plan, arm: &Arm, work: &Work, folder: &Path) -> Vec<String> {
    let shown = |path: &Path| path.display().to_string();
    let (vcpus, mib) = (plan.vcpus.to_string(), format!("{}M", plan.mib));
    // A comma within a value is doubled.
    let value = |path: &Path| shown(path).replace(',', ",,");
    let (plugin, map, counts) = (work.plugin(), work.map(arm.is_patched), folder.join("counts"));
    let plugin = format!("{},map={},out={},cpus={vcpus}", value(&plugin), value(&map), value(&counts));
    let append = format!("{APPEND} {}", arm.argument);
    let words = [
        ["-smp", &vcpus],
        ["-m", &mib],
        ["-kernel", &shown(&work.image(arm.is_patched))],
        ["-initrd", &shown(&folder.join("initramfs"))],
        ["-append", append.trim_end()],
        ["-serial", &format!("file:{}", shown(&folder.join("console")))],
        ["-plugin", &plugin],
    ];
    MACHINE.split_whitespace().chain(words.into_iter().flatten()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_comes_after_idle_time_and_is_another_cell() {
        for plan in &PLANS {
            let text = plan.text(&ARMS[2]);
            let runs: Vec<&str> = text.lines().filter(|line| line.starts_with("run ")).collect();
            assert_eq!(runs.len(), 2 * plan.tests().count());
            assert!(runs.iter().step_by(2).all(|line| line.contains("test=settle")), "{text}");
            let distinct: std::collections::BTreeSet<_> = runs.iter().collect();
            assert_eq!(distinct.len(), runs.len(), "{text}");
            let stop = text.find("scrub_stop").unwrap();
            assert!(stop < text.find("scrub_start").unwrap(), "the range is set before it starts");
        }
        assert_eq!(each("a x=[1,2] y"), ["a x=1 y", "a x=2 y"]);
    }

    #[test]
    fn the_machine_has_no_source_of_randomness() {
        let words = qemu(&PLANS[0], &ARMS[4], &Work("a,b".into()), Path::new("c")).join(" ");
        for word in [
            "shift=0,sleep=off",
            "nokaslr",
            "norandmaps",
            "clock=vm",
            "-rdrand,-rdseed",
            "-seed 1",
            "init_on_alloc=1",
            "a,,b/counts.so,map=a,,b/base/System.map,out=c/counts,cpus=1",
        ] {
            assert!(words.contains(word), "{word}: {words}");
        }
    }
}
