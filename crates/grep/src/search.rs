//! `faultless grep PATTERN [PATH]`.
//!
//! In: [`Args`]. Out: matches on stdout; exit status 0 with a match, 1 without, 2 if something could not be
//! read. `faultless_grepdb` reads files and databases.

use crate::caller::Caller;
use crate::flags::Args;
use crate::flags::engine::Source;
use crate::flags::looks::Format;
use crate::job::{Job, Summary};
use crate::measure;
use crate::out::{Limit, Out, VisualStudio};
use crate::patterns;
use crate::printing::looks;
use crate::scope::{self, Filter};
use crate::stdin::Stdin;
use faultless_console::{Failure, emit};
use faultless_os::advise;
use faultless_os::counters::now_ns;

/// Returns the exit status.
pub(crate) fn run(args: Args, caller: &Caller) -> Result<u8, Failure> {
    if args.which.type_list {
        return type_list(&args);
    }
    if !args.which.databases.project.is_empty()
        && let Some(flag) = args.beyond_databases()
    {
        let remedy = "name folders, without --project";
        return Err(Failure(format!("{flag} reads files from the disk, --project only databases; {remedy}")));
    }
    if args.engine.memory == Source::All {
        return measure::all(&args);
    }
    if args.engine.memory == Source::Thp && !advise::thp_gives(advise::pmd_bytes()) {
        let remedy = "let /sys/kernel/mm/transparent_hugepage/enabled say madvise, or name another source";
        return Err(Failure(format!("--memory=thp: this kernel gives no huge pages; {remedy}")));
    }
    let begin_ns = now_ns();
    let (patterns, paths) = patterns::patterns(&args)?;
    let mut scope = match args.which.databases.project[..] {
        [] => scope::scope(&args, caller, &paths)?,
        _ => scope::projects(args.which.databases.chosen()?, &paths)?,
    };
    let looks = looks(&args, &scope, caller)?;
    let job = Job {
        matcher: patterns::matcher(&args, &patterns)?,
        plan: patterns::query_plan(&args, &patterns)?,
        searcher: patterns::searcher(&args, looks.line_number)?,
        filter: Filter::new(&args, &caller.folder)?,
        looks,
        args: &args,
        caller,
    };
    let stdin = scope.stdin.take();
    let mut summary = Summary::default();
    // Without patterns nothing can match, so nothing is read. Missing paths don't matter then, as for ripgrep.
    let nothing = patterns.is_empty() && !args.matching.invert_match;
    if !nothing && args.matching.max_count != Some(0) {
        scope.trouble.iter().for_each(|trouble| summary.trouble(&args, caller, trouble));
        let limit = args.looks.limit.map(|lines| Limit { lines, end: line_end(&args) });
        let unbuffered = args.looks.line_buffered || caller.sees_output() && !args.looks.block_buffered;
        let out = Out::new(caller.stdout()?, unbuffered, limit);
        match args.looks.format {
            Some(Format::Vs) => {
                job.everywhere(scope, VisualStudio::new(out, args.looks.column), &mut summary)?;
            }
            None => job.everywhere(scope, out, &mut summary)?,
        }
        if let Some(trouble) = stdin.as_ref().and_then(Stdin::trouble) {
            summary.trouble(&args, caller, trouble);
        }
        if paths.is_empty() && !summary.matched && !summary.has_files {
            let remedy = "take back some of --glob, --type, --max-depth, or add --hidden or --no-ignore";
            summary.trouble(&args, caller, &format!("no file was searched; {remedy}"));
        }
    }
    if args.engine.stat.is_some() {
        measure::tell(begin_ns, &args, &summary.searched);
    }
    Ok(match (summary.matched, summary.failed) {
        (true, false) => 0,
        (true, true) if args.looks.quiet => 0,
        (_, true) => 2,
        (false, false) => 1,
    })
}

fn line_end(args: &Args) -> u8 {
    let looks = &args.looks;
    let only_paths = looks.files_with_matches || looks.files_without_match;
    if !looks.json && (args.matching.null_data || looks.null && only_paths) { 0 } else { b'\n' }
}

fn type_list(args: &Args) -> Result<u8, Failure> {
    let mut text = String::new();
    for definition in scope::types(args)?.definitions() {
        text += &format!("{}: {}\n", definition.name(), definition.globs().join(", "));
    }
    emit(text.as_bytes(), 0)
}
