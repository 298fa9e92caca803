//! The answer in a sentence.

use faultless_trace::findings::Findings;
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent};
use faultless_trace::observation::Exit;
use faultless_trace::stat::{Interval, lost_clause};

use crate::stat::{lost as lost_time, share};
use crate::text::plain;
use crate::tuning::{UNPLACED_FROM, WAITS_FROM};

/// Share of the CPU time in giving memory back that is worth a word.
const GIVING_FROM: f64 = 0.01;

/// "1.90 ± 0.12 s of 4.20 s CPU time (45 ± 3 %) went to page faults; 3 call sites make 92 % of it; 96 % of the faults avoidable
/// with 24 MiB kept."
pub(super) fn answer(findings: &Findings) -> String {
    if findings.faults == 0 {
        return match findings.exit {
            None => {
                "The recording holds no page faults and has no end: it was cut, or its recorder was killed."
            }
            Some(_) => "There were no page faults in the recording.",
        }
        .to_owned();
    }
    let mut answer = match findings.time_ns {
        Some(time_ns) if time_ns.value > 0.0 => lost(time_ns, findings.cpu_ns),
        _ => format!("{} page faults; how long they took is not known", Count(findings.faults)),
    };
    let giving = findings.giving_ns.map_or(0.0, |ns| ns / findings.cpu_ns.max(1) as f64);
    // A recording that was cut off does not tell the CPU time.
    if giving >= GIVING_FROM && findings.cpu_ns > 0 {
        answer.push_str(&format!(", {} to giving memory back", Percent(giving)));
    }
    let waits = findings.wait_ns > WAITS_FROM * findings.time_ns.map_or(0.0, |time_ns| time_ns.value);
    if waits {
        answer.push_str(&format!(", and {} to waits in them", Nanos(findings.wait_ns)));
    }
    if let Some((sites, share)) = findings.most {
        let (word, make) = if sites == 1 { ("call site", "makes") } else { ("call sites", "make") };
        let of = if waits { "the faults and waits" } else { "the time in faults" };
        let (share, unplaced) = (Percent(share), Percent(findings.unplaced));
        answer.push_str(&if findings.unplaced < UNPLACED_FROM {
            format!("; {sites} {word} {make} {share} of {of}")
        } else {
            format!("; {unplaced} of {of} is in no call site, and {sites} {word} {make} {share} of the rest")
        });
    }
    if let Some(knee) = &findings.avoidable {
        answer.push_str(&format!(
            "; {} of the faults avoidable with {} kept",
            share(knee),
            Bytes(knee.keep_bytes)
        ));
    }
    if let Some(why) = &findings.no_cure {
        answer.push_str(&format!("; nothing to cure: {}", plain(why)));
    }
    let coverage = &findings.coverage;
    if let Some(lost) = lost_clause(coverage.lost, coverage.recorded + coverage.sampled) {
        answer.push_str(&format!("; {lost}"));
    }
    answer.push('.');
    match findings.exit {
        None => answer.push_str(" The recording has no end: these are its figures so far."),
        Some(Exit::Signal(signal)) => answer.push_str(&format!(" The command was ended by signal {signal}.")),
        Some(Exit::Status(status)) if status != 0 => {
            answer.push_str(&format!(" The command exited with status {status}."));
        }
        Some(_) => {}
    }
    answer
}

fn lost(time_ns: Interval, cpu_ns: u64) -> String {
    let of = |ns: f64| (ns / cpu_ns.max(1) as f64).clamp(0.0, 1.0);
    let share = Interval { value: of(time_ns.value), low: of(time_ns.low), high: of(time_ns.high) };
    lost_time(time_ns, share, cpu_ns)
}
