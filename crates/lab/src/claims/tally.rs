//! How many claims of a record have each verdict, and on how many figures they rest.
//!
//! In: claims and results. Out: lines of text. Claims that rest on the same samples are one figure: a ratio and its
//! inverse, or a row of a document's table for each of three machines.

use std::collections::BTreeSet;

use faultless_trace::verdict::Verdict;

use super::claim::Claim;
use crate::results::Results;

/// `60 claims reproduced, which rest on 50 distinct figures`, and the same of the other verdicts.
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
            Verdict::CannotSay => format!("claims {words}: {count}\n"),
            _ => format!("claims {words}: {count}; they rest on distinct figures: {figures}\n"),
        }
    };
    Verdict::ALL.map(line).concat()
}
