//! The destination of a report: standard error, or a file that appears whole or not at all.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, reason};

/// The destination of a report. It is checked before the program runs, so that a typing error does not cost
/// hours of measuring. Until the report is written, nothing lies beside the file, even if this process is
/// killed.
#[derive(Debug)]
pub enum Sink {
    /// Standard error.
    Stderr,
    /// A pipe, a terminal, `/dev/null` or the program's own output: the report is appended.
    Behind(PathBuf, File),
    /// A file that can be written but not replaced. Its folder is closed, or a replacement would change its
    /// owner or detach its other names.
    Over(PathBuf, File),
    /// A file that is replaced as a whole, with the permissions of the old one.
    Whole(PathBuf, Option<Permissions>),
}

/// Columns of the reader: `COLUMNS`, else the terminal's; `None` for a pipe or file without it. Without a sink the reader
/// is at standard output.
pub fn columns(sink: Option<&Sink>) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    let said = said.filter(|&columns: &usize| columns > 0);
    let own = || match sink {
        None => terminal_size::terminal_size_of(io::stdout()),
        Some(Sink::Stderr) => terminal_size::terminal_size_of(io::stderr()),
        Some(_) => None,
    };
    said.or_else(|| own().map(|(width, _)| usize::from(width.0)))
}

/// Most links to follow, as in the kernel (path_resolution(7)).
const MOST_LINKS: u32 = 40;

impl Sink {
    /// A file to be written as a whole at the end. Fails now if it can't be written.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        let failure = |error: io::Error| {
            Failure(format!("{}: {}; name a FILE that can be written", path.display(), reason(&error)))
        };
        // A symbolic link stays; the file behind it is replaced.
        let target = resolve(path.to_owned(), MOST_LINKS);
        if path.as_os_str().is_empty() {
            return Err(failure(io::ErrorKind::NotFound.into()));
        }
        if path.as_os_str().as_bytes().ends_with(b"/") || target.file_name().is_none() {
            return Err(failure(io::ErrorKind::IsADirectory.into()));
        }
        // An unnamed file disappears with this process.
        let probe = || tempfile::tempfile_in(folder(&target))?.metadata();
        if !target.exists() {
            probe().map_err(failure)?;
            return Ok(Self::Whole(target, None));
        }
        let file = OpenOptions::new().append(true).open(&target).map_err(failure)?;
        let old = file.metadata().map_err(failure)?;
        if !old.is_file() || is_own_stream(&old) {
            return Ok(Self::Behind(target, file));
        }
        let same_owner = |new: Metadata| (new.uid(), new.gid()) == (old.uid(), old.gid());
        if probe().is_ok_and(same_owner) && old.nlink() == 1 {
            Ok(Self::Whole(target, Some(old.permissions())))
        } else {
            Ok(Self::Over(target, file))
        }
    }

    /// Standard output as it is open: another user may not open what it leads to again.
    fn stdout() -> Result<Self, Failure> {
        let own = io::stdout().as_fd().try_clone_to_owned();
        let own =
            own.map_err(|error| Failure(format!("standard output: {}; name a FILE", reason(&error))))?;
        Ok(Self::Behind("standard output".into(), File::from(own)))
    }

    /// A file to append the report to; it is created if missing. Fails now if it can't be written.
    pub fn appended(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
            Failure(format!("{}: {}; name a FILE that can be written", path.display(), reason(&error)))
        })?;
        Ok(Self::Behind(path.to_owned(), file))
    }

    /// The absolute path of a file that other processes write aside and then rename, with the permissions of
    /// the old one. Their process id replaces `%p` in the name, and is appended to the name of the temporary
    /// file.
    pub fn replaceable(path: &Path) -> Result<PathBuf, Failure> {
        const NUMBER: &str = "4194304"; // PID_MAX_LIMIT, proc_pid_max(5)
        const NAME_MAX: usize = 255; // limits.h
        let failure = |reason: &str| {
            Failure(format!("{}: {reason}; name a FILE that does not exist yet", path.display()))
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().replace("%p", NUMBER);
        if format!("{name}.{NUMBER}.part").len() > NAME_MAX {
            return Err(failure("its name is too long for what is written aside"));
        }
        match Self::file(path)? {
            Self::Whole(target, _) => std::path::absolute(target).map_err(|error| failure(&reason(&error))),
            Self::Stderr | Self::Behind(..) | Self::Over(..) => Err(failure("cannot be replaced as a whole")),
        }
    }

    /// Whether the reader is a terminal and NO_COLOR is unset.
    pub fn wants_colour(&self) -> bool {
        matches!(self, Self::Stderr) && wants_colour(&io::stderr())
    }

    /// Writes the report and makes it durable.
    pub fn write(self, report: &str) -> Result<(), Failure> {
        self.fill(|out| out.write_all(report.as_bytes()))
    }

    /// Lets `write` produce the report piece by piece, and makes it durable.
    pub fn fill(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let failure = |path: &Path, error: io::Error, lost: &str| {
            Failure(format!("{}: {}; {lost} lost", path.display(), reason(&error)))
        };
        match self {
            Self::Stderr => {
                // A closed stderr is no failure of the program that was run.
                let _ = write(&mut io::stderr().lock());
                Ok(())
            }
            Self::Behind(path, file) => {
                buffered(file, write).map(drop).map_err(|error| failure(&path, error, "the report is"))
            }
            Self::Over(path, file) => overwrite(file, write)
                .map_err(|error| failure(&path, error, "the report and what the file held are")),
            Self::Whole(path, rights) => {
                replace(&path, rights, write).map_err(|error| failure(&path, error, "the report is"))
            }
        }
    }
}

fn buffered<F: Write>(file: F, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<F> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

fn overwrite(mut file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    buffered(file, write)?.sync_all()
}

/// Writes beside the file and renames over it.
fn replace(
    target: &Path,
    rights: Option<Permissions>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    const NEW: u32 = 0o666; // less the umask, as for any new file
    let aside = tempfile::Builder::new()
        .prefix(target.file_name().unwrap_or_default())
        .suffix(".part")
        .permissions(Permissions::from_mode(NEW))
        .tempfile_in(folder(target))?;
    let aside = buffered(aside, write)?;
    if let Some(rights) = rights {
        // Keeps the report closed to others if its owner closed the old one.
        aside.as_file().set_permissions(rights)?;
    }
    aside.as_file().sync_all()?;
    aside.persist(target)?;
    Ok(())
}

fn folder(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file that symbolic links lead to, whether it exists or not.
fn resolve(path: PathBuf, links: u32) -> PathBuf {
    match (path.canonicalize(), path.read_link()) {
        (Ok(found), _) => found,
        // /dev/stdout may lead to a pipe, which exists but has no path.
        (Err(_), Ok(to)) if links > 0 && !path.exists() => resolve(folder(&path).join(to), links - 1),
        _ => path,
    }
}

/// Whether standard output or standard error goes to this file, which the program writes as well.
fn is_own_stream(file: &Metadata) -> bool {
    let same = |stream: io::Result<std::os::fd::OwnedFd>| {
        let stream = stream.and_then(|stream| File::from(stream).metadata());
        stream.is_ok_and(|stream| (stream.dev(), stream.ino()) == (file.dev(), file.ino()))
    };
    same(io::stdout().as_fd().try_clone_to_owned()) || same(io::stderr().as_fd().try_clone_to_owned())
}

/// Whether to use colour on a stream: it is a terminal, and NO_COLOR is unset.
pub fn wants_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
