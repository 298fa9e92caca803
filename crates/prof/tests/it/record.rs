//! Programs that fault a known number of times, recorded.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, PipeReader, Write};
use std::process::{Command, Stdio};
use std::rc::Rc;

use faultless_prof::{Attach, Failure, Options, Recorded, Request, Task, Until, record};
use faultless_trace::file::read;
use faultless_trace::observation::{Exit, What};
use faultless_trace::recording::Recording;
use faultless_wants as wants;

use crate::program::program;

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn take(task: Task, options: &Options) -> Result<(Recorded, Recording), Failure> {
    take_telling(task, options, io::sink())
}

/// The same; writes a byte to `polled` after the recorder's first poll, which its first progress report announces.
fn take_telling(task: Task, options: &Options, polled: impl Write) -> Result<(Recorded, Recording), Failure> {
    let (file, mut polled) = (Shared::default(), Some(polled));
    let mut progress = |_: &_| {
        if let Some(mut polled) = polled.take() {
            polled.write_all(b"\n").unwrap();
        }
    };
    let recorded = record(task, options, Box::new(file.clone()), &mut progress)?;
    let recording = read(&file.0.borrow()).unwrap();
    assert_eq!(recorded.file_bytes, file.0.borrow().len() as u64);
    assert!(recording.missing.is_empty(), "{:?}", recording.missing);
    Ok((recorded, recording))
}

/// Runs the program of these tests; `None` where single faults can't be recorded.
#[track_caller]
fn run(mode: &str, pages: u32, options: &Options) -> Option<(Recorded, Recording)> {
    checked(take(Task::Command(request(mode, pages, None)?), options))
}

/// The same, but the program begins only after the recorder's first poll.
#[track_caller]
fn run_once_polled(mode: &str, pages: u32, options: &Options) -> Option<(Recorded, Recording)> {
    let (stdin, polled) = io::pipe().unwrap();
    checked(take_telling(Task::Command(request(mode, pages, Some(stdin))?), options, polled))
}

#[track_caller]
fn request(mode: &str, pages: u32, stdin: Option<PipeReader>) -> Option<Request> {
    let mut command = vec![program()?.into_os_string(), mode.into(), pages.to_string().into()];
    command.extend(stdin.is_some().then(|| "once told".into()));
    let stdout = Some(File::create("/dev/null").unwrap().into());
    Some(Request { command, stdin: stdin.map(Into::into), stdout, ..Request::default() })
}

#[track_caller]
fn checked(found: Result<(Recorded, Recording), Failure>) -> Option<(Recorded, Recording)> {
    let found = match found {
        Err(Failure::NotRecorded(why)) => {
            wants::missing_feature("perf events", why);
            return None;
        }
        found => found.unwrap(),
    };
    assert_eq!(found.0.exit, Exit::Status(0));
    match found.0.sources.iter().find(|source| source.source == "fault pairs" && !source.used) {
        Some(source) => {
            wants::missing_feature("perf events", format_args!("fault pairs: {}", source.note));
            None
        }
        None => Some(found),
    }
}

/// Entries in user mode and in the kernel.
fn entries(recording: &Recording) -> (u64, u64) {
    let mut found = (0, 0);
    for record in &recording.observation.records {
        match record.what {
            What::Enter { kernel: false, .. } => found.0 += 1,
            What::Enter { kernel: true, .. } => found.1 += 1,
            _ => {}
        }
    }
    found
}

fn all() -> Options {
    Options { every_fault: true, cpu_hertz: Some(0), ..Options::default() }
}

/// Records of this event that the rings lost, as far as the kernel tells.
fn lost(recorded: &Recorded, event: &str) -> u64 {
    let losses = recorded.event_losses.iter().flatten();
    losses.filter(|loss| loss.event == event).map(|loss| loss.lost).sum()
}

/// Records of entries that the rings lost; `None` where the kernel does not tell.
#[track_caller]
fn lost_entries(recorded: &Recorded) -> Option<u64> {
    if recorded.event_losses.is_none() {
        wants::missing_feature("PERF_FORMAT_LOST", "the kernel does not tell what each event lost");
        return None;
    }
    Some(lost(recorded, "entry"))
}

#[test]
fn every_fault_of_threads_and_children_is_in_the_file_or_counted_as_lost() {
    const PAGES: u32 = 2000;
    let Some((recorded, recording)) = run("tree", PAGES, &all()) else { return };
    let Some(lost) = lost_entries(&recorded) else { return };
    let (user, kernel) = entries(&recording);
    let counts = recorded.counts;
    let counted = counts.all_faults.or(counts.user_faults).unwrap();
    assert_eq!(user + kernel + lost, counted, "{user} and {kernel}, {lost} lost");
    assert!(counted >= 6 * u64::from(PAGES));
    let windows: u64 = recording.observation.windows.iter().map(|window| window.faults).sum();
    assert_eq!(Some(windows), counts.user_faults);
    assert!(recording.observation.windows.iter().all(|window| window.recorded));
    let pids: std::collections::HashSet<u32> =
        recording.observation.records.iter().map(|record| record.pid).collect();
    assert!(lost > 0 || pids.len() >= 6, "{pids:?}");
}

#[test]
fn what_a_ring_too_small_loses_is_counted_exactly() {
    let options = Options { ring_pages: Some(8), ..all() };
    // If the recorder is quick, such rings suffice for a while.
    let mut found = None;
    for pages in [30_000, 100_000, 300_000, 1_000_000] {
        let Some((recorded, recording)) = run("touch", pages, &options) else { return };
        let Some(lost) = lost_entries(&recorded) else { return };
        let (user, kernel) = entries(&recording);
        let counted = recorded.counts.all_faults.or(recorded.counts.user_faults).unwrap();
        assert_eq!(user + kernel + lost, counted, "{user} and {kernel}, {lost} lost");
        // A loss is written down with the next record that fits; the last ones may have none.
        if !recording.losses.is_empty() {
            found = Some((recorded, recording));
            break;
        }
    }
    let (recorded, recording) = found.expect("a million faults, and rings of 8 pages say of no loss");
    let all: u64 = recorded.event_losses.unwrap().iter().map(|loss| loss.lost).sum();
    assert!(recording.losses.iter().map(|loss| loss.lost).sum::<u64>() <= all);
    assert!(recording.losses.iter().all(|loss| loss.begin_ns <= loss.end_ns && loss.begin_ns > 0));
}

#[test]
fn samples_stand_for_all_faults() {
    // A busy machine may read a ring too late. What was lost is in the bounds; a recording without loss has the narrowest.
    for _ in 0..5 {
        let Some((recorded, recording)) = run("touch", 80_000, &Options::default()) else { return };
        assert_samples_stand_for_all(&recorded, &recording);
        if !recorded.event_losses.iter().flatten().any(|loss| loss.lost > 0) {
            return;
        }
    }
}

fn assert_samples_stand_for_all(recorded: &Recorded, recording: &Recording) {
    let weights = recording.observation.records.iter().filter_map(|record| match record.what {
        What::Sample { weight, major: false, .. } => Some(weight),
        _ => None,
    });
    let (samples, estimate) = weights.fold((0_u64, 0), |(n, sum), weight| (n + 1, sum + weight));
    let (lost_samples, lost_entries) = (lost(recorded, "sample"), lost(recorded, "entry"));
    let counted = recorded.counts.minor_faults.unwrap();
    // Every processor and thread counts to the period separately, and each has a remainder.
    let period = recording.header.settings.sample_period;
    assert!((97..=1025).contains(&period), "{period}");
    let slack = period as f64 * ((samples + lost_samples) as f64).sqrt().max(8.0);
    // In bursts the kernel gives samples the id of the pair (Linux 6.18), so that they are not told from it. A lost one stands for no
    // more than the longest period.
    let (user, kernel) = entries(recording);
    let at_most = (estimate + user + kernel + lost_entries + lost_samples * period) as f64;
    let told = format!("{estimate} for {counted}; {lost_samples} samples and {lost_entries} entries lost");
    assert!((estimate as f64) < counted as f64 + slack && at_most > counted as f64 - slack, "{told}");
    // Unless the recorder came too late to pause: then each fault is there, or counted as lost.
    let all = recorded.counts.all_faults.or(recorded.counts.user_faults).unwrap();
    let pauses = recording.observation.windows.iter().any(|window| !window.recorded);
    assert!(pauses || user + kernel + lost_entries == all, "{user} and {kernel} of {all}; {told}");
    let writes = recording.observation.records.iter().filter(|record| {
        matches!(record.what, What::Sample { access: Some(faultless_trace::observation::Access::Write), .. })
    });
    if cfg!(target_arch = "x86_64") {
        assert!(writes.count() as u64 * 10 >= samples * 8, "a touch is a write");
    }
}

#[test]
fn names_switches_and_mappings_are_recorded() {
    let Some((_, recording)) = run("tree", 3000, &Options::default()) else { return };
    let records = &recording.observation.records;
    let has = |what: fn(&What) -> bool| records.iter().any(|record| what(&record.what));
    assert!(has(|what| matches!(what, What::Exec)));
    assert!(has(|what| matches!(what, What::Name(name) if name.starts_with("observe-"))));
    assert!(has(|what| matches!(what, What::Switch { out: true, .. })));
    assert!(has(|what| matches!(what, What::Switch { out: false, .. })));
    assert!(has(|what| matches!(what, What::Map(map) if map.name == "//anon")));
    assert!(recording.footer.unwrap().recorder_cpu_ns > 0);
}

#[test]
fn a_file_at_its_limit_keeps_counting() {
    for options in [all(), Options::default()] {
        let options = Options { max_bytes: 1, ..options };
        let Some((recorded, recording)) = run_once_polled("touch", 60_000, &options) else { return };
        assert!(recorded.cut_short && recorded.trouble.is_none());
        let (user, _) = entries(&recording);
        let windows = &recording.observation.windows;
        assert!(user < 60_000 && windows.iter().any(|window| !window.recorded), "{user}: {windows:?}");
        let counted: u64 = windows.iter().map(|window| window.faults).sum();
        let counts = recorded.counts;
        assert_eq!(Some(counted), counts.user_faults);
        let ended = counts.minor_faults.unwrap() + counts.major_faults.unwrap();
        assert!(ended + 10 >= counted, "{counts:?}");
    }
}

fn running(pid: u32) -> Task {
    Task::Running(Attach { pids: vec![pid], until: Until::Ended })
}

#[test]
fn a_running_process_is_recorded_from_now_on_with_its_children() {
    const PAGES: u64 = 3000;
    let Some(program) = program() else { return };
    let script = format!("read -r told; '{}' tree {PAGES}; exit 3", program.display());
    let mut child = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    let polled = child.stdin.take().unwrap();
    let found = take_telling(running(child.id()), &all(), polled);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let (recorded, recording) = match found {
        Err(Failure::NotWatched(_, why)) => return wants::missing_feature("perf events", why),
        found => found.unwrap(),
    };
    assert_eq!(recorded.exit, Exit::Unknown);
    assert!(recording.header.settings.attached);
    assert_eq!(recording.header.command[0], "sh");
    let counted = recorded.counts.user_faults.unwrap();
    assert!(counted >= 6 * PAGES, "{counted}");
    let records = &recording.observation.records;
    let begin_ns = recording.header.begin_ns;
    assert!(
        records.iter().any(|record| record.time_ns == begin_ns
            && matches!(&record.what, What::Map(map) if map.name == "[stack]")),
        "what was mapped before is known"
    );
    let named = |record: &&faultless_trace::observation::Record| matches!(record.what, What::Name(_));
    assert!(records.iter().filter(named).any(|record| record.pid == child.id()));
}

#[test]
fn faults_and_samples_have_stacks_down_to_main() {
    for options in [Options::default(), all()] {
        let Some((_, recording)) = run("touch", 20_000, &options) else { return };
        let (mut touched, mut whole) = (0_u32, 0_u32);
        for record in &recording.observation.records {
            let stack = match record.what {
                What::End { stack, .. } | What::Sample { stack, .. } => stack,
                _ => continue,
            };
            let labels = stack.map(|stack| recording.stacks.labels(stack)).unwrap_or_default();
            if labels.first().is_some_and(|label| label == "touch") {
                touched += 1;
                whole += u32::from(labels.iter().any(|label| label == "main"));
            }
        }
        assert!(touched > 200, "{touched}");
        assert!(whole * 100 > touched * 95, "{whole} of {touched}");
    }
}

#[test]
fn a_short_program_is_recorded_whole_every_fault_with_its_stack() {
    // A busy machine may read a ring too late; what then is lost must be said. The last few faults fit in though nobody reads it.
    let mut was_whole = false;
    for pages in [3000, 3000, 3000, 1000, 100] {
        let Some((recorded, recording)) = run("touch", pages, &Options::default()) else { return };
        let counted = recorded.counts.all_faults.or(recorded.counts.user_faults).unwrap();
        let (user, kernel) = entries(&recording);
        let lost =
            recorded.event_losses.iter().flatten().map(|event| event.lost).sum::<u64>() + recorded.lost;
        assert_eq!(recorded.complete, (lost == 0).then_some(counted), "{user} and {kernel}, {lost} lost");
        assert_eq!(recording.complete(), recorded.complete);
        if recorded.complete.is_none() {
            continue;
        }
        was_whole = true;
        assert_eq!(user + kernel, counted);
        assert!(recording.observation.windows.iter().all(|window| window.recorded));
        let ends = recording.observation.records.iter().filter_map(|record| match record.what {
            What::End { stack, .. } => Some(stack),
            _ => None,
        });
        let stacks: Vec<_> = ends.collect();
        // Accesses that end in a signal have no end. This program has none.
        assert_eq!(stacks.len() as u64, counted);
        let missing = stacks.iter().filter(|stack| stack.is_none()).count();
        assert!(missing == 0, "{missing} of {counted} without a stack");
    }
    assert!(was_whole, "five recordings, and none is complete");
}

#[test]
fn a_program_that_faults_for_long_is_not_recorded_whole() {
    // A recorder that comes too late to pause has them all, as long as the copies of the rings have room: 256 MiB, for some 200 000 faults.
    for pages in [60_000, 400_000] {
        let Some((recorded, recording)) = run("touch", pages, &Options::default()) else { return };
        assert_eq!(recorded.complete, recording.complete());
        let Some(complete) = recorded.complete else { return };
        let (user, kernel) = entries(&recording);
        assert_eq!(user + kernel, complete);
    }
    panic!("400 000 faults are recorded whole");
}
