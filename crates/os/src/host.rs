//! Facts about this machine that bear on page faults.
