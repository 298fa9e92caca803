//! An event that the kernel refuses -> why, and what would change that.

use faultless_os::Error;

/// Why a source is missing, and what would change that.
pub(crate) fn remedy(error: Error) -> String {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid = paranoid.trim();
    // Up to 2, users may watch their own programs; up to 1, the kernel as well. Beyond 2 some distributions
    // refuse everything.
    let enough =
        if paranoid.parse().is_ok_and(|level: i32| level > 2) { "2 (1 shows the kernel too)" } else { "1" };
    match std::io::Error::from(error).kind() {
        _ if error.call.starts_with("mmap") => {
            format!("{error}; raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK")
        }
        // The kernel refuses with EACCES. Seccomp profiles of containers answer EPERM, even to root.
        std::io::ErrorKind::PermissionDenied if error.errno == 1 => format!(
            "{error}; a sandbox forbids the call: start the container with --cap-add=PERFMON, or allow perf_event_open in its \
             seccomp profile"
        ),
        std::io::ErrorKind::PermissionDenied => format!(
            "{error}; kernel.perf_event_paranoid is {paranoid}: run as root, with CAP_PERFMON, or set it to {enough} (a \
             container may also forbid the call)"
        ),
        _ if error.is_out_of_descriptors() => {
            format!(
                "{error}; a dozen are needed for each processor: raise the hard limit, `ulimit -n` as root"
            )
        }
        std::io::ErrorKind::Unsupported => {
            format!("{error}; the kernel lacks perf events or a sandbox hides them")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_that_would_change_it() {
        let text = remedy(Error::new("perf_event_open", 13));
        assert!(text.contains("perf_event_paranoid"), "{text}");
        let text = remedy(Error::new("perf_event_open", 1));
        assert!(text.contains("seccomp") && !text.contains("run as root"), "{text}");
        let text = remedy(Error::new("perf_event_open", 38));
        assert!(text.contains("sandbox"), "{text}");
    }
}
