//! `faultless index info`.

use std::fmt::Write as _;
use std::process::ExitCode;

use faultless_grepdb::engine::{Database, age_since, in_one_unit, threads};

use crate::databases::{Chosen, Which};
use crate::progress::{counted, grouped, megabytes};
use crate::skipped;
use faultless_console::{Failure, Outcome, emit};

/// Show the content of the database: files, text, size, age, omissions.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// List all omitted files with the reason.
    #[arg(long, conflicts_with = "json")]
    list_skipped: bool,
    /// Print JSON, one object per database.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut out = Vec::new();
    for chosen in args.which.chosen()? {
        let database = chosen.open()?;
        out.extend(match (args.list_skipped, args.json) {
            (true, _) => skipped::list(&database)?,
            (_, true) => json(&chosen, &database)?,
            _ => text(&chosen, &database)?.into_bytes(),
        });
    }
    emit(&out, ExitCode::SUCCESS)
}

fn text(chosen: &Chosen, database: &Database) -> Result<String, Failure> {
    let info = database.info()?;
    let mut out = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<9} {value}");
    };
    if let Some((name, _)) = &chosen.project {
        row("project", name.clone());
    }
    row("tree", database.location().root.display().to_string());
    row("database", database.location().folder.display().to_string());
    row("files", format!("{}, {} of text", grouped(info.files), megabytes(info.text_bytes)));
    let share = 100.0 * info.disk_bytes as f64 / info.text_bytes.max(1) as f64;
    let index = 100.0 * info.index_bytes as f64 / info.disk_bytes.max(1) as f64;
    row(
        "size",
        format!("{}, {share:.1} % of the text; {index:.1} % of it index", megabytes(info.disk_bytes)),
    );
    row(
        "segments",
        format!(
            "{}, {}, {} out of date in them",
            info.segments,
            counted(info.chunks, "chunk"),
            counted(info.dead, "file")
        ),
    );
    row("last walk", format!("{} ago", in_one_unit(age_since(info.walked_ns))));
    if info.marked > 0 {
        row("changed", format!("{}, searched on disk until the next update", counted(info.marked, "file")));
    }
    if info.late_binary > 0 {
        row(
            "in part",
            format!("{} with a NUL byte after the first 64 KiB", counted(info.late_binary, "file")),
        );
    }
    let left_out = skipped::counts(&database.skipped(threads(None))?);
    row("left out", left_out.trim_start_matches("left out: ").to_owned());
    Ok(out)
}

fn json(chosen: &Chosen, database: &Database) -> Result<Vec<u8>, Failure> {
    let info = database.info()?;
    let mut skipped = serde_json::Map::new();
    for (why, _) in database.skipped(threads(None))? {
        let count = skipped.entry(skipped::word(why)).or_insert(0.into());
        *count = (count.as_u64().unwrap_or_default() + 1).into();
    }
    let value = serde_json::json!({
        "project": chosen.project.as_ref().map(|(name, _)| name),
        "root": database.location().root.to_string_lossy(),
        "folder": database.location().folder.to_string_lossy(),
        "files": info.files,
        "files_in_part": info.late_binary,
        "text_bytes": info.text_bytes,
        "disk_bytes": info.disk_bytes,
        "index_bytes": info.index_bytes,
        "segments": info.segments,
        "chunks": info.chunks,
        "dead_files": info.dead,
        "changed_files": info.marked,
        "age_s": age_since(info.walked_ns).as_secs_f64(),
        "skipped": skipped,
    });
    let mut line = serde_json::to_vec(&value)?;
    line.push(b'\n');
    Ok(line)
}
