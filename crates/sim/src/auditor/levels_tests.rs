//! Tests of [`WorldAuditor`]. Most tests change a few events of a correct trace.

use super::levels::WorldAuditor;
use super::{Promises, Rule};
use coordination::{Boost, Coordination, Protocol};
use sched::{Action, Alarm, AlarmOwner, CpuId, EntityId, Input, Instant, Nanos, Params, Topology, Wake};
use trace::{Event, MachineId, WorldSink};

const BELOW: MachineId = MachineId(0);
const ABOVE: MachineId = MachineId(1);
const CPU: CpuId = CpuId::new(0);
const VCPU: EntityId = EntityId::new(0, 0);
const TASK: EntityId = EntityId::new(0, 0);
const ALARM: Alarm = Alarm { owner: AlarmOwner::Cpu(CPU), slot: 0 };

fn attach(entity: EntityId) -> Event {
    Event::Attach { entity, name: "it".into(), params: Box::new(Params::default()) }
}

/// Returns a correct trace of a vCPU. The vCPU enters its guest at 2 us and loses its CPU at 10 us. The vCPU receives a
/// CPU again at 20 us, enters at 22 us and halts at 30 us. Its task runs from the first entry to the halt.
fn right() -> Vec<(u64, MachineId, Event)> {
    let run = |entity| Event::Action(Action::Run { cpu: CPU, entity, until: Instant::NEVER });
    let stop = |entity| Event::Action(Action::Stop { cpu: CPU, entity });
    vec![
        (0, BELOW, attach(VCPU)),
        (0, BELOW, Event::Vcpu { entity: VCPU, guest: ABOVE, cpu: CPU }),
        (0, ABOVE, Event::Input(Input::Freeze { cpu: CPU, preempted: false })),
        (0, ABOVE, attach(TASK)),
        (0, ABOVE, Event::Input(Input::Wake { entity: TASK, why: Wake::Timer })),
        (0, ABOVE, Event::Action(Action::Kick { cpu: CPU })),
        (0, ABOVE, Event::Action(Action::SetAlarm { alarm: ALARM, on: CPU, at: Instant::at_ns(15_000) })),
        (0, BELOW, Event::Input(Input::Wake { entity: VCPU, why: Wake::Interrupt })),
        (0, BELOW, run(VCPU)),
        (2, ABOVE, Event::Input(Input::Thaw { cpu: CPU, stolen: Nanos::ZERO })),
        (2, ABOVE, Event::Input(Input::Kicked { cpu: CPU })),
        (2, ABOVE, run(TASK)),
        (10, BELOW, stop(VCPU)),
        (10, ABOVE, Event::Input(Input::Freeze { cpu: CPU, preempted: false })),
        (20, BELOW, run(VCPU)),
        (22, ABOVE, Event::Input(Input::Thaw { cpu: CPU, stolen: Nanos::ZERO })),
        (22, ABOVE, Event::Input(Input::Alarm { alarm: ALARM })),
        (30, ABOVE, Event::Input(Input::Block { cpu: CPU })),
        (30, ABOVE, stop(TASK)),
        (30, ABOVE, Event::Input(Input::Freeze { cpu: CPU, preempted: false })),
        (30, BELOW, Event::Input(Input::Block { cpu: CPU })),
        (30, BELOW, stop(VCPU)),
        (40, BELOW, Event::End),
        (40, ABOVE, Event::End),
    ]
}

fn findings(events: &[(u64, MachineId, Event)]) -> Vec<Rule> {
    findings_of(events, None)
}

fn findings_of(events: &[(u64, MachineId, Event)], coordination: Option<Coordination>) -> Vec<Rule> {
    let mut auditor = WorldAuditor::new();
    auditor.add(Topology::new(1), Promises::NONE, &crate::Costs::NONE);
    auditor.add(Topology::new(1), Promises::NONE, &crate::Costs::NONE);
    coordination.into_iter().for_each(|with| auditor.coordinates(with));
    for (us, machine, event) in events {
        auditor.record(*machine, Instant::ZERO + Nanos::us(*us), event);
    }
    auditor.findings().into_iter().map(|(_, finding)| finding.rule).collect()
}

/// Returns the findings for the correct trace after `change`. `change` receives the events, and the index of the first
/// event that `which` selects.
fn instead(which: fn(&Event) -> bool, change: impl Fn(&mut Vec<(u64, MachineId, Event)>, usize)) -> Vec<Rule> {
    let mut events = right();
    let place = events.iter().position(|(_, _, event)| which(event)).expect("there is such an event");
    change(&mut events, place);
    findings(&events)
}

#[test]
fn what_is_right_is_found_right() {
    assert_eq!(findings(&right()), []);
}

#[test]
fn a_guest_that_goes_on_without_a_cpu_is_found() {
    // The guest's CPU thaws before its vCPU has a CPU.
    let early = instead(
        |event| matches!(event, Event::Action(Action::Run { .. })),
        |events, _| {
            let (_, machine, event) = events.remove(14);
            events.insert(16, (23, machine, event));
        },
    );
    assert!(early.contains(&Rule::Level), "{early:?}");
    // The guest's CPU does not freeze when its vCPU stops.
    let goes_on = instead(
        |event| matches!(event, Event::Action(Action::Stop { .. })),
        |events, place| drop(events.remove(place + 1)),
    );
    assert!(goes_on.contains(&Rule::Level) && goes_on.contains(&Rule::Law(13)), "{goes_on:?}");
}

#[test]
fn cpu_time_that_comes_from_nowhere_or_is_lost_is_found() {
    // The freeze reaches the guest a microsecond after the vCPU lost its CPU.
    let late =
        instead(|event| matches!(event, Event::Action(Action::Stop { .. })), |events, place| events[place + 1].0 = 11);
    assert_eq!(late, [Rule::Level, Rule::Level], "it goes on, and the sums differ");
    // The guest's CPU freezes a microsecond before its vCPU loses its CPU: no task receives that time.
    let lost = instead(
        |event| matches!(event, Event::Action(Action::Stop { .. })),
        |events, place| {
            events[place + 1].0 = 9;
            events.swap(place, place + 1);
        },
    );
    assert_eq!(lost, [Rule::Level]);
}

#[test]
fn nothing_goes_on_on_a_frozen_cpu() {
    let blocks =
        instead(|event| matches!(event, Event::Input(Input::Block { .. })), |events, place| events[place].0 = 15);
    assert_eq!(blocks, [Rule::Law(1), Rule::Law(1)], "time goes back, in the machine and in the world");
    let extra = instead(
        |event| matches!(event, Event::Input(Input::Freeze { .. })),
        |events, _| events.insert(14, (12, ABOVE, Event::Input(Input::Block { cpu: CPU }))),
    );
    assert!(extra.contains(&Rule::Law(13)), "{extra:?}");
    let twice = instead(
        |event| matches!(event, Event::Input(Input::Freeze { .. })),
        |events, place| events.insert(place, (0, ABOVE, Event::Input(Input::Freeze { cpu: CPU, preempted: false }))),
    );
    assert_eq!(twice, [Rule::Law(13)]);
}

#[test]
fn kicks_and_alarms_come_once_and_when_they_are_due() {
    let never = instead(
        |event| matches!(event, Event::Input(Input::Kicked { .. })),
        |events, place| drop(events.remove(place)),
    );
    assert!(never.is_empty(), "its CPU halts in the end, and would get it when it is back: {never:?}");
    let twice = instead(
        |event| matches!(event, Event::Input(Input::Kicked { .. })),
        |events, place| events.insert(place, (2, ABOVE, Event::Input(Input::Kicked { cpu: CPU }))),
    );
    assert_eq!(twice, [Rule::Delivery]);
    let late = instead(
        |event| matches!(event, Event::Input(Input::Kicked { .. })),
        |events, place| {
            events[place].0 = 3;
            events[place + 1].0 = 3;
        },
    );
    assert_eq!(late, [Rule::Delivery]);
    let late =
        instead(|event| matches!(event, Event::Input(Input::Alarm { .. })), |events, place| events[place].0 = 23);
    assert_eq!(late, [Rule::Delivery]);
    let frozen = instead(
        |event| matches!(event, Event::Input(Input::Alarm { .. })),
        |events, place| {
            events[place].0 = 15;
            events.swap(place, place - 1);
            events.swap(place - 1, place - 2);
        },
    );
    assert_eq!(frozen, [Rule::Law(13)]);
    // An alarm is overdue on a present CPU.
    let lost = instead(
        |event| matches!(event, Event::Input(Input::Alarm { .. })),
        |events, place| {
            events.remove(place);
            events.truncate(place);
            events.push((40, BELOW, Event::End));
            events.push((40, ABOVE, Event::End));
        },
    );
    assert_eq!(lost, [Rule::Delivery]);
}

/// Returns the correct trace with a boost from 5 to 25 us. The vCPU runs boosted for 5 us before it loses its CPU, and
/// for 5 us after it receives a CPU again.
fn boosted(boost: Boost) -> Vec<(u64, MachineId, Event)> {
    boosted_to(boost.over(Params::default()), Params::default())
}

/// Returns the correct trace with parameters `first` from 5 us on, and `then` from 25 us on.
fn boosted_to(first: Params, then: Params) -> Vec<(u64, MachineId, Event)> {
    let ask = |params: Params| Event::Adjust { entity: VCPU, params: Box::new(params) };
    let tell = |boosted| Event::Boosted { entity: VCPU, boosted };
    let mut events = right();
    for (at, event) in [(25, tell(false)), (25, ask(then)), (5, tell(true)), (5, ask(first))] {
        let place = events.iter().position(|(later, ..)| *later > at).expect("there are later ones");
        events.insert(place, (at, BELOW, event));
    }
    events
}

#[test]
fn a_vm_that_runs_boosted_for_longer_than_it_may_is_found() {
    let usual = Coordination::new(Protocol::RfcV1);
    let us = |budget, window, limit| Coordination {
        budget: Nanos::us(budget),
        window: Nanos::us(window),
        limit: Nanos::us(limit),
        ..usual
    };
    let events = boosted(usual.boost);
    let found = |with| findings_of(&events, Some(with));
    assert_eq!(found(us(10, 100, 10)), [], "that is what it may");
    assert_eq!(found(us(9, 100, 10)), [Rule::Boost], "its budget");
    assert_eq!(found(us(5, 15, 10)), [], "a window each");
    assert_eq!(found(us(4, 15, 10)), [Rule::Boost; 2], "too much in both");
    assert_eq!(found(us(10, 100, 9)), [Rule::Boost], "without letting go");
    let heavy = Boost::Weight(sched::Weight::nice(-20).expect("it is in range"));
    let with = Coordination { boost: heavy, ..us(9, 100, 10) };
    assert_eq!(findings_of(&boosted(heavy), Some(with)), [Rule::Boost]);
}

#[test]
fn a_vm_that_keeps_a_boost_is_found_and_one_that_is_urgent_for_good_is_not() {
    let with = Coordination::new(Protocol::RfcV1);
    let urgent = with.boost.over(Params::default());
    let found = |events: &[_]| findings_of(events, Some(with));
    assert_eq!(found(&boosted_to(urgent, Params::default())), []);
    assert_eq!(found(&boosted_to(urgent, urgent)), [Rule::Boost], "what it has then is not what was asked");
    // The end of the boost is reported, but the vCPU keeps the parameters of the boost.
    let mut events = boosted_to(urgent, Params::default());
    events.retain(|(at, _, event)| *at < 20 || !matches!(event, Event::Adjust { .. }));
    assert_eq!(found(&events), [Rule::Boost]);
    // Parameters that the user sets have no limit, even if they equal the parameters of a boost.
    let mut events = boosted_to(urgent, Params::default());
    events.retain(|(.., event)| !matches!(event, Event::Boosted { .. }));
    let none = Coordination { budget: Nanos::ns(1), ..with };
    assert_eq!(findings_of(&events, Some(none)), []);
}
