//! The standard input of a program that runs many times: the same bytes for each run.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Time before the user is told that a pipe is still open.
const PATIENCE: Duration = Duration::from_secs(1);

/// The input of each run.
pub(in crate::cmd) enum Input {
    /// Nothing: a terminal can't be read twice.
    Null,
    /// A file, from this offset. Each run opens it anew, because copies of a descriptor share one offset.
    File(File, u64),
}

impl Input {
    /// Takes this process's standard input: a file as it is, or a pipe, which is read into an unnamed file.
    pub(in crate::cmd) fn capture() -> io::Result<Self> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Ok(Self::Null);
        }
        let mut file = File::from(stdin.as_fd().try_clone_to_owned()?);
        if file.metadata()?.is_file() {
            let offset = file.stream_position()?;
            return Ok(Self::File(file, offset));
        }
        if file.metadata()?.file_type() == File::open("/dev/null")?.metadata()?.file_type() {
            return Ok(Self::Null);
        }
        let mut spool = super::unnamed_file()?;
        let (done, waiting) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!(
                    "faultless: reading standard input to its end; give </dev/null if the program reads none"
                );
            }
        });
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                n => spool.write_all(&buffer[..n])?,
            }
        }
        drop(done);
        Ok(Self::File(spool, 0))
    }

    /// A new descriptor at the beginning of the input.
    pub(in crate::cmd) fn open(&self) -> io::Result<File> {
        match self {
            Self::Null => File::open("/dev/null"),
            Self::File(file, offset) => {
                use std::os::fd::AsRawFd;
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                let mut copy = File::open(&path).map_err(|error| {
                    io::Error::other(format!(
                        "{path}: {error}; standard input needs /proc, or give it as </dev/null"
                    ))
                })?;
                copy.seek(SeekFrom::Start(*offset))?;
                Ok(copy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_reads_the_same_from_where_the_input_stood() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"head body").unwrap();
        let input = Input::File(file, 5);
        for _ in 0..2 {
            assert_eq!(io::read_to_string(input.open().unwrap()).unwrap(), "body");
        }
        assert_eq!(io::read_to_string(Input::Null.open().unwrap()).unwrap(), "");
    }
}
