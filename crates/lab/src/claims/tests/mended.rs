//! Rules that once judged another quantity than the claim's, or could not fail: data that must reproduce each, and
//! data that must refute it.

use super::*;

const REPRODUCED: Verdict = Verdict::Reproduced;
const REFUTED: Verdict = Verdict::Refuted;
const CANNOT_SAY: Verdict = Verdict::CannotSay;

fn one(cell: &str, phase: &str, quantity: &str, value: f64) -> Results {
    results(&[exactly(3, cell, phase, quantity, value)])
}

#[test]
fn a_line_is_as_long_as_the_processor_says_and_no_time_tells() {
    let of = |bytes| {
        verdict("oops-line", &one("stride array=ones mib=256 stride=1", "setup", "line_bytes", bytes))
    };
    assert_eq!([64.0, 128.0, 32.0].map(of), [REPRODUCED, REFUTED, REFUTED]);
    let times = [16, 32].map(|stride| {
        exactly(
            3,
            &format!("stride array=ones mib=256 stride={stride}"),
            "timed",
            "wall_ns",
            f64::from(64 / stride),
        )
    });
    assert_eq!(verdict("oops-line", &results(&times)), CANNOT_SAY);
}

#[test]
fn the_loop_with_other_arithmetic_does_not_judge_the_documents() {
    for (id, array) in [("oops-ones-alike", "ones"), ("oops-prefaulted-strides", "prefaulted")] {
        let of = |ms: f64, is_documents: bool| {
            let cell = |stride| format!("stride array={array} mib=256 stride={stride}");
            let times = [(1, 29.0), (16, ms)]
                .map(|(stride, ms)| exactly(3, &cell(stride), "timed", "wall_ns", ms * 1e6));
            let check = if is_documents { exactly(3, &cell(1), "check", "cpu_ns", 1e6) } else { Vec::new() };
            judged(id, &results(&[times.concat(), check]))
        };
        assert_eq!([26.0, 9.0, 40.0].map(|ms| of(ms, true).verdict), [REPRODUCED, REFUTED, REFUTED], "{id}");
        let older = of(26.0, false);
        assert!(older.verdict == CANNOT_SAY && older.why.contains("adds up the elements"), "{older:?}");
    }
}

#[test]
fn arrays_are_compared_round_by_round() {
    let cell = |array: &str, stride| format!("stride array={array} mib=256 stride={stride}");
    let of = |own: f64| {
        let mut rows = Vec::new();
        for (cell, phases) in [
            (cell("shared", 1), &["setup", "first", "second"][..]),
            (cell("zeroed", 1), &["setup", "timed"]),
            (cell("zeroed", 16), &["setup", "timed"]),
        ] {
            for phase in phases {
                let count = if matches!(*phase, "first") {
                    100.0
                } else if *phase == "timed" {
                    own
                } else {
                    0.0
                };
                rows.push(exactly(3, &cell, phase, "minor_faults", count));
            }
        }
        verdict("oops-twice-the-arrays", &results(&rows))
    };
    assert_eq!([100.0, 50.0].map(of), [REPRODUCED, REFUTED]);
    let major = |count| verdict("oops-major-faults", &one(&cell("ones", 1), "timed", "major_faults", count));
    assert_eq!([0.0, 1.0].map(major), [REPRODUCED, REFUTED]);
}

#[test]
fn a_munmap_of_head_and_tail_is_judged_by_what_is_left_of_the_rest() {
    let of = |trap: &str, share: f64| {
        let cell = format!("prefault trap={trap} mib=64");
        let of = |quantity, bytes| exactly(3, &cell, "setup", quantity, bytes);
        verdict("prefault-munmap", &results(&[of("mapped_bytes", 100.0), of("resident_bytes", share)]))
    };
    assert_eq!([of("trimmed", 0.0), of("trimmed", 100.0)], [REPRODUCED, REFUTED]);
    // MADV_DONTNEED on everything proves nothing.
    assert_eq!(of("given-back", 0.0), CANNOT_SAY);
}

#[test]
fn prefaulting_is_judged_by_memset_alone() {
    let way = |name: &str, ns| {
        rounds(8, &format!("prefault way={name} operations=1000000"), "timed", "wall_ns", ns)
    };
    let of = |memset| verdict("prefault-no-gain", &results(&[way("none", 100.0), way("memset", memset)]));
    assert_eq!([107.0, 80.0].map(of), [REPRODUCED, REFUTED]);
}

#[test]
fn what_a_stand_in_was_built_for_is_not_reproduced() {
    let cell = |way| format!("prefault way={way} operations=1000000");
    let faults = ["none", "memset"].map(|way| exactly(3, &cell(way), "timed", "minor_faults", 132_507.0));
    let slabs = [
        exactly(3, &cell("memset"), "timed", "slabs", 518.0),
        exactly(3, &cell("memset"), "timed", "slab_pages", 256.0),
    ];
    let found = results(&[faults.concat(), slabs.concat()]);
    for id in ["baseline-faults", "user-faults", "expected-faults"].map(|id| format!("prefault-{id}")) {
        assert_eq!(verdict(&id, &found), CANNOT_SAY, "{id}");
    }
}

#[test]
fn half_of_the_blocks_is_a_relation() {
    let of = |share: f64| {
        let cell = "chunks memory=pool workers=1 queue=932 chunks=932";
        let of = |quantity, bytes| exactly(3, cell, "timed", quantity, bytes);
        let found = results(&[of("handed_out_bytes", 600.0), of("requested_bytes", 600.0 * share)]);
        ["queue-requests-less", "queue-requests-1"].map(|id| verdict(id, &found))
    };
    assert_eq!(of(0.5), [REPRODUCED, REPRODUCED]);
    assert_eq!(of(0.1), [REPRODUCED, REFUTED]);
    // A tenth is some, and not half.
    assert_eq!(of(0.9), [REPRODUCED, REFUTED]);
    assert_eq!(of(1.0), [REFUTED, REFUTED]);
}

#[test]
fn one_speed_is_no_threshold() {
    let cell = |memory| format!("chunks memory={memory} workers=2 queue=8 chunks=932");
    let wall = |memory, ns| exactly(3, &cell(memory), "timed", "wall_ns", ns);
    let processors = exactly(3, &cell("pool"), "timed", "processors", 2.0);
    let found = judged("queue-6-gb-s", &results(&[wall("mmap", 3e8), wall("pool", 1e8), processors]));
    assert!(found.verdict == CANNOT_SAY && found.why.contains("sweep of the speed"), "{found:?}");
}

#[test]
fn faults_are_serialised_where_threads_take_as_long_as_one_and_no_mapping_tells() {
    let touch = |threads, ns: f64| {
        let cell = format!("touch access=write mib=64 threads={threads} lock=no mappers=0 flush=no");
        let rows = [("first", "wall_ns", ns), ("map", "wall_ns", 1e9), ("setup", "processors", 2.0)];
        rows.map(|(phase, quantity, value)| exactly(3, &cell, phase, quantity, value)).concat()
    };
    let of = |ns: f64| verdict("queue-serialised", &results(&[touch(1, 1e6), touch(2, ns)]));
    assert_eq!([1e6, 1.4e6, 5.2e5].map(of), [REPRODUCED, REPRODUCED, REFUTED]);
    // A pipeline that also waits for mmap and munmap proves nothing.
    let chunks = |memory| {
        let cell = format!("chunks memory={memory} workers=2 queue=8 chunks=932");
        [exactly(3, &cell, "timed", "wall_ns", 1e9), exactly(3, &cell, "timed", "processors", 2.0)].concat()
    };
    assert_eq!(verdict("queue-serialised", &results(&[chunks("mmap"), chunks("pool")])), CANNOT_SAY);
}

#[test]
fn a_bandwidth_that_no_machine_reports_is_no_limit_and_a_gain_is_one_of_threads() {
    let copy = |processors: u32, ns: f64| {
        let of = |threads, ns| {
            let cell = format!("copy kind=copy mib=64 threads={threads}");
            [
                exactly(3, &cell, "warm", "wall_ns", ns),
                exactly(3, &cell, "setup", "processors", f64::from(processors)),
            ]
            .concat()
        };
        let limit =
            |kind| exactly(3, &format!("copy kind={kind} mib=64 threads=1"), "timed", "wall_ns", 100.0);
        results(&[of(1, 1000.0), of(processors, ns), limit("read"), limit("write")])
    };
    for ns in [1000.0, 600.0, 90.0] {
        let found = judged("hardware-copy-margin", &copy(2, ns));
        assert!(found.verdict == CANNOT_SAY && found.why.contains("memory modules"), "{found:?}");
    }
    let of = |ns| verdict("hardware-copy-threads", &copy(2, ns));
    // Two processors that copy twice as fast may have reached no limit yet.
    assert_eq!([600.0, 1000.0, 500.0].map(of), [REPRODUCED, REFUTED, CANNOT_SAY]);
    assert_eq!(verdict("hardware-copy-threads", &copy(8, 500.0)), REPRODUCED);
}

#[test]
fn a_scrubber_is_noticed_by_another_program_or_not() {
    let of = |beside_ns: f64| {
        let cell = |kind| format!("copy kind={kind} mib=64 threads=1");
        let of = |kind, ns| exactly(3, &cell(kind), "timed", "own_wall_ns", ns);
        verdict("prezero-scrubber", &results(&[of("read", 100.0), of("read-scrub", beside_ns)]))
    };
    assert_eq!([104.0, 130.0].map(of), [REPRODUCED, REFUTED]);
}

#[test]
fn nothing_gained_is_less_than_a_quarter_of_what_one_line_gains() {
    let arm = |arm: &str, lines, ns: f64| {
        let cell = format!("fault-rate arm={arm} mib=64 threads=1 lines={lines}");
        let of = |quantity, value| exactly(3, &cell, "timed", quantity, value);
        [of("pages", 1.0), of("cpu_ns", ns)].concat()
    };
    let of = |on_get_full| {
        let rows = [arm("kernel", 1, 900.0), arm("on-get", 1, 700.0), arm("ahead", 1, 100.0)];
        let full = [arm("kernel", 64, 1900.0), arm("on-get", 64, on_get_full), arm("ahead", 64, 1000.0)];
        verdict("prezero-no-gain-when-full", &results(&[rows.concat(), full.concat()]))
    };
    // 100, 300 of 600 ns, and a loss.
    assert_eq!([1100.0, 1300.0, 950.0].map(of), [REPRODUCED, REFUTED, REPRODUCED]);
}

#[test]
fn samples_that_are_left_out_are_counted_beside_the_verdict() {
    let cell = "stride array=ones mib=256 stride=1";
    let mut found = one(cell, "setup", "line_bytes", 64.0);
    let note = |cell: &str, round, text: &str| crate::record::Note {
        experiment: "stride".into(),
        cell: cell.split_once(' ').unwrap().1.into(),
        round,
        kind: crate::record::VIOLATION.into(),
        text: text.into(),
    };
    // Two notes of one sample, and a sample of another cell.
    let other = "stride array=zeroed mib=256 stride=4";
    found.notes = vec![
        note(cell, 4, "first"),
        note(cell, 4, "second"),
        note(cell, 5, "first"),
        note(other, 1, "first"),
    ];
    let finding = judged("oops-line", &found);
    assert_eq!(finding.verdict, REPRODUCED);
    assert!(finding.why.contains("2 samples left out, with counts that can't be"), "{finding:?}");
    // Nothing of the cell is left.
    found.notes = vec![note("stride array=zeroed mib=256 stride=1", 1, "first")];
    let gone = judged("oops-zeroed-faults", &found);
    assert!(gone.why.contains("1 sample left out") && gone.why.contains("decided by"), "{gone:?}");
}

#[test]
fn a_wide_interval_gives_no_verdict_and_names_the_remedy() {
    let memset = |round: u32| [115.5, 124.5, 106.5][round as usize % 3];
    let rows = |way: &str, ns: &dyn Fn(u32) -> f64| {
        let cell = format!("prefault way={way} operations=1000000");
        (1..=12).map(|round| row(&cell, round, "timed", "wall_ns", ns(round))).collect::<Vec<_>>()
    };
    let found = results(&[rows("none", &|_| 100.0), rows("memset", &memset)]);
    let finding = judged("prefault-memset-slower", &found);
    assert_eq!(finding.verdict, CANNOT_SAY, "{finding:?}");
    assert!(finding.why.contains("decided by more rounds"), "{finding:?}");
    let told = tally(&all().unwrap(), &found);
    assert!(told.contains("for want of a narrower interval: "), "{told}");
}

#[test]
fn a_limit_that_is_not_enforced_is_no_limit() {
    let of = |committed: f64, is_strict: f64| {
        let cell = "touch access=write mib=64 threads=1 lock=no mappers=0 flush=no";
        let of = |quantity, value| exactly(3, cell, "look", quantity, value);
        let rows = [
            of("commit_limit_bytes", 10.0),
            of("most_committed_bytes", committed),
            of("is_commit_strict", is_strict),
        ];
        verdict("hardware-commit-limit", &results(&rows))
    };
    // vm.overcommit_memory 2, 0, and 0 with RLIMIT_AS.
    assert_eq!([of(9.0, 1.0), of(40.0, 0.0), of(9.0, 0.0)], [REPRODUCED, REFUTED, CANNOT_SAY]);
}

#[test]
fn a_major_fault_is_held_against_a_minor_one() {
    let of = |hard_ns: f64| {
        let of = |source, ns, kind| {
            let cell = format!("major source={source} beside=none mib=16");
            let faults = exactly(3, &cell, "touch", kind, 100.0);
            [exactly(3, &cell, "touch", "wall_ns", 100.0 * ns), faults].concat()
        };
        verdict(
            "hardware-hard-faults",
            &results(&[of("file", hard_ns, "major_faults"), of("cached", 2e3, "minor_faults")]),
        )
    };
    assert_eq!([of(9e4), of(6e3)], [REPRODUCED, REFUTED]);
}

#[test]
fn mapping_beside_major_faults_is_held_against_the_same_beside_a_process() {
    let cell = |beside: &str, ns| {
        exactly(3, &format!("major source=maps beside={beside} mib=16"), "touch", "wall_ns", ns)
    };
    let of = |beside_ns, apart_ns| {
        let found = [cell("none", 1e6), cell("major", beside_ns), cell("process", apart_ns)];
        verdict("queue-hard-fault-blocks", &results(&found))
    };
    // Twice as slow, and no slower than beside a process.
    assert_eq!([of(2e6, 1.1e6), of(1.1e6, 1.1e6), of(2e6, 1.9e6)], [REPRODUCED, REFUTED, REFUTED]);
    // Slower than alone may come from the disk and the processors.
    let alone = judged("queue-hard-fault-blocks", &results(&[cell("none", 1e6), cell("major", 2e6)]));
    assert!(alone.verdict == CANNOT_SAY && alone.why.contains("beside a process"), "{alone:?}");
    assert_eq!(alone.ours, "2.00 times what it takes alone");
}

#[test]
fn new_memory_is_lazy_if_nothing_of_it_is_resident() {
    let of = |resident: f64| {
        let of =
            |quantity, bytes| exactly(3, "stride array=zeroed mib=256 stride=1", "setup", quantity, bytes);
        verdict("oops-lazy", &results(&[of("mapped_bytes", 256e6), of("resident_bytes", resident)]))
    };
    assert_eq!([0.0, 256e6].map(of), [REPRODUCED, REFUTED]);
    // Records in which the set-up did not map the array.
    assert_eq!(
        verdict("oops-lazy", &one("stride array=zeroed mib=256 stride=1", "setup", "minor_faults", 0.0)),
        CANNOT_SAY
    );
}

#[test]
fn a_miss_is_held_against_a_hit() {
    let of = |miss_ns| {
        let of = |kib: u32, ns: f64| {
            let cell = format!("latency kib={kib}");
            [exactly(3, &cell, "timed", "cpu_ns", 1e6 * ns), exactly(3, &cell, "timed", "loads", 1e6)]
                .concat()
        };
        verdict("queue-cache-miss", &results(&[of(16, 1.25), of(524_288, miss_ns)]))
    };
    assert_eq!([150.0, 60.0].map(of), [REPRODUCED, REFUTED]);
}

#[test]
fn a_copy_that_exceeds_its_limit_says_that_the_limit_is_none() {
    let of = |copy_ns: f64| {
        let cell = |kind| format!("copy kind={kind} mib=64 threads=1");
        let rows = [
            exactly(3, &cell("copy"), "warm", "wall_ns", copy_ns),
            exactly(3, &cell("read"), "timed", "wall_ns", 100.0),
            exactly(3, &cell("write"), "timed", "wall_ns", 100.0),
        ];
        verdict("hardware-copy-twice", &results(&rows))
    };
    assert_eq!([250.0, 500.0, 190.0].map(of), [REPRODUCED, REFUTED, CANNOT_SAY]);
}

#[test]
fn zeroing_is_held_against_the_fault_that_it_is_part_of() {
    let of = |share| {
        verdict(
            "prezero-zeroing-dominates",
            &one("phases page=base samples=450", "names", "zeroing_share", share),
        )
    };
    assert_eq!([0.7, 0.04].map(of), [REPRODUCED, REFUTED]);
}

#[test]
fn two_claims_on_the_same_samples_are_one_figure() {
    let cell = |way| format!("prefault way={way} operations=1000000");
    let found = results(&["none", "memset"].map(|way| {
        [
            exactly(8, &cell(way), "timed", "minor_faults", 132_507.0),
            exactly(8, &cell(way), "timed", "wall_ns", 1e9),
        ]
        .concat()
    }));
    let claims: Vec<Claim> =
        all().unwrap().into_iter().filter(|claim| claim.experiment == "prefault").collect();
    let figure = |id: &str| claims.iter().find(|claim| claim.id == id).unwrap().figure(&found);
    // A ratio and its inverse.
    assert_eq!(figure("prefault-memset-faults"), figure("prefault-off-faults"));
    assert_ne!(figure("prefault-memset-faults"), figure("prefault-memset-slower"));
    let told = tally(&claims, &found);
    assert!(told.starts_with("claims reproduced: 3; they rest on distinct figures: 2\n"), "{told}");
}

#[test]
fn a_few_per_cent_are_not_judged_by_a_stand_in_but_a_factor_is() {
    let wall = |memory, ns| {
        let cell = format!("chunks memory={memory} workers=8 queue=8 chunks=932");
        [exactly(8, &cell, "timed", "wall_ns", ns), exactly(8, &cell, "timed", "processors", 8.0)].concat()
    };
    let of = |mmap| results(&[wall("pool", 1e8), wall("malloc", 1.5e8), wall("mmap", mmap)]);
    for id in ["queue-osx32-8", "queue-osx64-8", "queue-win64-8"] {
        let finding = judged(id, &of(2e8));
        assert!(finding.verdict == CANNOT_SAY && finding.why.contains("bench/grep.py"), "{finding:?}");
    }
    assert_eq!([2e8, 1.1e8].map(|mmap| verdict("queue-win32-8", &of(mmap))), [REPRODUCED, REFUTED]);
    let one = |memory, ns| {
        exactly(8, &format!("chunks memory={memory} workers=1 queue=8 chunks=932"), "timed", "wall_ns", ns)
    };
    for ns in [1.05e8, 1.2e8, 5e8] {
        let found = results(&[one("pool", 1e8), one("malloc", 1e8), one("mmap", ns)]);
        for id in ["queue-win32-1", "queue-osx-mmap-1", "queue-osx-cache-1"] {
            let finding = judged(id, &found);
            assert!(finding.verdict == CANNOT_SAY && finding.why.contains("bench/grep.py"), "{finding:?}");
        }
    }
}

#[test]
fn how_long_a_reader_takes_does_not_judge_writes_to_memory() {
    for reader_ns in [1.0, 1e3, 1e6] {
        let of = |engine: &str, ns: f64| {
            let cell = format!("zeroing engine={engine} from=cold order=0 mib=128");
            let of = |phase, quantity, value| exactly(3, &cell, phase, quantity, value);
            [of("reader", "cpu_ns", 100.0 + ns), of("zero", "cpu_ns", 100.0), of("zero", "pages", 1.0)]
                .concat()
        };
        let found = results(&[of("non-temporal", reader_ns), of("cached", 10.0)]);
        let finding = judged("prezero-reader-finds-hot", &found);
        assert!(finding.verdict == CANNOT_SAY && finding.why.contains("count of writes"), "{finding:?}");
    }
}

#[test]
fn the_overhead_of_a_lock_is_cpu_time_and_samples_of_the_kernel_stand_beside_it() {
    let touch = |threads, cpu_ns: f64| {
        let cell = format!("touch access=write mib=64 threads={threads} lock=no mappers=0 flush=no");
        let rows = [("first", "own_cpu_ns", cpu_ns), ("setup", "processors", 8.0)];
        rows.map(|(phase, quantity, value)| exactly(3, &cell, phase, quantity, value)).concat()
    };
    let sampled = |threads, share| {
        let cell = format!("phases page=base threads={threads} samples=10000");
        let of = |quantity, value| exactly(3, &cell, "names", quantity, value);
        [of("fault_ns", 1700.0), of("locks_share", share)].concat()
    };
    let of = |crowded: f64| judged("hardware-touch-overhead", &results(&[touch(1, 1e6), touch(16, crowded)]));
    assert_eq!([3e6, 1.1e6].map(|ns| of(ns).verdict), [REPRODUCED, REFUTED]);
    assert!(!of(3e6).ours.contains("sampled"), "{:?}", of(3e6));
    let rows = [touch(1, 1e6), touch(16, 3e6), sampled(16, 0.5), sampled(2, 0.14), sampled(1, 0.13)];
    let finding = judged("hardware-touch-overhead", &results(&rows));
    let told = "; CPU time per page, sampled: 1 thread 1700 ns, 13.0 % of it at locks; 2 threads 1700 ns, 14.0 % of it at locks; 16";
    assert!(finding.ours.contains(told), "{finding:?}");
    // Nothing but the samples is no measure of the claim.
    assert_eq!(verdict("hardware-touch-overhead", &results(&[sampled(1, 0.1), sampled(2, 0.9)])), CANNOT_SAY);
}

#[test]
fn two_processors_neither_refute_nor_show_what_was_seen_with_more() {
    let copies = |processors: f64, cold_ns: f64| {
        let of = |threads: f64, cold, warm| {
            let cell = format!("copy kind=copy mib=64 threads={threads}");
            let rows =
                [("cold", "wall_ns", cold), ("warm", "wall_ns", warm), ("setup", "processors", processors)];
            rows.map(|(phase, quantity, value)| exactly(3, &cell, phase, quantity, value)).concat()
        };
        let found = results(&[of(1.0, 1000.0, 500.0), of(processors, cold_ns, 250.0)]);
        verdict("hardware-copy-gain", &found)
    };
    // Warm copies gain twofold; cold ones 2.5 times, or 1.25 times.
    assert_eq!([400.0, 800.0].map(|ns| copies(2.0, ns)), [CANNOT_SAY, REPRODUCED]);
    assert_eq!([400.0, 800.0].map(|ns| copies(8.0, ns)), [REFUTED, REPRODUCED]);
    let touches = |processors: f64, gain: f64| {
        let of = |threads: f64, ns: f64| {
            let cell = format!("touch access=write mib=64 threads={threads} lock=no mappers=0 flush=no");
            let rows = [("first", "wall_ns", ns), ("setup", "processors", processors)];
            rows.map(|(phase, quantity, value)| exactly(3, &cell, phase, quantity, value)).concat()
        };
        let found = results(&[of(1.0, 1e6), of(processors, 1e6 / gain)]);
        verdict("hardware-fall-distributes", &found)
    };
    assert_eq!([2.0, 1.1].map(|gain| touches(2.0, gain)), [CANNOT_SAY, REFUTED]);
    assert_eq!([4.0, 1.1].map(|gain| touches(4.0, gain)), [REPRODUCED, REFUTED]);
}

#[test]
fn better_without_the_memset_is_better_by_any_margin() {
    let way = |name: &str, ns| {
        exactly(8, &format!("prefault way={name} operations=1000000"), "timed", "wall_ns", ns)
    };
    let of = |memset| {
        let found = results(&[way("none", 100.0), way("memset", memset)]);
        ["prefault-off-faster", "prefault-memset-slower"].map(|id| verdict(id, &found))
    };
    assert_eq!(of(107.0), [REPRODUCED, REPRODUCED]);
    // Far more than the 7 to 8 % of the report.
    assert_eq!(of(140.0), [REPRODUCED, REFUTED]);
    assert_eq!(of(95.0), [REFUTED, REFUTED]);
}
