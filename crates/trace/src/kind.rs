//! Kinds of page faults, and a row: how many faults of one kind there were, and how that is known.
//!
//! Every analysis and every view counts by these kinds. `fault::kind` decides which kind a fault has.

use serde::{Deserialize, Serialize};

/// Kinds of faults, by the touched memory and the kernel's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// First write to private memory of mmap (malloc's large blocks included).
    MmapFirstWrite,
    /// First write to the brk heap.
    HeapFirstWrite,
    /// First write to bss.
    BssFirstWrite,
    /// First touch of anonymous memory, read or write not known.
    FirstTouch,
    /// A fault that mapped a whole transparent huge page.
    Thp,
    /// A read that mapped the zero page.
    ZeroPageRead,
    /// A write to a page that a read had mapped to the zero page.
    WriteAfterZeroRead,
    /// A write to a page shared with another process since fork.
    CowAfterFork,
    /// Stack growth, main thread and others.
    Stack,
    /// File-backed: code and read-only data.
    FileRead,
    /// File-backed, private, written: a copy is made (data segments).
    FilePrivateWrite,
    /// Shared memory and shared file mappings.
    Shared,
    /// Recorded, but in no mapping that is known.
    Unplaced,
    /// Counted in user mode; nothing more is known.
    UserUnknown,
    /// Taken in kernel mode, as `read` into fresh memory does.
    KernelMode,
    /// Done by the kernel without a trap: MAP_POPULATE, MADV_POPULATE, mlock, get_user_pages.
    Populate,
    /// Kernel mode and populate together: without rights they can't be told apart.
    KernelOrPopulate,
    /// Needed I/O.
    Major,
    /// No event could be opened, or the kernel took them away: nothing is known but that it happened.
    #[default]
    Unknown,
    /// Our own: of our child before it ran the command, and of the allocation recorder's journal; part of `wait4`'s
    /// figure.
    BeforeExec,
}

/// What a fault of a kind adds to the resident anonymous memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adds {
    /// None: pages of files and the zero page; a copy after a fork replaces a page that was counted already; swapped and
    /// file pages that a major fault brings are not fresh.
    Nothing,
    /// A base page.
    Page,
    /// A huge page.
    HugePage,
    /// A base page, or nothing: the kind does not tell.
    Unknown,
}

/// What is known of a kind.
struct Facts {
    kind: Kind,
    words: &'static str,
    /// A minor fault taken in user mode.
    is_user: bool,
    /// It takes a page that kept memory could have served. A mapping gets bss, stacks and copies of files only once.
    is_fresh: bool,
    adds: Adds,
}

const fn facts(kind: Kind, words: &'static str, is_user: bool, is_fresh: bool, adds: Adds) -> Facts {
    Facts { kind, words, is_user, is_fresh, adds }
}

const FACTS: [Facts; KINDS] = {
    use Adds::{HugePage, Nothing, Page, Unknown};
    [
        facts(Kind::MmapFirstWrite, "first write, mmap", true, true, Page),
        facts(Kind::HeapFirstWrite, "first write, heap", true, true, Page),
        facts(Kind::BssFirstWrite, "first write, bss", true, false, Page),
        facts(Kind::FirstTouch, "first touch", true, true, Page),
        facts(Kind::Thp, "transparent huge page", true, true, HugePage),
        facts(Kind::ZeroPageRead, "zero-page read", true, false, Nothing),
        facts(Kind::WriteAfterZeroRead, "write after zero-page read", true, true, Page),
        facts(Kind::CowAfterFork, "copy on write after fork", true, false, Nothing),
        facts(Kind::Stack, "stack", true, false, Page),
        facts(Kind::FileRead, "file: code, read-only data", true, false, Nothing),
        facts(Kind::FilePrivateWrite, "file: private write", true, false, Page),
        facts(Kind::Shared, "shared memory", true, false, Nothing),
        facts(Kind::Unplaced, "in no known mapping", true, true, Unknown),
        facts(Kind::UserUnknown, "user mode, kind unknown", true, true, Unknown),
        facts(Kind::KernelMode, "taken in kernel mode", false, true, Page),
        facts(Kind::Populate, "populated without a trap", false, true, Page),
        facts(Kind::KernelOrPopulate, "in kernel mode or populated", false, true, Page),
        facts(Kind::Major, "major (I/O)", false, false, Nothing),
        facts(Kind::Unknown, "kind unknown", false, true, Unknown),
        facts(Kind::BeforeExec, "faultless's own", false, false, Nothing),
    ]
};

impl Kind {
    fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }

    /// As a reader sees it.
    pub fn words(self) -> &'static str {
        self.facts().words
    }

    /// Whether it is the first touch of anonymous memory in base pages.
    pub(crate) fn is_first_touch(self) -> bool {
        FIRST_TOUCHES.contains(&self)
    }

    /// Whether a fault of this kind takes a page that kept memory could have served.
    pub(crate) fn is_fresh(self) -> bool {
        self.facts().is_fresh
    }

    /// Whether it is a minor fault taken in user mode.
    pub(crate) fn is_user(self) -> bool {
        self.facts().is_user
    }

    /// What a fault adds to the resident anonymous memory.
    pub(crate) fn adds(self) -> Adds {
        self.facts().adds
    }

    /// The same in bytes; where that is unknown, a base page.
    pub(crate) fn anonymous_bytes(self, page_bytes: u64, thp_bytes: u64) -> f64 {
        match self.adds() {
            Adds::Nothing => 0.0,
            Adds::HugePage => thp_bytes.max(page_bytes) as f64,
            Adds::Page | Adds::Unknown => page_bytes as f64,
        }
    }
}

/// Number of kinds; a kind is an index below it.
pub(crate) const KINDS: usize = Kind::BeforeExec as usize + 1;

/// All kinds, by index.
pub(crate) const ALL: [Kind; KINDS] = {
    let mut all = [Kind::Unknown; KINDS];
    let mut index = 0;
    while index < KINDS {
        assert!(FACTS[index].kind as usize == index);
        all[index] = FACTS[index].kind;
        index += 1;
    }
    all
};

/// Kinds that are the first touch of anonymous memory in base pages.
pub(crate) const FIRST_TOUCHES: [Kind; 4] =
    [Kind::MmapFirstWrite, Kind::HeapFirstWrite, Kind::BssFirstWrite, Kind::FirstTouch];

/// How a figure came about, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Counted by the kernel, every one.
    Counted,
    /// Every one timed in the kernel by BPF.
    Measured,
    /// From recorded single faults, scaled to the exact count of their span of time.
    Sampled,
    /// From recorded faults and a rule that can be wrong; the rule is in METHODOLOGY.md.
    Inferred,
    /// The count times the price of a fault that was measured at start on this machine.
    Calibrated,
    /// The kernel's total less all other rows.
    Remainder,
}

/// Faults of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindRow {
    /// Which kind.
    pub kind: Kind,
    /// Faults; exact where `source` is `Counted` or `Remainder`, else the best estimate.
    pub faults: u64,
    /// 95 % interval of a sampled count.
    pub interval: Option<(u64, u64)>,
    /// CPU seconds in them, if known.
    pub seconds: Option<f64>,
    /// 95 % interval of `seconds`.
    #[serde(default)]
    pub seconds_interval: Option<(f64, f64)>,
    /// Median time of one, corrected, in ns, if known.
    pub p50_ns: Option<f64>,
    /// Where the count comes from.
    pub source: Source,
}

impl KindRow {
    /// A row with a count and nothing else.
    pub(crate) fn new(kind: Kind, faults: u64, source: Source) -> Self {
        Self { kind, faults, interval: None, seconds: None, seconds_interval: None, p50_ns: None, source }
    }
}
