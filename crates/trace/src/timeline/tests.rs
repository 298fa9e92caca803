use super::*;
use crate::observation::{Observation, Record, Window};

/// Records of process 1; times in ns.
#[derive(Default)]
struct Script(Vec<Record>);

impl Script {
    fn push(mut self, time_ns: u64, tid: u32, what: What) -> Self {
        self.0.push(Record { time_ns, pid: 1, tid, what });
        self
    }
    fn on(self, time_ns: u64, tid: u32) -> Self {
        self.push(time_ns, tid, What::Switch { out: false, preempted: false })
    }
    fn out(self, time_ns: u64, tid: u32) -> Self {
        self.push(time_ns, tid, What::Switch { out: true, preempted: false })
    }
    fn preempted(self, time_ns: u64, tid: u32) -> Self {
        self.push(time_ns, tid, What::Switch { out: true, preempted: true })
    }
    fn enter(self, time_ns: u64, tid: u32, addr: u64) -> Self {
        self.push(time_ns, tid, What::Enter { addr, ip: 7, kernel: false, access: None, mapped_bytes: None })
    }
    fn end(self, time_ns: u64, tid: u32, addr: u64) -> Self {
        self.push(time_ns, tid, What::End { addr, major: false, stack: None, mapped_bytes: None })
    }
    fn fault(self, from_ns: u64, to_ns: u64, tid: u32) -> Self {
        self.enter(from_ns, tid, from_ns << 12).end(to_ns, tid, from_ns << 12)
    }
    fn fork(self, time_ns: u64, tid: u32) -> Self {
        self.push(time_ns, tid, What::Fork { parent: 1 })
    }
    fn exit(self, time_ns: u64, tid: u32) -> Self {
        self.push(time_ns, tid, What::Exit)
    }
    fn within(self, windows: &[(u64, u64, bool)]) -> Timeline {
        let windows = windows.iter().map(|&(begin_ns, end_ns, recorded)| Window {
            begin_ns,
            end_ns,
            faults: 0,
            recorded,
            lost: 0,
        });
        let observation =
            Observation { records: self.0, windows: windows.collect(), ..Observation::default() };
        let recording = Recording { observation, ..Recording::default() };
        let timeline = Timeline::new(&recording, &Profile::new(&recording));
        for lane in &timeline.lanes {
            let life = lane.end_ns - lane.begin_ns;
            assert_eq!(lane.totals_ns.iter().sum::<u64>(), life, "totals of {lane:?}");
            assert_eq!(lane.spans.iter().map(|span| span.0).sum::<u64>(), life);
            assert!(lane.spans.windows(2).all(|two| two[0].1 != two[1].1), "{:?}", lane.spans);
            assert!(lane.spans.iter().all(|span| span.0 > 0), "{:?}", lane.spans);
        }
        timeline
    }
    /// With every fault recorded from 0 to 1000.
    fn timeline(self) -> Timeline {
        self.within(&[(0, 1000, true)])
    }
}

use State::{Blocked, Minor, Preempted, Running, Unknown, Unrecorded, Waiting};

#[test]
fn a_switch_inside_a_fault_is_a_blocked_fault() {
    let timeline =
        Script::default().on(0, 1).enter(100, 1, 1).out(150, 1).on(400, 1).end(420, 1, 1).timeline();
    let spans = [(100, Running), (50, Minor), (250, Blocked), (20, Minor), (580, Running)];
    assert_eq!(timeline.lanes[0].spans, spans);
    assert_eq!(timeline.lanes[0].faults, [(100, Some(320), 1, 0)]);
}

#[test]
fn waiting_and_being_preempted_are_told_apart_in_a_fault_too() {
    let script = Script::default().on(0, 1).preempted(10, 1).on(30, 1).out(50, 1).on(90, 1);
    let timeline = script.enter(100, 1, 1).preempted(110, 1).on(120, 1).end(130, 1, 1).out(130, 1).timeline();
    let spans = [(10, Running), (20, Preempted), (20, Running), (40, Waiting), (10, Running)];
    let rest = [(10, Minor), (10, Preempted), (10, Minor), (870, Waiting)];
    assert_eq!(timeline.lanes[0].spans, [&spans[..], &rest[..]].concat());
}

#[test]
fn a_thread_lives_from_fork_to_exit_and_is_ready_before_it_first_runs() {
    let script =
        Script::default().on(0, 1).fork(200, 2).on(230, 2).fault(240, 250, 2).exit(300, 2).out(301, 2);
    let timeline = script.timeline();
    let lane = &timeline.lanes[1];
    assert_eq!((lane.tid, lane.begin_ns, lane.end_ns), (2, 200, 300));
    assert_eq!(lane.spans, [(30, Preempted), (10, Running), (10, Minor), (50, Running)]);
}

#[test]
fn a_thread_that_exits_inside_a_fault_has_the_fault_without_a_length() {
    let timeline =
        Script::default().on(0, 1).fork(100, 2).on(100, 2).enter(150, 2, 9).exit(180, 2).timeline();
    assert_eq!(timeline.lanes[1].spans, [(80, Running)]);
    assert_eq!(timeline.lanes[1].faults, [(150, None, 9, 0)]);
}

#[test]
fn a_number_that_is_used_again_is_another_thread() {
    let script = Script::default().on(0, 1).fork(100, 2).on(100, 2).fault(110, 120, 2).exit(130, 2);
    let timeline = script.fork(500, 2).on(510, 2).fault(600, 605, 2).exit(700, 2).timeline();
    let lives: Vec<_> =
        timeline.lanes.iter().map(|lane| (lane.tid, lane.begin_ns, lane.end_ns, lane.faults.len())).collect();
    assert_eq!(lives, [(1, 0, 1000, 0), (2, 100, 130, 1), (2, 500, 700, 1)]);
}

#[test]
fn where_faults_were_not_recorded_running_is_not_called_computing() {
    let script = Script::default().on(0, 1).fault(100, 110, 1).out(500, 1).on(600, 1);
    let timeline = script.within(&[(0, 200, true), (200, 900, false), (900, 1000, true)]);
    let spans =
        [(100, Running), (10, Minor), (90, Running), (300, Unrecorded), (100, Waiting), (300, Unrecorded)];
    assert_eq!(timeline.lanes[0].spans, [&spans[..], &[(100, Running)]].concat());
    assert_eq!(timeline.recorded, [(0, 200), (900, 1000)]);
    assert!(timeline.notes[0].contains("30.0 %"), "{:?}", timeline.notes);
}

#[test]
fn without_switches_nothing_but_faults_is_known() {
    let timeline = Script::default().fault(100, 200, 1).timeline();
    assert_eq!(timeline.lanes[0].spans, [(100, Unknown), (100, Minor), (800, Unknown)]);
    assert!(timeline.notes.iter().any(|note| note.contains("no context switches")));
}

#[test]
fn a_fault_while_switched_out_means_that_a_record_was_lost() {
    let timeline = Script::default().on(0, 1).out(100, 1).fault(300, 310, 1).timeline();
    assert_eq!(timeline.lanes[0].spans, [(100, Running), (200, Waiting), (10, Minor), (690, Running)]);
}

#[test]
fn samples_are_points_with_their_weight_and_only_where_faults_were_not_recorded() {
    let sample = What::Sample {
        addr: 5,
        ip: 0,
        kernel: false,
        major: false,
        access: None,
        stack: Some(3),
        weight: 31,
        mapped_bytes: None,
    };
    let script = Script::default().on(0, 1).push(50, 1, sample.clone()).push(500, 1, sample);
    let timeline = script.within(&[(0, 200, true), (200, 1000, false)]);
    let [(500, None, 5, class)] = timeline.lanes[0].faults[..] else { panic!("{:?}", timeline.lanes[0]) };
    let class = &timeline.classes[class as usize];
    assert_eq!((class.weight, class.stack, class.in_flight), (31, Some(3), 0));
}

#[test]
fn faults_of_two_threads_at_once_are_shared_time() {
    let script = Script::default().on(0, 1).fork(0, 2).on(0, 2);
    let timeline = script.fault(100, 200, 1).enter(150, 2, 1).end(260, 2, 1).fault(260, 300, 1).timeline();
    let process = &timeline.processes[0];
    assert_eq!((process.fault_ns, process.shared_ns, process.most), (200, 50, 2));
}

#[test]
fn faults_beyond_a_threads_time_are_those_of_other_threads_of_its_name() {
    let lane = |name: &str, running_ns: u64, fault_ns: f64| {
        let mut lane = Lane { name: name.into(), fault_ns, recorded_ns: fault_ns, ..Lane::default() };
        lane.totals_ns[Running as usize] = running_ns;
        lane
    };
    let mut lanes =
        vec![lane("sh-1", 10, 40.0), lane("sh-2", 60, 0.0), lane("sh-22", 30, 0.0), lane("cc", 50, 50.0)];
    lanes.push(lane("ld", 5, 9.0));
    spent::settle(&mut lanes);
    let times: Vec<f64> = lanes.iter().map(|lane| lane.fault_ns).collect();
    assert_eq!(times, [10.0, 20.0, 10.0, 50.0, 9.0], "no other ld has room");
    assert!(lanes.iter().all(|lane| lane.recorded_ns <= lane.fault_ns));
}

#[test]
fn the_parts_of_all_lives_add_up_and_the_faults_are_those_of_the_run() {
    let script = Script::default().on(0, 1).fault(100, 200, 1).out(500, 1).on(600, 1);
    let mut timeline = script.enter(700, 1, 1).out(710, 1).on(790, 1).end(800, 1, 1).timeline();
    // Pages that were populated are in no lane.
    timeline.fault_ns = timeline.lanes[0].fault_ns + 30.0;
    let spent = timeline.spent();
    assert_eq!((spent.life_ns(), spent.of(Part::Blocked), spent.of(Part::Waiting)), (1000, 80, 100));
    assert_eq!(spent.of(Part::Faults), timeline.fault_ns.round() as u64);
}

#[test]
fn threads_without_a_name_have_that_of_their_process() {
    let named = Script::default().push(0, 1, What::Name("grep".into())).fork(1, 2).fork(1, 3);
    let timeline = named.push(5, 3, What::Name("worker".into())).timeline();
    assert_eq!(
        timeline.lanes.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(),
        ["grep", "grep", "worker"]
    );
}

#[test]
fn a_new_process_has_its_parents_name_until_it_is_given_one() {
    let fork = |pid| Record { time_ns: 10, pid, tid: pid, what: What::Fork { parent: 1 } };
    let mut script = Script::default().push(0, 1, What::Name("sh".into()));
    script.0.extend([fork(5), fork(6)]);
    script.0.push(Record { time_ns: 20, pid: 6, tid: 6, what: What::Name("grep".into()) });
    let names: Vec<_> = script.timeline().lanes.into_iter().map(|lane| lane.name).collect();
    assert_eq!(names, ["sh", "sh", "grep"]);
}

#[test]
fn odd_records_make_no_odd_lanes() {
    let script =
        Script::default().exit(10, 5).exit(20, 5).fork(30, 5).fork(40, 5).exit(30, 5).on(0, 9).on(0, 9);
    let timeline = script.end(50, 9, 7).out(60, 9).out(60, 9).enter(u64::MAX, 9, 1).within(&[]);
    assert!(timeline.lanes.iter().all(|lane| lane.begin_ns <= lane.end_ns));
    let empty = Script::default().within(&[]);
    assert_eq!((empty.lanes.len(), empty.begin_ns, empty.end_ns), (0, 0, 0));
}
