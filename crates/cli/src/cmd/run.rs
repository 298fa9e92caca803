//! `faultless run`: a program, unchanged, with large blocks from the pool.
//!
//! In: flags and a command. Out: the command itself, which replaces this process: signals, status, standard
//! input and output need no forwarding. In the command's environment, `LD_PRELOAD` and the `FAULTLESS_*` variables of the
//! interposer are set; all else stays as it is. Its children inherit both.
//!
//! [`environment()`] gives that environment to other verbs.

mod library;
mod options;
mod program;
pub(super) mod size;

use faultless_console::{Failure, Outcome};
use faultless_os::spawn::{Plan, deny_huge_pages};
use faultless_os::{environment, inherited};
use faultless_trace::heaps::ALLOCATORS;
use faultless_trace::program::Image;
use options::Small;
pub(crate) use options::{Options, Policy};
pub(crate) use program::find;
use program::{Executable, Immunity};
use std::ffi::{CString, OsString};
use std::path::PathBuf;

use super::status;

/// The end of both help texts.
macro_rules! examples {
    () => {
        "EXAMPLES\n  faultless run -- python3 script.py\n  faultless run --retain 64M --summary -- sort big.txt\n  \
         faultless run --prefault ahead --stock 256M-1G -- ./server\n  \
         faultless run --scrub on-free --threshold 16K --decay 200ms -- ./keys"
    };
}

/// Run a program, unchanged, with large blocks from the pool.
///
/// The program's malloc takes blocks of --threshold and more from a pool. The pool keeps freed pages
/// resident, reuses them, and uses huge pages if the kernel has them. Smaller blocks come from the program's
/// usual allocator, or from the one that --small names. The exit status is the program's own; 127 if there is
/// no such program, 126 if it can't be executed, 2 for a mistake in the options. Children use the pool as well.
///
/// Static programs, programs that define malloc themselves and programs built with a sanitizer run unchanged.
/// So do programs that cannot load the pool (32-bit, or in a container of their own); the loader then says
/// "cannot be preloaded: ignored".
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = concat!("WHAT IS DIFFERENT UNDER RUN\n", include_str!("run/different.txt"), "\n", examples!()),
    after_help = examples!()
)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,

    /// Run the program without transparent huge pages and without the pool
    ///
    /// Its children have none either (PR_SET_THP_DISABLE).
    #[arg(long, hide_short_help = true)]
    no_huge_pages: bool,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let name = args.command.first().ok_or_else(|| Failure("no command given".into()))?;
    let program = match find(name) {
        Ok(program) => program,
        // Any word that is no option of ours counts as the command.
        Err(faultless_prof::Failure::NotFound(word)) if word.starts_with('-') => {
            return Err(Failure(format!(
                "no such option or command: {word}; see --help, and write -- before the command"
            )));
        }
        Err(failure) => return status::not_started(failure),
    };
    if args.no_huge_pages {
        deny_huge_pages()?;
        return exec(program.path, &args.command, &[]);
    }
    let immunity = program.immune();
    if let Some(Immunity { reason, .. }) = &immunity {
        eprintln!("faultless: {reason}, so run cannot help; running it as it is");
    }
    let mut environment = environment(&args.options)?;
    environment.push(("FAULTLESS_FIRST".into(), std::process::id().to_string().into()));
    // Children of most immune programs may still use the pool.
    if immunity.is_some_and(|immunity| immunity.is_left_alone) {
        environment.clear();
    }
    exec(program.path, &args.command, &environment)
}

/// Replaces this process with the program, in this environment.
fn exec(path: PathBuf, command: &[OsString], environment: &[(OsString, OsString)]) -> Outcome {
    let nul = |_| Failure::from(faultless_prof::Failure::Nul);
    let file = CString::new(path.into_os_string().into_encoded_bytes()).map_err(nul)?;
    let error = inherited::exec(&file, &Plan::new(command, environment).map_err(nul)?);
    status::not_started(faultless_prof::not_started(&command[0].to_string_lossy(), error))
}

/// The environment under which a dynamically linked program gets its large blocks from the pool.
///
/// # Errors
/// The interposer could not be installed where only this user can write, options contradict each other, or
/// the report's file can't be written.
pub(crate) fn environment(options: &Options) -> Result<Vec<(OsString, OsString)>, Failure> {
    let small = (options.small == Small::Mimalloc).then_some(&library::SMALL);
    let mut environment = vec![("LD_PRELOAD".into(), preload(small)?)];
    environment.extend(options.variables()?);
    Ok(environment)
}

/// The value of `LD_PRELOAD`: the interposer, the library behind it, and the libraries that it names already.
///
/// # Errors
/// As [`environment()`].
pub(crate) fn preload(behind: Option<&library::Library>) -> Result<OsString, Failure> {
    let mut preload = library::install(&library::PRELOAD)?.into_os_string();
    if let Some(behind) = behind {
        preload.push(":");
        preload.push(library::install(behind)?);
    }
    if let Some(others) = environment::last("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    Ok(preload)
}

/// Why the interposer cannot act in a program, or leaves it as it is: a clause. `None` if it acts, or if the program can't
/// be found.
pub(crate) fn immune(name: &std::ffi::OsStr) -> Option<String> {
    find(name).ok()?.out_of_reach()
}

/// Why the pool did not act in a program that ran under it: a clause. `None` if it acted.
pub(crate) fn out_of_reach(image: &Image) -> Option<String> {
    let Some(file) = image.files.first() else {
        let why = "its loader ignores LD_PRELOAD, as of setuid and setgid programs";
        return Some(format!("a program that could not be watched: {why}"));
    };
    if let Some(known) = (Executable { path: file.into() }).out_of_reach() {
        return Some(known);
    }
    let Some(pool) = image.files.iter().position(|file| file.ends_with(library::PRELOAD.name)) else {
        let why = "ran without it: a script replaced its LD_PRELOAD, or its container lacks the file";
        return Some(format!("{file} {why}"));
    };
    // Libraries of LD_PRELOAD are loaded first, in its order.
    let allocator = image.files.iter().take(pool).find(|file| is_allocator(file))?;
    Some(format!("{file} was given {allocator} before it, in LD_PRELOAD"))
}

/// Whether a library brings an allocator of its own.
pub(crate) fn is_allocator(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    ALLOCATORS.iter().any(|allocator| name.starts_with(&format!("lib{allocator}")))
}

/// The library whose malloc a program uses instead of glibc's.
pub(crate) fn allocator(name: &std::ffi::OsStr) -> Option<&'static str> {
    find(name).ok()?.allocator()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a program whose file can't be read.
    fn reason(libraries: &[&str]) -> Option<String> {
        let pool = format!("/cache/{}", library::PRELOAD.name);
        let files = libraries.iter().map(|file| file.replace("POOL", &pool));
        let files = std::iter::once("/none/x".to_owned()).chain(files).collect();
        out_of_reach(&Image { files, ..Image::default() })
    }

    #[test]
    fn the_files_of_a_program_tell_whether_the_pool_acted_in_it() {
        assert_eq!(reason(&["/lib/ld.so", "POOL", "/lib/libc.so.6", "/lib/libjemalloc.so.2"]), None);
        let before = reason(&["/lib/ld.so", "/lib/libjemalloc.so.2", "POOL"]).unwrap();
        assert_eq!(before, "/none/x was given /lib/libjemalloc.so.2 before it, in LD_PRELOAD");
        let replaced = reason(&["/lib/ld.so", "/lib/libc.so.6"]).unwrap();
        assert!(replaced.starts_with("/none/x ran without it: a script replaced"), "{replaced}");
        let hidden = out_of_reach(&Image::default()).unwrap();
        assert!(hidden.starts_with("a program that could not be watched: "), "{hidden}");
    }
}
