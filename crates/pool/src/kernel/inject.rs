//! Injected failures, for tests: system calls that fail from a given one on.
//!
//! In: which call is about to be made. Out: an error if a test asked for one. Only the feature `inject-failures`, which
//! only tests enable, compiles the counters. Without it every call is permitted.

#[cfg(feature = "inject-failures")]
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The kinds of system calls that tests can make fail.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// mmap, except for the range and its tables.
    Map,
    /// mmap of a further piece of the range or of a table.
    Extend,
    /// madvise.
    Advise,
    /// mremap.
    Remap,
}

/// For each kind of call, the number of the first call that fails; 0: none fails.
#[cfg(feature = "inject-failures")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    /// mmap, except for the range and its tables.
    pub map: u32,
    /// mmap of a further piece of the range or of a table.
    pub extend: u32,
    /// madvise.
    pub advise: u32,
    /// mremap.
    pub remap: u32,
}

/// Counts calls and decides which of them fail.
#[derive(Debug, Default)]
pub(super) struct Injector {
    #[cfg(feature = "inject-failures")]
    failing: Failing,
    #[cfg(feature = "inject-failures")]
    calls: [AtomicU32; 4],
}

impl Injector {
    #[cfg(feature = "inject-failures")]
    pub(super) fn new(failing: Failing) -> Self {
        Self { failing, calls: Default::default() }
    }

    /// Counts a call.
    ///
    /// # Errors
    /// A test wants this call to fail. The caller must not make it.
    #[cfg(feature = "inject-failures")]
    pub(super) fn permit(&self, call: Call) -> crate::Result<()> {
        const ENOMEM: i32 = 12;
        let Failing { map, extend, advise, remap } = self.failing;
        let [maps, extends, advises, remaps] = &self.calls;
        let (calls, first_to_fail) = match call {
            Call::Map => (maps, map),
            Call::Extend => (extends, extend),
            Call::Advise => (advises, advise),
            Call::Remap => (remaps, remap),
        };
        let number = calls.fetch_add(1, Relaxed) + 1;
        if first_to_fail != 0 && number >= first_to_fail {
            return Err(faultless_os::Error::new("injected", ENOMEM).into());
        }
        Ok(())
    }

    /// Permits every call.
    #[cfg(not(feature = "inject-failures"))]
    #[inline(always)]
    pub(super) fn permit(&self, _call: Call) -> crate::Result<()> {
        Ok(())
    }
}
