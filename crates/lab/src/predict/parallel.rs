//! Independent runs on all processors. The result does not depend on their number.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Refusal;

/// `of` for every index below `count`, in order.
///
/// # Errors
/// The first failure, by index.
pub(super) fn map<T: Send>(
    count: usize,
    of: impl Fn(usize) -> Result<T, Refusal> + Sync,
) -> Result<Vec<T>, Refusal> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, of(index)));
        }
    };
    let mut all: Vec<(usize, Result<T, Refusal>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            // A worker panics only where this thread would have.
            all.extend(other.join().unwrap_or_default());
        }
        all
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_and_the_first_failure_wins() {
        assert_eq!(map(100, |index| Ok(index * 2)).unwrap(), (0..100).map(|i| i * 2).collect::<Vec<_>>());
        let failed = map(9, |index| if index < 4 { Ok(index) } else { Err(Refusal(format!("no {index}"))) });
        assert_eq!(failed.unwrap_err().to_string(), "no 4");
        assert_eq!(map(0, Ok).unwrap(), Vec::<usize>::new());
    }
}
