//! `faultless index init`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use faultless_grepdb::Rules;
use faultless_grepdb::engine::{Database, Location, threads};

use crate::databases::{self, Which};
use crate::progress::with_line;
use crate::skipped;
use faultless_console::{Failure, Outcome, emit};

/// Make the database of a tree, or a project with a name.
///
/// The database lies in .faultless in the tree, and every search from a folder of the tree uses it. A
/// project's database lies with the user's data, and nothing is written into the tree.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  faultless index init                            this folder and all below\n  \
    faultless index init --hidden -g '!*.svg' src   with hidden files, without pictures\n  \
    faultless index init --name linux ~/src/linux   then: faultless grep --project linux PATTERN"
)]
pub(crate) struct Args {
    /// Root of the tree [default: the current folder].
    #[arg(value_hint = clap::ValueHint::DirPath)]
    root: Option<PathBuf>,
    /// Make a project with this name, in place of .faultless.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Include hidden files and folders.
    #[arg(long)]
    hidden: bool,
    /// Include files that .gitignore, .ignore and .rgignore exclude.
    #[arg(long)]
    no_ignore: bool,
    /// Include only files that match GLOB; `!GLOB` excludes.
    #[arg(short, long, value_name = "GLOB")]
    glob: Vec<String>,
    /// List all omitted files with the reason.
    #[arg(long)]
    list_skipped: bool,
    /// Use N threads [default: one per processor].
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let named = args.root.clone().unwrap_or_else(|| ".".into());
    let root = named
        .canonicalize()
        .map_err(|error| Failure(format!("{}: {error}; name a folder", named.display())))?;
    if !root.is_dir() {
        return Err(Failure(format!("{} is no folder; name the one it is in", named.display())));
    }
    let rules = Rules {
        hidden: args.hidden,
        no_ignore: args.no_ignore,
        globs: args.glob.clone(),
        groups: Vec::new(),
    };
    let (location, rules) = match &args.name {
        Some(name) => {
            write_project(name, &root, &args)?;
            let [chosen] = &Which { project: vec![name.clone()] }.chosen()?[..] else {
                return Err(Failure(format!("project {name}: its file has gone; try again")));
            };
            let rules = chosen.project.as_ref().map_or(rules, |(_, rules)| rules.clone());
            (chosen.location.clone(), rules)
        }
        None => (Location::in_tree(&root), rules),
    };
    let threads = threads(args.threads);
    with_line("building", |progress| Database::build(&location, &rules, threads, progress))?;
    let Some(database) = Database::open(&location)? else {
        return Err(Failure(format!("{}: the database has gone; try again", location.folder.display())));
    };
    if args.list_skipped {
        return emit(&skipped::list(&database)?, ExitCode::SUCCESS);
    }
    eprintln!("{}; --list-skipped names them", skipped::counts(&database.skipped_at_last_walk(threads)?));
    Ok(ExitCode::SUCCESS)
}

fn write_project(name: &str, root: &Path, args: &Args) -> Result<(), Failure> {
    let path = databases::file(name)?;
    let root = root.to_str().filter(|root| !root.contains('\n'));
    let Some(root) = root else {
        return Err(Failure("a project file is UTF-8 text and can't name this folder; rename it".into()));
    };
    let mut text = format!("path {root}\n");
    args.hidden.then(|| text.push_str("hidden\n"));
    args.no_ignore.then(|| text.push_str("no-ignore\n"));
    args.glob.iter().for_each(|glob| text.push_str(&format!("glob {glob}\n")));
    let write = || {
        std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
        std::io::Write::write_all(&mut std::fs::File::create_new(&path)?, text.as_bytes())
    };
    match write() {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(Failure(format!(
            "{}: there is such a project; change this file and run `faultless index update --project {name}`",
            path.display()
        ))),
        written => written.map_err(|error| Failure(format!("{}: {error}", path.display()))),
    }
}
