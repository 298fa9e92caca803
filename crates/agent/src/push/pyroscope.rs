//! Sites and recordings as Pyroscope takes them.
//!
//! Sites: folded stacks, a request for each service. A stack has the process, the caller and the function. Counts are
//! faults, estimated from samples. Recordings: one in pprof's format a request, as `faultless export` writes it.
//!
//! Source: the server's HTTP API, `POST /ingest` with `format=folded` and `format=pprof`.

use std::collections::HashMap;
use std::fmt::Write;

use faultless_console::encoded;
use faultless_prof::live::Interval;

use super::Batch;
use crate::count::Program;
use crate::identity::Identity;
use crate::members::Members;
use crate::tuning as t;

/// The sites of an interval that ends at `time_ns` since 1970, by service.
pub(super) fn sites(interval: &Interval, members: &Members, time_ns: u64) -> Vec<Batch> {
    let names: HashMap<u32, &str> =
        interval.processes.iter().map(|task| (task.pid, task.name.as_str())).collect();
    let mut services: HashMap<String, (f64, String)> = HashMap::new();
    for site in &interval.sites {
        let Some(path) = members.last(site.pid) else { continue };
        let (faults, text) = services.entry(Identity::of(path).service).or_default();
        *faults += site.faults;
        let name = names.get(&site.pid).copied().unwrap_or("[gone]");
        let frames = [Some(name), site.caller.as_deref(), Some(&site.function)];
        let frames: Vec<String> = frames.into_iter().flatten().map(frame).collect();
        let _ = writeln!(text, "{} {:.0}", frames.join(";"), site.faults);
    }
    let mut services: Vec<_> = services.into_iter().collect();
    services.sort_by(|(a, (faults, _)), (b, (more, _))| more.total_cmp(faults).then_with(|| a.cmp(b)));
    services.truncate(t::PROFILES_MAX);
    let until = time_ns / 1_000_000_000;
    let seconds = interval.end_ns.saturating_sub(interval.begin_ns).div_ceil(1_000_000_000);
    let batch = |(service, (_, text)): (String, (f64, String))| Batch {
        target: target(
            "faultless.faults",
            &[("service_name", &service)],
            [until.saturating_sub(seconds), until],
            "folded&units=samples",
        ),
        kind: "text/plain",
        is_gzip: false,
        bytes: text.into_bytes(),
    };
    services.into_iter().map(batch).collect()
}

/// A recording of a program that has just ended.
pub(super) fn recording((path, program): &Program, time_ns: u64, bytes: Vec<u8>) -> Batch {
    let service = Identity::of(path).service;
    let until = time_ns / 1_000_000_000;
    let from = until.saturating_sub(t::RECORD_SPAN.as_secs());
    let target = target(&service, &[("program", program)], [from, until], "pprof");
    Batch { target, kind: "application/octet-stream", is_gzip: false, bytes }
}

/// Where to push a profile of this name from one time to another, in seconds.
fn target(name: &str, labels: &[(&str, &str)], [from, until]: [u64; 2], format: &str) -> String {
    let plain = |text: &str| text.replace(['{', '}', ',', '=', '"'], "_");
    let host = faultless_prof::host_name();
    let labels = labels.iter().copied().chain([("host", host.as_str())]);
    let labels: Vec<String> = labels.map(|(label, value)| format!("{label}={}", plain(value))).collect();
    let name = format!("{}{{{}}}", plain(name), labels.join(","));
    let name = encoded(&name);
    format!("/ingest?name={name}&from={from}&until={until}&format={format}&spyName=faultless")
}

/// A frame must hold no separator.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { ':' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::cgroups::Groups;
    use faultless_prof::live::{Site, Task};

    #[test]
    fn a_service_has_one_request_with_its_stacks() {
        let mut members = Members::new(Groups::find());
        let pid = std::process::id();
        members.path(pid, 1);
        let site = |pid, function: &str, caller: Option<&str>| Site {
            pid,
            function: function.into(),
            caller: caller.map(String::from),
            module: "m".into(),
            faults: 97.4,
        };
        let interval = Interval {
            begin_ns: 0,
            end_ns: 15_000_000_000,
            processes: vec![Task { pid, name: "db".into(), ..Task::default() }],
            sites: vec![
                site(pid, "a;b c", Some("main")),
                site(pid, "[kernel]", None),
                site(u32::MAX, "x", None),
            ],
            ..Interval::default()
        };
        let found = sites(&interval, &members, 100_000_000_000);
        assert_eq!(found.len(), 1, "who is gone belongs to no service");
        assert_eq!(String::from_utf8_lossy(&found[0].bytes), "db;main;a:b c 97\ndb;[kernel] 97\n");
        assert!(found[0].target.contains("&from=85&until=100&format=folded"), "{}", found[0].target);
    }

    #[test]
    fn a_recording_is_the_services_and_a_name_can_not_leave_its_place() {
        let program = ("/system.slice/a,b.service".into(), "c} &until=0".to_owned());
        let Batch { target, bytes, .. } = recording(&program, 100_900_000_000, vec![7]);
        assert!(target.starts_with("/ingest?name=a_b%7Bprogram%3Dc_%20%26until_0%2Chost%3D"), "{target}");
        assert!(target.contains("&from=98&until=100&format=pprof"), "{target}");
        assert_eq!(bytes, [7]);
    }
}
