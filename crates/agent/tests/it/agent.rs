//! An agent that a test has started, and what it answers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The program, and the flags of a quick test: a poll a second, whatever it costs.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_faultless-agent");
const QUICK: [&str; 4] = ["--interval", "1s", "--budget", "100"];
/// Nothing takes longer on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running agent. It is killed at the end.
pub(crate) struct Agent {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    said: Receiver<String>,
}

impl Agent {
    /// Starts it on a free port.
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::start_of(Path::new(PROGRAM), words)
    }

    /// Starts this file of it.
    pub(crate) fn start_of(program: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(QUICK).args(words);
        if !words.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        Self::spawn(command)
    }

    /// Starts it as `nobody` with these capabilities (as setpriv takes them), from a file that nobody may execute.
    pub(crate) fn start_as_nobody(program: &Path, capabilities: Option<&str>) -> Self {
        const NOBODY: u32 = 65534;
        let mut command = match capabilities {
            None => {
                let mut command = Command::new(program);
                command.uid(NOBODY).gid(NOBODY);
                command
            }
            Some(list) => {
                let mut command = Command::new("setpriv");
                let nobody = NOBODY.to_string();
                command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
                command.args(["--inh-caps", list, "--ambient-caps", list]).arg(program);
                command
            }
        };
        command.args(QUICK).args(["--listen", "127.0.0.1:0"]).current_dir("/");
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = lines(child.stderr.take().unwrap());
        let mut agent = Self { child, address: ([127, 0, 0, 1], 0).into(), said };
        let line = agent.says("/metrics");
        let address = line.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        agent.address = address.parse().unwrap();
        agent
    }

    /// Waits for a line on stderr.
    pub(crate) fn says(&self, what: &str) -> String {
        let begin = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let line = self.said.recv_timeout(left).unwrap_or_else(|_| panic!("it never said {what}"));
            if line.contains(what) {
                return line;
            }
        }
    }

    /// What else it has said on stderr so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }

    /// The metrics after the next poll.
    pub(crate) fn poll(&self) -> Metrics {
        let polls = |metrics: &Metrics| metrics.get("faultless_agent_polls_total").unwrap_or(0.0);
        let before = polls(&self.scrape());
        let mut found = Metrics::default();
        until("a poll", || {
            found = self.scrape();
            polls(&found) > before
        });
        found
    }

    /// The metrics now.
    pub(crate) fn scrape(&self) -> Metrics {
        let answer = self.get("/metrics", "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        Metrics::parse(&answer.body)
    }

    /// An answer. `headers` are lines that end with CRLF.
    pub(crate) fn get(&self, path: &str, headers: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        Answer::parse(&talk(self.address, request.as_bytes()))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let words = [format!("-{name}"), self.child.id().to_string()];
        assert!(Command::new("kill").args(words).status().unwrap().success());
    }

    /// Waits for its end; returns its status.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut code = None;
        until("the end of the agent", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stderr: ChildStderr) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive
}

/// Sends bytes, and reads until the other side closes.
pub(crate) fn talk(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Waits for something that comes soon.
pub(crate) fn until(what: &str, mut is_there: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// A scrape: types by name, and values by series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) types: BTreeMap<String, String>,
    /// `name{labels}` as it is written.
    pub(crate) series: BTreeMap<String, f64>,
}

impl Metrics {
    /// Reads the text format, strictly as far as we write it.
    pub(crate) fn parse(text: &str) -> Self {
        let mut metrics = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(metrics.types.insert(name.into(), kind.into()).is_none(), "{name} twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
                assert!(metrics.series.insert(series.into(), value).is_none(), "{series} twice");
            }
        }
        metrics
    }

    /// The value of a series without labels.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.series.get(name).copied()
    }

    /// The sum of all series of a metric that have all these labels, each as `name="value"` or a part of it.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let has = |series: &String| {
            series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label))
        };
        let mut found =
            self.series.iter().filter(|(series, _)| has(series)).map(|(_, value)| *value).peekable();
        found.peek()?;
        Some(found.sum())
    }

    /// Panics if a counter of `before` has fallen here.
    pub(crate) fn has_not_fallen_since(&self, before: &Self) {
        for (series, value) in &before.series {
            let name = series.split('{').next().unwrap();
            let now = self.series.get(series).filter(|_| name.ends_with("_total"));
            assert!(now.is_none_or(|now| now >= value), "{series}: {value}, then {now:?}");
        }
    }
}
