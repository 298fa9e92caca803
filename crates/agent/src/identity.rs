//! What a control group's path says: service, systemd unit, container and pod.
//!
//! In: the path. Out: an [`Identity`]. It asks no container runtime, which would need its socket and so its rights.
//!
//! Paths of systemd end in `NAME.service` or `NAME.scope`. Runtimes put the container's id, 64 hexadecimal digits, into
//! the last part: `/docker/ID`, `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`,
//! `/kubepods/burstable/podUID/ID`. The kubelet puts the pod's UID into the part above.

use crate::tuning as t;

/// Names of a group, for labels. Unknown ones are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The unit's name without its ending, or the start of the container's id, or the last part of the path.
    pub(crate) service: String,
    pub(crate) unit: String,
    /// All 64 digits, as `container_id` has them elsewhere.
    pub(crate) container: String,
    /// The pod's UID, as `kube_pod_info` has it.
    pub(crate) pod: String,
    pub(crate) cgroup: String,
}

/// Digits of a container's id, and how many of them `docker ps` shows.
const ID_DIGITS: usize = 64;
const ID_SHOWN: usize = 12;

impl Identity {
    /// Reads a path.
    pub(crate) fn of(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let at = parts.iter().rposition(|part| container(part).is_some());
        let id = at.and_then(|at| container(parts[at])).unwrap_or_default();
        // Below a container, units are its own: they come after it.
        let inner = &parts[at.map_or(0, |at| at + 1)..];
        let unit = inner.iter().rev().find(|part| is_unit(part)).copied().unwrap_or_default();
        let pod = parts[..at.unwrap_or(0)].iter().rev().find_map(|part| pod(part)).unwrap_or_default();
        let service = if !unit.is_empty() {
            unit.rsplit_once('.').map_or(unit, |(name, _)| name)
        } else if !id.is_empty() {
            &id[..ID_SHOWN]
        } else {
            parts.last().copied().unwrap_or("/")
        };
        Self {
            service: short(&unescaped(service)),
            unit: short(&unescaped(unit)),
            container: id.to_owned(),
            pod,
            cgroup: short(path),
        }
    }
}

fn is_unit(part: &str) -> bool {
    [".service", ".scope", ".socket", ".mount"].iter().any(|ending| part.ends_with(ending))
}

/// A container's id in a part of a path.
fn container(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = &name[name.len().checked_sub(ID_DIGITS).filter(|at| name.is_char_boundary(*at))?..];
    let before = &name[..name.len() - ID_DIGITS];
    let stands_alone = before.is_empty() || before.ends_with(['-', ':']);
    (stands_alone && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// A pod's UID: `podUID`, or with systemd `kubepods-burstable-podUID.slice` with `_` for `-`.
fn pod(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let at = name.rfind("pod").filter(|at| *at == 0 || name[..*at].ends_with('-'))?;
    let uid = name[at + 3..].replace('_', "-");
    let is_uid = uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

/// systemd writes `\x2d` for `-` in a name.
fn unescaped(name: &str) -> String {
    let mut parts = name.split("\\x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(u8::is_ascii) {
            Some(byte) => {
                text.push(byte as char);
                text += &part[2..];
            }
            None => {
                text += "\\x";
                text += part;
            }
        }
    }
    text
}

/// The text without control characters, cut to what a label may hold.
pub(crate) fn short(text: &str) -> String {
    let mut text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let end = (0..=t::LABEL_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn of(path: &str) -> [String; 4] {
        let Identity { service, unit, container, pod, .. } = Identity::of(&path.replace("ID", ID));
        [service, unit, container, pod]
    }

    #[test]
    fn units_of_systemd_are_services() {
        let found = |path| of(path).map(|text| text.replace(ID, "ID"));
        assert_eq!(
            found("/system.slice/redis-server.service"),
            ["redis-server", "redis-server.service", "", ""]
        );
        assert_eq!(
            found("/user.slice/user-1000.slice/user@1000.service/app.slice/app-org\\x2dx.scope")[0],
            "app-org-x"
        );
        assert_eq!(
            found("/system.slice/system-getty.slice/getty@tty1.service/tasks")[1],
            "getty@tty1.service"
        );
        assert_eq!(found("/a/b"), ["b", "", "", ""]);
        assert_eq!(found("/"), ["/", "", "", ""]);
    }

    #[test]
    fn containers_and_pods_of_all_runtimes_are_found() {
        let short = &ID[..12];
        let container = |path: &str| {
            let [service, _, container, pod] = of(path);
            assert_eq!((service.as_str(), container.as_str()), (short, ID), "{path}");
            pod
        };
        assert_eq!(container("/docker/ID"), "");
        assert_eq!(container("/system.slice/docker-ID.scope"), "");
        assert_eq!(container("/machine.slice/libpod-ID.scope"), "");
        let uid = "2c48913c-b29f-11e7-9350-020968147796";
        let slice = uid.replace('-', "_");
        for path in [
            format!("/kubepods/burstable/pod{uid}/ID"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/crio-ID.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-ID.scope"),
        ] {
            assert_eq!(container(&path), uid, "{path}");
        }
    }

    #[test]
    fn a_unit_inside_a_container_names_the_service() {
        let [service, unit, container, _] = of("/docker/ID/system.slice/nginx.service");
        assert_eq!((service.as_str(), unit.as_str(), container.as_str()), ("nginx", "nginx.service", ID));
    }

    #[test]
    fn odd_names_are_no_containers_and_labels_stay_short() {
        let digits = &ID[..63];
        assert_eq!(Identity::of(&format!("/x/{digits}")).container, "");
        assert_eq!(Identity::of(&format!("/x/a{ID}")).container, "", "part of a longer name");
        assert_eq!(Identity::of(&format!("/ö{}", "ü".repeat(200))).cgroup.len(), 256 - 1);
        assert_eq!(Identity::of("/a\nb").service, "a?b");
        assert_eq!(unescaped("a\\x2db\\xzz\\x"), "a-b\\xzz\\x");
    }
}
