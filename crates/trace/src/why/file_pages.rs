//! Pages of files and of shared memory are mapped at their first use.

use std::collections::HashSet;

use super::{Claim, Faults, Proposed, Rule, Scene};
use crate::kind::Kind;
use crate::observation::What;
use crate::profile::Weighted;

pub(super) const RULE: Rule = Rule {
    id: "file_pages",
    title: "Pages of files and of shared memory",
    about: "A mapped file faults once for each 16 pages that lie in the page cache (fault-around), and for \
            each page that does not. Shared memory faults once a page. A fault on a page whose read-ahead \
            is in flight waits, and counts as a minor one.",
    by_hand: "`perf trace -F all --no-syscalls PROGRAM`",
    cures: &[
        ["read(2) into a buffer that is kept", "the buffer", "-"],
        [
            "MAP_POPULATE, or madvise(MADV_POPULATE_READ)",
            "moves the time to the start; cheaper by the traps",
            "mmap(2), Linux 5.14",
        ],
        ["MADV_RANDOM where access is random, MADV_WILLNEED before a scan", "nothing", "madvise(2)"],
        [
            "huge pages for shared memory: huge=within_size, shmem_enabled",
            "up to 2 MiB a file",
            "kernel, admin-guide/mm/transhuge",
        ],
    ],
    find: |scene| {
        let code = code(scene);
        let is_file =
            |fault: &Weighted| matches!(fault.kind, Kind::FileRead | Kind::FilePrivateWrite | Kind::Major);
        let start = Claim {
            what: "the program's code and data, and its libraries, are mapped at their first use".to_owned(),
            faults: Faults::Of(Box::new(move |fault| {
                is_file(fault) && code.get(fault.mapping as usize) == Some(&true)
            })),
            ..Claim::default()
        };
        let files = Claim {
            what: "pages of files are mapped at their first use".to_owned(),
            faults: Faults::Of(Box::new(is_file)),
            cures: vec![Proposed::new("read(2) into a kept buffer, or MAP_POPULATE", [0.0, 0.8])],
            ..Claim::default()
        };
        let shared = Claim {
            what: "shared memory is touched for the first time".to_owned(),
            faults: Faults::of_kind(Kind::Shared),
            cures: vec![
                Proposed::new(
                    "touch or populate it before it matters; huge pages (shmem_enabled, huge=)",
                    [0.0, 0.3],
                )
                .noted("populating moves most of the time to the start"),
            ],
            ..Claim::default()
        };
        vec![start, files, shared]
    },
};

/// For each mapping of the profile: its file is also mapped to be executed.
pub(super) fn code(scene: &Scene<'_>) -> Vec<bool> {
    const PROT_EXEC: u32 = 4;
    let records = scene.recording.observation.records.iter();
    let executed: HashSet<&str> = records
        .filter_map(|record| match &record.what {
            What::Map(map) if map.prot & PROT_EXEC != 0 => Some(map.name.as_str()),
            _ => None,
        })
        .collect();
    scene.profile.mappings.iter().map(|name| name == "[bss]" || executed.contains(name.as_str())).collect()
}
