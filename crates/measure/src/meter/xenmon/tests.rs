use super::*;
use sched::{Action, GroupParams, Input, Params, Wake};

const HOST: MachineId = MachineId(0);
const GUEST: MachineId = MachineId(1);
const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);
const A: EntityId = EntityId::new(0, 0);
const B: EntityId = EntityId::new(1, 0);
const T: EntityId = EntityId::new(2, 0);

fn ms(ms: u64) -> Instant {
    Instant::at_ns(ms * 1_000_000)
}

fn group(name: &str) -> Event {
    let (group, parent) = (GroupId::new(1, 0), GroupId::ROOT);
    Event::GroupCreated { group, name: name.to_string(), parent, params: Box::new(GroupParams::default()) }
}

fn attach(entity: EntityId, name: &str, group: GroupId) -> Event {
    Event::Attach { entity, name: name.to_string(), params: Box::new(Params { group, ..Params::default() }) }
}

fn wake(entity: EntityId) -> Event {
    Event::Input(Input::Wake { entity, why: Wake::Timer })
}

fn run(cpu: CpuId, entity: EntityId, until: u64) -> Event {
    Event::Action(Action::Run { cpu, entity, until: ms(until) })
}

/// Returns the events of a host and a guest. The host has task `ab` and VM `a`, whose two vCPUs are the CPUs of the
/// guest.
fn story() -> Vec<(MachineId, u64, Event)> {
    let vm = GroupId::new(1, 0);
    vec![
        (HOST, 0, group("a")),
        (HOST, 0, attach(A, "a/0", vm)),
        (HOST, 0, attach(B, "a/1", vm)),
        (HOST, 0, attach(T, "ab", GroupId::ROOT)),
        (HOST, 0, Event::Vcpu { entity: A, guest: GUEST, cpu: CPU }),
        (HOST, 0, Event::Vcpu { entity: B, guest: GUEST, cpu: OTHER }),
        (HOST, 0, wake(A)),
        (HOST, 0, wake(T)),
        (HOST, 0, run(CPU, A, 30)),
        (GUEST, 1, attach(A, "task", GroupId::ROOT)),
        (GUEST, 2, Event::Served { entity: A }),
        (HOST, 10, wake(B)),
        (HOST, 10, run(OTHER, B, 14)),
        (GUEST, 11, Event::Served { entity: A }),
        (HOST, 12, Event::Input(Input::Block { cpu: OTHER })),
        (HOST, 12, Event::Action(Action::Stop { cpu: OTHER, entity: B })),
        (HOST, 20, Event::Action(Action::Stop { cpu: CPU, entity: A })),
        (HOST, 20, Event::Action(Action::Run { cpu: CPU, entity: T, until: Instant::NEVER })),
        (HOST, 25, Event::Served { entity: T }),
        (HOST, 30, Event::Detach { entity: T }),
        (HOST, 30, Event::Action(Action::Stop { cpu: CPU, entity: T })),
        (HOST, 30, run(CPU, A, 40)),
        (HOST, 40, Event::End),
        (GUEST, 40, Event::End),
    ]
}

fn measured(from: u64, story: Vec<(MachineId, u64, Event)>) -> Vec<HostMeasures> {
    let mut monitor = XenMon::new(ms(from));
    story.iter().for_each(|(machine, at, event)| monitor.record(*machine, ms(*at), event));
    monitor.hosts()
}

fn got([there, cpu, waited, blocked, allocated]: [u64; 5], executions: u64, bounded: u64, io: u64) -> DomainMeasures {
    let [there, cpu, waited, blocked, allocated] = [there, cpu, waited, blocked, allocated].map(Nanos::ms);
    DomainMeasures { there, cpu, waited, blocked, executions, allocated, bounded, io }
}

#[test]
fn a_vm_is_a_domain_with_all_its_vcpus_and_a_task_is_one_of_its_own() {
    let hosts = measured(0, story());
    let domain = |name: &str, vcpus, got| Domain { name: name.to_string(), vcpus, got };
    // `a/0` runs from 0 to 20 ms and from 30 to 40 ms, and waits in between; `a/1` runs from 10 to 12 ms.
    let vm = domain("a", 2, got([80, 32, 10, 38, 44], 3, 3, 2));
    // The task is attached for 30 ms, and its time slice is unlimited.
    let task = domain("ab", 1, got([30, 10, 20, 0, 0], 1, 0, 1));
    assert_eq!(hosts, [HostMeasures { machine: HOST, domains: vec![vm, task], is_counted: false }]);
}

#[test]
fn what_is_before_the_end_of_the_warm_up_is_not_counted() {
    let hosts = measured(11, story());
    let domains = &hosts[0].domains;
    // Of an entity that runs when the warm-up ends, only the later CPU time counts; the execution does not count. An
    // I/O event at the end of the warm-up counts.
    assert_eq!(domains[0].got, got([58, 20, 10, 28, 10], 1, 1, 1));
    assert_eq!(domains[1].got, got([19, 10, 9, 0, 0], 1, 0, 1));
    let late = measured(35, story());
    assert_eq!(late[0].domains[1].got, DomainMeasures::default());
}

#[test]
fn an_entity_whose_index_is_used_again_keeps_its_time() {
    let again = EntityId::new(2, 1);
    let mut story = story();
    let end = story.split_off(story.len() - 2);
    story.push((HOST, 32, attach(again, "ab", GroupId::ROOT)));
    // `T` is detached, and its index now belongs to another entity, so this wake-up changes nothing.
    story.push((HOST, 33, wake(T)));
    story.push((HOST, 35, wake(again)));
    story.extend(end);
    let hosts = measured(0, story);
    assert_eq!(hosts[0].domains[1].vcpus, 2);
    assert_eq!(hosts[0].domains[1].got, got([38, 10, 25, 3, 0], 1, 0, 1));
}

#[test]
fn hosts_are_told_apart_and_guests_are_none() {
    let mut story = story();
    story.insert(0, (MachineId(2), 0, attach(A, "alone", GroupId::ROOT)));
    story.push((MachineId(2), 40, Event::End));
    let hosts = measured(0, story);
    assert_eq!(hosts.iter().map(|host| host.machine).collect::<Vec<_>>(), [HOST, MachineId(2)]);
    assert_eq!(hosts[1].domains[0].got, got([40, 0, 0, 40, 0], 0, 0, 0));
}

#[test]
#[should_panic(expected = "time of a is lost, or counted twice")]
fn time_that_is_counted_twice_is_found() {
    let mut monitor = XenMon::new(Instant::ZERO);
    for (machine, at, event) in story() {
        if at == 40
            && let Some(host) = monitor.machines.get_mut(&HOST)
        {
            host.find(A).expect("it is there").upto = ms(25);
        }
        monitor.record(machine, ms(at), &event);
    }
}

#[test]
fn a_slice_that_follows_another_at_once_is_an_execution() {
    let slice = |until| (HOST, 0, Event::Action(Action::Extend { cpu: CPU, until: ms(until) }));
    let at = |at, (machine, _, event): (MachineId, u64, Event)| (machine, at, event);
    let story = vec![
        (HOST, 0, attach(T, "ab", GroupId::ROOT)),
        (HOST, 0, wake(T)),
        (HOST, 0, run(CPU, T, 10)),
        // The entity receives more time while it runs: no new execution.
        at(5, slice(15)),
        (HOST, 15, Event::Input(Input::Expire { cpu: CPU })),
        at(15, slice(30)),
        at(20, slice(40)),
        (HOST, 40, Event::End),
    ];
    let [HostMeasures { domains, .. }] = &measured(0, story)[..] else { panic!("a host") };
    assert_eq!((domains[0].got.executions, domains[0].got.bounded), (2, 2));
    assert_eq!(domains[0].got.allocated, sched::Nanos::ms(10 + 15));
}

/// On a real host, a client also runs without being dispatched. The kernel counts this time, up to the time for which the
/// client waited or was blocked.
#[test]
fn time_without_a_dispatch_counts_as_cpu_time() {
    let mut monitor = XenMon::default();
    for (at, event) in [
        (0, attach(A, "a", GroupId::ROOT)),
        (0, wake(A)),
        (0, run(CPU, A, 10)),
        (10, Event::Action(Action::Stop { cpu: CPU, entity: A })),
        (20, Event::Background { entity: A, time: Nanos::ms(6) }),
        (30, Event::Background { entity: A, time: Nanos::ms(60) }),
        (40, Event::End),
    ] {
        monitor.record(HOST, ms(at), &event);
    }
    let hosts = monitor.hosts();
    let got = hosts[0].domains[0].got;
    assert!(hosts[0].is_counted);
    assert_eq!((got.cpu, got.waited, got.blocked), (Nanos::ms(30), Nanos::ms(10), Nanos::ZERO));
}
