//! How many claims of a record have each verdict, and on how many figures they rest.
//!
//! In: claims and results. Out: lines of text. Claims that rest on the same samples are one figure: a ratio and its
//! inverse, or a row of a document's table for each of three machines.

use std::collections::BTreeSet;

use faultless_trace::verdict::Verdict;

use super::claim::Claim;
use super::need::Need;
use crate::results::Results;

/// `claims reproduced: 60; they rest on distinct figures: 50`, and the same of the other verdicts. Of those without a
/// verdict: how many only lack a narrower interval.
pub fn tally(claims: &[Claim], results: &Results) -> String {
    let found: Vec<(Verdict, String)> =
        claims.iter().map(|claim| (claim.judge(results).verdict, claim.figure(results))).collect();
    let line = |verdict: Verdict| {
        let of_verdict = || found.iter().filter(|(own, _)| *own == verdict);
        let count = of_verdict().count();
        let figures = of_verdict().map(|(_, figure)| figure).collect::<BTreeSet<_>>().len();
        let words = verdict.words();
        match verdict {
            _ if count == 0 => String::new(),
            Verdict::CannotSay => format!("claims {words}: {count}{}\n", wide(claims, results)),
            _ => format!("claims {words}: {count}; they rest on distinct figures: {figures}\n"),
        }
    };
    Verdict::ALL.map(line).concat()
}

/// Of how many claims the interval reaches across a bound, and how many of these no four times the rounds would decide.
fn wide(claims: &[Claim], results: &Results) -> String {
    let is_open = |claim: &&Claim| claim.judge(results).verdict == Verdict::CannotSay;
    let needs: Vec<Need> = claims.iter().filter(is_open).filter_map(|claim| claim.need(results)).collect();
    let hopeless = needs.iter().filter(|need| need.is_hopeless()).count();
    match needs.len() {
        0 => String::new(),
        count => format!(
            "; for want of a narrower interval: {count}, of which four times the rounds would not decide {hopeless}"
        ),
    }
}
