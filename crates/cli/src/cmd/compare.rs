//! `faultless compare`: runs several commands in turn and says which takes how many times as long.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

use faultless_console::{Failure, INTERRUPTED, Outcome, emit, sink::Sink};
use faultless_report::compare as report;
use faultless_trace::compare::{Comparison, least_rounds};
use faultless_trace::measurement::Count;
use faultless_trace::rounds::Arm;

use super::bench::{Bench, Measured, TIME, Until, Way};
use super::rounds::Input;
use crate::pager;

/// With 8 rounds an interval that holds in 99 % of comparisons exists. More than 30 hardly narrow it.
const ROUNDS: RangeInclusive<u32> = 10..=30;

/// Run several commands in turn and compare their times, faults and memory.
///
/// A warm-up round comes first. Every round then runs each command once, in shuffled order, and ratios to the first
/// command are taken within a round. About one round in four adds a run of each that records the time in faults, and the
/// memory held shortly before the end. A command that fails in a run has no ratio, unless the first one ends alike.
/// All takes about 40 seconds, or 15 runs of each if that is longer. Ctrl-C ends the comparison and shows the results so
/// far.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  faultless compare 'sort lines.txt' 'sort -S 1G lines.txt'
  faultless compare -n 40 --svg sort.svg './engine queries' 'faultless run -- ./engine queries'

The programs' standard output is read and thrown away. Standard input is read once and given to each run.
Exit status: 0 compared, 1 a command failed in some run, 2 no comparison was possible, 126
or 127 a command can't be executed or found, 130 interrupted.")]
pub(crate) struct Args {
    /// Rounds to count, 8 or more, of four commands 10 [default: as many as fit into 40 seconds, but 10 to 30].
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(8..=1000))]
    runs: Option<u32>,
    /// Shell that runs the commands, or none. By default, only a command with a character that a shell acts upon goes
    /// through sh.
    #[arg(long, short = 'S', value_name = "SHELL")]
    shell: Option<String>,
    /// Print one JSON document instead of the table.
    #[arg(long)]
    json: bool,
    /// Also draw the comparison into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The commands, each quoted as one word. The others are compared with the first.
    #[arg(required = true, num_args = 2.., value_name = "COMMAND")]
    commands: Vec<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let svg = args.svg.as_deref().map(Sink::file).transpose()?;
    let ways: Vec<Way> =
        args.commands.iter().map(|command| way(command, args.shell.as_deref())).collect::<Result<_, _>>()?;
    let least = least_rounds(ways.len());
    if args.runs.is_some_and(|runs| runs < least) {
        let (commands, rounds) =
            (Count(ways.len() as u64).of("command"), Count(u64::from(least)).of("round"));
        return Err(Failure(format!(
            "--runs: {commands} need {rounds} or more, else no interval holds in 99 % of comparisons"
        )));
    }
    let host = faultless_prof::host();
    let virtual_machine = host.hypervisor.is_some();
    let bench = Bench {
        what: format!("{} commands", ways.len()),
        ways,
        input: Input::capture()?,
        virtual_machine,
        rounds: least.max(*ROUNDS.start())..=*ROUNDS.end(),
        until: Until::After(TIME),
    };
    let Measured { series, interrupted, untimed, .. } = match bench.measure(args.runs) {
        Ok(measured) => measured,
        Err(stop) => return stop.conclude(),
    };
    if series.len() < args.commands.len() {
        eprintln!("faultless: interrupted before each command had run: nothing was compared");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let mut comparison = Comparison::new(host, &series);
    comparison.notes.extend(untimed);
    let status = match &interrupted {
        Some(_) => INTERRUPTED,
        None => u8::from(comparison.commands.iter().any(|command| command.failed > 0)),
    };
    comparison.notes.splice(0..0, interrupted);
    if let Some(file) = svg {
        file.write(&report::svg(&comparison))?;
    }
    let text = if args.json {
        faultless_report::json(&comparison)
    } else {
        report::text(&comparison, std::io::stdout().is_terminal(), pager::columns(None))
    };
    emit(text.as_bytes(), ExitCode::from(status))
}

fn way(command: &str, shell: Option<&str>) -> Result<Way, Failure> {
    let words = match shell {
        None if !command.contains(acts) => split(command)?,
        Some("none") => split(command)?,
        shell => [shell.unwrap_or("sh"), "-c", command].map(String::from).to_vec(),
    };
    Ok(Way {
        arm: Arm { name: command.to_owned(), what: String::new(), adopt: String::new() },
        command: words.into_iter().map(OsString::from).collect(),
        environment: Vec::new(),
    })
}

/// A character that a shell acts upon, quotes and the backslash aside.
fn acts(c: char) -> bool {
    "|&;<>()$`*?[]#~={}!\n".contains(c)
}

fn split(command: &str) -> Result<Vec<String>, Failure> {
    match shlex::split(command) {
        Some(words) if !words.is_empty() => Ok(words),
        Some(_) => Err(Failure("an empty command; quote each command as one word".into())),
        None => Err(Failure(format!("{command}: a quote is not closed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_acts_upon_goes_through_one() {
        let words = |command, shell| way(command, shell).map(|way| way.command).map_err(|failure| failure.0);
        assert_eq!(words("sort -k 2 'a b'", None).unwrap(), ["sort", "-k", "2", "a b"]);
        assert_eq!(words("sort <a", None).unwrap(), ["sh", "-c", "sort <a"]);
        assert_eq!(words("echo a*", Some("none")).unwrap(), ["echo", "a*"]);
        assert_eq!(words("echo a", Some("bash")).unwrap(), ["bash", "-c", "echo a"]);
        assert_eq!(words("echo 'a", None).unwrap_err(), "echo 'a: a quote is not closed");
        assert!(words(" ", None).unwrap_err().starts_with("an empty command"));
    }
}
