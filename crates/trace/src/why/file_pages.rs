//! Pages of files and of shared memory are mapped at their first use.

use super::{Claim, Faults, Proposed, Rule, Scene};
use crate::kind::Kind;

pub(super) const RULE: Rule = Rule {
    id: "file_pages",
    about: "A mapped file faults once for each 16 pages that are in the page cache (fault-around), and once for each page \
            that is not; shared memory once a page. read(2) into a kept buffer takes no faults; MAP_POPULATE or \
            madvise(MADV_POPULATE_READ) takes them at once and cheaper; MADV_RANDOM turns read-ahead off, MADV_WILLNEED starts it.",
    find: |_: &Scene<'_>| {
        let files = Claim {
            what: "pages of files are mapped at their first use".to_owned(),
            faults: Faults::Kinds(&[Kind::FileRead, Kind::FilePrivateWrite, Kind::Major]),
            cures: vec![Proposed {
                how: "read(2) into a kept buffer, or MAP_POPULATE".to_owned(),
                saves: [0.0, 0.8],
                keeps_bytes: None,
                note: None,
            }],
            ..Claim::default()
        };
        let shared = Claim {
            what: "shared memory is touched for the first time".to_owned(),
            faults: Faults::Kinds(&[Kind::Shared]),
            cures: vec![Proposed {
                how: "touch or populate it before it matters; huge pages (shmem_enabled, huge=)".to_owned(),
                saves: [0.0, 0.3],
                keeps_bytes: None,
                note: Some("populating moves most of the time to the start".to_owned()),
            }],
            ..Claim::default()
        };
        vec![files, shared]
    },
};
