//! `faultless agent` from outside: its scrapes, its pushes, its failures, and the files for those who run it.
//!
//! Guards against counters that fall, figures that are not the workload's, an agent that ends or grows when what it
//! talks to is absent, and files that name metrics that there are not.

mod agent;
mod collector;
mod deploy;
mod flags;
mod groups;
mod push;
mod real;
mod record;
mod scrape;

use std::hint::black_box;

/// Not a test: a program that touches memory, for those that need one. See `groups::Load`.
#[test]
#[ignore = "a workload that other tests start"]
fn touch() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let (Some(pages), Some(rounds)) = (number("LOAD_PAGES"), number("LOAD_ROUNDS")) else { return };
    let page_bytes = faultless_os::page::size();
    for _ in 0..rounds {
        let mut block = vec![0_u8; pages * page_bytes];
        for page in block.chunks_mut(page_bytes) {
            page[0] = 1;
        }
        black_box(&block);
    }
    if let Some(s) = number("LOAD_REST_S") {
        std::thread::sleep(std::time::Duration::from_secs(s as u64));
    }
}
