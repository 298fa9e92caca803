//! The control groups of a machine: which one a process is in, and what a group has counted.
//!
//! In: a process, or the path of a group. Out: paths, and counters since the group was made. A group that is gone, or
//! whose controller is off, answers `None`.
//!
//! A group's counters hold what its ended processes did, which `/proc/PID` forgets. They are hierarchical in version 2:
//! a group's include those of the groups below. In version 1, faults are the group's own.
//!
//! It does not read limits (`host`), or decide what a path means.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,cpuacct}.rst of Linux; cgroups(7) and
//! cgroup_namespaces(7).

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The root of every hierarchy. It counts the machine, or itself alone, depending on the version.
pub const ROOT: &str = "/";

/// What a group has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Minor and major faults; `None` without the memory controller.
    pub faults: Option<u64>,
    /// The major ones among them.
    pub major_faults: Option<u64>,
    /// Huge pages that faults made; version 2 only.
    pub huge_faults: Option<u64>,
    /// Huge pages that khugepaged made; version 2 only.
    pub collapses: Option<u64>,
    /// CPU time, ns.
    pub cpu_ns: Option<u64>,
}

/// The mounted hierarchies.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Where /proc is.
    root: PathBuf,
    /// The hierarchy of the memory controller, or that of version 2.
    memory: Option<PathBuf>,
    /// Whether that is version 2.
    is_unified: bool,
    /// The hierarchy of version 1's controller of CPU time.
    cpu: Option<PathBuf>,
    /// This process's group in the mounted hierarchy, where its namespace shows paths relative to that group.
    own: Option<String>,
}

impl Groups {
    /// Looks for them.
    pub fn find() -> Self {
        Self::below(Path::new("/"), std::process::id())
    }

    fn below(root: &Path, pid: u32) -> Self {
        let mount = root.join("sys/fs/cgroup");
        let named = |names: &[&str]| {
            names.iter().map(|name| mount.join(name)).find(|folder| folder.join(PROCS).exists())
        };
        let unified = Some(mount.clone()).filter(|folder| folder.join("cgroup.controllers").exists());
        let memory = unified.clone().or_else(|| named(&["memory"]));
        let mut groups = Self {
            root: root.to_owned(),
            is_unified: unified.is_some(),
            memory: memory.or_else(|| named(&["unified"])),
            cpu: named(&["cpuacct", "cpu,cpuacct"]),
            own: None,
        };
        if groups.said(pid).is_some_and(|path| path == ROOT) {
            groups.own = groups.holds(pid).filter(|path| path != ROOT);
        }
        groups
    }

    /// The group of a process. Where several hierarchies are mounted: that of the memory controller, else of version 2,
    /// else of systemd, whichever is first not the root.
    pub fn of_process(&self, pid: u32) -> Option<String> {
        let said = self.said(pid)?;
        Some(match &self.own {
            Some(own) => joined(own, &said),
            None => said,
        })
    }

    fn said(&self, pid: u32) -> Option<String> {
        let text = std::fs::read(self.root.join(format!("proc/{pid}/cgroup"))).ok()?;
        path(&String::from_utf8_lossy(&text))
    }

    /// Tells a group from a later one with the same path.
    pub fn id(&self, path: &str) -> Option<u64> {
        std::fs::metadata(folder(self.memory.as_ref()?, path)).ok().map(|folder| folder.ino())
    }

    /// What a group has counted; all `None` if nothing counts.
    pub fn counters(&self, path: &str) -> Counters {
        let text = |root: &Option<PathBuf>, name: &str| {
            std::fs::read_to_string(folder(root.as_ref()?, path).join(name)).ok()
        };
        let stat = text(&self.memory, "memory.stat").unwrap_or_default();
        let cpu_ns = if self.is_unified {
            let micros = text(&self.memory, "cpu.stat").and_then(|text| value(&text, "usage_usec"));
            micros.map(|micros| micros * 1_000)
        } else {
            text(&self.cpu, "cpuacct.usage").and_then(|text| text.trim().parse().ok())
        };
        Counters {
            faults: value(&stat, "pgfault"),
            major_faults: value(&stat, "pgmajfault"),
            huge_faults: value(&stat, "thp_fault_alloc"),
            collapses: value(&stat, "thp_collapse_alloc"),
            cpu_ns,
        }
    }

    /// All groups, at most this many.
    pub fn all(&self, most: usize) -> Vec<String> {
        let mut found = Vec::new();
        let Some(root) = &self.memory else { return found };
        let mut next = vec![String::from(ROOT)];
        while let Some(path) = next.pop().filter(|_| found.len() < most) {
            let entries = std::fs::read_dir(folder(root, &path)).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let parent = path.trim_end_matches('/');
            next.extend(below.map(|entry| format!("{parent}/{}", entry.file_name().to_string_lossy())));
            found.push(path);
        }
        found
    }

    /// The group that lists this process.
    fn holds(&self, pid: u32) -> Option<String> {
        /// More groups than any machine has; bounds the search.
        const MOST: usize = 100_000;
        let root = self.memory.as_ref()?;
        let lists = |path: &String| {
            let text = std::fs::read_to_string(folder(root, path).join(PROCS)).unwrap_or_default();
            text.lines().any(|line| line.parse() == Ok(pid))
        };
        self.all(MOST).into_iter().find(lists)
    }
}

const PROCS: &str = "cgroup.procs";

fn folder(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// The number behind a name at the begin of a line.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The path in the lines `NUMBER:CONTROLLERS:PATH` of /proc/PID/cgroup.
fn path(text: &str) -> Option<String> {
    let mut places = [None; 3];
    for line in text.lines() {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let place = match controllers {
            "" if number == "0" => 1,
            "name=systemd" => 2,
            _ if controllers.split(',').any(|name| name == "memory") => 0,
            _ => continue,
        };
        places[place] = Some(path);
    }
    let mut places = places.into_iter().flatten();
    let first = places.next()?;
    let found = if first == ROOT { places.find(|path| *path != ROOT).unwrap_or(ROOT) } else { first };
    // The kernel marks the group of a process that outlived it.
    Some(found.strip_suffix(" (deleted)").unwrap_or(found).to_owned())
}

/// `relative`, which may begin with `/..`, seen from `own`.
fn joined(own: &str, relative: &str) -> String {
    let mut words: Vec<&str> = own.split('/').filter(|word| !word.is_empty()).collect();
    for word in relative.split('/').filter(|word| !word.is_empty()) {
        if word == ".." {
            words.pop();
        } else {
            words.push(word);
        }
    }
    format!("/{}", words.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn machine(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("faultless-groups-{name}-{}", std::process::id()))
    }

    #[test]
    fn the_memory_hierarchy_names_a_process_unless_it_lies_at_its_root() {
        assert_eq!(path("4:memory:/a\n1:name=systemd:/s\n0::/b\n").as_deref(), Some("/a"));
        assert_eq!(path("4:cpu,memory:/\n1:name=systemd:/s\n0::/b\n").as_deref(), Some("/b"));
        assert_eq!(path("4:memory:/\n1:name=systemd:/s\n0::/\n").as_deref(), Some("/s"));
        assert_eq!(path("0::/user.slice/x (deleted)\n").as_deref(), Some("/user.slice/x"));
        assert_eq!(path("0::/\n").as_deref(), Some("/"));
        assert_eq!((path(""), path("nonsense"), path("5:pids:/p\n")), (None, None, None));
    }

    #[test]
    fn version_2_counts_faults_huge_pages_and_time() {
        let root = machine("v2");
        put(&root, "sys/fs/cgroup/cgroup.controllers", "memory\n");
        put(&root, "sys/fs/cgroup/cgroup.procs", "");
        put(&root, "proc/7/cgroup", "0::/a/b\n");
        let stat = "anon 5\npgfault 70\npgmajfault 3\nthp_fault_alloc 2\nthp_collapse_alloc 1\n";
        put(&root, "sys/fs/cgroup/a/b/memory.stat", stat);
        put(&root, "sys/fs/cgroup/a/b/cpu.stat", "usage_usec 12\nuser_usec 5\n");
        let groups = Groups::below(&root, 1);
        let counted = groups.counters("/a/b");
        let (all, id) = (groups.all(9), groups.id("/a/b"));
        let of = groups.of_process(7);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(of.as_deref(), Some("/a/b"));
        let expected = Counters {
            faults: Some(70),
            major_faults: Some(3),
            huge_faults: Some(2),
            collapses: Some(1),
            cpu_ns: Some(12_000),
        };
        assert_eq!(counted, expected);
        assert_eq!(all, ["/", "/a", "/a/b"]);
        assert!(
            id.is_some() && groups.id("/a/b").is_none() && groups.counters("/a/b") == Counters::default()
        );
    }

    #[test]
    fn version_1_counts_time_in_another_hierarchy() {
        let root = machine("v1");
        put(&root, "sys/fs/cgroup/memory/cgroup.procs", "");
        put(&root, "sys/fs/cgroup/cpuacct/cgroup.procs", "");
        put(&root, "sys/fs/cgroup/memory/x/memory.stat", "pgfault 9\npgmajfault 1\ntotal_pgfault 90\n");
        put(&root, "sys/fs/cgroup/cpuacct/x/cpuacct.usage", "77\n");
        let counted = Groups::below(&root, 1).counters("/x");
        std::fs::remove_dir_all(&root).unwrap();
        let expected =
            Counters { faults: Some(9), major_faults: Some(1), cpu_ns: Some(77), ..Counters::default() };
        assert_eq!(counted, expected);
    }

    #[test]
    fn in_a_namespace_of_its_own_paths_are_seen_from_the_own_group() {
        let root = machine("namespace");
        put(&root, "sys/fs/cgroup/cgroup.controllers", "memory\n");
        put(&root, "sys/fs/cgroup/pods/agent/cgroup.procs", "5\n");
        put(&root, "proc/5/cgroup", "0::/\n");
        put(&root, "proc/6/cgroup", "0::/../web\n");
        let groups = Groups::below(&root, 5);
        let of = [5, 6].map(|pid| groups.of_process(pid));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(of.map(Option::unwrap), ["/pods/agent", "/pods/web"]);
        assert_eq!((joined("/a", "/../../b"), joined("/a/b", "/")), ("/b".into(), "/a/b".into()));
    }

    #[test]
    fn this_process_is_in_a_group() {
        let groups = Groups::find();
        let path = groups.of_process(std::process::id());
        assert!(path.is_some_and(|path| path.starts_with('/')), "{groups:?}");
        assert_eq!(groups.of_process(u32::MAX), None);
    }
}
