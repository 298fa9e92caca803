//! Memory limits of the cgroup of this process.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux. A limit of any ancestor binds, so
//! the tightest one on the way up is taken.

use super::files::Files;
use super::parse::{counters, limit};

/// Memory limits, and how often they took effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup {
    /// 1 or 2: the version of the memory controller.
    pub version: u8,
    /// The path inside the hierarchy, as `/proc/self/cgroup` shows it.
    pub path: String,
    /// Hard limit in bytes, the tightest on the way up.
    pub max_bytes: Option<u64>,
    /// v2's throttling limit in bytes, the tightest on the way up.
    pub high_bytes: Option<u64>,
    /// Bytes charged now.
    pub current_bytes: Option<u64>,
    /// How often tasks were throttled at `memory.high` (`memory.events`, v2).
    pub high_events: Option<u64>,
    /// How often a limit was met, here and above: `high` and `max` of `memory.events` (v2), `memory.failcnt` (v1).
    pub limit_hits: Option<u64>,
}

impl Cgroup {
    /// Reads the limits of this process as they are now; `None` without a memory controller.
    pub fn now() -> Option<Self> {
        Self::read(&Files::new(std::path::Path::new("/")))
    }

    /// The lower of the two limits.
    pub fn limit_bytes(&self) -> Option<u64> {
        [self.max_bytes, self.high_bytes].into_iter().flatten().min()
    }

    pub(super) fn read(files: &Files) -> Option<Self> {
        let text = files.text("proc/self/cgroup")?;
        let (v1, v2) = paths(&text);
        v1.and_then(|path| read_v1(files, path)).or_else(|| v2.and_then(|path| read_v2(files, path)))
    }
}

/// The paths of the v1 memory controller and of the v2 hierarchy.
fn paths(text: &str) -> (Option<&str>, Option<&str>) {
    let (mut v1, mut v2) = (None, None);
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("0"), Some(""), Some(path)) => v2 = Some(path),
            (_, Some(names), Some(path)) if names.split(',').any(|name| name == "memory") => v1 = Some(path),
            _ => {}
        }
    }
    (v1, v2)
}

fn read_v2(files: &Files, path: &str) -> Option<Cgroup> {
    const ROOT: &str = "sys/fs/cgroup";
    let path = shown(files, ROOT, path, "memory.current")?;
    let own = format!("{ROOT}{}", path.trim_end_matches('/'));
    let current = files.number(&format!("{own}/memory.current"));
    let events = files.text(&format!("{own}/memory.events")).map(|text| counters(&text));
    Some(Cgroup {
        version: 2,
        path: path.to_owned(),
        max_bytes: tightest(files, ROOT, path, "memory.max"),
        high_bytes: tightest(files, ROOT, path, "memory.high"),
        current_bytes: current.and_then(|bytes| u64::try_from(bytes).ok()),
        high_events: events.and_then(|events| events.get("high").copied()),
        limit_hits: on_the_way_up(files, ROOT, path, "memory.events", |text| {
            let events = counters(text);
            Some(["high", "max"].iter().filter_map(|name| events.get(*name)).sum())
        })
        .into_iter()
        .reduce(u64::saturating_add),
    })
}

fn read_v1(files: &Files, path: &str) -> Option<Cgroup> {
    const ROOT: &str = "sys/fs/cgroup/memory";
    let path = shown(files, ROOT, path, "memory.limit_in_bytes")?;
    Some(Cgroup {
        version: 1,
        path: path.to_owned(),
        max_bytes: tightest(files, ROOT, path, "memory.limit_in_bytes"),
        high_bytes: None,
        current_bytes: files
            .number(&format!("{ROOT}{path}/memory.usage_in_bytes"))
            .and_then(|bytes| u64::try_from(bytes).ok()),
        high_events: None,
        limit_hits: on_the_way_up(files, ROOT, path, "memory.failcnt", |text| text.trim().parse().ok())
            .into_iter()
            .reduce(u64::saturating_add),
    })
}

/// The path where the group is visible here. A container's mount may begin at its group while the path is
/// still the host's; then it is the root. The true root of version 2 has no limits and no such file.
fn shown<'a>(files: &Files, root: &str, path: &'a str, file: &str) -> Option<&'a str> {
    let there = |path: &&str| files.text(&format!("{root}{}/{file}", path.trim_end_matches('/'))).is_some();
    [path, "/"].into_iter().find(there)
}

fn tightest(files: &Files, root: &str, path: &str, name: &str) -> Option<u64> {
    on_the_way_up(files, root, path, name, limit).into_iter().min()
}

/// What a file says in this group and in those above it, as far as it says anything.
fn on_the_way_up(
    files: &Files,
    root: &str,
    path: &str,
    name: &str,
    read: impl Fn(&str) -> Option<u64>,
) -> Vec<u64> {
    let path = path.trim_end_matches('/');
    let parents = std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(parent, _)| parent));
    parents.filter_map(|path| read(&files.text(&format!("{root}{path}/{name}"))?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hierarchies_are_recognised() {
        let hybrid = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/c";
        assert_eq!(paths(hybrid), (Some("/a/b"), Some("/c")));
        assert_eq!(paths("0::/user.slice"), (None, Some("/user.slice")));
        assert_eq!(paths(""), (None, None));
    }

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let root = std::env::temp_dir().join(format!("faultless-cgroup-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/self/cgroup", "0::/outer/inner\n");
        put("sys/fs/cgroup/outer/memory.max", "1000000\n");
        put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
        put("sys/fs/cgroup/outer/inner/memory.high", "900000\n");
        put("sys/fs/cgroup/outer/inner/memory.current", "5000\n");
        put("sys/fs/cgroup/outer/inner/memory.events", "low 0\nhigh 17\nmax 0\n");
        put("sys/fs/cgroup/outer/memory.events", "low 4\nhigh 0\nmax 3\n");
        let cgroup = Cgroup::read(&Files::new(&root)).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(cgroup.max_bytes, Some(1_000_000));
        assert_eq!(cgroup.high_bytes, Some(900_000));
        assert_eq!(cgroup.limit_bytes(), Some(900_000));
        assert_eq!((cgroup.high_events, cgroup.limit_hits), (Some(17), Some(20)));
        assert_eq!(cgroup.current_bytes, Some(5000));
    }

    #[test]
    fn a_container_sees_its_group_at_the_root() {
        let root = std::env::temp_dir().join(format!("faultless-container-{}", std::process::id()));
        std::fs::create_dir_all(root.join("proc/self")).unwrap();
        std::fs::create_dir_all(root.join("sys/fs/cgroup")).unwrap();
        std::fs::write(root.join("proc/self/cgroup"), "0::/docker/0123\n").unwrap();
        let alone = Cgroup::read(&Files::new(&root));
        std::fs::write(root.join("sys/fs/cgroup/memory.max"), "1000000\n").unwrap();
        std::fs::write(root.join("sys/fs/cgroup/memory.current"), "5000\n").unwrap();
        let cgroup = Cgroup::read(&Files::new(&root)).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(alone, None);
        assert_eq!((cgroup.path.as_str(), cgroup.max_bytes), ("/", Some(1_000_000)));
    }
}
