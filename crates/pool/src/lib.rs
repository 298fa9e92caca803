//! The pool: `alloc` and `free` of large blocks that keep their pages.
