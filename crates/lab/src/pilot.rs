//! Rounds by claims: an earlier record and the claims -> how often each cell is measured anew.
//!
//! A run that stopped as soon as its claims are decided would favour the verdict that it stopped at. So the rounds are
//! planned before the first of them, from another record, the pilot, which is not judged. Each claim plans the rounds
//! that would decide it ([`claims::Need`]), at most four times those of the pilot, and a cell gets the most that a
//! claim which uses it plans. All of them are taken, whatever they show.
//!
//! It measures nothing.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cell::{Cell, Refusal};
use crate::claims::{self, Claim};
use crate::record::{self, Asked};
use crate::results::Results;

/// Rounds of a cell that no claim needs more of: below eight, intervals are wider (METHODOLOGY.md).
const LEAST: u32 = 9;

/// How often each cell is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    rounds: BTreeMap<Cell, u32>,
    /// Claims that four times the pilot's rounds would not decide, by their names. They still get them.
    pub hopeless: Vec<String>,
}

impl Plan {
    /// The plan of a record for these claims.
    pub fn new(pilot: &Results, claims: &[Claim]) -> Self {
        let mut plan = Self::default();
        for claim in claims {
            let Some(need) = claim.need(pilot) else { continue };
            if need.is_hopeless() {
                plan.hopeless.push(claim.id.clone());
            }
            let planned = need.planned();
            for cell in need.cells {
                let rounds = plan.rounds.entry(cell).or_default();
                *rounds = planned.max(*rounds);
            }
        }
        plan
    }

    /// The plan of the record in a folder, for a record that is made with `asked` on a machine `host`.
    ///
    /// # Errors
    /// It can't be read, or is of other cells or of another machine.
    pub fn read(folder: &Path, asked: &Asked, host: &str) -> Result<Self, Refusal> {
        let there = record::read_asked(folder)?;
        let is_part = asked.experiments.iter().all(|name| there.experiments.contains(name));
        if !is_part || (&there.effort, &there.parameters) != (&asked.effort, &asked.parameters) {
            let folder = folder.display();
            return Err(Refusal(format!(
                "{folder}: is a record of {there}, which plans no rounds of others; take a pilot with the same \
                 experiments, parameters and effort"
            )));
        }
        if let Some((there, here)) = record::differs_from(folder, host)? {
            let folder = folder.display();
            return Err(Refusal(format!(
                "{folder}: is of another machine or setting, {there} and not {here}; take a pilot here"
            )));
        }
        Ok(Self::new(&Results::read(folder)?, &claims::all()?))
    }

    /// Rounds of a cell.
    pub fn rounds(&self, cell: &Cell) -> u32 {
        self.rounds.get(cell).copied().unwrap_or_default().max(LEAST)
    }

    /// Cells that claims need more rounds of than all get, and the most rounds of a cell.
    pub fn more(&self) -> (usize, u32) {
        let more = self.rounds.values().filter(|rounds| **rounds > LEAST);
        (more.count(), self.rounds.values().copied().max().unwrap_or_default().max(LEAST))
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (more, most) = self.more();
        write!(f, "{LEAST} rounds of each cell; {more} cells get up to {most}, for the sake of claims")?;
        match self.hopeless.as_slice() {
            [] => Ok(()),
            ids => write!(f, "; four times the pilot's rounds would not decide {}", ids.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    fn cell(threads: u32) -> String {
        format!("access=write memory=shared lines=1 mib=64 threads={threads} lock=no beside=none others=0")
    }

    /// One thread takes 100; two take these times 1.36, one a round.
    fn pilot(walls: &[f64]) -> Results {
        let row = |threads, (round, value)| Row {
            experiment: "touch".into(),
            cell: cell(threads),
            round,
            phase: "first".into(),
            quantity: "wall_ns".into(),
            value,
        };
        let processors =
            |round| Row { phase: "setup".into(), quantity: "processors".into(), ..row(1, (round, 2.0)) };
        let two = (1..).zip(walls).map(|(round, wall)| row(2, (round, wall * 1.36)));
        let one = (1..).zip(vec![100.0; walls.len()]).map(|found| row(1, found));
        let noted = (1..=walls.len() as u32).map(processors);
        Results::of(two.chain(one).chain(noted).collect()).unwrap()
    }

    fn plan(walls: &[f64]) -> Plan {
        let mut claims = claims::all().unwrap();
        claims.retain(|claim| claim.id == "queue-serialised");
        Plan::new(&pilot(walls), &claims)
    }

    fn rounds(plan: &Plan, threads: u32) -> u32 {
        plan.rounds(&Cell::parse("touch", cell(threads).split(' ')).unwrap())
    }

    #[test]
    fn a_claim_plans_the_rounds_of_its_cells_and_of_no_other() {
        // The claim holds from 0.85 of the time of one thread on: from 62.5 up.
        let near = plan(&[64.0, 61.0, 57.0, 60.0, 58.0, 63.0, 59.0, 62.0, 60.5, 59.5]);
        let planned = rounds(&near, 2);
        assert!((10..=40).contains(&planned) && rounds(&near, 1) == planned, "{near:?}");
        assert_eq!(rounds(&near, 4), LEAST);
        assert!(near.hopeless.is_empty(), "{near}");
        // Far from it, few rounds do.
        assert_eq!(rounds(&plan(&[50.0, 50.1, 49.9, 50.2, 50.0, 50.1, 49.9, 50.2, 50.0]), 2), LEAST);
    }

    #[test]
    fn a_claim_that_four_times_the_rounds_do_not_decide_gets_them_and_is_named() {
        let wide = plan(&[40.0, 90.0, 62.0, 63.0, 41.0, 91.0, 42.0, 92.0, 62.4, 62.6]);
        assert_eq!(rounds(&wide, 2), 40);
        assert!(wide.to_string().ends_with("would not decide queue-serialised"), "{wide}");
    }

    #[test]
    fn a_pilot_of_nothing_plans_the_least() {
        let none = Plan::new(&Results::default(), &claims::all().unwrap());
        assert_eq!((rounds(&none, 1), none.more()), (LEAST, (0, LEAST)));
        assert_eq!(none.to_string(), "9 rounds of each cell; 0 cells get up to 9, for the sake of claims");
    }
}
