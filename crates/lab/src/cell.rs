//! Cells: the unit of measurement, named by an experiment and its parameters.
//!
//! In: `NAME=VALUE` words. Out: a [`Cell`] with typed access to its parameters, or a [`Refusal`] with the
//! remedy.

use std::cmp::Ordering;
use std::fmt;

/// Compares two values of a parameter, numbers by their value.
pub fn natural_cmp(a: &str, b: &str) -> Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    }
}

/// One cell: an experiment and its parameters, in the order in which the experiment names them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The experiment's name.
    pub experiment: String,
    /// Parameters and their values.
    pub parameters: Vec<(String, String)>,
}

impl Cell {
    /// A cell without parameters.
    pub fn of(experiment: &str) -> Self {
        Self { experiment: experiment.into(), parameters: Vec::new() }
    }

    /// The same cell with one more parameter.
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.parameters.push((name.into(), value.to_string()));
        self
    }

    /// Reads `NAME=VALUE` words.
    ///
    /// # Errors
    /// A word without `=`.
    pub fn parse<'a>(experiment: &str, words: impl IntoIterator<Item = &'a str>) -> Result<Self, Refusal> {
        words.into_iter().try_fold(Self::of(experiment), |cell, word| {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| Refusal(format!("{experiment}: {word}: a parameter is written NAME=VALUE")))?;
            Ok(cell.with(name, value))
        })
    }

    /// Compares parameter by parameter, numbers by their value and words by their letters.
    pub fn natural_cmp(&self, other: &Self) -> Ordering {
        let parameters = self.parameters.iter().zip(&other.parameters);
        let of_each = parameters.map(|((_, a), (_, b))| natural_cmp(a, b));
        of_each.fold(Ordering::Equal, Ordering::then).then_with(|| self.cmp(other))
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// The cell has no such parameter.
    pub fn text(&self, name: &str) -> Result<&str, Refusal> {
        let found = self.parameters.iter().find(|(found, _)| found == name);
        found
            .map(|(_, value)| value.as_str())
            .ok_or_else(|| Refusal(format!("{self}: {name}=VALUE is missing")))
    }

    /// A parameter as a number.
    ///
    /// # Errors
    /// The cell has no such parameter, or it is not a whole number from 1 on.
    pub fn number(&self, name: &str) -> Result<usize, Refusal> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|&number| number > 0);
        number.ok_or_else(|| Refusal(format!("{self}: {name}={text}: takes a whole number from 1 on")))
    }

    /// A parameter as a number that may be 0.
    ///
    /// # Errors
    /// The cell has no such parameter, or it is not a whole number.
    pub fn count(&self, name: &str) -> Result<usize, Refusal> {
        let text = self.text(name)?;
        text.parse().map_err(|_| Refusal(format!("{self}: {name}={text}: takes a whole number from 0 on")))
    }

    /// The meaning of a parameter that takes one of a few words.
    ///
    /// # Errors
    /// The cell has no such parameter, or none of these words.
    pub fn choice<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<T, Refusal> {
        let text = self.text(name)?;
        let found = known.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            let takes = match &words[..] {
                [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
                words => words.concat(),
            };
            Refusal(format!("{self}: {name}={text}: takes {takes}"))
        })
    }

    /// A parameter that is yes or no.
    ///
    /// # Errors
    /// As for [`choice`](Self::choice).
    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        self.choice(name, &[("yes", true), ("no", false)])
    }

    /// A parameter in MiB, as bytes.
    ///
    /// # Errors
    /// As for [`number`](Self::number), or the number exceeds every address space.
    pub fn mib(&self, name: &str) -> Result<usize, Refusal> {
        self.bytes(name, 20)
    }

    /// A parameter in KiB, as bytes.
    ///
    /// # Errors
    /// As for [`mib`](Self::mib).
    pub fn kib(&self, name: &str) -> Result<usize, Refusal> {
        self.bytes(name, 10)
    }

    /// A parameter in units of `1 << unit_log2` bytes, as bytes.
    fn bytes(&self, name: &str, unit_log2: u32) -> Result<usize, Refusal> {
        const MOST_LOG2: u32 = 46;
        let (count, most) = (self.number(name)?, 1 << (MOST_LOG2 - unit_log2));
        if count > most {
            return Err(Refusal(format!("{self}: {name}={count}: takes at most {most}")));
        }
        Ok(count << unit_log2)
    }

    /// The parameters as `NAME=VALUE` words.
    pub fn words(&self) -> Vec<String> {
        self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.experiment)?;
        self.parameters.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Why a cell can't be measured here, and the remedy, as the user reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_back_as_it_is_written() {
        let cell = Cell::of("touch").with("access", "write").with("threads", 2);
        let text = cell.to_string();
        let mut words = text.split(' ');
        assert_eq!(Cell::parse(words.next().unwrap(), words), Ok(cell));
    }

    #[test]
    fn wrong_parameters_are_named() {
        let cell = Cell::of("touch").with("threads", "many");
        assert!(cell.number("threads").unwrap_err().0.contains("threads=many"));
        assert!(cell.number("mib").unwrap_err().0.contains("mib=VALUE is missing"));
        assert!(cell.count("threads").unwrap_err().0.contains("from 0 on"));
        assert!(cell.flag("threads").unwrap_err().0.ends_with("takes yes or no"));
        let known = [("one", 1), ("two", 2), ("many", 3)];
        assert_eq!(cell.choice("threads", &known), Ok(3));
        assert!(
            cell.choice("threads", &known[..2]).unwrap_err().0.ends_with("threads=many: takes one or two")
        );
        assert!(cell.choice("threads", &known[..1]).unwrap_err().0.ends_with("takes one"));
        let cell = Cell::of("touch").with("mib", 3).with("more", usize::MAX);
        assert_eq!((cell.mib("mib"), cell.kib("mib")), (Ok(3 << 20), Ok(3 << 10)));
        assert!(cell.mib("more").unwrap_err().0.contains("at most"));
        assert!(Cell::parse("touch", ["threads"]).unwrap_err().0.contains("NAME=VALUE"));
    }
}
