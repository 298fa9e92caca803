//! Names of kernel functions, from `/proc/kallsyms`.
//!
//! In: the text of that file. Out: the function that holds an address. Where kptr_restrict hides the addresses there are
//! none.
//!
//! What it does not do: user-space symbols.

/// Functions by address.
#[derive(Debug)]
pub(crate) struct Symbols {
    text: String,
    /// Address, and where the name lies in `text`.
    functions: Vec<(u64, std::ops::Range<u32>)>,
}

impl Symbols {
    /// Reads `/proc/kallsyms`; `None` where it can't be read or hides the addresses. Takes about 50 ms.
    pub(crate) fn of_kernel() -> Option<Self> {
        let symbols = Self::parse(&std::fs::read_to_string("/proc/kallsyms").ok()?);
        (!symbols.functions.is_empty()).then_some(symbols)
    }

    /// Keeps functions with an address.
    pub(crate) fn parse(text: &str) -> Self {
        let mut names = String::new();
        let mut functions = Vec::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address != 0 && matches!(kind, "t" | "T" | "w" | "W") {
                let begin = names.len() as u32;
                names.push_str(name);
                functions.push((address, begin..names.len() as u32));
            }
        }
        functions.sort_by_key(|(address, _)| *address);
        Self { text: names, functions }
    }

    /// The function that holds `address`, else `[unknown]`.
    pub(crate) fn name(&self, address: u64) -> &str {
        let after = self.functions.partition_point(|(begin, _)| *begin <= address);
        match after.checked_sub(1).and_then(|index| self.functions.get(index)) {
            Some((_, range)) => &self.text[range.start as usize..range.end as usize],
            None => "[unknown]",
        }
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
