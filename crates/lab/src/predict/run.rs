//! One run of a [`Model`]: the discrete events of faulting threads and scrubbers.
//!
//! In: a model. Out: an [`Outcome`]. A fault is a delay (the path), a page from the per-CPU list, clearing if
//! the page is dirty, a section under the page-table lock, and the program's touch. A list that is empty or
//! too long takes the zone lock. Clearing and touching share the bandwidth of the page's node.

use std::collections::VecDeque;

use super::buddy::Buddy;
use super::lock::{Grant, Lock};
use super::memory::Memory;
use super::model::{Model, Outcome, Section, Service, Sizes};
use super::queue::{Event, Queue};
use crate::Refusal;

mod scrub;

/// Passes whose hits are counted apart.
const PASSES: usize = 16;
/// A thread that found no free page tries again after this time.
const RETRY_NS: f64 = 10_000.0;
/// After so many tries the run is given up.
const MOST_RETRIES: u32 = 1_000_000;

/// A page.
#[derive(Clone, Copy, Debug)]
struct Page {
    node: u32,
    index: u32,
    is_zeroed: bool,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Path,
    Refill,
    Clear,
    Lock,
    Touch,
    Unmap,
    Drain,
    Pause,
    Barrier,
    Done,
}

#[derive(Debug)]
struct Thread {
    node: usize,
    stage: Stage,
    /// Maps that were begun.
    maps: u32,
    /// Pages of the current map that are not faulted yet.
    left: u32,
    /// Where the current map is kept.
    slot: usize,
    /// When the current fault began.
    begin_ns: f64,
    /// When the thread began to run, at the start or after a barrier.
    since_ns: f64,
    /// Where its request for the zone lock waits.
    zone: usize,
    list: VecDeque<Page>,
    current: Vec<Page>,
    kept: Vec<Vec<Page>>,
    freeing: Vec<Page>,
}

#[derive(Debug)]
struct Node {
    buddy: Buddy,
    zone: Lock,
    memory: Memory,
    /// Threads that run.
    active: usize,
    /// Scrubbers that work.
    scrubbing: usize,
}

#[derive(Debug)]
struct Run<'a> {
    model: &'a Model,
    queue: Queue,
    now_ns: f64,
    random: fastrand::Rng,
    threads: Vec<Thread>,
    scrubbers: Vec<scrub::Scrubber>,
    nodes: Vec<Node>,
    locks: Vec<Lock>,
    /// The per-CPU list of the thread that unmaps, if it is another one.
    apart: VecDeque<Page>,
    /// What that thread will unmap.
    mapped: Vec<Page>,
    at_barrier: usize,
    done: usize,
    retries: u32,
    latencies: Vec<f32>,
    outcome: Outcome,
}

impl Model {
    /// Runs the model to the end of its last thread.
    ///
    /// # Errors
    /// The threads need more memory than there is.
    pub fn run(&self) -> Result<Outcome, Refusal> {
        self.check()?;
        Run::new(self).finish()
    }
}

impl<'a> Run<'a> {
    fn new(model: &'a Model) -> Self {
        let zone = &model.zone;
        let zeroed = (f64::from(zone.pages) * zone.zeroed).round() as u32;
        let node = |_| Node {
            buddy: Buddy::new(zone.pages, zone.most_order, zeroed, zone.is_apart),
            zone: Lock::default(),
            memory: Memory::new(model.saturation),
            active: 0,
            scrubbing: 0,
        };
        let thread = |index: usize| Thread {
            node: index % model.nodes,
            stage: Stage::Barrier,
            maps: 0,
            left: 0,
            slot: 0,
            begin_ns: 0.0,
            since_ns: 0.0,
            zone: 0,
            list: VecDeque::new(),
            current: Vec::new(),
            kept: Vec::new(),
            freeing: Vec::new(),
        };
        let groups = model.threads.len().div_ceil(model.lock_threads.max(1));
        Self {
            model,
            queue: Queue::default(),
            now_ns: 0.0,
            random: fastrand::Rng::with_seed(model.seed),
            threads: (0..model.threads.len()).map(thread).collect(),
            scrubbers: scrub::all(model),
            nodes: (0..model.nodes).map(node).collect(),
            locks: std::iter::repeat_with(Lock::default).take(groups).collect(),
            apart: VecDeque::new(),
            mapped: Vec::new(),
            at_barrier: 0,
            done: 0,
            retries: 0,
            latencies: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    fn finish(mut self) -> Result<Outcome, Refusal> {
        for thread in 0..self.threads.len() {
            self.prefill(thread);
            self.map(thread);
        }
        for node in 0..self.nodes.len() {
            self.wake(node);
        }
        while self.done < self.threads.len() {
            let Some((at, event)) = self.queue.next() else {
                return Err(Refusal("the model stands still: no thread can go on".into()));
            };
            self.now_ns = at;
            match event {
                Event::Step(agent) if self.is_thread(agent) => self.step(agent as usize),
                Event::Step(agent) => self.step_of_scrubber(agent as usize - self.threads.len()),
                Event::Memory { node, version } => self.memory(node as usize, version),
            }
            if self.retries > MOST_RETRIES {
                return Err(Refusal("the model ran out of memory; give it more, or fewer threads".into()));
            }
        }
        let scrubbed = self.scrub_in_progress_ns();
        self.outcome.scrub_ns += scrubbed;
        self.outcome.wall_ns = self.now_ns;
        self.latencies.sort_unstable_by(f32::total_cmp);
        let at = |share: f64| {
            let last = self.latencies.len().saturating_sub(1);
            self.latencies.get((share * last as f64).round() as usize).copied().unwrap_or(0.0).into()
        };
        (self.outcome.p50_ns, self.outcome.p99_ns) = (at(0.5), at(0.99));
        Ok(self.outcome)
    }

    /// Puts a part of a batch into the list of a thread, and the dirty pages that it has from before.
    fn prefill(&mut self, thread: usize) {
        let node = self.threads[thread].node;
        if self.model.zone.is_prefilled {
            let pages = self.random.u32(..self.model.zone.batch);
            self.fill(thread, node, pages);
        }
        self.fill(thread, node, self.model.zone.dirty);
        let list = self.threads[thread].list.iter_mut().rev();
        list.take(self.model.zone.dirty as usize).for_each(|page| page.is_zeroed = false);
    }

    fn is_thread(&self, agent: u32) -> bool {
        (agent as usize) < self.threads.len()
    }

    fn draw(&mut self, mean_ns: f64) -> f64 {
        match self.model.service {
            Service::Fixed => mean_ns,
            Service::Exponential => -mean_ns * (1.0 - self.random.f64()).ln(),
        }
    }

    fn after(&mut self, ns: f64, agent: usize) {
        self.queue.add(self.now_ns + ns, Event::Step(agent as u32));
    }

    fn node_of(&self, agent: u32) -> usize {
        let agent = agent as usize;
        match self.threads.get(agent) {
            Some(thread) => thread.node,
            None => self.scrubbers[agent - self.threads.len()].node,
        }
    }

    /// Begins the section of an agent that got its lock.
    fn enter(&mut self, granted: Option<Grant>, section: Section) {
        let Some((agent, before)) = granted else { return };
        let moved_ns = match before {
            Some(before) if before == agent => 0.0,
            Some(before) if self.node_of(before) == self.node_of(agent) => section.near_ns,
            Some(_) => section.far_ns,
            None => 0.0,
        };
        let ns = self.draw(section.section_ns) + moved_ns;
        self.after(ns, agent as usize);
    }

    fn ask_zone(&mut self, node: usize, agent: usize) {
        let granted = self.nodes[node].zone.ask(agent as u32);
        self.enter(granted, self.model.zone.lock);
    }

    fn release_zone(&mut self, node: usize) {
        let granted = self.nodes[node].zone.release();
        self.enter(granted, self.model.zone.lock);
    }

    fn use_memory(&mut self, node: usize, agent: usize, mean_ns: f64) {
        let ns = self.draw(mean_ns);
        self.nodes[node].memory.begin(self.now_ns, agent as u32, ns);
        self.expect_memory(node);
    }

    fn expect_memory(&mut self, node: usize) {
        if let Some((at, version)) = self.nodes[node].memory.next() {
            self.queue.add(at, Event::Memory { node: node as u32, version });
        }
    }

    fn memory(&mut self, node: usize, version: u32) {
        let Some(agent) = self.nodes[node].memory.end(self.now_ns, version) else { return };
        self.expect_memory(node);
        if self.is_thread(agent) {
            self.step(agent as usize)
        } else {
            self.step_of_scrubber(agent as usize - self.threads.len())
        }
    }

    /// The thread goes on, because its event has happened.
    fn step(&mut self, thread: usize) {
        match self.threads[thread].stage {
            Stage::Path if self.threads[thread].list.is_empty() => self.ask_for(thread, Stage::Refill),
            Stage::Path => self.take(thread),
            Stage::Refill => self.refill(thread),
            Stage::Clear => self.ask_lock(thread),
            Stage::Lock => self.installed(thread),
            Stage::Touch => self.fault(thread),
            Stage::Unmap => self.unmap(thread),
            Stage::Drain => self.drain(thread),
            Stage::Pause => {
                self.threads[thread].stage = Stage::Barrier;
                self.map(thread);
            }
            Stage::Barrier | Stage::Done => {}
        }
    }

    /// Begins the next map. After the last one, all that is kept is unmapped.
    fn map(&mut self, thread: usize) {
        let work = self.model.threads[thread];
        if self.threads[thread].stage == Stage::Barrier {
            self.resume(thread);
        }
        let state = &mut self.threads[thread];
        if state.maps == work.maps {
            if let Some(map) = state.kept.iter_mut().find(|map| !map.is_empty()) {
                state.freeing = std::mem::take(map);
                return self.unmap_next(thread);
            }
            state.stage = Stage::Done;
            self.stop(thread);
            self.done += 1;
            return self.open_barrier();
        }
        let pages = match work.sizes {
            Sizes::Uniform(least, most) => self.random.u32(least..=most),
            Sizes::Powers(most) => {
                let power = self.random.u32(..most);
                1 + self.random.u32(..1 << power)
            }
        };
        let slot = if work.slots > 0 { self.random.usize(..work.slots as usize) } else { 0 };
        let state = &mut self.threads[thread];
        state.kept.resize(work.slots.max(1) as usize, Vec::new());
        state.freeing = std::mem::take(&mut state.kept[slot]);
        let used: usize = state.kept.iter().map(Vec::len).sum();
        (state.maps, state.slot) = (state.maps + 1, slot);
        state.left = if used + pages as usize <= work.room as usize { pages } else { 0 };
        if state.freeing.is_empty() { self.fault(thread) } else { self.unmap_next(thread) }
    }

    /// The thread begins to run.
    fn resume(&mut self, thread: usize) {
        let state = &mut self.threads[thread];
        state.since_ns = self.now_ns;
        self.nodes[state.node].active += 1;
    }

    /// The thread stops to run.
    fn stop(&mut self, thread: usize) {
        let state = &self.threads[thread];
        let node = state.node;
        self.outcome.busy_ns += self.now_ns - state.since_ns;
        self.nodes[node].active -= 1;
        self.wake(node);
    }

    /// The thread waits for all others.
    fn wait(&mut self, thread: usize) {
        self.stop(thread);
        self.threads[thread].stage = Stage::Barrier;
        self.at_barrier += 1;
        self.open_barrier();
    }

    fn open_barrier(&mut self) {
        if self.at_barrier == 0 || self.at_barrier + self.done < self.threads.len() {
            return;
        }
        let waits = |state: &Thread| state.stage == Stage::Barrier;
        if let Some(thread) = self.threads.iter().position(waits).filter(|_| !self.mapped.is_empty()) {
            self.threads[thread].freeing = std::mem::take(&mut self.mapped);
            self.at_barrier -= 1;
            self.resume(thread);
            return self.unmap_next(thread);
        }
        self.at_barrier = 0;
        for thread in 0..self.threads.len() {
            if self.threads[thread].stage == Stage::Barrier {
                self.map(thread);
            }
        }
    }

    /// Begins the next fault of the map, or ends the map.
    fn fault(&mut self, thread: usize) {
        let state = &mut self.threads[thread];
        if state.left > 0 {
            state.left -= 1;
            state.stage = Stage::Path;
            state.begin_ns = self.now_ns;
            let ns = self.draw(self.model.path_ns);
            return self.after(ns, thread);
        }
        let map = std::mem::take(&mut state.current);
        match self.model.threads[thread].slots {
            0 if self.model.unmaps_apart => {
                self.mapped.extend(map);
                return self.wait(thread);
            }
            0 => state.freeing = map,
            _ => state.kept[state.slot] = map,
        }
        self.unmap_next(thread);
    }

    fn ask_for(&mut self, thread: usize, stage: Stage) {
        let home = self.threads[thread].node;
        let nodes = self.nodes.len();
        let has_room = |node: &usize| stage == Stage::Drain || self.nodes[*node].buddy.free_pages() > 0;
        let Some(node) = (0..nodes).map(|step| (home + step) % nodes).find(has_room) else {
            self.retries += 1;
            return self.after(RETRY_NS, thread);
        };
        self.threads[thread].stage = stage;
        self.threads[thread].zone = node;
        self.ask_zone(node, thread);
    }

    /// Moves a batch from the zone to the list.
    fn refill(&mut self, thread: usize) {
        let node = self.threads[thread].zone;
        self.fill(thread, node, self.model.zone.batch);
        self.release_zone(node);
        self.threads[thread].stage = Stage::Path;
        self.step(thread);
    }

    fn fill(&mut self, thread: usize, node: usize, pages: u32) {
        for _ in 0..pages {
            let Some((index, is_zeroed)) = self.nodes[node].buddy.take_page() else { break };
            self.threads[thread].list.push_back(Page { node: node as u32, index, is_zeroed });
        }
    }

    /// Takes a page from the list, and clears it if it is dirty.
    fn take(&mut self, thread: usize) {
        let state = &mut self.threads[thread];
        let Some(page) = state.list.pop_front() else { return };
        state.current.push(page);
        self.outcome.faults += 1;
        self.outcome.zeroed_before = self.outcome.zeroed;
        self.outcome.hits += u64::from(page.is_zeroed);
        let pass = state.maps as usize - 1;
        if pass < PASSES {
            if self.outcome.passes.len() <= pass {
                self.outcome.passes.resize(pass + 1, (0, 0));
            }
            let counted = &mut self.outcome.passes[pass];
            *counted = (counted.0 + 1, counted.1 + u64::from(page.is_zeroed));
        }
        if page.is_zeroed || self.model.clear_ns <= 0.0 {
            return self.ask_lock(thread);
        }
        state.stage = Stage::Clear;
        let ns = self.model.clear_ns * self.far_times(page, thread);
        self.use_memory(page.node as usize, thread, ns);
    }

    fn far_times(&self, page: Page, thread: usize) -> f64 {
        if page.node as usize == self.threads[thread].node { 1.0 } else { self.model.far_times }
    }

    fn ask_lock(&mut self, thread: usize) {
        self.threads[thread].stage = Stage::Lock;
        let group = thread / self.model.lock_threads.max(1);
        let granted = self.locks[group].ask(thread as u32);
        self.enter(granted, self.model.lock);
    }

    fn installed(&mut self, thread: usize) {
        let granted = self.locks[thread / self.model.lock_threads.max(1)].release();
        self.enter(granted, self.model.lock);
        self.latencies.push((self.now_ns - self.threads[thread].begin_ns) as f32);
        let page = self.threads[thread].current.last().copied();
        match page {
            Some(page) if self.model.touch_ns > 0.0 => {
                self.threads[thread].stage = Stage::Touch;
                let ns = self.model.touch_ns * self.far_times(page, thread);
                self.use_memory(page.node as usize, thread, ns);
            }
            _ => self.fault(thread),
        }
    }

    /// Unmaps the next batch. Then the map that waits for it begins, or this one ends.
    fn unmap_next(&mut self, thread: usize) {
        let left = self.threads[thread].freeing.len().min(self.model.zone.batch as usize);
        if left > 0 {
            self.threads[thread].stage = Stage::Unmap;
            let ns = self.draw(self.model.free_ns * left as f64);
            return self.after(ns, thread);
        }
        if self.threads[thread].left > 0 {
            return self.fault(thread);
        }
        if self.model.has_barrier {
            return self.wait(thread);
        }
        if self.model.pause_ns > 0.0 {
            self.stop(thread);
            self.threads[thread].stage = Stage::Pause;
            return self.after(self.model.pause_ns, thread);
        }
        self.map(thread);
    }

    /// The list that takes the pages that a thread frees.
    fn freed_to(&mut self, thread: usize) -> &mut VecDeque<Page> {
        if self.model.unmaps_apart { &mut self.apart } else { &mut self.threads[thread].list }
    }

    fn unmap(&mut self, thread: usize) {
        for _ in 0..self.model.zone.batch {
            let Some(page) = self.threads[thread].freeing.pop() else { break };
            self.freed_to(thread).push_front(Page { is_zeroed: false, ..page });
        }
        self.go_on_unmapping(thread);
    }

    fn go_on_unmapping(&mut self, thread: usize) {
        if self.freed_to(thread).len() > self.model.zone.high as usize {
            self.ask_for(thread, Stage::Drain)
        } else {
            self.unmap_next(thread)
        }
    }

    /// Moves a batch from the end of the list, where the oldest pages are, to the zone.
    fn drain(&mut self, thread: usize) {
        for _ in 0..self.model.zone.batch {
            let Some(page) = self.freed_to(thread).pop_back() else { break };
            let node = page.node as usize;
            let merged = self.nodes[node].buddy.free(page.index, 0, page.is_zeroed);
            self.freed(node, merged);
        }
        self.release_zone(self.threads[thread].zone);
        self.go_on_unmapping(thread);
    }
}

#[cfg(test)]
mod tests;
