//! The parameters of a forecast: counts of the kernel, prices of the machine, and the load.
//!
//! In: a TOML or JSON file, or the prices that `doctor` measures. Out: [`Parameters`], each a range. The
//! defaults are `parameters.toml`, where every line has a comment.

use std::path::Path;

use faultless_prof::price::Prices;
use serde::{Deserialize, Serialize};

use super::range::Range;
use crate::Refusal;

/// The defaults, as a file that can be changed.
pub const DEFAULTS: &str = include_str!("parameters.toml");

/// Parameters of a forecast. `parameters.toml` describes each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Bytes of a page.
    pub page_bytes: Range,
    /// Instructions of a fault without clearing.
    pub path_instructions: Range,
    /// Instructions under the lock that threads share.
    pub lock_instructions: Range,
    /// How often its cache line moves in a fault.
    pub lock_moves: Range,
    /// Instructions under the zone lock for one page of a batch.
    pub zone_instructions: Range,
    /// Pages of a batch.
    pub batch: Range,
    /// Cache misses of a fault without clearing and without the program's touch.
    pub path_misses: Range,
    /// Instructions to unmap a page.
    pub free_instructions: Range,
    /// Speed of a processor.
    pub instructions_per_ns: Range,
    /// Clearing by one processor.
    pub clear_bytes_per_ns: Range,
    /// Clearing by a scrubber, in large blocks.
    pub scrub_bytes_per_ns: Range,
    /// Processors that clear at full speed before the bandwidth of a node is used up.
    pub node_streams: Range,
    /// First touch of a cache line.
    pub line_ns: Range,
    /// A cache miss of the kernel.
    pub miss_ns: Range,
    /// A cache line moves within a node.
    pub near_ns: Range,
    /// A cache line moves between nodes.
    pub far_ns: Range,
    /// How many times slower another node's memory is.
    pub far_times: Range,
    /// What the mark adds to a fault that hits.
    pub mark_instructions: Range,
    /// Scrubbers of a node.
    pub scrubbers: Range,
    /// What a scrubber takes of an idle processor.
    pub idle_share: Range,
    /// The same of a busy processor.
    pub busy_share: Range,
    /// The share of freed pages that per-CPU lists hand out again.
    pub recycled: Range,
}

/// A parameter with its least and greatest sensible value.
type Bound = (&'static str, Range, f64, f64);

impl Parameters {
    /// The defaults.
    ///
    /// # Errors
    /// Never: a test reads them.
    pub fn defaults() -> Result<Self, Refusal> {
        let table: toml::Table = toml::from_str(DEFAULTS).map_err(|error| Refusal(error.to_string()))?;
        Self::of(table, "the defaults")
    }

    /// The defaults, changed by a file.
    ///
    /// # Errors
    /// See [`Self::changed`].
    pub fn read(path: &Path) -> Result<Self, Refusal> {
        Self::defaults()?.changed(path)
    }

    /// These parameters, changed by a file: JSON if its name ends so, else TOML.
    ///
    /// # Errors
    /// The file can't be read, or has an unknown name or a value that can't be.
    pub fn changed(&self, path: &Path) -> Result<Self, Refusal> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Refusal(format!("{name}: {error}; name a file like that of `faultless lab predict --defaults`"))
        })?;
        let wrong =
            |what: String| Refusal(format!("{name}: {what}; compare `faultless lab predict --defaults`"));
        let changes: toml::Table = if path.extension().is_some_and(|ending| ending == "json") {
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error: toml::de::Error| {
                let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
                wrong(format!("line {line}: {}", error.message()))
            })?
        };
        let mut table = toml::Table::try_from(self).map_err(|error| wrong(error.to_string()))?;
        for (key, value) in changes {
            if table.insert(key.clone(), value).is_none() {
                return Err(wrong(format!("there is no parameter {key}")));
            }
        }
        Self::of(table, &name)
    }

    /// The same with other ranges for some parameters; `name` says where these are from.
    ///
    /// # Errors
    /// There is no such parameter, or its range can't be.
    pub fn with(
        self,
        ranges: impl Iterator<Item = (&'static str, Range)>,
        name: &str,
    ) -> Result<Self, Refusal> {
        let wrong = |what: String| Refusal(format!("{name}: {what}"));
        let mut table = toml::Table::try_from(self).map_err(|error| wrong(error.to_string()))?;
        for (key, range) in ranges {
            let ends = toml::Value::try_from(range).map_err(|error| wrong(error.to_string()))?;
            if table.insert(key.to_owned(), ends).is_none() {
                return Err(wrong(format!("there is no parameter {key}")));
            }
        }
        Self::of(table, name)
    }

    fn of(table: toml::Table, name: &str) -> Result<Self, Refusal> {
        let wrong =
            |what: String| Refusal(format!("{name}: {what}; compare `faultless lab predict --defaults`"));
        for (key, value) in &table {
            if value.clone().try_into::<Range>().is_err() {
                let written = serde_json::to_string(value).unwrap_or_default();
                return Err(wrong(format!("{key} = {written}: takes a number, or [low, high]")));
            }
        }
        let parameters: Self = table.try_into().map_err(|error| wrong(error.message().to_owned()))?;
        match parameters
            .bounds()
            .into_iter()
            .find(|(_, range, least, most)| !range.is_valid(*least) || range.high > *most)
        {
            Some((key, Range { low, high }, least, most)) => {
                Err(wrong(format!("{key} = [{low}, {high}]: takes {least} to {most}, the lower end first")))
            }
            None => Ok(parameters),
        }
    }

    fn bounds(&self) -> [Bound; 22] {
        const MANY: f64 = 1e9;
        const LEAST: f64 = 1e-3;
        [
            ("page_bytes", self.page_bytes, 64.0, MANY),
            ("path_instructions", self.path_instructions, 1.0, MANY),
            ("lock_instructions", self.lock_instructions, 0.0, MANY),
            ("lock_moves", self.lock_moves, 0.0, 100.0),
            ("zone_instructions", self.zone_instructions, 0.0, MANY),
            ("batch", self.batch, 1.0, 512.0),
            ("path_misses", self.path_misses, 0.0, 1e6),
            ("free_instructions", self.free_instructions, 0.0, MANY),
            ("instructions_per_ns", self.instructions_per_ns, LEAST, 1e3),
            ("clear_bytes_per_ns", self.clear_bytes_per_ns, LEAST, 1e5),
            ("scrub_bytes_per_ns", self.scrub_bytes_per_ns, LEAST, 1e5),
            ("node_streams", self.node_streams, 0.1, 1e5),
            ("line_ns", self.line_ns, 0.0, 1e6),
            ("miss_ns", self.miss_ns, 0.0, 1e6),
            ("near_ns", self.near_ns, 0.0, 1e6),
            ("far_ns", self.far_ns, 0.0, 1e6),
            ("far_times", self.far_times, 1.0, 100.0),
            ("mark_instructions", self.mark_instructions, 0.0, MANY),
            ("scrubbers", self.scrubbers, 0.0, 64.0),
            ("idle_share", self.idle_share, 0.0, 1.0),
            ("busy_share", self.busy_share, 0.0, 1.0),
            ("recycled", self.recycled, 0.0, 1.0),
        ]
    }

    /// Names and ranges, in the order of the file.
    pub fn all(&self) -> Vec<(&'static str, Range)> {
        self.bounds().into_iter().map(|(name, range, ..)| (name, range)).collect()
    }

    /// Takes from this host's prices what they tell: the path, clearing, unmapping. A price of no fault stays.
    ///
    /// The path becomes time: one instruction per ns, and as many "instructions" as the fault takes ns without
    /// clearing. Clearing lies between hot and cold, and so does the path.
    ///
    /// # Errors
    /// The host can't measure a first touch and both kinds of clearing.
    pub fn with_prices(mut self, prices: &Prices) -> Result<Self, Refusal> {
        let price = |id: &str| {
            prices.ns(id).filter(|ns| *ns > 0.0).ok_or_else(|| {
                Refusal(format!("this host has no price {id}; see `faultless doctor`, or give --parameters"))
            })
        };
        let (fault, hot, cold) = (price("first_touch")?, price("clear_hot")?, price("clear_cold")?);
        let page = prices.page_bytes as f64;
        let scale = |range: Range, by: f64| Range::new(range.low * by, range.high * by);
        // Counts that have no price here keep the default speed.
        let slow = self.instructions_per_ns;
        let in_ns = |range: Range| Range::new(range.low / slow.high, range.high / slow.low);
        self.lock_instructions = in_ns(self.lock_instructions);
        self.zone_instructions = in_ns(self.zone_instructions);
        self.mark_instructions = in_ns(self.mark_instructions);
        self.free_instructions = match prices.ns("munmap") {
            Some(ns) if ns > 0.0 => scale(Range::new(0.8, 1.25), ns),
            _ => in_ns(self.free_instructions),
        };
        self.instructions_per_ns = Range::new(1.0, 1.0);
        // The price of a fault contains its misses.
        self.path_misses = Range::new(0.0, 0.0);
        let (least, most) = (hot.min(cold), hot.max(cold));
        self.path_instructions =
            Range::new((fault - most).max(fault * 0.1), (fault - least).max(fault * 0.1));
        self.clear_bytes_per_ns = Range::new(page / most, page / least);
        self.page_bytes = Range::new(page, page);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Parameters, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        Parameters::read(&file).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn a_file_changes_what_it_names() {
        let defaults = Parameters::defaults().unwrap();
        let changed = read("a.toml", "batch = 31\nfar_ns = [200, 300]\n").unwrap();
        assert_eq!((changed.batch, changed.far_ns), (Range::new(31.0, 31.0), Range::new(200.0, 300.0)));
        assert_eq!(changed.near_ns, defaults.near_ns);
        assert_eq!(read("a.json", "{\"batch\": 31, \"far_ns\": [200, 300]}").unwrap(), changed);
        assert_eq!(read("a.toml", DEFAULTS).unwrap(), defaults);
        assert_eq!(defaults.all().len(), DEFAULTS.lines().filter(|line| line.contains(" = ")).count());
    }

    #[test]
    fn a_wrong_file_is_told_in_one_line() {
        for (name, text, expected) in [
            ("a.toml", "batch = 63\nbtach = 31", "there is no parameter btach"),
            ("a.toml", "batch = 63\nfar_ns = = 1", "line 2: "),
            ("a.toml", "batch = \"many\"", "batch = \"many\": takes a number, or [low, high]"),
            ("a.toml", "far_ns = [300, 200]", "far_ns = [300, 200]: takes 0 to 1000000, the lower end first"),
            ("a.toml", "batch = 0", "batch = [0, 0]: takes 1 to 512"),
            ("a.toml", "far_ns = [1, 2, 3]", "takes a number, or [low, high]"),
            ("a.toml", "far_ns = nan", "takes 0 to 1000000"),
            ("a.json", "{\"batch\": }", "line 1 column"),
            ("a.json", "[]", "--defaults"),
        ] {
            let told = read(name, text).unwrap_err();
            assert!(told.contains(expected) && !told.contains('\n'), "{text}: {told}");
            assert!(told.contains(name), "{told}");
        }
        let told = Parameters::read(Path::new("/nowhere/a.toml")).unwrap_err().to_string();
        assert!(told.contains("/nowhere/a.toml") && told.contains("--defaults"), "{told}");
    }

    #[test]
    fn prices_of_this_host_replace_what_they_tell() {
        use faultless_prof::price::{Outcome, Price};
        use faultless_trace::measurement::Summary;
        let price = |id: &str, median| Price {
            id: id.into(),
            what: String::new(),
            page_bytes: 4096,
            resolution_ns: 0.0,
            outcome: Outcome::Measured(Summary { median, mad: 0.0, min: median, n: 3 }),
        };
        let list = vec![price("first_touch", 1000.0), price("clear_hot", 32.0), price("clear_cold", 128.0)];
        let prices = Prices { list, page_bytes: 4096 };
        let found = Parameters::defaults().unwrap().with_prices(&prices).unwrap();
        assert_eq!(found.path_instructions, Range::new(872.0, 968.0));
        assert_eq!(found.clear_bytes_per_ns, Range::new(32.0, 128.0));
        let refused = Parameters::defaults().unwrap().with_prices(&Prices::default());
        assert!(refused.unwrap_err().to_string().contains("see `faultless doctor`"));
    }
}
