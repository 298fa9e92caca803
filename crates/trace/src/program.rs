//! Records of mappings and processes -> facts of the program that decide which cures can act in it.
//!
//! A file's name tells its allocator: one that is linked into the program is not seen.

use std::collections::HashSet;

use crate::observation::{Observation, What};

/// Parts of the file names of libraries that bring an allocator or a heap of their own.
const ALLOCATORS: [&str; 7] =
    ["jemalloc", "tcmalloc", "mimalloc", "snmalloc", "hoard", "libjvm", "libcoreclr"];

/// What the rules of cures need to know of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Nothing can be loaded into it or what it started: no loader was mapped.
    pub is_static: bool,
    /// The library whose allocator or heap it uses instead of glibc's.
    pub allocator: Option<&'static str>,
    /// A forked child of it has run another program.
    pub spawns: bool,
}

impl Program {
    pub(crate) fn new(observation: &Observation) -> Self {
        let mut program = Self::default();
        let (mut has_file, mut has_loader) = (false, false);
        let mut forked = HashSet::new();
        for record in &observation.records {
            match &record.what {
                What::Map(map) => {
                    let file = map.name.rsplit('/').next().unwrap_or(&map.name);
                    has_file |= map.name.starts_with('/');
                    has_loader |=
                        ["ld-", "ld.so", "libc.so", "libc-"].iter().any(|begin| file.starts_with(begin));
                    let known = ALLOCATORS.into_iter().find(|name| file.contains(name));
                    program.allocator = program.allocator.or(known);
                }
                What::Fork { parent } if *parent != record.pid => {
                    forked.insert(record.pid);
                }
                What::Exec => program.spawns |= forked.contains(&record.pid),
                _ => {}
            }
        }
        program.is_static = has_file && !has_loader;
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Map, Record};

    fn program(names: &[&str], others: &[(u32, What)]) -> Program {
        let map = |name: &&str| (1, What::Map(Map { name: (*name).to_owned(), ..Map::default() }));
        let all = names.iter().map(map).chain(others.iter().cloned());
        let record = |(pid, what)| Record { time_ns: 0, pid, tid: pid, what };
        Program::new(&Observation { records: all.map(record).collect(), ..Observation::default() })
    }

    #[test]
    fn a_loader_an_allocator_and_a_child_that_runs_a_program_show_in_the_records() {
        let bare = program(&["/bin/x", "//anon"], &[]);
        assert_eq!((bare.is_static, bare.allocator, bare.spawns), (true, None, false));
        let dynamic = program(&["/bin/x", "/lib/ld-linux-x86-64.so.2", "/opt/libjemalloc.so.2"], &[]);
        assert_eq!((dynamic.is_static, dynamic.allocator), (false, Some("jemalloc")));
        let fork = (2, What::Fork { parent: 1 });
        assert!(!program(&[], &[fork.clone(), (1, What::Exec)]).spawns);
        assert!(program(&[], &[fork, (2, What::Exec)]).spawns);
    }
}
