//! The evidence behind a row -> its error at 95 %.
//!
//! Counts: counted faults are exact, but where records were lost: those faults may be of any row. Samples vary as draws do (Wilson). Faults that bursts represent vary
//! between bursts (a ratio over clusters; Cochran 1977, ch. 6 and 9), with Student's t for few bursts. The
//! totals that samples and bursts represent are uncertain as well. Major faults are all in the file, so their
//! number is exact. Huge pages are bounded by the machine's count.
//!
//! Times: the error of a count times its price. The price of untimed faults varies between bursts: by the
//! variation seen, and with few bursts by the usual variation. The excess of cold samples (`cold`) has an error
//! that all samples of a period share. A row without timed faults may have the price of any other row of base
//! pages. Every reading may be off by [`CALIBRATION_SHARE`], and by the doubt about
//! its offset.
//!
//! Whatever the others are, what was recorded is there: no count is below the row's records. No time is below
//! what its timed faults took, nor below the lowest count at the lowest price.

use super::{Basis, Huge, Weighted};
use crate::kind::{ALL, KINDS, Kind};
use crate::measurement::{Interval, share_interval, student_t};
use crate::tuning::{
    CALIBRATED_HIGH, CALIBRATED_LOW, CALIBRATION_SHARE, ONE_BURST_SHARE, PRICE_PRIOR_BURSTS, PRICED_FAULTS,
};

/// Counts from one burst.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    number: u32,
    /// Faults that it represents beyond its own.
    extra: f64,
}

/// Prices from one burst or one sample.
#[derive(Clone, Copy, Debug, Default)]
struct PriceCluster {
    burst: Option<u32>,
    timed: f64,
    /// Faults that the timed ones represent, and their time.
    alike: f64,
    sum_ns: f64,
}

/// Timed faults of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Timed {
    timed: f64,
    sum_ns: f64,
    /// Error that they share, ns.
    shared_ns: f64,
}

/// Faults whose prices differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Class {
    #[default]
    Base,
    Huge,
    /// They read from a disk, and all of them are in the file.
    Major,
}

impl Class {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Major => Self::Major,
            Kind::Thp => Self::Huge,
            _ => Self::Base,
        }
    }
}

/// Sums over faults of a class.
#[derive(Clone, Debug, Default)]
struct ClassTally {
    class: Class,
    faults: f64,
    time_ns: f64,
    by_samples: f64,
    extra: f64,
    /// Faults whose records were lost, and that others of their window stand for.
    lost: f64,
    assumed_faults: f64,
    assumed_ns: f64,
    shared_ns: f64,
    bursts: Vec<Burst>,
    clusters: Vec<PriceCluster>,
}

/// Sums over faults of a row, or of all.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    pub(crate) faults: f64,
    pub(crate) time_ns: f64,
    classes: [ClassTally; 3],
    /// Squares of the faults that each sample of a minor fault represents.
    by_samples_squared: f64,
    bursts: Vec<Burst>,
    kinds: [Timed; KINDS],
}

/// The whole run, which bounds a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<'a> {
    pub(crate) all: &'a Tally,
    /// Error of the faults that all samples together represent.
    pub(crate) doubt: f64,
    /// How far the offset that is subtracted from each reading may be off, ns.
    pub(crate) offset_doubt_ns: f64,
    /// Faults of huge pages in user mode, if known.
    pub(crate) huge: Option<Huge>,
}

impl Default for Tally {
    fn default() -> Self {
        let classes = [Class::Base, Class::Huge, Class::Major];
        Self {
            records: 0,
            faults: 0.0,
            time_ns: 0.0,
            classes: classes.map(|class| ClassTally { class, ..ClassTally::default() }),
            by_samples_squared: 0.0,
            bursts: Vec::new(),
            kinds: Default::default(),
        }
    }
}

impl Tally {
    /// Adds a fault; in the order of time.
    pub(crate) fn add(&mut self, fault: &Weighted, basis: &Basis) {
        self.records += 1;
        self.faults += fault.faults;
        self.time_ns += fault.cost_ns;
        let class = Class::of(fault.kind);
        self.classes[class as usize].add(fault, basis);
        match basis.burst {
            _ if class == Class::Major => {}
            Some(number) => add_burst(&mut self.bursts, number, fault.faults - basis.exact),
            None => self.by_samples_squared += fault.faults * fault.faults,
        }
        if let Some(ns) = basis.reading_ns {
            let kind = &mut self.kinds[fault.kind as usize];
            (kind.timed, kind.sum_ns) = (kind.timed + 1.0, kind.sum_ns + ns);
            kind.shared_ns += basis.shared_ns / fault.faults.max(1.0);
        }
    }

    /// Faults and time with their intervals, as a part of all.
    pub(crate) fn intervals(&self, whole: &Whole<'_>) -> (Interval, Interval) {
        self.intervals_if(whole, self.records == whole.all.records)
    }

    /// The same of a row with an exact count: only its price may be off. A few faults of a sampled run then take
    /// a few times the dearest price, not the time of all that one sample may represent.
    pub(crate) fn intervals_of_counted(&self, whole: &Whole<'_>) -> (Interval, Interval) {
        self.intervals_if(whole, true)
    }

    fn intervals_if(&self, whole: &Whole<'_>, is_counted: bool) -> (Interval, Interval) {
        let reading_ns = self.reading_spread_ns(whole.offset_doubt_ns);
        let (mut off, mut off_ns) = ([0.0_f64; 2], [reading_ns; 2]);
        for part in self.classes.iter().filter(|part| part.faults > 0.0) {
            let counts = if is_counted { [0.0; 2] } else { part.count_spread(whole) };
            let prices_ns = part.assumed_spread_ns(whole.all);
            for (end, (count, price_ns)) in counts.into_iter().zip(prices_ns).enumerate() {
                off[end] = off[end].hypot(count);
                off_ns[end] = off_ns[end].hypot(count * part.price_ns()).hypot(price_ns);
            }
        }
        let around = |value: f64, [by, to]: [f64; 2], least: f64| Interval {
            value,
            low: (value - by).max(least.min(value)),
            high: value + to,
        };
        let faults = around(self.faults, off, self.records as f64);
        let most = whole.all.faults.max(self.faults);
        let least_ns = self.least_ns(whole.offset_doubt_ns).max(self.cheapest_ns(whole, faults.low));
        let time_ns = around(self.time_ns, off_ns, least_ns);
        (Interval { high: faults.high.min(most), ..faults }, time_ns)
    }

    /// What so many faults of the row take at the lowest price, ns. 0 if they may be of base or huge pages.
    fn cheapest_ns(&self, whole: &Whole<'_>, faults: f64) -> f64 {
        let [minor @ .., majors] = &self.classes;
        let mut classes = minor.iter().filter(|part| part.faults > 0.0);
        let (Some(part), None) = (classes.next(), classes.next()) else { return 0.0 };
        let off_ns = part.assumed_spread_ns(whole.all)[0] + self.reading_spread_ns(whole.offset_doubt_ns);
        (faults - majors.faults).max(0.0) / part.faults * (part.time_ns - off_ns).max(0.0)
    }

    /// What the timed faults of the row took at least, ns.
    pub(crate) fn least_ns(&self, offset_doubt_ns: f64) -> f64 {
        let sum = |of: fn(&Timed) -> f64| self.kinds.iter().map(of).sum::<f64>();
        let (timed, sum_ns, shared_ns) =
            (sum(|kind| kind.timed), sum(|kind| kind.sum_ns), sum(|kind| kind.shared_ns));
        let offset_ns = offset_doubt_ns * timed;
        (sum_ns - (CALIBRATION_SHARE * sum_ns).hypot(offset_ns).hypot(shared_ns)).max(0.0)
    }

    /// How much less and more the untimed faults may take in all, ns.
    pub(crate) fn assumed_spread_ns(&self, all: &Tally) -> (f64, f64) {
        let spreads = self.classes.each_ref().map(|part| part.assumed_spread_ns(all));
        let [less, more] = [0, 1].map(|end| spreads.iter().fold(0.0, |sum: f64, by| sum.hypot(by[end])));
        (less, more)
    }

    /// Error of the time of all minor faults because every reading may be off, ns.
    pub(crate) fn reading_spread_ns(&self, offset_doubt_ns: f64) -> f64 {
        let sum = |of: fn(&ClassTally) -> f64| self.classes.iter().map(of).sum::<f64>();
        let (faults, time_ns) = (sum(|part| part.faults), sum(|part| part.time_ns));
        let offset_ns = offset_doubt_ns * faults;
        (CALIBRATION_SHARE * time_ns).hypot(offset_ns).hypot(sum(|part| part.shared_ns))
    }

    fn by_samples(&self) -> f64 {
        self.classes.iter().map(|part| part.by_samples).sum()
    }

    /// Most faults that a row without a record may have.
    pub(crate) fn unseen(&self) -> f64 {
        let samples = self.by_samples().powi(2) / self.by_samples_squared.max(f64::MIN_POSITIVE);
        share_interval(0.0, samples).high * self.by_samples() + self.lost()
    }

    fn extra(&self) -> f64 {
        self.classes.iter().map(|part| part.extra).sum()
    }

    fn lost(&self) -> f64 {
        self.classes.iter().map(|part| part.lost).sum()
    }

    /// Shares by which a price taken from other rows or the calibration may be lower and higher: it may be
    /// any price seen.
    fn foreign_price_spread(&self, price_ns: f64) -> [f64; 2] {
        if price_ns <= 0.0 {
            return [0.0; 2];
        }
        let is_known = |(kind, timed): &(Kind, &Timed)| {
            Class::of(*kind) == Class::Base && timed.timed >= PRICED_FAULTS as f64
        };
        let known = ALL.into_iter().zip(&self.kinds).filter(is_known);
        let means = known.map(|(_, kind)| kind.sum_ns / kind.timed / price_ns);
        let (low, high) = means
            .fold((CALIBRATED_LOW, CALIBRATED_HIGH), |(low, high), mean| (low.min(mean), high.max(mean)));
        [1.0 - low, high - 1.0]
    }
}

fn add_burst(bursts: &mut Vec<Burst>, number: u32, extra: f64) {
    match bursts.last_mut().filter(|burst| burst.number == number) {
        Some(burst) => burst.extra += extra,
        None => bursts.push(Burst { number, extra }),
    }
}

impl ClassTally {
    fn add(&mut self, fault: &Weighted, basis: &Basis) {
        self.faults += fault.faults;
        self.time_ns += fault.cost_ns;
        self.assumed_ns += basis.assumed_ns;
        self.shared_ns += basis.shared_ns;
        if let Some(ns) = basis.reading_ns {
            self.time(basis, ns);
        }
        if self.class == Class::Major {
            self.assumed_faults += if basis.assumed_ns > 0.0 { fault.faults } else { 0.0 };
            return;
        }
        let Some(number) = basis.burst else {
            self.by_samples += fault.faults;
            self.assumed_faults += fault.faults;
            return;
        };
        let extra = fault.faults - basis.exact;
        self.extra += extra;
        self.assumed_faults += extra;
        self.lost += (basis.exact - 1.0).max(0.0);
        add_burst(&mut self.bursts, number, extra);
    }

    fn time(&mut self, basis: &Basis, ns: f64) {
        if self.clusters.last().is_none_or(|cluster| cluster.burst.is_none() || cluster.burst != basis.burst)
        {
            self.clusters.push(PriceCluster { burst: basis.burst, ..PriceCluster::default() });
        }
        if let Some(cluster) = self.clusters.last_mut() {
            cluster.timed += 1.0;
            (cluster.alike, cluster.sum_ns) =
                (cluster.alike + basis.alike, cluster.sum_ns + basis.alike * ns);
        }
    }

    /// Assumed time of a fault that was not timed, ns.
    fn price_ns(&self) -> f64 {
        match self.assumed_faults {
            n if n > 0.0 => self.assumed_ns / n,
            _ if self.faults > 0.0 => self.time_ns / self.faults,
            _ => 0.0,
        }
    }

    fn assumed_spread_ns(&self, all: &Tally) -> [f64; 2] {
        self.price_spread(self.price_ns(), all).map(|share| share * self.assumed_ns)
    }

    /// How many fewer and more faults there may be.
    fn count_spread(&self, whole: &Whole<'_>) -> [f64; 2] {
        if self.class == Class::Major {
            return [0.0; 2];
        }
        let all = whole.all;
        // Kish's effective number: samples represent different numbers of faults.
        let samples = all.by_samples().powi(2) / all.by_samples_squared.max(f64::MIN_POSITIVE);
        let hits = self.by_samples / all.by_samples().max(f64::MIN_POSITIVE) * samples;
        let share = share_interval(hits, samples);
        let by_samples =
            [share.value - share.low, share.high - share.value].map(|part| part * all.by_samples());
        // A full ring loses what comes next, which may all be of one row, or none of it.
        let lost = [self.lost, all.lost() - self.lost];
        let part = |own: f64, all: f64| if all > 0.0 { own / all * whole.doubt } else { 0.0 };
        let shifted = if all.extra() > 0.0 {
            part(self.extra, all.extra()) - part(self.by_samples, all.by_samples())
        } else {
            part(self.by_samples, all.by_samples())
        };
        let beside = self.extra_spread(all).hypot(shifted);
        let [below, above] = [0, 1].map(|end| by_samples[end].hypot(beside) + lost[end]);
        let Some(huge) = whole.huge.filter(|_| self.class == Class::Huge) else { return [below, above] };
        // The growth of memory is a lower bound of all together.
        let is_all = self.faults > 0.999 * all.classes[Class::Huge as usize].faults;
        let least = if is_all { huge.least } else { 0.0 };
        [below.min((self.faults - least).max(0.0)), above.min((huge.most - self.faults).max(0.0))]
    }

    /// Error of the row's part of the faults that bursts represent.
    fn extra_spread(&self, all: &Tally) -> f64 {
        let bursts = all.bursts.iter().filter(|burst| burst.extra > 0.0).count();
        let whole = all.extra();
        if whole <= 0.0 {
            return 0.0;
        }
        if bursts < 2 {
            return self.extra.max(whole - self.extra);
        }
        let part = self.extra / whole;
        let mut own = self.bursts.iter().peekable();
        let square = |burst: &Burst| {
            let mine = own.next_if(|mine| mine.number == burst.number).map_or(0.0, |mine| mine.extra);
            (mine - part * burst.extra).powi(2)
        };
        let squares: f64 = all.bursts.iter().map(square).sum();
        let n = bursts as f64;
        student_t(bursts - 1) * (n / (n - 1.0) * squares).sqrt()
    }

    /// Shares by which the price of untimed faults may be lower and higher than `price_ns`.
    fn price_spread(&self, price_ns: f64, all: &Tally) -> [f64; 2] {
        let timed: f64 = self.clusters.iter().map(|cluster| cluster.timed).sum();
        let sum_ns: f64 = self.clusters.iter().map(|cluster| cluster.sum_ns).sum();
        if timed < PRICED_FAULTS as f64 || sum_ns <= 0.0 {
            return match self.class {
                Class::Base => all.foreign_price_spread(price_ns),
                Class::Huge | Class::Major => [1.0 - CALIBRATED_LOW, CALIBRATED_HIGH - 1.0],
            };
        }
        let weighted: Vec<&PriceCluster> =
            self.clusters.iter().filter(|cluster| cluster.alike > 0.0).collect();
        let alike: f64 = weighted.iter().map(|cluster| cluster.alike).sum();
        let mean_ns = sum_ns / alike;
        // Kish's effective number: clusters that represent few faults say little.
        let effective =
            alike * alike / weighted.iter().map(|cluster| cluster.alike * cluster.alike).sum::<f64>();
        let free = effective - 1.0;
        // Bursts at regular times follow a drifting price, such as memory that a hypervisor backs at first
        // touch. Only neighbours show the error of one: successive differences (Wolter 2007, ch. 8).
        let (mut seen, mut weight) = (0.0, 0.0);
        for (a, b) in weighted.iter().zip(weighted.iter().skip(1)) {
            let apart = (a.sum_ns / a.alike - b.sum_ns / b.alike) / mean_ns;
            let both = a.alike.min(b.alike);
            (seen, weight) = (seen + both * apart * apart / 2.0, weight + both);
        }
        let seen = if weight > 0.0 { seen / weight } else { 0.0 };
        let variance =
            (PRICE_PRIOR_BURSTS * ONE_BURST_SHARE.powi(2) + free * seen) / (PRICE_PRIOR_BURSTS + free);
        let half = student_t((PRICE_PRIOR_BURSTS + free) as usize) * (variance / effective).sqrt();
        [half.min(1.0), half]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: Kind, faults: f64, price_ns: f64) -> Weighted {
        Weighted {
            time_ns: 0,
            pid: 1,
            tid: 1,
            addr: 0,
            stack: None,
            block: None,
            kind,
            mapping: 0,
            kernel: false,
            faults,
            cost_ns: faults * price_ns,
            wait_ns: 0.0,
        }
    }

    /// Samples that stand for a hundred each: 100 of base pages, 10 major faults, and a huge page.
    #[test]
    fn major_faults_are_exact_and_huge_pages_bounded_by_the_machine() {
        let sample = |kind, price_ns, weight| {
            let basis = Basis {
                alike: weight,
                reading_ns: Some(price_ns),
                assumed_ns: if kind == Kind::Major { 0.0 } else { weight * price_ns },
                ..Basis::default()
            };
            (fault(kind, weight, price_ns), basis)
        };
        let base = vec![sample(Kind::MmapFirstWrite, 1e3, 100.0); 100];
        let majors = vec![sample(Kind::Major, 3e6, 1.0); 10];
        let huge = [sample(Kind::Thp, 1e5, 6.0)];
        let tally = |of: &[&[(Weighted, Basis)]]| {
            let mut tally = Tally::default();
            of.concat().iter().for_each(|(fault, basis)| tally.add(fault, basis));
            tally
        };
        let all = tally(&[&base, &majors, &huge]);
        let known = Huge { least: 2.0, most: 20.0 };
        let whole = Whole { all: &all, doubt: 800.0, offset_doubt_ns: 15.0, huge: Some(known) };
        let (faults, time_ns) = tally(&[&majors]).intervals(&whole);
        assert_eq!((faults.low, faults.high), (10.0, 10.0));
        assert!(time_ns.low > 2.7e7 && time_ns.high < 3.3e7, "{time_ns:?}");
        let (faults, time_ns) = tally(&[&huge]).intervals(&whole);
        assert_eq!((faults.low, faults.high), (2.0, 20.0));
        assert!(time_ns.high < 20.0 * 2e5 && time_ns.high > 20.0 * 1e5, "{time_ns:?}");
        // A site with one major fault may have others, each at the price of base pages.
        let (faults, time_ns) = tally(&[&majors[..1], &base[..1]]).intervals(&whole);
        assert!(faults.high > 500.0 && time_ns.high < 3e6 + 1e7, "{faults:?} {time_ns:?}");
    }
}
