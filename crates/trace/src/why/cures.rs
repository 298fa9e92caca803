//! What rules propose against a mechanism.

/// A cure, and which shares of the mechanism's time it saves.
pub(super) struct Proposed {
    pub(super) how: String,
    pub(super) variable: Option<(String, String)>,
    pub(super) saves: [f64; 2],
    pub(super) keeps_bytes: Option<f64>,
    pub(super) note: Option<String>,
}

/// What keeping memory saves of the time of faults and calls, in nine of ten programs. More than the whole: without faults
/// the program itself misses less often in caches and the TLB. Less: a kept block of calloc is zeroed by the program, and
/// memory that is used again is not always in the caches, as a page just zeroed is. Measured by the topic `estimates` on two
/// machines, see METHODOLOGY.md.
const KEEPING_SAVES: [f64; 2] = [0.7, 1.25];

/// A program without transparent huge pages (prctl(PR_SET_THP_DISABLE)).
pub(super) const NO_HUGE_PAGES: &str = "faultless run --no-huge-pages -- CMD";

impl Proposed {
    /// An instruction that saves between these shares of the time.
    pub(super) fn new(how: &str, saves: [f64; 2]) -> Self {
        Self { how: how.to_owned(), variable: None, saves, keeps_bytes: None, note: None }
    }

    /// It keeps memory, and so saves nearly all.
    pub(super) fn keeps(how: &str, bytes: f64) -> Self {
        Self { keeps_bytes: Some(bytes), ..Self::new(how, KEEPING_SAVES) }
    }

    /// A variable of the environment that keeps memory.
    pub(super) fn set(name: &str, value: impl Into<String>, bytes: f64) -> Self {
        let value = value.into();
        Self {
            how: format!("{name}={value}"),
            variable: Some((name.to_owned(), value)),
            ..Self::keeps("", bytes)
        }
    }

    /// It saves between these shares.
    pub(super) fn saving(self, saves: [f64; 2]) -> Self {
        Self { saves, ..self }
    }

    /// What it saves is not known: it changes more than the faults.
    pub(super) fn saving_unknown(self) -> Self {
        self.saving([0.0; 2])
    }

    pub(super) fn keeping_nothing(self) -> Self {
        Self { keeps_bytes: None, ..self }
    }

    pub(super) fn noted(self, note: &str) -> Self {
        Self { note: Some(note.to_owned()), ..self }
    }
}

/// The largest mmap threshold that glibc takes from a user (`HEAP_MAX_SIZE / 2`; mallopt(3)), bytes.
const MMAP_THRESHOLD_MOST_BYTES: u64 = 32 << 20;
/// A block's header, and the rounding of its length, take less.
const HEADER_BYTES: u64 = 64;

/// The settings of glibc that keep blocks of up to this length in the heap, and the heap's top.
pub(super) fn malloc_settings(largest_bytes: u64) -> String {
    let map = match largest_bytes.saturating_add(HEADER_BYTES) {
        len_bytes if len_bytes > MMAP_THRESHOLD_MOST_BYTES => "mmap_max=0",
        _ => "mmap_threshold=33554432",
    };
    format!("glibc.malloc.{map}:glibc.malloc.trim_threshold=4294967296")
}
