//! Functions by start address.
//!
//! In: the text of `/proc/kallsyms`, its cached form, or an ELF image. Out: the function that holds an
//! address. Where kptr_restrict hides the addresses there are none.
//!
//! It does not read debug information (`debug_info`) or tables of generated code (`jit`).

use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use object::{Object, ObjectSymbol, SymbolKind};

/// Hexadecimal digits of an address.
const DIGITS: usize = 16;
/// Separates a kernel function from the name of its module.
const OF_MODULE: char = '\t';
/// Bytes that hold the rest of a line and the address in the next one. The kernel's names have 512 bytes at most
/// (KSYM_NAME_LEN).
const CHUNK_BYTES: usize = 1024;

/// Functions by address: lines of an address and a name, ascending.
#[derive(Debug)]
pub(crate) struct Symbols {
    lines: Lines,
    len_bytes: u64,
}

#[derive(Debug)]
enum Lines {
    Text(String),
    /// The kernel's 4 MiB are not read for the few names needed.
    File(File),
}

/// Where an address lies.
struct Found {
    function: String,
    /// No line follows.
    is_last: bool,
}

impl Symbols {
    /// The functions in `/proc/kallsyms`, read once because that takes about 60 ms. `None` if it can't be
    /// read or hides the addresses.
    pub(crate) fn of_kernel() -> Option<&'static Self> {
        static KERNEL: OnceLock<Option<Symbols>> = OnceLock::new();
        let read = || {
            let symbols = Self::parse(&std::fs::read_to_string("/proc/kallsyms").ok()?);
            (symbols.len_bytes > 0).then_some(symbols)
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
        Self { len_bytes: lines.len() as u64, lines: Lines::Text(lines) }
    }

    /// The first bytes of a file: lines that [`lasting`](Self::lasting) gave.
    pub(crate) fn of_file(file: File, len_bytes: u64) -> Self {
        Self { lines: Lines::File(file), len_bytes }
    }

    /// The lines of functions whose addresses stay the same until the next boot: those outside modules.
    pub(crate) fn lasting(&self) -> String {
        let Lines::Text(lines) = &self.lines else { return String::new() };
        lines.split_inclusive('\n').filter(|line| !line.contains(OF_MODULE)).collect()
    }

    /// Whether an address lies between the first and the last function.
    pub(crate) fn covers(&self, address: u64) -> bool {
        self.search(address).is_some_and(|found| !found.is_last)
    }

    /// The function that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<String> {
        self.search(address).map(|found| found.function)
    }

    /// Likewise, else `[unknown]`.
    pub(crate) fn name(&self, address: u64) -> String {
        self.find(address).unwrap_or_else(|| "[unknown]".to_owned())
    }

    fn search(&self, address: u64) -> Option<Found> {
        // The line begins between these.
        let (mut low, mut high) = (0, self.len_bytes);
        let mut chunk = [0; 2 * CHUNK_BYTES];
        while high - low > CHUNK_BYTES as u64 {
            let middle = low.midpoint(high);
            let after = self.read(middle, &mut chunk[..CHUNK_BYTES])?;
            let (rest, next) = after.split_once('\n')?;
            let begin = middle + rest.len() as u64 + 1;
            if begin < high && address_of(next)? <= address { low = begin } else { high = middle + 1 }
        }
        let text = self.read(low, &mut chunk)?;
        let (mut at, mut found) = (low, None);
        for line in
            text.split_inclusive('\n').take_while(|line| address_of(line).is_some_and(|it| it <= address))
        {
            if at >= high {
                break;
            }
            at += line.len() as u64;
            found = Some(line);
        }
        let function = found?.get(DIGITS..)?.split([OF_MODULE, '\n']).next()?.to_owned();
        Some(Found { function, is_last: at == self.len_bytes })
    }

    /// Text from an offset on, as much as fits into `chunk`.
    fn read<'a>(&'a self, at: u64, chunk: &'a mut [u8]) -> Option<&'a str> {
        let len = chunk.len().min((self.len_bytes - at) as usize);
        let bytes = match &self.lines {
            Lines::Text(text) => &text.as_bytes()[at as usize..][..len],
            Lines::File(file) => {
                file.read_exact_at(&mut chunk[..len], at).ok()?;
                &chunk[..len]
            }
        };
        std::str::from_utf8(bytes).ok()
    }
}

/// The address at the begin of a line.
fn address_of(line: &str) -> Option<u64> {
    u64::from_str_radix(line.get(..DIGITS)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a file.
    fn of_lines(text: &str) -> Symbols {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        Symbols::of_file(file, text.len() as u64)
    }

    #[test]
    fn every_function_of_a_long_table_is_found() {
        let name = |n: usize| "f".repeat(1 + n * 37 % 511) + &n.to_string();
        let text: String = (1..3000).map(|n| format!("{:x} t {}\n", n * 16, name(n))).collect();
        let symbols = Symbols::parse(&text);
        let file = of_lines(&symbols.lasting());
        for n in 1..3000 {
            for address in [n * 16, n * 16 + 15] {
                assert_eq!(symbols.name(address as u64), name(n));
                assert_eq!(file.name(address as u64), name(n));
            }
        }
        assert_eq!(file.find(15), None);
    }

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let symbols = Symbols::parse("2000 t beta\t[module]\n1000 T alpha\n1800 d data\nrubbish\n");
        assert_eq!(symbols.name(0x1fff), "alpha");
        assert_eq!(symbols.name(0x2000), "beta");
        assert_eq!(symbols.name(0xfff), "[unknown]");
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        assert_eq!(Symbols::parse("0000000000000000 T alpha\n").len_bytes, 0);
    }

    #[test]
    fn what_lasts_is_the_kernel_without_its_modules() {
        let symbols = Symbols::parse("1000 T alpha\n2000 t beta\n3000 t gamma\n4000 t delta [module]\n");
        let kept = of_lines(&symbols.lasting());
        assert_eq!(["alpha", "beta", "gamma"], [0x1000, 0x2abc, 0x3000].map(|address| kept.name(address)));
        // An address above the last function may be a module's.
        assert_eq!(
            [0xfff, 0x1000, 0x2fff, 0x3000].map(|address| kept.covers(address)),
            [false, true, true, false]
        );
        assert!(!of_lines("").covers(1));
        assert_eq!(of_lines("rubbish\n").find(1), None);
    }
}
