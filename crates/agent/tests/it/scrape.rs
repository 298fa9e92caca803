//! Scrapes, by the right of root and of nobody, and how other programs read them.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fs, io::Write};

use crate::agent::{Agent, Answer, Metrics, PROGRAM, talk};

/// Names that every scrape has, whatever the rights.
const ALWAYS: [(&str, &str); 9] = [
    ("faultless_page_faults_total", "counter"),
    ("faultless_fault_seconds_total", "counter"),
    ("faultless_cpu_seconds_total", "counter"),
    ("faultless_program_page_faults_total", "counter"),
    ("faultless_fault_price_seconds", "gauge"),
    ("faultless_groups", "gauge"),
    ("faultless_agent_cpu_seconds_total", "counter"),
    ("faultless_agent_resident_memory_bytes", "gauge"),
    ("faultless_agent_source", "gauge"),
];

fn check(metrics: &Metrics) {
    for (name, kind) in ALWAYS {
        assert_eq!(metrics.types.get(name).map(String::as_str), Some(kind), "{name}: {:?}", metrics.types);
        assert!(metrics.sum(name, &[]).is_some(), "{name} has no series");
    }
    assert!(metrics.get("faultless_fault_price_seconds").is_some_and(|s| s > 1e-8 && s < 1e-2));
    assert!(metrics.sum("faultless_page_faults_total", &["service=\"_other\""]).is_some());
    assert!(
        metrics.get("faultless_agent_resident_memory_bytes").is_some_and(|bytes| bytes < (64 << 20) as f64)
    );
    assert_eq!(metrics.get("faultless_agent_interval_seconds"), Some(1.0));
}

#[test]
fn a_scrape_has_names_types_and_counters_that_never_fall() {
    let agent = Agent::start(&[]);
    let mut before = agent.poll();
    check(&before);
    for _ in 0..3 {
        let now = agent.poll();
        now.has_not_fallen_since(&before);
        before = now;
    }
    assert_eq!(agent.get("/healthz", "").body, "ok\n");
    assert_eq!(agent.get("/", "").status, 200);
    let head = Answer::parse(&talk(agent.address, b"HEAD /healthz HTTP/1.0\r\n\r\n"));
    assert_eq!((head.status, head.body.as_str(), head.head.contains("Content-Length: 3")), (200, "", true));
}

#[test]
fn a_processor_that_goes_and_comes_back_leaves_the_counters_rising() {
    const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";
    if !faultless_wants::asked("FAULTLESS_TEST_HOTPLUG", "it takes a processor from the whole machine") {
        return;
    }
    struct Online;
    impl Drop for Online {
        fn drop(&mut self) {
            let _ = fs::write(ONLINE, "1");
        }
    }
    let _online = Online;
    let agent = Agent::start(&[]);
    let mut before = agent.poll();
    for state in ["0", "1"] {
        fs::write(ONLINE, state).unwrap();
        for _ in 0..3 {
            let now = agent.poll();
            now.has_not_fallen_since(&before);
            before = now;
        }
    }
    assert_eq!(agent.get("/healthz", "").body, "ok\n");
}

/// The program where nobody may execute it; `None`, noted, for who can't become nobody.
fn for_nobody() -> Option<(tempfile::TempDir, PathBuf)> {
    if faultless_os::host::user().0 != 0 {
        faultless_wants::missing_feature("root", "only root becomes nobody");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("faultless-agent");
    fs::copy(PROGRAM, &program).unwrap();
    for path in [folder.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Some((folder, program))
}

#[test]
fn nobody_counts_too_and_hears_what_is_missing() {
    let Some((_folder, program)) = for_nobody() else { return };
    let agent = Agent::start_as_nobody(&program, None);
    let metrics = agent.poll();
    check(&metrics);
    // Whether nobody may time faults of the whole machine is a setting: perf_event_paranoid below 0.
    let timed = metrics.sum("faultless_agent_source", &["fault pairs"]);
    if timed == Some(0.0) {
        assert_eq!(metrics.get("faultless_timed_faults"), Some(0.0));
    }
}

#[test]
fn with_one_capability_nobody_times_faults_as_root_does() {
    let Some((_folder, program)) = for_nobody() else { return };
    if !faultless_wants::program("setpriv", "util-linux") {
        return;
    }
    let times = |agent: &Agent| agent.poll().sum("faultless_agent_source", &["fault pairs"]) == Some(1.0);
    if !times(&Agent::start(&[])) {
        return faultless_wants::missing_feature(
            "perf events of the whole machine",
            "root may not open them",
        );
    }
    assert!(times(&Agent::start_as_nobody(&program, Some("+perfmon"))));
}

#[test]
fn pythons_client_of_prometheus_reads_both_formats() {
    const READ: &str = "import sys\n\
        text = sys.stdin.read()\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics\n\
        from prometheus_client.parser import text_string_to_metric_families as prometheus\n\
        read = openmetrics if text.endswith('# EOF\\n') else prometheus\n\
        print(sum(len(family.samples) for family in read(text)))\n";
    let has = Command::new("python3").args(["-c", "import prometheus_client"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return faultless_wants::missing_package("python3-prometheus-client", "python3 can't import it");
    }
    let agent = Agent::start(&[]);
    agent.poll();
    for accept in ["application/openmetrics-text; version=1.0.0", "text/plain"] {
        let answer = agent.get("/metrics", &format!("Accept: {accept}\r\n"));
        assert!(answer.head.contains(&format!("Content-Type: {}", &accept[..10])), "{}", answer.head);
        let mut python = Command::new("python3");
        let mut python =
            python.args(["-c", READ]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        python.stdin.take().unwrap().write_all(answer.body.as_bytes()).unwrap();
        let output = python.wait_with_output().unwrap();
        let samples: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        assert_eq!(samples, Metrics::parse(&answer.body).series.len(), "{accept}");
    }
}

#[test]
fn once_prints_one_interval() {
    let output = Command::new(PROGRAM).args(["--once", "--interval", "1s"]).output().unwrap();
    assert!(output.status.success());
    let metrics = Metrics::parse(&String::from_utf8(output.stdout).unwrap());
    check(&metrics);
    assert_eq!(metrics.get("faultless_agent_polls_total"), Some(1.0));
}

#[test]
fn over_tls_the_certificate_is_the_given_one() {
    if !faultless_wants::program("openssl", "openssl") || !faultless_wants::program("curl", "curl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (cert, key, token) = (path("cert.pem"), path("key.pem"), path("token"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            &key,
            "-out",
            &cert,
        ])
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    fs::write(&token, "s3cret").unwrap();
    // Every address of this machine: what a token and TLS allow.
    let agent = Agent::start(&[
        "--listen",
        "0.0.0.0:0",
        "--token-file",
        &token,
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
    ]);
    let url = format!("https://localhost:{}/metrics", agent.address.port());
    let curl = |words: &[&str]| {
        let mut curl = Command::new("curl");
        let output = curl.args(["-sS", "--max-time", "20", &url]).args(words).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (is_read, body) = curl(&["--cacert", &cert, "-H", "Authorization: Bearer s3cret"]);
    assert!(is_read && body.contains("faultless_agent_cpu_seconds_total"), "{body}");
    assert!(!curl(&["-H", "Authorization: Bearer s3cret"]).0, "nobody vouches for this certificate");
    assert!(!curl(&["--cacert", &cert]).1.contains("faultless_agent"), "without the token");
}
