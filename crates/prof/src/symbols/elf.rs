//! Names and lines of code in ELF files.
//!
//! In: a file, and addresses as it states them. Out: for each what lies there, inlined functions first: from its debug
//! information, from separate debug files (by build id, or as its `.gnu_debuglink` names them), else from its symbols.
//! Debug information that can't be read is as good as none.
//!
//! What it does not do: fetch debug files from servers.

use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{self, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use faultless_trace::recording::Name;

use crate::unwind::Elf;

/// Where distributions put debug files by build id.
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

/// Names of `addresses`, one list for each.
pub(crate) fn names(elf: &Elf, path: &Path, addresses: &[u64]) -> Vec<Vec<Name>> {
    let mut found = vec![Vec::new(); addresses.len()];
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    let separate = debug_file(elf).filter(|_| !elf.has_debug);
    let tries = [separate.as_deref().map(|file| (file, true)), Some((path, true)), Some((path, false))];
    for (file, debug_syms) in tries.into_iter().flatten() {
        let missing: Vec<usize> = (0..addresses.len()).filter(|&index| found[index].is_empty()).collect();
        if missing.is_empty() {
            break;
        }
        let mut source = source::Elf::new(file);
        source.debug_syms = debug_syms;
        let input: Vec<u64> = missing.iter().map(|&index| addresses[index]).collect();
        let Ok(symbols) = symbolizer.symbolize(&Source::Elf(source), Input::VirtOffset(&input)) else {
            continue;
        };
        for (index, symbol) in missing.into_iter().zip(symbols) {
            found[index] = symbol.as_sym().map(of_symbol).unwrap_or_default();
        }
    }
    found
}

fn debug_file(elf: &Elf) -> Option<PathBuf> {
    let (folder, file) = elf.build_id.as_ref()?.split_at_checked(2)?;
    let path = Path::new(DEBUG_FOLDER).join(folder).join(format!("{file}.debug"));
    path.is_file().then_some(path)
}

/// blazesym lists inlined functions from the outermost inwards.
fn of_symbol(symbol: &Sym<'_>) -> Vec<Name> {
    let inlined = symbol.inlined.iter().rev().map(|inlined| name(&inlined.name, inlined.code_info.as_ref()));
    let own = name(&symbol.name, symbol.code_info.as_deref());
    inlined.chain([own]).filter(|name| !name.function.is_empty()).collect()
}

fn name(function: &str, info: Option<&CodeInfo<'_>>) -> Name {
    let file = info.map(|info| info.to_path().to_string_lossy().into_owned());
    Name { function: function.to_owned(), file, line: info.and_then(|info| info.line) }
}
