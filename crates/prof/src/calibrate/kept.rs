//! The rounds of an earlier calibration, kept in a file until the machine is booted again.
//!
//! In: a folder of the user's. Out: rounds with what belongs to them; `None` if the kernel, the boot, the processor or
//! this program is another one.
//!
//! It does not judge whether they still agree with the machine.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;

use faultless_os::perf::Output;

use super::{Round, TOUCHES};
use crate::facts::TOOL;
use crate::symbols::NameCache;
use crate::write_cost::WriteCost;

/// Rounds of each kind of touch.
pub(super) type Kinds = [Vec<Round>; TOUCHES.len()];

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    pub(super) rounds: Kinds,
    /// What open events cost every fault, ns.
    pub(super) open_ns: f64,
    pub(super) written: Option<WriteCost>,
}

/// The place of a calibration.
pub(super) struct Place {
    folder: NameCache,
    /// The file, and its first line.
    file: &'static str,
    machine: String,
}

impl Place {
    /// Of calibrations with this output of the event at a fault's end.
    pub(super) fn of(end: Output, folder: NameCache) -> Option<Self> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
        let (boot, kernel) = (read("random/boot_id")?, read("osrelease")?);
        let machine = format!("{TOOL}, {}, {}, {}", kernel.trim(), boot.trim(), processor()?);
        let file = if matches!(end, Output::FaultStacks { .. }) { "stacks" } else { "bare" };
        Some(Self { folder, file, machine })
    }

    pub(super) fn read(&self) -> Option<Kept> {
        let text = String::from_utf8(self.folder.read(self.file)?).ok()?;
        parse(text.strip_prefix(&self.machine)?)
    }

    pub(super) fn write(&self, kept: &Kept) {
        self.folder.write(self.file, format!("{}{}", self.machine, format(kept)).as_bytes());
    }
}

/// The model of the first processor. The rest of the file takes milliseconds where there are many.
fn processor() -> Option<String> {
    let mut begin = [0; 1024];
    let len = File::open("/proc/cpuinfo").ok()?.read(&mut begin).ok()?;
    let text = String::from_utf8_lossy(&begin[..len]);
    // Not its clock rate, which changes.
    let of = |name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    Some(of("model name").or_else(|| of("CPU part")).unwrap_or_default())
}

fn format(kept: &Kept) -> String {
    let written = kept.written.map_or([f64::NAN; 2], |written| [written.ns, written.error_ns]);
    let mut text = format!("\n{} {} {}\n", kept.open_ns, written[0], written[1]);
    for (index, rounds) in kept.rounds.iter().enumerate() {
        for Round { plain_ns, with } in rounds {
            if let Some([loaded_ns, reading_ns]) = with {
                let _ = writeln!(text, "{index} {plain_ns} {loaded_ns} {reading_ns}");
            }
        }
    }
    text
}

fn parse(text: &str) -> Option<Kept> {
    let mut lines = text.strip_prefix('\n')?.lines();
    let figures =
        |line: &str| -> Option<Vec<f64>> { line.split(' ').map(|word| word.parse().ok()).collect() };
    let &[open_ns, ns, error_ns] = &figures(lines.next()?)?[..] else { return None };
    let written = (ns.is_finite() && error_ns.is_finite()).then_some(WriteCost { ns, error_ns });
    let mut kept = Kept { open_ns, written, ..Kept::default() };
    for line in lines {
        let &[index, plain_ns, loaded_ns, reading_ns] = &figures(line)?[..] else { return None };
        let with = Some([loaded_ns, reading_ns]);
        kept.rounds.get_mut(index as usize)?.push(Round { plain_ns, with });
    }
    // Some rounds have no reading.
    let is_whole = kept.rounds.iter().zip(TOUCHES).all(|(rounds, (_, wanted))| 2 * rounds.len() >= wanted);
    is_whole.then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_half_a_file_is_not() {
        let round = |n: usize| Round { plain_ns: 500.5 + n as f64, with: Some([700.0, 480.25]) };
        let rounds = TOUCHES.map(|(_, wanted)| (0..wanted).map(round).collect());
        let written = Some(WriteCost { ns: 100.0, error_ns: 2.5 });
        let kept = Kept { rounds, open_ns: 3.0, written };
        let text = format(&kept);
        assert_eq!(parse(&text), Some(kept.clone()));
        assert_eq!(parse(&text[..text.len() / 3]), None);
        assert_eq!(
            parse(&format(&Kept { written: None, ..kept.clone() })),
            Some(Kept { written: None, ..kept })
        );
    }

    #[test]
    fn what_another_machine_kept_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let end = Output::Faults { period: 1, registers: false };
        let place = || Place::of(end, NameCache::open(&folder.path().join("c")).unwrap()).unwrap();
        let rounds = TOUCHES.map(|(_, wanted)| vec![Round { plain_ns: 1.0, with: Some([2.0, 3.0]) }; wanted]);
        place().write(&Kept { rounds, ..Kept::default() });
        assert!(place().read().is_some());
        assert_eq!(Place { machine: "another".into(), ..place() }.read(), None);
    }
}
