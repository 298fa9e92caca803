//! Files below `/proc/PID`.
