//! `faultless lab kernel run`: boots every arm with every plan, and records what was counted.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use faultless_console::{Failure, INTERRUPTED, Outcome, reason};
use faultless_os::spawn;

use crate::commands::{self, processors};
use crate::cpio::Archive;
use crate::plan::{self, ARMS, Arm, PLANS, Plan};
use crate::record::{self, Cell, Record, unwritable};
use crate::session::{self, Measured};
use crate::{PROGRAMS, RECORD, WORK, Work, counts, functions, guest, one_of};

/// What to boot, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Work folder of `faultless lab kernel build` [default: faultless-kernel].
    #[arg(long, short, value_name = "FOLDER")]
    work: Option<PathBuf>,
    /// New folder of the record [default: faultless-kernel-record].
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Arms to boot [default: all that were built].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(&ARMS, |arm| arm.name))]
    arms: Vec<&'static Arm>,
    /// Plans to carry out [default: all of the arm].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(&PLANS, |plan| plan.name))]
    plans: Vec<&'static Plan>,
    /// Boot everything twice and check that both runs give the same bytes.
    #[arg(long)]
    twice: bool,
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
    if record::has_table(&folder, record::SAMPLES) {
        return Err(Failure(format!("{}: holds a record already; name another folder", folder.display())));
    }
    fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    let work = Work(work.0.canonicalize()?);
    let boots = boots(args, &work, &built)?;
    let begin = Instant::now();
    let load = load();
    spawn::remember_requests_to_end();
    let Some(left) = boot_all(&boots, &work)? else {
        eprintln!("faultless: interrupted; nothing is recorded");
        let _ = fs::remove_dir(&folder);
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let seconds = begin.elapsed().as_secs();
    let differing = differing(&boots, &left);
    let Joined { measured, refused, cache } = joined(&boots, &left)?;
    for (cell, text) in &refused {
        eprintln!("faultless: {cell}: {text}");
    }
    let more = format!(
        "qemu: {}\nmachine: emulated x86-64, one instruction takes 1 ns of virtual time\ncache: {cache}\narms: {}\n\
         runs: {}\ntook: {} min {} s on {} processors, load average {load} before\n",
        qemu_version()?,
        arms(&boots),
        runs(args.twice, &differing),
        seconds / 60,
        seconds % 60,
        processors()
    );
    functions::write(&folder, &measured)?;
    let cells = measured.into_iter().map(|found| (found.cell, found.quantities)).collect();
    Record { facts: record::facts(&(built + &more)), cells, refused }.write(&folder)?;
    for name in &differing {
        let boots = work.0.join("boots");
        eprintln!("faultless: {name}: two runs differ; compare the files in {}", boots.display());
    }
    let of = if args.twice && differing.is_empty() { ", two runs of each byte-identical" } else { "" };
    eprintln!("faultless: {} boots in {seconds} s{of}; the record is {}", boots.len(), folder.display());
    Ok(if differing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the boots of the first round counted, and what of their plans they could not do.
struct Joined {
    measured: Vec<Measured>,
    refused: Vec<(Cell, String)>,
    cache: String,
}

fn joined(boots: &[Boot], left: &[Left]) -> Result<Joined, Failure> {
    let mut all = Joined { measured: Vec::new(), refused: Vec::new(), cache: String::new() };
    for (boot, left) in boots.iter().zip(left).filter(|(boot, _)| boot.round == 1) {
        let told = |failure: Failure| Failure(format!("{}: {failure}", boot.name()));
        let seen = guest::parse(&left.console).map_err(told)?;
        let counted = counts::parse(&left.counts).map_err(told)?;
        let failed = seen.failures.iter().map(|what| format!("the guest failed: {what}"));
        let absent = seen.absent.iter().map(|what| format!("the kernel has no {what}"));
        let cell = Cell(format!("arm={} plan={}", boot.arm.name, boot.plan.name));
        all.refused.extend(failed.chain(absent).map(|text| (cell.clone(), text)));
        all.cache.clone_from(&counted.cache);
        all.measured.extend(session::join(boot.arm, boot.plan, &seen, counted)?);
    }
    Ok(all)
}

/// Whether the kernel is older than 6.5, which starts its processors in another way.
fn is_old(built: &str) -> bool {
    let version = built.lines().find_map(|line| line.strip_prefix("kernel: ")).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (6, 5)
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

/// The boots that were asked for, as far as the kernel can do them.
fn boots(args: &Args, work: &Work, built: &str) -> Result<Vec<Boot>, Failure> {
    let is_built = |arm: &Arm| work.image(arm.is_patched).is_file();
    if let Some(arm) = args.arms.iter().find(|arm| !is_built(arm)) {
        let (shown, name) = (work.0.display(), arm.name);
        return Err(Failure(format!(
            "{shown}: has no kernel for {name}; build it: faultless lab kernel build"
        )));
    }
    let is_arm = |arm: &&Arm| if args.arms.is_empty() { is_built(arm) } else { args.arms.contains(arm) };
    let is_plan = |plan: &&Plan| args.plans.is_empty() || args.plans.contains(plan);
    let mut boots = Vec::new();
    for round in 1..=if args.twice { 2 } else { 1 } {
        for arm in ARMS.iter().filter(is_arm) {
            let plans = PLANS.iter().filter(|plan| arm.plans.contains(&plan.name)).filter(is_plan);
            boots.extend(plans.map(|plan| Boot { arm, plan, round }));
        }
    }
    if is_old(built) && boots.iter().any(|boot| boot.plan.vcpus > 1) {
        boots.retain(|boot| boot.plan.vcpus == 1);
        eprintln!(
            "faultless: kernels before 6.5 start no second processor under -icount: their plan threads is left out"
        );
    }
    match boots.is_empty() {
        true => Err(Failure(
            "nothing to boot: no arm has that plan, or no kernel is built; see `faultless lab kernel run --help`".into(),
        )),
        false => Ok(boots),
    }
}

/// What all boots left, in their order; nothing after a request to end.
fn boot_all(boots: &[Boot], work: &Work) -> Result<Option<Vec<Left>>, Failure> {
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
        let workers: Vec<_> = (0..processors().min(boots.len())).map(|_| scope.spawn(worker)).collect();
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
    let [console, counts, log] = ["console", "counts", "qemu.log"].map(|name| folder.join(name));
    for file in [&console, &counts] {
        let _ = fs::remove_file(file);
    }
    fs::write(folder.join("initramfs"), archive(boot, work)?).map_err(unusable)?;
    let begin = Instant::now();
    let mut qemu = Command::new(commands::QEMU.0);
    qemu.args(plan::qemu(boot.plan, boot.arm, work, &folder)).stdin(Stdio::null()).stdout(Stdio::null());
    qemu.stderr(fs::File::create(&log).map_err(unusable)?);
    let failed = |error| Failure(format!("{}: {}; install it", commands::QEMU.0, reason(&error)));
    let mut child = qemu.spawn().map_err(failed)?;
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
        let failed = |error| {
            let (path, why) = (path.display(), reason(&error));
            Failure(format!("{path}: {why}; build again: faultless lab kernel build"))
        };
        fs::read(&path).map_err(failed)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn args(arms: &[&str], plans: &[&str]) -> Args {
        let arms = ARMS.iter().filter(|arm| arms.contains(&arm.name)).collect();
        let plans = PLANS.iter().filter(|plan| plans.contains(&plan.name)).collect();
        Args { work: None, output: None, arms, plans, twice: true }
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
        let names = |args: &Args, kernel: &str| {
            let boots = boots(args, &work, kernel).unwrap();
            boots.iter().map(Boot::name).collect::<Vec<_>>()
        };
        assert_eq!(names(&args(&[], &[]), "kernel: 6.12.117").len(), 12);
        assert_eq!(names(&args(&[], &[]), "kernel: 6.1.192").len(), 10, "without the plan threads");
        assert_eq!(names(&args(&["base"], &["kinds"]), ""), ["base-kinds-1", "base-kinds-2"]);
        for (arms, plans, expected) in
            [("on", "kinds", "has no kernel for on"), ("init-on-alloc", "lines", "no arm has that plan")]
        {
            let told = boots(&args(&[arms], &[plans]), &work, "").unwrap_err().0;
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
        let boots = boots(&args(&["base"], &["kinds"]), &work(folder.path()), "").unwrap();
        let left = |counts: &str| Left { console: "a".into(), counts: counts.into() };
        assert!(differing(&boots, &[left("1"), left("1")]).is_empty());
        assert_eq!(differing(&boots, &[left("1"), left("2")]), ["base kinds"]);
        let different = ["base kinds".to_owned()];
        assert_eq!(runs(true, &different), "two; different: base kinds");
        assert_eq!((runs(true, &[]).as_str(), runs(false, &[]).as_str()), ("two, byte-identical", "one"));
    }
}
