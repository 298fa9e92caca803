//! The search: `faultless_grepdb` as classes of Python.
//!
//! In: paths, patterns and options. Out: an iterator of matches; exceptions and warnings of `faultless/search.py`.
//!
//! A thread searches and never holds the GIL. The iterator waits without the GIL, and lets Ctrl-C through.

use std::ffi::{CString, OsStr};
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use faultless_grepdb::{
    CancellationToken, Case, Error, Progress, Rules, SearchOptions, SearchSummary, UpdateReport,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Matches that may wait for Python.
const QUEUED_MATCHES: usize = 256;
/// How often a waiting iterator looks for Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// A tree with its database. Threads may share it; each search sees the newest state of the database.
#[pyclass(frozen, module = "faultless")]
pub(crate) struct Index(Arc<faultless_grepdb::Index>);

#[pymethods]
impl Index {
    /// Opens the database of the folder `path`, or of the nearest folder above it that has one.
    #[new]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let index = py.detach(|| faultless_grepdb::Index::open(path));
        index.map(|index| Self(Arc::new(index))).map_err(|error| exception(py, &error))
    }

    /// Builds the database of the tree at `root` from scratch, in the folder .faultless, and opens it.
    ///
    /// `progress` is called with the number of files that are done, and of all files. Ctrl-C or an exception in
    /// `progress` ends the build and leaves an existing database as it was.
    #[staticmethod]
    #[pyo3(signature = (root, *, hidden = false, no_ignore = false, globs = Vec::new(), progress = None))]
    fn build(
        py: Python<'_>,
        root: PathBuf,
        hidden: bool,
        no_ignore: bool,
        globs: Vec<String>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let rules = Rules { hidden, no_ignore, globs, ..Rules::default() };
        let build =
            |told: &mut Told<'_>| faultless_grepdb::Index::build(root, &rules, |so_far| told.call(so_far));
        Ok(Self(Arc::new(told(py, progress, build)?.0)))
    }

    /// Reads the files that changed since the last update, drops those that are gone, and repairs damage that a search
    /// found. Returns counts: files, read, removed, text_bytes, written_bytes; and in trouble what could not be read.
    ///
    /// `progress` and Ctrl-C work as in `build`.
    #[pyo3(signature = (progress = None))]
    fn update<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let update = |told: &mut Told<'_>| self.0.update(|so_far| told.call(so_far));
        let UpdateReport { files, read, removed, text_bytes, written_bytes, trouble } =
            told(py, progress, update)?;
        let report = PyDict::new(py);
        let counts = [
            ("files", files),
            ("read", read),
            ("removed", removed),
            ("text_bytes", text_bytes),
            ("written_bytes", written_bytes),
        ];
        counts.into_iter().try_for_each(|(name, count)| report.set_item(name, count))?;
        report.set_item("trouble", trouble)?;
        Ok(report)
    }

    /// The root of the tree. The paths of matches are relative to it.
    #[getter]
    fn root(&self) -> PathBuf {
        self.0.root().to_path_buf()
    }

    /// Searches the tree for a regular expression of Rust's crate regex. Returns an iterator of matches.
    ///
    /// It waits for the first match. Then threads go on searching ahead of the iteration, with bounded memory. Dropping
    /// the iterator, its `cancel()` and Ctrl-C end the search.
    #[pyo3(signature = (pattern, *, ignore_case = false, smart_case = false, fixed_strings = false, word = false,
        multi_line = false, globs = Vec::new(), limit = None, threads = None, fresh = false, sorted = false))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn search(
        &self,
        py: Python<'_>,
        pattern: String,
        ignore_case: bool,
        smart_case: bool,
        fixed_strings: bool,
        word: bool,
        multi_line: bool,
        globs: Vec<String>,
        limit: Option<u64>,
        threads: Option<usize>,
        fresh: bool,
        sorted: bool,
    ) -> PyResult<Matches> {
        let case = match (ignore_case, smart_case) {
            (true, _) => Case::Insensitive,
            (_, true) => Case::Smart,
            _ => Case::Sensitive,
        };
        let cancel = CancellationToken::default();
        let options = SearchOptions {
            case,
            fixed_strings,
            word,
            multi_line,
            globs,
            limit,
            threads,
            fresh,
            sorted,
            cancel: cancel.clone(),
        };
        let (sender, receiver) = sync_channel(QUEUED_MATCHES);
        let index = self.0.clone();
        std::thread::Builder::new().spawn(move || run(&index, &pattern, &options, &sender))?;
        let queue = Mutex::new(Queue { first: None, rest: Some(receiver) });
        let matches = Matches { queue, cancel, class: class(py, "Match")?.unbind() };
        // Errors in the pattern are raised here.
        let first = matches.receive(py)?;
        if let Some(Message::End(Err(error))) = first {
            return Err(exception(py, &error));
        }
        matches.lock().first = first;
        Ok(matches)
    }
}

/// A match on its way to Python.
struct OwnedMatch {
    path: Vec<u8>,
    line_number: u64,
    line: Vec<u8>,
    spans: Vec<Range<usize>>,
}

enum Message {
    Match(OwnedMatch),
    End(Result<SearchSummary, Error>),
}

/// Searches, and sends what happens until nobody receives it.
fn run(index: &faultless_grepdb::Index, pattern: &str, options: &SearchOptions, to: &SyncSender<Message>) {
    let summary = index.search(pattern, options, |found| {
        let found = OwnedMatch {
            path: found.path.as_os_str().as_bytes().to_vec(),
            line_number: found.line_number,
            line: found.line.to_vec(),
            spans: found.spans.to_vec(),
        };
        match to.send(Message::Match(found)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    let _ = to.send(Message::End(summary));
}

/// An iterator of matches. The search runs ahead of it.
#[pyclass(frozen, module = "faultless")]
pub(crate) struct Matches {
    queue: Mutex<Queue>,
    cancel: CancellationToken,
    /// `faultless.search.Match`.
    class: Py<PyAny>,
}

struct Queue {
    first: Option<Message>,
    /// `None` after the end.
    rest: Option<Receiver<Message>>,
}

impl Queue {
    fn receive(&mut self) -> Result<Option<Message>, RecvTimeoutError> {
        if self.first.is_some() {
            return Ok(self.first.take());
        }
        let message = self.rest.as_ref().map(|rest| rest.recv_timeout(SIGNALS_EVERY)).transpose()?;
        if let Some(Message::End(_)) = message {
            self.rest = None;
        }
        Ok(message)
    }
}

#[pymethods]
impl Matches {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.receive(py)? {
            Some(Message::Match(found)) => self.converted(py, &found).map(Some),
            Some(Message::End(summary)) => {
                warn(py, &summary.map_err(|error| exception(py, &error))?)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Ends the search and the iteration. Any thread may call it.
    fn cancel(&self, py: Python<'_>) {
        self.cancel.cancel();
        // The searching thread may wait for room in the queue.
        py.detach(|| *self.lock() = Queue { first: None, rest: None });
    }
}

impl Matches {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next message. `None` after the end.
    fn receive(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        loop {
            py.check_signals().inspect_err(|_| self.cancel(py))?;
            if self.cancel.is_cancelled() {
                return Ok(None);
            }
            // The lock is never held together with the GIL.
            match py.detach(|| self.lock().receive()) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the search ended unexpectedly; please report it"));
                }
            }
        }
    }

    fn converted<'py>(&self, py: Python<'py>, found: &OwnedMatch) -> PyResult<Bound<'py, PyAny>> {
        let path = OsStr::from_bytes(&found.path).into_pyobject(py)?;
        let line = PyString::from_encoded_object(
            &pyo3::types::PyBytes::new(py, &found.line),
            Some(c"utf-8"),
            Some(c"surrogateescape"),
        )?;
        let spans: Vec<(usize, usize)> = match found.line.is_ascii() {
            true => found.spans.iter().map(|span| (span.start, span.end)).collect(),
            false => {
                found.spans.iter().map(|span| (chars(found, span.start), chars(found, span.end))).collect()
            }
        };
        self.class.bind(py).call1((path, found.line_number, line, spans))
    }
}

/// Dropping the iterator ends the search.
impl Drop for Matches {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Characters in the first `end` bytes of the line. Each byte that is not UTF-8 is one, as with surrogateescape.
fn chars(found: &OwnedMatch, end: usize) -> usize {
    let chunks = found.line[..end].utf8_chunks();
    chunks.map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

/// Warns of what a user must know about a result.
fn warn(py: Python<'_>, summary: &SearchSummary) -> PyResult<()> {
    let category = class(py, "SearchWarning")?;
    let notices = summary.notices.iter().map(ToString::to_string);
    for text in notices.chain(summary.trouble.iter().map(ToString::to_string)) {
        PyErr::warn(py, &category, &CString::new(text.replace('\0', "\\0"))?, 1)?;
    }
    Ok(())
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("faultless.search")?.getattr(name)
}

/// The exception for `error`, with its text.
fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let name = match error {
        Error::Missing(_) => "MissingDatabaseError",
        Error::Damaged { .. } => "DamagedDatabaseError",
        Error::Version { .. } => "DatabaseVersionError",
        Error::Locked(_) | Error::Watched(_) => "LockedDatabaseError",
        Error::Pattern(_) => "PatternError",
        Error::Io { .. } => "FileError",
        Error::Watch(_) | Error::Project { .. } | Error::Cancelled => "SearchError",
    };
    let raised = class(py, name).and_then(|class| class.call1((error.to_string(),)));
    raised.map_or_else(|other| other, PyErr::from_value)
}

/// A callback for progress, and the exception that ended the work.
struct Told<'a> {
    progress: Option<&'a Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Told<'_> {
    fn call(&mut self, so_far: Progress) -> ControlFlow<()> {
        let told = Python::attach(|py| {
            py.check_signals()?;
            self.progress.map(|progress| progress.call1(py, (so_far.files, so_far.of_files))).transpose()
        });
        self.raised = told.err();
        if self.raised.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Works without the GIL, and raises what `progress` or Ctrl-C raised meanwhile.
fn told<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut Told<'_>) -> faultless_grepdb::Result<T> + Send,
) -> PyResult<T> {
    let mut told = Told { progress: progress.as_ref(), raised: None };
    let done = py.detach(|| work(&mut told));
    match told.raised {
        Some(raised) => Err(raised),
        None => done.map_err(|error| exception(py, &error)),
    }
}
