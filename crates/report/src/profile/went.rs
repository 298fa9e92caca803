//! The picture that opens the page: what the processor time went to, and what the threads did.
//!
//! In: a timeline and the findings of the same recording. Out: bars of HTML; their widths are shares. It decides nothing.

use faultless_trace::findings::Findings;
use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::timeline::{Part, Spent, Timeline};
use maud::{Markup, html};

use crate::text::plain;
use crate::timeline::groups::{Group, groups};
use crate::timeline::shown_parts;
use crate::tuning::GROUPS_DRAWN;

pub(super) const STYLE: &str = "\
.went .bar{display:flex;height:22px;border-radius:5px;overflow:hidden;print-color-adjust:exact;-webkit-print-color-adjust:exact}\
.went .all{height:44px;margin:10px 0}.went .bar span{flex-basis:0;min-width:1px}\
.went ul{list-style:none;padding:0;margin:0 0 14px}.went li{margin:3px 0}\
.went .groups{display:grid;grid-template-columns:minmax(90px,max-content) 1fr;gap:6px 12px;align-items:center;font-size:14px}\
.went .groups div:nth-child(odd){overflow-wrap:anywhere}.went .legend{margin-top:10px}";

/// What time went to.
struct Piece {
    name: String,
    colour: String,
    ns: f64,
}

/// The section; nothing if no time is known, or of a part of the run.
pub(super) fn picture(timeline: &Timeline, findings: &Findings) -> Markup {
    let all = timeline.spent();
    let pieces = on_processor(&all, findings);
    let sum_ns: f64 = pieces.iter().map(|piece| piece.ns).sum();
    if sum_ns <= 0.0 || findings.selected.is_some() {
        return html! {};
    }
    let rows = rows(timeline);
    html! {
        section.part.went {
            h2 { "Where the processor time went" }
            div.bar.all role="img" aria-label="The list below as a bar" { @for piece in &pieces { (span(piece)) } }
            ul {
                @for piece in &pieces {
                    li {
                        i.chip style={ "background:" (piece.colour) } {}
                        b { (Percent(piece.ns / sum_ns)) } " " (piece.name) " " span.faint { (Nanos(piece.ns)) }
                    }
                }
            }
            @if !rows.is_empty() {
                p.faint { "By threads, with the time in which they did not run:" }
                div.groups {
                    @for (name, spent) in &rows {
                        div { (plain(name)) " " span.faint { (Nanos(spent.life_ns() as f64)) } }
                        div.bar { @for piece in of_life(spent) { (span(&piece)) } }
                    }
                }
                div.legend {
                    @for piece in of_life(&all) { span { i.chip style={ "background:" (piece.colour) } {} (piece.name) } }
                }
            }
        }
    }
}

fn span(piece: &Piece) -> Markup {
    html! {
        span style=(format!("flex-grow:{:.0};background:{}", piece.ns, piece.colour))
            title={ (piece.name) ": " (Nanos(piece.ns)) } {}
    }
}

/// Computing; faults by mechanism, and the others; giving memory back.
fn on_processor(all: &Spent, findings: &Findings) -> Vec<Piece> {
    let piece = |part, name: &str, ns: f64| Piece { name: name.into(), colour: colour(part), ns };
    let in_faults_ns = findings.time_ns.map_or(0.0, |time| time.value);
    let giving_ns = findings.giving_ns.unwrap_or(all.of(Part::Managing) as f64);
    let computing_ns = (findings.cpu_ns as f64 - in_faults_ns - giving_ns).max(0.0);
    let known: Vec<(&str, f64)> = findings
        .mechanisms
        .iter()
        .map(|one| (one.what.as_str(), (one.fault_ns.value - one.fault_wait_ns).max(0.0)))
        .filter(|(_, ns)| *ns > 0.0)
        .collect();
    let sum_ns: f64 = known.iter().map(|(_, ns)| ns).sum();
    // Estimates of parts may exceed the one of the whole.
    let scale = if sum_ns > in_faults_ns { in_faults_ns / sum_ns } else { 1.0 };
    let shade = |at: usize| 100 * (known.len() - at) / known.len().max(1);
    let mut pieces = vec![piece(Part::Computing, "computing", computing_ns)];
    pieces.extend(known.iter().enumerate().map(|(at, (what, ns))| Piece {
        name: format!("in faults: {}", plain(what)),
        colour: format!("color-mix(in srgb,var(--s1) {}%,var(--s2))", shade(at)),
        ns: ns * scale,
    }));
    let name = if known.is_empty() { "in faults" } else { "in other faults" };
    let others_ns = in_faults_ns - sum_ns * scale;
    pieces.push(Piece { name: name.into(), colour: "var(--estimate)".into(), ns: others_ns });
    pieces.push(piece(Part::Managing, "giving memory back", giving_ns));
    // Less than a thousandth can't be seen.
    let least_ns = pieces.iter().map(|piece| piece.ns).sum::<f64>() / 1000.0;
    pieces.retain(|piece| piece.ns > least_ns);
    pieces
}

fn of_life(spent: &Spent) -> Vec<Piece> {
    let mut parts: Vec<_> = shown_parts(spent).filter(|(part, _)| spent.of(*part) > 0).collect();
    // As in the bar above.
    parts.sort_by_key(|(part, _)| *part != Part::Computing);
    let piece = |(part, name): (Part, &str)| Piece {
        name: name.into(),
        colour: colour(part),
        ns: spent.of(part) as f64,
    };
    parts.into_iter().map(piece).collect()
}

fn colour(part: Part) -> String {
    let name = match part {
        Part::Computing => "s0",
        Part::Faults => "s1",
        Part::Blocked => "s3",
        Part::Managing => "manage",
        Part::Waiting => "s4",
        Part::Preempted => "s5",
        Part::Unknown => "s7",
    };
    format!("var(--{name})")
}

/// Groups of threads that were on a processor most, and the others together; none of a single group.
fn rows(timeline: &Timeline) -> Vec<(String, Spent)> {
    let sums = |group: Group| (group.sums(timeline).1, group);
    let mut rows: Vec<(Spent, Group)> = groups(timeline).into_iter().map(sums).collect();
    if rows.len() < 2 {
        return Vec::new();
    }
    let on_ns = |spent: &Spent| spent.of(Part::Computing) + spent.of(Part::Faults) + spent.of(Part::Managing);
    rows.sort_by_key(|(spent, _)| std::cmp::Reverse(on_ns(spent)));
    // Less than a hundredth says nothing of the program.
    let least_ns = rows.iter().map(|(spent, _)| on_ns(spent)).sum::<u64>() / 100;
    let large = rows.iter().take_while(|(spent, _)| on_ns(spent) >= least_ns).count();
    let rest = rows.split_off(large.clamp(1, GROUPS_DRAWN));
    let threads = |group: &Group| group.lanes.len();
    let name = |group: &Group| match threads(group) {
        1 => group.name.clone(),
        many => format!("{}, {many} threads", group.name),
    };
    let mut shown: Vec<(String, Spent)> = rows.iter().map(|(spent, group)| (name(group), *spent)).collect();
    if !rest.is_empty() {
        let count: usize = rest.iter().map(|(_, group)| threads(group)).sum();
        shown.push((Count(count as u64).of("other thread"), rest.iter().map(|(spent, _)| *spent).sum()));
    }
    shown
}

#[cfg(test)]
mod tests {
    use faultless_trace::findings::Wanted;
    use faultless_trace::measurement::Interval;
    use faultless_trace::recording::Recording;
    use faultless_trace::why::Mechanism;

    use super::*;

    fn shares(mechanisms: &[f64]) -> Vec<(String, f64)> {
        let mut findings = Findings::new(&Recording::default(), &Wanted::default()).unwrap();
        findings.mechanisms = mechanisms
            .iter()
            .map(|&ns| Mechanism {
                what: "grows".into(),
                fault_ns: Interval { low: ns, value: ns, high: ns },
                ..Mechanism::default()
            })
            .collect();
        findings.cpu_ns = 1000;
        findings.time_ns = Some(Interval { low: 300.0, value: 400.0, high: 500.0 });
        let mut spent = Spent::default();
        spent.0[Part::Managing as usize] = 100;
        spent.0[Part::Waiting as usize] = 9000;
        on_processor(&spent, &findings).into_iter().map(|piece| (piece.name, piece.ns)).collect()
    }

    #[test]
    fn pieces_add_up_to_the_processor_time() {
        let named = |name: &str, ns: f64| (name.to_owned(), ns);
        let around = [named("computing", 500.0), named("giving memory back", 100.0)];
        let [begin, end] = around;
        assert_eq!(shares(&[]), [begin.clone(), named("in faults", 400.0), end.clone()]);
        let grows = |ns| named("in faults: grows", ns);
        let parts = [begin.clone(), grows(300.0), named("in other faults", 100.0), end.clone()];
        assert_eq!(shares(&[300.0]), parts);
        // Two estimates that exceed the whole.
        assert_eq!(shares(&[600.0, 200.0]), [begin, grows(300.0), grows(100.0), end]);
    }
}
