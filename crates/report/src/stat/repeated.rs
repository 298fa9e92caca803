//! The answer of `stat -r N`: the median of each figure over the runs, and the smallest and largest one.

use faultless_trace::measurement::{Count, Nanos, Percent, Seconds};
use faultless_trace::repeat::{Repeated, Spread};

use super::page;
use crate::advice;
use crate::palette::Palette;
use crate::table::{Align, SCREEN, clip, folded, up_to, wrap};
use crate::text;
use crate::tuning::KINDS_SHOWN;

/// The figures of several runs as text, with ANSI styles if `colour`. At most `columns` wide, but 60 to 80. `None`: 80.
pub fn repeated(found: &Repeated, colour: bool, columns: Option<usize>) -> String {
    let (palette, width) = (Palette(colour), up_to(SCREEN, columns));
    let runs = Count(found.runs.len() as u64 - found.killed).of("run");
    let command = found.runs.first().map(|run| text::command(&run.command)).unwrap_or_default();
    let title = palette.faint(&format!(" faultless stat: {}", clip(&command, width - 17)));
    let mut answer = match found.seconds.zip(found.share) {
        Some((seconds, share)) => format!(
            "{} ({}) went to page faults: the median of {runs}.",
            Seconds(seconds.median),
            Percent(share.median)
        ),
        None => format!("{} page faults: the median of {runs}.", number(found.faults.median)),
    };
    match found.killed {
        0 => {}
        1 => answer.push_str(" 1 run was ended by a signal: in no figure."),
        killed => {
            answer.push_str(&format!(" {} were ended by a signal: in no figure.", Count(killed).of("run")))
        }
    }
    let mut rows = vec![["", "median", "smallest", "largest"].map(str::to_owned).to_vec()];
    let mut add = |what: &str, spread: Spread, show: fn(f64) -> String| {
        rows.push(vec![what.to_owned(), show(spread.median), show(spread.min), show(spread.max)]);
    };
    if let Some(seconds) = found.seconds {
        add("time in faults", seconds, |seconds| Seconds(seconds).to_string());
    }
    if let Some(share) = found.share {
        add("share of the CPU time", share, |share| Percent(share).to_string());
    }
    add("faults", found.faults, number);
    add("wall", found.wall_ns, |ns| Nanos(ns).to_string());
    add("CPU", found.cpu_ns, |ns| Nanos(ns).to_string());
    add("peak RSS", found.peak_rss_bytes, |len| advice::bytes(len).to_string());
    let mut kinds = vec![["faults", "smallest", "largest", "time", "kind"].map(str::to_owned).to_vec()];
    for kind in found.kinds.iter().take(KINDS_SHOWN) {
        let Spread { median, min, max } = kind.faults;
        let time = kind.seconds.map_or("-".to_owned(), |seconds| Seconds(seconds.median).to_string());
        kinds.push(vec![number(median), number(min), number(max), time, kind.kind.words().to_owned()]);
    }
    use Align::{Left, Right};
    let table = |aligns: &[Align], cells: &[Vec<String>]| {
        let mut rows = folded(1, aligns, cells, width);
        rows[0].iter_mut().for_each(|line| *line = palette.faint(line));
        rows.concat()
    };
    page(vec![
        vec![title],
        wrap(" ", &answer, width).into_iter().map(|line| palette.strong(&line)).collect(),
        table(&[Left, Right, Right, Right], &rows),
        if kinds.len() > 1 { table(&[Right, Right, Right, Right, Left], &kinds) } else { Vec::new() },
    ])
}

fn number(value: f64) -> String {
    advice::count(value).to_string()
}
