//! Valid and invalid traces, made by hand. Each rule must report its violation in an invalid trace, and no violation in
//! a valid trace.

use super::*;
use sched::{Action, CapBound, Conserving, CpuSet, Input, Limit, Quota, Reservation, Wake};

/// A trace under construction. Times are in milliseconds.
struct Script {
    auditor: Auditor,
}

const A: EntityId = EntityId::new(0, 0);
const B: EntityId = EntityId::new(1, 0);
const G: GroupId = GroupId::new(1, 0);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Nanos::ms(ms)
}

fn cpu(n: usize) -> CpuId {
    CpuId::new(n)
}

impl Script {
    fn new(cpus: usize, promises: Promises) -> Script {
        let mut script = Script { auditor: Auditor::new(Topology { cpus, smt: 1, llc: 2 }, promises) };
        for e in [A, B] {
            script.attach(e, Params::default());
        }
        script
    }

    fn say(&mut self, ms: u64, event: Event) -> &mut Script {
        self.auditor.record(at(ms), &event);
        self
    }

    fn attach(&mut self, entity: EntityId, params: Params) {
        let now = self.auditor.now;
        self.auditor.record(now, &Event::Attach { entity, name: entity.to_string(), params: Box::new(params) });
    }

    fn wake(&mut self, ms: u64, entity: EntityId) -> &mut Script {
        self.say(ms, Event::Input(Input::Wake { entity, why: Wake::Timer }))
    }

    fn run(&mut self, ms: u64, n: usize, entity: EntityId) -> &mut Script {
        self.say(ms, Event::Action(Action::Run { cpu: cpu(n), entity, until: Instant::NEVER }))
    }

    fn stop(&mut self, ms: u64, n: usize, entity: EntityId) -> &mut Script {
        self.say(ms, Event::Action(Action::Stop { cpu: cpu(n), entity }))
    }

    /// Returns the only broken rule and the number of its findings. `None`: no rule is broken. Panics if several rules
    /// are broken.
    fn broken(&self) -> Option<(Rule, u64)> {
        let verdict = self.auditor.verdict();
        let rule = verdict.findings().first()?.rule;
        assert!(verdict.findings().iter().all(|finding| finding.rule == rule), "{verdict}");
        Some((rule, verdict.count(rule)))
    }
}

fn cap(burst: Nanos) -> CapBound {
    CapBound { period: Nanos::ms(10), rounding: Nanos::ZERO, burst }
}

fn conserving(conserving: Conserving) -> Promises {
    Promises { conserving, ..Promises::NONE }
}

#[test]
fn an_honest_trace_is_clean() {
    let all = Promises {
        conserving: Conserving::Global { slack: Nanos::ZERO },
        allowance: Nanos::ZERO,
        starvation: Some(Nanos::ms(10)),
        limits: LimitTolerance { quota: Some(Nanos::ZERO), cap: Some(cap(Nanos::ZERO)) },
        deadlines: true,
        reservations: Some(Nanos::ZERO),
        gang_periods: true,
    };
    let mut script = Script::new(1, all);
    script
        .wake(1, A)
        .run(1, 0, A)
        .wake(2, B)
        .say(5, Event::Input(Input::Block { cpu: cpu(0) }))
        .stop(5, 0, A)
        .run(5, 0, B);
    script
        .say(6, Event::Input(Input::Expire { cpu: cpu(0) }))
        .say(6, Event::Action(Action::Extend { cpu: cpu(0), until: at(9) }));
    script.say(9, Event::Input(Input::Pause { entity: B })).stop(9, 0, B).say(20, Event::End);
    script.auditor.check_charge(A, Nanos::ms(4));
    script.auditor.check_charge(B, Nanos::ms(4));
    assert_eq!(script.broken(), None, "{}", script.auditor.verdict());
    assert_eq!(script.auditor.longest_wait(), Nanos::ms(3));
}

#[test]
fn an_entity_that_blocks_and_wakes_at_one_instant_may_go_on_or_move() {
    let mut script = Script::new(2, conserving(Conserving::Global { slack: Nanos::ZERO }));
    script.wake(0, A).run(0, 0, A).say(1, Event::Input(Input::Block { cpu: cpu(0) })).wake(1, A);
    script.say(1, Event::Action(Action::Extend { cpu: cpu(0), until: at(9) }));
    script.say(3, Event::Input(Input::Block { cpu: cpu(0) })).wake(3, A).stop(3, 0, A).run(3, 1, A);
    script.say(5, Event::End);
    script.auditor.check_charge(A, Nanos::ms(5));
    assert_eq!(script.broken(), None, "{}", script.auditor.verdict());
}

#[test]
fn law_1_slices_end_later_and_time_goes_on() {
    let mut script = Script::new(1, Promises::NONE);
    script.wake(2, A).say(2, Event::Action(Action::Run { cpu: cpu(0), entity: A, until: at(2) }));
    assert_eq!(script.broken(), Some((Rule::Law(1), 1)));
    script.say(1, Event::Input(Input::Block { cpu: cpu(0) }));
    assert_eq!(script.broken(), Some((Rule::Law(1), 2)));
}

#[test]
fn law_2_only_runnable_and_allowed_entities_run() {
    let mut script = Script::new(2, Promises::NONE);
    script.run(0, 0, A);
    assert_eq!(script.broken(), Some((Rule::Law(2), 1)), "it is blocked");
    let mut script = Script::new(2, Promises::NONE);
    let params = Params { affinity: CpuSet::one(cpu(1)), ..Params::default() };
    script.say(0, Event::Adjust { entity: A, params: Box::new(params) }).wake(0, A).run(0, 0, A);
    assert_eq!(script.broken(), Some((Rule::Law(2), 1)), "it may not run there");
    let mut script = Script::new(1, Promises::NONE);
    script
        .wake(0, A)
        .run(0, 0, A)
        .say(1, Event::Input(Input::Block { cpu: cpu(0) }))
        .say(1, Event::Action(Action::Extend { cpu: cpu(0), until: at(9) }));
    assert_eq!(script.broken(), Some((Rule::Law(2), 1)), "it goes on although it blocked");
}

#[test]
fn law_3_one_entity_to_a_cpu_and_one_cpu_to_an_entity() {
    let mut script = Script::new(2, Promises::NONE);
    script.wake(0, A).run(0, 0, A).run(1, 1, A);
    assert_eq!(script.broken(), Some((Rule::Law(3), 1)), "on two CPUs");
    let mut script = Script::new(2, Promises::NONE);
    script.wake(0, A).wake(0, B).run(0, 0, A).run(1, 0, B);
    assert_eq!(script.broken(), Some((Rule::Law(3), 1)), "two on a CPU");
    let mut script = Script::new(2, Promises::NONE);
    script.wake(0, A).run(0, 0, A).stop(1, 1, A);
    assert_eq!(script.broken(), Some((Rule::Law(3), 1)), "stopped elsewhere");
}

#[test]
fn law_5_charges_add_up() {
    let mut script = Script::new(1, Promises::NONE);
    script.wake(0, A).run(1, 0, A).say(4, Event::Input(Input::Block { cpu: cpu(0) })).stop(4, 0, A);
    script.auditor.check_charge(A, Nanos::ms(3));
    assert_eq!(script.broken(), None);
    script.auditor.check_charge(A, Nanos::ms(3) + Nanos::ns(1));
    assert_eq!(script.broken(), Some((Rule::Law(5), 1)));
}

#[test]
fn law_7_alarms_lie_in_the_future() {
    let mut script = Script::new(1, Promises::NONE);
    let alarm = sched::Alarm { owner: sched::AlarmOwner::Policy, slot: 0 };
    script.say(3, Event::Action(Action::SetAlarm { alarm, on: cpu(0), at: at(4) }));
    assert_eq!(script.broken(), None);
    script.say(3, Event::Action(Action::SetAlarm { alarm, on: cpu(0), at: at(3) }));
    assert_eq!(script.broken(), Some((Rule::Law(7), 1)));
}

#[test]
fn law_8_the_detached_are_not_mentioned() {
    let mut script = Script::new(1, Promises::NONE);
    script.wake(0, A).run(0, 0, A).say(1, Event::Detach { entity: A });
    let again = EntityId::new(0, 1);
    script.attach(again, Params::default());
    script.stop(1, 0, A);
    assert_eq!(script.broken(), None, "its stop may be told after it left");
    assert_eq!(script.auditor.cpu_time(again), Some(Nanos::ZERO), "a reused index starts anew");
    script.run(2, 0, A);
    assert_eq!(script.broken(), Some((Rule::Law(8), 1)));
}

#[test]
fn law_11_an_idle_cpu_is_seen_in_the_declared_scope_after_the_slack() {
    let slack = Nanos::ms(2);
    // Entity `A` ran on CPU 0 and waits. CPU `idle` idles meanwhile; every other CPU is busy.
    let judge = |scope: Conserving, idle: usize, until: u64| {
        let mut script = Script::new(4, conserving(scope));
        let busy: Vec<EntityId> = (2..6).map(|n| EntityId::new(n, 0)).collect();
        for (n, &e) in busy.iter().enumerate() {
            script.attach(e, Params::default());
            if n != idle && n != 0 {
                script.wake(0, e).run(0, n, e);
            }
        }
        script.wake(0, A).run(0, 0, A).stop(1, 0, A);
        if idle != 0 {
            script.wake(1, busy[0]).run(1, 0, busy[0]);
        }
        script.say(until, Event::End);
        script.broken().map(|(rule, _)| rule)
    };
    let law = Some(Rule::Law(11));
    for (scope, seen) in [
        (Conserving::Never, [None; 3]),
        (Conserving::PerCpu { slack }, [law, None, None]),
        (Conserving::Domain { slack }, [law, law, None]),
        (Conserving::Global { slack }, [law; 3]),
    ] {
        let found = [judge(scope, 0, 4), judge(scope, 1, 4), judge(scope, 2, 4)];
        assert_eq!(found, seen, "{scope:?}: on the CPU it ran on, under the same cache, elsewhere");
        assert_eq!(judge(scope, 0, 3), None, "{scope:?}: within the slack");
    }
}

#[test]
fn law_11_ignores_held_and_disallowed_entities() {
    let promises = conserving(Conserving::Global { slack: Nanos::ZERO });
    let mut script = Script::new(2, promises);
    script.wake(0, A).say(0, Event::Action(Action::Held { entity: A, reasons: 1 })).say(5, Event::End);
    assert_eq!(script.broken(), None);
    script.say(5, Event::Action(Action::Held { entity: A, reasons: 0 })).say(6, Event::End);
    assert_eq!(script.broken(), Some((Rule::Law(11), 1)), "released, it counts");
    let mut script = Script::new(2, promises);
    let params = Params { affinity: CpuSet::one(cpu(1)), ..Params::default() };
    script.say(0, Event::Adjust { entity: A, params: Box::new(params) });
    script.wake(0, B).run(0, 1, B).wake(1, A).say(2, Event::End);
    assert_eq!(script.broken(), None, "CPU 0 idles, but it is closed to it");
    script.say(2, Event::Adjust { entity: A, params: Box::new(Params::default()) }).say(3, Event::End);
    assert_eq!(script.broken(), Some((Rule::Law(11), 1)), "it may run there now");
}

#[test]
fn law_11_tells_each_breach_once_per_slack() {
    let mut script = Script::new(1, conserving(Conserving::Global { slack: Nanos::ms(10) }));
    script.wake(0, A);
    for ms in 1..35 {
        script.say(ms, Event::Action(Action::Kick { cpu: cpu(0) }));
    }
    assert_eq!(script.broken(), Some((Rule::Law(11), 3)));
}

#[test]
fn law_12_waits_end_within_the_bound() {
    let promises = Promises { starvation: Some(Nanos::ms(5)), ..Promises::NONE };
    let mut script = Script::new(1, promises);
    script.wake(0, A).run(5, 0, A).wake(6, B).say(11, Event::End);
    assert_eq!(script.broken(), None, "just within");
    script.say(17, Event::End);
    assert_eq!(script.broken(), Some((Rule::Law(12), 1)), "B waits since 11, when the clock was read");
    let mut script = Script::new(1, promises);
    script.wake(0, A).wake(0, B).run(0, 0, A);
    script.say(4, Event::Adjust { entity: B, params: Box::new(Params::default()) });
    script.stop(8, 0, A).run(8, 0, B);
    assert_eq!(script.broken(), None, "a change starts the clock anew");
    script
        .say(9, Event::Action(Action::Held { entity: A, reasons: 2 }))
        .say(30, Event::Action(Action::Held { entity: A, reasons: 0 }));
    script.stop(33, 0, B).run(33, 0, A);
    assert_eq!(script.broken(), None, "a held entity does not wait");
    script.run(39, 0, B);
    assert_eq!(script.auditor.verdict().count(Rule::Law(12)), 1, "from 33 to 39");
}

#[test]
fn quotas_hold_over_every_window() {
    let limits = LimitTolerance { quota: Some(Nanos::ZERO), cap: None };
    let quota = Quota::new(Nanos::ms(4), Nanos::ms(10)).expect("in range");
    let grouped = |runs: &[(u64, u64)]| {
        let mut script = Script::new(2, Promises { limits, ..Promises::NONE });
        let params = GroupParams { quota: Some(quota), ..GroupParams::default() };
        script.say(
            0,
            Event::GroupCreated { group: G, name: "g".into(), parent: GroupId::ROOT, params: Box::new(params) },
        );
        let inner = GroupId::new(2, 0);
        let free = GroupParams::default();
        script.say(0, Event::GroupCreated { group: inner, name: "inner".into(), parent: G, params: Box::new(free) });
        for (e, group) in [(A, G), (B, inner)] {
            let params = Box::new(Params { group, ..Params::default() });
            script.say(0, Event::Adjust { entity: e, params }).wake(0, e);
        }
        for &(from, to) in runs {
            script.run(from, 0, A).run(from, 1, B).stop(to, 0, A).stop(to, 1, B);
        }
        script.broken()
    };
    assert_eq!(grouped(&[(8, 10), (10, 12), (20, 22), (30, 32)]), None, "the end of one period, the start of the next");
    assert_eq!(grouped(&[(10, 12), (12, 16)]), Some((Rule::Limit, 1)), "12 ms in 6 ms");
    let often: Vec<(u64, u64)> = (0..20).map(|n| (n * 10, n * 10 + 3)).collect();
    assert_eq!(grouped(&often).map(|(rule, _)| rule), Some(Rule::Limit), "6 ms in every 10");
}

#[test]
fn caps_hold_in_percent_of_a_cpu() {
    let limits = LimitTolerance { quota: None, cap: Some(cap(Nanos::ms(30))) };
    let judge = |on: u64| {
        let mut script = Script::new(1, Promises { limits, ..Promises::NONE });
        let params = GroupParams { cap_percent: Some(50), ..GroupParams::default() };
        script.say(
            0,
            Event::GroupCreated { group: G, name: "g".into(), parent: GroupId::ROOT, params: Box::new(params) },
        );
        let params = Box::new(Params { group: G, ..Params::default() });
        script.say(0, Event::Adjust { entity: A, params }).wake(0, A);
        for n in 0..20 {
            script.run(n * 20, 0, A).stop(n * 20 + on, 0, A);
        }
        script.broken().map(|(rule, _)| rule)
    };
    assert_eq!(judge(10), None);
    assert_eq!(judge(13), Some(Rule::Limit));
}

#[test]
fn shares_are_judged_from_the_mark_on() {
    let weights = |a, b| [(A, Weight::xen(a).expect("a weight")), (B, Weight::xen(b).expect("a weight"))];
    let mut script = Script::new(1, Promises::NONE);
    script.wake(0, A).wake(0, B).run(0, 0, B).stop(50, 0, B).run(50, 0, A);
    script.auditor.mark();
    script.stop(70, 0, A).run(70, 0, B).say(80, Event::End);
    script.auditor.check_shares(&weights(512, 256), Nanos::ms(30), Nanos::ms(1));
    assert_eq!(script.broken(), None, "20 ms and 10 ms");
    script.auditor.check_shares(&weights(256, 256), Nanos::ms(30), Nanos::ms(1));
    assert_eq!(script.broken(), Some((Rule::Share, 2)));
}

#[test]
fn jobs_that_are_late_are_counted() {
    let mut script = Script::new(1, Promises { deadlines: true, ..Promises::NONE });
    for deadline in [5, 10, 15] {
        script.say(0, Event::Release { entity: A, deadline: at(deadline) });
    }
    script.say(5, Event::Complete { entity: A });
    assert_eq!(script.broken(), None);
    script.say(12, Event::Complete { entity: A });
    assert_eq!(script.broken(), Some((Rule::Deadline, 1)));
    script.say(16, Event::End);
    let expected = JobCounts { released: 3, completed: 2, missed: 2, tardiness: Nanos::ms(2) };
    assert_eq!(script.auditor.jobs(A), Some(expected));
}

#[test]
fn reservations_are_judged_in_periods_the_entity_wants_throughout() {
    let judge = |runs: &[(u64, u64)], rests: Option<(u64, u64)>| {
        let mut script = Script::new(1, Promises { reservations: Some(Nanos::ZERO), ..Promises::NONE });
        let reservation = Reservation {
            slice: Nanos::ms(3),
            period: Nanos::ms(10),
            deadline: None,
            start: Some(at(10)),
            limit: Limit::Soft,
        };
        let e = EntityId::new(2, 0);
        script.attach(e, Params { reservation: Some(reservation), ..Params::default() });
        script.wake(1, e);
        // The events are recorded in order of time.
        for ms in 1..=50 {
            if runs.iter().any(|&(_, to)| to == ms) {
                script.stop(ms, 0, e);
            }
            match rests {
                Some((from, _)) if from == ms => drop(script.say(ms, Event::Input(Input::Pause { entity: e }))),
                Some((_, to)) if to == ms => drop(script.wake(ms, e)),
                _ => {}
            }
            if runs.iter().any(|&(from, _)| from == ms) {
                script.run(ms, 0, e);
            }
        }
        script.say(50, Event::End);
        (script.broken().map(|(_, count)| count), script.auditor.periods(e).expect("it has a reservation"))
    };
    let counts = |judged, missed, ms| PeriodCounts { judged, missed, shortfall: Nanos::ms(ms) };
    let kept = [(10, 13), (27, 33), (47, 50)];
    assert_eq!(judge(&kept, None), (None, counts(4, 0, 0)), "a slice in each of four periods");
    let (found, periods) = judge(&[(10, 13), (27, 32)], None);
    assert_eq!(
        (found, periods.missed, periods.shortfall),
        (Some(1), 2, Nanos::ms(3)),
        "1 lacks from 30 to 40, 3 from 40 to 50: told at once"
    );
    assert_eq!(judge(&[(10, 13), (27, 32)], Some((35, 45))), (None, counts(2, 0, 0)), "it rested in both");
}

/// Shared periods of a gang begin at the attachment of its first member. Otherwise, the periods of each entity begin at
/// its wake-up.
#[test]
fn members_of_a_gang_are_judged_in_shared_periods() {
    for (gang, gang_periods) in [(true, true), (true, false), (false, true)] {
        let promises = Promises { reservations: Some(Nanos::ZERO), gang_periods, ..Promises::NONE };
        let mut script = Script::new(2, promises);
        let group = G;
        let params = Box::new(GroupParams { gang, ..GroupParams::default() });
        script.say(0, Event::GroupCreated { group, name: "g".into(), parent: GroupId::ROOT, params });
        let reservation = Some(Reservation::new(Nanos::ms(3), Nanos::ms(10)));
        let params = Params { reservation, group, ..Params::default() };
        let (first, second) = (EntityId::new(2, 0), EntityId::new(3, 0));
        script.attach(first, params);
        // `first` receives its slice in the shared periods from 10 and 20 ms. In its own period from 14 ms, `first`
        // lacks 3 ms.
        script.wake(4, first).run(10, 0, first).stop(13, 0, first);
        script.say(15, Event::Attach { entity: second, name: "second".into(), params: Box::new(params) });
        script.wake(15, second).run(27, 0, first).run(27, 1, second);
        // `second` receives its slice in the shared period from 20 ms. In its own period from 15 ms, `second` lacks 3
        // ms.
        script.stop(30, 0, first).stop(30, 1, second).say(30, Event::End);
        let periods = [first, second].map(|e| script.auditor.periods(e).expect("it has a reservation"));
        let shared = PeriodCounts { judged: 2, missed: 0, shortfall: Nanos::ZERO };
        let own = PeriodCounts { judged: 2, missed: 1, shortfall: Nanos::ms(3) };
        if gang && gang_periods {
            assert_eq!(periods, [shared, PeriodCounts { judged: 1, ..shared }]);
        } else {
            assert_eq!(periods, [own, PeriodCounts { judged: 1, ..own }]);
        }
    }
}

#[test]
fn the_first_findings_are_kept_and_all_are_counted() {
    let mut script = Script::new(1, Promises::NONE);
    for _ in 0..100 {
        script.auditor.check_charge(A, Nanos::ms(1));
    }
    let verdict = script.auditor.verdict();
    assert_eq!((verdict.findings().len(), verdict.count(Rule::Law(5))), (20, 100));
    assert!(verdict.to_string().starts_with("law 5 100×\n  law 5 at 0s: e0 was charged 1ms but ran 0s\n"), "{verdict}");
}
