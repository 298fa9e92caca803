//! `madvise` and what each advice means for faults.
