//! What the plugin counted: its CSV -> sections, each with its functions and its laps.
//!
//! `kernel/lab/plugin/counts.c` writes the lines:
//! ```text
//! cache,TEXT
//! function,SECTION,NAME,PATH,CLEARED,STRINGS,ITERATIONS, then misses of L1, L2, LLC of the path, clears and other strings
//! laps,SECTION,WHAT,COUNT,P50,P90,P99,MAX
//! paused,SECTION,all,PATH,CLEARED,MISSES OF THE LAST LEVEL
//! end,SECTION
//! sections,COUNT
//! ```

use faultless_console::Failure;

/// Misses of the three levels: L1, L2, the last.
pub(crate) type Misses = [u64; 3];

/// What one function did within a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name in `System.map`; `[user]` for all code of the program.
    pub(crate) name: String,
    /// Instructions without the iterations of `rep stos` and `rep movs`.
    pub(crate) path: u64,
    /// Bytes stored by `rep stos` in functions that clear pages.
    pub(crate) cleared_bytes: u64,
    /// Bytes stored by any other `rep stos` or `rep movs`: structures set to zero, copies.
    pub(crate) string_bytes: u64,
    /// Misses of all other instructions.
    pub(crate) path_misses: Misses,
    /// Misses of clearing.
    pub(crate) clear_misses: Misses,
    /// Misses of other strings.
    pub(crate) string_misses: Misses,
}

impl Function {
    /// Misses of all its instructions: of the path, of clearing, of other strings.
    pub(crate) fn misses(&self) -> [Misses; 3] {
        [self.path_misses, self.clear_misses, self.string_misses]
    }
}

/// The distribution of a quantity over laps, that is over single faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Laps {
    /// `path`, `clear_bytes` or `llc_misses`.
    pub(crate) what: String,
    /// How many there were.
    pub(crate) count: u64,
    /// The 50th, 90th and 99th percentile, and the largest.
    pub(crate) quantiles: [u64; 4],
}

/// One section: what happened between two marks of the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// Every function that ran.
    pub(crate) functions: Vec<Function>,
    /// Distributions, if the guest marked laps.
    pub(crate) laps: Vec<Laps>,
    /// Path instructions, cleared bytes and misses of the last level while the section was paused.
    pub(crate) paused: [u64; 3],
}

/// Name of the program's own instructions.
pub(crate) const USER: &str = "[user]";

impl Section {
    /// A sum over the kernel's functions.
    pub(crate) fn kernel(&self, of: impl Fn(&Function) -> u64) -> u64 {
        self.functions.iter().filter(|function| function.name != USER).map(of).sum()
    }

    /// A sum over the program's own instructions.
    pub(crate) fn user(&self, of: impl Fn(&Function) -> u64) -> u64 {
        self.functions.iter().filter(|function| function.name == USER).map(of).sum()
    }
}

/// All that the plugin counted in one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The simulated cache, in words.
    pub(crate) cache: String,
    /// From the first on.
    pub(crate) sections: Vec<Section>,
}

/// Reads the plugin's lines.
///
/// # Errors
/// A line is not the plugin's, or the last one is missing.
pub(crate) fn parse(text: &str) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut section = Section::default();
    let mut is_whole = false;
    for (index, line) in text.lines().enumerate() {
        let wrong = || {
            let line: String = line.chars().take(60).collect();
            Failure(format!("line {} of the plugin's counts: {line}: not a line that it writes", index + 1))
        };
        let (kind, rest) = line.split_once(',').ok_or_else(wrong)?;
        match kind {
            "cache" => counts.cache = rest.to_owned(),
            "function" => {
                let (words, name) = fields(rest).ok_or_else(wrong)?;
                let [path, cleared_bytes, string_bytes, _iterations, ..] = words[..] else {
                    return Err(wrong());
                };
                let misses = |from: usize| words.get(from..from + 3)?.try_into().ok();
                section.functions.push(Function {
                    name: name.to_owned(),
                    path,
                    cleared_bytes,
                    string_bytes,
                    path_misses: misses(4).ok_or_else(wrong)?,
                    clear_misses: misses(7).ok_or_else(wrong)?,
                    string_misses: misses(10).ok_or_else(wrong)?,
                });
            }
            "laps" => {
                let (words, what) = fields(rest).ok_or_else(wrong)?;
                let [count, quantiles @ ..] = &words[..] else { return Err(wrong()) };
                let quantiles = quantiles.try_into().map_err(|_| wrong())?;
                section.laps.push(Laps { what: what.to_owned(), count: *count, quantiles });
            }
            "paused" => {
                let (words, _) = fields(rest).ok_or_else(wrong)?;
                section.paused = words.try_into().map_err(|_| wrong())?;
            }
            "end" => {
                counts.sections.push(std::mem::take(&mut section));
                if rest.parse() != Ok(counts.sections.len()) {
                    return Err(wrong());
                }
            }
            "sections" => is_whole = rest.parse() == Ok(counts.sections.len()),
            _ => return Err(wrong()),
        }
    }
    if is_whole {
        Ok(counts)
    } else {
        Err(Failure("the plugin's counts end early: the machine was stopped; run it again".into()))
    }
}

/// The numbers behind the section's, and the name in front of them.
fn fields(rest: &str) -> Option<(Vec<u64>, &str)> {
    let mut words = rest.split(',');
    let (_section, name) = (words.next()?, words.next()?);
    Some((words.map(str::parse).collect::<Result<_, _>>().ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cache,L1 32 KiB\n\
        function,1,[user],10,0,0,0,1,1,1,0,0,0,0,0,0\n\
        function,1,clear_page_erms,40,40960,0,40960,0,0,0,640,640,640,0,0,0\n\
        laps,1,path,10,500,510,600,700\n\
        paused,1,all,1,2,3\nend,1\nsections,1\n";

    #[test]
    fn sections_hold_functions_and_laps() {
        let counts = parse(TEXT).unwrap();
        let [section] = &counts.sections[..] else { panic!("{counts:?}") };
        assert_eq!(section.kernel(|function| function.cleared_bytes), 40_960);
        assert_eq!(section.kernel(|function| function.clear_misses[2]), 640);
        assert_eq!(section.user(|function| function.path), 10);
        assert_eq!((section.laps[0].quantiles, section.paused), ([500, 510, 600, 700], [1, 2, 3]));
    }

    #[test]
    fn lines_that_the_plugin_does_not_write_are_named() {
        for (broken, at) in [
            (TEXT.replace("640,640,640", "640,x,640"), "line 3"),
            (TEXT.replace("end,1", "end,2"), "line 6"),
            (TEXT.replace("all,1,2,3", "all,1,2"), "line 5"),
            (TEXT.replace("laps,1,path,10,500", "laps,1,path,10"), "line 4"),
            (TEXT.replace("cache", "cash"), "line 1"),
        ] {
            assert!(parse(&broken).unwrap_err().0.contains(at), "{broken}");
        }
        assert!(parse(&TEXT.replace("sections,1\n", "")).unwrap_err().0.contains("end early"));
    }
}
