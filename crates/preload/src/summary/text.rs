//! The report for people: a few lines of text.
//!
//! In: the pool's counters. Out: lines. What was neither requested nor happened is left out.

use std::sync::atomic::Ordering::Relaxed;

use faultless_pool::{Kernel, Pool, Stats};

use super::name;
use crate::line::{Line, Text};
use crate::mappings::{ADVISED, SERVED};
use crate::owner;
use crate::pool::State;

/// Writes the report.
pub(super) fn write(report: &mut Line, state: &State, forwarded: u64) {
    match state {
        _ if owner::is_passive() => {
            head(report).text(b"the pool did not act: ");
            owner::name_owner(report, owner::first());
        }
        State::Closed => {
            head(report).text(b"no large block was asked for");
        }
        State::Off => {
            head(report).text(b"the pool could not be opened; ").number(forwarded);
            report.text(b" large requests went to the next malloc");
        }
        State::Open(pool) => {
            let stats = pool.stats();
            requests(report, &stats, forwarded);
            memory(report, &stats);
            ahead(report, pool, &stats);
        }
    }
    own_mappings(report);
}

/// Mappings that the program makes for itself, if there were any.
fn own_mappings(line: &mut Line) {
    let (served, advised) = (SERVED.load(Relaxed), ADVISED.load(Relaxed));
    if served + advised > 0 {
        head(line).number(served).text(b" mappings from the pool, huge pages requested for ").number(advised);
    }
}

fn requests(line: &mut Line, stats: &Stats, forwarded: u64) {
    let page = faultless_os::page::size() as u64;
    head(line).number(stats.dirty_hits + stats.zeroed_hits + stats.fresh).text(b" large blocks: ");
    line.number(stats.dirty_hits).text(b" dirty, ").number(stats.zeroed_hits).text(b" zeroed, ");
    line.number(stats.fresh).text(b" fresh; ").mib(stats.reused_bytes).text(b" handed out resident, up to ");
    line.number(stats.reused_bytes.checked_div(page).unwrap_or(0)).text(b" first touches avoided");
    head(line)
        .text(b"grown: ")
        .number(stats.grown_in_place)
        .text(b" in place, ")
        .number(stats.grown_by_pages);
    line.text(b" by page tables, ").number(stats.grown_by_copy).text(b" by copy; ");
    line.number(forwarded).text(b" large requests went to the next malloc");
}

fn memory(line: &mut Line, stats: &Stats) {
    head(line)
        .mib(stats.peak_in_use_bytes as u64)
        .text(b" in use and ")
        .mib(stats.peak_retained_bytes as u64);
    line.text(b" retained at most; at the end ").mib(stats.in_use_bytes as u64).text(b" in use, ");
    line.mib((stats.retained_bytes - stats.zeroed_bytes.min(stats.retained_bytes)) as u64).text(b" dirty, ");
    line.mib(stats.zeroed_bytes as u64).text(b" zeroed");
    head(line).number(stats.purges).text(b" purges (").mib(stats.purged_bytes).text(b", ");
    line.number(stats.purge_ns / 1000)
        .text(b" us); ")
        .mib(stats.cleared_bytes)
        .text(b" cleared for calloc; ");
    line.number(stats.purge_failures + stats.populate_failures).text(b" advices refused");
}

fn ahead(line: &mut Line, pool: &Pool<Kernel>, stats: &Stats) {
    if pool.is_thread_refused() {
        head(line).text(b"no background thread could be started: nothing decays");
    }
    if pool.keeps() {
        head(line).text(b"a registration cache is loaded (RDMA, CUDA): no memory is given back");
    }
    if stats.stocked_bytes + stats.scrubbed_bytes > 0 {
        head(line).text(b"ahead of need: ").mib(stats.stocked_bytes).text(b" made resident (");
        line.number(stats.stock_ns / 1000).text(b" us), ").mib(stats.scrubbed_bytes).text(b" zeroed (");
        line.number(stats.scrub_ns / 1000).text(b" us)");
    }
    if stats.populated_bytes + stats.populate_missing_bytes > 0 {
        head(line).text(b"populated, as the kernel says: ").mib(stats.populated_bytes).text(b" resident, ");
        line.mib(stats.populate_missing_bytes).text(b" not");
    }
    if stats.fallback_bytes > 0 {
        head(line).mib(stats.fallback_bytes).text(b" of addresses got base pages instead of those asked for");
    }
}

/// Begins a line: `faultless: NAME[PID]: `.
pub(super) fn head<const BYTES: usize>(line: &mut Text<BYTES>) -> &mut Text<BYTES> {
    let mut buffer = [0; name::BYTES];
    if !line.is_empty() {
        line.text(b"\n");
    }
    line.text(b"faultless: ").text(name::of_process(&mut buffer)).text(b"[");
    line.number(name::number().into()).text(b"]: ")
}
