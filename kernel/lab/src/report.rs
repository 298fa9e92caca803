//! `faultless lab kernel report`: the tables of a record as text, or its figures as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use faultless_console::{Failure, Outcome, emit};
use serde::Serialize;

use crate::figures::{Figures, figures};
use crate::limits::{Limit, limits};
use crate::record::Record;
use crate::{RECORD, tables};

/// Of what, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the record [default: faultless-kernel-record].
    folder: Option<PathBuf>,
    /// Print one JSON document instead of the tables.
    #[arg(long)]
    json: bool,
}

/// Prints the tables or the figures.
pub(crate) fn run(args: &Args) -> Outcome {
    let record = Record::read(&args.folder.clone().unwrap_or_else(|| RECORD.into()))?;
    let text = if args.json { json(&record)? } else { text(&record) };
    emit(text.as_bytes(), ExitCode::SUCCESS)
}

fn text(record: &Record) -> String {
    let facts: String = record.facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let tables = tables::tables(record).into_iter().map(|table| table.text());
    let refused = record.refused.iter().map(|(cell, why)| format!("left out: {cell}: {why}\n"));
    std::iter::once(facts).chain(tables).chain(refused).collect::<Vec<_>>().join("\n")
}

/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    facts: &'a [(String, String)],
    /// The limits of the patch, with their verdicts.
    limits: BTreeMap<&'static str, Limit>,
    /// By test and arm, per base page.
    figures: Figures,
    refused: Vec<String>,
}

fn json(record: &Record) -> Result<String, Failure> {
    let json = Json {
        schema: SCHEMA,
        facts: &record.facts,
        limits: limits(record).into_iter().map(|limit| (limit.id, limit)).collect(),
        figures: figures(record),
        refused: record.refused.iter().map(|(cell, why)| format!("{cell}: {why}")).collect(),
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}
