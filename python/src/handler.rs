//! NumPy's memory handler (NEP 49) over the pool: large arrays from the pool, all others from NumPy's own handler.
//!
//! In: NumPy's calls, from any thread, with or without the GIL. Out: memory. It never calls Python. A block's address
//! tells where it came from. So an array may outlive the choice of its handler, and any thread may free it.
//!
//! The structures come from `numpy/ndarraytypes.h`, version 1 of the handler: NumPy 1.22 and later.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr;

use faultless_pool::{Global, process};

/// `PyDataMemAllocator`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Allocator {
    context: *mut c_void,
    malloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut u8,
    calloc: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut u8,
    realloc: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> *mut u8,
    free: unsafe extern "C" fn(*mut c_void, *mut u8, usize),
}

// SAFETY: any thread may call the functions, NumPy's and ours, and only they use the context.
unsafe impl Sync for Allocator {}

/// `PyDataMem_Handler`.
#[repr(C)]
pub(crate) struct Handler {
    name: [u8; 127],
    version: u8,
    allocator: Allocator,
}

/// The version of the handler's structure.
const VERSION: u8 = 1;
/// The result of `numpy.core.multiarray.get_handler_name()`.
const NAME: &[u8] = b"faultless";

impl Handler {
    /// A handler over a copy of NumPy's own. Both live as long as the process. `None` if the version is unknown.
    pub(crate) fn over(inner: &Self) -> Option<&'static Self> {
        if inner.version != VERSION {
            return None;
        }
        let global: &'static Pooled = Box::leak(Box::new(Global::over(Inner(inner.allocator))));
        let mut name = [0; 127];
        name[..NAME.len()].copy_from_slice(NAME);
        let context = ptr::from_ref(global).cast_mut().cast();
        let allocator = Allocator { context, malloc, calloc, realloc, free };
        Some(Box::leak(Box::new(Self { name, version: VERSION, allocator })))
    }
}

/// NumPy's own allocator as a Rust allocator. It ignores alignment.
struct Inner(Allocator);

type Pooled = Global<Inner>;

// SAFETY: NumPy's allocator is malloc with a cache; it is asked for alignment 1 only.
unsafe impl GlobalAlloc for Inner {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: NumPy's function with its own context.
        unsafe { (self.0.malloc)(self.0.context, layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: NumPy's function with its own context.
        unsafe { (self.0.calloc)(self.0.context, layout.size(), 1) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the block is NumPy's, and its length is what NumPy said.
        unsafe { (self.0.free)(self.0.context, start, layout.size()) }
    }

    unsafe fn realloc(&self, start: *mut u8, _: Layout, len: usize) -> *mut u8 {
        // SAFETY: the block is NumPy's.
        unsafe { (self.0.realloc)(self.0.context, start, len) }
    }
}

/// # Safety
/// `context` is the one that [`Handler::over`] put into the handler.
unsafe fn pooled<'a>(context: *mut c_void) -> &'a Pooled {
    // SAFETY: it points to a `Pooled` that lives for ever and is only ever shared.
    unsafe { &*context.cast::<Pooled>() }
}

/// The largest layout. No allocator can serve it.
const ENDLESS: Layout = match Layout::from_size_align(isize::MAX as usize, 1) {
    Ok(layout) => layout,
    Err(_) => Layout::new::<u8>(),
};

/// Length without alignment.
fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, 1).unwrap_or(ENDLESS)
}

/// The layout of a block of the pool.
fn layout_in_pool(block: *mut u8) -> Option<Layout> {
    process::opened()?.len_raw(block.addr()).map(layout)
}

unsafe extern "C" fn malloc(context: *mut c_void, len: usize) -> *mut u8 {
    // SAFETY: NumPy passes the handler's context.
    let pooled = unsafe { pooled(context) };
    // SAFETY: nothing is required of a length by either side.
    unsafe { pooled.alloc(layout(len)) }
}

unsafe extern "C" fn calloc(context: *mut c_void, count: usize, len: usize) -> *mut u8 {
    // SAFETY: NumPy passes the handler's context.
    let pooled = unsafe { pooled(context) };
    // SAFETY: nothing is required of a length by either side.
    unsafe { pooled.alloc_zeroed(layout(count.saturating_mul(len))) }
}

unsafe extern "C" fn realloc(context: *mut c_void, block: *mut u8, len: usize) -> *mut u8 {
    // SAFETY: NumPy passes the handler's context.
    let pooled = unsafe { pooled(context) };
    match layout_in_pool(block) {
        // SAFETY: the block came from the pool with this length, or less.
        Some(old) => unsafe { pooled.realloc(block, old, len) },
        // NumPy does not pass the block's length, so the block cannot move into the pool.
        // SAFETY: the block is NumPy's, or null.
        None => unsafe { pooled.inner().realloc(block, layout(0), len) },
    }
}

unsafe extern "C" fn free(context: *mut c_void, block: *mut u8, len: usize) {
    // SAFETY: NumPy passes the handler's context.
    let pooled = unsafe { pooled(context) };
    match layout_in_pool(block) {
        // SAFETY: the block came from the pool with this length, or less.
        Some(old) => unsafe { pooled.dealloc(block, old) },
        // SAFETY: the block is NumPy's, or null.
        None => unsafe { pooled.inner().dealloc(block, layout(len)) },
    }
}
