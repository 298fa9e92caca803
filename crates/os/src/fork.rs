//! Callbacks around `fork`.
//!
//! In: functions. Out: libc calls them in every `fork` from now on. They can't be unregistered.

use crate::error::{Error, Result};

/// Registers functions to be called before `fork` in the parent, and after it in the parent and in the child:
/// `pthread_atfork(3)`. The last registered runs first before `fork` and last after it.
///
/// # Errors
/// ENOMEM: libc found no memory for its list.
pub fn register(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> Result<()> {
    // SAFETY: the three functions are valid for as long as this code is, and have no preconditions.
    match unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) } {
        0 => Ok(()),
        errno => Err(Error::new("pthread_atfork", errno)),
    }
}
