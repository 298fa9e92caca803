//! Kernel, processors, memory, limits, hypervisor.

use std::collections::BTreeMap;

use super::files::Files;
use super::parse::{self, Release, field, kib, parameter};

/// Kernel release, version and boot parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// `uname -r` as it stands.
    pub release_text: Option<String>,
    /// Its numbers.
    pub release: Option<Release>,
    /// `uname -v`.
    pub version: Option<String>,
    /// `/proc/cmdline`.
    pub cmdline: Option<String>,
    /// `/boot/config-RELEASE`, where it is readable.
    pub config: Option<String>,
}

/// Processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Model name.
    pub model: Option<String>,
    /// Processors online.
    pub online: Option<u32>,
    /// The flags that say how pages are cleared (`erms`, `fsrm`, `rep_good`) and whether a hypervisor runs below.
    pub flags: Vec<String>,
}

/// Memory and commit charge, from `/proc/meminfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `MemTotal`.
    pub total_bytes: Option<u64>,
    /// `MemAvailable`.
    pub available_bytes: Option<u64>,
    /// `CommitLimit`.
    pub commit_limit_bytes: Option<u64>,
    /// `Committed_AS`.
    pub committed_bytes: Option<u64>,
}

/// The virtio balloon of a virtual machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balloon {
    /// VIRTIO_BALLOON_F_REPORTING (5.7): free pages are given back to the host.
    pub free_page_reporting: bool,
    /// Free blocks of this order and larger are reported (`page_reporting_order`, 5.14).
    pub reporting_order: Option<u8>,
}

/// Soft limits of this process; `None` is unlimited or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// RLIMIT_AS.
    pub address_space_bytes: Option<u64>,
    /// RLIMIT_DATA.
    pub data_bytes: Option<u64>,
    /// RLIMIT_MEMLOCK.
    pub memlock_bytes: Option<u64>,
}

impl Kernel {
    pub(super) fn read(files: &Files) -> Self {
        let release_text = files.text("proc/sys/kernel/osrelease");
        Self {
            release: release_text.as_deref().and_then(Release::parse),
            config: release_text.as_deref().and_then(|release| files.text(&format!("boot/config-{release}"))),
            release_text,
            version: files.text("proc/sys/kernel/version"),
            cmdline: files.text("proc/cmdline"),
        }
    }

    /// Whether this kernel is `major.minor` or later; `None` when its release cannot be read.
    pub fn at_least(&self, major: u32, minor: u32) -> Option<bool> {
        self.release.map(|release| release.at_least(major, minor))
    }

    /// The value of a boot parameter, empty for a bare one.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.cmdline.as_deref().and_then(|cmdline| parameter(cmdline, name))
    }

    /// Whether a kernel option is set to `y`; `None` when the configuration cannot be read.
    pub fn option(&self, name: &str) -> Option<bool> {
        let config = self.config.as_deref()?;
        Some(field(config, &format!("{name}=")) == Some("y"))
    }
}

impl Cpu {
    pub(super) fn read(files: &Files) -> Self {
        const WANTED: [&str; 4] = ["hypervisor", "erms", "fsrm", "rep_good"];
        let info = files.text("proc/cpuinfo").unwrap_or_default();
        let value = |name: &str| field(&info, name).map(|rest| rest.trim_start_matches([':', '\t', ' ']));
        let flags = value("flags").unwrap_or_default();
        let online = files.text("sys/devices/system/cpu/online");
        let listed = info.lines().filter(|line| line.starts_with("processor")).count();
        Self {
            model: value("model name").or_else(|| value("CPU part")).map(str::to_owned),
            online: online
                .and_then(|text| parse::cpu_list(&text))
                .or_else(|| u32::try_from(listed).ok().filter(|count| *count > 0)),
            flags: flags.split_whitespace().filter(|flag| WANTED.contains(flag)).map(str::to_owned).collect(),
        }
    }

    /// Whether a flag is there.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|found| found == flag)
    }
}

impl Memory {
    /// Reads this machine's memory as it is now.
    pub fn now() -> Self {
        Self::read(&Files::new(std::path::Path::new("/")))
    }

    /// Upper bound on the bytes a process may have now: the available memory, and the limit of its control
    /// group. The group's charge may include file cache, which can be reclaimed.
    pub fn most_bytes() -> Option<u64> {
        let limit = super::Cgroup::now().and_then(|cgroup| cgroup.limit_bytes());
        [Self::now().available_bytes, limit].into_iter().flatten().min()
    }

    pub(super) fn read(files: &Files) -> Self {
        let info = files.text("proc/meminfo").unwrap_or_default();
        Self {
            total_bytes: kib(&info, "MemTotal:"),
            available_bytes: kib(&info, "MemAvailable:"),
            commit_limit_bytes: kib(&info, "CommitLimit:"),
            committed_bytes: kib(&info, "Committed_AS:"),
        }
    }
}

impl Balloon {
    /// virtio device id 5, feature bit 5 (virtio 1.2, section 5.5; `/sys/bus/virtio/devices/*/features` is a bit string,
    /// bit 0 first).
    pub(super) fn read(files: &Files) -> Option<Self> {
        const DEVICES: &str = "sys/bus/virtio/devices";
        files.names(DEVICES).iter().find_map(|name| {
            let id = parse::hex(&files.text(&format!("{DEVICES}/{name}/device"))?)?;
            let features = files.text(&format!("{DEVICES}/{name}/features")).unwrap_or_default();
            let order = files.number("sys/module/page_reporting/parameters/page_reporting_order");
            (id == 5).then(|| Self {
                free_page_reporting: features.as_bytes().get(5) == Some(&b'1'),
                reporting_order: order.and_then(|order| u8::try_from(order).ok()),
            })
        })
    }
}

impl Limits {
    pub(super) fn read() -> Self {
        let soft_limit = |resource| crate::map::limit(resource).map(|limit| limit as u64);
        Self {
            address_space_bytes: soft_limit(libc::RLIMIT_AS),
            data_bytes: soft_limit(libc::RLIMIT_DATA),
            memlock_bytes: soft_limit(libc::RLIMIT_MEMLOCK),
        }
    }
}

/// The name of the hypervisor, from the first file that tells: `/sys/hypervisor`, the paravirtual clock, DMI.
pub(super) fn hypervisor(files: &Files, cpu: &Cpu) -> Option<String> {
    let from_sys = files.text("sys/hypervisor/type");
    let clocks =
        files.text("sys/devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default();
    let from_clock = [("kvm-clock", "KVM"), ("hyperv_clocksource", "Hyper-V"), ("xen", "Xen")]
        .into_iter()
        .find(|(clock, _)| clocks.contains(clock))
        .map(|(_, name)| name.to_owned());
    let vendor = files.text("sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let from_dmi = ["QEMU", "VMware", "Amazon EC2", "Google", "innotek", "Parallels", "Xen"]
        .into_iter()
        .find(|name| vendor.starts_with(name) && cpu.has("hypervisor"))
        .map(str::to_owned);
    let found = from_sys.or(from_clock).or(from_dmi);
    found.or_else(|| cpu.has("hypervisor").then(|| "unknown".to_owned()))
}

pub(super) fn vulnerabilities(files: &Files) -> BTreeMap<String, String> {
    const DIRECTORY: &str = "sys/devices/system/cpu/vulnerabilities";
    let names = files.names(DIRECTORY);
    let entry = |name: String| {
        let text = files.text(&format!("{DIRECTORY}/{name}"))?;
        Some((name, text))
    };
    names.into_iter().filter_map(entry).collect()
}

/// The version of the glibc that this program runs on.
pub fn glibc() -> Option<String> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: no preconditions; returns a pointer to a static string (gnu_get_libc_version(3)).
        let version = unsafe { libc::gnu_get_libc_version() };
        // SAFETY: that string is nul-terminated and lives as long as the program.
        let version = unsafe { std::ffi::CStr::from_ptr(version) };
        version.to_str().ok().map(str::to_owned)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, contents: &[(&str, &str)], check: impl FnOnce(&Files)) {
        let root = std::env::temp_dir().join(format!("faultless-system-{name}-{}", std::process::id()));
        for (path, text) in contents {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        check(&Files::new(&root));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_kvm_guest_shows_itself_by_its_clock() {
        const CLOCK: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
        machine("kvm", &[(CLOCK, "kvm-clock tsc")], |files| {
            assert_eq!(hypervisor(files, &Cpu::default()).as_deref(), Some("KVM"));
        });
        machine("bare", &[(CLOCK, "tsc hpet acpi_pm")], |files| {
            assert_eq!(hypervisor(files, &Cpu::default()), None);
        });
    }

    #[test]
    fn a_hypervisor_without_a_name_is_still_one() {
        let info = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu erms hypervisor\nprocessor\t: 1\n";
        machine("unnamed", &[("proc/cpuinfo", info)], |files| {
            let cpu = Cpu::read(files);
            assert_eq!(cpu.model.as_deref(), Some("Some CPU"));
            assert_eq!(cpu.online, Some(2));
            assert_eq!(cpu.flags, ["erms", "hypervisor"]);
            assert_eq!(hypervisor(files, &cpu).as_deref(), Some("unknown"));
        });
    }

    #[test]
    fn free_page_reporting_is_bit_five_of_the_balloon() {
        let devices = [
            ("sys/bus/virtio/devices/virtio0/device", "0x0002"),
            ("sys/bus/virtio/devices/virtio0/features", "1111111"),
            ("sys/bus/virtio/devices/virtio1/device", "0x0005"),
            ("sys/bus/virtio/devices/virtio1/features", "0000010"),
            ("sys/module/page_reporting/parameters/page_reporting_order", "5\n"),
        ];
        machine("balloon", &devices, |files| {
            assert_eq!(
                Balloon::read(files),
                Some(Balloon { free_page_reporting: true, reporting_order: Some(5) })
            );
        });
    }

    #[test]
    fn kernel_options_are_read_where_the_configuration_is() {
        let contents = [
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("boot/config-6.1.0-18-amd64", "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=m\n"),
        ];
        machine("config", &contents, |files| {
            let kernel = Kernel::read(files);
            assert_eq!(kernel.option("CONFIG_A"), Some(true));
            assert_eq!(kernel.option("CONFIG_B"), Some(false));
            assert_eq!(kernel.at_least(6, 4), Some(false));
        });
        assert_eq!(Kernel::default().option("CONFIG_A"), None);
    }
}
