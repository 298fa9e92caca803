//! NumPy's table of functions, and the capsules that carry handlers.
//!
//! In: a running interpreter with NumPy. Out: NumPy's handler changes, for the calling context or for all. No NumPy
//! header is needed: the numbers are indices in a table whose layout NumPy guarantees.

use std::ffi::{c_uint, c_void};

use pyo3::exceptions::{PyImportError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::handler::Handler;

/// The name of a capsule that carries a handler. Source: NEP 49.
const CAPSULE: &std::ffi::CStr = c"mem_handler";

/// Indices in `_ARRAY_API`. Source: numpy/__multiarray_api.h.
const FEATURE_VERSION: usize = 211;
const SET_HANDLER: usize = 304;
const DEFAULT_HANDLER: usize = 306;
/// The first version of the table with handlers: NumPy 1.22.
const FIRST_WITH_HANDLERS: c_uint = 0xf;

/// NumPy's table of functions and variables.
struct Table(*const *const c_void);

impl Table {
    fn of_numpy(py: Python<'_>) -> PyResult<Self> {
        let module = py.import("numpy._core._multiarray_umath");
        let module = module.or_else(|_| py.import("numpy.core._multiarray_umath"))?;
        let capsule = module.getattr("_ARRAY_API")?;
        // SAFETY: the object is alive, and the interpreter is attached.
        let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()) };
        if table.is_null() {
            return Err(PyErr::fetch(py));
        }
        let table = Self(table.cast());
        // SAFETY: this entry has held this function since NumPy 1.4.
        let version: unsafe extern "C" fn() -> c_uint =
            unsafe { std::mem::transmute(table.entry(FEATURE_VERSION)) };
        // SAFETY: it has no preconditions.
        if unsafe { version() } < FIRST_WITH_HANDLERS {
            return Err(PyImportError::new_err("memory handlers need NumPy 1.22 or later"));
        }
        Ok(table)
    }

    fn entry(&self, at: usize) -> *const c_void {
        // SAFETY: every table that `of_numpy` lets through is longer; the version is at its beginning.
        unsafe { *self.0.add(at) }
    }

    /// The capsule that NumPy starts with.
    fn default_handler<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let variable: *const *mut ffi::PyObject = self.entry(DEFAULT_HANDLER).cast();
        // SAFETY: this entry has held the address of this variable since NumPy 1.22.
        let capsule = unsafe { *variable };
        // SAFETY: the variable holds an object, which is borrowed here.
        unsafe { Bound::from_borrowed_ptr_or_err(py, capsule) }
    }
}

/// The handler over NumPy's first one, made once.
fn handler(py: Python<'_>) -> PyResult<&'static Handler> {
    static HANDLER: PyOnceLock<&'static Handler> = PyOnceLock::new();
    HANDLER
        .get_or_try_init(py, || {
            let capsule = Table::of_numpy(py)?.default_handler(py)?;
            // SAFETY: the object is alive, and the interpreter is attached.
            let inner = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), CAPSULE.as_ptr()) };
            if inner.is_null() {
                return Err(PyErr::fetch(py));
            }
            // SAFETY: a capsule of this name carries a handler, and NumPy's own lives as long as NumPy.
            let inner = unsafe { &*inner.cast::<Handler>() };
            Handler::over(inner)
                .ok_or_else(|| PyRuntimeError::new_err("NumPy's memory handler has a new version"))
        })
        .copied()
}

fn pointer(handler: &'static Handler) -> *mut c_void {
    std::ptr::from_ref(handler).cast_mut().cast()
}

/// A capsule with the handler that takes large arrays from the pool.
#[pyfunction]
pub(crate) fn pool_handler(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let handler = pointer(handler(py)?);
    // SAFETY: handler and name live for ever.
    let capsule = unsafe { ffi::PyCapsule_New(handler, CAPSULE.as_ptr(), None) };
    // SAFETY: a new reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// Makes NumPy use a handler in the calling context. Returns the previous one.
#[pyfunction]
pub(crate) fn exchange_handler<'py>(capsule: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let table = Table::of_numpy(capsule.py())?;
    // SAFETY: this entry has held this function since NumPy 1.22.
    let set: unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject =
        unsafe { std::mem::transmute(table.entry(SET_HANDLER)) };
    // SAFETY: the object is alive, and NumPy checks that it is a capsule with a handler.
    let before = unsafe { set(capsule.as_ptr()) };
    // SAFETY: a new reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(capsule.py(), before) }
}

/// Makes the handler NumPy's default, in all threads and contexts. NumPy keeps its default capsule; the handler inside
/// changes. The new handler also frees earlier arrays, each to the allocator it came from.
#[pyfunction]
pub(crate) fn replace_default_handler(py: Python<'_>) -> PyResult<()> {
    let handler = pointer(handler(py)?);
    let capsule = Table::of_numpy(py)?.default_handler(py)?;
    // SAFETY: the capsule is alive and keeps its name; the handler lives for ever.
    match unsafe { ffi::PyCapsule_SetPointer(capsule.as_ptr(), handler) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(py)),
    }
}
