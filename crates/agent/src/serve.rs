//! Answers scrapes: `/metrics`, and `/healthz` for those who restart what hangs.
//!
//! In: an address, and a token and TLS if it reaches beyond this machine. Out: a thread that accepts, and one for each
//! of a few connections. Every connection ends after one answer, and after some seconds in any case.

mod head;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use faultless_console::{Failure, reason};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::args::Options;
use crate::board::Board;
use crate::secrets::{self, Token};
use crate::text::Format;
use crate::tuning as t;
use head::Head;

/// What listens, before it is started.
pub(crate) struct Server {
    listener: TcpListener,
    token: Option<Token>,
    tls: Option<Arc<ServerConfig>>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// The address is taken or reaches beyond this machine without protection; a file can't be read.
    pub(crate) fn bind(options: &Options) -> Result<Self, Failure> {
        let Options { listen, token_file, tls_cert, tls_key, .. } = options;
        let is_open = token_file.is_none() || tls_cert.is_none();
        if is_open && !listen.ip().to_canonical().is_loopback() {
            return Err(Failure(format!(
                "--listen {listen}: reaches beyond this machine; add --token-file, --tls-cert and --tls-key, or listen at {}",
                t::LISTEN
            )));
        }
        let token = token_file.as_deref().map(Token::read).transpose()?;
        let tls = tls_cert.as_deref().zip(tls_key.as_deref());
        let tls = tls.map(|(cert, key)| secrets::server(cert, key)).transpose()?;
        let listener = TcpListener::bind(listen).map_err(|error| {
            Failure(format!("--listen {listen}: {}; choose another address", reason(&error)))
        })?;
        Ok(Self { listener, token, tls })
    }

    /// Where it listens; the port is chosen by the kernel if 0 was asked for.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The beginning of its URLs.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Answers from now on, until the process ends.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(self, board: Arc<Board>) -> io::Result<()> {
        let server = Arc::new(self);
        spawn("accept", move || {
            let open = Arc::new(AtomicUsize::new(0));
            for stream in server.listener.incoming() {
                match stream {
                    Ok(stream) => server.clone().begin(stream, &board, &open),
                    // No descriptor is left, say. It must not turn into a loop that burns a processor.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        })
    }

    /// Serves a connection in a thread of its own, if there are not too many.
    fn begin(self: Arc<Self>, stream: TcpStream, board: &Arc<Board>, open: &Arc<AtomicUsize>) {
        let shared = board.clone();
        let begun = Slot::take(open).map(|slot| {
            spawn("scrape", move || {
                let is_served = self.serve(stream, &shared).is_ok();
                shared.own.request(is_served);
                drop(slot);
            })
        });
        if !matches!(begun, Some(Ok(()))) {
            board.own.request(false);
        }
    }

    fn serve(&self, stream: TcpStream, board: &Board) -> io::Result<()> {
        let stream = Timed { stream, begun: Instant::now() };
        match &self.tls {
            None => self.answer(stream, board).map(drop),
            Some(config) => {
                let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
                let mut stream = self.answer(StreamOwned::new(connection, stream), board)?;
                stream.conn.send_close_notify();
                stream.flush()
            }
        }
    }

    /// Reads one request and writes the answer.
    fn answer<S: Read + Write>(&self, mut stream: S, board: &Board) -> io::Result<S> {
        let (answer, is_head) = match Head::read(&mut stream)? {
            Some(head) => (self.respond(&head, board), head.method == "HEAD"),
            None => (Answer::plain("400 Bad Request", "not a request that is understood\n"), false),
        };
        stream.write_all(answer.head().as_bytes())?;
        if !is_head {
            stream.write_all(answer.body.as_bytes())?;
        }
        stream.flush()?;
        Ok(stream)
    }

    fn respond(&self, head: &Head, board: &Board) -> Answer {
        if !["GET", "HEAD"].contains(&head.method.as_str()) {
            return Answer {
                extra: "Allow: GET, HEAD\r\n",
                ..Answer::plain("405 Method Not Allowed", "only GET and HEAD\n")
            };
        }
        match head.path() {
            "/healthz" if board.own.is_healthy() => Answer::plain("200 OK", "ok\n"),
            "/healthz" => Answer::plain("503 Service Unavailable", "no poll for three intervals\n"),
            _ if !self.admits(head) => Answer {
                extra: "WWW-Authenticate: Bearer\r\n",
                ..Answer::plain("401 Unauthorized", "the token is missing or wrong\n")
            },
            "/metrics" => {
                let format = Format::accepted(&head.accept);
                Answer { status: "200 OK", kind: format.content_type(), extra: "", body: board.text(format) }
            }
            "/" => Answer::plain("200 OK", "faultless agent: /metrics, /healthz\n"),
            _ => Answer::plain("404 Not Found", "there are /metrics and /healthz\n"),
        }
    }

    fn admits(&self, head: &Head) -> bool {
        self.token.as_ref().is_none_or(|token| token.is_in(&head.authorization))
    }
}

/// An answer.
struct Answer {
    status: &'static str,
    kind: &'static str,
    /// More lines of the head.
    extra: &'static str,
    body: String,
}

impl Answer {
    fn plain(status: &'static str, text: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", extra: "", body: text.to_owned() }
    }

    fn head(&self) -> String {
        let Self { status, kind, extra, body } = self;
        let len = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{extra}Connection: close\r\n\r\n"
        )
    }
}

/// A place among the connections that are served at a time.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Option<Self> {
        let slot = Self(open.clone());
        // Given back by `drop`, also when it was one too many.
        (open.fetch_add(1, SeqCst) < t::CONNECTIONS_MAX).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A connection that fails after a moment, however slowly the other side sends.
struct Timed {
    stream: TcpStream,
    begun: Instant,
}

impl Timed {
    fn left(&self, of: Duration) -> io::Result<Option<Duration>> {
        let left = of.saturating_sub(self.begun.elapsed());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left(t::HEAD_MAX)?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left(t::REQUEST_MAX)?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Starts a thread that nobody waits for.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(token: bool) -> Server {
        let token = token.then(|| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), "secret\n").unwrap();
            Token::read(file.path()).unwrap()
        });
        Server { listener: TcpListener::bind("127.0.0.1:0").unwrap(), token, tls: None }
    }

    fn status(server: &Server, method: &str, target: &str, authorization: &str) -> &'static str {
        let head = Head {
            method: method.into(),
            target: target.into(),
            authorization: authorization.into(),
            ..Head::default()
        };
        &server.respond(&head, &Board::new()).status[..3]
    }

    #[test]
    fn every_request_has_its_status() {
        let open = server(false);
        for (method, target, expected) in [
            ("GET", "/metrics", "200"),
            ("GET", "/metrics?x=y", "200"),
            ("GET", "/healthz", "200"),
            ("HEAD", "/metrics", "200"),
            ("GET", "/", "200"),
            ("GET", "/metricsx", "404"),
            ("POST", "/metrics", "405"),
        ] {
            assert_eq!(status(&open, method, target, ""), expected, "{method} {target}");
        }
        let closed = server(true);
        assert_eq!(status(&closed, "GET", "/metrics", ""), "401");
        assert_eq!(status(&closed, "GET", "/metrics", "Bearer secret"), "200");
        assert_eq!(status(&closed, "GET", "/healthz", ""), "200", "a probe has no token");
        assert_eq!(status(&closed, "GET", "/nothing", ""), "401", "nothing is told without the token");
    }

    #[test]
    fn slots_are_bounded_and_return() {
        let open = Arc::new(AtomicUsize::new(0));
        let slots: Vec<_> = (0..t::CONNECTIONS_MAX).map(|_| Slot::take(&open).unwrap()).collect();
        assert!(Slot::take(&open).is_none() && Slot::take(&open).is_none());
        drop(slots);
        assert!(Slot::take(&open).is_some());
    }

    #[test]
    fn a_connection_that_says_nothing_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut timed = Timed { stream, begun: Instant::now() - t::HEAD_MAX + Duration::from_millis(50) };
        assert!(timed.read(&mut [0]).is_err());
        assert_eq!(timed.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
