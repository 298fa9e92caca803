//! Names and lines of code in ELF files.
//!
//! In: a file, and addresses as it states them. Out: for each address the functions, inlined ones first. They
//! come from the file's debug information, from separate debug files (by build id or `.gnu_debuglink`), else
//! from its symbols. Unreadable debug information counts as none. In runtime libraries only functions are
//! named, because no site lies in them, and unpacking the debug information of a C library takes 30 ms.
//!
//! It does not fetch debug files from servers (`faultless symbolize` does).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use blazesym::ErrorKind;
use blazesym::symbolize::source::{self, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use faultless_trace::observation::SourceNote;
use faultless_trace::recording::Name;
use faultless_trace::recording::is_runtime;

use super::unreadable;
use crate::elf::Elf;

/// Where distributions put debug files.
const DEBUG_FOLDERS: [&str; 2] = ["/usr/lib/debug", "/lib/debug"];
/// Those by build id.
const BY_BUILD_ID: &str = "/usr/lib/debug/.build-id";

/// Names of `addresses`, one list for each, and notes on unreadable debug information.
pub(crate) fn names(elf: &Elf, path: &Path, addresses: &[u64]) -> (Vec<Vec<Name>>, Vec<SourceNote>) {
    let separate = debug_file(elf).filter(|_| !elf.has_debug);
    let with_lines = !path.file_name().is_some_and(|name| is_runtime(&name.to_string_lossy()));
    let separate = separate.as_deref().map(|file| (file, with_lines));
    let tries = [separate, with_lines.then_some((path, true)), Some((path, false))];
    let tries: Vec<_> = tries.into_iter().flatten().collect();
    names_in(&tries, path, addresses)
}

/// Names in the first of these files that has any; `true`: with lines and inlined functions. Notes are on `path`.
pub(crate) fn names_in(
    tries: &[(&Path, bool)],
    path: &Path,
    addresses: &[u64],
) -> (Vec<Vec<Name>>, Vec<SourceNote>) {
    let mut found = vec![Vec::new(); addresses.len()];
    let mut missing_names = Vec::new();
    let symbolizer = Symbolizer::builder()
        .enable_auto_reload(false)
        .enable_demangling(false)
        .set_debug_dirs(Some(debug_folders(path)))
        .build();
    for &(file, debug_syms) in tries {
        let missing: Vec<usize> = (0..addresses.len()).filter(|&index| found[index].is_empty()).collect();
        if missing.is_empty() {
            break;
        }
        let mut source = source::Elf::new(file);
        source.debug_syms = debug_syms;
        let input: Vec<u64> = missing.iter().map(|&index| addresses[index]).collect();
        match symbolizer.symbolize(&Source::Elf(source), Input::VirtOffset(&input)) {
            Ok(symbols) => {
                for (index, symbol) in missing.into_iter().zip(symbols) {
                    found[index] = symbol.as_sym().map(of_symbol).unwrap_or_default();
                }
            }
            // The next attempt finds the same file and the same error.
            Err(_) if !missing_names.is_empty() => {}
            Err(error) => {
                let what = if debug_syms { "debug information" } else { "symbols" };
                let remedy = match error.kind() {
                    ErrorKind::PermissionDenied => "; give yourself the right to read it, or run as root",
                    _ => "",
                };
                missing_names.push(unreadable(
                    &path.display().to_string(),
                    &format!("its {what} can't be read: {error:#}{remedy}"),
                ));
            }
        }
    }
    (found, missing_names)
}

/// A key for the names of a file: its build id, and the state of the file and its debug files. `None` without
/// a build id.
pub(crate) fn key(elf: &Elf, path: &Path) -> Option<String> {
    let build_id = elf.build_id.as_ref()?;
    let mut hasher = DefaultHasher::new();
    let own = std::fs::metadata(path).ok()?;
    (own.len(), own.mtime(), own.mtime_nsec()).hash(&mut hasher);
    for file in debug_files(elf, path) {
        if let Ok(found) = std::fs::metadata(&file) {
            (file, found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
        }
    }
    Some(format!("{build_id}-{:016x}", hasher.finish()))
}

/// Where debug information of a file may lie outside it.
fn debug_files(elf: &Elf, path: &Path) -> Vec<PathBuf> {
    let package = path.extension().map_or("dwp".into(), |extension| {
        let mut extension = extension.to_owned();
        extension.push(".dwp");
        extension
    });
    let mut files = vec![path.with_extension(package)];
    let id = elf.build_id.as_ref().and_then(|id| id.split_at_checked(2));
    for folder in debug_folders(path) {
        files.extend(
            id.map(|(begin, rest)| folder.join(".build-id").join(begin).join(format!("{rest}.debug"))),
        );
        if let Some(link) = &elf.debug_link {
            files.push(folder.join(link));
            let own_folder = path.parent().and_then(|parent| parent.canonicalize().ok()).unwrap_or_default();
            let above = own_folder.ancestors().filter_map(|above| above.strip_prefix("/").ok());
            files.extend(above.map(|above| folder.join(above).join(link)));
        }
    }
    files.extend(path.parent().zip(elf.debug_link.as_ref()).map(|(folder, link)| folder.join(link)));
    files
}

/// Folders where gdb looks for the file that `.gnu_debuglink` names; the program's own folder always counts.
fn debug_folders(path: &Path) -> Vec<PathBuf> {
    let beside = path.parent().map(|folder| folder.join(".debug"));
    beside.into_iter().chain(DEBUG_FOLDERS.map(PathBuf::from)).collect()
}

fn debug_file(elf: &Elf) -> Option<PathBuf> {
    let (folder, file) = elf.build_id.as_ref()?.split_at_checked(2)?;
    let path = Path::new(BY_BUILD_ID).join(folder).join(format!("{file}.debug"));
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
    Name { function: demangled(function), file, line: info.and_then(|info| info.line) }
}

/// Demangles only mangled names. A demangler would read `a`, a C function, as the type `signed char`.
pub(crate) fn demangled(name: &str) -> String {
    if let Ok(found) = rustc_demangle::try_demangle(name) {
        return format!("{found:#}");
    }
    let is_cpp = ["_Z", "__Z", "_GLOBAL_"].iter().any(|prefix| name.starts_with(prefix));
    let found = is_cpp.then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok()).flatten();
    found.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn names_of_rust_and_of_cpp_are_made_readable_and_names_of_c_are_left() {
        assert_eq!(
            demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(
            demangled("_ZNSt6vectorIiSaIiEE9push_backEOi"),
            "std::vector<int, std::allocator<int> >::push_back(int&&)"
        );
        for plain in ["a", "f", "main", "_start", "_Znonsense", "memcpy@GLIBC_2.14"] {
            assert_eq!(demangled(plain), plain);
        }
    }
}
