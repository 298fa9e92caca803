//! The files for those who run it: they parse, say what the program has, and name metrics that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::agent::{PROGRAM, until};
use crate::record::Scripted;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap()
}

/// Runs a program of the system; panics with what it said if it fails.
fn passes(command: &mut Command) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {said:?}");
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let ours = words.filter(|word| word.starts_with("faultless_") && !word.contains(':'));
    ours.map(str::to_owned).collect()
}

#[test]
fn rules_and_dashboard_and_readme_name_metrics_that_there_are() {
    let Scripted { agent, .. } = &Scripted::of_one_mechanism(&[]);
    let mut types: BTreeSet<String> = BTreeSet::new();
    until("all metrics", || {
        types = agent.scrape().types.into_keys().collect();
        types.contains("faultless_recorded_timestamp_seconds")
    });
    for name in ["rules.yml", "rules_test.yml", "dashboard.json"] {
        for metric in names(&text(name)) {
            // A kernel may lack some of the machine's counters.
            let is_there = types.contains(&metric) || metric.starts_with("faultless_machine_");
            assert!(is_there, "{name} names {metric}");
        }
    }
    let readme = fs::read_to_string(file("../README.md")).unwrap();
    let known = names(&readme);
    for metric in &types {
        assert!(known.contains(metric), "README.md does not explain {metric}");
    }
    for metric in known.iter().filter(|metric| !metric.starts_with("faultless_machine_")) {
        assert!(types.contains(metric), "README.md explains {metric}");
    }
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    if !faultless_wants::program("systemd-analyze", "systemd") {
        return;
    }
    // It also checks that the program is there.
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("faultless-agent.service");
    let drop_ins = folder.path().join("faultless-agent.service.d");
    fs::create_dir(&drop_ins).unwrap();
    for (name, path) in [("faultless-agent.service", &unit), ("recordings.conf", &drop_ins.join("x.conf"))] {
        fs::write(path, text(name).replace("/usr/local/bin/faultless-agent", PROGRAM)).unwrap();
    }
    passes(Command::new("systemd-analyze").arg("verify").arg(&unit));
}

#[test]
fn promtool_takes_the_rules_and_they_find_what_they_should() {
    let Some(promtool) = faultless_wants::path_of("promtool", "prometheus") else { return };
    passes(Command::new(&promtool).args(["check", "rules"]).arg(file("rules.yml")));
    passes(Command::new(&promtool).args(["test", "rules"]).arg(file("rules_test.yml")));
}

#[test]
fn the_daemonset_and_the_dashboard_parse_and_fit_together() {
    const CHECK: &str = "import sys, yaml, json\n\
        documents = {document['kind']: document for document in yaml.safe_load_all(open(sys.argv[1]))}\n\
        assert set(documents) == {'Namespace', 'DaemonSet'}, documents\n\
        spec = documents['DaemonSet']['spec']\n\
        labels = spec['template']['metadata']['labels']\n\
        assert spec['selector']['matchLabels'].items() <= labels.items()\n\
        pod = spec['template']['spec']\n\
        assert pod['hostPID'] is True\n\
        volumes = {volume['name'] for volume in pod['volumes']}\n\
        (container,) = pod['containers']\n\
        assert {mount['name'] for mount in container['volumeMounts']} == volumes\n\
        assert container['securityContext']['capabilities'] == {'drop': ['ALL'], 'add': ['PERFMON']}\n\
        assert container['livenessProbe']['httpGet']['port'] in {port['name'] for port in container['ports']}\n\
        patch = yaml.safe_load(open(sys.argv[3]))['spec']['template']['spec']\n\
        (more,) = patch['containers']\n\
        assert more['name'] == container['name']\n\
        assert {mount['name'] for mount in more['volumeMounts']} == {volume['name'] for volume in patch['volumes']}\n\
        assert more['args'][:-1] == container['args'] and more['args'][-1].startswith('--record=/var/lib/faultless/')\n\
        assert more['securityContext']['capabilities'] == {'drop': ['ALL'], 'add': ['PERFMON', 'SYS_PTRACE', 'DAC_READ_SEARCH']}\n\
        for panel in json.load(open(sys.argv[2]))['panels']:\n\
        \x20   assert panel['targets'] and panel['gridPos']['w'] <= 24, panel\n\
        print('\\n'.join(more['args']))\n";
    let has = Command::new("python3").args(["-c", "import yaml"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return faultless_wants::missing_package("python3-yaml", "python3 can't import it");
    }
    let mut python = Command::new("python3");
    let files = ["daemonset.yaml", "dashboard.json", "daemonset-recordings.yaml"].map(file);
    let output = python.args(["-c", CHECK]).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The flags of the DaemonSet are flags of the program: it gets as far as to read the token.
    let args = String::from_utf8(output.stdout).unwrap();
    let said = Command::new(PROGRAM).args(args.lines()).output().unwrap().stderr;
    assert!(String::from_utf8_lossy(&said).contains("/etc/faultless/token/token"), "{said:?}");
}
