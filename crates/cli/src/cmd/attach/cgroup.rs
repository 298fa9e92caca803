//! The processes of a control group.
//!
//! In: a group as a user knows it: a line of /proc/PID/cgroup, the path in one, or a folder. Out: process ids, or one
//! line that says why there are none.
//!
//! Version 1 mounts a hierarchy for each set of controllers, version 2 one for all, and hybrid machines have both. So
//! the path is looked for in each of them. Source: cgroups(7), /proc/PID/mountinfo in proc(5).

use std::path::{Path, PathBuf};

use faultless_console::Failure;
use faultless_os::procfs;

const PROCS: &str = "cgroup.procs";

/// The processes of a group and of those below it, but this one and threads of the kernel. `root` is where /proc and
/// /sys are.
pub(super) fn members(root: &Path, group: &Path) -> Result<Vec<u32>, Failure> {
    let folders = folders(root, group);
    let is_program = |pid: &u32| {
        *pid != 0 && *pid != std::process::id() && !procfs::stat(*pid).is_some_and(|stat| stat.of_kernel)
    };
    let members = folders.iter().map(|folder| below(folder).into_iter().filter(is_program).collect());
    members.into_iter().find(|pids: &Vec<u32>| !pids.is_empty()).ok_or_else(|| {
        let what = if folders.is_empty() {
            "no such control group; /proc/PID/cgroup names that of a process"
        } else {
            "no process in this control group"
        };
        Failure(format!("{}: {what}", group.display()))
    })
}

/// Process ids in a folder and in those below it.
fn below(folder: &Path) -> Vec<u32> {
    let mut pids = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(text) = std::fs::read_to_string(folder.join(PROCS)) else { continue };
        pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(entries.map(|entry| entry.path()).filter(|path| path.join(PROCS).exists()));
    }
    pids
}

/// A mounted hierarchy.
struct Hierarchy {
    /// Where it is mounted.
    folder: PathBuf,
    /// The group that is mounted there: a container may see its own only.
    group: PathBuf,
    /// Its controllers and name; none for version 2.
    controllers: Vec<String>,
}

/// All folders that `group` may mean.
fn folders(root: &Path, group: &Path) -> Vec<PathBuf> {
    let in_root = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let mountinfo = std::fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let hierarchies = mountinfo.lines().filter_map(hierarchy);
    let (controllers, path) = parts(group);
    let inside = Path::new("/").join(path);
    let mounted = hierarchies.filter(|hierarchy| controllers.is_none_or(|wanted| hierarchy.has(wanted)));
    let mut found: Vec<PathBuf> = Vec::new();
    if controllers.is_none() {
        found
            .extend([in_root(path), root.join("sys/fs/cgroup").join(path.strip_prefix("/").unwrap_or(path))]);
    }
    for hierarchy in mounted {
        let folder = in_root(&hierarchy.folder);
        let below = [&hierarchy.group, Path::new("/")];
        let paths = below.into_iter().filter_map(|group| inside.strip_prefix(group).ok());
        found.extend(paths.map(|path| folder.join(path)));
    }
    found.retain(|folder| folder.join(PROCS).exists());
    found
}

/// The controllers, if `group` is a line `NUMBER:CONTROLLERS:PATH`, and the path.
fn parts(group: &Path) -> (Option<&str>, &Path) {
    let line = || {
        let (number, rest) = group.to_str()?.split_once(':')?;
        number.parse::<u32>().ok()?;
        rest.split_once(':')
    };
    line().map_or((None, group), |(controllers, path)| (Some(controllers), Path::new(path)))
}

/// `ID PARENT DEVICE GROUP FOLDER OPTIONS ... - cgroup SOURCE rw,CONTROLLERS`.
fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut places = mount.split(' ').skip(3).map(PathBuf::from);
    let kind: Vec<&str> = kind.split(' ').collect();
    let controllers = match kind[..] {
        ["cgroup2", ..] => Vec::new(),
        ["cgroup", _, options] => options.split(',').map(String::from).collect(),
        _ => return None,
    };
    Some(Hierarchy { group: places.next()?, folder: places.next()?, controllers })
}

impl Hierarchy {
    /// Whether it is the one of a line with these controllers; version 2 has none.
    fn has(&self, wanted: &str) -> bool {
        let mut each = wanted.split(',').filter(|name| !name.is_empty()).peekable();
        match each.peek() {
            None => self.controllers.is_empty(),
            Some(_) => each.all(|name| self.controllers.iter().any(|known| known == name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A /proc and a /sys with these mounts and groups. The processes of a group are beyond any that may run.
    fn machine(mounts: &[&str], groups: &[(&str, u32)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::write(root.path().join("proc/self/mountinfo"), mounts.join("\n")).unwrap();
        for (group, pid) in groups {
            let folder = root.path().join("sys/fs/cgroup").join(group);
            std::fs::create_dir_all(&folder).unwrap();
            let text = if *pid == 0 { String::new() } else { format!("0\n{pid}\n") };
            std::fs::write(folder.join(PROCS), text).unwrap();
        }
        root
    }

    const CPU: &str = "31 26 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:4 - cgroup cgroup rw,cpu,cpuacct";
    const MEMORY: &str = "32 26 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory";
    const SYSTEMD: &str = "33 26 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd";
    const V2: &str = "34 26 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
    const UNIFIED: &str = "35 26 0:30 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw";
    const PID: u32 = 5_000_001;

    fn found(root: &tempfile::TempDir, group: &str) -> Result<Vec<u32>, String> {
        members(root.path(), Path::new(group)).map_err(|Failure(why)| why)
    }

    #[test]
    fn on_version_2_a_path_a_line_a_name_and_a_folder_mean_the_same() {
        let groups = [("", 0), ("user.slice", 0), ("user.slice/x", PID), ("user.slice/x/below", PID + 1)];
        let root = machine(&[V2], &groups);
        for group in ["/user.slice/x", "0::/user.slice/x", "user.slice/x", "/sys/fs/cgroup/user.slice/x"] {
            assert_eq!(found(&root, group), Ok(vec![PID, PID + 1]), "{group}");
        }
        assert!(found(&root, "/user.slice/y").unwrap_err().contains("no such control group"));
        assert!(found(&root, "4:memory:/user.slice/x").unwrap_err().contains("no such control group"));
    }

    #[test]
    fn on_version_1_each_controller_has_its_own_groups() {
        let groups =
            [("memory/a/x", PID), ("memory/y", PID + 1), ("cpu,cpuacct/y", PID + 2), ("systemd/s", PID + 3)];
        let root = machine(&[CPU, MEMORY, SYSTEMD], &groups);
        for group in ["/a/x", "a/x", "4:memory:/a/x", "memory/a/x", "/sys/fs/cgroup/memory/a/x"] {
            assert_eq!(found(&root, group), Ok(vec![PID]), "{group}");
        }
        assert_eq!(found(&root, "4:memory:/y"), Ok(vec![PID + 1]));
        assert_eq!(found(&root, "5:cpu,cpuacct:/y"), Ok(vec![PID + 2]));
        assert_eq!(found(&root, "1:name=systemd:/s"), Ok(vec![PID + 3]));
        assert!(found(&root, "5:cpu,cpuacct:/a/x").is_err());
    }

    #[test]
    fn on_hybrid_machines_the_hierarchy_that_holds_processes_is_meant() {
        let groups = [("memory/x", 0), ("unified/x", PID), ("unified/z", 0), ("memory/m", PID + 1)];
        let root = machine(&[MEMORY, UNIFIED], &groups);
        for group in ["/x", "0::/x", "unified/x"] {
            assert_eq!(found(&root, group), Ok(vec![PID]), "{group}");
        }
        assert_eq!(found(&root, "/m"), Ok(vec![PID + 1]));
        assert!(found(&root, "4:memory:/x").unwrap_err().contains("no process in this control group"));
    }

    #[test]
    fn a_container_that_sees_its_own_group_only_takes_the_path_of_the_host() {
        let mount = "36 26 0:28 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        let root = machine(&[mount], &[("memory", PID), ("memory/x", PID + 1)]);
        assert_eq!(found(&root, "4:memory:/docker/0123/x"), Ok(vec![PID + 1]));
        assert_eq!(found(&root, "/docker/0123"), Ok(vec![PID, PID + 1]));
    }
}
