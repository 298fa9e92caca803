//! The timeline's page and its JSON.

use std::path::{Path, PathBuf};
use std::process::Command;

use faultless_report::timeline::{Shown, html, json};
use faultless_trace::profile::Profile;
use faultless_trace::recording::Recording;
use faultless_trace::timeline::Timeline;

use super::pipeline::Pipeline;

const SMALL: Pipeline = Pipeline { workers: 2, chunks: 3, pool: false, every_fault: true };

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
    let recording = SMALL.recording();
    let page = page(&[("a.trace", &recording), ("b.trace", &recording)]);
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_a_program_calls_itself_stays_text() {
    let mut recording = SMALL.recording();
    recording.header.command = vec!["</script><script>alert(1)</script>".into()];
    recording.stacks.frames[0].names[0].function = "</script><b>".into();
    let page = page(&[("<i>", &recording)]);
    assert!(
        !page.contains("</script><script>alert") && !page.contains("</script><b>") && !page.contains("<i>")
    );
}

#[test]
fn json_of_a_pipeline() {
    let mut recording = Pipeline { workers: 1, chunks: 1, pool: true, every_fault: true }.recording();
    recording.observation.records.retain(|record| record.time_ns < 3_900_000);
    recording.observation.windows[0].end_ns = 3_900_000;
    recording.observation.levels.truncate(2);
    let timeline = lay_out(&recording);
    let text = json(&[Shown { name: "a.trace", timeline: &timeline, stacks: &recording.stacks }]);
    insta::assert_snapshot!("timeline.json", text.replace("],[", "],\n[").replace("},{", "},\n{"));
}

#[test]
fn shares_of_the_threads_lives_add_up_to_all_of_them() {
    let recording = Pipeline { workers: 2, chunks: 40, pool: true, every_fault: false }.recording();
    let page = page(&[("a.trace", &recording)]);
    let answer = &page[page.find(" of life: ").unwrap()..];
    let answer = &answer[..answer.find("<span").unwrap()];
    let before = answer.split(" %").map(|text| text.rsplit([' ', '<']).next().unwrap_or_default());
    let shares: Vec<f64> = before.filter_map(|share| share.parse().ok()).collect();
    // Each of at most six figures is rounded.
    assert!(shares.len() >= 3 && (98.0..101.5).contains(&shares.iter().sum()), "{shares:?}: {answer}");
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

/// The browser, and a page of these recordings in a folder of its own.
fn written(recordings: &[(&str, &Recording)]) -> Option<(PathBuf, tempfile::TempDir)> {
    let Some(browser) = chromium() else {
        faultless_wants::missing_package("chromium", format_args!("none of {BROWSERS:?} on the PATH"));
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(PAGE), page(recordings)).unwrap();
    Some((browser, folder))
}

/// The document in a window of this width after its script ran, and the script's complaints.
fn opened(browser: &Path, folder: &Path, width: usize) -> (String, String) {
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
    let bursts = Pipeline { every_fault: false, ..SMALL }.recording();
    let pages = [("a.trace", &SMALL.recording()), ("b.trace", &bursts)];
    let Some((browser, folder)) = written(&pages) else { return };
    let (document, complaints) = opened(&browser, folder.path(), 1280);
    assert_eq!(complaints, "");
    assert!(document.contains("data-ready="), "the script did not come to its end");
    assert!(document.contains("LZ4_decompress_safe"), "the summary names the site");
    assert_eq!(document.matches("class=\"row lane").count(), 8);
}

#[test]
fn the_peaks_that_curves_name_are_the_same_in_every_window() {
    let recording = Pipeline { workers: 3, chunks: 40, pool: false, every_fault: true }.recording();
    let Some((browser, folder)) = written(&[("a.trace", &recording)]) else { return };
    let peaks = |width: usize| -> Vec<String> {
        let (document, complaints) = opened(&browser, folder.path(), width);
        assert_eq!(complaints, "");
        let labels = document.split("aria-label=\"").skip(1).filter_map(|rest| rest.split('"').next());
        labels.filter(|label| label.contains(" at most, in bins of ")).map(str::to_owned).collect()
    };
    let wide = peaks(1600);
    assert_eq!(wide.len(), 3, "threads in faults, faults/s, resident: {wide:?}");
    assert_eq!((peaks(1280), peaks(700)), (wide.clone(), wide));
}
