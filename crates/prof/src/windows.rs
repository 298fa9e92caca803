//! Spans of time with their exact number of faults.
//!
//! In: switches of the recording, with the time and the fault counter at each. Out: [`Window`]s without gaps.
//!
//! It does not read the counter.

use faultless_trace::observation::Window;

/// The windows so far and the one that is open.
#[derive(Debug)]
pub(crate) struct Windows {
    done: Vec<Window>,
    begin_ns: u64,
    /// Begin of the current unbroken series of recorded windows.
    recorded_ns: u64,
    begin_faults: u64,
    recorded: bool,
    lost: u64,
}

impl Windows {
    /// The first window begins.
    pub(crate) fn begin(time_ns: u64, recorded: bool) -> Self {
        Self { done: Vec::new(), begin_ns: time_ns, recorded_ns: time_ns, begin_faults: 0, recorded, lost: 0 }
    }

    /// Since when single faults are recorded without a pause, if they are.
    pub(crate) fn recording_since(&self) -> Option<u64> {
        self.recorded.then_some(self.recorded_ns)
    }

    /// Begin of the open window.
    pub(crate) fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// A ring has lost records from `begin_ns` on. This is known only later, maybe after that window was
    /// closed. Losses in an unrecorded window belong to no window.
    pub(crate) fn lose(&mut self, lost: u64, begin_ns: u64) {
        if begin_ns >= self.begin_ns {
            self.lost += if self.recorded { lost } else { 0 };
        } else if let Some(window) = self.done.iter_mut().rev().find(|window| window.begin_ns <= begin_ns) {
            window.lost += if window.recorded { lost } else { 0 };
        }
    }

    /// The open window ends here and the next begins.
    pub(crate) fn begin_next(&mut self, time_ns: u64, faults: u64, recorded: bool) {
        self.done.push(Window {
            begin_ns: self.begin_ns,
            end_ns: time_ns,
            faults: faults.saturating_sub(self.begin_faults),
            recorded: self.recorded,
            lost: std::mem::take(&mut self.lost),
        });
        if !self.recorded {
            self.recorded_ns = time_ns;
        }
        (self.begin_ns, self.begin_faults, self.recorded) = (time_ns, faults, recorded);
    }

    /// All windows that can no longer change: all but the last.
    pub(crate) fn take_settled(&mut self) -> impl Iterator<Item = Window> {
        self.done.drain(..self.done.len().saturating_sub(1))
    }

    /// The last window ends here.
    pub(crate) fn finish(mut self, time_ns: u64, faults: u64) -> Vec<Window> {
        self.begin_next(time_ns, faults, false);
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_leave_no_gap_and_their_faults_add_up() {
        let mut windows = Windows::begin(100, true);
        windows.lose(3, 150);
        windows.begin_next(200, 50, false);
        windows.lose(2, 199);
        windows.lose(7, 200);
        windows.begin_next(300, 90, true);
        windows.lose(9, 250);
        assert_eq!(windows.recording_since(), Some(300));
        windows.begin_next(350, 91, true);
        assert_eq!((windows.recording_since(), windows.begin_ns()), (Some(300), 350));
        let windows = windows.finish(400, 91);
        assert!(windows.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns));
        assert_eq!(windows.iter().map(|window| window.faults).sum::<u64>(), 91);
        assert_eq!(windows[0].lost, 5, "a loss that is told late belongs to the window before");
        assert_eq!((windows[1].recorded, windows[1].lost), (false, 0));
        assert_eq!(windows[2].lost, 0, "and samples lost between bursts to none");
    }
}
