//! The scrubbers of a run: they take dirty blocks out of the zone, clear them, and put them back.

use super::super::model::Model;
use super::Run;

/// Least time between two checks of a resting scrubber for an idle processor.
const LEAST_SLICE_NS: f64 = 50_000.0;

/// What a scrubber waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asleep,
    Take,
    Clear,
    Put,
    Rest,
}

/// A scrubber.
#[derive(Debug)]
pub(super) struct Scrubber {
    pub(super) node: usize,
    stage: Stage,
    block: Option<(u32, u8)>,
    begin_ns: f64,
    /// Rest that remains after this block. It ends early if a processor becomes idle.
    rest_ns: f64,
    /// How long it rests at a time.
    slice_ns: f64,
    /// The share of a processor that it takes for this block.
    share: f64,
}

/// The scrubbers of all nodes.
pub(super) fn all(model: &Model) -> Vec<Scrubber> {
    let per_node = model.scrub.map_or(0, |scrub| scrub.per_node);
    let scrubber = |index: usize| Scrubber {
        node: index / per_node,
        stage: Stage::Asleep,
        block: None,
        begin_ns: 0.0,
        rest_ns: 0.0,
        slice_ns: 0.0,
        share: 0.0,
    };
    (0..per_node * model.nodes).map(scrubber).collect()
}

impl Run<'_> {
    /// A block was freed: it may wake the scrubbers of its node.
    pub(super) fn freed(&mut self, node: usize, (order, is_zeroed): (u8, bool)) {
        let Some(scrub) = self.model.scrub else { return };
        if order >= scrub.start_order && !is_zeroed {
            self.wake(node);
        }
    }

    /// Wakes the sleeping scrubbers of a node.
    pub(super) fn wake(&mut self, node: usize) {
        let Some(scrub) = self.model.scrub else { return };
        for index in 0..self.scrubbers.len() {
            let scrubber = &self.scrubbers[index];
            if scrubber.node == node && scrubber.stage == Stage::Asleep {
                match scrub.poll_ns {
                    Some(ns) => self.rest_for(index, ns),
                    None => self.begin(index),
                }
            }
        }
    }

    /// Rests for a part of the time that is left.
    fn rest(&mut self, index: usize) {
        let scrubber = &mut self.scrubbers[index];
        let ns = scrubber.rest_ns.min(scrubber.slice_ns);
        scrubber.rest_ns -= ns;
        self.rest_for(index, ns);
    }

    /// Whether a processor of the node has nothing to do.
    fn has_idle(&self, node: usize) -> bool {
        self.nodes[node].scrubbing + self.nodes[node].active < self.model.processors
    }

    fn rest_for(&mut self, index: usize, ns: f64) {
        self.scrubbers[index].stage = Stage::Rest;
        self.after(ns, self.threads.len() + index);
    }

    /// Asks for a block, if the scrubber may run.
    fn begin(&mut self, index: usize) {
        let Some(scrub) = self.model.scrub else { return };
        let node = self.scrubbers[index].node;
        let share = if self.has_idle(node) { scrub.idle_share } else { scrub.busy_share };
        if share <= 0.0 {
            return self.sleep(index);
        }
        self.nodes[node].scrubbing += 1;
        self.scrubbers[index].share = share.min(1.0);
        self.scrubbers[index].rest_ns = 0.0;
        self.scrubbers[index].stage = Stage::Take;
        self.ask_zone(node, self.threads.len() + index);
    }

    fn sleep(&mut self, index: usize) {
        self.scrubbers[index].stage = Stage::Asleep;
        if let Some(ns) = self.model.scrub.and_then(|scrub| scrub.poll_ns) {
            self.rest_for(index, ns);
        }
    }

    /// The scrubber goes on, because its event has happened.
    pub(super) fn step_of_scrubber(&mut self, index: usize) {
        let Some(scrub) = self.model.scrub else { return };
        let node = self.scrubbers[index].node;
        match self.scrubbers[index].stage {
            Stage::Asleep => {}
            Stage::Rest if self.scrubbers[index].rest_ns > 0.0 && !self.has_idle(node) => self.rest(index),
            Stage::Rest => self.begin(index),
            Stage::Take => {
                let block = self.nodes[node].buddy.take_dirty(scrub.stop_order);
                self.release_zone(node);
                let Some((_, order)) = block else {
                    self.nodes[node].scrubbing -= 1;
                    return self.sleep(index);
                };
                self.scrubbers[index].block = block;
                self.scrubbers[index].begin_ns = self.now_ns;
                self.scrubbers[index].stage = Stage::Clear;
                let ns = scrub.page_ns * f64::from(1_u32 << order);
                self.use_memory(node, self.threads.len() + index, ns);
            }
            Stage::Clear => {
                let scrubber = &mut self.scrubbers[index];
                let took_ns = self.now_ns - scrubber.begin_ns;
                scrubber.rest_ns = took_ns * (1.0 / scrubber.share - 1.0);
                scrubber.slice_ns = took_ns.max(LEAST_SLICE_NS);
                self.outcome.scrub_ns += took_ns;
                scrubber.stage = Stage::Put;
                self.ask_zone(node, self.threads.len() + index);
            }
            Stage::Put => {
                if let Some((page, order)) = self.scrubbers[index].block.take() {
                    self.nodes[node].buddy.free(page, order, true);
                    self.outcome.zeroed += 1 << order;
                }
                self.release_zone(node);
                self.nodes[node].scrubbing -= 1;
                if self.scrubbers[index].rest_ns > 0.0 { self.rest(index) } else { self.begin(index) }
            }
        }
    }

    /// The time of the blocks that are being cleared at the end.
    pub(super) fn scrub_in_progress_ns(&self) -> f64 {
        let clearing = self.scrubbers.iter().filter(|scrubber| scrubber.stage == Stage::Clear);
        clearing.map(|scrubber| self.now_ns - scrubber.begin_ns).sum()
    }
}
