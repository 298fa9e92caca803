//! `faultless lab kernel run`: boots every arm with every plan, and records what was counted.

use std::collections::VecDeque;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use faultless_console::{Failure, INTERRUPTED, Outcome, reason};
use faultless_lab::kernel::cpio::Archive;
use faultless_lab::kernel::plan::{self, ARMS, Arm, Files, PLANS, Plan};
use faultless_lab::kernel::session::{self, EXPERIMENT, Measured};
use faultless_lab::kernel::{counts, functions, guest};
use faultless_lab::record::{Asked, FINISHED, SCHEMA};
use faultless_lab::{Cell, Record, Sample};
use faultless_os::spawn;

use super::{PROGRAMS, RECORD, WORK, Work, commands};
use crate::measure::failure;

/// What to boot, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Work folder of `faultless lab kernel build` [default: faultless-kernel].
    #[arg(long, short, value_name = "FOLDER")]
    work: Option<PathBuf>,
    /// New folder of the record [default: faultless-kernel-record].
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Arms to boot [default: all that were built]: base, off, on, init-on-alloc.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    arms: Vec<String>,
    /// Plans to carry out [default: all of the arm]: lines, kinds, pool, threads, empty-cache.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    plans: Vec<String>,
    /// Boot everything twice and check that both runs give the same bytes.
    #[arg(long)]
    twice: bool,
    /// Boot this many machines at once [default: one for each processor].
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// One boot of one arm with one plan.
#[derive(Clone, Copy, Debug)]
struct Boot {
    arm: &'static Arm,
    plan: &'static Plan,
    round: usize,
}

impl Boot {
    fn name(&self) -> String {
        format!("{}-{}-{}", self.arm.name, self.plan.name, self.round)
    }
}

/// What a boot left behind, as bytes.
#[derive(Clone, Debug)]
struct Left {
    console: String,
    counts: String,
}

/// A boot that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(3600);
/// Time between two polls of a boot.
const POLL: Duration = Duration::from_millis(100);

/// Boots, joins, checks and records.
pub(crate) fn run(args: &Args) -> Outcome {
    commands::require(&[commands::QEMU])?;
    let work = Work(args.work.clone().unwrap_or_else(|| WORK.into()));
    let built = fs::read_to_string(work.facts()).map_err(|error| {
        let (shown, why) = (work.0.display(), reason(&error));
        Failure(format!("{shown}: {why}; build there first: faultless lab kernel build -o {shown}"))
    })?;
    let folder = args.output.clone().unwrap_or_else(|| RECORD.into());
    if folder.join("plan.json").exists() {
        return Err(Failure(format!("{}: holds a record already; name another folder", folder.display())));
    }
    let work = Work(work.0.canonicalize()?);
    let mut boots = boots(args, &work)?;
    if is_old(&built) && boots.iter().any(|boot| boot.plan.vcpus > 1) {
        boots.retain(|boot| boot.plan.vcpus == 1);
        eprintln!(
            "faultless: kernels before 6.5 start no second processor under -icount: their plan threads is left out"
        );
    }
    if boots.is_empty() {
        return Err(Failure("nothing is left to boot; see `faultless lab kernel run --help`".into()));
    }
    let begin = Instant::now();
    let load = load();
    spawn::remember_requests_to_end();
    let jobs = args.jobs.map_or_else(processors, NonZeroUsize::get);
    let Some(left) = boot_all(&boots, &work, jobs)? else {
        eprintln!("faultless: interrupted; nothing is recorded");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let mut measured: Vec<(usize, Measured)> = Vec::new();
    let mut wrong: Vec<(Boot, String)> = Vec::new();
    let mut cache = String::new();
    for (boot, left) in boots.iter().zip(&left) {
        let name = boot.name();
        let told = |refusal: faultless_lab::Refusal| Failure(format!("{name}: {refusal}"));
        let (seen, counted) =
            (guest::parse(&left.console).map_err(told)?, counts::parse(&left.counts).map_err(told)?);
        let failed = seen.failures.iter().map(|what| format!("the guest failed: {what}"));
        let absent = seen.absent.iter().map(|what| format!("the kernel has no {what}"));
        wrong.extend(failed.chain(absent).map(|text| (*boot, text)));
        let cells = session::join(boot.arm, boot.plan, &seen, &counted).map_err(failure)?;
        measured.extend(cells.into_iter().map(|cell| (boot.round, cell)));
        cache = counted.cache;
    }
    let differing = differing(&boots, &left);
    let seconds = begin.elapsed().as_secs();
    let host = format!(
        "{built}qemu: {}\nmachine: emulated x86-64, one instruction takes 1 ns of virtual time\ncache: {cache}\n\
         arms: {}\nruns: {}\ntook: {} min {} s, {jobs} machines at once on {} processors, load average {load} before\n",
        qemu_version()?,
        arms(&boots),
        runs(args.twice, &differing),
        seconds / 60,
        seconds % 60,
        processors()
    );
    record(&folder, &host, &measured, &wrong)?;
    for name in &differing {
        eprintln!(
            "faultless: {name}: two runs differ; compare the files in {}",
            work.0.join("boots").display()
        );
    }
    for (boot, text) in wrong.iter().filter(|(boot, _)| boot.round == 1) {
        eprintln!("faultless: {} {}: {text}", boot.arm.name, boot.plan.name);
    }
    let of = if args.twice && differing.is_empty() { ", two runs of each byte-identical" } else { "" };
    eprintln!("faultless: {} boots in {seconds} s{of}; the record is {}", boots.len(), folder.display());
    Ok(if differing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the kernel is older than 6.5, which starts its processors in another way.
fn is_old(built: &str) -> bool {
    let version = built.lines().find_map(|line| line.strip_prefix("kernel: ")).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (6, 5)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// What else ran when the first machine was booted.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// How many runs there were, and whether they gave the same bytes.
fn runs(is_twice: bool, differing: &[String]) -> String {
    match (is_twice, differing) {
        (false, _) => "one".to_owned(),
        (true, []) => "two, byte-identical".to_owned(),
        (true, boots) => format!("two; different: {}", boots.join(", ")),
    }
}

fn qemu_version() -> Result<String, Failure> {
    let text = commands::output(Command::new(commands::QEMU.0).arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn arms(boots: &[Boot]) -> String {
    let used = ARMS.iter().filter(|arm| boots.iter().any(|boot| boot.arm == *arm));
    used.map(|arm| format!("{} ({})", arm.name, arm.about)).collect::<Vec<_>>().join(", ")
}

/// The boots that were asked for.
fn boots(args: &Args, work: &Work) -> Result<Vec<Boot>, Failure> {
    let unknown = |what: &str, name: &str, known: Vec<&str>| {
        Failure(format!("there is no {what} {name}; there are {}", known.join(", ")))
    };
    for name in &args.plans {
        plan::plan(name)
            .ok_or_else(|| unknown("plan", name, PLANS.iter().map(|plan| plan.name).collect()))?;
    }
    let is_built = |arm: &Arm| work.image(arm.is_patched).is_file();
    let arms: Vec<&'static Arm> = if args.arms.is_empty() {
        ARMS.iter().filter(|arm| is_built(arm)).collect()
    } else {
        let named = args.arms.iter().map(|name| {
            plan::arm(name).ok_or_else(|| unknown("arm", name, ARMS.iter().map(|arm| arm.name).collect()))
        });
        named.collect::<Result<_, _>>()?
    };
    if let Some(arm) = arms.iter().find(|arm| !is_built(arm)) {
        let shown = work.0.display();
        return Err(Failure(format!(
            "{shown}: has no kernel for {}; build it: faultless lab kernel build",
            arm.name
        )));
    }
    let rounds = if args.twice { 2 } else { 1 };
    let is_asked = |plan: &&str| args.plans.is_empty() || args.plans.iter().any(|name| name == plan);
    let mut boots = Vec::new();
    for round in 1..=rounds {
        for &arm in &arms {
            let plans = arm.plans.iter().copied().filter(is_asked).filter_map(plan::plan);
            boots.extend(plans.map(|plan| Boot { arm, plan, round }));
        }
    }
    if boots.is_empty() {
        return Err(Failure(
            "no arm has that plan, or no kernel is built; see `faultless lab kernel run --help`".into(),
        ));
    }
    Ok(boots)
}

/// What all boots left, in their order; nothing after a request to end.
fn boot_all(boots: &[Boot], work: &Work, jobs: usize) -> Result<Option<Vec<Left>>, Failure> {
    let queue: Mutex<VecDeque<usize>> = Mutex::new((0..boots.len()).collect());
    let next = || queue.lock().map_or(None, |mut queue| queue.pop_front());
    let worker = || {
        let mut done = Vec::new();
        while let Some(index) = next() {
            let left = boot(&boots[index], work);
            if !matches!(left, Ok(Some(_))) {
                // The others finish what they have begun.
                if let Ok(mut queue) = queue.lock() {
                    queue.clear();
                }
            }
            done.push((index, left));
        }
        done
    };
    let mut all: Vec<(usize, Result<Option<Left>, Failure>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(boots.len())).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    let left: Option<Vec<Left>> = all.into_iter().map(|(_, left)| left).collect::<Result<_, _>>()?;
    Ok(left.filter(|left| left.len() == boots.len()))
}

/// One boot; nothing after a request to end.
fn boot(boot: &Boot, work: &Work) -> Result<Option<Left>, Failure> {
    let folder = work.0.join("boots").join(boot.name());
    let unusable =
        |error: std::io::Error| Failure(format!("{}: {}; make room there", folder.display(), reason(&error)));
    fs::create_dir_all(&folder).map_err(unusable)?;
    let [initramfs, console, counts, log] =
        ["initramfs", "console", "counts", "qemu.log"].map(|name| folder.join(name));
    for file in [&console, &counts, &log] {
        let _ = fs::remove_file(file);
    }
    fs::write(&initramfs, archive(boot, work)?).map_err(unusable)?;
    let (kernel, map) = (work.image(boot.arm.is_patched), work.map(boot.arm.is_patched));
    let files = Files {
        kernel: &kernel,
        map: &map,
        initramfs: &initramfs,
        plugin: &work.plugin(),
        console: &console,
        counts: &counts,
    };
    let begin = Instant::now();
    let errors = fs::File::create(&log).map_err(unusable)?;
    let mut qemu = Command::new(commands::QEMU.0);
    qemu.args(plan::qemu(boot.plan, boot.arm, &files))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors);
    let mut child = qemu
        .spawn()
        .map_err(|error| Failure(format!("{}: {}; install it", commands::QEMU.0, reason(&error))))?;
    let Some(status) = ended(&mut child, begin)? else { return Ok(None) };
    let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let (true, Ok(said), Ok(counted)) = (status.success(), read(&console), read(&counts)) else {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let line = text.lines().last().unwrap_or("it said nothing");
        let (name, log) = (boot.name(), log.display());
        return Err(Failure(format!("{name}: QEMU failed ({status}): {line}; see {log}")));
    };
    eprintln!("faultless: {} took {:.0} s", boot.name(), begin.elapsed().as_secs_f64());
    Ok(Some(Left { console: said, counts: counted }))
}

/// How the machine ended; nothing after a request to end.
fn ended(child: &mut Child, begin: Instant) -> Result<Option<ExitStatus>, Failure> {
    loop {
        if let Some(status) = child.try_wait()? {
            // QEMU may have been asked to end as well, and says then that all is well.
            return Ok(Some(status).filter(|_| !spawn::asked_to_end()));
        }
        let is_late = begin.elapsed() > LONGEST;
        if spawn::asked_to_end() || is_late {
            child.kill()?;
            child.wait()?;
            return if is_late {
                Err(Failure("a machine runs for an hour; see its console in the work folder".into()))
            } else {
                Ok(None)
            };
        }
        std::thread::sleep(POLL);
    }
}

/// The guest's files.
fn archive(boot: &Boot, work: &Work) -> Result<Vec<u8>, Failure> {
    let program = |name: &str| {
        let path = work.guest(name);
        fs::read(&path).map_err(|error| {
            Failure(format!(
                "{}: {}; build again: faultless lab kernel build",
                path.display(),
                reason(&error)
            ))
        })
    };
    let folders = ["dev", "proc", "sys", "tmp", "bin"];
    let mut archive =
        folders.into_iter().fold(Archive::default(), Archive::folder).device("dev/console", 5, 1);
    let (init, others) = PROGRAMS.split_first().unwrap_or((&"init", &[]));
    archive = archive.file("init", &program(init)?);
    for name in others {
        archive = archive.file(&format!("bin/{name}"), &program(name)?);
    }
    Ok(archive.file("plan", boot.plan.text(boot.arm).as_bytes()).finish())
}

/// The boots whose two runs differ in a byte.
fn differing(boots: &[Boot], left: &[Left]) -> Vec<String> {
    let all = || boots.iter().zip(left);
    let seconds = all().filter(|(boot, _)| boot.round == 2);
    let differs = |(boot, second): &(&Boot, &Left)| {
        let first =
            all().find(|(first, _)| first.round == 1 && first.arm == boot.arm && first.plan == boot.plan);
        first.is_none_or(|(_, first)| first.console != second.console || first.counts != second.counts)
    };
    seconds.filter(differs).map(|(boot, _)| format!("{} {}", boot.arm.name, boot.plan.name)).collect()
}

fn record(
    folder: &Path,
    host: &str,
    measured: &[(usize, Measured)],
    wrong: &[(Boot, String)],
) -> Result<(), Failure> {
    let asked = Asked {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        effort: "default".into(),
        experiments: vec![EXPERIMENT.into()],
        parameters: Vec::new(),
        seed: 1,
    };
    let mut record = Record::open(folder, &asked, host).map_err(failure)?;
    for (_, found) in measured {
        record.add(&found.cell, &found.sample).map_err(failure)?;
    }
    for (boot, text) in wrong.iter().filter(|(boot, _)| boot.round == 1) {
        let cell = Cell::of(EXPERIMENT).with("arm", boot.arm.name).with("plan", boot.plan.name);
        record.add(&cell, &Sample { refused: Some(text.clone()), ..Sample::default() }).map_err(failure)?;
    }
    let first: Vec<Measured> =
        measured.iter().filter(|(round, _)| *round == 1).map(|(_, found)| found.clone()).collect();
    functions::write(folder, &first).map_err(failure)?;
    record.end(FINISHED).map_err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(arms: &[&str], plans: &[&str]) -> Args {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Args { work: None, output: None, arms: owned(arms), plans: owned(plans), twice: true, jobs: None }
    }

    fn work(folder: &Path) -> Work {
        let work = Work(folder.to_owned());
        let image = work.image(false);
        fs::create_dir_all(image.parent().unwrap()).unwrap();
        fs::write(image, "").unwrap();
        work
    }

    #[test]
    fn boots_are_those_of_the_kernels_that_are_built() {
        let folder = tempfile::tempdir().unwrap();
        let work = work(folder.path());
        let names = |args: &Args| boots(args, &work).unwrap().iter().map(Boot::name).collect::<Vec<_>>();
        let of_all = names(&args(&[], &[]));
        assert_eq!(of_all.len(), 12, "{of_all:?}");
        assert_eq!(names(&args(&["base"], &["kinds"])), ["base-kinds-1", "base-kinds-2"]);
        for (arms, plans, expected) in [
            (&["none"][..], &[][..], "there is no arm none"),
            (&["on"], &[], "has no kernel for on"),
            (&[], &["none"], "there is no plan none"),
            (&["init-on-alloc"], &["lines"], "no arm has that plan"),
        ] {
            let told = boots(&args(arms, plans), &work).unwrap_err().0;
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn a_kernel_is_old_by_its_numbers() {
        assert!(
            is_old("kernel: 6.1.192\nconfig: x\n")
                && !is_old("kernel: 6.12.117\n")
                && !is_old("kernel: 7.0.1\n")
        );
    }

    #[test]
    fn two_runs_are_compared_byte_by_byte() {
        let folder = tempfile::tempdir().unwrap();
        let boots = boots(&args(&["base"], &["kinds"]), &work(folder.path())).unwrap();
        let left = |counts: &str| Left { console: "a".into(), counts: counts.into() };
        assert!(differing(&boots, &[left("1"), left("1")]).is_empty());
        assert_eq!(differing(&boots, &[left("1"), left("2")]), ["base kinds"]);
        let different = ["base kinds".to_owned()];
        assert_eq!(runs(true, &different), "two; different: base kinds");
        assert_eq!((runs(true, &[]).as_str(), runs(false, &[]).as_str()), ("two, byte-identical", "one"));
    }

    #[test]
    fn a_folder_that_was_not_built_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let told = run(&Args { work: Some(folder.path().join("none")), ..args(&[], &[]) });
        let Err(Failure(told)) = told else { panic!("it was booted") };
        assert!(told.contains("build there first") || told.contains("apt-get install"), "{told}");
    }
}
