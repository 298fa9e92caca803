//! The state of the live view, and the effect of keys on it.
//!
//! In: intervals and keys. Out: sorted rows, sites with rates, a history of rates. Uses no clock and no
//! terminal.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

use faultless_prof::live::{Interval, Site, Task, Threads};
use faultless_trace::observation::SourceNote;
use ratatui::crossterm::event::KeyCode;

/// Longest history of rates, for a wide terminal.
const HISTORY_MAX: usize = 512;
/// Weight of the newest interval in a site's rate: a few samples per interval alone would fluctuate too much.
const NEWEST: f64 = 0.4;
/// Faults per second below which a site is forgotten.
const FORGOTTEN: f64 = 0.5;

/// Sort key of the rows, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Faults,
    Time,
    Share,
    Cpu,
    Memory,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Faults, Self::Time, Self::Share, Self::Cpu, Self::Memory];

    /// Its name on the screen.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::Time => "time",
            Self::Share => "share of CPU",
            Self::Cpu => "CPU",
            Self::Memory => "memory",
        }
    }

    /// The key `by` places further on.
    fn further(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }

    /// The key of a letter, as in top and htop.
    fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'F' => Self::Faults,
            'T' => Self::Time,
            'S' => Self::Share,
            'P' => Self::Cpu,
            'M' => Self::Memory,
            _ => return None,
        })
    }

    fn compare(self, a: &Task, b: &Task) -> Ordering {
        let by_faults = || a.faults.cmp(&b.faults);
        match self {
            Self::Faults => by_faults(),
            Self::Time => a.fault_ns.total_cmp(&b.fault_ns),
            Self::Share => share(a).total_cmp(&share(b)),
            Self::Cpu => a.cpu_ns.cmp(&b.cpu_ns),
            Self::Memory => a.anon_bytes.cmp(&b.anon_bytes),
        }
        .then_with(by_faults)
        .reverse()
        .then_with(|| (a.pid, a.tid).cmp(&(b.pid, b.tid)))
    }
}

/// CPU time of a task in ns, at least the time of its faults. The kernel counts CPU time in ticks, so a task
/// that runs rarely may show none.
pub(super) fn cpu_ns(task: &Task) -> f64 {
    task.fault_ns.max(task.cpu_ns as f64)
}

/// The sum of all tasks, as one task.
pub(super) fn whole(interval: &Interval) -> Task {
    Task {
        faults: interval.faults,
        major_faults: interval.major_faults,
        cpu_ns: interval.cpu_ns,
        fault_ns: interval.fault_ns,
        ..Task::default()
    }
}

/// Share of a task's CPU time that its faults take, 0 to 1.
pub(super) fn share(task: &Task) -> f64 {
    if task.fault_ns > 0.0 { task.fault_ns / cpu_ns(task) } else { 0.0 }
}

/// What the caller of [`Model::key`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Draw.
    Draw,
    /// Quit.
    Quit,
    /// Draw, and follow this process from now on.
    Focus(u32),
}

/// The state.
#[derive(Debug)]
pub(super) struct Model {
    /// The machine in a few words.
    pub(super) machine: String,
    /// The watched system, process or program.
    pub(super) subject: String,
    /// Sources that are missing, and why.
    pub(super) missing: Vec<String>,
    pub(super) sort: Sort,
    /// Show threads instead of processes.
    pub(super) threads: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// The process whose details are shown.
    pub(super) detail: Option<u32>,
    /// Process and thread of the chosen row.
    selected: Option<(u32, u32)>,
    /// Rows that fit on the screen, for paging.
    pub(super) page: usize,
    /// Faults per second, newest first.
    pub(super) history: VecDeque<u64>,
    /// The last interval.
    pub(super) interval: Interval,
    /// Sites with faults per second, highest first.
    pub(super) sites: Vec<Site>,
}

impl Model {
    /// An empty state.
    pub(super) fn new(machine: String, subject: String, notes: &[SourceNote]) -> Self {
        let missing = notes.iter().filter(|note| !note.used);
        Self {
            machine,
            subject,
            missing: missing.map(|note| format!("no {}: {}", note.source, note.note)).collect(),
            sort: Sort::Faults,
            threads: false,
            paused: false,
            help: false,
            detail: None,
            selected: None,
            page: 10,
            history: VecDeque::new(),
            interval: Interval::default(),
            sites: Vec::new(),
        }
    }

    /// Takes a new interval. While paused, only the end of the subject is taken.
    pub(super) fn take(&mut self, interval: Interval) {
        if self.paused && interval.ended.is_none() {
            return;
        }
        let seconds = seconds(&interval);
        let first = self.history.is_empty();
        self.history.push_front((interval.faults as f64 / seconds).round() as u64);
        self.history.truncate(HISTORY_MAX);
        let mut sites: HashMap<_, f64> = HashMap::new();
        let key = |site: &Site| (site.pid, site.function.clone(), site.caller.clone(), site.module.clone());
        for site in &self.sites {
            sites.insert(key(site), site.faults * (1.0 - NEWEST));
        }
        for site in &interval.sites {
            let newest = site.faults / seconds * if first { 1.0 } else { NEWEST };
            *sites.entry(key(site)).or_default() += newest;
        }
        let runs = |pid: u32| interval.processes.iter().any(|task| task.pid == pid);
        self.sites = sites
            .into_iter()
            .filter(|((pid, ..), faults)| *faults >= FORGOTTEN && runs(*pid))
            .map(|((pid, function, caller, module), faults)| Site { pid, function, caller, module, faults })
            .collect();
        self.sites.sort_by(|a, b| {
            b.faults
                .total_cmp(&a.faults)
                .then_with(|| (a.pid, &a.function, &a.caller).cmp(&(b.pid, &b.function, &b.caller)))
        });
        self.interval = interval;
    }

    /// The process whose threads the next interval should contain.
    pub(super) fn threads_wanted(&self) -> Threads {
        match self.detail {
            Some(pid) => Threads::Of(pid),
            None if self.threads => Threads::Busiest,
            None => Threads::No,
        }
    }

    /// A count of the last interval, per second.
    pub(super) fn per_s(&self, count: f64) -> f64 {
        count / seconds(&self.interval)
    }

    /// Rows of the table, in order.
    pub(super) fn rows(&self) -> Vec<&Task> {
        let tasks = if self.shows_threads() { &self.interval.threads } else { &self.interval.processes };
        let mut rows: Vec<&Task> =
            tasks.iter().filter(|task| self.detail.is_none_or(|pid| task.pid == pid)).collect();
        rows.sort_by(|a, b| self.sort.compare(a, b));
        rows
    }

    /// Whether rows are threads.
    pub(super) fn shows_threads(&self) -> bool {
        self.threads || self.detail.is_some()
    }

    /// Sites of the detailed process, or all.
    pub(super) fn shown_sites(&self) -> Vec<&Site> {
        self.sites.iter().filter(|site| self.detail.is_none_or(|pid| site.pid == pid)).collect()
    }

    /// A process of the last interval.
    pub(super) fn task(&self, pid: u32) -> Option<&Task> {
        self.interval.processes.iter().find(|task| task.pid == pid)
    }

    /// The name of a process.
    pub(super) fn name_of(&self, pid: u32) -> &str {
        self.task(pid).map_or("", |task| task.name.as_str())
    }

    /// Index of the chosen row; the first until a key chooses another.
    pub(super) fn selected(&self) -> usize {
        let is_it = |task: &&Task| Some((task.pid, task.tid)) == self.selected;
        self.rows().iter().position(is_it).unwrap_or(0)
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyCode) -> Action {
        if std::mem::take(&mut self.help) && key != KeyCode::Char('q') {
            return Action::Draw;
        }
        match key {
            KeyCode::Char('q') | KeyCode::F(10) => return Action::Quit,
            KeyCode::Esc if self.detail.is_none() => return Action::Quit,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.leave(),
            KeyCode::Enter | KeyCode::Right => return self.enter(),
            KeyCode::Char('s' | '>') | KeyCode::F(6) => self.sort = self.sort.further(1),
            KeyCode::Char('<') => self.sort = self.sort.further(Sort::ALL.len() - 1),
            KeyCode::Char(letter) if Sort::of(letter).is_some() => {
                self.sort = Sort::of(letter).unwrap_or(self.sort);
            }
            KeyCode::Char('t' | 'H') if self.detail.is_none() => {
                self.threads = !self.threads;
                self.selected = None;
            }
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::PageUp => self.select(-(self.page as isize)),
            KeyCode::PageDown => self.select(self.page as isize),
            KeyCode::Home => self.select(isize::MIN),
            KeyCode::End => self.select(isize::MAX),
            _ => {}
        }
        Action::Draw
    }

    fn enter(&mut self) -> Action {
        let Some(pid) = self.rows().get(self.selected()).map(|task| task.pid) else { return Action::Draw };
        if self.detail.is_some() {
            return Action::Draw;
        }
        (self.detail, self.selected) = (Some(pid), None);
        Action::Focus(pid)
    }

    fn leave(&mut self) {
        self.selected = self.detail.take().map(|pid| (pid, pid));
    }

    fn select(&mut self, by: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let to = self.selected().saturating_add_signed(by).min(last);
        self.selected = rows.get(to).map(|task| (task.pid, task.tid));
    }
}

/// Length of an interval.
pub(super) fn seconds(interval: &Interval) -> f64 {
    match interval.end_ns.saturating_sub(interval.begin_ns) {
        0 => 1.0,
        ns => ns as f64 / 1e9,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use faultless_trace::stat::Point;

    use super::*;

    /// Half a second of a small machine.
    pub(in super::super) fn interval() -> Interval {
        let task = |pid, name: &str, faults: u64, cpu_ns| Task {
            pid,
            tid: pid,
            name: name.into(),
            faults,
            cpu_ns,
            fault_ns: faults as f64 * 1300.0,
            ..Task::default()
        };
        let avoidable = |low, high, mib: u64| Some(Point { keep_bytes: mib << 20, low, high });
        let site = |pid, function: &str, caller: Option<&str>, module: &str, faults| Site {
            pid,
            function: function.into(),
            caller: caller.map(Into::into),
            module: module.into(),
            faults,
        };
        Interval {
            begin_ns: 1_000_000_000,
            end_ns: 1_500_000_000,
            cpus: 2,
            faults: 71_200,
            major_faults: 12,
            cpu_ns: 800_000_000,
            fault_ns: 92_560_000.0,
            price_ns: 1300.0,
            timed: 1204,
            processes: vec![
                task(1, "systemd", 0, 0),
                Task {
                    anon_bytes: Some(31 << 20),
                    avoidable: avoidable(0.02, 0.31, 4),
                    ..task(812, "cc1plus", 9_100, 480_000_000)
                },
                Task {
                    anon_bytes: Some(96 << 20),
                    avoidable: avoidable(0.94, 0.97, 24),
                    major_faults: 12,
                    ..task(4711, "chunk-pipeline", 61_000, 310_000_000)
                },
                task(77, "bash", 140, 10_000_000),
            ],
            threads: vec![
                Task { tid: 4711, ..task(4711, "chunk-pipeline", 1_000, 10_000_000) },
                Task { tid: 4712, ..task(4711, "worker-0", 40_000, 200_000_000) },
                Task { tid: 4713, ..task(4711, "worker-1", 20_000, 100_000_000) },
            ],
            sites: vec![
                site(
                    4711,
                    "__memset_avx2_unaligned_erms",
                    Some("faultless::cmd::workload::pipeline::fill"),
                    "libc.so.6",
                    48_888.0,
                ),
                site(4711, "[kernel]", Some("read"), "[kernel]", 9_700.0),
                site(812, "ggc_internal_alloc(unsigned long, void (*)(void*))", None, "cc1plus", 7_954.0),
                site(77, "[bash]", None, "bash", 97.0),
            ],
            lost: 0,
            ended: None,
        }
    }

    pub(in super::super) fn model() -> Model {
        let mut model = Model::new("Linux 6.18.44, 2 CPUs".into(), "all processes".into(), &[]);
        for faults in (0..90).map(|step| 20_000 + 9_000 * (step % 7)) {
            model.take(Interval { faults, sites: Vec::new(), ..interval() });
        }
        model.history.clear();
        for step in 0..90 {
            model.history.push_front(20_000 + 9_000 * (step % 7));
        }
        model.sites.clear();
        model.take(Interval { sites: Vec::new(), ..interval() });
        model.sites = interval().sites;
        model.sites.iter_mut().for_each(|site| site.faults *= 2.0);
        model
    }

    #[test]
    fn the_busiest_process_is_on_top_and_the_order_follows_the_key() {
        let mut model = model();
        let order = |model: &Model| model.rows().iter().map(|task| task.pid).collect::<Vec<_>>();
        assert_eq!(order(&model), [4711, 812, 77, 1]);
        for _ in 0..3 {
            model.key(KeyCode::Char('s'));
        }
        assert_eq!(model.sort, Sort::Cpu);
        assert_eq!(order(&model), [812, 4711, 77, 1]);
    }

    #[test]
    fn the_letters_of_top_and_htop_sort_and_show_threads() {
        let mut model = model();
        for (letter, sort) in [
            ('P', Sort::Cpu),
            ('M', Sort::Memory),
            ('T', Sort::Time),
            ('S', Sort::Share),
            ('F', Sort::Faults),
        ] {
            model.key(KeyCode::Char(letter));
            assert_eq!(model.sort, sort, "{letter}");
        }
        model.key(KeyCode::Char('<'));
        assert_eq!(model.sort, Sort::Memory);
        model.key(KeyCode::Char('>'));
        assert_eq!(model.sort, Sort::Faults);
        model.key(KeyCode::Char('H'));
        assert!(model.threads);
        model.key(KeyCode::Char('h'));
        assert!(model.help);
        model.key(KeyCode::Down);
        assert_eq!(model.key(KeyCode::F(10)), Action::Quit);
    }

    #[test]
    fn the_choice_stays_with_its_process_when_the_order_changes() {
        let mut model = model();
        model.key(KeyCode::Down);
        assert_eq!(model.rows()[model.selected()].pid, 812);
        model.key(KeyCode::Char('s'));
        model.key(KeyCode::Char('s'));
        model.key(KeyCode::Char('s'));
        assert_eq!((model.selected(), model.rows()[model.selected()].pid), (0, 812));
        model.key(KeyCode::End);
        model.key(KeyCode::PageDown);
        assert_eq!(model.selected(), 3);
        model.key(KeyCode::Home);
        assert_eq!(model.selected(), 0);
    }

    #[test]
    fn enter_looks_into_a_process_and_escape_comes_back_to_it() {
        let mut model = model();
        assert_eq!(model.key(KeyCode::Enter), Action::Focus(4711));
        assert_eq!(model.threads_wanted(), Threads::Of(4711));
        assert_eq!(model.rows().iter().map(|task| task.tid).collect::<Vec<_>>(), [4712, 4713, 4711]);
        assert!(model.shown_sites().iter().all(|site| site.pid == 4711));
        assert_eq!(model.key(KeyCode::Esc), Action::Draw);
        assert_eq!((model.detail, model.rows()[model.selected()].pid), (None, 4711));
        assert_eq!(model.key(KeyCode::Esc), Action::Quit);
    }

    #[test]
    fn while_paused_nothing_moves_but_the_end_is_seen() {
        let mut model = model();
        model.key(KeyCode::Char('p'));
        model.take(Interval { faults: 1, ..interval() });
        assert_eq!(model.interval.faults, 71_200);
        model.take(Interval { faults: 2, ended: Some(None), ..interval() });
        assert_eq!(model.interval.faults, 2);
    }

    #[test]
    fn a_site_that_is_seen_no_more_fades_and_one_of_a_process_that_is_gone_goes() {
        let mut model = Model::new(String::new(), String::new(), &[]);
        model.take(interval());
        let rate = |model: &Model| model.sites.iter().find(|site| site.pid == 77).map(|site| site.faults);
        assert_eq!(rate(&model), Some(194.0), "the first interval counts whole");
        model.take(Interval { sites: Vec::new(), ..interval() });
        assert!((rate(&model).unwrap() - 194.0 * 0.6).abs() < 1e-9);
        for _ in 0..20 {
            model.take(Interval { sites: Vec::new(), ..interval() });
        }
        assert_eq!(rate(&model), None);
        model.take(Interval { processes: Vec::new(), ..interval() });
        assert!(model.sites.is_empty());
    }
}
