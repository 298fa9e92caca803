//! Faults by control group: a known workload, its end, and many groups.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::agent::{Agent, Metrics, until};

/// A control group below this process's, removed at the end.
struct Group {
    folder: PathBuf,
    name: String,
}

impl Group {
    /// Makes it; `None`, noted, where that is not allowed.
    fn make(name: &str) -> Option<Self> {
        let name = format!("faultless-{name}-{}", std::process::id());
        let said = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = |controller: &str| {
            let line = said.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(controller));
            line.map(|path| path.trim_matches('/').to_owned())
        };
        let v1 = own("memory:").map(|path| PathBuf::from("/sys/fs/cgroup/memory").join(path));
        let v2 = own(":").map(|path| PathBuf::from("/sys/fs/cgroup").join(path));
        let parents = [v1, v2].into_iter().flatten().filter(|folder| folder.join("cgroup.procs").exists());
        let mut made =
            parents.map(|parent| parent.join(&name)).filter(|folder| fs::create_dir(folder).is_ok());
        let Some(folder) = made.next() else {
            faultless_wants::missing_feature("memory control groups", "none can be made");
            return None;
        };
        let group = Self { folder, name };
        if !group.folder.join("memory.stat").exists() {
            faultless_wants::missing_feature("memory control groups", "the new group counts nothing");
            return None;
        }
        Some(group)
    }

    /// Runs a command of the shell in it.
    fn run(&self, command: &str, environment: &[(&str, String)]) -> Child {
        let script = format!("echo $$ > {}/cgroup.procs && {command}", self.folder.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdout(Stdio::null());
        shell.envs(environment.iter().map(|(name, value)| (*name, value))).spawn().unwrap()
    }

    /// Runs [`load`] in it.
    fn touch(&self, pages: usize, rounds: usize, rest_s: u64) -> Child {
        let (program, environment) = workload(pages, rounds, rest_s);
        self.run(&format!("exec {program}"), &environment)
    }

    fn faults(&self, metrics: &Metrics) -> Option<f64> {
        metrics.sum("faultless_page_faults_total", &[&self.name, "kind=\"minor\""])
    }

    fn seconds(&self, metrics: &Metrics) -> f64 {
        metrics.sum("faultless_fault_seconds_total", &[&self.name]).unwrap_or(0.0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel takes a moment to notice that the last process is gone.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Starts the workload that touches `pages` in each of so many rounds, then rests.
pub(crate) fn load(pages: usize, rounds: usize, rest_s: u64) -> Child {
    let (program, environment) = workload(pages, rounds, rest_s);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {program}")]).stdout(Stdio::null()).envs(environment).spawn().unwrap()
}

/// Its command for the shell, and its environment.
fn workload(pages: usize, rounds: usize, rest_s: u64) -> (String, [(&'static str, String); 4]) {
    let own = std::env::current_exe().unwrap();
    let environment = [
        ("LOAD_PAGES", pages.to_string()),
        ("LOAD_ROUNDS", rounds.to_string()),
        ("LOAD_REST_S", rest_s.to_string()),
        // Each round maps its memory anew.
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=131072".into()),
    ];
    (format!("{} --exact touch --ignored -q", own.display()), environment)
}

/// Whether every fault maps one base page.
fn has_base_pages() -> bool {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let is_always = text.contains("[always]");
    if is_always {
        faultless_wants::missing_feature("THP not always", "a fault may map a huge page");
    }
    !is_always
}

#[test]
fn a_groups_faults_are_those_of_its_workload_and_stay_after_its_end() {
    let Some(group) = Group::make("load") else { return };
    if !has_base_pages() {
        return;
    }
    const PAGES: usize = 10_000;
    const ROUNDS: usize = 40;
    let agent = Agent::start(&[]);
    let mut before = agent.poll();
    let mut load = group.touch(PAGES, ROUNDS, 0);
    assert!(load.wait().unwrap().success());
    let expected = (PAGES * ROUNDS) as f64;
    // Its process may have ended before a poll saw it; then the machine has its faults.
    let mut found = agent.poll();
    found.has_not_fallen_since(&before);
    // Now, because the series of a group that is gone is dropped after some rounds.
    let total = found.sum("faultless_page_faults_total", &["kind=\"minor\""]).unwrap();
    assert!(total >= expected * 0.9, "{total}");
    if let Some(faults) = group.faults(&found) {
        assert!((expected..expected * 1.05 + 5_000.0).contains(&faults), "{faults} of {expected}");
        let price_s = group.seconds(&found) / faults;
        assert!((1e-8..1e-3).contains(&price_s), "{price_s} s each");
    }
    drop(group);
    for _ in 0..10 {
        before = found;
        found = agent.poll();
        found.has_not_fallen_since(&before);
    }
}

#[test]
fn faults_of_processes_that_end_between_polls_are_their_groups() {
    let Some(group) = Group::make("short") else { return };
    let agent = Agent::start(&[]);
    // The shell stays, what it starts does not.
    let mut load = group.run("for i in $(seq 200); do /bin/true; done; sleep 4", &[]);
    until("the group", || group.faults(&agent.scrape()).is_some());
    assert!(load.wait().unwrap().success());
    // A process takes some 100 faults from fork to end.
    let faults = group.faults(&agent.scrape()).unwrap();
    assert!(faults > 200.0 * 30.0, "{faults} faults of 200 processes");
}

#[test]
fn a_group_made_anew_under_its_name_goes_on() {
    let Some(group) = Group::make("anew") else { return };
    let agent = Agent::start(&[]);
    let mut before = agent.scrape();
    let mut last = 0.0;
    for _ in 0..3 {
        let _ = fs::create_dir(&group.folder);
        let mut load = group.touch(2_000, 2, 2);
        until("more faults", || {
            let now = agent.scrape();
            now.has_not_fallen_since(&before);
            before = now;
            group.faults(&before).is_some_and(|faults| faults > last)
        });
        last = group.faults(&before).unwrap();
        assert!(load.wait().unwrap().success());
        until("its end", || fs::remove_dir(&group.folder).is_ok());
    }
}

#[test]
fn beyond_the_top_groups_are_one() {
    let names = ["one", "two", "three", "four", "five", "six"];
    let groups: Vec<Group> = names.iter().filter_map(|name| Group::make(name)).collect();
    if groups.len() < names.len() {
        return;
    }
    let agent = Agent::start(&["--top", "2"]);
    let mut loads: Vec<Child> = groups.iter().map(|group| group.touch(1_000, 3, 5)).collect();
    let mut found = Metrics::default();
    until("folded groups", || {
        found = agent.scrape();
        found.sum("faultless_groups", &["folded"]).is_some_and(|folded| folded >= 4.0)
    });
    let series: HashMap<_, _> =
        found.series.iter().filter(|(name, _)| name.starts_with("faultless_fault_seconds_total")).collect();
    // Two that count, at most two that stand still, the others, and what no group had.
    assert!(series.len() <= 6, "{series:?}");
    loads.iter_mut().for_each(|load| assert!(load.wait().unwrap().success()));
}
