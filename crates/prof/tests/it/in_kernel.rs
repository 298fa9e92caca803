//! Running processes whose every fault the kernel times by BPF; and the objects with the programs.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use faultless_prof::{Attach, Sources, Ticker, Until, observe_running};
use faultless_trace::Stat;
use faultless_trace::observation::Observation;
use faultless_trace::stat::Source;
use faultless_wants as wants;

use crate::program::program;

/// One test at a time: the programs of another one would be found.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that waits for a byte before it faults.
fn waiting(mode: &str, pages: u32) -> Option<Child> {
    let words = [mode, &pages.to_string(), "wait"];
    let command = Command::new(program()?).args(words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    Some(command.unwrap())
}

/// Watches it to its end. It faults once it is watched. `None`, with a reason, where the kernel does not time.
#[track_caller]
fn watched(mut child: Child, allow: Sources) -> Option<Observation> {
    let mut stdin = child.stdin.take();
    let mut begin = |_: &_| {
        if let Some(mut stdin) = stdin.take() {
            stdin.write_all(b"x").unwrap();
        }
    };
    let ticker = Ticker { every: Duration::from_millis(20), tell: &mut begin };
    let attach = Attach { pids: vec![child.id()], until: Until::Ended };
    let found = observe_running(attach, allow, Some(ticker));
    child.wait().unwrap();
    let found = found.unwrap();
    let note = found.sources.iter().find(|note| note.source == "BPF").unwrap();
    if !note.used {
        wants::missing_feature("BPF", &note.note);
        return None;
    }
    Some(found)
}

#[test]
fn every_fault_of_a_process_and_of_its_children_is_counted_and_timed() {
    const PAGES: u32 = 3000;
    let _alone = alone();
    let Some(child) = waiting("tree", PAGES) else { return };
    let Some(found) = watched(child, Sources::default()) else { return };
    let in_kernel = found.in_kernel.unwrap();
    let user = in_kernel.sums.minor[0];
    // Two threads, three children and a grandchild that nobody waits for.
    let wanted = 6 * u64::from(PAGES);
    assert!((wanted..wanted + 1500).contains(&user.faults), "{in_kernel:?}");
    assert!(user.timed as f64 > 0.9 * user.faults as f64, "{in_kernel:?}");
    assert!(user.timed + user.switched <= user.faults, "{in_kernel:?}");
    assert_eq!(in_kernel.beyond, 0);
    let stat = Stat::from_observation(&found);
    assert_eq!(stat.time.as_ref().unwrap().source, Source::Measured);
    let waited = found.usage.minor_faults + found.usage.major_faults;
    let beyond = stat.beyond_wait4.map_or(0, |beyond| beyond.faults);
    assert_eq!(stat.faults(), waited + beyond, "{stat:?}");
}

#[test]
fn seconds_are_those_of_recorded_faults() {
    const PAGES: u32 = 60_000;
    let _alone = alone();
    let each_ns = |allow| {
        let stat = Stat::from_observation(&watched(waiting("touch", PAGES)?, allow)?);
        Some(stat.time.unwrap().seconds.value * 1e9 / f64::from(PAGES))
    };
    let recorded = || {
        let words = [program().unwrap().into(), "touch".into(), PAGES.to_string().into()].to_vec();
        let stdout = Some(std::fs::File::create("/dev/null").unwrap().into());
        let request = faultless_prof::Request { command: words, stdout, ..Default::default() };
        let stat = Stat::from_observation(&faultless_prof::observe(request).unwrap());
        stat.time.unwrap().seconds.value * 1e9 / f64::from(PAGES)
    };
    // The least of several, in turns: others disturb a machine that is shared. On a quiet one they agree within 10 %; beside
    // four busy loops the kernel reads up to 17 % longer.
    let mut least = [f64::MAX; 2];
    for round in 1..=20 {
        let Some(measured) = each_ns(Sources::default()) else { return };
        least = [least[0].min(measured), least[1].min(recorded())];
        if round >= 3 && (0.8..1.2).contains(&(least[0] / least[1])) {
            return;
        }
    }
    panic!("ns, the kernel's and the recorded: {least:?}");
}

#[test]
fn nothing_is_left_behind_after_twenty_times() {
    let _alone = alone();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let loaded = || {
        let names = aya::programs::loaded_programs().flatten();
        names.filter(|program| program.name_as_str() == Some("fault_begins")).count()
    };
    let mut before = None;
    for _ in 0..20 {
        let Some(child) = waiting("touch", 100) else { return };
        if watched(child, Sources::default()).is_none() {
            return;
        }
        before.get_or_insert_with(descriptors);
    }
    assert_eq!(before, Some(descriptors()));
    // The kernel frees a program once no processor can run it any more.
    let begin = Instant::now();
    while loaded() > 0 && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(loaded(), 0);
}

#[test]
fn the_objects_are_what_their_source_builds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let build = std::fs::read_to_string(folder.join("build")).unwrap();
    let version = build.split("are of clang ").nth(1).unwrap().split(';').next().unwrap();
    if !wants::program("clang", "clang") || !wants::program("llvm-strip", "llvm") {
        return;
    }
    let said = Command::new("clang").arg("--version").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    if !said.contains(&format!("clang version {version}")) {
        return wants::missing_feature("the clang of the BPF objects", format_args!("{version}, not {said}"));
    }
    let built = tempfile::tempdir().unwrap();
    assert!(Command::new(folder.join("build")).arg(built.path()).status().unwrap().success());
    for arch in ["x86_64", "aarch64"] {
        let read = |folder: &Path| std::fs::read(folder.join(format!("faults.{arch}.o"))).unwrap();
        assert!(read(&folder) == read(built.path()), "{arch}: run crates/prof/bpf/build");
    }
}
