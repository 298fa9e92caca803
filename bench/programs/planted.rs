//! A program with planted regressions: `planted NAME`, as planted.c.
use std::collections::BTreeMap;

fn is(name: &str) -> bool {
    std::env::args().nth(1).as_deref() == Some(name)
}

/// 16 MiB of numbers. "clone": and a copy of some of them.
#[inline(never)]
fn collect_numbers() -> Vec<u64> {
    let mut numbers = Vec::with_capacity(2 << 20);
    for number in 0..2u64 << 20 {
        numbers.push(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    if is("clone") {
        std::hint::black_box(numbers[..numbers.len() / 6].to_vec());
    }
    numbers
}

/// A tree of 200 000 entries. "tree": a tenth more.
#[inline(never)]
fn grow_tree(numbers: &[u64]) -> BTreeMap<u64, [u64; 6]> {
    let many = if is("tree") { 220_000 } else { 200_000 };
    numbers.iter().take(many).map(|&number| (number, [number; 6])).collect()
}

fn main() {
    let numbers = collect_numbers();
    println!("{} {}", numbers.len(), grow_tree(&numbers).len());
}
