//! What to do next: the commands that answer the next question about this program, or nothing.

use faultless_trace::Stat;
use faultless_trace::observation::{ALL_PROCESSES, Exit, SourceNote};
use faultless_trace::stat::{FaultTime, Interval};

use super::section::headed;
use super::sentence::{untimed, waits};
use crate::palette::Palette;
use crate::table::{Align, SCREEN, columns, hang, to_copy, up_to, wrap};
use crate::text::{self, plain};
use crate::tuning::{WORTH_FROM, WORTH_FROM_SECONDS};

/// What to do about faults that take little time.
pub(crate) const NOTHING: &str = "nothing. Page faults take too little time to be worth a change.";

/// Whether faults take too little time for a cure to matter: their seconds, and their share of the CPU time.
pub(crate) fn takes_little(seconds: Interval, share: Interval) -> bool {
    share.high < WORTH_FROM || seconds.high < WORTH_FROM_SECONDS
}

pub(super) fn next(stat: &Stat, palette: Palette, reader: Option<usize>) -> Vec<String> {
    let width = up_to(SCREEN, reader);
    if stat.faults() == 0 {
        return Vec::new();
    }
    let is_little = |time: &FaultTime| takes_little(time.seconds, time.share);
    // Without the CPU time nobody knows the share.
    let is_known = stat.cpu_ns() > 0 && !waits(stat) && untimed(stat).is_none();
    if is_known && stat.time.as_ref().is_some_and(is_little) {
        return wrap(" Next: ", NOTHING, width);
    }
    if stat.command == ALL_PROCESSES {
        return headed("Next", palette, vec!["   which process   faultless top".to_owned()]);
    }
    const CURE: &str = "which cure helps";
    const SITE: &str = "which code faults";
    let room = to_copy(reader) - 3 - SITE.len() - 2 - "faultless advise -- ".len();
    // What was running already may never end by itself.
    let (command, what) = match stat.exit {
        Exit::Unknown => ("-p PID".to_owned(), None),
        _ => {
            let (command, what) = text::again(&stat.command, room);
            (format!("-- {command}"), what)
        }
    };
    let line = |what: &str, verb: &str| vec![what.to_owned(), format!("faultless {verb} {command}")];
    let cure = stat.immune.is_none().then(|| line(CURE, "advise"));
    let site = can_record(stat).then(|| line(SITE, "record"));
    let steps: Vec<Vec<String>> = cure.into_iter().chain(site).collect();
    let mut lines = columns(3, &[Align::Left; 2], &steps);
    if let Some(reason) = &stat.immune {
        let why = format!("No cure of faultless run or advise acts in it: {}.", plain(reason));
        lines.extend(hang("   ", 3, &why, width));
    }
    lines.extend(what.map(|what| format!("   {what}")));
    headed("Next", palette, lines)
}

/// Whether single faults can be recorded here.
fn can_record(stat: &Stat) -> bool {
    let is_denied = |source: &SourceNote| !source.used && source.note != SourceNote::NOT_ASKED_FOR;
    !stat.sources.iter().any(|source| source.source == "fault pairs" && is_denied(source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::sentence::answer;
    use faultless_trace::observation::{Observation, Usage};
    use faultless_trace::stat::Source;

    fn stat(minor_faults: u64, major_faults: u64) -> Stat {
        let usage = Usage { minor_faults, major_faults, user_ns: 1_000_000_000, ..Usage::default() };
        let little = Interval { value: 1e-4, low: 1e-4, high: 1e-4 };
        let time = FaultTime {
            source: Source::Sampled,
            timed: 71,
            p50_ns: 1e3,
            p90_ns: 1e3,
            p99_ns: 1e3,
            raw_p50_ns: 1e3,
            offset_ns: 0.0,
            seconds: little,
            share: little,
            us_per_mib: None,
        };
        let stat = Stat::from_observation(&Observation { usage, ..Observation::default() });
        Stat { time: Some(time), ..stat }
    }

    #[test]
    fn faults_take_too_little_only_of_a_cpu_time_that_is_known() {
        let mut stat = stat(71, 0);
        let shown = |stat: &Stat| next(stat, Palette(false), Some(60)).join(" ");
        assert!(shown(&stat).contains("too little time"), "{}", shown(&stat));
        stat.usage.user_ns = 0;
        assert!(!shown(&stat).contains("too little time"), "{}", shown(&stat));
    }

    #[test]
    fn advise_is_named_only_where_it_can_act() {
        let mut stat = stat(71, 3000);
        stat.command = vec!["./s".to_owned()];
        let shown = |stat: &Stat| next(stat, Palette(false), Some(60)).join("\n");
        assert!(shown(&stat).contains("faultless advise -- ./s"), "{}", shown(&stat));
        stat.immune = Some("/tmp/s is statically linked: it has no loader for the pool".to_owned());
        let shown = shown(&stat);
        assert!(!shown.contains("advise --") && shown.contains("faultless record -- ./s"), "{shown}");
        assert!(shown.contains("acts in it:") && shown.contains("statically linked"), "{shown}");
    }

    #[test]
    fn a_command_is_given_whole_where_the_reader_has_room_and_else_explained() {
        let mut stat = stat(71, 3000);
        stat.command = vec!["./engine".to_owned(), "x".repeat(60)];
        let shown = |columns| next(&stat, Palette(false), columns).join("\n");
        let whole = format!("faultless advise -- ./engine {}\n", "x".repeat(60));
        assert!(
            shown(Some(120)).contains(&whole) && !shown(Some(120)).contains("CMD"),
            "{}",
            shown(Some(120))
        );
        for narrow in [shown(None), shown(Some(80))] {
            assert!(
                narrow.contains("advise -- CMD\n") && narrow.contains("CMD: the same command"),
                "{narrow}"
            );
        }
    }

    #[test]
    fn little_time_is_worth_nothing_unless_many_faults_wait_for_the_disk() {
        let says_nothing = |stat: &Stat| next(stat, Palette(false), None).concat().contains(NOTHING);
        let (few, many) = (stat(3000, 9), stat(71, 3000));
        assert!(says_nothing(&few) && !says_nothing(&many));
        assert!(!answer(&few).contains("disk"));
        let said = answer(&many);
        assert!(said.contains("3 000 faults waited for the disk"), "{said}");
    }
}
