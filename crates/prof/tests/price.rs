//! The price list of this machine. It has a test program of its own: it forks, and charges the CPU time of
//! the whole process.

use faultless_os::host::Host;
use faultless_prof::price::{Outcome, measure};

#[test]
fn prices_of_this_machine_are_plausible() {
    let host = Host::read();
    let mut told = Vec::new();
    let prices = measure(&host, |done, all| told.push((done, all)));
    assert!(told.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{told:?}");
    assert!(told.last().is_some_and(|(done, all)| done == all), "{told:?}");
    let touch = prices.ns("first_touch").expect("a first touch can be measured anywhere");
    assert!((50.0..1e6).contains(&touch), "{touch} ns");
    // A fault clears the page and does more.
    for clear in ["clear_hot", "clear_cold"] {
        assert!(prices.list.iter().any(|price| price.id == clear), "{clear}: {prices:?}");
        assert!(prices.ns(clear).is_none_or(|ns| ns < touch), "{clear}: {prices:?}");
    }
    let both = prices.ns("zero_page_read").unwrap() + prices.ns("write_after_read").unwrap();
    assert!(both > touch, "two faults cost more than one: {both} vs {touch}");
    for price in &prices.list {
        assert!(!matches!(&price.outcome, Outcome::CannotSay(reason) if reason.is_empty()), "{price:?}");
    }
    let mut ids: Vec<&str> = prices.list.iter().map(|price| price.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), prices.list.len(), "ids are unique");
}
