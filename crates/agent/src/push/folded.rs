//! Sites as Pyroscope takes them: folded stacks, a request for each service.
//!
//! A stack has the process, the caller and the function. Counts are faults, estimated from samples.
//!
//! Source: the server's HTTP API, `POST /ingest` with `format=folded`.

use std::collections::HashMap;
use std::fmt::Write;

use faultless_prof::live::Interval;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Batch;
use crate::identity::Identity;
use crate::members::Members;
use crate::tuning as t;

/// The sites of an interval that ends at `time_ns` since 1970, by service.
pub(super) fn batches(interval: &Interval, members: &Members, time_ns: u64) -> Vec<Batch> {
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
        target: target(&service, until.saturating_sub(seconds), until),
        kind: "text/plain",
        is_gzip: false,
        bytes: text.into_bytes(),
    };
    services.into_iter().map(batch).collect()
}

/// All of a name but these is percent-encoded.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

fn target(service: &str, from: u64, until: u64) -> String {
    let service: String = service.chars().map(|c| if "{},=\"".contains(c) { '_' } else { c }).collect();
    let name = format!("faultless.faults{{service_name={service},host={}}}", faultless_prof::host_name());
    let name = utf8_percent_encode(&name, PLAIN);
    format!("/ingest?name={name}&from={from}&until={until}&format=folded&units=samples&spyName=faultless")
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
        let found = batches(&interval, &members, 100_000_000_000);
        assert_eq!(found.len(), 1, "who is gone belongs to no service");
        assert_eq!(String::from_utf8_lossy(&found[0].bytes), "db;main;a:b c 97\ndb;[kernel] 97\n");
        assert!(found[0].target.contains("&from=85&until=100&format=folded"), "{}", found[0].target);
    }

    #[test]
    fn a_name_can_not_leave_its_place() {
        let target = target("a,b=c} &until=0", 1, 2);
        assert!(target.contains("service_name%3Da_b_c_%20%26until_0%2Chost%3D"), "{target}");
    }
}
