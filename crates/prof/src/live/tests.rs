//! The live view on real processes.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::*;

/// More looks than even a machine that is busy for minutes needs.
const LOOKS_MAX: u32 = 2000;

fn wait(live: &mut Live, until: impl Fn(&Interval) -> bool) -> Interval {
    for _ in 0..LOOKS_MAX {
        std::thread::sleep(std::time::Duration::from_nanos(live.pause_ns()));
        live.tick();
        let interval = live.poll(Threads::Busiest);
        if until(&interval) {
            return interval;
        }
    }
    panic!("not seen in {LOOKS_MAX} looks");
}

/// A shell that starts programs with a few hundred faults each.
fn shell(script: &str) -> Live {
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    Live::of_command(Request { command, ..Request::default() }).unwrap()
}

#[test]
fn a_command_is_followed_to_its_end_with_the_children_that_came_and_went() {
    let mut live = shell("for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; exit 3");
    let mut faults = 0;
    for _ in 0..LOOKS_MAX {
        live.tick();
        let interval = live.poll(Threads::No);
        faults += interval.faults;
        if let Some(exit) = interval.ended {
            assert_eq!(exit, Some(Exit::Status(3)));
            if live.events.faults().is_none() {
                return faultless_wants::missing_feature(
                    "perf events",
                    "children that came and went are not seen",
                );
            }
            return assert!(faults > 500, "{faults}");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("never ended");
}

#[test]
fn an_idle_process_has_no_faults_and_its_end_is_seen() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // A second line takes the way of the first: who has copied both is loaded, and has nothing left to touch.
    for _ in 0..2 {
        to.write_all(b"x").unwrap();
        from.read_exact(&mut [0]).unwrap();
    }
    let mut live = Live::of_process(child.id()).unwrap();
    let interval = wait(&mut live, |interval| !interval.processes.is_empty());
    assert_eq!((interval.processes[0].pid, interval.faults), (child.id(), 0));
    assert_eq!(interval.threads.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(wait(&mut live, |interval| interval.ended.is_some()).ended, Some(None));
}
