//! Settings that make the page faults of a program countable from run to run: no transparent huge pages, and
//! the same addresses each time.
//!
//! In: nothing. Out: which settings the kernel took. They hold for this process and for every program that it
//! starts from now on (prctl(2) PR_SET_THP_DISABLE, Linux 3.15; personality(2) ADDR_NO_RANDOMIZE, 2.6.12).

/// Settings that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// Transparent huge pages are off.
    pub without_huge_pages: bool,
    /// Addresses are not random.
    pub with_fixed_addresses: bool,
}

/// personality(2): leaves everything as it is and returns it.
const QUERY: libc::c_ulong = 0xffff_ffff;

/// Makes all programs that this process starts steady, as far as the kernel allows. A container may forbid fixed
/// addresses.
pub fn make_steady() -> Steady {
    // SAFETY: prctl(2) with integers.
    let rc = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1_u64, 0_u64, 0_u64, 0_u64) };
    // SAFETY: personality(2) takes an integer.
    let now = unsafe { libc::personality(QUERY) };
    let wanted = now | libc::ADDR_NO_RANDOMIZE;
    // SAFETY: as above. Programs run by this process inherit it; a set-user-ID program drops it.
    let set = now != -1 && unsafe { libc::personality(wanted as libc::c_ulong) } != -1;
    // SAFETY: as above.
    let holds = set && unsafe { libc::personality(QUERY) } == wanted;
    Steady { without_huge_pages: rc == 0, with_fixed_addresses: holds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn programs_started_afterwards_have_the_same_stack_each_time_and_no_huge_pages() {
        let steady = make_steady();
        let stack = || {
            let out = Command::new("grep").args(["stack", "/proc/self/maps"]).output().unwrap();
            String::from_utf8(out.stdout).unwrap()
        };
        if steady.with_fixed_addresses {
            assert_eq!(stack(), stack());
        }
        if steady.without_huge_pages {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            // Linux 5.0 and later say so.
            let off = status.lines().find(|line| line.starts_with("THP_enabled:"));
            assert!(off.is_none_or(|line| line.ends_with('0')), "{off:?}");
        }
    }
}
