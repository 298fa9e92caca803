//! Changes of the file types, in the order of the command line: of two types that a file has, the later one decides.
//!
//! clap keeps the values of each flag by themselves, so these flags are read by hand.

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The types of a search, as the flags change them.
#[derive(Debug, Default)]
pub(crate) struct TypeChanges(pub(crate) Vec<TypeChange>);

#[derive(Clone, Debug)]
pub(crate) enum TypeChange {
    /// Search files of the type.
    Select(String),
    /// Leave out files of the type.
    Negate(String),
    /// Add a glob or a type to a type.
    Add(String),
    /// Drop the globs of a type.
    Clear(String),
}

/// A flag, and the change that it makes.
type Flag = (&'static str, fn(String) -> TypeChange);

const FLAGS: [Flag; 4] = [
    ("type", TypeChange::Select),
    ("type-not", TypeChange::Negate),
    ("type-add", TypeChange::Add),
    ("type-clear", TypeChange::Clear),
];

impl FromArgMatches for TypeChanges {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut changes = Vec::new();
        for (flag, change) in FLAGS {
            let values = matches.get_many::<String>(flag).into_iter().flatten().cloned();
            changes.extend(matches.indices_of(flag).into_iter().flatten().zip(values.map(change)));
        }
        changes.sort_by_key(|(at, _)| *at);
        Ok(Self(changes.into_iter().map(|(_, change)| change).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

impl Args for TypeChanges {
    fn augment_args(command: Command) -> Command {
        let flag = |name| Arg::new(name).long(name).value_name("TYPE").action(ArgAction::Append);
        let rare = |name| flag(name).hide_short_help(true);
        command.args([
            flag("type").short('t').help("Search only files of TYPE, such as c, py or rust").long_help(
                "Search only files of TYPE, such as c, py or rust.\n\nUnlike ripgrep, a search with a database \
                 leaves out hidden files of that type: to find them would take a walk of the tree. Add --hidden \
                 for those.",
            ),
            rare("type-not").short('T').help("Exclude files of TYPE"),
            rare("type-add").help("Add a glob or a type to a type: `name:glob`, `name:include:other`"),
            rare("type-clear").help("Drop the globs of TYPE, except those of a later --type-add"),
        ])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
