//! Pushes to a receiver that takes them, refuses them for now, or is not there.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use crate::agent::{Agent, until};

/// A receiver that answers with these statuses, the last one for good. It hands over the unpacked bodies.
pub(crate) struct Collector {
    pub(crate) url: String,
    pub(crate) taken: Receiver<(u16, String, Vec<u8>)>,
}

impl Collector {
    pub(crate) fn start(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, taken) = channel();
        let mut statuses = statuses.to_vec();
        statuses.reverse();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let status = if statuses.len() > 1 { statuses.pop().unwrap() } else { statuses[0] };
                let Some((head, body)) = receive(stream, status) else { continue };
                let mut plain = Vec::new();
                match head.to_lowercase().contains("content-encoding: gzip") {
                    true => drop(flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain).unwrap()),
                    false => plain = body,
                }
                if send.send((status, head, plain)).is_err() {
                    return;
                }
            }
        });
        Self { url, taken }
    }
}

/// Reads one request and answers it.
fn receive(mut stream: TcpStream, status: u16) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 8192];
        let len = stream.read(&mut piece).ok().filter(|len| *len > 0)?;
        bytes.extend_from_slice(&piece[..len]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let lower = head.to_lowercase();
        let len: usize = lower.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
        if bytes.len() >= end + 4 + len {
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).ok()?;
            return Some((head, bytes.split_off(end + 4)));
        }
    }
}

fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn every_poll_is_pushed_and_what_is_left_is_sent_at_the_end() {
    let collector = Collector::start(&[200]);
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "s3cret").unwrap();
    let mut agent =
        Agent::start(&["--otlp", &collector.url, "--push-token-file", token.path().to_str().unwrap()]);
    let (_, head, body) = collector.taken.recv().unwrap();
    let lower = head.to_lowercase();
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1"), "{head}");
    assert!(lower.contains("application/x-protobuf") && lower.contains("content-encoding: gzip"), "{head}");
    assert!(head.contains("Bearer s3cret"), "{head}");
    for text in ["faultless.page_faults", "faultless.fault", "faultless-agent", "host.name", "_other"] {
        assert!(holds(&body, text), "{text} is missing");
    }
    agent.signal("HUP");
    collector.taken.recv().unwrap();
    while collector.taken.try_recv().is_ok() {}
    agent.signal("TERM");
    assert_eq!(agent.ended(), Some(0));
    let last = collector.taken.recv_timeout(std::time::Duration::from_secs(20));
    assert!(last.is_ok(), "the last poll was not sent");
}

#[test]
fn what_is_refused_for_now_comes_again_and_what_is_refused_for_good_is_counted() {
    let collector = Collector::start(&[503, 200, 400, 200]);
    let agent = Agent::start(&["--otlp", &collector.url]);
    let (first, second) = (collector.taken.recv().unwrap(), collector.taken.recv().unwrap());
    assert_eq!((first.0, second.0), (503, 200));
    assert_eq!(first.2, second.2, "the same batch");
    assert_eq!(collector.taken.recv().unwrap().0, 400);
    until("a batch after the refused one", || collector.taken.recv().unwrap().0 == 200);
    let metrics = agent.scrape();
    assert_eq!(metrics.sum("faultless_agent_dropped_batches_total", &["refused"]), Some(1.0));
    assert_eq!(metrics.sum("faultless_agent_pushes_total", &["otlp", "failed"]), Some(2.0));
}

#[test]
fn without_a_receiver_batches_wait_within_bounds_and_scrapes_go_on() {
    // Nobody listens on a port that was just given back.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut agent = Agent::start(&["--otlp", &format!("http://{free}"), "--spool-mib", "1"]);
    assert!(agent.says("what is to be sent waits").contains("refused"), "it says why, once");
    until("waiting batches", || {
        agent.scrape().sum("faultless_agent_spool_batches", &["otlp"]).is_some_and(|batches| batches >= 3.0)
    });
    let metrics = agent.scrape();
    assert!(
        metrics.sum("faultless_agent_spool_bytes", &["otlp"]).is_some_and(|bytes| bytes <= (1 << 20) as f64)
    );
    assert!(
        metrics.sum("faultless_agent_pushes_total", &["otlp", "failed"]).is_some_and(|failed| failed >= 1.0)
    );
    agent.signal("TERM");
    assert_eq!(agent.ended(), Some(0), "an absent receiver does not keep it");
}

#[test]
fn pyroscope_gets_the_functions_of_each_service() {
    let collector = Collector::start(&[200]);
    let agent = Agent::start(&["--pyroscope", &collector.url]);
    if agent.scrape().sum("faultless_agent_source", &["stacks of faults"]) == Some(0.0) {
        return faultless_wants::missing_feature("perf events of the whole machine", "no stacks of faults");
    }
    // Something that faults often enough for one in ten thousand.
    let mut load = crate::groups::load(25_000, 40, 0);
    let (_, head, body) = collector.taken.recv().unwrap();
    assert!(load.wait().unwrap().success());
    assert!(head.starts_with("POST /ingest?name=faultless.faults%7Bservice_name%3D"), "{head}");
    let text = String::from_utf8(body).unwrap();
    for line in text.lines() {
        let (stack, faults) = line.rsplit_once(' ').unwrap();
        assert!(stack.contains(';') && faults.parse::<u64>().unwrap() >= 9_973, "{line}");
    }
}
