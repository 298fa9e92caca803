//! What to do next: the commands that answer the next question about this program, or that there is nothing to do.

use faultless_trace::Stat;

use super::section::headed;
use crate::palette::Palette;
use crate::table::{Align, SCREEN, clip, columns};
use crate::tuning::WORTH_FROM;

/// One line, or one for each command.
pub(super) fn next(stat: &Stat, command: &str, palette: Palette) -> Vec<String> {
    if stat.faults() == 0 {
        return Vec::new();
    }
    let little = stat.time.as_ref().is_some_and(|time| time.share.high < WORTH_FROM);
    if little {
        return vec![
            " Next: nothing. Page faults take too little of the CPU time to be worth a change.".to_owned(),
        ];
    }
    const ADVISE: &str = "which cure makes it faster, and by how much";
    const RECORD: &str = "which code takes the faults";
    let room = SCREEN - 3 - ADVISE.len() - 2 - "faultless advise -- ".len();
    let command = clip(command, room);
    let cells = [
        vec![format!("faultless advise -- {command}"), ADVISE.to_owned()],
        vec![format!("faultless record -- {command}"), RECORD.to_owned()],
    ];
    headed("Next", palette, columns(3, &[Align::Left, Align::Left], &cells))
}
