//! The real OpenTelemetry Collector takes what the agent pushes, and gives it to Prometheus as the agent's own page does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use crate::agent::{Answer, Metrics, talk, until};
use crate::real::Server;
use crate::record::Scripted;

/// Builds the collector, once; `None`, noted, where that can't be done.
fn collector() -> Option<PathBuf> {
    const WHY: &str = "it builds the OpenTelemetry Collector, which takes minutes the first time";
    if !faultless_wants::asked("FAULTLESS_TEST_COLLECTOR", WHY)
        || !faultless_wants::program("go", "golang-go")
    {
        return None;
    }
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("collector");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/collector");
    let built =
        Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(folder).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The series of a page by name and labels, without what the collector adds.
fn series(metrics: &Metrics) -> BTreeMap<(String, BTreeSet<String>), f64> {
    const ADDED: [&str; 4] = ["job=", "instance=", "host_name=", "otel_scope_"];
    let one = |(series, value): (&String, &f64)| {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels =
            labels.trim_end_matches('}').split("\",").map(|label| label.trim_end_matches('"').to_owned());
        let own =
            labels.filter(|label| !label.is_empty() && !ADDED.iter().any(|added| label.starts_with(added)));
        ((name.to_owned(), own.collect()), *value)
    };
    metrics.series.iter().map(one).filter(|((name, _), _)| name.starts_with("faultless_")).collect()
}

#[test]
fn the_collector_gives_prometheus_the_same_names_labels_and_values() {
    let Some(program) = collector() else { return };
    let (otlp, page) = (free(), free());
    let config = format!(
        "yaml:{{receivers: {{otlp: {{protocols: {{http: {{endpoint: '{otlp}'}}}}}}}}, \
         exporters: {{prometheus: {{endpoint: '{page}'}}}}, \
         service: {{telemetry: {{logs: {{level: error}}, metrics: {{level: none}}}}, \
         pipelines: {{metrics: {{receivers: [otlp], exporters: [prometheus]}}}}}}}}"
    );
    let mut command = Command::new(program);
    let _server = Server(command.args(["--config", &config]).spawn().unwrap());
    until("the collector", || TcpStream::connect(otlp).is_ok() && TcpStream::connect(page).is_ok());
    let Scripted { agent, .. } = &Scripted::of_one_mechanism(&["--otlp", &format!("http://{otlp}")]);
    let mut before = Metrics::default();
    until("a recording", || {
        before = agent.poll();
        before.types.contains_key("faultless_taken_again_bytes_per_second")
    });
    let polls = |metrics: &Metrics| metrics.sum("faultless_agent_polls_total", &[]);
    let mut theirs = Metrics::default();
    until("a later push", || {
        let get = b"GET /metrics HTTP/1.0\r\nAccept: text/plain\r\n\r\n";
        theirs = Metrics::parse(&Answer::parse(&talk(page, get)).body);
        polls(&theirs) > polls(&before)
    });
    let after = agent.scrape();
    let types = |metrics: &Metrics| -> BTreeMap<String, String> {
        metrics.types.clone().into_iter().filter(|(name, _)| name.starts_with("faultless_")).collect()
    };
    assert_eq!(types(&theirs), types(&before));
    let (before, theirs, after) = (series(&before), series(&theirs), series(&after));
    let mut compared = 0;
    for (key, least) in &before {
        // Groups and programs come and go.
        let (Some(found), Some(most)) = (theirs.get(key), after.get(key)) else { continue };
        let is_counter = key.0.ends_with("_total");
        assert!(!is_counter || (least..=most).contains(&found), "{key:?}: {least} <= {found} <= {most}");
        compared += 1;
    }
    assert!(compared * 10 >= before.len() * 9, "{compared} of {} series", before.len());
}
