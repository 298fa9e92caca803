use super::super::model::{Scrub, Sizes, Work, Zone};
use super::super::validate::plain as model;
use super::*;

#[test]
fn a_zeroed_page_is_not_cleared() {
    let mut model = model(1, 6400);
    let missed = model.run().unwrap();
    model.zone.zeroed = 1.0;
    let hit = model.run().unwrap();
    assert!((missed.wall_ns - hit.wall_ns - 6400.0 * 150.0).abs() < 1e-3, "{missed:?} {hit:?}");
    assert_eq!((missed.faults, missed.hits, hit.faults, hit.hits), (6400, 0, 6400, 6400));
    assert_eq!((hit.busy_ns, hit.wall_ns), (hit.wall_ns, hit.busy_ns));
}

#[test]
fn a_run_repeats_itself_and_another_seed_differs() {
    let mut model = model(4, 500);
    (model.service, model.processors) = (Service::Exponential, 6);
    model.scrub = Some(Scrub::in_idle_time(200.0));
    let first = model.run().unwrap();
    assert_eq!(first, model.run().unwrap());
    model.seed = 2;
    assert_ne!(first, model.run().unwrap());
}

#[test]
fn a_handoff_costs_and_one_lock_for_each_thread_does_not() {
    let mut model = model(4, 500);
    (model.path_ns, model.clear_ns) = (0.0, 0.0);
    model.lock = Section { section_ns: 100.0, near_ns: 50.0, far_ns: 200.0 };
    model.processors = 4;
    let shared = model.run().unwrap();
    assert!((shared.wall_ns / 2000.0 - 150.0).abs() < 2.0, "{}", shared.wall_ns / 2000.0);
    model.nodes = 2;
    let far = model.run().unwrap();
    assert!((far.wall_ns / 2000.0 - 300.0).abs() < 4.0, "{}", far.wall_ns / 2000.0);
    model.lock_threads = 1;
    let own = model.run().unwrap();
    assert!((own.wall_ns / 500.0 - 110.0).abs() < 1.0, "{}", own.wall_ns / 500.0);
}

#[test]
fn pages_of_a_per_cpu_list_come_back_hot_and_dirty() {
    let mut model = model(1, 2048);
    model.threads = vec![Work::passes(2, 2048)];
    (model.zone.zeroed, model.zone.is_apart) = (1.0, true);
    for (high, expected) in [(64, 1.0), (1024, 0.5), (4096, 0.0)] {
        model.zone.high = high;
        let outcome = model.run().unwrap();
        let (faults, hits) = outcome.passes[1];
        let ratio = hits as f64 / faults as f64;
        assert!((ratio - expected).abs() < 0.07, "{high}: {ratio}");
    }
}

#[test]
fn without_an_idle_processor_scrubbers_wait() {
    let mut model = model(1, 512);
    model.threads = vec![Work::passes(16, 512)];
    model.zone = Zone { high: 0, pages: 1 << 12, is_apart: true, ..model.zone };
    model.scrub = Some(Scrub::in_idle_time(10.0));
    let busy = model.run().unwrap();
    model.processors = 2;
    let idle = model.run().unwrap();
    assert!(busy.hit_ratio() < 0.1 && idle.hit_ratio() > 0.9, "{} {}", busy.hit_ratio(), idle.hit_ratio());
    model.processors = 1;
    model.scrub = Some(Scrub { busy_share: 0.5, ..Scrub::in_idle_time(10.0) });
    assert!(model.run().unwrap().hit_ratio() > 0.9, "scrubbers may take a part of a busy processor");
}

#[test]
fn in_a_pause_the_scrubbers_catch_up() {
    let mut model = model(1, 512);
    model.threads = vec![Work::passes(16, 512)];
    model.zone = Zone { high: 0, pages: 1 << 10, is_apart: true, ..model.zone };
    model.scrub = Some(Scrub::in_idle_time(10.0));
    let without = model.run().unwrap();
    model.pause_ns = 1e5;
    let with = model.run().unwrap();
    assert!(without.hit_ratio() < 0.1 && with.hit_ratio() > 0.9, "{without:?} {with:?}");
    assert!((with.wall_ns - with.busy_ns - 16.0 * 1e5).abs() < 1.0, "a thread that pauses is not busy");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = model(4, 1 << 14).run().unwrap_err().to_string();
    assert!(refused.contains("give it more memory or fewer threads"), "{refused}");
}

#[test]
fn maps_are_kept_in_their_slots_and_all_are_unmapped_at_the_end() {
    let mut model = model(2, 0);
    model.threads = vec![Work { maps: 300, sizes: Sizes::Powers(8), slots: 16, room: 400 }; 2];
    model.zone = Zone { zeroed: 1.0, high: 0, pages: 1 << 11, ..model.zone };
    let outcome = model.run().unwrap();
    // Lengths have the mean of (1 + ... + 128) / 8 / 2; those that do not fit are left out.
    assert!((2_000..10_000).contains(&outcome.faults), "{outcome:?}");
    assert_eq!(outcome, model.run().unwrap());
    model.zone.pages = 1 << 9;
    assert!(model.run().is_err(), "two threads keep up to 800 pages");
}

#[test]
fn pages_that_another_thread_unmaps_do_not_come_back_hot() {
    let mut model = model(1, 2048);
    model.threads = vec![Work::passes(2, 2048)];
    model.zone = Zone { zeroed: 1.0, is_apart: true, high: 4096, ..model.zone };
    let hits = |model: &Model| model.run().unwrap().passes[1].1;
    assert_eq!(hits(&model), 0);
    (model.unmaps_apart, model.has_barrier) = (true, true);
    assert_eq!(hits(&model), 2048);
}
