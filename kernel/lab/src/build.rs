//! `faultless lab kernel build`: kernels, the guest's programs and the plugin, in a work folder.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use faultless_console::{Failure, Outcome, reason};

use crate::commands::{self, processors};
use crate::source::{self, SERIES, Series, Source};
use crate::{PROGRAMS, WORK, Work, one_of};

/// From what, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kernel's source: an unpacked tree, or a .tar.xz.
    #[arg(long, value_name = "PATH", required_unless_present = "fetch", conflicts_with = "fetch")]
    source: Option<PathBuf>,
    /// Get Debian's package of this kernel's source, of a fixed version, with apt-get [6.12 if no version is named].
    #[arg(long, value_name = "VERSION", num_args = 0..=1, require_equals = true, default_missing_value = "6.12",
          value_parser = one_of(&SERIES, |series| series.name))]
    fetch: Option<&'static Series>,
    /// Work folder; needs 4 GiB [default: faultless-kernel].
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// A file that tells a checkout.
const MARK: &str = "kernel/lab/plugin/counts.c";

/// Builds everything that is not built yet.
pub(crate) fn run(args: &Args) -> Outcome {
    let checkout = checkout()?;
    commands::require(&commands::TO_BUILD)?;
    let work = Work(args.output.clone().unwrap_or_else(|| WORK.into()));
    let unusable = |error: std::io::Error| {
        Failure(format!("{}: {}; name a folder that can be written", work.0.display(), reason(&error)))
    };
    std::fs::create_dir_all(&work.0).map_err(unusable)?;
    let work = Work(work.0.canonicalize().map_err(unusable)?);
    let path = match &args.source {
        Some(path) => path.clone(),
        None => Source::fetch(args.fetch.unwrap_or(&SERIES[0]), &work.0)?,
    };
    let source = Source::find(&path, &work.0)?;
    if let Some(series) = args.fetch.filter(|series| !series.has(&source.version)) {
        return Err(Failure(format!(
            "{}: holds the source of {}, not of {}; name another folder with -o",
            work.0.display(),
            source.version,
            series.name
        )));
    }
    let lab = checkout.join("kernel/lab");
    programs(&lab, &work)?;
    let mut facts = vec![("kernel".to_owned(), source.version.clone())];
    facts.extend(commit(&checkout).map(|commit| ("commit".to_owned(), commit)));
    let config = kernel(&source, &[lab.join("config/lab.config")], &work, false)?;
    facts.push(("config".to_owned(), config));
    let patches = source::patches(&checkout);
    if patches.is_empty() || !source.version.starts_with(source::PATCHED_VERSION) {
        eprintln!("faultless: kernel/prezero has no patch for {}: only that kernel is built", source.version);
    } else {
        let fragments = [lab.join("config/lab.config"), lab.join("config/prezero.config")];
        let config = kernel(&source.patched(&patches, &work.0)?, &fragments, &work, true)?;
        facts.push(("patched config".to_owned(), config));
        let text: Vec<u8> =
            patches.iter().flat_map(|patch| std::fs::read(patch).unwrap_or_default()).collect();
        facts.push((
            "patches".to_owned(),
            format!("{} of sha256 {}", patches.len(), commands::sha256(&text)?),
        ));
    }
    let compiler = commands::output(Command::new("gcc").arg("--version"))?;
    facts.push(("compiler".to_owned(), compiler.lines().next().unwrap_or_default().to_owned()));
    facts.push(("lab".to_owned(), format!("sha256 {}", sources(&lab)?)));
    let text: String = facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    std::fs::write(work.facts(), text).map_err(unusable)?;
    Ok(ExitCode::SUCCESS)
}

/// The checkout that holds the current folder.
fn checkout() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir()?;
    let found = here.ancestors().find(|folder| folder.join(MARK).is_file());
    found.map(Path::to_owned).ok_or_else(|| {
        Failure(format!("no checkout of the repository here or above, which has {MARK}; change to one"))
    })
}

/// The checkout's commit, if git tells it.
fn commit(checkout: &Path) -> Option<String> {
    let git = |words: &[&str]| commands::output(Command::new("git").arg("-C").arg(checkout).args(words)).ok();
    let commit = git(&["rev-parse", "--short=7", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "kernel"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} with changes below kernel/") })
}

/// The sum of all sources of the guest and the plugin.
fn sources(lab: &Path) -> Result<String, Failure> {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["guest", "plugin"] {
        let found = std::fs::read_dir(lab.join(folder))?;
        files.extend(found.filter_map(|entry| Some(entry.ok()?.path())));
    }
    files.sort();
    let text: Vec<u8> = files.iter().flat_map(|file| std::fs::read(file).unwrap_or_default()).collect();
    commands::sha256(&text)
}

/// Compiles the guest's programs and the plugin.
fn programs(lab: &Path, work: &Work) -> Result<(), Failure> {
    std::fs::create_dir_all(work.0.join("guest"))?;
    let log = work.0.join("programs.log");
    for program in PROGRAMS {
        let mut compiler = Command::new("gcc");
        compiler.args(["-O2", "-Wall", "-static", "-pthread", "-o"]).arg(work.guest(program));
        compiler.args([format!("{program}.c"), "lab.c".to_owned()]).current_dir(lab.join("guest"));
        commands::run(&mut compiler, &log)?;
    }
    let mut compiler = Command::new("gcc");
    compiler.args(["-O2", "-Wall", "-fPIC", "-fvisibility=hidden", "-shared", "-o"]).arg(work.plugin());
    compiler.args(["counts.c", "cache.c", "symbols.c"]).current_dir(lab.join("plugin"));
    commands::run(&mut compiler, &log)
}

/// Configures and builds a kernel; the sum of its configuration.
fn kernel(source: &Source, fragments: &[PathBuf], work: &Work, is_patched: bool) -> Result<String, Failure> {
    let out = work.kernel(is_patched);
    let log = work.0.join(if is_patched { "patched.log" } else { "base.log" });
    std::fs::create_dir_all(&out)?;
    let begin = Instant::now();
    let name = if is_patched { "patched" } else { "unpatched" };
    eprintln!("faultless: building {} {name}, minutes the first time; see {}", source.version, log.display());
    let make = |words: &[&str]| {
        let mut make = Command::new("make");
        make.arg("-C").arg(&source.folder).arg(format!("O={}", out.display())).args(words);
        // The same source gives the same kernel.
        make.env("KBUILD_BUILD_TIMESTAMP", "2026-01-01").env("KBUILD_BUILD_USER", "lab");
        make.env("KBUILD_BUILD_HOST", "lab").env("KBUILD_BUILD_VERSION", "1").env("LC_ALL", "C");
        commands::run(&mut make, &log)
    };
    make(&["tinyconfig"])?;
    let mut merge = Command::new(source.folder.join("scripts/kconfig/merge_config.sh"));
    merge.current_dir(&source.folder).args(["-m", "-O"]).arg(&out).arg(out.join(".config")).args(fragments);
    commands::run(&mut merge, &log)?;
    make(&["olddefconfig"])?;
    let config = std::fs::read_to_string(out.join(".config"))?;
    for fragment in fragments {
        let wanted = std::fs::read_to_string(fragment)?;
        let lacking: Vec<&str> =
            wanted.lines().filter(|line| line.starts_with("CONFIG_") && !is_set(&config, line)).collect();
        if !lacking.is_empty() {
            let (words, fragment) = (lacking.join(", "), fragment.display());
            eprintln!("faultless: {} does not take {words} of {fragment}", source.version);
        }
    }
    make(&[&format!("-j{}", processors()), "bzImage"])?;
    eprintln!("faultless: {} {name} is built after {:.0} s", source.version, begin.elapsed().as_secs_f64());
    Ok(format!("sha256 {}", commands::sha256(config.as_bytes())?))
}

fn is_set(config: &str, line: &str) -> bool {
    config.lines().any(|found| found == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_counts_only_as_a_whole_line() {
        assert!(is_set("CONFIG_A=y\nCONFIG_B=64\n", "CONFIG_B=64"));
        assert!(!is_set("# CONFIG_A is not set\nCONFIG_AB=y\n", "CONFIG_A=y"));
    }
}
