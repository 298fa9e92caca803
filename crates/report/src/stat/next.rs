//! What to do next: the commands that answer the next question about this program, or nothing.

use faultless_trace::Stat;
use faultless_trace::observation::ALL_PROCESSES;

use super::section::headed;
use super::sentence::waits_for_disk;
use crate::palette::Palette;
use crate::table::{Align, SCREEN, columns};
use crate::text;
use crate::tuning::{WORTH_FROM, WORTH_FROM_SECONDS};

pub(super) fn next(stat: &Stat, palette: Palette) -> Vec<String> {
    if stat.faults() == 0 {
        return Vec::new();
    }
    let time = stat.time.as_ref();
    if !waits_for_disk(stat)
        && time.is_some_and(|time| time.share.high < WORTH_FROM || time.seconds.high < WORTH_FROM_SECONDS)
    {
        return vec![" Next: nothing. Page faults take too little time to be worth a change.".to_owned()];
    }
    if stat.command == ALL_PROCESSES {
        return headed("Next", palette, vec!["   which process   faultless top".to_owned()]);
    }
    const CURE: &str = "which cure helps";
    const SITE: &str = "which code faults";
    let command = text::command(&stat.command);
    // A command that is cut off can't be run.
    let room = SCREEN - 3 - SITE.len() - 2 - "faultless advise -- ".len();
    let command = if command.chars().count() <= room { command } else { "COMMAND".to_owned() };
    let line = |what: &str, verb: &str| vec![what.to_owned(), format!("faultless {verb} -- {command}")];
    headed("Next", palette, columns(3, &[Align::Left; 2], &[line(CURE, "advise"), line(SITE, "record")]))
}
