//! The ring buffer that perf events are read from.
