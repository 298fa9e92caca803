//! Names of processes, threads and kinds, and the file of the program.

use std::collections::BTreeMap;

use faultless_trace::observation::What;
use faultless_trace::profile::Profile;
use faultless_trace::recording::{Module, Recording, is_runtime};
use faultless_trace::stat::Kind;

use crate::text::plain;

/// A process and its threads.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) threads: BTreeMap<u32, String>,
}

/// Every process of a recording. A thread has the last name that it took.
pub(super) fn processes(recording: &Recording, profile: &Profile) -> BTreeMap<u32, Process> {
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    let see = |processes: &mut BTreeMap<u32, Process>, pid, tid| {
        processes.entry(pid).or_default().threads.entry(tid).or_default();
    };
    for record in &recording.observation.records {
        see(&mut processes, record.pid, record.tid);
        match &record.what {
            What::Name(name) => {
                let process = processes.entry(record.pid).or_default();
                process.threads.insert(record.tid, plain(name));
            }
            What::Fork { parent } if *parent != record.pid => {
                parents.insert(record.pid, *parent);
            }
            _ => {}
        }
    }
    for fault in &profile.faults {
        see(&mut processes, fault.pid, fault.tid);
    }
    let command = recording.header.command.first().map(|path| plain(path.rsplit('/').next().unwrap_or(path)));
    let main = |pid: u32, processes: &BTreeMap<u32, Process>| {
        let threads = &processes.get(&pid)?.threads;
        threads.get(&pid).filter(|name| !name.is_empty()).cloned()
    };
    let pids: Vec<u32> = processes.keys().copied().collect();
    for pid in pids {
        let inherited = || parents.get(&pid).and_then(|parent| main(*parent, &processes));
        let name = main(pid, &processes).or_else(inherited).or_else(|| command.clone());
        let name = name.unwrap_or_else(|| format!("process {pid}"));
        let Some(process) = processes.get_mut(&pid) else { continue };
        process
            .threads
            .values_mut()
            .filter(|thread| thread.is_empty())
            .for_each(|thread| *thread = name.clone());
        process.name = name;
    }
    processes
}

/// The names of a fault's process and thread.
pub(super) fn of(processes: &BTreeMap<u32, Process>, pid: u32, tid: u32) -> (&str, &str) {
    let Some(process) = processes.get(&pid) else { return ("", "") };
    (&process.name, process.threads.get(&tid).map_or("", String::as_str))
}

/// The word of a kind in all our JSON documents: `mmap_first_write`.
pub(super) fn kind(kind: Kind) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The program's own file: the one that is named as the command, else the one in which most stacks begin.
pub(super) fn main_module(recording: &Recording) -> usize {
    let stacks = &recording.stacks;
    let command = recording.header.command.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let named = |module: &Module| module.short_name() == command;
    if let Some(named) = stacks.modules.iter().position(named) {
        return named;
    }
    let mut begins = vec![0_u64; stacks.modules.len()];
    for frames in &stacks.stacks {
        let mut outer = frames.iter().rev().filter_map(|&frame| stacks.frames.get(frame as usize)?.module);
        let is_own = |module: &u32| {
            let module = stacks.modules.get(*module as usize);
            module.is_some_and(|module| !is_runtime(module.short_name()) && !module.path.starts_with('['))
        };
        if let Some(module) = outer.find(is_own) {
            begins[module as usize] += 1;
        }
    }
    (0..begins.len()).rev().max_by_key(|&module| begins[module]).unwrap_or(0)
}
