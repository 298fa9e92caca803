//! One total: every view of a recording has the same sum of faults and of time.

use faultless_trace::Stat;
use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::observation::{Counts, Observation, Usage, What};
use faultless_trace::profile::Profile;
use faultless_trace::recording::Recording;
use faultless_trace::sites::{Group, Sites};
use faultless_trace::timeline::Timeline;

use super::{recorded, scenario};

/// A recording of an observation.
fn of(observation: Observation) -> Recording {
    let mut recording = Recording { observation, ..Recording::default() };
    recording.header.host = recording.observation.host.clone();
    recording.header.command.clone_from(&recording.observation.command);
    recording
}

/// Time that is read too long for the CPU time that there was.
fn too_long() -> Recording {
    let mut recording = recorded::mixed(true);
    recording.observation.usage.system_ns = 2_000_000;
    recording.observation.usage.user_ns = 2_000_000;
    recording
}

/// The recorder was killed: no counts, no CPU time.
fn no_end() -> Recording {
    let mut recording = recorded::mixed(false);
    (recording.observation.usage, recording.observation.counts) = (Usage::default(), Counts::default());
    recording.footer = None;
    recording
}

/// As of perf: no window, no count.
fn foreign() -> Recording {
    let mut recording = no_end();
    recording.observation.windows.clear();
    recording
}

fn recordings() -> Vec<(&'static str, Recording)> {
    vec![
        ("sampled", recorded::mixed(false)),
        ("every fault", recorded::mixed(true)),
        ("cold", recorded::cold()),
        ("too long", too_long()),
        ("no end", no_end()),
        ("foreign", foreign()),
        ("bursts", of(scenario::bursts())),
        ("fork", of(scenario::fork())),
        ("denied", of(scenario::denied(true))),
        ("orphan", of(scenario::orphan())),
        ("pipeline", of(scenario::pipeline_of(8))),
    ]
}

fn near(name: &str, view: &str, value: f64, truth: f64) {
    assert!((value - truth).abs() <= 1e-6 * truth + 1.0, "{name}: {view}: {value} is not {truth}");
}

#[test]
fn all_views_of_a_recording_have_the_same_totals() {
    for (name, recording) in recordings() {
        let profile = Profile::new(&recording);
        let (faults, time_ns) = (profile.totals.faults() as f64, profile.totals.time_ns());
        let wait_ns: f64 = profile.faults.iter().map(|fault| fault.wait_ns).sum();
        let unplaced = profile.unplaced();
        let all = || profile.faults.iter().chain(&unplaced);
        near(name, "faults of the profile", all().map(|fault| fault.faults).sum(), faults);
        near(name, "time of the profile", all().map(|fault| fault.cost_ns).sum(), time_ns);

        let stat = Stat::from_observation(&recording.observation);
        near(name, "faults of stat", stat.faults() as f64, faults);
        let rows: f64 = stat.rows.iter().filter_map(|row| row.seconds).sum();
        let shown = stat.time.as_ref().map_or(0.0, |time| time.seconds.value);
        assert!((rows - shown).abs() <= 0.001 * shown, "{name}: rows of stat: {rows} is not {shown}");

        let findings = Findings::new(&recording, &Wanted { top: usize::MAX, ..Wanted::default() }).unwrap();
        near(name, "faults of the report", findings.faults as f64, faults);
        near(name, "time of the report", findings.time_ns.map_or(0.0, |time| time.value), time_ns);
        assert_eq!(findings.cpu_ns, profile.totals.cpu_ns, "{name}");
        let beyond: f64 = findings.beyond.iter().map(|(_, faults, _)| *faults as f64).sum();
        let beyond_ns: f64 = findings.beyond.iter().filter_map(|(.., seconds)| *seconds).sum::<f64>() * 1e9;
        for by in [Group::Site, Group::Function, Group::Kind, Group::Mapping, Group::Thread, Group::Process] {
            let sites = Sites::new(&recording, &profile, by);
            let sum =
                |of: &dyn Fn(&faultless_trace::sites::SiteRow) -> f64| sites.rows.iter().map(of).sum::<f64>();
            near(name, "faults of a table", sum(&|row| row.faults.value) + beyond, faults);
            near(name, "time of a table", sum(&|row| row.time_ns.value) + beyond_ns, time_ns + wait_ns);
        }

        let timeline = Timeline::new(&recording, &profile);
        near(name, "faults of the timeline", timeline.faults as f64, faults);
        near(name, "time of the timeline", timeline.fault_ns, time_ns);
        near(name, "waits of the report", findings.wait_ns, wait_ns);
        near(name, "waits of the timeline", timeline.wait_ns, wait_ns);
        let lanes_ns: f64 = timeline.lanes.iter().map(|lane| lane.fault_ns).sum();
        if !timeline.lanes.is_empty() {
            near(name, "time of the lanes", lanes_ns + beyond_ns, time_ns);
        }
        // What recorded faults stand for and what samples stand for are parts of a lane's time.
        let is_sampled =
            recording.observation.records.iter().any(|record| matches!(record.what, What::Sample { .. }));
        for lane in &timeline.lanes {
            assert!(
                lane.recorded_ns <= lane.fault_ns * (1.0 + 1e-9),
                "{name}: {} of {}",
                lane.recorded_ns,
                lane.fault_ns
            );
            if !is_sampled && lane.faults.iter().all(|fault| fault.1.is_some()) {
                near(name, "time of recorded faults", lane.recorded_ns, lane.fault_ns);
            }
        }
    }
}

#[test]
fn totals_never_exceed_the_cpu_time() {
    let profile = Profile::new(&too_long());
    assert!(profile.totals.time_ns() <= profile.totals.cpu_ns as f64 + 1.0);
    let cost_ns: f64 = profile.faults.iter().map(|fault| fault.cost_ns).sum();
    assert!(cost_ns <= profile.totals.cpu_ns as f64 + 1.0, "{cost_ns}");
}
