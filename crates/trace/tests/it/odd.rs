//! Observations that make no sense: times out of order, counters at their limits, windows that overlap.

use faultless_trace::Stat;
use faultless_trace::observation::{
    Access, Calibration, Counts, Exit, Host, KernelSamples, Level, Map, Observation, Record, Usage, What,
    Window,
};
use faultless_trace::stat::Interval;
use proptest::prelude::*;

/// Small numbers that meet each other, and the extremes.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..40_u64, 3 => (0..40_u64).prop_map(|n| n * 4096), 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.0..5000.0f64, 1 => any::<f64>(), 1 => Just(f64::NAN), 1 => Just(-1e9)]
}

fn what() -> impl Strategy<Value = What> {
    let access =
        prop::option::of(prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::Execute)]);
    let name = prop_oneof![Just("//anon"), Just("[heap]"), Just("[stack]"), Just("/lib/x.so"), Just("")];
    prop_oneof![
        4 => (number(), any::<bool>(), access, mapped()).prop_map(|(addr, kernel, access, mapped_bytes)| What::Enter { addr, ip: 1, kernel, access, mapped_bytes }),
        4 => (number(), any::<bool>(), mapped()).prop_map(|(addr, major, mapped_bytes)| What::End { addr, major, stack: None, mapped_bytes }),
        2 => (number(), number(), 0..8_u32, 0..4_u32, name).prop_map(|(begin, len_bytes, prot, flags, name)| {
            What::Map(Map { begin, len_bytes, prot, flags, name: name.to_owned(), file_offset: 0 })
        }),
        1 => (0..4_u32).prop_map(|parent| What::Fork { parent }),
        1 => Just(What::Exec),
        1 => Just(What::Exit),
        3 => (number(), 0..3_u64, mapped()).prop_map(|(addr, ip, mapped_bytes)| What::SampleEnter { addr: addr % 3, ip, mapped_bytes }),
        3 => (number(), 0..3_u64, any::<bool>(), mapped(), number()).prop_map(|(addr, ip, major, mapped_bytes, weight)| What::Sample {
            addr: addr % 3, ip, kernel: false, major, access: Some(Access::Write), stack: None, weight, mapped_bytes,
        }),
    ]
}

/// Size of a mapped page.
fn mapped() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![Just(0), Just(4096), Just(2 << 20), number()])
}

fn record() -> impl Strategy<Value = Record> {
    (number(), 0..4_u32, 0..4_u32, what()).prop_map(|(time_ns, pid, tid, what)| Record {
        time_ns,
        pid,
        tid,
        what,
    })
}

fn window() -> impl Strategy<Value = Window> {
    (number(), number(), number(), any::<bool>(), number()).prop_map(
        |(begin_ns, end_ns, faults, recorded, lost)| Window { begin_ns, end_ns, faults, recorded, lost },
    )
}

fn counts() -> impl Strategy<Value = Counts> {
    let count = || prop::option::of(number());
    let events = (count(), count(), count(), count(), count(), count(), count());
    (events, number(), number()).prop_map(
        |(
            (user_faults, all_faults, minor_faults, major_faults, huge_at_most, huge_ns, cpu_ns),
            before_exec_faults,
            running,
        )| Counts {
            user_faults,
            all_faults,
            minor_faults,
            major_faults,
            huge_at_most,
            huge_collapsed: None,
            huge_ns,
            cpu_ns,
            before_exec_faults,
            running,
        },
    )
}

fn kernel() -> impl Strategy<Value = KernelSamples> {
    let stack =
        prop::collection::vec(prop_oneof![Just("clear_page"), Just("exc_page_fault"), Just("zap_pte")], 0..4);
    let stacks = prop::collection::vec(
        (stack.prop_map(|s| s.into_iter().map(str::to_owned).collect()), number()),
        0..4,
    );
    (number(), number(), stacks).prop_map(|(period_ns, total, stacks)| KernelSamples {
        period_ns,
        total,
        stacks,
    })
}

prop_compose! {
    fn observation()(
        times in (number(), number(), number(), number(), number()),
        host in (number(), number(), any::<bool>(), 0..300_u32),
        counts in counts(),
        calibration in prop::option::of((float(), float(), float())),
        windows in prop::collection::vec(window(), 0..12),
        records in prop::collection::vec(record(), 0..120),
        levels in prop::collection::vec((number(), number(), number()), 0..30),
        kernel in prop::option::of(kernel()),
    ) -> Observation {
        let (wall_ns, user_ns, system_ns, minor_faults, major_faults) = times;
        Observation {
            exit: Exit::Signal(9),
            host: Host {
                page_bytes: host.0,
                thp_bytes: host.1,
                thp: if host.2 { "always" } else { "never" }.to_owned(),
                cpus: host.3,
                ..Host::default()
            },
            usage: Usage { wall_ns, user_ns, system_ns, minor_faults, major_faults, peak_rss_bytes: 0 },
            counts,
            calibration: calibration.map(|(truth_p50_ns, pair_p50_ns, record_cost_ns)| Calibration {
                truth_p50_ns, pair_p50_ns, record_cost_ns, pages: 1, offset_error_ns: 0.0, read_offset_ns: None, mapped_offset_ns: None
            }),
            windows,
            records,
            levels: levels.into_iter().map(|(time_ns, faults, anon_bytes)| Level { time_ns, faults, anon_bytes }).collect(),
            kernel,
            ..Observation::default()
        }
    }
}

fn is_share(interval: Interval) -> bool {
    0.0 <= interval.low
        && interval.low <= interval.value
        && interval.value <= interval.high
        && interval.high <= 1.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_observation_has_an_answer_that_adds_up(o in observation()) {
        let stat = Stat::from_observation(&o);
        let sum: u128 = stat.rows.iter().map(|r| u128::from(r.faults)).sum();
        let waited = o.usage.minor_faults.saturating_add(o.usage.major_faults);
        let beyond = stat.beyond_wait4.map_or(0, |beyond| beyond.faults);
        prop_assert_eq!(sum, u128::from(waited) + u128::from(beyond));
        for row in &stat.rows {
            prop_assert!(row.faults > 0 || row.interval.is_some_and(|(_, high)| high > 0), "{:?}", row);
            prop_assert!(row.interval.is_none_or(|(low, high)| low <= row.faults && row.faults <= high), "{:?}", row);
            prop_assert!(row.seconds.is_none_or(|s| s.is_finite() && s >= 0.0), "{:?}", row);
            let most = stat.time.as_ref().map_or(f64::MAX, |time| time.seconds.high * (1.0 + 1e-9));
            // What can't be timed has a range, and is no part of the sum.
            let is_part = row.seconds.is_some();
            prop_assert!(!is_part || row.seconds_interval.is_none_or(|(_, high)| high <= most), "{:?} {:?}", row, stat.time);
        }
        if let Some(time) = &stat.time {
            prop_assert!(is_share(time.share), "{:?}", time);
            prop_assert!(time.seconds.low <= time.seconds.value && time.seconds.value <= time.seconds.high, "{:?}", time);
            let sum: f64 = stat.rows.iter().filter_map(|r| r.seconds).sum();
            prop_assert!((sum - time.seconds.value).abs() <= 1e-6 * sum, "{} {:?}", sum, time);
            prop_assert!(time.seconds.high.is_finite() && time.p50_ns.is_finite() && time.p99_ns.is_finite());
        }
        for point in stat.avoidable.iter().flat_map(|c| c.points.iter().chain(&c.knee)) {
            prop_assert!(0.0 <= point.low && point.low <= point.high && point.high <= 1.0, "{:?}", point);
        }
        for phase in stat.kernel.iter().flat_map(|k| k.phases.iter().flatten()) {
            prop_assert!(is_share(phase.share));
        }
        let json = serde_json::to_string(&stat).unwrap();
        prop_assert!(serde_json::from_str::<Stat>(&json).is_ok(), "no figure is infinite or not a number: {}", json);
    }
}
