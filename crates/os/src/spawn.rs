//! Start a program that waits until it is measured.
