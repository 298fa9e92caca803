//! The counters of a pool for people and programs: text, JSON, OpenMetrics.
//!
//! In: a [`Stats`](crate::Stats). Out: its fields, each with name, help and kind, in three formats. The struct itself
//! is the only table of fields: `fields!` reads names, documentation and types from its declaration.
//!
//! A `u64` counts since the pool was opened; a `usize` is a gauge: it also falls. The unit ends the name.
//!
//! It writes into any `fmt::Write` and never allocates. Prometheus reads OpenMetrics, the format of
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>.

use std::ffi::CStr;
use std::fmt::{self, Write};

/// How a field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts up from 0.
    Counter,
    /// Goes up and down, or is a maximum.
    Gauge,
}

/// One field of a [`Stats`](crate::Stats).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, also in C.
    pub name: &'static CStr,
    /// A description in one line.
    pub help: &'static CStr,
    /// How it changes.
    pub kind: Kind,
    /// The value now.
    pub value: u64,
}

impl Field {
    /// The name as text.
    pub fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or("")
    }

    /// The description as text.
    pub fn help(&self) -> &'static str {
        self.help.to_str().unwrap_or("")
    }

    fn write_open_metrics(&self, f: &mut fmt::Formatter<'_>, labels: &[Label<'_>]) -> fmt::Result {
        let name = self.name();
        // OpenMetrics demands seconds.
        let (stem, unit) = match name.strip_suffix("_ns") {
            Some(stem) => (stem, "_seconds"),
            None => (name, if name.ends_with("_bytes") { "_bytes" } else { "" }),
        };
        let stem = stem.strip_suffix("_bytes").unwrap_or(stem);
        let (kind, end) = match self.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        writeln!(f, "# TYPE faultless_{stem}{unit} {kind}")?;
        if let Some(unit) = unit.strip_prefix('_') {
            writeln!(f, "# UNIT faultless_{stem}_{unit} {unit}")?;
        }
        writeln!(f, "# HELP faultless_{stem}{unit} {}", self.help())?;
        write!(f, "faultless_{stem}{unit}{end}")?;
        for (at, &(name, value)) in labels.iter().enumerate() {
            write!(f, "{}{name}={}", if at == 0 { "{" } else { "," }, Quoted(value))?;
        }
        f.write_str(if labels.is_empty() { " " } else { "} " })?;
        match unit {
            "_seconds" => writeln!(f, "{}.{:09}", self.value / NS_PER_S, self.value % NS_PER_S),
            _ => writeln!(f, "{}", self.value),
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// The format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line per field: value, name, help.
    Text,
    /// One object of integers.
    Json,
    /// A metric family per field, named `faultless_...`, with the end mark.
    OpenMetrics,
}

/// Name and value of a label.
pub type Label<'a> = (&'a str, &'a dyn fmt::Display);

/// Fields, labels and a format. Its `Display` is the document.
///
/// ```
/// use faultless_pool::{Exposition, Format, Stats};
/// let stats = Stats { fresh: 3, ..Stats::default() };
/// let fields = stats.fields().into_iter().filter(|field| field.value > 0);
/// let text = Exposition::new(Format::Json, &[("command", &"sort")], fields).to_string();
/// assert_eq!(text, r#"{"command":"sort","fresh":3}"#);
/// ```
#[derive(Clone, Copy)]
pub struct Exposition<'a, F> {
    fields: F,
    labels: &'a [Label<'a>],
    format: Format,
}

impl<'a, F: Iterator<Item = Field> + Clone> Exposition<'a, F> {
    /// Labels name the source of the counters. [`Format::Text`] omits them.
    pub const fn new(format: Format, labels: &'a [Label<'a>], fields: F) -> Self {
        Self { fields, labels, format }
    }

    fn write_json(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "{";
        for &(name, value) in self.labels {
            write!(f, "{comma}\"{name}\":{}", Quoted(value))?;
            comma = ",";
        }
        for field in self.fields.clone() {
            write!(f, "{comma}\"{}\":{}", field.name(), field.value)?;
            comma = ",";
        }
        f.write_str("}")
    }
}

impl<F: Iterator<Item = Field> + Clone> fmt::Display for Exposition<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            Format::Text => self.fields.clone().try_for_each(|field| {
                writeln!(f, "{:>16} {:<22} {}", field.value, field.name(), field.help())
            }),
            Format::Json => self.write_json(f),
            Format::OpenMetrics => {
                self.fields.clone().try_for_each(|field| field.write_open_metrics(f, self.labels))?;
                f.write_str("# EOF\n")
            }
        }
    }
}

/// A label's value, quoted for both formats. Control characters, which the formats escape differently, become spaces.
struct Quoted<'a>(&'a dyn fmt::Display);

struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_char(&mut self, letter: char) -> fmt::Result {
        match letter {
            '"' | '\\' => write!(self.0, "\\{letter}"),
            _ if letter.is_control() => self.0.write_str(" "),
            _ => self.0.write_char(letter),
        }
    }

    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| self.write_char(letter))
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        write!(Escaping(f), "{}", self.0)?;
        f.write_str("\"")
    }
}

/// The text of a doc comment without its leading space, as a C string.
pub(crate) const fn c_text(text: &'static str) -> &'static CStr {
    let bytes = match text.as_bytes() {
        [b' ', rest @ ..] => rest,
        all => all,
    };
    match CStr::from_bytes_with_nul(bytes) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

/// Declares a struct of numbers, and makes its declaration the table of [`Field`]s.
macro_rules! fields {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[doc = $help:literal])+ pub $field:ident: $type:ident,)+
    }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)+
        }

        impl $name {
            /// The number of fields.
            pub const FIELDS: usize = [$(stringify!($field)),+].len();

            /// Every field, in the order of the declaration.
            pub fn fields(&self) -> [$crate::exposition::Field; Self::FIELDS] {
                [$($crate::exposition::Field {
                    name: const { $crate::exposition::c_text(concat!(stringify!($field), "\0")) },
                    help: const { $crate::exposition::c_text(concat!($($help,)+ "\0")) },
                    kind: fields!(@kind $type),
                    value: self.$field as u64,
                }),+]
            }

            /// The fields in a format, for `to_string()` or `write!`.
            pub fn exposed(&self, format: $crate::exposition::Format) -> impl std::fmt::Display + use<> {
                $crate::exposition::Exposition::new(format, &[], self.fields().into_iter())
            }
        }
    };
    (@kind u64) => { $crate::exposition::Kind::Counter };
    (@kind usize) => { $crate::exposition::Kind::Gauge };
}

pub(crate) use fields;

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro declares for the world")]
mod tests {
    use super::*;

    fields! {
        /// An example.
        #[derive(Default)]
        pub struct Example {
            /// Calls so far, of
            /// any kind.
            pub calls: u64,
            /// Bytes now.
            pub kept_bytes: usize,
            /// Time it took.
            pub busy_ns: u64,
        }
    }

    const EXAMPLE: Example = Example { calls: 3, kept_bytes: 1 << 20, busy_ns: 2_000_000_007 };

    #[test]
    fn the_declaration_is_the_table() {
        let [calls, kept, busy] = EXAMPLE.fields();
        assert_eq!((calls.name(), calls.help()), ("calls", "Calls so far, of any kind."));
        assert_eq!((kept.kind, kept.value), (Kind::Gauge, 1 << 20));
        assert_eq!((busy.kind, busy.value), (Kind::Counter, 2_000_000_007));
    }

    #[test]
    fn json_is_one_object() {
        let text = EXAMPLE.exposed(Format::Json).to_string();
        assert_eq!(text, r#"{"calls":3,"kept_bytes":1048576,"busy_ns":2000000007}"#);
    }

    #[test]
    fn open_metrics_has_units_seconds_and_an_end() {
        let text = EXAMPLE.exposed(Format::OpenMetrics).to_string();
        let expected = "\
# TYPE faultless_calls counter
# HELP faultless_calls Calls so far, of any kind.
faultless_calls_total 3
# TYPE faultless_kept_bytes gauge
# UNIT faultless_kept_bytes bytes
# HELP faultless_kept_bytes Bytes now.
faultless_kept_bytes 1048576
# TYPE faultless_busy_seconds counter
# UNIT faultless_busy_seconds seconds
# HELP faultless_busy_seconds Time it took.
faultless_busy_seconds_total 2.000000007
# EOF
";
        assert_eq!(text, expected);
    }

    #[test]
    fn labels_are_quoted_for_both() {
        let fields = EXAMPLE.fields().into_iter().take(1);
        let labels: [Label<'_>; 2] = [("command", &"a\"b\\c\nd"), ("pid", &7)];
        let text = Exposition::new(Format::OpenMetrics, &labels, fields.clone()).to_string();
        assert!(text.contains("\nfaultless_calls_total{command=\"a\\\"b\\\\c d\",pid=\"7\"} 3\n"), "{text}");
        let text = Exposition::new(Format::Json, &labels, fields).to_string();
        assert_eq!(text, r#"{"command":"a\"b\\c d","pid":"7","calls":3}"#);
    }

    #[test]
    fn text_has_a_line_per_field() {
        let text = EXAMPLE.exposed(Format::Text).to_string();
        assert_eq!(text.lines().count(), Example::FIELDS);
        assert!(text.contains(" 1048576 kept_bytes "), "{text}");
    }

    #[test]
    fn every_field_of_a_pool_says_what_it_is() {
        for field in crate::Stats::default().fields() {
            assert!(!field.name().is_empty() && field.help().ends_with('.'), "{field:?}");
        }
    }
}
