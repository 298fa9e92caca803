//! Programs of others: looked up before any is started, and run with their output in a log.

use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use faultless_console::{Failure, reason};

/// Programs and headers, and the Debian packages that have them.
pub(crate) const TO_BUILD: [(&str, &str); 11] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("patch", "patch"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("sha256sum", "coreutils"),
    ("libelf.h", "libelf-dev"),
    ("openssl/sha.h", "libssl-dev"),
];
/// The emulator.
pub(crate) const QEMU: (&str, &str) = ("qemu-system-x86_64", "qemu-system-x86");

/// Fails with one line that names the packages of all programs and headers that are not there.
pub(crate) fn require(wanted: &[(&str, &str)]) -> Result<(), Failure> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&folders).chain(["/usr/include".into(), "/usr/local/include".into()]).collect();
    let is_there = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
    let missing: Vec<_> = wanted.iter().filter(|(name, _)| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    let (names, packages) = (names.join(", "), packages.join(" "));
    Err(Failure(format!("{names}: not installed; on Debian: apt-get install {packages}")))
}

/// How many things are done at once: one for each processor that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Runs a command. Its output is added to the log; if it fails, the failure quotes the last line of it.
pub(crate) fn run(command: &mut Command, log: &Path) -> Result<(), Failure> {
    let name = name(command);
    let open = || File::options().create(true).append(true).open(log);
    let unusable = |error: std::io::Error| {
        Failure(format!("{}: {}; name a folder that can be written", log.display(), reason(&error)))
    };
    let begin = std::fs::metadata(log).map_or(0, |data| data.len());
    let (out, errors) = (open().map_err(unusable)?, open().map_err(unusable)?);
    let status = command.stdin(Stdio::null()).stdout(out).stderr(errors).status();
    let status = status.map_err(|error| Failure(format!("{name}: {}; install it", reason(&error))))?;
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(text.get(begin as usize..).unwrap_or_default()).into_owned();
    let said = |line: &&str| line.contains("rror") || line.contains("FAILED");
    let line = text.lines().find(said).or(text.lines().last()).unwrap_or("nothing").trim();
    Err(Failure(format!("{name} failed ({status}): {line}; see {}", log.display())))
}

/// What a command prints.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let name = name(command);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|error| Failure(format!("{name}: {}; install it", reason(&error))))?;
    if !output.status.success() {
        return Err(Failure(format!("{name} failed ({}); see what it says on its own", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The SHA-256 of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Result<String, Failure> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    let text = output(Command::new("sha256sum").arg(file.path()))?;
    Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_told_in_one_line_with_their_packages() {
        let told = require(&[("sh", "dash"), ("no-such-a", "pa"), ("no-such-b", "pb")]).unwrap_err().0;
        assert_eq!(told, "no-such-a, no-such-b: not installed; on Debian: apt-get install pa pb");
        assert!(require(&[("sh", "dash")]).is_ok());
    }

    #[test]
    fn a_failed_command_quotes_what_it_said_last() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let told = run(Command::new("sh").args(["-c", "echo fine; echo x: Error 2 >&2; exit 3"]), &log);
        let told = told.unwrap_err().0;
        assert!(told.starts_with("sh failed") && told.contains("x: Error 2; see "), "{told}");
        assert!(run(&mut Command::new("true"), &log).is_ok());
        assert!(run(&mut Command::new("true"), &folder.path().join("none/log")).is_err());
    }
}
