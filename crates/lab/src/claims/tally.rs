//! How many claims of a record have each verdict, and on how many figures they rest.
//!
//! In: claims and results. Out: lines of text. Claims that rest on the same samples are one figure: a ratio and its
//! inverse, or a row of a document's table for each of three machines.

use std::collections::BTreeSet;

use faultless_trace::verdict::Verdict;

use super::claim::{Claim, Judge};
use super::finding::{Finding, MORE_ROUNDS};
use crate::results::Results;

/// `claims reproduced: 60; they rest on distinct figures: 50`, and the same of the other verdicts. Of those without a
/// verdict: how many for which reason.
pub fn tally(claims: &[Claim], results: &Results) -> String {
    let judged = |claim: &Claim| {
        let finding = claim.judge(results);
        (finding.verdict, claim.figure(results), Reason::of(claim, &finding))
    };
    let found: Vec<(Verdict, String, Reason)> = claims.iter().map(judged).collect();
    let line = |verdict: Verdict| {
        let of_verdict = || found.iter().filter(|(own, ..)| *own == verdict);
        let count = of_verdict().count();
        let figures = of_verdict().map(|(_, figure, _)| figure).collect::<BTreeSet<_>>().len();
        let words = verdict.words();
        match verdict {
            _ if count == 0 => String::new(),
            Verdict::CannotSay => {
                let of = |reason: Reason, words: &str| match of_verdict()
                    .filter(|(.., own)| *own == reason)
                    .count()
                {
                    0 => String::new(),
                    count => format!("; {words}: {count}"),
                };
                format!(
                    "claims {words}: {count}{}{}{}{}\n",
                    of(Reason::NotComparable, "not comparable"),
                    of(Reason::NotMeasured, "measured by no experiment"),
                    of(Reason::Lacking, "for want of processors, settings or samples"),
                    of(Reason::Wide, "for want of a narrower interval")
                )
            }
            _ => format!("claims {words}: {count}; they rest on distinct figures: {figures}\n"),
        }
    };
    Verdict::ALL.map(line).concat()
}

/// Why a claim has no verdict.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    /// It speaks of another machine or program.
    NotComparable,
    /// No experiment measures it.
    NotMeasured,
    /// The machine or the record lacks what decides.
    Lacking,
    /// Its interval reaches across a bound.
    Wide,
}

impl Reason {
    fn of(claim: &Claim, finding: &Finding) -> Self {
        match claim.rules.judge {
            _ if finding.why.contains(MORE_ROUNDS) => Self::Wide,
            Judge::NotMeasured => Self::NotMeasured,
            Judge::NotComparable(_) if !finding.ours.is_empty() => Self::NotComparable,
            _ => Self::Lacking,
        }
    }
}
