//! Which notices about a result are printed, and how.
//!
//! In: notices of `faultless_grepdb`. Out: lines for standard error.

use faultless_grepdb::Notice;

use crate::caller::Caller;

/// Prints `notices`. Without a terminal, files that were not checked are reported only if a checked one had changed.
pub(crate) fn tell(caller: &Caller, notices: &[Notice]) {
    let is_minor = |notice: &Notice| matches!(notice, Notice::Unchecked { .. });
    if notices.iter().all(is_minor) && !caller.sees_messages() {
        return;
    }
    notices.iter().for_each(|notice| caller.tell(&format_args!("faultless: {notice}")));
}
