//! The page of a difference: rows filtered by class, searched by words, sorted by a click on a column head.

use faultless_trace::diff::{Class, Diff, DiffRow, Pair, Side};
use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::stat::Interval;
use maud::{Markup, PreEscaped, html};

use super::{answer, change, machine, major, nanos, number, reading, shown, timed, why};
use crate::frame;
use crate::table::words;
use crate::text::{self, plain};

/// A browser sorts and searches this many rows at once.
const MOST_ROWS: usize = 5000;

/// Sorts by a column's numbers, largest first. A second click reverses the order.
const SCRIPT: &str = "document.querySelectorAll('th[data-at]').forEach(h=>{const go=()=>{\
const b=h.closest('table').tBodies[0],n=+h.dataset.at,up=h.getAttribute('aria-sort')==='descending';\
h.parentNode.querySelectorAll('th').forEach(o=>o.removeAttribute('aria-sort'));\
h.setAttribute('aria-sort',up?'ascending':'descending');\
const k=r=>{const v=r.cells[n].dataset.value;return v===undefined?r.cells[n].textContent:+v};\
[...b.rows].sort((x,y)=>{const p=k(x),q=k(y),d=typeof p==='number'?q-p:p.localeCompare(q);return up?-d:d})\
.forEach(r=>b.appendChild(r))};\
h.addEventListener('click',go);h.addEventListener('keydown',e=>{if(e.key==='Enter'||e.key===' '){e.preventDefault();go()}})});";

/// Names have all the room that the figures leave, on a page wider than others.
const STYLES: &str = "main{max-width:1800px}th[data-at]{cursor:pointer}th[aria-sort=descending]::after{content:' \\2193'}\
th[aria-sort=ascending]::after{content:' \\2191'}td:last-child{width:100%}\
#rows td:last-child{white-space:normal;min-width:280px;overflow-wrap:anywhere}\
.added .verdict,.grown .verdict{color:var(--bad);background:var(--bad-ground)}\
.removed .verdict,.shrunk .verdict{color:var(--good);background:var(--good-ground)}\
.unchanged .verdict{color:var(--none);background:var(--none-ground)}#class-changed:checked~* tr.unchanged{display:none}";

/// A page with all rows, or the largest 5000 of them.
pub fn html(diff: &Diff) -> String {
    let changed = diff.rows.len() - diff.count(Class::Unchanged);
    let mut choices =
        vec![("changed", format!("changed {changed}")), ("all", format!("all {}", diff.rows.len()))];
    choices.extend(Class::ALL.map(|class| (class.word(), format!("{} {}", class.word(), diff.count(class)))));
    let first = usize::from(changed == 0);
    let body = html! {
        header {
            h1 { "What changed in page faults" }
            p.lead { (unbroken(&answer(diff))) }
            @if !diff.warnings.is_empty() {
                div.alarm { @for sentence in &diff.warnings { p { strong { "Warning: " } (unbroken(sentence)) } } }
            }
            @for sentence in [shown(diff), major(diff), machine(diff), reading(diff)].into_iter().flatten() { p.faint { (unbroken(&sentence)) } }
        }
        section.part { h2 { "The recordings" } (recordings(diff)) }
        section.part id="rows" {
            h2 { (title(diff)) }
            (frame::filter("class", &choices, first))
            input type="search" hidden placeholder="words that a row must have" aria-label="words that a row must have"
                data-of="rows";
            div.scroll { (table(diff)) }
            @if diff.rows.len() > MOST_ROWS {
                p.faint { "The largest " (MOST_ROWS) " of " (diff.rows.len()) " rows; the JSON document has all." }
            }
        }
        script { (PreEscaped(SCRIPT)) }
    };
    let one = |class: Class| {
        let word = class.word();
        format!("#class-{word}:checked~* tr.row:not(.{word}){{display:none}}")
    };
    let styles = STYLES.to_owned() + &Class::ALL.map(one).concat();
    frame::document("faultless diff", &styles, &body)
}

/// Keeps a number on one line with its unit and all its digits.
fn unbroken(sentence: &str) -> String {
    let words: Vec<String> = words(sentence).into_iter().map(|word| word.replace(' ', "\u{a0}")).collect();
    words.join(" ")
}

fn title(diff: &Diff) -> String {
    let noun = diff.by.noun(2);
    noun[..1].to_uppercase() + &noun[1..]
}

fn recordings(diff: &Diff) -> Markup {
    let sides =
        diff.before.iter().map(|side| ("before", side)).chain(diff.after.iter().map(|side| ("after", side)));
    html! {
        div.scroll {
            table.figures {
                thead { tr { th { "" } th.right { "faults" } th.right { "CPU time in them" } th.right { "major faults" } th.right { "waits for the disk" } th { "command" } } }
                tbody {
                    @for (which, Side { command, faults, time_ns, major, major_ns }) in sides {
                        tr {
                            td { (which) }
                            td.right { (Count(faults.round() as u64)) }
                            (figure(time_ns, nanos))
                            td.right { (Count(major.round() as u64)) }
                            td.right { (Nanos(*major_ns)) }
                            td.cell { code { (text::command(command)) } }
                        }
                    }
                }
            }
        }
    }
}

fn table(diff: &Diff) -> Markup {
    let heads = [
        "",
        "time before",
        "after",
        "difference",
        "faults before",
        "after",
        "difference",
        "of the whole",
        diff.by.noun(1),
    ];
    html! {
        table.figures {
            thead {
                tr {
                    @for (at, head) in heads.iter().enumerate() {
                        th.right[(1..8).contains(&at)] data-at=(at) tabindex="0" title="sort" { (head) @if at == 0 { "class" } }
                    }
                }
            }
            tbody { @for row in diff.rows.iter().take(MOST_ROWS) { (line(row)) } }
        }
    }
}

fn line(row: &DiffRow) -> Markup {
    let time = |interval: &Interval| figure(interval, |ns| timed(row, nanos(ns)));
    let count = |interval: &Interval| figure(interval, number);
    let difference = |pair: &Pair, text: String| {
        let (text, spread) =
            text.split_once(" ± ").map_or((text.as_str(), None), |(text, half)| (text, Some(half)));
        html! {
            td.right data-value=(format!("{:.0}", pair.difference.value)) {
                @if pair.significant { strong { (text) } } @else { (text) }
                @if let Some(half) = spread { small { "± " (half) } }
            }
        }
    };
    html! {
        tr.row.(row.class.word()) {
            td { span.verdict { (row.class.word()) } @if let Some(cause) = row.cause { small { (why(row.class, cause)) } } }
            (time(&row.time_ns.before)) (time(&row.time_ns.after)) (difference(&row.time_ns, timed(row, change(&row.time_ns, nanos))))
            (count(&row.faults.before)) (count(&row.faults.after)) (difference(&row.faults, change(&row.faults, number)))
            td.right data-value=(format!("{:.6}", row.share)) { (Percent(row.share)) }
            td { code { (plain(&row.name)) } }
        }
    }
}

fn figure(interval: &Interval, show: impl Fn(f64) -> String) -> Markup {
    let half = 0.5 * (interval.high - interval.low);
    html! {
        td.right data-value=(format!("{:.0}", interval.value)) {
            (show(interval.value))
            @if half > 0.0 { small { "± " (show(half)) } }
        }
    }
}
