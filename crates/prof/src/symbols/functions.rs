//! Functions by start address.
//!
//! In: the text of `/proc/kallsyms`, its cached form, or an ELF image. Out: the function that holds an
//! address. Where kptr_restrict hides the addresses there are none.
//!
//! It does not read debug information (`debug_info`) or tables of generated code (`jit`).

use std::fmt::Write;
use std::sync::OnceLock;

use object::{Object, ObjectSymbol, SymbolKind};

/// Hexadecimal digits of an address.
const DIGITS: usize = 16;
/// Separates a kernel function from the name of its module.
const OF_MODULE: char = '\t';

/// Functions by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// Lines of an address and a name, ascending, in the cached form. The kernel's 4 MiB are not parsed for
    /// the few names needed.
    lines: String,
    /// Where they begin.
    begins: Vec<u32>,
}

impl Symbols {
    /// The functions in `/proc/kallsyms`, read once because that takes about 60 ms. `None` if it can't be
    /// read or hides the addresses.
    pub(crate) fn of_kernel() -> Option<&'static Self> {
        static KERNEL: OnceLock<Option<Symbols>> = OnceLock::new();
        let read = || {
            let symbols = Self::parse(&std::fs::read_to_string("/proc/kallsyms").ok()?);
            (!symbols.lines.is_empty()).then_some(symbols)
        };
        KERNEL.get_or_init(read).as_ref()
    }

    /// Keeps functions with an address.
    pub(crate) fn parse(text: &str) -> Self {
        Self::new(text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let address = u64::from_str_radix(address, 16).ok()?;
            (address != 0 && matches!(kind, "t" | "T" | "w" | "W")).then_some((address, name, words.next()))
        }))
    }

    /// The exported functions of an ELF image.
    pub(crate) fn of_image(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let functions = file.dynamic_symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        Some(Self::new(functions.filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?, None)))))
    }

    fn new<'a>(found: impl Iterator<Item = (u64, &'a str, Option<&'a str>)>) -> Self {
        let mut functions: Vec<_> = found.collect();
        functions.sort_by_key(|(address, ..)| *address);
        let mut lines = String::new();
        for (address, name, module) in functions {
            // To write into a string can't fail.
            let _ = write!(lines, "{address:0DIGITS$x}{name}");
            if let Some(module) = module {
                lines.push(OF_MODULE);
                lines.push_str(module);
            }
            lines.push('\n');
        }
        Self::of_lines(lines)
    }

    /// From lines that [`lasting`](Self::lasting) gave.
    pub(crate) fn of_lines(lines: String) -> Self {
        let ends = lines.match_indices('\n').map(|(end, _)| end as u32 + 1);
        let begins = std::iter::once(0).chain(ends).take_while(|&begin| (begin as usize) < lines.len());
        Self { begins: begins.collect(), lines }
    }

    /// The lines of functions whose addresses stay the same until the next boot: those outside modules.
    pub(crate) fn lasting(&self) -> String {
        self.lines.split_inclusive('\n').filter(|line| !line.contains(OF_MODULE)).collect()
    }

    /// Whether an address lies between the first and the last function.
    pub(crate) fn covers(&self, address: u64) -> bool {
        let ends = self.begins.first().zip(self.begins.last());
        ends.is_some_and(|(&first, &last)| self.is_behind(first, address) && !self.is_behind(last, address))
    }

    /// The function that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.begins.partition_point(|&begin| self.is_behind(begin, address));
        let begin = *self.begins.get(after.checked_sub(1)?)? as usize;
        self.lines.get(begin + DIGITS..)?.split([OF_MODULE, '\n']).next()
    }

    /// Likewise, else `[unknown]`.
    pub(crate) fn name(&self, address: u64) -> &str {
        self.find(address).unwrap_or("[unknown]")
    }

    /// Whether `address` is at or above the address of the line at `begin`.
    fn is_behind(&self, begin: u32, address: u64) -> bool {
        let begin = begin as usize;
        let found = self.lines.get(begin..begin + DIGITS).and_then(|word| u64::from_str_radix(word, 16).ok());
        found.is_some_and(|found| found <= address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let symbols = Symbols::parse("2000 t beta\t[module]\n1000 T alpha\n1800 d data\nrubbish\n");
        assert_eq!(symbols.name(0x1fff), "alpha");
        assert_eq!(symbols.name(0x2000), "beta");
        assert_eq!(symbols.name(0xfff), "[unknown]");
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        assert!(Symbols::parse("0000000000000000 T alpha\n").lines.is_empty());
    }

    #[test]
    fn what_lasts_is_the_kernel_without_its_modules() {
        let symbols = Symbols::parse("1000 T alpha\n2000 t beta\n3000 t gamma\n4000 t delta [module]\n");
        let kept = Symbols::of_lines(symbols.lasting());
        assert_eq!(["alpha", "beta", "gamma"], [0x1000, 0x2abc, 0x3000].map(|address| kept.name(address)));
        // An address above the last function may be a module's.
        assert_eq!(
            [0xfff, 0x1000, 0x2fff, 0x3000].map(|address| kept.covers(address)),
            [false, true, true, false]
        );
        assert!(!Symbols::of_lines(String::new()).covers(1));
        assert_eq!(Symbols::of_lines("rubbish\n".into()).find(1), None);
    }
}
