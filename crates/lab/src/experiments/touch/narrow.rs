//! How much a process of 32 bits can map, by a program that maps until the kernel refuses.
//!
//! The program is C without a C library, which `cc -m32` compiles before the sample. It touches nothing of what it maps.

use std::process::Command;

use faultless_os::map;
use tempfile::TempDir;

use crate::cell::{Cell, Refusal};
use crate::experiment::{Notes, Phase, Step, Steps, Trial};

const SOURCE: &str = include_str!("narrow.c");
/// Faults of this process around starting another.
const FORK_FAULTS: u64 = 256;

struct Narrow {
    /// With the program in it.
    folder: TempDir,
}

/// The cell.
pub(super) const WORDS: &str = "memory=32-bit";

/// Whether a cell asks for it.
pub(super) fn is_asked(cell: &Cell) -> bool {
    cell.text("memory") == Ok("32-bit")
}

impl Narrow {
    fn new(cell: &Cell) -> Result<Self, Refusal> {
        if map::address_space_limit().is_some() {
            return Err(Refusal(format!("{cell}: a limit on addresses is set: `ulimit -v unlimited`")));
        }
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("narrow.c"), SOURCE)?;
        let words =
            "-m32 -O1 -ffreestanding -fno-pic -fno-stack-protector -nostdlib -static -o narrow narrow.c";
        let compiled = Command::new("cc").args(words.split(' ')).current_dir(&folder).output();
        let failed = |why: &str| Refusal(format!("{cell}: cc -m32 on x86-64 is needed: {why}"));
        let output = compiled.map_err(|error| failed(&error.to_string()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(failed(text.lines().next().unwrap_or("it failed")));
        }
        Ok(Self { folder })
    }
}

/// Compiles the program.
///
/// # Errors
/// There is no compiler for 32 bits, or a limit of this user would answer instead of the addresses.
pub(super) fn trial(cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
    Ok(Steps::of(Narrow::new(cell)?, Narrow::steps))
}

impl Narrow {
    fn steps(&self) -> Vec<Step<Self>> {
        vec![(Phase::new("setup", 0, 0).up_to(FORK_FAULTS).sum(1), Self::map)]
    }

    fn map(&mut self, notes: &mut Notes) -> Result<u64, Refusal> {
        let output = Command::new(self.folder.path().join("narrow")).output().map_err(|error| {
            Refusal(format!(
                "a program of 32 bits: {error}; boot with ia32_emulation=on, or set TMPDIR to a folder without noexec"
            ))
        })?;
        let Ok(mib) = <[u8; 4]>::try_from(output.stdout).map(u32::from_le_bytes) else { return Ok(0) };
        notes.add("mapped_bytes", f64::from(mib) * f64::from(1 << 20));
        Ok(u64::from(output.status.success()))
    }
}
