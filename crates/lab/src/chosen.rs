//! Cells that a reader chooses: parameters with values -> cells of one experiment, and its document's columns.
//!
//! `touch mib=2000 threads=1..4` measures four cells. A parameter that is not named keeps the values of the quick
//! run, or the one that [`Sheet::usual`] gives it. A value that no cell takes is refused here, before a cell is
//! measured. The table has a row for each cell, and the document's own rows that have the same columns. Nothing here
//! measures or prints.

use std::collections::BTreeSet;
use std::ffi::OsString;

use faultless_os::host::Host;
use faultless_trace::measurement::median_interval;
use faultless_trace::stat::Interval;

use crate::cell::{Cell, Refusal};
use crate::experiment::{Document, Effort, Experiment, Scope, Sheet, Trial, processors};
use crate::results::{Quantities, Results, values};

/// An experiment with chosen cells instead of its own.
pub struct Chosen {
    experiment: &'static dyn Experiment,
    cells: Vec<Cell>,
}

/// Most cells that may be chosen: more are a slip of the pen, such as `mib=1..2000`.
const MOST_CELLS: usize = 1000;

impl Chosen {
    /// The cells of an experiment with these parameters: `NAME=VALUE`, `NAME=A,B,C` or `NAME=FIRST..LAST`.
    ///
    /// # Errors
    /// The experiment has no such parameter or no cell with this value, or there are more than a thousand cells.
    pub fn new(experiment: &'static dyn Experiment, words: &[String], host: &Host) -> Result<Self, Refusal> {
        let name = experiment.name();
        let given = words.iter().map(|word| choices(name, word)).collect::<Result<Vec<_>, _>>()?;
        for (at, (twice, _)) in given.iter().enumerate() {
            let of = given.iter().filter(|(parameter, _)| parameter == twice);
            let values: Vec<&str> = of.flat_map(|(_, values)| values.iter().map(String::as_str)).collect();
            if given[..at].iter().any(|(parameter, _)| parameter == twice) {
                let values = values.join(",");
                return Err(Refusal(format!("{name}: {twice} is given twice: write {twice}={values}")));
            }
        }
        let scope = Scope { host, processors: processors(), effort: Effort::Quick };
        let own = experiment.cells(&scope);
        for (parameter, _) in &given {
            if !own.iter().any(|cell| cell.text(parameter).is_ok()) {
                let known: BTreeSet<&str> =
                    own.iter().flat_map(|cell| &cell.parameters).map(|(name, _)| name.as_str()).collect();
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                return Err(Refusal(format!("{name} has no parameter {parameter}; it has {known}")));
            }
        }
        for (parameter, values) in &given {
            let is_number = |text: &str| text.parse::<u64>().is_ok();
            let is_counted = own.iter().filter_map(|cell| cell.text(parameter).ok()).all(is_number);
            if let Some(wrong) = values.iter().find(|value| is_counted && !is_number(value)) {
                return Err(Refusal(format!("{name}: {parameter}={wrong}: {parameter} is a number")));
            }
        }
        let is_given = |parameter: &str| given.iter().any(|(found, _)| found == parameter);
        let usual: Vec<_> = experiment.sheet().usual.iter().filter(|(name, _)| !is_given(name)).collect();
        let mut cells: Vec<Cell> = own
            .into_iter()
            .filter(|cell| given.iter().all(|(parameter, _)| cell.text(parameter).is_ok()))
            .filter(|cell| {
                usual.iter().all(|(name, value)| cell.text(name).is_err() || cell.text(name) == Ok(value))
            })
            .collect();
        for (parameter, values) in &given {
            let with = |cell: &Cell, value: &String| {
                let mut cell = cell.clone();
                let named = cell.parameters.iter_mut().filter(|(name, _)| name == parameter);
                named.for_each(|(_, own)| own.clone_from(value));
                cell
            };
            let mut seen = BTreeSet::new();
            let all = cells.iter().flat_map(|cell| values.iter().map(move |value| with(cell, value)));
            cells = all.filter(|cell| seen.insert(cell.clone())).take(MOST_CELLS + 1).collect();
        }
        match cells.len() {
            0 => Err(Refusal(format!("{name} has no cell with {} together", words.join(" ")))),
            count if count > MOST_CELLS => {
                Err(Refusal(format!("{}: more than {MOST_CELLS} cells; name fewer values", words.join(" "))))
            }
            _ => Ok(Self { experiment, cells: taken(experiment, cells, &given)? }),
        }
    }
}

/// The cells that the experiment takes. A combination that it does not have is left out, as long as each value that
/// was given is in another cell.
fn taken(
    experiment: &dyn Experiment,
    cells: Vec<Cell>,
    given: &[(String, Vec<String>)],
) -> Result<Vec<Cell>, Refusal> {
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for cell in cells {
        match experiment.memory_bytes(&cell) {
            Ok(_) => taken.push(cell),
            Err(refusal) => refused.push((cell, refusal)),
        }
    }
    for (parameter, value) in
        given.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)))
    {
        let has = |cell: &Cell| cell.text(parameter) == Ok(value);
        if !taken.iter().any(has)
            && let Some((_, refusal)) = refused.iter().find(|(cell, _)| has(cell))
        {
            return Err(refusal.clone());
        }
    }
    Ok(taken)
}

/// The values of a `NAME=VALUES` word.
fn choices(experiment: &str, word: &str) -> Result<(String, Vec<String>), Refusal> {
    let wrong = |what: &str| Refusal(format!("{experiment}: {word}: {what}"));
    let (name, text) = word
        .split_once('=')
        .filter(|(name, text)| !name.is_empty() && !text.is_empty())
        .ok_or_else(|| wrong("a parameter is written NAME=VALUE, NAME=A,B or NAME=FIRST..LAST"))?;
    let mut values = Vec::new();
    for part in text.split(',') {
        // The document's `-touchthreads all`.
        let every = format!("1..{}", processors());
        let is_count = ["threads", "workers"].contains(&name);
        let part = if part == "all" && is_count { every.as_str() } else { part };
        match part.split_once("..") {
            None => values.push(part.to_owned()),
            Some((first, last)) => {
                let ends = first.parse::<usize>().ok().zip(last.parse::<usize>().ok());
                let (first, last) = ends.filter(|(first, last)| first <= last).ok_or_else(|| {
                    wrong("a range is written FIRST..LAST, two numbers, the smaller one first")
                })?;
                values.extend((first..=last).take(MOST_CELLS + 1).map(|value| value.to_string()));
            }
        }
    }
    Ok((name.to_owned(), values))
}

impl Experiment for Chosen {
    fn name(&self) -> &'static str {
        self.experiment.name()
    }

    fn about(&self) -> &'static str {
        self.experiment.about()
    }

    fn documents(&self) -> &'static [Document] {
        self.experiment.documents()
    }

    fn cells(&self, _scope: &Scope) -> Vec<Cell> {
        self.cells.clone()
    }

    fn environment(&self, cell: &Cell) -> Vec<(OsString, OsString)> {
        self.experiment.environment(cell)
    }

    fn sheet(&self) -> Sheet {
        self.experiment.sheet()
    }

    fn memory_bytes(&self, cell: &Cell) -> Result<u64, Refusal> {
        self.experiment.memory_bytes(cell)
    }

    fn trial(&self, cell: &Cell) -> Result<Box<dyn Trial>, Refusal> {
        self.experiment.trial(cell)
    }
}

/// A table of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Names of the parameters, then of the figures with their units.
    pub heads: [Vec<String>; 2],
    /// The document's rows, then ours.
    pub rows: Vec<GridRow>,
}

/// A row of a [`Grid`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GridRow {
    /// It has the figures of the document.
    pub is_document: bool,
    /// Values of the parameters; empty where the cell has no such parameter.
    pub parameters: Vec<String>,
    /// Medians with their intervals; `None` where a figure was not measured.
    pub figures: Vec<Option<Interval>>,
}

impl Grid {
    /// The cells of an experiment with the columns of its document. Without such columns: wall time and faults of
    /// each phase. Parameters that all rows share stay, since they say what was measured.
    pub fn new(experiment: &dyn Experiment, results: &Results) -> Self {
        let mut cells: Vec<(&Cell, &Quantities)> = results.cells(experiment.name()).collect();
        cells.sort_by(|(a, _), (b, _)| a.natural_cmp(b));
        let mut names: Vec<String> = Vec::new();
        for (name, _) in cells.iter().flat_map(|(cell, _)| &cell.parameters) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let sheet = experiment.sheet();
        let parameters = |of: &dyn Fn(&str) -> String| names.iter().map(|name| of(name)).collect::<Vec<_>>();
        let own = |cell: &Cell| parameters(&|name| cell.text(name).unwrap_or_default().to_owned());
        if sheet.columns.is_empty() {
            return Self::of_phases(names.clone(), results.phases(experiment.name()), &cells, own);
        }
        let exactly = |value: f64| Interval { value, low: value, high: value };
        let theirs = sheet.theirs.iter().map(|(of, figures)| GridRow {
            is_document: true,
            parameters: parameters(&|name| {
                of.iter().find(|(own, _)| *own == name).map_or(String::new(), |(_, value)| value.clone())
            }),
            figures: figures.iter().map(|value| value.map(exactly)).collect(),
        });
        let ours = cells.iter().map(|(cell, found)| GridRow {
            is_document: false,
            parameters: own(cell),
            figures: sheet
                .columns
                .iter()
                .map(|column| median_interval(&(column.values)(cell, found)))
                .collect(),
        });
        let heads = sheet.columns.iter().map(|column| column.head.to_owned()).collect();
        Self { rows: theirs.chain(ours).collect(), heads: [names, heads] }.without_empty_columns()
    }

    /// The same without columns that have no figure in any row, such as those of another kind of cell.
    fn without_empty_columns(mut self) -> Self {
        let has: Vec<bool> = (0..self.heads[1].len())
            .map(|at| self.rows.iter().any(|row| row.figures[at].is_some()))
            .collect();
        if has.contains(&true) {
            let mut kept = has.iter();
            self.heads[1].retain(|_| kept.next() == Some(&true));
            for row in &mut self.rows {
                let mut kept = has.iter();
                row.figures.retain(|_| kept.next() == Some(&true));
            }
        }
        self
    }

    fn of_phases(
        names: Vec<String>,
        phases: &[String],
        cells: &[(&Cell, &Quantities)],
        own: impl Fn(&Cell) -> Vec<String>,
    ) -> Self {
        const QUANTITIES: [(&str, &str, f64); 2] = [("wall_ns", "ms", 1e-6), ("minor_faults", "faults", 1.0)];
        let columns: Vec<_> = phases
            .iter()
            .flat_map(|phase| QUANTITIES.iter().map(move |quantity| (phase, quantity)))
            .collect();
        let rows = cells.iter().map(|(cell, found)| {
            let figure = |(phase, (quantity, _, scale)): &(&String, &(&str, &str, f64))| {
                let values = values(found, phase, quantity)?;
                median_interval(&values.iter().map(|value| value * scale).collect::<Vec<_>>())
            };
            GridRow {
                is_document: false,
                parameters: own(cell),
                figures: columns.iter().map(figure).collect(),
            }
        });
        let heads = columns.iter().map(|(phase, (_, unit, _))| format!("{phase} {unit}")).collect();
        Self { rows: rows.collect(), heads: [names, heads] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::record::Row;

    fn cells(experiment: &str, words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let chosen = Chosen::new(experiments::find(experiment).unwrap(), &words, &Host::default());
        chosen.map(|chosen| chosen.cells.iter().map(|cell| cell.words().join(" ")).collect()).map_err(|r| r.0)
    }

    #[test]
    fn parameters_choose_cells_and_the_rest_is_usual() {
        assert_eq!(
            cells("touch", &["mib=2000", "threads=1..3,8"]).unwrap(),
            [1, 2, 3, 8]
                .map(|count| format!("access=write mib=2000 threads={count} lock=no mappers=0 flush=no"))
        );
        let all = cells("touch", &["threads=all"]).unwrap();
        assert_eq!(all, cells("touch", &[&format!("threads=1..{}", processors())]).unwrap());
        assert!(cells("touch", &["mib=all"]).unwrap_err().contains("mib is a number"));
        let arms = cells("fault-rate", &["mib=1024", "threads=2"]).unwrap();
        assert_eq!(arms.len(), 3, "{arms:?}");
        assert!(arms.iter().all(|cell| cell.contains("mib=1024 threads=2 lines=1")), "{arms:?}");
    }

    #[test]
    fn what_can_not_be_chosen_is_said_with_what_can() {
        let refused = |experiment, words: &[&str]| cells(experiment, words).unwrap_err();
        assert_eq!(
            refused("stride", &["megabytes=1"]),
            "stride has no parameter megabytes; it has array, mib, stride"
        );
        assert!(refused("touch", &["threads=4..1"]).contains("the smaller one first"));
        assert!(refused("touch", &["threads="]).contains("NAME=VALUE"));
        assert!(refused("touch", &["mib=1..5000"]).contains("name fewer values"));
        assert!(refused("prefault", &["trap=none", "way=none"]).contains("no cell with"));
        assert_eq!(refused("touch", &["mib=4", "threads=foo"]), "touch: threads=foo: threads is a number");
        assert_eq!(
            refused("copy", &["kind=copy", "kind=read"]),
            "copy: kind is given twice: write kind=copy,read"
        );
    }

    #[test]
    fn a_value_that_no_cell_takes_is_refused_before_any_is_measured() {
        for (experiment, word) in [
            ("touch", "access=foo"),
            ("touch", "lock=maybe"),
            ("touch", "threads=0"),
            ("copy", "kind=foo"),
            ("copy", "kind=copy,foo"),
            ("copy", "threads=0"),
            ("filemap", "how=foo"),
            ("filemap", "cache=foo"),
            ("major", "source=foo"),
            ("major", "beside=foo"),
            ("threshold", "allocator=foo"),
            ("chunks", "memory=foo"),
            ("chunks", "queue=0"),
            ("prefault", "way=foo"),
            ("prefault", "trap=foo"),
            ("phases", "page=foo"),
            ("phases", "samples=0"),
            ("fault-rate", "arm=foo"),
            ("fault-rate", "lines=1,4096"),
            ("zeroing", "engine=foo"),
            ("zeroing", "order=99"),
            ("stride", "array=foo"),
            ("stride", "stride=0"),
            ("scale", "memory=foo"),
            ("price", "kind=foo"),
            ("price", "page=foo"),
            ("latency", "kib=3"),
        ] {
            let told = cells(experiment, &[word]).unwrap_err();
            assert!(told.contains(": takes "), "{experiment} {word}: {told}");
        }
    }

    #[test]
    fn a_combination_that_the_experiment_does_not_have_is_left_out() {
        let major = |words: &[&str]| cells("major", words).unwrap().len();
        assert_eq!(
            (major(&["source=file"]), major(&["source=file,maps"]), major(&["source=maps"])),
            (1, 4, 3)
        );
        assert!(cells("major", &["source=file", "beside=major"]).unwrap_err().contains("is for source=maps"));
    }

    #[test]
    fn every_experiment_has_cells_to_choose_and_its_document_has_a_figure_a_column() {
        for experiment in experiments::ALL {
            let chosen = Chosen::new(*experiment, &[], &Host::default()).unwrap();
            assert!(!chosen.cells.is_empty());
            let Sheet { columns, theirs, .. } = experiment.sheet();
            let heads: BTreeSet<&str> = columns.iter().map(|column| column.head).collect();
            assert_eq!(
                heads.len(),
                columns.len(),
                "{}: each column has a name of its own",
                experiment.name()
            );
            assert!(
                theirs.iter().all(|(_, figures)| figures.len() == columns.len()),
                "{}",
                experiment.name()
            );
        }
    }

    #[test]
    fn a_grid_shows_the_columns_of_the_kind_that_was_measured() {
        let row = |kind: &str, phase: &str| Row {
            experiment: "copy".into(),
            cell: format!("kind={kind} mib=64 threads=1"),
            round: 1,
            phase: phase.into(),
            quantity: "wall_ns".into(),
            value: 1e6,
        };
        let heads = |rows: Vec<Row>| {
            let grid = Grid::new(experiments::find("copy").unwrap(), &Results::of(rows).unwrap());
            assert!(grid.rows.iter().all(|row| row.figures.len() == grid.heads[1].len()));
            grid.heads[1].join(", ")
        };
        assert_eq!(heads(vec![row("read", "timed")]), "limit ms, limit GB/s");
        let copies = heads(vec![row("copy", "cold"), row("copy", "warm")]);
        assert!(copies.starts_with("cold ms") && !copies.contains("limit"), "{copies}");
    }

    #[test]
    fn a_grid_has_the_documents_rows_before_ours() {
        let row = |round, value| Row {
            experiment: "stride".into(),
            cell: "array=ones mib=256 stride=16".into(),
            round,
            phase: "timed".into(),
            quantity: "wall_ns".into(),
            value,
        };
        let results = Results::of(vec![row(1, 30e6), row(2, 32e6), row(3, 31e6)]).unwrap();
        let grid = Grid::new(experiments::find("stride").unwrap(), &results);
        assert_eq!(
            grid.heads,
            [vec!["array", "mib", "stride"], vec!["duration ms", "then stride 16 ms", "page faults"]]
        );
        let (theirs, ours): (Vec<&GridRow>, _) = grid.rows.iter().partition(|row| row.is_document);
        assert!(theirs.iter().any(|row| row.parameters == ["ones", "256", "16"]
            && row.figures[0].map(|figure| figure.value) == Some(26.0)));
        assert_eq!((ours.len(), ours[0].figures[0].unwrap().value), (1, 31.0));
    }
}
