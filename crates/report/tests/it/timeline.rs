//! The timeline's page and its JSON.

use std::path::{Path, PathBuf};
use std::process::Command;

use faultless_report::flame;
use faultless_report::profile::{Layout, text};
use faultless_report::timeline::{Shown, html, json};
use faultless_trace::diff::Run;
use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::observation::{Level, Observation, Record, What, Window};
use faultless_trace::profile::Profile;
use faultless_trace::recording::{Frame, Header, Loss, Module, Name, Recording, Stacks};
use faultless_trace::timeline::{Part, Timeline};

/// Two threads in 10 ms: the first waits for a lock and for a processor, the second for the disk in a fault.
/// From `recorded_ns` on, faults are only sampled.
fn recording(recorded_ns: u64) -> Recording {
    const END_NS: u64 = 10_000_000;
    let mut records = Vec::new();
    let mut push = |time_ns, tid, what| records.push(Record { time_ns, pid: 1, tid, what });
    let switch = |out, preempted| What::Switch { out, preempted };
    push(0, 1, switch(false, false));
    push(0, 1, What::Name("main".into()));
    push(500_000, 2, What::Fork { parent: 1 });
    push(500_001, 2, What::Name("worker".into()));
    push(600_000, 2, switch(false, false));
    for at in 0..20 {
        let (time_ns, tid) = (1_000_000 + at * 400_000, 1 + at as u32 % 2);
        let (addr, stack) = (0x7f00_0000_0000 + (at << 12), Some(at as u32 % 3));
        if time_ns < recorded_ns {
            let (kernel, access, mapped_bytes) = (false, None, None);
            push(time_ns, tid, What::Enter { addr, ip: 7, kernel, access, mapped_bytes });
            push(time_ns + 2_000 * (at + 1), tid, What::End { addr, major: at == 5, stack, mapped_bytes });
        } else {
            let (ip, kernel, major, access, weight, mapped_bytes) = (7, false, false, None, 31, None);
            push(time_ns, tid, What::Sample { addr, ip, kernel, major, access, stack, weight, mapped_bytes });
        }
    }
    // The sixth fault.
    push(3_002_000, 2, switch(true, false));
    push(3_010_000, 2, switch(false, false));
    push(3_500_000, 1, What::LockWait { write: true, wait_ns: 30_000, by: None });
    push(5_100_000, 1, switch(true, true));
    push(5_300_000, 1, switch(false, false));
    push(6_500_000, 2, What::Cpu { kernel: false, stack: Some(1) });
    push(9_500_000, 2, What::Exit);
    push(END_NS, 1, What::Exit);
    records.sort_by_key(|record| record.time_ns);
    let window = |begin_ns, end_ns, recorded| Window { begin_ns, end_ns, faults: 10, recorded, lost: 0 };
    let windows = match recorded_ns < END_NS {
        true => vec![window(0, recorded_ns, true), window(recorded_ns, END_NS, false)],
        false => vec![Window { faults: 20, ..window(0, END_NS, true) }],
    };
    let levels = [(2, 3), (8, 18)].map(|(ms, faults)| Level {
        time_ns: ms * 1_000_000,
        faults,
        anon_bytes: faults << 12,
    });
    let frame = |function: &str| Frame {
        module: Some(0),
        address: 0,
        names: vec![Name { function: function.into(), ..Name::default() }],
    };
    Recording {
        header: Header { command: vec!["./qgrep".into(), "search".into()], ..Header::default() },
        observation: Observation { records, windows, levels: levels.into(), ..Observation::default() },
        stacks: Stacks {
            modules: vec![Module { path: "/usr/bin/qgrep".into(), ..Module::default() }],
            frames: ["LZ4_decompress_safe", "processChunk(Chunk const&)", "main"].map(frame).into(),
            stacks: vec![vec![0, 1], vec![1, 2], vec![2]],
        },
        ..Recording::default()
    }
}

fn whole() -> Recording {
    recording(u64::MAX)
}

fn page(recordings: &[(&str, &Recording)]) -> String {
    let timelines: Vec<Timeline> = recordings.iter().map(|(_, recording)| lay_out(recording)).collect();
    let shown: Vec<Shown<'_>> = recordings
        .iter()
        .zip(&timelines)
        .map(|((name, recording), timeline)| Shown { name, timeline, stacks: &recording.stacks })
        .collect();
    html(&shown)
}

fn lay_out(recording: &Recording) -> Timeline {
    Timeline::new(recording, &Profile::new(recording))
}

#[test]
fn the_page_fetches_nothing() {
    let recording = whole();
    let page = page(&[("a.trace", &recording), ("b.trace", &recording)]);
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_a_program_calls_itself_stays_text() {
    let mut recording = whole();
    recording.header.command = vec!["</script><script>alert(1)</script>".into()];
    recording.stacks.frames[0].names[0].function = "</script><b>".into();
    let page = page(&[("<i>", &recording)]);
    assert!(
        !page.contains("</script><script>alert") && !page.contains("</script><b>") && !page.contains("<i>")
    );
}

#[test]
fn json_of_a_pipeline() {
    let recording = whole();
    let timeline = lay_out(&recording);
    let text = json(&[Shown { name: "a.trace", timeline: &timeline, stacks: &recording.stacks }]);
    insta::assert_snapshot!("timeline.json", text.replace("],[", "],\n[").replace("},{", "},\n{"));
}

#[test]
fn shares_of_the_threads_lives_add_up_to_all_of_them() {
    let recording = recording(5_000_000);
    let page = page(&[("a.trace", &recording)]);
    let answer = &page[page.find(" of life: ").unwrap()..];
    let answer = &answer[..answer.find("<span").unwrap()];
    let before = answer.split(" %").map(|text| text.rsplit([' ', '<']).next().unwrap_or_default());
    let shares: Vec<f64> = before.filter_map(|share| share.parse().ok()).collect();
    // Each of at most six figures is rounded.
    assert!(shares.len() >= 3 && (98.0..101.5).contains(&shares.iter().sum()), "{shares:?}: {answer}");
}

/// 400 short shells after each other, which fault, and their parent; the samples of the last stand for many.
fn shells() -> Recording {
    let mut records = Vec::new();
    let mut push = |time_ns, pid, what| records.push(Record { time_ns, pid, tid: pid, what });
    push(0, 1, What::Name("make".into()));
    push(0, 1, What::Switch { out: false, preempted: false });
    for at in 0..400 {
        let (begin_ns, pid) = (1_000_000 + 100_000 * at, 2 + at as u32);
        let (addr, stack) = (0x7f00_0000_0000 + (at << 12), Some(0));
        push(begin_ns, pid, What::Fork { parent: 1 });
        push(begin_ns + 1, pid, What::Name("sh".into()));
        push(begin_ns + 2, pid, What::Switch { out: false, preempted: false });
        let (kernel, access, mapped_bytes) = (false, None, None);
        if at < 10 {
            push(begin_ns + 1_000, pid, What::Enter { addr, ip: 7, kernel, access, mapped_bytes });
            push(begin_ns + 3_000, pid, What::End { addr, major: false, stack, mapped_bytes });
        } else if at % 10 == 0 {
            let (major, weight) = (false, 1_000);
            push(
                begin_ns + 2_000,
                pid,
                What::Sample { addr, ip: 7, kernel, major, access, stack, weight, mapped_bytes },
            );
        }
        push(begin_ns + 50_000, pid, What::Exit);
    }
    let window = |begin_ns, end_ns, faults, recorded| Window { begin_ns, end_ns, faults, recorded, lost: 0 };
    let windows = vec![window(0, 1_990_000, 10, true), window(1_990_000, 42_000_000, 4_000, false)];
    Recording { observation: Observation { records, windows, ..Observation::default() }, ..whole() }
}

#[test]
fn threads_of_one_name_are_one_lane_and_one_row() {
    let recording = shells();
    let timeline = lay_out(&recording);
    let page = page(&[("a.trace", &recording)]);
    let about = page.split_once("id=\"about-0\">").unwrap().1.split_once("</script>").unwrap().0;
    let about: serde_json::Value = serde_json::from_str(about).unwrap();
    let groups: Vec<_> = about["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (&group[0], group[1].as_array().unwrap().len()))
        .collect();
    assert_eq!(groups, [(&"make".into(), 1), (&"sh".into(), 400)]);
    assert_eq!(about["lanes"], 401);
    let rows = page.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0;
    assert!(rows.contains("<td>sh<small>400 threads</small></td>"), "{rows}");
    assert!(rows.matches("<tr>").count() <= 4 && page.len() < 100_000, "{} bytes", page.len());
    // No shell had more time than its life, and the share is that of the run's time.
    let spent = timeline.spent();
    assert_eq!(spent.of(Part::Faults), timeline.fault_ns.round() as u64);
    assert_eq!(spent.life_ns(), timeline.lanes.iter().map(|lane| lane.end_ns - lane.begin_ns).sum::<u64>());
    let lanes: f64 = timeline.lanes.iter().map(|lane| lane.spent().of(Part::Faults) as f64).sum();
    assert!(
        (lanes - timeline.fault_ns).abs() <= 0.01 * timeline.fault_ns,
        "{lanes} of {}",
        timeline.fault_ns
    );
}

#[test]
fn many_lost_records_are_in_the_first_sentence() {
    let mut recording = whole();
    recording.losses.push(Loss { cpu: Some(0), begin_ns: 1, end_ns: 2, lost: 20 });
    let said = "50 % of the records were lost: shares are of what was seen";
    assert!(page(&[("a.trace", &recording)]).contains(said));
    let run = Run::new(recording);
    let words = |text: &str| {
        text.replace("</text>", " ")
            .replace('>', " ")
            .split(' ')
            .filter(|word| !word.contains(['<', '=', '"']))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let picture = words(&flame::svg(&run, flame::Settings::default()).unwrap());
    assert!(picture.contains("of the records were lost"), "{picture}");
    let findings = Findings::new(&run.recording, &Wanted::default()).unwrap();
    assert!(text(&findings, Layout::default()).replace("\n ", " ").contains(said));
}

#[test]
fn nothing_recorded_is_a_page_all_the_same() {
    let page = page(&[("a.trace", &Recording::default())]);
    assert!(page.contains("0 threads") && !page.contains(" of life: "));
}

/// Usual names of Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// The page in its folder.
const PAGE: &str = "timeline.html";

fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .flat_map(|folder| BROWSERS.map(|name| folder.join(name)))
        .find(|p| p.exists())
}

/// The browser, and this page in a folder of its own.
pub(crate) fn written(page: &str) -> Option<(PathBuf, tempfile::TempDir)> {
    let Some(browser) = chromium() else {
        faultless_wants::missing_package("chromium", format_args!("none of {BROWSERS:?} on the PATH"));
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(PAGE), page).unwrap();
    Some((browser, folder))
}

/// The document in a window of this width after its script ran, and the script's complaints.
pub(crate) fn opened(browser: &Path, folder: &Path, width: usize) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .args([&format!("--window-size={width},900"), "--virtual-time-budget=4000"])
        .arg(format!("--user-data-dir={}", folder.join(width.to_string()).display()))
        .arg(folder.join(PAGE))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let complaints = text(&output.stderr);
    let complaints: Vec<&str> = complaints.lines().filter(|line| line.contains("CONSOLE")).collect();
    (text(&output.stdout), complaints.join("\n"))
}

#[test]
fn a_browser_draws_the_page_without_complaint() {
    let bursts = recording(5_000_000);
    let pages = [("a.trace", &whole()), ("b.trace", &bursts)];
    let Some((browser, folder)) = written(&page(&pages)) else { return };
    let (document, complaints) = opened(&browser, folder.path(), 1280);
    assert_eq!(complaints, "");
    assert!(document.contains("data-ready="), "the script did not come to its end");
    assert!(document.contains("LZ4_decompress_safe"), "the summary names the site");
    assert_eq!(document.matches("class=\"row lane").count(), 4);
}

#[test]
fn a_lane_of_many_threads_opens() {
    let open = "<script>addEventListener('load',()=>setTimeout(()=>document.querySelector('.many button').click(),1000))</script>";
    let page = page(&[("a.trace", &shells())]);
    for (page, lanes) in [(page.clone(), 2), (page + open, 402)] {
        let Some((browser, folder)) = written(&page) else { return };
        let (document, complaints) = opened(&browser, folder.path(), 500);
        assert_eq!((complaints.as_str(), document.matches("class=\"row lane").count()), ("", lanes));
    }
}
