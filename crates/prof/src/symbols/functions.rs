//! Functions by the address at which they begin.
//!
//! In: the text of `/proc/kallsyms`, or an ELF image. Out: the function that holds an address. Where kptr_restrict hides the
//! addresses there are none.
//!
//! What it does not do: files with debug information (`elf`), generated code (`jit`).

use std::sync::OnceLock;

use object::{Object, ObjectSymbol, SymbolKind};

/// Functions by address.
#[derive(Debug)]
pub(crate) struct Symbols {
    text: String,
    /// Address, and where the name lies in `text`.
    functions: Vec<(u64, std::ops::Range<u32>)>,
}

impl Symbols {
    /// What `/proc/kallsyms` says, read once, for that takes about 50 ms; `None` where it can't be read or hides the addresses.
    pub(crate) fn of_kernel() -> Option<&'static Self> {
        static KERNEL: OnceLock<Option<Symbols>> = OnceLock::new();
        let read = || {
            let symbols = Self::parse(&std::fs::read_to_string("/proc/kallsyms").ok()?);
            (!symbols.functions.is_empty()).then_some(symbols)
        };
        KERNEL.get_or_init(read).as_ref()
    }

    /// Keeps functions with an address.
    pub(crate) fn parse(text: &str) -> Self {
        Self::new(text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let address = u64::from_str_radix(address, 16).ok()?;
            (address != 0 && matches!(kind, "t" | "T" | "w" | "W")).then_some((address, name))
        }))
    }

    /// The exported functions of an ELF image.
    pub(crate) fn of_image(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let functions = file.dynamic_symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        Some(Self::new(functions.filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)))))
    }

    fn new<'a>(found: impl Iterator<Item = (u64, &'a str)>) -> Self {
        let mut names = String::new();
        let mut functions = Vec::new();
        for (address, name) in found {
            let begin = names.len() as u32;
            names.push_str(name);
            functions.push((address, begin..names.len() as u32));
        }
        functions.sort_by_key(|(address, _)| *address);
        Self { text: names, functions }
    }

    /// The function that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(begin, _)| *begin <= address);
        let (_, range) = self.functions.get(after.checked_sub(1)?)?;
        self.text.get(range.start as usize..range.end as usize)
    }

    /// Likewise, else `[unknown]`.
    pub(crate) fn name(&self, address: u64) -> &str {
        self.find(address).unwrap_or("[unknown]")
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
        assert!(Symbols::parse("0000000000000000 T alpha\n").functions.is_empty());
    }
}
