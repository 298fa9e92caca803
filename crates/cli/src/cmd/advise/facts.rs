//! The facts of this machine and of the program that decide which cures can act.

use std::ffi::OsStr;

use faultless_os::host::Host;
use faultless_trace::heaps::Heap;
use faultless_trace::program::Image;

use super::super::{glibc, run};
use super::found::Found;
use super::pauses;

/// The facts that decide which cures can be tried.
pub(super) struct Facts {
    /// Whether malloc is glibc's in a program with many of the faults.
    pub(super) is_glibc: bool,
    /// Whether its malloc can ask for huge pages.
    pub(super) has_hugetlb: bool,
    /// Whether transparent huge pages are available to it on request.
    pub(super) thp: bool,
    /// /sys is hidden, so huge pages are unknown.
    pub(super) sys_hidden: bool,
    /// Why no library that is preloaded acts in the program: a clause. `None` if it acts.
    pub(super) immune: Option<String>,
    /// The host of this virtual machine takes free pages back.
    pub(super) reports_free_pages: bool,
    /// Its allocators and runtimes.
    pub(super) heaps: Vec<Heap>,
    /// Largest resident set of the program as it is, bytes; 0 if not known.
    pub(super) peak_bytes: u64,
    /// The program as the user typed it, quoted for a shell.
    pub(super) command: String,
    /// This program as a shell finds it.
    pub(super) own: String,
}

impl Facts {
    /// Reads the facts of this machine, and of the program of a command, which a recording may tell.
    pub(super) fn read(command: String, program: &OsStr, found: Option<&Found>) -> Self {
        let host = Host::read();
        let images = found.map_or(&[][..], |found| &found.images);
        let has_other = |image: &Image| image.files.iter().any(|file| run::is_allocator(file));
        let has_own_malloc = match images {
            [] => run::allocator(program).is_some(),
            images => images.iter().all(has_other),
        };
        let files = |image: &Image| image.files.first().cloned().unwrap_or_default();
        let files: Vec<String> = match images {
            [] => vec![program.to_string_lossy().into_owned()],
            images => images.iter().map(files).collect(),
        };
        let immune: Vec<Option<String>> = files.iter().map(|file| run::immune(file.as_ref())).collect();
        Self {
            is_glibc: host.glibc.is_some() && !has_own_malloc,
            has_hugetlb: glibc::has_hugetlb(&host),
            thp: host.thp.as_ref().is_some_and(|thp| thp.available())
                && !found.is_some_and(|found| found.no_huge_pages),
            sys_hidden: host.hides_sys(),
            reports_free_pages: host.balloon.as_ref().is_some_and(|balloon| balloon.free_page_reporting),
            immune: immune
                .into_iter()
                .collect::<Option<Vec<String>>>()
                .and_then(|reasons| reasons.into_iter().next()),
            heaps: found.map(|found| found.heaps.clone()).unwrap_or_default(),
            peak_bytes: found.map_or(0, |found| found.peak_bytes),
            command,
            own: own_name(),
        }
    }

    /// One of its heaps, by its name.
    pub(super) fn heap(&self, name: &str) -> Option<&Heap> {
        self.heaps.iter().find(|heap| heap.name == name)
    }

    /// What can't be known or reached, and what was not tried for it. `has_pauses`: cures that help run after pauses too;
    /// `None` if none runs.
    pub(super) fn notes(&self, has_pauses: Option<bool>) -> Vec<String> {
        let hidden = "/sys is hidden, so whether there are huge pages can't be known: cures by huge pages were not tried";
        let immune =
            self.immune.as_ref().map(|reason| format!("{reason}; no pool and no other malloc was tried"));
        let tried = match has_pauses {
            Some(true) => format!("; what helps runs again after pauses of {} s", pauses::PAUSE.as_secs()),
            _ => "; what helps does not run after a pause: that takes --time 20s or more, without --runs"
                .to_owned(),
        };
        let cold = format!(
            "this machine reports free pages to its host, which takes them back: after a pause of seconds, memory is dear to \
             touch again, huge pages most of all. The rounds do not pay that, because memory is touched before each{tried}"
        );
        let known =
            [(self.sys_hidden, hidden.to_owned()), (self.reports_free_pages && has_pauses.is_some(), cold)];
        let known = known.into_iter().filter(|(is, _)| *is).map(|(_, note)| note);
        known.chain(immune).collect()
    }
}

/// `faultless` if a shell finds this very file under that name, else its path.
pub(super) fn own_name() -> String {
    let own = std::env::current_exe().ok();
    let found = run::find("faultless".as_ref()).ok();
    match (own, found.and_then(|program| program.path.canonicalize().ok())) {
        (Some(own), Some(found)) if own == found => "faultless".into(),
        (Some(own), _) => faultless_report::command(&[own.to_string_lossy().into_owned()]),
        (None, _) => "faultless".into(),
    }
}
