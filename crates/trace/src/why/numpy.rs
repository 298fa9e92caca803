//! NumPy makes an array for each intermediate result, and frees it.

use super::owner::Owner;
use super::{Proposed, Rule, malloc_settings};

use crate::measurement::Bytes;

/// The library of NumPy that makes arrays and computes on them.
pub(super) const FILE: &str = "_multiarray_umath";

pub(super) const RULE: Rule = Rule {
    id: "numpy_temporaries",
    title: "NumPy's temporaries",
    about: "Each operation on arrays makes a new array from malloc. Above the mmap threshold it is mapped, faults in \
            whole, and is unmapped when the next operation has read it. NumPy asks for huge pages for arrays of 4 MiB and \
            more; the kernel must allow them.",
    by_hand: "`perf trace -F all --no-syscalls python3 ...` shows `_multiarray_umath`; `strace -k -e trace=munmap`.",
    cures: &[
        [
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296",
            "arrays up to 32 MiB stay in the heap; longer ones need mmap_max=0",
            "mallopt(3)",
        ],
        ["out=, in-place operators, numexpr", "the buffer", "numpy.org, ufuncs"],
        [
            "NUMPY_MADVISE_HUGEPAGE=1 (the default since Linux 4.6)",
            "huge pages for arrays of 4 MiB and more",
            "numpy.org, global state",
        ],
        ["faultless run -- PROGRAM", "keeps at most what `--retain` allows", "this project"],
    ],
    find: |scene| {
        let givers =
            scene.givers(|giver| giver.owner == Owner::Malloc && scene.passes(giver.stack, FILE, &[]));
        let longest = super::longest_bytes(&givers);
        let kept = super::kept_bytes(&givers);
        let what = format!("NumPy makes an array for each intermediate result (up to {})", Bytes(longest));
        let cures = vec![
            Proposed::set("GLIBC_TUNABLES", malloc_settings(longest), kept),
            Proposed::keeps("faultless run -- CMD", kept),
            Proposed::keeps("out= or in-place operators, so that arrays are used again", kept),
        ];
        scene.cycle(&givers, what, cures).into_iter().collect()
    },
};
