//! One page with everything about a recording: the answer, where the time went, what to do, tables, flame graph, timeline, and the
//! curve of what is avoidable. It loads nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use faultless_trace::Stat;
use faultless_trace::diff::Run;
use faultless_trace::filter::Filter;
use faultless_trace::findings::{Findings, Table};
use faultless_trace::timeline::Timeline;
use maud::{Markup, PreEscaped, html};

use super::{section, sentence, went};
use crate::flame::{self, Measure, Settings};
use crate::palette::Palette;
use crate::stat::{kernel_lines, verdict_lines};
use crate::table::WIDTH;
use crate::text::{self, plain};
use crate::timeline::{self, Shown};
use crate::{frame, selected, svg, why};

const STYLES: &str = "main{max-width:1280px}.flame{display:block;width:100%;border:0}\
@media (min-width:641px){.sites td:last-child{white-space:normal;overflow-wrap:anywhere;width:100%;min-width:220px}}\
@media (max-width:640px){.sites td:last-child{display:block}}\
.mechanism{margin:10px 0}.mechanism p{margin:2px 0}.curve svg{max-width:100%;height:auto}";

/// The page. `run` holds what the filter selects; the findings are of the same recording and filter.
pub fn html(run: &Run, findings: &Findings, filter: &Filter) -> String {
    let timeline = Timeline::of(&run.recording, &run.profile, filter);
    let shown = [Shown { name: "run", timeline: &timeline, stacks: &run.recording.stacks }];
    let stat = Stat::from_observation(&run.recording.observation);
    let has_curve = stat.avoidable.as_ref().is_some_and(|curve| !curve.points.is_empty());
    let body = html! {
        header {
            h1 { "Page faults of " (text::command(&findings.command)) }
            p.lead { (sentence::answer(findings)) }
            @if let Some(selected) = &findings.selected { p { strong { (selected::sentence(selected)) } } }
            @if !findings.notes.is_empty() {
                details { summary { "Notes" } @for note in &findings.notes { p.faint { (plain(note)) } } }
            }
        }
        (went::picture(&timeline, findings))
        (mechanisms(findings))
        @for one in &findings.tables { (table(findings, one)) }
        (flame_graph(run))
        @if has_curve && findings.selected.is_none() {
            section.part.curve { h2 { "What is avoidable" } (PreEscaped(svg::avoidable(&stat))) }
        }
        (waiting(findings))
        section.part {
            h2 { "Where the threads' time goes" }
            p.answer { (timeline::answer(&timeline)) }
        }
        (timeline::picture(&shown))
    };
    // The page's own styles come last: the timeline's own page is as wide as the screen.
    let styles = timeline::STYLE.to_owned() + STYLES + went::STYLE;
    frame::document("faultless report", &styles, &body)
}

fn mechanisms(findings: &Findings) -> Markup {
    let next = section::next(findings, WIDTH);
    html! {
        @if !findings.mechanisms.is_empty() {
            section.part {
                h2 { "Why" }
                @for mechanism in &findings.mechanisms {
                    div.mechanism {
                        strong { (plain(&mechanism.what)) ": " (why::cost(mechanism, why::whole(findings.cpu_ns))) }
                        @for (name, text) in why::evidence(mechanism) { p.faint { (name) ": " (text) } }
                        @for cure in &mechanism.cures { p { code { (plain(&cure.how)) } " " (why::gain(cure)) } }
                    }
                }
                @if !next.is_empty() { p { "Next: " (next.join("; ")) } }
            }
        }
    }
}

fn table(findings: &Findings, table: &Table) -> Markup {
    let sites = &table.sites;
    if sites.rows.is_empty() {
        return html! {};
    }
    let (nothing, shown) = section::negligible(sites);
    let cells = section::cells(table, &shown);
    let last = cells[0].len() - 1;
    html! {
        section.part {
            h2 { (section::title(sites.by, findings)) }
            div.scroll {
                table.figures.cards.sites {
                    thead { tr { @for (at, head) in cells[0].iter().enumerate() { th.right[at < last] { (head) } } } }
                    tbody {
                        @for line in &cells[1..] {
                            tr {
                                @for (at, cell) in line.iter().enumerate() {
                                    td.right[at < last] data-name={ (cells[0][at]) ":" } {
                                        @if at == last { code { (cell) } } @else { (cell.trim()) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @for line in section::rests(table, &nothing) { p.faint { "and " (line) } }
        }
    }
}

/// As a document of its own inside the page: its script and the page's don't meet.
fn flame_graph(run: &Run) -> Markup {
    let draw = |measure| flame::svg(run, Settings { measure, ..Settings::default() });
    let Some(picture) = draw(Measure::Time).or_else(|| draw(Measure::Faults)) else { return html! {} };
    html! {
        section.part {
            h2 { "Who touched" }
            object.flame type="image/svg+xml" aria-label="Flame graph"
                data={ "data:image/svg+xml;base64," (STANDARD.encode(picture)) } {}
        }
    }
}

fn waiting(findings: &Findings) -> Markup {
    let palette = Palette(false);
    let mut lines = match findings.faults {
        0 => Vec::new(),
        _ => verdict_lines(&findings.serialisation, palette, WIDTH),
    };
    lines.extend(
        findings.kernel.as_ref().map_or_else(Vec::new, |kernel| kernel_lines(kernel, palette, WIDTH)),
    );
    html! {
        @if !lines.is_empty() { section.part { h2 { "Waiting and the kernel" } pre { (lines.join("\n")) } } }
    }
}
