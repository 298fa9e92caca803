//! Counters for a bounded number of series, of which none ever falls.
//!
//! In: each round, who did what. Out: a [`Row`] for each of the heaviest keys, and the sum of all others. A key counts
//! from the round in which it gets a row; what it did before is in `other`. So all series together add up to
//! everything, and each rises for as long as it is there.
//!
//! A key that is gone keeps its row for some rounds, so that scrapes see its last figures. So does one that a much
//! heavier key displaces: its row stands still, and what it does meanwhile is in `other`.

use std::collections::HashMap;
use std::hash::Hash;

use crate::amounts::Amounts;
use crate::tuning as t;

/// A key with a series of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    /// Since it got the row.
    pub(crate) total: Amounts,
    /// When that was, ns since 1970.
    pub(crate) begin_ns: u64,
    /// Time in faults a round, the last ones weighing most.
    weight: f64,
    /// It counts; else it stands still.
    is_open: bool,
    /// Rounds since it last counted.
    idle: u32,
}

/// The rows.
#[derive(Debug)]
pub(crate) struct Ledger<K> {
    top: usize,
    rows: HashMap<K, Row>,
    /// Of all that had no row.
    pub(crate) other: Amounts,
    /// How many had none in the last round.
    pub(crate) folded: usize,
}

impl<K: Clone + Eq + Hash + Ord> Ledger<K> {
    /// With at most this many rows that count, and as many that stand still.
    pub(crate) fn new(top: usize) -> Self {
        Self { top, rows: HashMap::new(), other: Amounts::default(), folded: 0 }
    }

    /// Adds a round that ends at `time_ns`: what each key that exists did, if only nothing.
    pub(crate) fn add(&mut self, time_ns: u64, round: Vec<(K, Amounts)>) {
        self.rows.values_mut().for_each(|row| row.idle += 1);
        let mut without: Vec<(K, Amounts)> = Vec::new();
        for (key, did) in round {
            match self.rows.get_mut(&key).filter(|row| row.is_open) {
                Some(row) => row.count(did),
                None => without.push((key, did)),
            }
        }
        // Heaviest first; equal ones by name, so that the same groups make the same series.
        without.sort_by(|(a, did), (b, too)| weight(too).total_cmp(&weight(did)).then_with(|| a.cmp(b)));
        let mut displaced = 0;
        self.folded = 0;
        for (key, did) in without {
            if self.make_room(weight(&did), &mut displaced) {
                let row = self.rows.entry(key).or_insert(Row { begin_ns: time_ns, ..Row::default() });
                row.is_open = true;
                row.weight = weight(&did);
                row.count(did);
            } else {
                self.other += did;
                self.folded += 1;
            }
        }
        self.rows.retain(|_, row| row.idle < t::KEEP_ROUNDS);
        self.drop_surplus();
    }

    /// All rows, in no order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&K, &Row)> {
        self.rows.iter()
    }

    /// The lightest row closes for a much heavier key, if all are taken. A row whose key is gone counts as taken until
    /// it is needed.
    fn make_room(&mut self, weight: f64, displaced: &mut usize) -> bool {
        let open = || self.rows.values().filter(|row| row.is_open);
        if open().count() < self.top {
            return true;
        }
        let most = self.top / t::DISPLACED_PART + 1;
        let lightest = self.rows.values_mut().filter(|row| row.is_open);
        // The gone ones first.
        let lightest = lightest
            .min_by(|a, b| (a.idle == 0).cmp(&(b.idle == 0)).then_with(|| a.weight.total_cmp(&b.weight)));
        let Some(lightest) = lightest else { return false };
        let is_gone = lightest.idle > 0;
        if !is_gone && (*displaced >= most || weight <= t::DISPLACE_RATIO * lightest.weight) {
            return false;
        }
        lightest.is_open = false;
        *displaced += usize::from(!is_gone);
        true
    }

    /// Of the rows that stand still, as many stay as may count.
    fn drop_surplus(&mut self) {
        let mut still: Vec<(u32, K)> = self
            .rows
            .iter()
            .filter(|(_, row)| !row.is_open)
            .map(|(key, row)| (row.idle, key.clone()))
            .collect();
        still.sort();
        for (_, key) in still.split_off(self.top.min(still.len())) {
            self.rows.remove(&key);
        }
    }
}

impl Row {
    fn count(&mut self, did: Amounts) {
        self.total += did;
        self.weight = self.weight * (1.0 - t::WEIGHT_NEW) + weight(&did) * t::WEIGHT_NEW;
        self.idle = 0;
    }
}

/// What a round counts for: time in faults; where no time is known, faults.
fn weight(did: &Amounts) -> f64 {
    did.fault_ns + did.minor as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(faults: u64) -> Amounts {
        Amounts { minor: faults, fault_ns: faults as f64 * 1_000.0, ..Amounts::default() }
    }

    fn sum<K: Clone + Eq + Hash + Ord>(ledger: &Ledger<K>) -> u64 {
        ledger.rows().map(|(_, row)| row.total.minor).sum::<u64>() + ledger.other.minor
    }

    fn total(ledger: &Ledger<&str>, key: &str) -> Option<u64> {
        ledger.rows().find(|(known, _)| **known == key).map(|(_, row)| row.total.minor)
    }

    #[test]
    fn the_heaviest_have_rows_and_the_others_are_one() {
        let mut ledger = Ledger::new(2);
        ledger.add(0, vec![("a", did(5)), ("b", did(50)), ("c", did(7))]);
        assert_eq!(
            (total(&ledger, "b"), total(&ledger, "c"), total(&ledger, "a")),
            (Some(50), Some(7), None)
        );
        assert_eq!((ledger.other.minor, ledger.folded, sum(&ledger)), (5, 1, 62));
    }

    #[test]
    fn a_much_heavier_key_displaces_a_row_which_stands_still_and_never_falls() {
        let mut ledger = Ledger::new(1);
        ledger.add(0, vec![("a", did(100))]);
        ledger.add(0, vec![("a", did(100)), ("b", did(101))]);
        assert_eq!(total(&ledger, "b"), None, "not much heavier");
        ledger.add(0, vec![("a", did(100)), ("b", did(1_000))]);
        assert_eq!((total(&ledger, "a"), total(&ledger, "b")), (Some(300), Some(1_000)));
        ledger.add(0, vec![("a", did(100)), ("b", did(1_000))]);
        assert_eq!((total(&ledger, "a"), ledger.other.minor), (Some(300), 101 + 100));
        assert_eq!(sum(&ledger), 100 + 201 + 1_100 + 1_100);
    }

    #[test]
    fn a_key_that_is_gone_keeps_its_row_for_some_rounds_unless_it_is_needed() {
        let mut ledger = Ledger::new(1);
        ledger.add(0, vec![("a", did(1))]);
        for _ in 1..t::KEEP_ROUNDS {
            ledger.add(0, Vec::new());
            assert_eq!(total(&ledger, "a"), Some(1));
        }
        ledger.add(0, Vec::new());
        assert_eq!(total(&ledger, "a"), None);
        ledger.add(0, vec![("a", did(9))]);
        ledger.add(0, vec![("b", did(1))]);
        assert_eq!(
            (total(&ledger, "a"), total(&ledger, "b")),
            (Some(9), Some(1)),
            "a was gone: its room was free"
        );
    }

    /// Keys come and go, at random.
    #[test]
    fn no_series_falls_their_number_is_bounded_and_all_add_up() {
        let mut random = fastrand::Rng::with_seed(47);
        let mut ledger = Ledger::new(16);
        let (mut everything, mut before) = (0, HashMap::new());
        for round in 0..2_000_u32 {
            let mut acts: Vec<(u32, Amounts)> = Vec::new();
            for key in 0..200 {
                if (key + round / 50) % 7 != 0 {
                    acts.push((key, did(random.u64(0..1_000) / u64::from(key % 13 + 1))));
                }
            }
            everything += acts.iter().map(|(_, did)| did.minor).sum::<u64>();
            let other = ledger.other.minor;
            ledger.add(0, acts);
            let now: HashMap<u32, u64> = ledger.rows().map(|(key, row)| (*key, row.total.minor)).collect();
            assert!(now.len() <= 32 && ledger.other.minor >= other);
            for (key, total) in &now {
                let fell = before.get(key).is_some_and(|before| before > total);
                assert!(!fell, "round {round}, key {key}");
            }
            let dropped: u64 =
                before.iter().filter(|(key, _)| !now.contains_key(key)).map(|(_, total)| total).sum();
            everything -= dropped;
            assert_eq!(sum(&ledger), everything, "round {round}");
            before = now;
        }
    }
}
