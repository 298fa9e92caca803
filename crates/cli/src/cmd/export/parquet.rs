//! `export --format parquet`: traces -> a folder that DuckDB, Spark and others read as seven tables.
//!
//! `DIR/TABLE/date=YYYY-MM-DD/service=NAME/host=NAME/RUN.parquet`; docs/parquet.md describes the tables. Files appear
//! whole. A trace that is exported again replaces its files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cmd::trace_file;
use faultless_console::{Failure, Outcome, encoded, reason, sink::Sink};
use faultless_report::export::parquet::{Run, Table};
use faultless_trace::measurement::Count;
use faultless_trace::recording::Recording;

/// Where runs of many machines are told apart.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Parquet")]
#[group(skip)]
pub(super) struct Args {
    /// Service that the program belongs to [default: the program's name]
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Machine it ran on [default: as recorded, else this one]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Version of the service
    #[arg(long, value_name = "NAME")]
    release: Option<String>,
}

impl Args {
    /// # Errors
    /// One of these is given, and another format takes none.
    pub(super) fn refuse(&self) -> Result<(), Failure> {
        match self.service.as_ref().or(self.host.as_ref()).or(self.release.as_ref()) {
            None => Ok(()),
            Some(_) => Err(Failure(
                "--service, --host and --release are for --format parquet; leave them out".into(),
            )),
        }
    }
}

pub(super) fn run(args: &super::Args) -> Outcome {
    let Some(folder) = args.output.as_deref().filter(|folder| *folder != Path::new("-")) else {
        return Err(Failure("parquet is a folder of files; name it: -o DIR".to_owned()));
    };
    if !args.filter.is_empty() {
        return Err(Failure("parquet takes whole runs; leave the filters out, and filter by SQL".to_owned()));
    }
    for (flag, given) in [("--service", &args.parquet.service), ("--host", &args.parquet.host)] {
        if given.as_ref().is_some_and(String::is_empty) {
            return Err(Failure(format!("{flag}: an empty name; name it, or leave it out")));
        }
    }
    let (mut runs, mut damaged) = (0, 0);
    for trace in &args.traces {
        let recording = trace_file::load(trace).map_err(Problem::Trace);
        match recording.and_then(|recording| export(&args.parquet, folder, trace, &recording)) {
            Ok(is_whole) => {
                runs += 1;
                damaged += u64::from(!is_whole);
            }
            Err(Problem::Folder(failure)) => return Err(failure),
            Err(Problem::Trace(failure)) if args.traces.len() == 1 => return Err(failure),
            Err(Problem::Trace(failure)) => {
                eprintln!("faultless: {failure}");
                damaged += 1;
            }
        }
    }
    if runs == 0 {
        return Err(Failure(format!("none of {} traces could be exported", args.traces.len())));
    }
    let and_damaged = match damaged {
        0 => String::new(),
        damaged => format!("; {} damaged or without an end", Count(damaged).of("trace")),
    };
    eprintln!("faultless: {}: {}{and_damaged}", folder.display(), Count(runs).of("run"));
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What went wrong.
enum Problem {
    /// With this trace: the others can be exported.
    Trace(Failure),
    /// With the folder.
    Folder(Failure),
}

/// Writes the files of a trace. `false`: it is not whole.
fn export(args: &Args, folder: &Path, trace: &Path, recording: &Recording) -> Result<bool, Problem> {
    let host = args.host.clone().unwrap_or_else(|| host(recording));
    let service = args.service.clone().unwrap_or_else(|| service(recording));
    let run = Run::new(recording, &host, args.release.as_deref());
    let run = run.map_err(|why| Problem::Trace(Failure(format!("{}: {why}", trace.display()))))?;
    for table in Table::ALL {
        let parts = [("date", run.date()), ("service", service.clone()), ("host", host.clone())];
        let path = path(folder, table, &parts, run.id());
        let bytes = table.file(&run).map_err(|error| Problem::Folder(Failure(error.to_string())))?;
        write(&path, &bytes).map_err(Problem::Folder)?;
    }
    Ok(run.is_whole())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| {
        let reason = reason(&error);
        Failure(format!("{}: {reason}; name a DIR that can be written: -o DIR", folder.display()))
    })?;
    Sink::file(path)?.fill(|out| out.write_all(bytes))
}

/// The machine's name: the recorded one, else that of this one.
fn host(recording: &Recording) -> String {
    let names = [recording.header.host_name.clone(), faultless_prof::host_name()];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The name of the program's file; of a process that has set its title, as `nginx: master process`, the first word.
fn service(recording: &Recording) -> String {
    let program = recording.header.command.first().map_or("", String::as_str);
    let program = match program.split_once(' ') {
        Some((title, _)) if !title.contains('/') => title.trim_end_matches(':'),
        _ => program,
    };
    let name = program.rsplit('/').next().filter(|name| !name.is_empty());
    name.unwrap_or(UNKNOWN).to_owned()
}

/// Where nobody knows the name.
const UNKNOWN: &str = "unknown";

/// `DIR/TABLE/date=2026-01-31/service=web/host=a/RUN.parquet`.
fn path(folder: &Path, table: Table, parts: &[(&str, String)], run: &str) -> PathBuf {
    let mut path = folder.join(table.name());
    path.extend(parts.iter().map(|(key, value)| format!("{key}={}", encoded(value))));
    path.join(format!("{run}.parquet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_the_path_whatever_is_in_it() {
        let parts = [("date", "2026-01-31".to_owned()), ("service", "a/../b =%".to_owned())];
        let path = path(Path::new("out"), Table::Runs, &parts, "00ff");
        assert_eq!(path, Path::new("out/runs/date=2026-01-31/service=a%2F..%2Fb%20%3D%25/00ff.parquet"));
    }

    #[test]
    fn a_service_is_named_after_its_program() {
        let of = |command: &[&str]| {
            let mut recording = Recording::default();
            recording.header.command = command.iter().map(|word| (*word).to_owned()).collect();
            service(&recording)
        };
        assert_eq!(of(&["/usr/bin/redis-server", "*:6379"]), "redis-server");
        assert_eq!(of(&["redis-server *:6379"]), "redis-server");
        assert_eq!(of(&["nginx: master process /usr/sbin/nginx"]), "nginx");
        assert_eq!(of(&["/opt/my app/web"]), "web");
        assert_eq!(of(&[]), "unknown");
        assert_eq!(of(&["/"]), "unknown");
    }
}
