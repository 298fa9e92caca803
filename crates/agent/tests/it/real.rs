//! The real programs of others: Prometheus scrapes the agent and applies our rules, and Python's classes of OTLP read
//! what it pushes.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use crate::agent::{Agent, Answer, talk, until};
use crate::push::Collector;

/// A server that is killed at the end.
pub(crate) struct Server(pub(crate) Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The value that Prometheus has for a query of one series; `None` while it has none.
fn asked(address: SocketAddr, query: &str) -> Option<f64> {
    let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let request = format!("GET /api/v1/query?query={query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = Answer::parse(&talk(address, request.as_bytes()));
    // `"value":[TIME,"VALUE"]`.
    answer.body.split("\"value\":[").nth(1)?.split('"').nth(1)?.parse().ok()
}

#[test]
fn prometheus_scrapes_it_and_applies_the_rules() {
    let Some(prometheus) = faultless_wants::path_of("prometheus", "prometheus") else { return };
    let agent = Agent::start(&[]);
    agent.poll();
    let folder = tempfile::tempdir().unwrap();
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/rules.yml");
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{rules}']\n\
         scrape_configs: [{{job_name: faultless, static_configs: [{{targets: ['{}']}}]}}]\n",
        agent.address
    );
    fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut server = Command::new(prometheus);
    server.arg(format!("--web.listen-address={free}")).arg("--config.file=prometheus.yml");
    server.arg("--storage.tsdb.path=data").current_dir(folder.path());
    let _server = Server(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("Prometheus", || std::net::TcpStream::connect(free).is_ok());
    until("three scrapes", || asked(free, "count_over_time(up[1m]) >= 3").is_some());
    assert_eq!(asked(free, "up"), Some(1.0));
    let ours = agent.scrape().sum("faultless_page_faults_total", &[]).unwrap();
    let theirs = asked(free, "sum(faultless_page_faults_total)").unwrap();
    assert!(theirs > 0.0 && theirs <= ours, "{theirs} of {ours}");
    assert_eq!(asked(free, "faultless_agent_interval_seconds"), Some(1.0));
    until("a recorded rule", || asked(free, "sum(instance:faultless_fault_cores:rate5m)").is_some());
}

#[test]
fn pythons_classes_of_otlp_read_a_push() {
    const READ: &str = "import sys\n\
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as R\n\
        (resource,) = R.FromString(sys.stdin.buffer.read()).resource_metrics\n\
        print(*sorted(pair.key for pair in resource.resource.attributes))\n\
        (scope,) = resource.scope_metrics\n\
        for metric in scope.metrics:\n\
        \x20   data = getattr(metric, metric.WhichOneof('data'))\n\
        \x20   assert data.data_points and all(point.time_unix_nano for point in data.data_points), metric\n\
        \x20   total = sum(getattr(point, point.WhichOneof('value')) for point in data.data_points)\n\
        \x20   if metric.WhichOneof('data') == 'sum':\n\
        \x20       assert data.is_monotonic and data.aggregation_temporality == 2, metric\n\
        \x20   print(metric.name, metric.unit or '-', total)\n";
    let import = "import opentelemetry.proto.metrics.v1.metrics_pb2";
    let has = Command::new("python3").args(["-c", import]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return faultless_wants::missing_package("python3-opentelemetry-proto", "python3 can't import it");
    }
    let collector = Collector::start(&[200]);
    let _agent = Agent::start(&["--otlp", &collector.url]);
    collector.taken.recv().unwrap();
    let (_, _, body) = collector.taken.recv().unwrap();
    let mut python = Command::new("python3");
    let mut python = python.args(["-c", READ]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(&body).unwrap();
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("host.name os.type service.name service.version\n"), "{said}");
    for begin in ["faultless.page_faults - ", "faultless.fault s ", "faultless.agent_resident_memory By "] {
        assert!(said.lines().any(|line| line.starts_with(begin)), "{begin}: {said}");
    }
}
