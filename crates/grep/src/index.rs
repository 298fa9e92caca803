//! The verbs of `faultless index`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use faultless_console::pages::{self, CompletionsArgs, ManArgs};
use faultless_console::{Outcome, emit, parse};

use crate::{build, change, files, filter, info, init, interactive, projects, update, watch};

/// Make the database that `faultless grep` searches, keep it up to date, and find files by their paths.
#[derive(Debug, Parser)]
#[command(name = "faultless-index", bin_name = "faultless index", version, arg_required_else_help = true)]
struct Index {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Args),
    Build(build::Args),
    Update(update::Args),
    Files(files::Args),
    Filter(filter::Args),
    Info(info::Args),
    Projects(projects::Args),
    Change(change::Args),
    Watch(watch::Args),
    Interactive(interactive::Args),
    Man(ManArgs),
    Completions(CompletionsArgs),
}

pub(crate) fn run(words: Vec<OsString>) -> Outcome {
    match parse::<Index>(words)?.verb {
        Verb::Init(args) => init::run(args),
        Verb::Build(args) => build::run(args),
        Verb::Update(args) => update::run(args),
        Verb::Files(args) => files::run(args).map(ExitCode::from),
        Verb::Filter(args) => filter::run(args),
        Verb::Info(args) => info::run(args),
        Verb::Projects(args) => projects::run(args),
        Verb::Change(args) => change::run(args),
        Verb::Watch(args) => watch::run(args),
        Verb::Interactive(args) => interactive::run(args),
        Verb::Man(args) => man(args),
        Verb::Completions(args) => completions(args),
    }
}

/// Without a folder, the page of `faultless-index` alone. With a folder, the page of `faultless-grep` too.
fn man(args: ManArgs) -> Outcome {
    let command = Index::command().disable_help_subcommand(true);
    let Some(dir) = args.dir else { return emit(&pages::man(command)?, ExitCode::SUCCESS) };
    pages::man_into(command, &dir)?;
    pages::man_into(crate::Search::command(), &dir)?;
    Ok(ExitCode::SUCCESS)
}

fn completions(args: CompletionsArgs) -> Outcome {
    let mut script = pages::completions(Index::command(), "faultless-index", args.shell);
    script.extend(pages::completions(crate::Search::command(), "faultless-grep", args.shell));
    emit(&script, ExitCode::SUCCESS)
}
