//! Tests of a worked example of VSched §3, and of the knobs.

mod changes;

use super::POLICY;
use crate::fixture::{self, at_ms as at, host_with, reserving};
use sched::{Action, CpuId, EntityId, Instant, Knobs, Limit, Nanos, Params, Refused, Topology};
use sim::{Driver, Periodic, Workload};
use trace::{Event, Header, Trace};

fn knobs(words: &[(&str, &str)], values: &[(&str, i64)]) -> Knobs {
    fixture::knobs(&POLICY, words, values)
}

fn host<'a>(knobs: &Knobs) -> Driver<'a> {
    host_with(&POLICY, Topology::new(1), knobs)
}

/// Returns parameters with a soft reservation of `slice` ms in every `period` ms.
fn promise(period: u64, slice: u64) -> Params {
    reserving(Nanos::ms(slice), Nanos::ms(period), Limit::Soft)
}

/// Returns the runs on CPU 0, with their times in milliseconds. The letters `A`, `B` and so on name the entities in
/// order of attachment. Adjacent runs of one entity are merged.
fn turns(knobs: &Knobs, ms: u64, entities: &[(Params, Workload)]) -> String {
    let mut trace = Trace::new(Header { policy: "edf".into(), cpus: 1, seed: 0 });
    let mut host = host(knobs);
    host.watch(&mut trace);
    for (params, workload) in entities {
        host.attach("", *params, *workload).expect("it is admitted");
    }
    host.finish(at(ms));
    drop(host);
    let mut turns: Vec<(EntityId, u64, u64)> = Vec::new();
    for (at, event) in &trace.events {
        let now = at.as_ns() / 1_000_000;
        match event {
            Event::Action(Action::Run { entity, .. }) => match turns.last_mut() {
                Some(last) if last.0 == *entity && last.2 == now => last.2 = u64::MAX,
                _ => turns.push((*entity, now, u64::MAX)),
            },
            Event::Action(Action::Stop { .. }) | Event::End => {
                if let Some(last) = turns.last_mut().filter(|last| last.2 == u64::MAX) {
                    last.2 = now;
                }
            }
            _ => {}
        }
    }
    let letter = |e: EntityId| char::from(b'A' + u8::try_from(e.index()).expect("there are few"));
    turns.iter().map(|&(e, from, to)| format!("{} {from}-{to}", letter(e))).collect::<Vec<_>>().join(", ")
}

const HOG: Workload = Workload::Hog;

#[test]
fn the_worked_example_of_vsched() {
    let hard = knobs(&[("enforce", "hard")], &[]);
    let entities = [(promise(20, 5), HOG), (promise(50, 20), HOG)];
    assert_eq!(turns(&hard, 60, &entities), "A 0-5, B 5-20, A 20-25, B 25-30, A 40-45, B 50-60");
    // Soft: from 30 to 40 ms, `A` runs in unreserved time, which is not charged to its slice.
    assert_eq!(turns(&knobs(&[], &[]), 60, &entities), "A 0-5, B 5-20, A 20-25, B 25-30, A 30-45, B 45-60");
    for placement in ["partitioned", "global"] {
        let same = knobs(&[("enforce", "hard"), ("placement", placement)], &[]);
        assert_eq!(turns(&same, 60, &entities), turns(&hard, 60, &entities), "one CPU is one CPU");
    }
}

#[test]
fn admission_refuses_what_would_not_fit_and_leaves_the_set_unchanged() {
    let mut host = host(&knobs(&[("placement", "partitioned")], &[("reserve", 5)]));
    for params in [promise(20, 5), promise(50, 20)] {
        host.attach("", params, HOG).expect("0.25 + 0.40 fit below 0.95");
    }
    let refused = host.attach("c", promise(100, 40), HOG).expect_err("1.05 is above 0.95");
    assert!(matches!(refused, Refused::Utilisation { free_ppm: 300_000, on: Some(cpu), .. } if cpu == CpuId::new(0)));
    assert_eq!(refused.nearest_slice(), Some(Nanos::ms(30)));
    host.attach("c", promise(100, 30), HOG).expect("the nearest that fits, fits");
}

#[test]
fn a_soft_slice_leaves_its_entity_the_unreserved_time() {
    let entities = [(promise(20, 5), HOG), (Params::default(), HOG)];
    assert_eq!(turns(&knobs(&[], &[]), 40, &entities), "A 0-5, B 5-15, A 15-25, B 25-35, A 35-40");
    assert_eq!(turns(&knobs(&[("enforce", "hard")], &[]), 40, &entities), "A 0-5, B 5-20, A 20-25, B 25-40");
}

#[test]
fn timers_of_a_grain_end_slices_at_its_multiples() {
    let coarse = knobs(&[("enforce", "hard")], &[("grain", 10_000_000)]);
    // VSched §3.3: the error of a slice is at most the grain.
    assert_eq!(turns(&coarse, 60, &[(promise(20, 5), HOG)]), "A 0-10, A 20-30, A 40-50");
}

#[test]
fn an_overrun_is_forgotten_or_taken_from_the_next_slice() {
    let run = |late| {
        turns(&knobs(&[("enforce", "hard"), ("late", late)], &[("grain", 10_000_000)]), 80, &[(promise(20, 5), HOG)])
    };
    assert_eq!(run("renew"), "A 0-10, A 20-30, A 40-50, A 60-70");
    assert_eq!(run("carry"), "A 0-10, A 40-50", "the overrun of 5 ms takes the next slice");
}

#[test]
fn charged_by_the_wall_a_sleeper_loses_what_it_does_not_use() {
    // Every 10 ms, 2 ms of work arrive. The slice is 5 ms in every 20 ms.
    let sleeper = Workload::Periodic(Periodic::new(Nanos::ms(10), Nanos::ms(2)));
    let entities = [(promise(20, 5), sleeper), (Params::default(), HOG)];
    let by_cpu = turns(&knobs(&[("enforce", "hard")], &[]), 20, &entities);
    assert_eq!(by_cpu, "A 0-2, B 2-10, A 10-12, B 12-20", "4 ms of CPU time are within the slice");
    let by_wall = turns(&knobs(&[("enforce", "hard"), ("charge", "wall")], &[]), 20, &entities);
    assert_eq!(by_wall, "A 0-2, B 2-20", "the slice ended at 5, used or not");
}

#[test]
fn a_core_that_is_a_process_has_the_cpu_while_it_decides() {
    let mut decides = knobs(&[("enforce", "hard"), ("charge", "wall")], &[("decision", 1_000_000)]);
    // Decisions are made at the arrivals, at the ends of the slices of `A` and `B`, and at the end of each period. No
    // entity is charged for a decision.
    let entities = [(promise(20, 5), HOG), (promise(40, 8), HOG)];
    assert_eq!(turns(&decides, 40, &entities), "A 1-6, B 7-15, A 21-26");
    // A decision at the beginning of each period leaves exactly 19 ms of each 20 ms.
    assert_eq!(turns(&decides, 40, &[(promise(20, 18), HOG)]), "A 1-19, A 21-39");
    decides.set("reserve", 0).expect("edf has a reserve");
    assert_eq!(turns(&decides, 60, &[(promise(20, 20), HOG)]), "A 1-20, A 21-40, A 41-60");
    let blind = knobs(&[], &[("decision", 1)]);
    let why = (POLICY.build)(&Topology::new(1), &blind).err().map(|why| why.to_string());
    assert!(why.is_some_and(|why| why.contains("charge = wall")));
}

#[test]
fn without_enforcement_jobs_run_to_their_end_and_late_ones_keep_their_deadline() {
    let mut job = Periodic::new(Nanos::ms(10), Nanos::ms(6));
    job.end = sim::JobEnd::Yield;
    let entities = [
        (promise(10, 6), Workload::Periodic(job)),
        (promise(15, 6), { Workload::Periodic(Periodic { period: Nanos::ms(15), deadline: Nanos::ms(15), ..job }) }),
    ];
    // The deadlines are 10 ms (`A`), 15 ms (`B`), 20 ms (`A`), and 30 ms for both. Of the jobs with the deadline 30 ms,
    // the job of `A`, which has the lower index, runs first.
    assert_eq!(
        turns(&knobs(&[("enforce", "none")], &[]), 30, &entities),
        "A 0-6, B 6-12, A 12-18, B 18-20, A 20-26, B 26-30"
    );
}

#[test]
fn charging_by_the_wall_needs_slices_that_end_and_assigned_cpus() {
    let two = Topology::new(2);
    let build =
        |words: &[(&str, &str)]| (POLICY.build)(&two, &knobs(words, &[])).err().map(|refused| refused.to_string());
    assert!(build(&[("charge", "wall")]).is_some_and(|why| why.contains("placement = partitioned")));
    let neither = [("charge", "wall"), ("placement", "partitioned"), ("enforce", "none")];
    assert!(build(&neither).is_some_and(|why| why.contains("enforce = soft or hard")));
    assert_eq!(build(&[("charge", "wall"), ("placement", "partitioned")]), None);
}

#[test]
fn time_lost_to_an_interrupt_is_delivered_later() {
    use sched::{Input, Wake};
    let cpu = CpuId::new(0);
    let hard = knobs(&[("enforce", "hard"), ("placement", "partitioned"), ("late", "carry")], &[]);
    let mut machine = fixture::machine(&POLICY, 1, &hard);
    let e = machine.attach(at(0), promise(20, 5)).expect("it is admitted");
    machine.input(at(0), Input::Wake { entity: e, why: Wake::Resumed });
    assert!(machine.settle(at(0)).contains(&Action::Run { cpu, entity: e, until: at(5) }));
    // An interrupt takes 1 ms of the 5 ms.
    machine.input(at(5), Input::Ran { cpu, time: Nanos::ms(4) });
    machine.input(at(5), Input::Expire { cpu });
    assert!(machine.settle(at(5)).contains(&Action::Extend { cpu, until: at(6) }));
    // The entity stops 1 ms too late; the next slice is reduced by this millisecond.
    machine.input(at(7), Input::Ran { cpu, time: Nanos::ms(2) });
    machine.input(at(7), Input::Expire { cpu });
    assert!(machine.settle(at(7)).contains(&Action::Stop { cpu, entity: e }));
    assert_eq!((machine.charged(e), machine.inspect(e, "remaining")), (Nanos::ms(6), Some(-1_000_000)));
    assert!(machine.is_held(e));
    let alarm = machine.actions().iter().find_map(|action| match action {
        Action::SetAlarm { alarm, .. } => Some(*alarm),
        _ => None,
    });
    assert_eq!(alarm, None, "the end of its period has not changed");
    let alarm = sched::Alarm { owner: sched::AlarmOwner::Entity(e), slot: 0 };
    machine.input(at(20), Input::Alarm { alarm });
    assert!(machine.settle(at(20)).contains(&Action::Run { cpu, entity: e, until: at(24) }));
}

/// With `renew`, a new period begins at a wake-up if the remaining slice exceeds the entity's share of the rest of the
/// old period.
#[test]
fn with_renew_periods_follow_the_wake_ups() {
    use sched::{Input, Wake};
    let cpu = CpuId::new(0);
    let delivered = |rest: &str| {
        let knobs = knobs(&[("enforce", "hard"), ("placement", "partitioned"), ("rest", rest)], &[]);
        let mut machine = fixture::machine(&POLICY, 1, &knobs);
        let e = machine.attach(at(0), promise(10, 4)).expect("it is admitted");
        machine.input(at(0), Input::Wake { entity: e, why: Wake::Resumed });
        let _ = machine.settle(at(0));
        machine.input(at(1), Input::Block { cpu });
        let _ = machine.settle(at(1));
        // At 8 ms, 3 ms of the slice are left, but only 2 ms of the period.
        machine.input(at(8), Input::Wake { entity: e, why: Wake::Resumed });
        let _ = machine.settle(at(8));
        let show = |name| machine.inspect(e, name).expect("edf shows it");
        (show("remaining"), show("deadline"))
    };
    assert_eq!(delivered("keep"), (800_000, 10_000_000));
    assert_eq!(delivered("renew"), (4_000_000, 18_000_000));
}

/// A driver that is late lets an entity run past the end of its slice. A wake-up within the period brings no new slice.
#[test]
fn a_wake_up_after_an_overrun_begins_no_period() {
    use sched::{Input, Wake};
    for rest in ["keep", "renew"] {
        let knobs = knobs(&[("enforce", "hard"), ("placement", "partitioned"), ("rest", rest)], &[]);
        let mut machine = fixture::machine(&POLICY, 1, &knobs);
        let e = machine.attach(at(0), promise(10, 4)).expect("it is admitted");
        machine.input(at(0), Input::Wake { entity: e, why: Wake::Resumed });
        let _ = machine.settle(at(0));
        machine.input(at(5), Input::Block { cpu: CpuId::new(0) });
        let _ = machine.settle(at(5));
        machine.input(at(9), Input::Wake { entity: e, why: Wake::Resumed });
        let _ = machine.settle(at(9));
        let show = |name| machine.inspect(e, name).expect("edf shows it");
        let held = (show("remaining"), show("deadline"), machine.running(CpuId::new(0)));
        assert_eq!(held, (-1_000_000, 10_000_000, None), "{rest}");
    }
}

/// `rests`, with 5 ms in every 10 ms, wakes within its period, beside `runs`, with 2 ms in every 4 ms. As in CBS,
/// `rests` may begin a new period. Its deadline then moves as well, so no slice of `runs` is late.
#[test]
fn a_period_that_begins_anew_makes_no_entity_late() {
    let words = [("enforce", "hard"), ("placement", "partitioned"), ("rest", "renew")];
    let renew = knobs(&words, &[("reserve", 0)]);
    for phase in 0..10 {
        let mut meter = measure::Meter::new();
        let mut host = host(&renew);
        host.watch(&mut meter);
        let jobs = Periodic { phase: Nanos::ms(phase), ..Periodic::new(Nanos::ms(13), Nanos::ms(3)) };
        host.attach("rests", promise(10, 5), Workload::Periodic(jobs)).expect("it is admitted");
        host.attach("runs", promise(4, 2), HOG).expect("it is admitted");
        host.finish(Instant::ZERO + Nanos::s(1));
        drop(host);
        let runs = &meter.members()[1].got.promise;
        assert!(runs.judged > 200);
        assert_eq!(runs.misses, 0, "phase {phase}");
    }
}
