//! Cells that a reader chooses: a name, and parameters with values -> cells of one experiment, and its document's columns.
//!
//! `touch mib=2000 threads=1..4` measures four cells, and `scale` those of `touch` that answer its question. A parameter that
//! is not named keeps its usual value ([`Sheet::parameters`]), or the values of the quick run. A value that no cell takes is
//! refused here, before a cell is measured. The table has a row for each cell, and the document's own rows that have the
//! same columns. Nothing here measures or prints.

use std::collections::BTreeSet;
use std::ffi::OsString;

use faultless_os::host::Host;
use faultless_trace::measurement::median_interval;
use faultless_trace::stat::Interval;

use crate::cell::{Cell, Refusal};
use crate::experiment::{
    Column, DocumentRow, Effort, Experiment, Parameter, Part, Scope, Sheet, Trial, processors,
};
use crate::experiments;
use crate::results::{Quantities, Results};

/// An experiment, or a part of it, with all of its cells or chosen ones.
pub struct Chosen {
    experiment: &'static dyn Experiment,
    part: Option<&'static Part>,
    cells: Vec<Cell>,
}

/// Most cells that may be chosen: more are a slip of the pen, such as `mib=1..2000`.
const MOST_CELLS: usize = 1000;

impl Chosen {
    /// All cells of the experiment, or of the part, of this name; nothing if there is none.
    pub fn all(name: &str, scope: &Scope) -> Option<Self> {
        let (experiment, part) = (experiments::find(name)?, experiments::part(name));
        let mut cells = experiment.cells(scope);
        cells.retain(|cell| part.is_none_or(|part| (part.has)(cell)));
        Some(Self { experiment, part, cells })
    }

    /// The cells with these parameters: `NAME=VALUE`, `NAME=A,B,C` or `NAME=FIRST..LAST`.
    ///
    /// # Errors
    /// There is no such experiment, parameter or value, or there are more than a thousand cells.
    pub fn new(name: &str, words: &[String], host: &Host) -> Result<Self, Refusal> {
        let scope = Scope { host, processors: processors(), effort: Effort::Quick };
        let Self { experiment, part, cells: own } =
            Self::all(name, &scope).ok_or_else(|| Refusal(format!("there is no experiment {name}")))?;
        let name = experiment.name();
        let given = words.iter().map(|word| choices(name, word)).collect::<Result<Vec<_>, _>>()?;
        check(name, experiment.sheet(), &own, &given)?;
        let varied = part.map_or(experiment.sheet().varied, |part| part.varied);
        let mut cells = nearest(own, experiment.sheet(), varied, &given);
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
            _ => Ok(Self { experiment, part, cells: taken(experiment, cells, &given)? }),
        }
    }

    /// The part, if it is not the whole experiment.
    pub fn part(&self) -> Option<&'static Part> {
        self.part
    }

    /// What was measured of it.
    pub fn grid(&self, results: &Results) -> Grid {
        Grid::new(self.experiment, self.part, results)
    }
}

/// The columns and rows of the document of an experiment, or of a part of it.
fn table(sheet: &'static Sheet, part: Option<&'static Part>) -> (&'static [Column], Vec<DocumentRow>) {
    part.map_or((sheet.columns, (sheet.theirs)()), |part| (part.columns, (part.theirs)()))
}

/// Names with the values that were given for them.
type Given = [(String, Vec<String>)];

/// Checks that each parameter is there, and given once, and that numbers are numbers.
fn check(name: &str, sheet: &Sheet, own: &[Cell], given: &Given) -> Result<(), Refusal> {
    for (at, (parameter, values)) in given.iter().enumerate() {
        if given[..at].iter().any(|(earlier, _)| earlier == parameter) {
            let of = given.iter().filter(|(other, _)| other == parameter);
            let values: Vec<&str> = of.flat_map(|(_, values)| values.iter().map(String::as_str)).collect();
            let values = values.join(",");
            return Err(Refusal(format!("{name}: {parameter} is given twice: write {parameter}={values}")));
        }
        if !own.iter().any(|cell| cell.text(parameter).is_ok()) {
            let known: Vec<&str> = sheet.parameters.iter().map(|parameter| parameter.name).collect();
            let known = known.join(", ");
            return Err(Refusal(format!("{name} has no parameter {parameter}; it has {known}")));
        }
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        let is_counted = own.iter().filter_map(|cell| cell.text(parameter).ok()).all(is_number);
        if let Some(wrong) = values.iter().find(|value| is_counted && !is_number(value)) {
            return Err(Refusal(format!("{name}: {parameter}={wrong}: {parameter} is a number")));
        }
    }
    Ok(())
}

/// The cells that are nearest to what was given: those that have one of the words that were given, and the usual value of
/// any other parameter that is not varied. Where no cell has them, the others stay. Any number can be had of any cell.
fn nearest(mut cells: Vec<Cell>, sheet: &Sheet, varied: &[&str], given: &Given) -> Vec<Cell> {
    cells.retain(|cell| given.iter().all(|(parameter, _)| cell.text(parameter).is_ok()));
    let mut prefer = |is_near: &dyn Fn(&Cell) -> bool| {
        if cells.iter().any(is_near) {
            cells.retain(is_near);
        }
    };
    let is_words =
        |(_, values): &&(String, Vec<String>)| values.iter().all(|value| value.parse::<u64>().is_err());
    for (parameter, values) in given.iter().filter(is_words) {
        prefer(&|cell| cell.text(parameter).is_ok_and(|own| values.iter().any(|value| value == own)));
    }
    for parameter in sheet.parameters {
        let is_open =
            varied.contains(&parameter.name) || given.iter().any(|(name, _)| name == parameter.name);
        if let (Some(usual), false) = (parameter.usual, is_open) {
            prefer(&|cell| cell.text(parameter.name) == Ok(usual));
        }
    }
    cells
}

/// The cells that the experiment takes. A combination that it does not have is left out, as long as each value that
/// was given is in another cell.
fn taken(experiment: &dyn Experiment, cells: Vec<Cell>, given: &Given) -> Result<Vec<Cell>, Refusal> {
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
    fn sheet(&self) -> &'static Sheet {
        self.experiment.sheet()
    }

    fn cells(&self, _scope: &Scope) -> Vec<Cell> {
        self.cells.clone()
    }

    fn environment(&self, cell: &Cell) -> Vec<(OsString, OsString)> {
        self.experiment.environment(cell)
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
    /// The cells of an experiment, or of the part of it, in their columns. A parameter is left out where every row has its
    /// usual value.
    pub fn new(experiment: &dyn Experiment, part: Option<&'static Part>, results: &Results) -> Self {
        Self::of(experiment.sheet(), part, results, |cell| part.is_none_or(|part| (part.has)(cell)))
    }

    /// The same without cells that stand in the table of a part: all but those that differ in nothing that it varies.
    pub fn without_parts(experiment: &dyn Experiment, results: &Results) -> Self {
        let sheet = experiment.sheet();
        let is_usual = |cell: &Cell, varied: &[&str]| {
            let mut parameters = sheet.parameters.iter().filter(|parameter| varied.contains(&parameter.name));
            !varied.is_empty()
                && parameters.all(|parameter| cell.text(parameter.name).ok() == parameter.usual)
        };
        let is_apart =
            |cell: &Cell| sheet.parts.iter().any(|part| (part.has)(cell) && !is_usual(cell, part.varied));
        Self::of(sheet, None, results, |cell| !is_apart(cell))
    }

    fn of(
        sheet: &'static Sheet,
        part: Option<&'static Part>,
        results: &Results,
        is_shown: impl Fn(&Cell) -> bool,
    ) -> Self {
        let mut cells: Vec<(&Cell, &Quantities)> = results.cells(sheet.name).collect();
        cells.retain(|(cell, _)| is_shown(cell));
        cells.sort_by(|(a, _), (b, _)| a.natural_cmp(b));
        let (columns, theirs) = table(sheet, part);
        let is_told = |parameter: &&Parameter| {
            let is_other = |value: &str| parameter.usual.is_none_or(|usual| usual != value);
            let of_theirs = theirs.iter().flat_map(|(of, _)| of).filter(|(name, _)| *name == parameter.name);
            cells.iter().any(|(cell, _)| cell.text(parameter.name).is_ok_and(is_other))
                || of_theirs.map(|(_, value)| value.as_str()).any(is_other)
        };
        let told = sheet.parameters.iter().filter(is_told);
        let names: Vec<String> = told.map(|parameter| parameter.name.to_owned()).collect();
        let parameters = |of: &dyn Fn(&str) -> String| names.iter().map(|name| of(name)).collect::<Vec<_>>();
        let own = |cell: &Cell| parameters(&|name| cell.text(name).unwrap_or_default().to_owned());
        let exactly = |value: f64| Interval { value, low: value, high: value };
        let theirs = theirs.iter().map(|(of, figures)| GridRow {
            is_document: true,
            parameters: parameters(&|name| {
                of.iter().find(|(own, _)| *own == name).map_or(String::new(), |(_, value)| value.clone())
            }),
            figures: figures.iter().map(|value| value.map(exactly)).collect(),
        });
        let ours = cells.iter().map(|(cell, found)| GridRow {
            is_document: false,
            parameters: own(cell),
            figures: columns.iter().map(|column| median_interval(&(column.values)(cell, found))).collect(),
        });
        // A cell without any of these figures answers another question.
        let ours = ours.filter(|row| row.figures.iter().any(Option::is_some));
        let heads = columns.iter().map(|column| column.head.to_owned()).collect();
        Self { rows: theirs.chain(ours).collect(), heads: [names, heads] }.without_empty_columns()
    }

    /// The same without columns that have no figure in any row, such as those of another kind of cell.
    fn without_empty_columns(mut self) -> Self {
        let has: Vec<bool> = (0..self.heads[1].len())
            .map(|at| self.rows.iter().any(|row| !row.is_document && row.figures[at].is_some()))
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::record::Row;

    fn cells(experiment: &str, words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let chosen = Chosen::new(experiment, &words, &Host::default());
        chosen.map(|chosen| chosen.cells.iter().map(|cell| cell.words().join(" ")).collect()).map_err(|r| r.0)
    }

    fn all(name: &str) -> Chosen {
        Chosen::new(name, &[], &Host::default()).unwrap()
    }

    #[test]
    fn parameters_choose_cells_and_the_rest_is_usual() {
        let touch =
            |rest: &str| format!("access=write memory=shared lines=1 {rest} lock=no beside=none others=0");
        assert_eq!(
            cells("touch", &["mib=2000", "threads=1..3,8"]).unwrap(),
            [1, 2, 3, 8].map(|count| touch(&format!("mib=2000 threads={count}")))
        );
        let beside = cells("touch", &["beside=maps", "others=1,2", "threads=3"]).unwrap();
        assert!(
            beside.len() == 2 && beside[1].ends_with("threads=3 lock=no beside=maps others=2"),
            "{beside:?}"
        );
        let all = cells("touch", &["threads=all"]).unwrap();
        assert_eq!(all, cells("touch", &[&format!("threads=1..{}", processors())]).unwrap());
        assert!(cells("touch", &["mib=all"]).unwrap_err().contains("mib is a number"));
        let arms = cells("fault-rate", &["mib=1024", "threads=2"]).unwrap();
        assert_eq!(arms.len(), 3, "{arms:?}");
        assert!(arms.iter().all(|cell| cell.contains("lines=1 mib=1024 threads=2")), "{arms:?}");
        assert_eq!(
            cells("scale", &["mib=8", "threads=2"]).unwrap().len(),
            6,
            "four memories, and two of others beside"
        );
    }

    #[test]
    fn what_can_not_be_chosen_is_said_with_what_can() {
        let refused = |experiment, words: &[&str]| cells(experiment, words).unwrap_err();
        assert_eq!(
            refused("stride", &["megabytes=1"]),
            "stride has no parameter megabytes; it has array, mib, stride, kib"
        );
        assert!(refused("touch", &["threads="]).contains("NAME=VALUE"));
        assert!(refused("touch", &["mib=1..5000"]).contains("name fewer values"));
        assert!(refused("prefault", &["trap=none", "way=none"]).contains("no cell with"));
        assert_eq!(refused("touch", &["mib=4", "threads=foo"]), "touch: threads=foo: threads is a number");
    }

    #[test]
    fn a_value_that_no_cell_takes_is_refused_before_any_is_measured() {
        for (experiment, word) in [
            ("touch", "lock=maybe"),
            ("touch", "threads=0"),
            ("copy", "kind=foo"),
            ("copy", "kind=copy,foo"),
            ("copy", "threads=0"),
            ("files", "how=foo"),
            ("files", "from=foo"),
            ("major", "beside=foo"),
            ("threshold", "allocator=foo"),
            ("chunks", "memory=foo"),
            ("chunks", "queue=0"),
            ("prefault", "way=foo"),
            ("prefault", "trap=foo"),
            ("phases", "samples=0"),
            ("fault-rate", "memory=foo"),
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
        assert_eq!([major(&["from=disk"]), major(&["from=disk,new"]), major(&["how=remap"])], [1, 6, 4]);
        assert!(cells("major", &["from=disk", "beside=major"]).unwrap_err().contains("for how=remap"));
    }

    #[test]
    fn every_experiment_has_cells_to_choose_and_its_document_has_a_figure_a_column() {
        for name in experiments::names() {
            let chosen = Chosen::new(name, &[], &Host::default()).unwrap();
            assert!(!chosen.cells.is_empty());
            let (columns, theirs) = table(chosen.sheet(), chosen.part);
            let heads: BTreeSet<&str> = columns.iter().map(|column| column.head).collect();
            assert_eq!(heads.len(), columns.len(), "{name}: each column has a name of its own");
            assert!(theirs.iter().all(|(_, figures)| figures.len() == columns.len()), "{name}");
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
            let grid = all("copy").grid(&Results::of(rows).unwrap());
            assert!(grid.rows.iter().all(|row| row.figures.len() == grid.heads[1].len()));
            grid.heads[1].join(", ")
        };
        assert_eq!(heads(vec![row("read", "timed")]), "limit ms, limit GB/s");
        let copies = heads(vec![row("copy", "cold"), row("copy", "warm")]);
        assert!(copies.starts_with("cold ms") && !copies.contains("limit"), "{copies}");
    }
}
