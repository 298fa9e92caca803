//! `faultless grep`: search a tree through a database of its text.

mod build;
mod change;
mod disk;
mod done;
mod files;
mod filter;
mod flags;
mod info;
mod init;
mod interactive;
mod job;
mod matching;
mod measure;
mod out;
mod patterns;
mod place;
mod printing;
mod projects;
mod scope;
mod search;
mod skipped;
mod stdin;
mod totals;
mod update;
mod watch;

use std::ffi::OsString;

use super::{Failure, Outcome};

/// Search a tree with regular expressions, through a database of its text.
///
/// Names and meanings of the flags are ripgrep's. The database is looked for from the current folder upwards; where there is none the files
/// themselves are read. FAULTLESS_GREP_OPTIONS holds flags for every search, but for those of `interactive`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_precedence_over_arg = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    search: flags::Args,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
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
    /// Search; for patterns that are called like a verb.
    Search(Box<flags::Args>),
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Some(Command::Init(args)) => init::run(args),
        Some(Command::Build(args)) => build::run(args),
        Some(Command::Update(args)) => update::run(args),
        Some(Command::Files(args)) => files::run(args),
        Some(Command::Filter(args)) => filter::run(args),
        Some(Command::Info(args)) => info::run(args),
        Some(Command::Projects(args)) => projects::run(args),
        Some(Command::Change(args)) => change::run(args),
        Some(Command::Watch(args)) => watch::run(args),
        Some(Command::Interactive(args)) => interactive::run(args),
        Some(Command::Search(args)) => search::run(*args),
        None => search::run(args.search),
    }
}

/// A search alone: to describe all verbs takes longer.
#[derive(Debug, clap::Parser)]
struct Only {
    #[command(flatten)]
    search: flags::Args,
}

impl Args {
    /// The search that `words` are, where they are one without a mistake and no plea for help.
    pub(super) fn search(words: &[OsString]) -> Option<Self> {
        let is_search = words.get(1)? == "grep" && words.get(2)? == "search";
        if !is_search {
            return None;
        }
        let search = flags::quick::read(&words[3..]);
        let search =
            search.or_else(|| Some(<Only as clap::Parser>::try_parse_from(&words[2..]).ok()?.search))?;
        Some(Self { command: None, search })
    }
}

/// The words of the command line as they are meant: what is no verb is a search, with the flags of FAULTLESS_GREP_OPTIONS.
pub(super) fn words(mut words: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    if words.get(1).is_none_or(|word| word != "grep") {
        return Ok(words);
    }
    let first = words.get(2).and_then(|word| word.to_str());
    let is_search = match first {
        None | Some("-h" | "--help" | "help") => return Ok(words),
        Some("search") => true,
        Some(word) if <Command as clap::Subcommand>::has_subcommand(word) => return Ok(words),
        Some(_) => false,
    };
    if !is_search {
        words.insert(2, "search".into());
    }
    if let Some(options) = std::env::var_os("FAULTLESS_GREP_OPTIONS") {
        let options = options.into_string().map_err(|options| {
            let options = options.display();
            Failure(format!("FAULTLESS_GREP_OPTIONS: {options}: no UTF-8; write flags in UTF-8"))
        })?;
        let options = shlex::split(&options).ok_or_else(|| {
            Failure("FAULTLESS_GREP_OPTIONS: a quotation mark is missing; write flags as in a shell".into())
        })?;
        words.splice(3..3, options.into_iter().map(OsString::from));
    }
    Ok(words)
}

/// More workers than this wait for each other and for their memory; a walk with a thousand does not end.
const THREADS_MAX: usize = 256;

/// Workers: as many as the user names, or where that is none as there are processors.
fn threads(named: Option<usize>) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    named.filter(|&named| named > 0).unwrap_or_else(processors).min(THREADS_MAX)
}
