//! `perf_event_open` for the software events that describe page faults.
