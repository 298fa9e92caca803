//! Few pages for rings, few descriptors.

use faultless_trace::recording::Recording;

use super::*;

const KIB: u64 = 1024;

fn load(path: &Path) -> Recording {
    faultless_trace::file::read(&std::fs::read(path).unwrap()).unwrap()
}

/// Processors for whose rings a user has enough locked memory.
fn processors() -> u64 {
    let out = Command::new("getconf").arg("_NPROCESSORS_ONLN").output().unwrap();
    text(&out.stdout).trim().parse().unwrap()
}

#[test]
fn with_little_memory_for_rings_counts_are_exact_and_losses_said() {
    let Some(place) = Place::with(&["takes_rings", "faults"]) else { return };
    let Some(user) = as_user(1) else { return };
    if !has_events(&place) {
        return;
    }
    machine::copy_program(FAULTLESS, place.path("faultless"));
    let user: Vec<&str> = user.iter().map(String::as_str).collect();
    // As with kernel.perf_event_mlock_kb = 64: rings of 8 pages fit.
    let left = (64.max(16 * page_kib()) * processors()).to_string();
    let scarce = [&user[..], &["./takes_rings", &left]].concat();
    let program = ["./faults", "touch", "20000"];
    let (stat, status) = place.stat(&scarce, "./faultless", &program);
    assert_eq!(status, Some(0), "{stat}");
    assert_counts(&stat, 20_000, 1000);
    let (used, note) = source(&stat, "fault pairs");
    assert!(used && note.contains("which is little: raise kernel.perf_event_mlock_kb"), "{note}");
    assert!(stat["time"]["timed"].as_u64().unwrap() > 100, "{stat}");

    let record = ["./faultless", "record", "--all", "-o", "x.trace", "--"];
    let out = place.run(&[&scarce[..], &record, &program].concat());
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let footer = load(&place.path("x.trace")).footer.unwrap();
    let lost: u64 = footer.event_losses.iter().flatten().map(|loss| loss.lost).sum();
    assert_eq!(said.contains("faultless: the rings lost "), lost > 0, "{lost}: {said}");
    assert!(footer.usage.minor_faults >= 20_000, "{:?}", footer.usage);
}

fn page_kib() -> u64 {
    let out = Command::new("getconf").arg("PAGESIZE").output().unwrap();
    text(&out.stdout).trim().parse::<u64>().unwrap() / KIB
}

#[test]
fn without_memory_for_rings_there_is_a_range_and_no_recording() {
    let Some(place) = Place::with(&["takes_rings", "faults"]) else { return };
    let Some(user) = as_user(2) else { return };
    if !has_events(&place) {
        return;
    }
    machine::copy_program(FAULTLESS, place.path("faultless"));
    let user: Vec<&str> = user.iter().map(String::as_str).collect();
    let scarce = [&user[..], &["./takes_rings", "0"]].concat();
    let program = ["./faults", "touch", "8000"];
    let (stat, status) = place.stat(&scarce, "./faultless", &program);
    assert_eq!(status, Some(0), "{stat}");
    assert_counts(&stat, 8000, 1000);
    let (used, note) = source(&stat, "fault pairs");
    assert!(!used && note.contains("raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK"), "{note}");
    assert!(source(&stat, "page-faults:u").0, "counting needs no ring: {stat}");
    assert_eq!(stat["time"]["source"], "calibrated");
    let record = ["./faultless", "record", "-o", "x.trace", "--"];
    let out = place.run(&[&scarce[..], &record, &program].concat());
    let said = text(&out.stderr);
    assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("raise kernel.perf_event_mlock_kb"), "{said}");
    assert!(!place.path("x.trace").exists() && !place.path("x.trace.part").exists());
}

/// Runs faultless in a shell whose descriptor limit `limit` has set.
fn limited(place: &Place, limit: &str, words: &[&str]) -> Output {
    let script = format!("ulimit {limit} || exit 99; exec \"$0\" \"$@\"");
    place.run(&[&["bash", "-c", &script, FAULTLESS], words].concat())
}

/// Prints the program's own limits on standard output.
const LIMITS: [&str; 3] = ["sh", "-c", "ulimit -Sn; ulimit -Hn"];

#[test]
fn with_few_descriptors_the_rest_is_measured_and_the_program_keeps_its_limit() {
    let Some(place) = Place::with(&[]) else { return };
    let events = has_events(&place);
    for limit in [16, 20, 24, 32, 64, 256] {
        let words = [&["stat", "--json", "-o", "stat.json", "--"][..], &LIMITS].concat();
        let out = limited(&place, &format!("-n {limit}"), &words);
        assert_eq!(text(&out.stdout), format!("{limit}\n{limit}\n"), "{}", text(&out.stderr));
        assert_eq!(out.status.code(), Some(0));
        let stat: Value = serde_json::from_slice(&std::fs::read(place.path("stat.json")).unwrap()).unwrap();
        assert_counts(&stat, 50, 1000);
        let (used, note) = source(&stat, "fault pairs");
        assert!(!events || used || note.contains("ulimit -n"), "{limit}: {note}");

        let words = [&["record", "-o", "x.trace", "--"][..], &LIMITS].concat();
        let out = limited(&place, &format!("-n {limit}"), &words);
        let said = text(&out.stderr);
        if out.status.success() {
            assert_eq!(text(&out.stdout), format!("{limit}\n{limit}\n"), "{said}");
            std::fs::remove_file(place.path("x.trace")).unwrap();
        } else {
            assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
            assert!(!events || said.contains("ulimit -n"), "{said}");
            assert!(!place.path("x.trace.part").exists());
        }
    }
}

#[test]
fn a_low_soft_limit_costs_nothing_and_every_run_has_it() {
    let Some(place) = Place::with(&[]) else { return };
    if !has_events(&place) {
        return;
    }
    let words = [&["stat", "--json", "-o", "stat.json", "--"][..], &LIMITS].concat();
    let out = limited(&place, "-Sn 16", &words);
    assert!(text(&out.stdout).starts_with("16\n"), "{}", text(&out.stdout));
    let hard: u64 = text(&out.stdout).lines().nth(1).unwrap().parse().unwrap_or(u64::MAX);
    let stat: Value = serde_json::from_slice(&std::fs::read(place.path("stat.json")).unwrap()).unwrap();
    if hard > 16 * processors() {
        assert!(source(&stat, "fault pairs").0, "{stat}");
    } else {
        wants::missing_feature("RLIMIT_NOFILE", format_args!("the hard limit is {hard}"));
    }
    let out = limited(
        &place,
        "-Sn 30",
        &["advise", "--every-cure", "-n", "3", "--", "sh", "-c", "ulimit -Sn >>limits"],
    );
    assert!(matches!(out.status.code(), Some(0 | 1)), "{}", text(&out.stderr));
    let limits = std::fs::read_to_string(place.path("limits")).unwrap();
    assert!(limits.lines().count() > 10 && limits.lines().all(|limit| limit == "30"), "{limits}");
}

#[test]
fn where_not_even_a_pipe_can_be_opened_one_line_says_so_and_no_file_is_left() {
    if !machine::recorder() {
        return;
    }
    let Some(place) = Place::with(&[]) else { return };
    let mut loaded = 0;
    for limit in 4..10 {
        let out = limited(&place, &format!("-n {limit}"), &["record", "-o", "x.trace", "--", "true"]);
        let said = text(&out.stderr);
        // Without descriptors even the C library can't be loaded, so faultless can't report anything.
        let own = said.starts_with("faultless: ");
        loaded += u32::from(own);
        assert!(!out.status.success(), "{limit}");
        assert!(!own || out.status.code() == Some(2) && said.lines().count() == 1, "{limit}: {said}");
        assert!(!own || said.contains("ulimit -n"), "{limit}: {said}");
        assert!(!place.path("x.trace.part").exists(), "{limit}: {said}");
    }
    assert!(loaded > 0, "faultless never had enough descriptors to say anything");
}
