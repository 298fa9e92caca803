//! Timelines as one interactive HTML page, or as JSON.
//!
//! In: [`Timeline`]s and the stacks of their recordings. Out: a string. The page loads nothing: its script
//! draws the embedded data (`embed`), one canvas per thread. Without script the page still has the totals of
//! every thread. Two timelines share one time scale, each from its own begin. It decides nothing.

mod embed;
pub(crate) mod groups;

use std::collections::BTreeSet;

use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::recording::Stacks;
use faultless_trace::timeline::{Part, Spent, State, Timeline};
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use crate::frame;
use crate::selected;
use crate::tuning::SHARERS_SHOWN;
use groups::{Group, groups};

/// A timeline, ready to show.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The file name of the recording.
    pub name: &'a str,
    /// The timeline itself.
    pub timeline: &'a Timeline,
    /// The stacks that the timeline refers to.
    pub stacks: &'a Stacks,
}

impl Shown<'_> {
    /// For each stack that a fault or sample refers to, its labels, leaf first. Other stacks have none.
    pub(crate) fn labels(&self) -> Vec<Vec<String>> {
        let classes = self.timeline.classes.iter().flat_map(|class| [class.stack, class.owner]);
        let samples = self.timeline.lanes.iter().flat_map(|lane| &lane.cpu).map(|sample| sample.1);
        let used: BTreeSet<u32> = classes.chain(samples).flatten().collect();
        let numbers = 0..used.last().map_or(0, |last| last + 1);
        let labels = |number| if used.contains(&number) { self.of_stack(number) } else { Vec::new() };
        numbers.map(labels).collect()
    }

    fn of_stack(&self, stack: u32) -> Vec<String> {
        self.stacks.shown(stack, false).into_iter().map(|shown| self.stacks.label(shown)).collect()
    }
}

/// The page.
pub fn html(shown: &[Shown<'_>]) -> String {
    let names: Vec<&str> = shown.iter().map(|shown| shown.name).collect();
    let title = format!("faultless timeline: {}", names.join(" and "));
    let body = html! {
        header {
            h1 { "Where the threads' time goes" }
            @for one in shown {
                p.answer {
                    @if shown.len() > 1 { b { (one.name) } " " }
                    (answer(one.timeline))
                }
            }
        }
        (picture(shown))
    };
    frame::document(&title, STYLE, &body)
}

/// The picture with its controls, tables and data, for any page that has [`STYLE`].
pub(crate) fn picture(shown: &[Shown<'_>]) -> Markup {
    let embedded: Vec<(String, String)> = shown.iter().map(embed::embed).collect();
    html! {
        (controls())
        (legend(shown))
        div #view role="application" aria-label="Timeline. Arrow keys move and zoom; question mark lists all keys." tabindex="0" {
            noscript { p { "The picture needs JavaScript; the totals below do not." } }
        }
        section.part #details aria-live="polite" { p.faint { "Click on a lane: what the thread did there, and who touched the page." } }
        section.part #summary {}
        @for one in shown { (totals(one, shown.len() > 1)) }
        div #tip role="tooltip" hidden {}
        (keys())
        @for (index, (about, bytes)) in embedded.iter().enumerate() {
            script type="application/json" id={ "about-" (index) } { (PreEscaped(about)) }
            script type="application/octet-stream" id={ "bytes-" (index) } { (PreEscaped(bytes)) }
        }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// The lanes as JSON. Times are ns. `columns` names the fields of arrays.
pub fn json(shown: &[Shown<'_>]) -> String {
    let run = |one: &Shown<'_>| {
        let mut value = serde_json::to_value(one.timeline).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("file".into(), one.name.into());
            fields.insert("stacks".into(), one.labels().into());
        }
        value
    };
    let columns = json!({
        "spans": ["length_ns", "state"],
        "faults": ["time_ns", "duration_ns", "addr", "class"],
        "lock_waits": ["end_ns", "wait_ns", "write"],
        "cpu": ["time_ns", "stack"],
        "recorded": ["begin_ns", "end_ns"],
        "totals_ns": State::ALL,
    });
    let runs: Vec<Value> = shown.iter().map(run).collect();
    json!({ "schema": 1, "columns": columns, "runs": runs }).to_string() + "\n"
}

/// The styles of the picture.
pub(crate) const STYLE: &str = include_str!("timeline/page.css");
const SCRIPT: &str = concat!(
    "(() => {\n'use strict';\n",
    include_str!("timeline/data.js"),
    include_str!("timeline/draw.js"),
    include_str!("timeline/look.js"),
    include_str!("timeline/page.js"),
    "})();\n"
);

/// The name of a state, and its meaning.
fn words(state: State) -> (&'static str, &'static str) {
    match state {
        State::Running => ("computing", "on a processor, in no page fault"),
        State::Minor => ("minor fault", "in a page fault that needs no I/O"),
        State::Major => ("major fault", "in a page fault that needs I/O, on a processor"),
        State::Blocked => ("blocked in a fault", "in a page fault, waiting for a lock, I/O or memory"),
        State::Waiting => {
            ("waiting", "without a processor by its own wish; being woken until it runs is part of it")
        }
        State::Preempted => ("preempted", "able to run, without a processor"),
        State::Unrecorded => {
            ("running, faults not recorded", "on a processor; what of it is faults is estimated from samples")
        }
        State::Unknown => ("unknown", "nothing tells"),
    }
}

fn state_name(state: State) -> &'static str {
    words(state).0
}

fn time(ns: u64) -> Nanos {
    Nanos(ns as f64)
}

fn percent(part: u64, whole: u64) -> Percent {
    Percent(part as f64 / whole.max(1) as f64)
}

/// Time of all threads in a state, ns.
fn in_state(timeline: &Timeline, state: State) -> u64 {
    timeline.lanes.iter().map(|lane| lane.totals_ns[state as usize]).sum()
}

/// The first sentence of the page.
pub(crate) fn answer(timeline: &Timeline) -> Markup {
    let all = timeline.spent();
    let shared: u64 = timeline.processes.iter().map(|process| process.shared_ns).sum();
    let (threads, processes) = (timeline.lanes.len() as u64, timeline.processes.len() as u64);
    let whose = if threads == 1 { "its" } else { "their" };
    html! {
        (time(timeline.end_ns - timeline.begin_ns)) ", " (Count(threads).of("thread"))
        @if processes > 1 { " in " (Count(processes).of("process")) }
        ": "
        strong { (Nanos(timeline.fault_ns)) " in " (Count(timeline.faults).of("page fault")) (crate::text::and_waits(timeline.wait_ns)) }
        @if let Some(lost) = &timeline.lost { "; " strong { (lost) } }
        @if all.life_ns() > 0 { ". Of " (whose) " " (time(all.life_ns())) " of life: " (in_words(timeline, &all)) }
        @if shared > 0 {
            "; during " (time(shared))
            @if is_estimated(timeline) { " of the part in which every fault was recorded," }
            " two or more threads of a process were in faults at once"
        }
        "."
        @if let Some(selected) = &timeline.selected { " " (selected::sentence(selected)) }
        span.faint { " " (crate::text::command(&timeline.command)) }
        @for note in &timeline.notes { span.note { (note) } }
    }
}

/// Faults were not recorded all the time.
fn is_estimated(timeline: &Timeline) -> bool {
    in_state(timeline, State::Unrecorded) > 0
}

/// `34 % in faults (estimated), 4 % computing, 11 % waiting, 51 % preempted`
fn in_words(timeline: &Timeline, parts: &Spent) -> String {
    let is_estimated = is_estimated(timeline);
    // A view of some faults knows nothing of the others.
    let (faults, otherwise) = match &timeline.selected {
        Some(_) => ("in these faults", "computing or in other faults"),
        None if is_estimated => ("in faults (estimated)", "computing"),
        None => ("in faults", "computing"),
    };
    let words = shown_parts(parts).map(|(part, name)| {
        let name = match part {
            Part::Faults => faults,
            Part::Computing => otherwise,
            Part::Managing => "giving memory back (from samples)",
            _ => name,
        };
        format!("{} {name}", percent(parts.of(part), parts.life_ns()))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The parts that lives were spent on, and their names. Faults are shown if there were none, too.
pub(crate) fn shown_parts(all: &Spent) -> impl Iterator<Item = (Part, &'static str)> {
    let parts = [
        (Part::Faults, "in faults"),
        (Part::Blocked, "blocked in faults"),
        (Part::Managing, "giving memory back"),
        (Part::Computing, "computing"),
        (Part::Waiting, "waiting"),
        (Part::Preempted, "preempted"),
        (Part::Unknown, "unknown"),
    ];
    parts.into_iter().filter(|&(part, _)| part == Part::Faults || all.of(part) > 0)
}

fn controls() -> Markup {
    html! {
        div.controls {
            input #search type="search" placeholder="function, mapping, kind or thread" aria-label="Search";
            span #found.faint aria-live="polite" {}
            button #previous title="Previous match (N)" { "\u{2039}" }
            button #next title="Next match (n or Enter)" { "\u{203a}" }
            span.gap {}
            button #closer title="Zoom in (+)" { "+" }
            button #wider title="Zoom out (\u{2212})" { "\u{2212}" }
            button #all title="Everything (0)" { "all" }
            button #help title="Keys (?)" { "?" }
        }
    }
}

fn legend(shown: &[Shown<'_>]) -> Markup {
    let used = |state: &State| shown.iter().any(|one| in_state(one.timeline, *state) > 0);
    html! {
        div.legend {
            @for state in State::ALL.into_iter().filter(used) {
                span title=(words(state).1) { i.(format!("s{}", state as usize)) {} (state_name(state)) }
            }
            @if shown.iter().any(|one| one.timeline.lanes.iter().any(|lane| !lane.lock_waits.is_empty())) {
                span title="waiting for the lock of the address space, as mmap, munmap, brk, mprotect and madvise do, and faults in older kernels" { i.lock {} "mmap_lock wait" }
            }
            @if shown.iter().any(|one| one.timeline.classes.iter().any(|class| class.in_flight == 0)) {
                span title="estimated from sampled faults, each standing for many" { i.estimate {} "faults, from samples" }
            }
            @if shown.iter().any(|one| one.timeline.lanes.iter().any(|lane| lane.managing > 0)) {
                span title="munmap, madvise, mmap, brk: samples of the CPU clock, on the thin line below a lane" { i.manage {} "giving memory back, sampled" }
            }
            span title="what was searched for" { i.match_ {} "match" }
        }
    }
}

fn totals(one: &Shown<'_>, is_named: bool) -> Markup {
    let timeline = one.timeline;
    let all = timeline.spent();
    let columns: Vec<_> = shown_parts(&all).collect();
    let row = |name: &str, whose: &str, faults: u64, parts: &Spent| {
        html! {
            tr {
                td { (name) small { (whose) } }
                td.right data-name="life:" { (time(parts.life_ns())) }
                td.right data-name="faults:" { (Count(faults)) }
                @for &(part, name) in &columns {
                    td.right data-name={ (name) ":" } { (time(parts.of(part))) small { (percent(parts.of(part), parts.life_ns())) } }
                }
            }
        }
    };
    let of_group = |group: &Group| {
        let (faults, parts) = group.sums(timeline);
        let whose = match group.lanes[..] {
            [lane] => format!("{}/{}", timeline.lanes[lane].pid, timeline.lanes[lane].tid),
            _ => format!("{} threads", group.lanes.len()),
        };
        row(&group.name, &whose, faults, &parts)
    };
    let mut sharers: Vec<_> = timeline.processes.iter().filter(|process| process.most > 1).collect();
    sharers.sort_by_key(|process| std::cmp::Reverse(process.shared_ns));
    let id = format!("totals-{}", one.name.chars().filter(char::is_ascii_alphanumeric).collect::<String>());
    html! {
        section.part {
            h2 { "Time by thread" @if is_named { ": " (one.name) } }
            div.scroll {
                table.figures.cards id=(id) {
                    thead {
                        tr {
                            th { "thread" } th.right { "life" } th.right { "faults" }
                            @for (_, name) in &columns { th.right { (name) } }
                        }
                    }
                    tbody {
                        (row("all threads", &timeline.lanes.len().to_string(), timeline.faults, &all))
                        @for group in &groups(timeline) { (of_group(group)) }
                        @if timeline.elsewhere.0 > 0 {
                            tr {
                                td { "in no thread" small { "kernel mode, populated" } }
                                td {}
                                td.right data-name="faults:" { (Count(timeline.elsewhere.0)) }
                                td.right data-name="in faults:" { (Nanos(timeline.elsewhere.1)) }
                                @for _ in &columns[1..] { td {} }
                            }
                        }
                    }
                }
            }
            p.faint {
                "Time in faults is corrected, estimated where faults were not recorded one by one, and for the whole run"
                @if timeline.offset_ns > 0.0 { ": each recorded fault is read " (time(timeline.offset_ns as u64)) " too long" }
                ". The other columns are what is left of the thread's life."
                @for process in sharers.iter().take(SHARERS_SHOWN) {
                    " Of " (time(process.fault_ns)) " in which threads of " (process.name) " (" (process.pid) ") were in faults, there were two or more during "
                    (time(process.shared_ns)) ", " (process.most) " at most."
                }
            }
        }
    }
}

fn keys() -> Markup {
    let keys = [
        ("wheel, pinch, + \u{2212}, w s", "zoom"),
        ("drag, \u{2190} \u{2192}, a d, shift and wheel", "move"),
        ("drag in the strip on top", "look at that part"),
        ("shift and drag", "select a time; the summary is about it"),
        ("click", "what is there, with its stack"),
        ("double click", "zoom in there"),
        ("0", "everything"),
        ("/", "search"),
        ("n, N", "next, previous match"),
        ("Escape", "selection and search away"),
    ];
    html! {
        dialog #keys aria-label="Keys" {
            h2 { "Keys" }
            dl { @for (key, what) in keys { dt { (key) } dd { (what) } } }
            p.faint {
                "Zoomed out, every column shows the share of each state; faults lie at the bottom and never vanish. \
                 The thin line below a lane: purple where the thread waited for mmap_lock, dots for samples of the CPU clock."
            }
            form method="dialog" { button { "close" } }
        }
    }
}
