//! Address space: reserve, make usable, move, release.
