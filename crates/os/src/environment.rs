//! The environment of this process, for a program that it starts: the same block, with some variables set in it.
//!
//! In: variables. Out: entries as execve(2) takes them. Order, duplicates and entries without a name stay. `std::env`
//! would sort them, keep one of a name, and drop what has no `=`.

use std::ffi::{CStr, CString, NulError, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

// environ(7). The crate libc has it for glibc alone.
unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// The block with `variables`: each where entries of its name stand, else at the end.
///
/// # Errors
/// A variable holds a NUL byte.
pub fn with(variables: &[(OsString, OsString)]) -> Result<Vec<CString>, NulError> {
    edited(entries(), variables)
}

/// The value of the last entry of this name: the one that ld.so takes. getenv(3) takes the first.
pub fn last(name: &str) -> Option<OsString> {
    let value = |entry: &CString| Some(OsStr::from_bytes(value_of(entry, name.as_bytes())?).to_owned());
    entries().iter().rev().find_map(value)
}

fn edited(mut block: Vec<CString>, variables: &[(OsString, OsString)]) -> Result<Vec<CString>, NulError> {
    for (name, value) in variables {
        let new = CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?;
        let mut old = block.iter_mut().filter(|entry| value_of(entry, name.as_bytes()).is_some()).peekable();
        match old.peek() {
            Some(_) => old.for_each(|entry| entry.clone_from(&new)),
            None => block.push(new),
        }
    }
    Ok(block)
}

fn value_of<'a>(entry: &'a CStr, name: &[u8]) -> Option<&'a [u8]> {
    entry.to_bytes().strip_prefix(name)?.strip_prefix(b"=")
}

/// All entries, in order.
fn entries() -> Vec<CString> {
    let mut block = Vec::new();
    // SAFETY: the C library's own variable. Nothing in our programs changes the environment.
    let mut at = unsafe { environ };
    while !at.is_null() {
        // SAFETY: `at` lies in the block, which ends with a null pointer.
        let entry = unsafe { *at };
        if entry.is_null() {
            break;
        }
        // SAFETY: an entry is a C string.
        block.push(unsafe { CStr::from_ptr(entry) }.to_owned());
        // SAFETY: not yet at the null pointer.
        at = unsafe { at.add(1) };
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_set_where_it_stands_and_all_else_stays() {
        let block = |entries: &[&str]| -> Vec<CString> {
            entries.iter().map(|entry| CString::new(*entry).unwrap()).collect()
        };
        let before = ["Z=1", "no name", "A=1", "LD=", "=x", "A=2", "LD=old", "LDX=1", "", "LD"];
        let set = [("LD".into(), "new=1".into()), ("B".into(), "".into())];
        let after = ["Z=1", "no name", "A=1", "LD=new=1", "=x", "A=2", "LD=new=1", "LDX=1", "", "LD", "B="];
        assert_eq!(edited(block(&before), &set).unwrap(), block(&after));
        assert_eq!(edited(block(&before), &[]).unwrap(), block(&before));
        assert!(edited(vec![], &[("A".into(), "\0".into())]).is_err());
        assert_eq!(value_of(c"A=1=2", b"A"), Some(&b"1=2"[..]));
    }

    #[test]
    fn the_block_is_that_of_this_process() {
        assert_eq!(last("PATH"), std::env::var_os("PATH"));
        assert!(with(&[]).unwrap().len() >= std::env::vars_os().count());
    }
}
