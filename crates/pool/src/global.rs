//! A global allocator: large requests go to the pool of the process, all others to an inner allocator.
//!
//! In: layouts. Out: blocks. Requests that the pool refuses go to the inner allocator too. So a program with this
//! allocator never runs out of memory earlier than without it.
//!
//! It never allocates for itself and never panics.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::kernel::Kernel;
use crate::policy::Policy;
use crate::pool::Pool;
use crate::process;
use crate::tuning::THRESHOLD_BYTES;

/// An allocator that takes large blocks from the [pool of the process](crate::process).
///
/// ```standalone_crate
/// # #[cfg(not(miri))] {
/// use faultless_pool::{Global, process};
///
/// #[global_allocator]
/// static GLOBAL: Global = Global::new();
///
/// let buffer = vec![1_u8; 640 << 10];
/// assert!(process::opened().is_some_and(|pool| pool.stats().in_use_bytes >= buffer.len()));
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Global<Inner = System> {
    inner: Inner,
    policy: Option<Policy>,
}

impl Global {
    /// Small blocks come from the system's malloc.
    pub const fn new() -> Self {
        Self::over(System)
    }
}

impl<Inner> Global<Inner> {
    /// Small blocks come from `inner`.
    pub const fn over(inner: Inner) -> Self {
        Self { inner, policy: None }
    }

    /// Sets the policy; the default is [`process::policy`].
    pub const fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The inner allocator.
    pub const fn inner(&self) -> &Inner {
        &self.inner
    }

    /// A large block from the pool.
    fn pooled(&self, layout: Layout, zeroed: bool) -> Option<*mut u8> {
        let block = process::serve(self.pool_for(layout.size())?, |pool| {
            if zeroed { pool.allocate_zeroed(layout) } else { pool.allocate(layout) }
        });
        block.ok().map(|block| block.cast().as_ptr())
    }

    /// The pool, if a block of this length comes from it.
    fn pool_for(&self, len: usize) -> Option<&'static Pool<Kernel>> {
        if len < THRESHOLD_BYTES {
            return None;
        }
        process::pool(|| self.policy.unwrap_or_else(process::policy))
    }

    /// The pool, if a block came from it. Blocks that shrink stay in the pool down to half the threshold, so shorter
    /// blocks are not the pool's.
    fn pool_of(&self, start: *mut u8, len: usize) -> Option<&'static Pool<Kernel>> {
        if len < THRESHOLD_BYTES / 2 {
            return None;
        }
        process::opened().filter(|pool| {
            let (base, len) = pool.range();
            start.addr().wrapping_sub(base) < len
        })
    }
}

impl<Inner: GlobalAlloc> Global<Inner> {
    /// Moves a block from one allocator to the other.
    ///
    /// # Safety
    /// As `realloc`; `to` is null, or has `len` bytes of the other allocator.
    unsafe fn moved(&self, start: *mut u8, layout: Layout, len: usize, to: *mut u8) -> *mut u8 {
        if !to.is_null() {
            // SAFETY: `start` has `layout.size()` bytes, `to` has `len`, and they come from different allocators.
            unsafe { to.copy_from_nonoverlapping(start, layout.size().min(len)) };
            // SAFETY: the caller gives the old block up.
            unsafe { self.dealloc(start, layout) };
        }
        to
    }
}

// SAFETY: every block comes from the pool or from the inner allocator, and both keep the layout. Its address tells
// which of them it goes back to.
unsafe impl<Inner: GlobalAlloc> GlobalAlloc for Global<Inner> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: forwarded.
        self.pooled(layout, false).unwrap_or_else(|| unsafe { self.inner.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: forwarded.
        self.pooled(layout, true).unwrap_or_else(|| unsafe { self.inner.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        match (self.pool_of(start, layout.size()), NonNull::new(start)) {
            (Some(pool), Some(start)) => {
                // SAFETY: the caller gives up a block that, by its address, came from the pool.
                process::serve(pool, |pool| unsafe { pool.deallocate(start, layout) });
            }
            // SAFETY: forwarded.
            _ => unsafe { self.inner.dealloc(start, layout) },
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(len, layout.align()) else { return std::ptr::null_mut() };
        let (Some(pool), Some(block)) = (self.pool_of(start, layout.size()), NonNull::new(start)) else {
            // A block that is large already stays with its allocator, which may be able to grow it without copying.
            let becomes_large = layout.size() < THRESHOLD_BYTES;
            return match becomes_large.then(|| self.pooled(new, false)).flatten() {
                // SAFETY: the block is the inner allocator's, the new one the pool's.
                Some(to) => unsafe { self.moved(start, layout, len, to) },
                // SAFETY: forwarded.
                None => unsafe { self.inner.realloc(start, layout, len) },
            };
        };
        // Between half the threshold and the threshold, blocks stay in the pool. Otherwise a length that swings around
        // the threshold would be copied at every call.
        if len >= THRESHOLD_BYTES / 2 {
            let resized = process::serve(pool, |pool| {
                if len >= layout.size() {
                    // SAFETY: the block came from the pool with this layout, and the caller gives it up.
                    unsafe { pool.grow(block, layout, new) }
                } else {
                    // SAFETY: the block came from the pool with this layout, and the caller gives it up.
                    unsafe { pool.shrink(block, layout, new) }
                }
            });
            if let Ok(resized) = resized {
                return resized.cast().as_ptr();
            }
        }
        // SAFETY: the length is not 0 (the caller's promise).
        let to = unsafe { self.inner.alloc(new) };
        // SAFETY: the block is the pool's, the new one the inner allocator's.
        unsafe { self.moved(start, layout, len, to) }
    }
}
