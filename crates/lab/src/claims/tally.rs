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
    let judged = |claim: &Claim| {
        let (finding, need) = claim.judge_and_need(results);
        (finding.verdict, claim.figure(results), need)
    };
    let found: Vec<(Verdict, String, Option<Need>)> = claims.iter().map(judged).collect();
    let line = |verdict: Verdict| {
        let of_verdict = || found.iter().filter(|(own, ..)| *own == verdict);
        let count = of_verdict().count();
        let figures = of_verdict().map(|(_, figure, _)| figure).collect::<BTreeSet<_>>().len();
        let words = verdict.words();
        match verdict {
            _ if count == 0 => String::new(),
            Verdict::CannotSay => {
                format!(
                    "claims {words}: {count}{}\n",
                    wide(of_verdict().filter_map(|(.., need)| need.as_ref()))
                )
            }
            _ => format!("claims {words}: {count}; they rest on distinct figures: {figures}\n"),
        }
    };
    Verdict::ALL.map(line).concat()
}

/// Of how many claims the interval reaches across a bound, and how many of these no four times the rounds would decide.
fn wide<'a>(open: impl Iterator<Item = &'a Need>) -> String {
    let hopeless: Vec<bool> = open.map(Need::is_hopeless).collect();
    match hopeless.len() {
        0 => String::new(),
        count => format!(
            "; for want of a narrower interval: {count}, of which four times the rounds would not decide {}",
            hopeless.iter().filter(|is_hopeless| **is_hopeless).count()
        ),
    }
}
