//! `faultless record` as a user meets it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use faultless_trace::observation::{Exit, What};
use faultless_trace::recording::{Frame, Recording};
use faultless_wants as wants;

use crate::{FAULTLESS, machine, text};

/// A new folder, removed on drop.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn record(folder: &Path, words: &[&str]) -> Output {
    Command::new(FAULTLESS).arg("record").args(words).current_dir(folder).output().unwrap()
}

fn load(path: &Path) -> Recording {
    faultless_trace::file::read(&std::fs::read(path).unwrap()).unwrap()
}

fn names(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Waits for what comes, be it late; `false` where `child` has ended before.
fn until(child: &mut Child, what: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !what() {
        if child.try_wait().unwrap().is_some() {
            return what();
        }
        assert!(begin.elapsed() < Duration::from_secs(300), "it never came");
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Whether the recorder of this file is at work: it has written the first part.
fn is_begun(part: &Path) -> bool {
    part.metadata().is_ok_and(|part| part.len() > 0)
}

#[test]
fn a_program_that_has_switched_huge_pages_off_is_known_by_that() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    let words = ["--", FAULTLESS, "run", "--no-huge-pages", "--", "sleep", "0.3"];
    assert!(record(folder.path(), &words).status.success());
    let records = load(&folder.path().join("faultless.trace")).observation.records;
    if !std::fs::read_to_string("/proc/self/status").unwrap().contains("THP_enabled:") {
        return wants::missing_feature("THP", "/proc/self/status does not tell");
    }
    assert!(records.iter().any(|record| matches!(record.what, What::NoHugePages)));
}

#[test]
fn the_program_keeps_its_streams_and_status_and_one_whole_file_remains() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    let out = record(folder.path(), &["--", "sh", "-c", "echo data; echo error >&2; exit 3"]);
    assert_eq!(out.status.code(), Some(3));
    assert_eq!(text(&out.stdout), "data\n");
    let said = text(&out.stderr);
    assert!(said.starts_with("error\n") && said.ends_with("faultless report\n"), "{said}");
    let path = folder.path().join("faultless.trace");
    assert_eq!(names(folder.path()), std::slice::from_ref(&path));
    let recording = load(&path);
    assert!(recording.missing.is_empty(), "{:?}", recording.missing);
    assert_eq!(recording.footer.unwrap().exit, Exit::Status(3));
    assert_eq!(recording.header.command[0], "sh");
}

#[test]
fn a_killed_recorder_leaves_a_part_that_can_be_read() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    // It ends with its standard input, which this process holds.
    let mut child = Command::new(FAULTLESS)
        .args(["record", "-o", "x.trace", "--", "cat"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    let part = folder.path().join("x.trace.part");
    // The second writing: the first may hold nothing but the header.
    assert!(until(&mut child, || is_begun(&part)));
    let first = part.metadata().unwrap().len();
    assert!(until(&mut child, || part.metadata().unwrap().len() > first));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    assert_eq!(names(folder.path()), std::slice::from_ref(&part));
    let recording = load(&part);
    assert!(recording.missing.iter().any(|text| text.contains("killed")), "{:?}", recording.missing);
    if recording.header.settings.stack_bytes == 0 || recording.observation.windows.is_empty() {
        return wants::missing_feature("perf events", format_args!("{:?}", recording.header.settings));
    }
    let records = &recording.observation.records;
    assert!(records.iter().any(|record| matches!(record.what, What::Map(_))), "{records:?}");
}

/// Begins to record a process that runs.
fn record_of(program: &Child, folder: &Path) -> Child {
    let mut command = Command::new(FAULTLESS);
    command.args(["record", "-p", &program.id().to_string()]).current_dir(folder);
    command.stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_request_to_end_ends_the_recording_of_a_running_process_and_not_the_process() {
    let folder = folder();
    let mut program = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut recorder = record_of(&program, folder.path());
    until(&mut recorder, || is_begun(&folder.path().join("faultless.trace.part")));
    let number = recorder.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &number]).status().unwrap().success());
    let out = recorder.wait_with_output().unwrap();
    assert!(program.try_wait().unwrap().is_none(), "it runs on");
    program.kill().unwrap();
    program.wait().unwrap();
    let said = text(&out.stderr);
    if said.contains("perf_event_open") && !out.status.success() {
        return wants::missing_feature("perf events", said);
    }
    assert_eq!(out.status.code(), Some(0), "{said}");
    let recording = load(&folder.path().join("faultless.trace"));
    assert!(recording.missing.is_empty() && recording.header.settings.attached);
}

#[test]
fn where_no_space_is_left_the_program_runs_on_and_what_fitted_can_be_read() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    // Eight blocks of 512 bytes.
    let script = "ulimit -f 8; exec \"$0\" record --all -- \"$0\" workload touch-once --mib 8 --quiet";
    let out = Command::new("sh").args(["-c", script, FAULTLESS]).current_dir(folder.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).starts_with("touch-once checksum"), "{}", text(&out.stdout));
    let said = text(&out.stderr);
    assert!(said.contains("too large") && said.contains("faultless.trace.part"), "{said}");
    let recording = load(&folder.path().join("faultless.trace.part"));
    assert!(!recording.missing.is_empty());
}

#[test]
fn a_program_has_its_own_signal_where_a_file_grows_too_large() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    let script = "ulimit -f 8; exec \"$0\" record -- sh -c 'head -c 100000 /dev/zero >large; exit $?'";
    let out = Command::new("sh").args(["-c", script, FAULTLESS]).current_dir(folder.path()).output().unwrap();
    // 128 + SIGXFSZ, as without a recorder.
    assert_eq!(out.status.code(), Some(128 + 25), "{}", text(&out.stderr));
}

#[test]
fn where_nothing_at_all_fits_no_file_is_left_and_none_is_recommended() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    let script = "ulimit -f 0; exec \"$0\" record -- sh -c 'exit 5'";
    let out = Command::new("sh").args(["-c", script, FAULTLESS]).current_dir(folder.path()).output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(5), "{said}");
    assert!(said.contains("nothing fitted") && !said.contains("faultless report"), "{said}");
    assert_eq!(names(folder.path()), [] as [PathBuf; 0]);
}

#[test]
fn a_request_to_end_after_the_program_has_ended_loses_nothing() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    // The program's last act. Its recorder then looks up names in this large file.
    let script = "\"$0\" --version; (kill -TERM $PPID; kill -TERM $PPID) & exit 3";
    for _ in 0..4 {
        let out = record(folder.path(), &["--", "sh", "-c", script, FAULTLESS]);
        let said = text(&out.stderr);
        assert!(matches!(out.status.code(), Some(3 | 143)), "{:?} {said}", out.status);
        assert_eq!(names(folder.path()), [folder.path().join("faultless.trace")], "{said}");
    }
}

#[test]
fn the_status_of_the_program_is_passed_on_though_nobody_can_be_told_of_the_file() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(FAULTLESS);
    command.args(["record", "--", "sh", "-c", "exit 3"]).current_dir(folder.path()).stderr(full);
    assert_eq!(command.status().unwrap().code(), Some(3));
}

#[test]
fn a_process_that_has_ended_and_was_not_waited_for_is_gone() {
    let folder = folder();
    let mut ended = Command::new("true").spawn().unwrap();
    let has_ended = || faultless_os::procfs::stat(ended.id()).unwrap().has_ended();
    let begin = Instant::now();
    while !has_ended() {
        assert!(begin.elapsed() < Duration::from_secs(300), "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    let out = record(folder.path(), &["-p", &ended.id().to_string()]);
    ended.wait().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("no such process") && said.lines().count() == 1, "{said}");
}

#[test]
fn where_nothing_was_to_be_named_no_names_are_missing() {
    let folder = folder();
    let mut program = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    program.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    program.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let mut recorder = record_of(&program, folder.path());
    until(&mut recorder, || is_begun(&folder.path().join("faultless.trace.part")));
    // Its end is seen without our having reaped it.
    program.kill().unwrap();
    let out = recorder.wait_with_output().unwrap();
    program.wait().unwrap();
    let said = text(&out.stderr);
    if said.contains("perf_event_open") && !out.status.success() {
        return wants::missing_feature("perf events", said);
    }
    assert!(out.status.success() && said.contains("faultless report") && !said.contains("0 of 0"), "{said}");
}

#[test]
fn debug_files_in_the_folder_for_them_are_read_and_said_where_they_cannot_be() {
    if !machine::recorder() {
        return;
    }
    if !wants::program("cc", "gcc") || !wants::program("objcopy", "binutils") {
        return;
    }
    let folder = folder();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let source = "#include <stdlib.h>\n__attribute__((noinline)) void fill_it(volatile char *p) \
                  { for (long i = 0; i < 64l << 20; i += 4096) p[i] = 1; }\nint main(void) { fill_it(malloc(64l << 20)); }\n";
    std::fs::write(folder.path().join("a.c"), source).unwrap();
    let build = "cc -g -O1 -o a a.c && mkdir .debug && objcopy --only-keep-debug a .debug/a.debug && \
                 cd .debug && objcopy --strip-all --add-gnu-debuglink=a.debug ../a";
    let built = Command::new("sh").args(["-c", build]).current_dir(folder.path()).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let function = |recording: &Recording| {
        let names = recording.stacks.frames.iter().flat_map(|frame| &frame.names);
        names.into_iter().any(|name| name.function == "fill_it")
    };
    let out = record(folder.path(), &["--", "./a"]);
    let recording = load(&folder.path().join("faultless.trace"));
    if !machine::events(&recording) {
        return;
    }
    assert!(function(&recording), "{}", text(&out.stderr));
    // Noise in its place counts as missing, and is reported in one line.
    std::fs::write(folder.path().join(".debug/a.debug"), "noise").unwrap();
    let said = text(&record(folder.path(), &["--", "./a"]).stderr);
    assert_eq!(said.lines().filter(|line| line.contains("missing: names from")).count(), 1, "{said}");
    assert!(!function(&load(&folder.path().join("faultless.trace"))));
}

#[test]
fn a_normal_user_records_too() {
    if !machine::recorder() {
        return;
    }
    if !machine::other_users() {
        return;
    }
    let folder = folder();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let copy = folder.path().join("faultless");
    machine::copy_program(FAULTLESS, &copy);
    let as_user = |words: &[&str]| {
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
        Command::new("setpriv").args(user).arg(&copy).args(words).current_dir(folder.path()).output().unwrap()
    };
    let out = as_user(&["record", "--", "./faultless", "workload", "--quiet", "touch-once", "--mib=200"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let recording = load(&folder.path().join("faultless.trace"));
    assert!(recording.missing.is_empty());
    if !machine::events(&recording) {
        return;
    }
    assert!(recording.header.settings.user_only);
    let samples = recording.observation.records.iter();
    let samples = samples.filter(|record| matches!(record.what, What::Sample { kernel: false, .. }));
    let losses = recording.footer.iter().flat_map(|footer| footer.event_losses.iter().flatten());
    let lost: u64 = losses.filter(|loss| loss.event == "sample").map(|loss| loss.lost).sum();
    assert!(samples.count() as u64 + lost > 5, "{lost} lost");
    let refused = as_user(&["record", "-p", "1", "-o", "other.trace"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("user 0") && said.contains("as root"), "{said}");
    assert!(!folder.path().join("other.trace.part").exists());
}

/// Names of all addresses, by file.
fn places(recording: &Recording) -> BTreeMap<(String, u64), Vec<String>> {
    let path = |module: u32| recording.stacks.modules[module as usize].path.clone();
    let names = |frame: &Frame| frame.names.iter().map(|name| name.function.clone()).collect();
    let frames = recording.stacks.frames.iter();
    frames.filter_map(|frame| Some(((path(frame.module?), frame.address), names(frame)))).collect()
}

/// Whether the text contains `complete: N` or `complete: all N` with this number.
fn says_complete(said: &str, faults: u64) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let after = said.split("complete: ").nth(1).unwrap_or_default().trim_start_matches("all ");
    digits(after.split(" faults").next().unwrap_or_default()) == faults.to_string()
}

#[test]
fn a_complete_recording_says_so_and_so_does_its_report() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    // A busy machine may read a ring too late. Those of the last program hold all of its faults though nobody reads them.
    let touches =
        ["8", "8", "8", "1"].map(|mib| [FAULTLESS, "workload", "--quiet", "touch-once", "--mib", mib]);
    let touches = touches.each_ref().map(|words| (&words[..], words[5].parse::<u64>().unwrap() * 256));
    for (program, least) in touches.into_iter().chain([(&["true"][..], 10)]) {
        let out = record(folder.path(), &[&["--"], program].concat());
        let said = text(&out.stderr);
        let recording = load(&folder.path().join("faultless.trace"));
        if !machine::events(&recording) {
            return;
        }
        let report =
            Command::new(FAULTLESS).args(["report", "--explain"]).current_dir(folder.path()).output();
        let report = text(&report.unwrap().stdout);
        match recording.complete() {
            None => assert!(!said.contains("complete") && !report.contains("complete"), "{said}{report}"),
            Some(faults) => {
                assert!(
                    faults >= least && says_complete(&said, faults) && says_complete(&report, faults),
                    "{said}{report}"
                );
                return;
            }
        }
    }
    panic!("five recordings, and none is complete");
}

#[test]
fn names_are_kept_in_the_cache_folder_and_recorders_at_once_share_it() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    let cache = folder.path().join("cache");
    let start = |file: &str| {
        let words = ["record", "-o", file, "--", "sh", "-c", "ls / > /dev/null"];
        let mut command = Command::new(FAULTLESS);
        command.args(words).env("XDG_CACHE_HOME", &cache).current_dir(folder.path()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let at_once = ["a", "b"].map(start);
    for recorder in at_once {
        let out = recorder.wait_with_output().unwrap();
        assert!(
            out.status.success() && !text(&out.stderr).contains("missing: names"),
            "{}",
            text(&out.stderr)
        );
    }
    assert!(start("c").wait().unwrap().success());
    let recordings = ["a", "b", "c"].map(|file| load(&folder.path().join(file)));
    if !machine::events(&recordings[0]) {
        return;
    }
    let kept = names(&cache.join("faultless/names"));
    assert!(kept.iter().any(|path| path.file_name().unwrap().len() > 40), "by build id: {kept:?}");
    let [a, b, c] = recordings.map(|recording| places(&recording));
    let mut same = 0;
    for (place, names) in &c {
        for known in [&a, &b].into_iter().filter_map(|recording| recording.get(place)) {
            assert_eq!(known, names, "{place:?}");
            same += usize::from(!names.is_empty());
        }
    }
    assert!(same > 10, "{same}");
}

#[test]
fn where_no_names_can_be_kept_a_recording_has_them_all_the_same() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    // Nobody can create a folder there, not even root.
    for home in ["/proc/self", "relative", ""] {
        let mut command = Command::new(FAULTLESS);
        command.args(["record", "--", "ls", "/"]).env_remove("XDG_CACHE_HOME").env("HOME", home);
        let out = command.current_dir(folder.path()).output().unwrap();
        let said = text(&out.stderr);
        assert!(out.status.success() && !said.contains("missing: names"), "{home}: {said}");
        let recording = load(&folder.path().join("faultless.trace"));
        if !machine::events(&recording) {
            return;
        }
        assert!(places(&recording).values().any(|names| !names.is_empty()), "{home}");
        assert_eq!(names(folder.path()), [folder.path().join("faultless.trace")]);
    }
}

#[test]
fn wrong_input_is_one_line_with_a_remedy_and_leaves_no_file() {
    if !machine::recorder() {
        return;
    }
    let folder = folder();
    let cases: [(&[&str], &str); 6] = [
        (&[], "missing"),
        (&["-p", "4194305"], "no such process"),
        (&["-p", "1", "--for", "1s", "--", "true"], "cannot be used with"),
        (&["--", "faultless-no-such"], "no such command"),
        (&["-o", "no/such/folder/x", "--", "true"], "name a FILE that can be written"),
        (&["-F", "4000000000", "--", "true"], "perf_event_max_sample_rate"),
    ];
    for (words, expected) in cases {
        let out = record(folder.path(), words);
        let said = text(&out.stderr);
        let status = if expected == "no such command" { 127 } else { 2 };
        assert_eq!(out.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
        assert_eq!(names(folder.path()), [] as [PathBuf; 0], "{words:?}");
    }
}

#[test]
fn what_the_kernel_touches_in_execve_is_one_place_and_asks_for_no_debug_information() {
    if !machine::recorder() || !machine::root("faults of kernel mode are recorded as root") {
        return;
    }
    let folder = folder();
    assert!(record(folder.path(), &["--", "sh", "-c", "/bin/true; /bin/true; exit 0"]).status.success());
    let stacks = load(&folder.path().join("faultless.trace")).stacks;
    let labels: Vec<String> = (0..stacks.stacks.len() as u32).flat_map(|at| stacks.labels(at)).collect();
    // The kernel clears the end of the data of each program, in a page that it has to copy first.
    assert!(labels.iter().any(|label| label == "[exec]"), "{labels:?}");
    assert!(labels.iter().all(|label| !label.starts_with("[unknown]")), "{labels:?}");
    let shown =
        Command::new(FAULTLESS).args(["report", "--top", "99"]).current_dir(&folder).output().unwrap();
    assert!(text(&shown.stdout).contains("  [exec]\n"), "{}", text(&shown.stdout));
}

/// Ten threads that write 97 pages of their stacks, of which glibc maps each right below the last, and a heap of 25
/// pages that never grows: the kernel names neither.
const STACKS_AND_HEAP: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *work(void *unused) {
    volatile char block[97 * 4096];
    for (unsigned i = 0; i < sizeof(block); i += 4096) block[i] = 1;
    return unused;
}
int main(void) {
    pthread_t threads[10];
    memset(malloc(25 * 4096), 1, 25 * 4096);
    for (int i = 0; i < 10; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 10; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
fn stacks_below_stacks_and_a_heap_that_never_grows_have_their_kinds() {
    if !machine::recorder() || !wants::program("cc", "gcc") {
        return;
    }
    let folder = folder();
    std::fs::write(folder.path().join("stacks.c"), STACKS_AND_HEAP).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O0", "-pthread", "-o", "stacks", "stacks.c"]).current_dir(folder.path());
    assert!(cc.status().unwrap().success());
    assert!(record(folder.path(), &["--all", "-o", "stacks.trace", "--", "./stacks"]).status.success());
    let report = ["report", "--json", "--by", "kind", "stacks.trace"];
    let out = Command::new(FAULTLESS).args(report).current_dir(folder.path()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let kinds = json["tables"][0]["sites"]["rows"].as_array().unwrap();
    let of = |kind| kinds.iter().find(|row| row["label"] == kind);
    let faults = |kind| of(kind).map_or(0.0, |row| row["faults"]["value"].as_f64().unwrap());
    assert!(faults("stack") > 960.0, "{kinds:?}");
    assert!((24.0..30.0).contains(&faults("first write, heap")), "{kinds:?}");
}

#[test]
fn what_the_allocation_recorder_touches_is_not_the_programs() {
    if !machine::recorder() || !wants::program("cc", "gcc") {
        return;
    }
    let folder = folder();
    let source = "#include <stdlib.h>\n#include <string.h>\nint main(void) { for (int i = 0; i < 8; i++) {\n\
                  char *p = malloc(8 << 20); memset(p, 1, 8 << 20); free(p); } return 0; }\n";
    std::fs::write(folder.path().join("a.c"), source).unwrap();
    assert!(Command::new("cc").args(["-o", "a", "a.c"]).current_dir(&folder).status().unwrap().success());
    let report = |alloc: &[&str]| -> serde_json::Value {
        let words = [alloc, &["--all", "-o", "a.trace", "--", "./a"]].concat();
        assert!(record(folder.path(), &words).status.success());
        let show = ["report", "--json", "--top", "999", "a.trace"];
        let out = Command::new(FAULTLESS).args(show).current_dir(&folder).output().unwrap();
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let (without, with) = (report(&[]), report(&["--alloc"]));
    if !machine::events(&load(&folder.path().join("a.trace"))) {
        return;
    }
    let beyond = |report: &serde_json::Value, kinds: &[&str]| -> u64 {
        let rows = report["beyond"].as_array().unwrap().iter();
        rows.filter(|row| kinds.contains(&row[0].as_str().unwrap())).map(|row| row[1].as_u64().unwrap()).sum()
    };
    let own = |report| beyond(report, &["before_exec"]);
    let populated = |report| beyond(report, &["populate", "kernel_or_populate"]);
    // The journal of 10 MiB comes in pages of its own, of at most 2 MiB.
    assert!(own(&with) > own(&without), "{} and {}", own(&with), own(&without));
    assert!(populated(&with) <= populated(&without) + 16, "{} and {}", populated(&with), populated(&without));
    let rows = with["tables"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|table| table["sites"]["rows"].as_array().unwrap());
    let labels: Vec<&str> = rows.map(|row| row["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"[of the recording]"), "{labels:?}");
    assert!(
        labels.iter().all(|label| !label.contains("preload-") && !label.contains("journal")),
        "{labels:?}"
    );
}
