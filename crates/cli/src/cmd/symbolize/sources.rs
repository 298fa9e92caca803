//! Where debug files are: folders, and servers of the debuginfod protocol.
//!
//! In: a build id. Out: the path of the first debug file for it. What a server sends is kept in the cache of debuginfod's
//! own clients, which they share and clean.
//!
//! <https://sourceware.org/elfutils/Debuginfod.html>, debuginfod(8).

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use faultless_console::{Failure, reason};
use faultless_prof::symbols::debug_files::build_id_of;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// A server that does not accept a connection in this time is left out.
const CONNECT: Duration = Duration::from_secs(10);
/// A server may unpack a package of a distribution before it answers; debuginfod's clients wait as long.
const ANSWER: Duration = Duration::from_secs(90);
/// A transfer without a byte for this long has failed.
const STALL: Duration = Duration::from_secs(60);
/// The longest transfer.
const TRANSFER: Duration = Duration::from_secs(3600);
/// The longest debug file. Those of browsers have some 3 GiB.
const FILE_BYTES_MAX: u64 = 8 << 30;
/// How much is copied at once.
const CHUNK_BYTES: usize = 1 << 16;

/// Folders and servers, in the order in which they are asked.
pub(super) struct Sources {
    all: Vec<Source>,
    bar: Option<ProgressBar>,
}

enum Source {
    Folder(PathBuf),
    Server(Server),
}

struct Server {
    /// Without a slash at the end.
    url: String,
    agent: ureq::Agent,
    /// The folder of debuginfod's clients.
    cache: PathBuf,
    /// It can't be reached: it is asked no more.
    is_down: bool,
}

impl Sources {
    /// # Errors
    /// A source is neither a folder nor a URL that can be asked.
    pub(super) fn new(words: &[String]) -> Result<Self, Failure> {
        let all = words.iter().map(|word| source(word)).collect::<Result<_, _>>()?;
        Ok(Self { all, bar: progress_bar() })
    }

    /// The debug file for a build id; `path`: of the file that it belongs to.
    pub(super) fn find(&mut self, build_id: &str, path: &str) -> Option<PathBuf> {
        let Self { all, bar } = self;
        let found = all.iter_mut().find_map(|source| match source {
            Source::Folder(folder) => in_folder(folder, build_id),
            Source::Server(server) => server.find(build_id, path, bar.as_ref()),
        });
        if let Some(bar) = bar {
            bar.set_message("");
        }
        found
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn source(word: &str) -> Result<Source, Failure> {
    if !word.contains("://") {
        let is_folder = Path::new(word).is_dir();
        return match is_folder {
            true => Ok(Source::Folder(word.into())),
            false => Err(Failure(format!("{word}: no such folder; name a DIR with debug files, or a URL"))),
        };
    }
    if word.starts_with("https://") {
        // TLS is 18 packages and 1.6 MB of program more.
        let remedy =
            "fetch with debuginfod-find, then name its cache: --debuginfod ~/.cache/debuginfod_client";
        return Err(Failure(format!("{word}: only plain http is spoken here; {remedy}")));
    }
    if !word.starts_with("http://") {
        return Err(Failure(format!("{word}: no URL of a debuginfod server; it begins with http://")));
    }
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("faultless/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .timeout_per_read(Some(STALL))
        .timeout_recv_body(Some(TRANSFER));
    Ok(Source::Server(Server {
        url: word.trim_end_matches('/').to_owned(),
        agent: config.build().new_agent(),
        cache: cache_folder()?,
        is_down: false,
    }))
}

/// The folder in which debuginfod's clients keep files, as they find it.
fn cache_folder() -> Result<PathBuf, Failure> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_user = || path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")));
    let own = path("DEBUGINFOD_CACHE_PATH").or_else(|| Some(of_user()?.join("debuginfod_client")));
    own.ok_or_else(|| Failure("no folder to keep debug files in; set DEBUGINFOD_CACHE_PATH".to_owned()))
}

/// A debug file in a folder: beside others by build id, or as a client of debuginfod keeps it.
fn in_folder(folder: &Path, build_id: &str) -> Option<PathBuf> {
    let (begin, rest) = build_id.split_at_checked(2)?;
    let by_id = Path::new(begin).join(format!("{rest}.debug"));
    let places = [folder.join(".build-id").join(&by_id), folder.join(by_id), cached(folder, build_id)];
    places.into_iter().find(|place| is_its(place, build_id))
}

fn cached(folder: &Path, build_id: &str) -> PathBuf {
    folder.join(build_id).join("debuginfo")
}

/// Whether a file has this build id. Clients keep an empty file for what no server has.
fn is_its(file: &Path, build_id: &str) -> bool {
    build_id_of(file).as_deref() == Some(build_id)
}

impl Server {
    fn find(&mut self, build_id: &str, path: &str, bar: Option<&ProgressBar>) -> Option<PathBuf> {
        let kept = cached(&self.cache, build_id);
        if is_its(&kept, build_id) {
            return Some(kept);
        }
        if self.is_down {
            return None;
        }
        match self.fetch(build_id, path, bar, &kept) {
            Ok(is_found) => is_found.then_some(kept),
            Err(failure) => {
                eprintln!("faultless: {failure}");
                None
            }
        }
    }

    /// Fetches a file to its place in the cache. `false`: the server has none.
    fn fetch(
        &mut self,
        build_id: &str,
        path: &str,
        bar: Option<&ProgressBar>,
        to: &Path,
    ) -> Result<bool, Failure> {
        let url = format!("{}/buildid/{build_id}/debuginfo", self.url);
        let response = self.agent.get(&url).call().map_err(|error| {
            self.is_down = true;
            Failure(format!("{url}: {error}; this server is asked no more"))
        })?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(false),
            status => return Err(Failure(format!("{url}: HTTP status {status}; run it again later"))),
        }
        let body = response.into_body();
        let all_bytes = body.content_length();
        let mut body = body.into_with_config().limit(FILE_BYTES_MAX).reader();
        let folder = to.parent().unwrap_or(Path::new("."));
        let no_space = |error: io::Error| {
            let remedy = "set DEBUGINFOD_CACHE_PATH to a folder with room";
            Failure(format!("{}: {}; {remedy}", folder.display(), reason(&error)))
        };
        fs::create_dir_all(folder).map_err(no_space)?;
        let mut aside = tempfile::NamedTempFile::new_in(folder).map_err(no_space)?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let seen = |bytes| show(bar, name, bytes, all_bytes);
        copy(&mut body, aside.as_file_mut(), seen).map_err(|error| match error {
            Copy::Read(error) => Failure(format!("{url}: {}; run it again", reason(&error))),
            Copy::Write(error) => no_space(error),
        })?;
        if !is_its(aside.path(), build_id) {
            return Err(Failure(format!(
                "{url}: what the server sends is not the debug file of this build id"
            )));
        }
        aside.persist(to).map_err(|error| no_space(error.error))?;
        if bar.is_none() {
            let bytes = to.metadata().map_or(0, |file| file.len());
            eprintln!("faultless: fetched the debug file of {path}, {}", HumanBytes(bytes));
        }
        Ok(true)
    }
}

/// Which end failed.
enum Copy {
    Read(io::Error),
    Write(io::Error),
}

fn copy(from: &mut impl Read, to: &mut File, mut seen: impl FnMut(u64)) -> Result<(), Copy> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let len = match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Copy::Read(error)),
        };
        to.write_all(&chunk[..len]).map_err(Copy::Write)?;
        bytes += len as u64;
        seen(bytes);
    }
}

fn progress_bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("naming {elapsed}: {msg}").ok()?;
    io::stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style))
}

fn show(bar: Option<&ProgressBar>, name: &str, bytes: u64, all_bytes: Option<u64>) {
    let Some(bar) = bar else { return };
    let of = all_bytes.map_or_else(String::new, |all| format!(" of {}", HumanBytes(all)));
    bar.set_message(format!("fetching {name}: {}{of}", HumanBytes(bytes)));
    bar.tick();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_in_each_layout_and_only_with_its_own_build_id() {
        let own = std::env::current_exe().unwrap();
        let Some(id) = build_id_of(&own) else {
            return faultless_wants::missing_feature("build ids", "the linker writes none");
        };
        let (begin, rest) = id.split_at(2);
        for place in [
            format!(".build-id/{begin}/{rest}.debug"),
            format!("{begin}/{rest}.debug"),
            format!("{id}/debuginfo"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(&place);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            assert_eq!(in_folder(folder.path(), &id), None, "an empty file says that there is none");
            fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink(&own, &file).unwrap();
            assert_eq!(in_folder(folder.path(), &id), Some(file));
            assert_eq!(in_folder(folder.path(), &format!("00{rest}")), None);
        }
    }

    #[test]
    fn a_source_is_a_folder_or_the_url_of_a_server() {
        for (word, remedy) in [
            ("/nowhere/at/all", "name a DIR"),
            ("ftp://debug.example", "begins with http"),
            ("https://debug.example", "debuginfod-find"),
        ] {
            let Err(Failure(said)) = source(word) else { panic!("{word}") };
            assert!(said.contains(remedy), "{said}");
        }
    }
}
