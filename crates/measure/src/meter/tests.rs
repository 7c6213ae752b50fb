use super::*;
use sched::{Action, Input, Reservation, Wake};
use trace::Durations;

const CPU: CpuId = CpuId::new(0);
const A: EntityId = EntityId::new(0, 0);
const B: EntityId = EntityId::new(1, 0);

fn ms(ms: u64) -> Instant {
    Instant::at_ns(ms * 1_000_000)
}

fn reserved(slice: u64, period: u64) -> Params {
    let (slice, period) = (Nanos::ms(slice), Nanos::ms(period));
    let reservation = Reservation::new(slice, period);
    Params { reservation: Some(reservation), ..Params::default() }
}

fn attach(entity: EntityId, params: Params) -> Event {
    Event::Attach { entity, name: entity.to_string(), params: Box::new(params) }
}

fn wake(entity: EntityId) -> Event {
    Event::Input(Input::Wake { entity, why: Wake::Timer })
}

fn run(entity: EntityId) -> Event {
    Event::Action(Action::Run { cpu: CPU, entity, until: Instant::NEVER })
}

fn stop(entity: EntityId) -> Event {
    Event::Action(Action::Stop { cpu: CPU, entity })
}

fn measure(events: impl IntoIterator<Item = (u64, Event)>) -> Meter {
    let mut meter = Meter::new();
    for (at, event) in events {
        meter.record(ms(at), &event);
    }
    meter
}

#[test]
fn a_promise_is_judged_by_what_was_delivered_in_each_period_of_steady_demand() {
    let meter = measure([
        (5, attach(A, reserved(3, 10))), // Periods end at 15, 25, 35 and 45 ms.
        (5, wake(A)),
        (5, run(A)),
        (8, stop(A)), // 3 ms in the first period: kept.
        (16, run(A)),
        (18, stop(A)), // 2 ms in the second period: a miss by 1 ms.
        (26, run(A)),
        (27, Event::Input(Input::Block { cpu: CPU })), // The entity sleeps in the third period, which is not evaluated.
        (27, stop(A)),
        (33, wake(A)),
        (36, Event::Action(Action::Held { entity: A, reasons: 4 })), // No CPU time in the fourth period: 3 ms missing.
        (46, Event::Action(Action::Held { entity: A, reasons: 0 })),
        (50, Event::End),
    ]);
    let got = &meter.members()[0].got;
    let promise = &got.promise;
    assert_eq!((promise.periods, promise.judged, promise.misses), (4, 3, 2));
    assert_eq!((promise.worst_shortfall(), promise.shortfalls.total()), (Nanos::ms(3), Nanos::ms(4)));
    assert_eq!(promise.worst_debt, Nanos::ms(1), "what was due after it slept is no debt");
    assert_eq!((got.delivered, got.held), (Nanos::ms(6), Nanos::ms(10)));
}

#[test]
fn many_periods_between_two_events_are_judged_as_if_one_by_one() {
    for (running, slept) in [(true, false), (false, false), (false, true)] {
        let mut events = vec![(3, attach(A, reserved(1, 2)))];
        if !slept {
            events.push((3, wake(A)));
        }
        if running {
            events.push((3, run(A)));
        }
        let mut stepwise = events.clone();
        // An event without a change of state makes the meter account for the time until this event.
        stepwise.extend((4..1_000).map(|at| (at, Event::Adjust { entity: A, params: Box::new(reserved(1, 2)) })));
        let promise = |mut events: Vec<(u64, Event)>| {
            events.push((1_000, Event::End));
            measure(events).members()[0].got.promise.clone()
        };
        assert_eq!(promise(events.clone()), promise(stepwise));
        assert_eq!(promise(events).judged, if slept { 0 } else { 498 });
    }
}

#[test]
fn a_wait_lasts_from_waking_or_displacement_to_running() {
    let meter = measure([
        (0, attach(A, Params::default())),
        (0, attach(B, Params::default())),
        (0, wake(A)),
        (0, run(A)),
        (2, wake(B)),
        (6, stop(A)),
        (6, run(B)),
        (7, Event::Input(Input::Block { cpu: CPU })),
        (7, stop(B)),
        (7, run(A)),
        (9, Event::End),
    ]);
    let [a, b] = meter.members() else { panic!("two were there") };
    assert_eq!((a.got.waits.count(), a.got.waits.longest()), (2, Nanos::ms(1)), "0 at first, then 1 ms");
    assert_eq!((b.got.waits.count(), b.got.waits.longest()), (1, Nanos::ms(4)));
    assert_eq!((a.got.preemptions, b.got.preemptions, a.got.dispatches), (1, 0, 2));
    assert_eq!((a.got.delivered, b.got.delivered), (Nanos::ms(8), Nanos::ms(1)));
    assert_eq!(meter.total().delivered, Nanos::ms(9));
}

#[test]
fn jobs_that_are_late_when_the_run_ends_are_counted_apart() {
    let release = |deadline| Event::Release { entity: A, deadline: ms(deadline) };
    let meter = measure([
        (0, attach(A, Params::default())),
        (0, release(10)),
        (0, wake(A)),
        (0, run(A)),
        (10, release(20)),
        (13, Event::Complete { entity: A }),
        (20, release(30)),
        (25, Event::End),
    ]);
    let jobs = Jobs { releases: 3, completions: 1, misses: 1, unfinished_late: 1, worst_lateness: Nanos::ms(3) };
    assert_eq!(meter.members()[0].got.jobs, jobs);
    assert_eq!(meter.members()[0].got.dispatches, 2, "the second job began when the first was done");
}

#[test]
fn a_group_is_the_sum_of_its_members_and_subgroups() {
    let (above, below) = (GroupId::new(1, 0), GroupId::new(2, 0));
    let group = |group, parent, name: &str| Event::GroupCreated {
        group,
        parent,
        name: name.to_string(),
        params: Box::new(sched::GroupParams::default()),
    };
    let meter = measure([
        (0, group(above, GroupId::ROOT, "tenant")),
        (0, group(below, above, "vm")),
        (0, attach(A, Params { group: above, ..Params::default() })),
        (0, attach(B, Params { group: below, ..Params::default() })),
        (0, wake(A)),
        (0, wake(B)),
        (0, run(A)),
        (3, stop(A)),
        (3, run(B)),
        (4, Event::End),
    ]);
    let sums: Vec<_> = meter.groups().into_iter().map(|(_, name, got)| (name, got.delivered)).collect();
    assert_eq!(sums, [("tenant".to_string(), Nanos::ms(4)), ("vm".to_string(), Nanos::ms(1))]);
}

#[test]
fn an_index_that_is_used_again_is_another_entity() {
    let again = EntityId::new(0, 1);
    let meter = measure([
        (0, attach(A, Params::default())),
        (0, wake(A)),
        (0, run(A)),
        (4, Event::Detach { entity: A }),
        (4, attach(again, Params::default())),
        (4, wake(again)),
        (4, stop(A)),
        (4, run(again)),
        (5, Event::End),
    ]);
    let delivered: Vec<_> = meter.members().iter().map(|it| (it.got.delivered, it.left)).collect();
    assert_eq!(delivered, [(Nanos::ms(4), Some(ms(4))), (Nanos::ms(1), None)]);
    assert_eq!(meter.members()[0].got.preemptions, 0);
}

/// The driver reports the periods. A change counts from its instant to the first whole period with the new slice, and
/// the periods before the change still count.
#[test]
fn a_change_is_effective_with_the_first_reported_period_of_the_new_slice() {
    let mut meter = Meter::new();
    let period = |due, delivered, throughout| Event::Period {
        entity: A,
        due: Nanos::ms(due),
        delivered: Nanos::ms(delivered),
        throughout,
    };
    for (at, event) in [
        (0, attach(A, reserved(9, 20))),
        (20, period(9, 9, true)),
        (30, Event::Adjust { entity: A, params: Box::new(reserved(5, 10)) }),
        (40, period(5, 5, false)),
        (50, period(5, 4, true)),
        (60, period(5, 5, true)),
        (70, period(5, 5, true)),
        (80, Event::End),
    ] {
        meter.record(ms(at), &event);
    }
    let promise = &meter.members()[0].got.promise;
    assert_eq!((promise.periods, promise.misses), (5, 1));
    assert_eq!((promise.changes.count(), promise.changes.longest()), (1, Nanos::ms(30)));
}

/// The end of a slice is late by some microseconds, and the driver deducts them from the next slice. The period in which
/// the slice changes delivers a part of the new slice.
#[test]
fn a_change_is_effective_in_a_period_whose_slice_was_partly_delivered_before() {
    let mut meter = Meter::new();
    let period = |due, delivered| Event::Period {
        entity: A,
        due: Nanos::us(due),
        delivered: Nanos::us(delivered),
        throughout: true,
    };
    for (at, event) in [
        (0, attach(A, reserved(4, 10))),
        (10, period(4_000, 4_010)),
        (15, Event::Adjust { entity: A, params: Box::new(reserved(5, 10)) }),
        (20, period(4_490, 4_510)),
        (30, period(4_980, 4_970)),
        (40, period(5_000, 5_010)),
        (50, Event::Adjust { entity: A, params: Box::new(reserved(6, 10)) }),
        (60, period(5_990, 6_010)),
        (70, Event::End),
    ] {
        meter.record(ms(at), &event);
    }
    let changes = &meter.members()[0].got.promise.changes;
    assert_eq!((changes.count(), changes.longest(), changes.percentile(1)), (2, Nanos::ms(25), Nanos::ms(10)));
}

/// A driver measures CPU time. Of 10 ms on its CPU, the entity used 9 ms. A further 2 ms were background CPU time.
#[test]
fn measured_time_counts_instead_of_the_clock() {
    let mut meter = Meter::new();
    let period = |delivered, throughout| Event::Period {
        entity: A,
        due: Nanos::ms(9),
        delivered: Nanos::ms(delivered),
        throughout,
    };
    for (at, event) in [
        (0, attach(A, reserved(9, 20))),
        (0, Event::Input(Input::Wake { entity: A, why: Wake::Resumed })),
        (0, Event::Action(Action::Run { cpu: CPU, entity: A, until: ms(20) })),
        (10, Event::Input(Input::Ran { cpu: CPU, time: Nanos::ms(9) })),
        (10, Event::Action(Action::Stop { cpu: CPU, entity: A })),
        (12, Event::Background { entity: A, time: Nanos::ms(2) }),
        (20, period(9, true)),
        (40, period(8, true)),
        (40, Event::Kept { entity: A, kept: false, missed: 1, of: 2 }),
        (50, Event::Kept { entity: A, kept: true, missed: 1, of: 2 }),
        (60, period(0, false)),
        (65, Event::Kept { entity: A, kept: false, missed: 1, of: 2 }),
        (70, Event::End),
    ] {
        meter.record(ms(at), &event);
    }
    let got = &meter.members()[0].got;
    assert_eq!(got.delivered, Nanos::ms(11));
    let promise = &got.promise;
    assert_eq!((promise.periods, promise.judged, promise.misses), (3, 2, 1));
    assert_eq!(promise.worst_shortfall(), Nanos::ms(1));
    assert_eq!((promise.breaches, promise.first_breach), (2, Some(ms(40))));
}

#[test]
fn wake_ups_are_those_waits_that_begin_asleep() {
    let meter = measure([
        (0, attach(A, Params::default())),
        (0, wake(A)),
        (2, run(A)),
        (3, stop(A)), // A wait, but no wake-up.
        (8, run(A)),
        (9, Event::Input(Input::Block { cpu: CPU })),
        (9, stop(A)),
        (20, wake(A)),
        (21, run(A)),
        (22, Event::Input(Input::Block { cpu: CPU })),
        (22, stop(A)),
        (30, wake(A)),
        (34, Event::Input(Input::Pause { entity: A })), // The wake-up had no effect.
        (40, Event::End),
    ]);
    let got = &meter.members()[0].got;
    assert_eq!((got.waits.count(), got.waits.longest()), (4, Nanos::ms(5)));
    assert_eq!((got.wakeups.count(), got.wakeups.total()), (2, Nanos::ms(3)));
}

#[test]
fn an_entity_that_reports_its_wake_ups_is_believed() {
    let woke = |late| Event::Woke { entity: A, late: Nanos::us(late) };
    let release = |deadline| Event::Release { entity: A, deadline: ms(deadline) };
    let meter = measure([
        (0, attach(A, Params::default())),
        (0, release(10)),
        (0, woke(70)),
        (1, wake(A)),
        (1, run(A)),
        (4, Event::Complete { entity: A }),
        (5, Event::Input(Input::Block { cpu: CPU })), // The block is reported 1 ms after it happened.
        (5, stop(A)),
        (10, release(20)),
        (10, woke(90)),
        (11, wake(A)),
        (11, run(A)),
        (12, release(22)),
        (14, Event::Complete { entity: A }),
        (15, Event::Complete { entity: A }),
        (20, Event::End),
    ]);
    let got = &meter.members()[0].got;
    assert_eq!((got.wakeups.count(), got.wakeups.total()), (2, Nanos::us(160)));
    assert_eq!((got.jobs.completions, got.dispatches, got.preemptions), (3, 3, 0));
}

fn freeze() -> Event {
    Event::Input(Input::Freeze { cpu: CPU, preempted: false })
}

fn thaw() -> Event {
    Event::Input(Input::Thaw { cpu: CPU, stolen: Nanos::ZERO })
}

#[test]
fn time_on_a_frozen_cpu_is_stolen_and_not_delivered() {
    let meter = measure([
        (0, attach(A, Params::default())),
        (0, attach(B, Params::default())),
        (0, wake(A)),
        (0, run(A)),
        (2, freeze()),
        (3, wake(B)), // `B` waits for the CPU: steal time counts for `A` alone.
        (7, thaw()),
        (8, stop(A)),
        (8, run(B)),
        (9, Event::Input(Input::Block { cpu: CPU })),
        (9, stop(B)),
        (9, freeze()), // No task is on the CPU, which has halted.
        (10, thaw()),
        (10, run(A)),
        (11, freeze()),
        (15, Event::End),
    ]);
    let [a, b] = meter.members() else { panic!("two were there") };
    assert_eq!((a.got.delivered, a.got.stolen), (Nanos::ms(4), Nanos::ms(9)));
    assert_eq!((b.got.delivered, b.got.stolen), (Nanos::ms(1), Nanos::ZERO));
    assert_eq!(meter.cpus(), [CpuMeasures { freezes: 2, stolen: Nanos::ms(9) }]);
    assert_eq!(meter.total().stolen, Nanos::ms(9));
    // A freeze begins no wait: `A` waited for 0 ms at first, then from 8 to 10 ms.
    assert_eq!((a.got.waits.count(), a.got.waits.total()), (2, Nanos::ms(2)));
    assert_eq!((b.got.waits.count(), b.got.waits.total()), (1, Nanos::ms(5)));
}

#[test]
fn a_wake_up_ends_when_its_task_really_runs() {
    for (early, late) in [(run(A), freeze()), (freeze(), run(A))] {
        let meter = measure([
            (0, attach(A, Params::default())),
            (10, wake(A)),
            (10, early), // `A` receives a CPU that freezes at the same instant, or is frozen already.
            (10, late),
            (14, thaw()),
            (15, freeze()),
            (17, thaw()),
            (18, Event::Input(Input::Block { cpu: CPU })),
            (18, stop(A)),
            (20, Event::End),
        ]);
        let got = &meter.members()[0].got;
        assert_eq!((got.wakeups.count(), got.wakeups.total()), (1, Nanos::ms(4)));
        assert_eq!((got.waits.count(), got.waits.total()), (1, Nanos::ms(4)));
        assert_eq!((got.delivered, got.stolen), (Nanos::ms(2), Nanos::ms(6)));
    }
}

#[test]
fn an_entity_preempted_before_it_ran_still_waits_and_one_dispatched_for_no_time_has_run() {
    let meter = measure([
        (0, attach(A, Params::default())),
        (1, wake(A)),
        (2, run(A)),
        (2, stop(A)),
        (5, run(A)),
        (6, Event::Input(Input::Block { cpu: CPU })),
        (6, stop(A)),
        (7, wake(A)),
        (9, run(A)),
        (9, Event::Input(Input::Block { cpu: CPU })),
        (9, stop(A)),
        (10, Event::End),
    ]);
    let got = &meter.members()[0].got;
    assert_eq!((got.wakeups.count(), got.wakeups.total()), (2, Nanos::ms(6)));
}

#[test]
fn a_promise_is_not_kept_by_time_that_was_stolen() {
    let meter = measure([
        (0, attach(A, reserved(3, 10))),
        (0, wake(A)),
        (0, run(A)),
        (2, freeze()),
        (12, thaw()),
        (20, Event::End),
    ]);
    let promise = &meter.members()[0].got.promise;
    assert_eq!((promise.periods, promise.judged, promise.misses), (2, 2, 1));
    // At the end of the first period, 1 ms of the due time is missing.
    assert_eq!((promise.worst_shortfall(), promise.worst_debt), (Nanos::ms(1), Nanos::ms(1)));
}

#[test]
fn responses_last_from_release_to_completion_and_spinning_adds_up() {
    let release = |deadline| Event::Release { entity: A, deadline: ms(deadline) };
    let complete = || Event::Complete { entity: A };
    let spin = |us| Event::SpinWait { entity: A, waited: Nanos::us(us) };
    let group = GroupId::new(1, 0);
    let params = sched::GroupParams::default();
    let meter = measure([
        (0, Event::GroupCreated { group, name: "g".into(), parent: GroupId::ROOT, params: Box::new(params) }),
        (0, attach(A, Params { group, ..Params::default() })),
        (1, release(9)),
        (1, wake(A)),
        (1, run(A)),
        (2, release(3)), // Deadlines need not be in order; jobs are completed in the order of their release.
        (3, spin(30)),
        (4, complete()),
        (4, spin(12)),
        (9, complete()),
        (9, release(20)), // This job is not completed.
        (10, Event::End),
    ]);
    let (_, _, of_group) = &meter.groups()[0];
    for got in [&meter.members()[0].got, of_group] {
        let responses = &got.responses;
        assert_eq!((responses.count(), responses.total(), responses.longest()), (2, Nanos::ms(10), Nanos::ms(7)));
        assert_eq!((got.spins, got.spun), (2, Nanos::us(42)));
        assert_eq!(got.jobs.misses, 1);
    }
}

/// Each entity has open jobs, a reservation and a name. Its histograms are empty, because no value has been recorded.
/// The test deducts the size of four histograms.
#[test]
fn an_entity_takes_less_than_a_kibibyte_beside_its_histograms() {
    const ENTITIES: u32 = 4_096;
    let mut meter = Meter::new();
    let taken = allocation_counter::measure(|| {
        for index in 0..ENTITIES {
            let entity = EntityId::new(index, 0);
            let name = format!("a machine of one client/{index}");
            meter.record(ms(0), &Event::Attach { entity, name, params: Box::new(reserved(1, 10)) });
            meter.record(ms(0), &wake(entity));
            for job in 1..=3 {
                meter.record(ms(job * job), &Event::Release { entity, deadline: ms(50 + job * job) });
            }
        }
    });
    assert_eq!(meter.members().len(), 4_096);
    let histograms = 4 * size_of::<Durations>() as u64;
    let each = u64::try_from(taken.bytes_current).expect("it keeps something") / u64::from(ENTITIES) - histograms;
    assert!((200..1_024).contains(&each), "{each} bytes for each");
}

#[test]
fn an_event_that_changes_no_entity_still_shows_that_the_next_job_begins_at_once() {
    let kicked = Event::Input(Input::Kicked { cpu: CPU });
    let idle = [None, Some(Event::Action(Action::Kick { cpu: CPU })), Some(kicked), Some(Event::Settled)];
    for between in idle {
        let release = || Event::Release { entity: A, deadline: ms(9) };
        let mut meter = Meter::new();
        for event in [attach(A, Params::default()), release(), release(), wake(A), run(A)] {
            assert!(meter.take(ms(1), &event), "{event}");
        }
        assert!(meter.take(ms(2), &Event::Complete { entity: A }));
        assert!(between.iter().all(|event| !meter.take(ms(2), event)));
        assert!(meter.take(ms(2), &Event::Input(Input::Block { cpu: CPU })));
        assert_eq!(meter.members()[0].got.dispatches, if between.is_some() { 2 } else { 1 }, "{between:?}");
    }
}

#[test]
fn a_wake_up_before_the_first_report_is_a_wait_but_no_wake_up() {
    let block = || Event::Input(Input::Block { cpu: CPU });
    let times = |reports: bool| {
        let mut events = vec![(0, attach(A, Params::default())), (0, wake(A)), (2, run(A)), (3, block()), (3, stop(A))];
        if reports {
            events.push((3, Event::Woke { entity: A, late: Nanos::us(7) }));
        }
        events.extend([(4, wake(A)), (5, run(A)), (6, stop(A)), (9, run(A)), (10, Event::End)]);
        let meter = measure(events);
        let got = &meter.members()[0].got;
        (got.waits.count(), got.waits.total(), got.wakeups.count(), got.wakeups.total())
    };
    assert_eq!(times(false), (3, Nanos::ms(6), 2, Nanos::ms(3)));
    assert_eq!(times(true), (3, Nanos::ms(6), 1, Nanos::us(7)));
}
