//! An interval as one line of JSON.
//!
//! Rates are per second, shares from 0 to 1, and `null` means unknown. Processes without faults and CPU time
//! are left out.

use faultless_prof::live::{Site, Task};
use faultless_trace::stat::Point;
use serde::Serialize;

use super::model::{Model, cpu_ns, seconds, share, whole};

/// Version of the JSON output. It rises when a field changes its meaning or disappears.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    subject: &'a str,
    /// CLOCK_MONOTONIC.
    begin_ns: u64,
    end_ns: u64,
    cpus: u32,
    faults_per_s: f64,
    major_faults_per_s: f64,
    fault_ns_per_s: f64,
    /// Share of the CPU time.
    fault_share: f64,
    cpu_ns_per_s: f64,
    price_ns: f64,
    /// Faults timed for the price; 0 if the price comes from the calibration at start.
    price_faults: usize,
    processes: Vec<TaskRecord<'a>>,
    sites: Vec<SiteRecord<'a>>,
    /// Lost samples of sites.
    lost: u64,
    missing: &'a [String],
    ended: bool,
}

#[derive(Serialize)]
struct TaskRecord<'a> {
    pid: u32,
    name: &'a str,
    faults_per_s: f64,
    major_faults_per_s: f64,
    fault_ns_per_s: f64,
    fault_share: f64,
    cpu_ns_per_s: f64,
    anon_bytes: Option<u64>,
    avoidable: Option<Point>,
}

#[derive(Serialize)]
struct SiteRecord<'a> {
    pid: u32,
    function: &'a str,
    caller: Option<&'a str>,
    module: &'a str,
    /// Estimated from samples.
    faults_per_s: f64,
}

/// The last interval.
pub(super) fn line(model: &Model) -> serde_json::Result<String> {
    let interval = &model.interval;
    let rows = model.rows();
    let rows = rows.iter().filter(|task| task.faults > 0 || task.cpu_ns > 0);
    let whole = whole(interval);
    let line = Line {
        schema: SCHEMA,
        subject: &model.subject,
        begin_ns: interval.begin_ns,
        end_ns: interval.end_ns,
        cpus: interval.cpus,
        faults_per_s: model.per_s(interval.faults as f64),
        major_faults_per_s: model.per_s(interval.major_faults as f64),
        fault_ns_per_s: model.per_s(interval.fault_ns),
        fault_share: share(&whole),
        cpu_ns_per_s: model.per_s(cpu_ns(&whole)),
        price_ns: interval.price_ns,
        price_faults: interval.timed,
        processes: rows.map(|task| row(model, task)).collect(),
        sites: interval.sites.iter().map(|site| place(site, seconds(interval))).collect(),
        lost: interval.lost,
        missing: &model.missing,
        ended: interval.ended.is_some(),
    };
    Ok(serde_json::to_string(&line)? + "\n")
}

fn row<'a>(model: &Model, task: &'a Task) -> TaskRecord<'a> {
    TaskRecord {
        pid: task.pid,
        name: &task.name,
        faults_per_s: model.per_s(task.faults as f64),
        major_faults_per_s: model.per_s(task.major_faults as f64),
        fault_ns_per_s: model.per_s(task.fault_ns),
        fault_share: share(task),
        cpu_ns_per_s: model.per_s(cpu_ns(task)),
        anon_bytes: task.anon_bytes,
        avoidable: task.avoidable,
    }
}

fn place(site: &Site, seconds: f64) -> SiteRecord<'_> {
    SiteRecord {
        pid: site.pid,
        function: &site.function,
        caller: site.caller.as_deref(),
        module: &site.module,
        faults_per_s: site.faults / seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::interval;
    use super::*;

    #[test]
    fn one_interval_is_one_line_with_rates_per_second() {
        let mut model = Model::new(String::new(), "all processes".into(), &[]);
        model.take(interval());
        let text = line(&model).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["faults_per_s"], 142_400.0);
        assert_eq!(json["processes"].as_array().unwrap().len(), 3, "one does nothing");
        assert_eq!(json["processes"][0]["pid"], 4711);
        assert_eq!(json["processes"][0]["avoidable"]["low"], 0.94);
        assert_eq!(json["sites"][0]["faults_per_s"], 97_776.0);
        assert_eq!(json["ended"], false);
    }
}
