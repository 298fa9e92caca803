//! Sends each poll to receivers, and keeps what they do not take for a while.
//!
//! In: metrics for OTLP, sites and recordings for Pyroscope. Out: batches over HTTP, from a thread for each receiver.
//! What the receiver refuses for now is sent again, with growing pauses. Whatever happens to it, the polls and the
//! scrapes go on.

mod client;
mod otlp;
mod proto;
mod pyroscope;
mod spool;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use faultless_console::Failure;
use faultless_prof::live::Interval;

use crate::args::Options;
use crate::count::Program;
use crate::families::{self, Family};
use crate::members::Members;
use crate::own::{Own, Pushed};
use crate::tuning as t;
use client::{Client, Sent};
use spool::Spool;

/// All receivers that were named.
pub(crate) struct Receivers {
    otlp: Option<Push>,
    pyroscope: Option<Push>,
    pprof: Option<Push>,
}

/// What is sent in one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Comes after the receiver's URL.
    target: String,
    kind: &'static str,
    is_gzip: bool,
    bytes: Vec<u8>,
}

/// The sending side of a receiver.
struct Push {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    pushed: Arc<Pushed>,
}

struct Queue {
    spool: Spool,
    /// The end of the sending, once it is known.
    until: Option<Instant>,
}

impl Receivers {
    /// Begins to send to those that are named.
    ///
    /// # Errors
    /// A file can't be read, or no thread can be started.
    pub(crate) fn start(options: &Options, own: &Own) -> Result<Self, Failure> {
        let start = |url: &Option<String>, pushed: &Arc<Pushed>| {
            url.as_deref().map(|url| Push::start(url, options, pushed)).transpose()
        };
        Ok(Self {
            otlp: start(&options.otlp, &own.otlp)?,
            pyroscope: start(&options.pyroscope, &own.pyroscope)?,
            pprof: start(&options.pprof, &own.pprof)?,
        })
    }

    /// Queues metrics, as far as somebody wants them.
    pub(crate) fn put_metrics(&self, families: &[Family], own: &Own, time_ns: u64) {
        let Some(otlp) = &self.otlp else { return };
        let of_agent = families::of_agent(own);
        let all: Vec<&Family> = families.iter().chain(&of_agent).collect();
        otlp.put(otlp::batch(&all, time_ns));
    }

    /// Queues the sites of an interval that ends now.
    pub(crate) fn put_sites(&self, interval: &Interval, members: &Members, time_ns: u64) {
        let Some(pyroscope) = &self.pyroscope else { return };
        pyroscope::sites(interval, members, time_ns).into_iter().for_each(|batch| pyroscope.put(batch));
    }

    /// Queues a recording in pprof's format that ends now.
    pub(crate) fn put_recording(&self, program: &Program, time_ns: u64, bytes: Vec<u8>) {
        let Some(pprof) = &self.pprof else { return };
        pprof.put(pyroscope::recording(program, time_ns, bytes));
    }

    /// Sends what is left, for a few seconds.
    pub(crate) fn end(self) {
        let pushes: Vec<Push> = [self.otlp, self.pyroscope, self.pprof].into_iter().flatten().collect();
        pushes.iter().for_each(Push::begin_end);
        pushes.into_iter().for_each(Push::end);
    }
}

impl Push {
    fn start(url: &str, options: &Options, pushed: &Arc<Pushed>) -> Result<Self, Failure> {
        let client = Client::new(url, options)?;
        let spool = Spool::new((options.spool_mib as usize) << 20);
        let queue = Mutex::new(Queue { spool, until: None });
        let shared = Arc::new(Shared { queue, changed: Condvar::new(), pushed: pushed.clone() });
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("push".into()).spawn(move || own.send_all(&client))?;
        Ok(Self { shared, thread })
    }

    fn put(&self, batch: Batch) {
        let mut queue = self.shared.lock();
        let dropped = queue.spool.put(batch);
        self.shared.pushed.dropped_full.fetch_add(dropped, Relaxed);
        self.shared.note(&queue);
        self.shared.changed.notify_all();
    }

    fn begin_end(&self) {
        self.shared.lock().until = Some(Instant::now() + t::FLUSH_MAX);
        self.shared.changed.notify_all();
    }

    /// Waits for the end, which has begun.
    fn end(self) {
        // The thread ends by that time, and a request that hangs a little later.
        let begin = Instant::now();
        while !self.thread.is_finished() && begin.elapsed() < t::FLUSH_MAX + Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the size of the spool where metrics find it.
    fn note(&self, queue: &Queue) {
        self.pushed.spool.store(queue.spool.len() as u64, Relaxed);
        self.pushed.spool_bytes.store(queue.spool.bytes() as u64, Relaxed);
    }

    /// Sends batch after batch, until the end is known and has come, or nothing is left.
    fn send_all(&self, client: &Client) {
        let own = &self.pushed;
        let mut pause = t::RETRY_FIRST;
        let mut is_out = false;
        while let Some(batch) = self.next() {
            let sent = client.send(&batch);
            // Once an outage, not once a batch.
            let said = match &sent {
                Sent::Taken if is_out => Some("takes metrics again".to_owned()),
                Sent::Refused(why) if !is_out => Some(format!("{why}; what it refuses is lost")),
                Sent::Failed { why, .. } if !is_out => {
                    Some(format!("{why}; what is to be sent waits, the oldest goes first"))
                }
                _ => None,
            };
            if let Some(said) = said {
                eprintln!("faultless: {}: {said}", client.url);
            }
            is_out = sent != Sent::Taken;
            let counter = if matches!(sent, Sent::Taken) { &own.sent } else { &own.failed };
            counter.fetch_add(1, Relaxed);
            match sent {
                Sent::Failed { after, .. } => {
                    self.wait(jittered(after.unwrap_or(pause).min(t::RETRY_MAX)));
                    pause = (pause * 2).min(t::RETRY_MAX);
                }
                Sent::Taken | Sent::Refused(_) => {
                    let is_lost = matches!(sent, Sent::Refused(_));
                    own.dropped_refused.fetch_add(u64::from(is_lost), Relaxed);
                    pause = t::RETRY_FIRST;
                    let mut queue = self.lock();
                    queue.spool.remove(&batch);
                    self.note(&queue);
                }
            }
        }
    }

    /// The oldest batch, which stays; waits for one. `None` at the end.
    fn next(&self) -> Option<Arc<Batch>> {
        let mut queue = self.lock();
        loop {
            let is_over = queue.until.is_some_and(|until| Instant::now() >= until);
            match queue.spool.first() {
                _ if is_over => return None,
                Some(batch) => return Some(batch),
                None if queue.until.is_some() => return None,
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Waits before the next attempt, but not beyond the end. Once the end is known, attempts follow quickly.
    fn wait(&self, pause: Duration) {
        /// Between attempts at the end.
        const LAST: Duration = Duration::from_millis(500);
        let until = Instant::now() + pause;
        let mut queue = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = if queue.until.is_some() { left.min(LAST) } else { left };
            if left.is_zero() {
                return;
            }
            let was_ending = queue.until.is_some();
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            if was_ending {
                return;
            }
        }
    }
}

/// The pause, or up to half of it more or less: a fleet must not return in step.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64())
}
