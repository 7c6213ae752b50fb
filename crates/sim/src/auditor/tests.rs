use super::*;
use sched::{GroupId, GroupParams, Quota, Wake};

const E: EntityId = EntityId::new(0, 0);
const F: EntityId = EntityId::new(1, 0);

fn expected() -> Expected {
    Expected {
        conserving: Conserving::Global { slack: Nanos::ms(1) },
        starvation: Some(Nanos::ms(100)),
        quotas: true,
        caps: true,
        late: Nanos::ZERO,
    }
}

/// What the auditor says of a run on two CPUs: pairs of milliseconds and events.
fn judge(events: &[(u64, Event)]) -> Vec<u8> {
    let mut auditor = Auditor::new(Host::new(2), expected());
    for (ms, event) in events {
        auditor.record(Instant::ZERO + Nanos::ms(*ms), event);
    }
    auditor.findings().iter().map(|finding| finding.law).collect()
}

fn attach(entity: EntityId, params: Params) -> Event {
    Event::Attach { entity, name: entity.to_string(), params: Box::new(params) }
}

fn wake(entity: EntityId) -> Event {
    Event::Wake { entity, why: Wake::Timer }
}

fn run(cpu: usize, entity: EntityId) -> Event {
    Event::Run { cpu: CpuId::new(cpu), entity, until: Instant::NEVER }
}

fn stop(cpu: usize, entity: EntityId) -> Event {
    Event::Stop { cpu: CpuId::new(cpu), entity }
}

fn plain(entity: EntityId) -> Event {
    attach(entity, Params::default())
}

#[test]
fn a_lawful_run_has_no_findings() {
    let block = Event::Block { cpu: CpuId::new(0) };
    let events = [
        (0, plain(E)),
        (0, wake(E)),
        (0, run(0, E)),
        (5, block),
        (5, stop(0, E)),
        (300, wake(E)),
        (301, run(1, E)),
        (400, Event::End),
    ];
    assert_eq!(judge(&events), [0_u8; 0]);
}

#[test]
fn an_idle_cpu_while_somebody_waits_breaks_law_11() {
    assert_eq!(judge(&[(0, plain(E)), (0, wake(E)), (2, run(0, E))]), [11, 11], "both idled");
    let elsewhere = Params { affinity: CpuSet::one(CpuId::new(1)), ..Params::default() };
    let busy = [(0, plain(F)), (0, wake(F)), (0, run(1, F)), (0, attach(E, elsewhere)), (0, wake(E)), (50, Event::End)];
    assert_eq!(judge(&busy), [0_u8; 0], "CPU 0 may not run who waits");
    let held = [(0, plain(E)), (0, wake(E)), (0, Event::Held { entity: E, reasons: 1 }), (50, Event::End)];
    assert_eq!(judge(&held), [0_u8; 0], "who is held does not wait");
}

#[test]
fn waiting_beyond_the_bound_breaks_law_12() {
    let both = [(0, plain(E)), (0, wake(E)), (0, run(0, E)), (0, plain(F)), (0, wake(F)), (0, run(1, F))];
    let third = EntityId::new(2, 0);
    let waits = [(0, plain(third)), (0, wake(third)), (101, Event::End)];
    assert_eq!(judge(&[&both[..], &waits[..]].concat()), [12]);
}

#[test]
fn running_twice_or_unasked_breaks_laws_2_and_3() {
    let ready = [(0, plain(E)), (0, wake(E)), (0, run(0, E))];
    assert_eq!(judge(&[&ready[..], &[(1, run(1, E))]].concat()), [3]);
    assert_eq!(judge(&[(0, plain(E)), (0, run(0, E))]), [2], "it was blocked");
    let only = Params { affinity: CpuSet::one(CpuId::new(1)), ..Params::default() };
    assert_eq!(judge(&[(0, attach(E, only)), (0, wake(E)), (0, run(0, E))]), [2], "it may not run there");
    assert_eq!(judge(&[(0, run(0, E))]), [8], "it is not attached");
}

#[test]
fn a_charge_that_differs_from_the_time_on_cpu_breaks_law_5() {
    let mut auditor = Auditor::new(Host::new(1), expected());
    for (ms, event) in [(0, plain(E)), (0, wake(E)), (0, run(0, E)), (7, stop(0, E))] {
        auditor.record(Instant::ZERO + Nanos::ms(ms), &event);
    }
    auditor.check_charged(E, Nanos::ms(7));
    assert_eq!(auditor.count(), 0);
    auditor.check_charged(E, Nanos::ms(6));
    assert_eq!(auditor.findings()[0].law, 5);
}

#[test]
fn more_than_the_quota_or_the_cap_is_found() {
    let group = GroupId::new(1, 0);
    let within = |params: GroupParams| {
        let created = Event::GroupCreated { group, name: "g".into(), parent: GroupId::ROOT, params };
        let member = attach(E, Params { group, ..Params::default() });
        judge(&[(0, created), (0, member), (0, wake(E)), (0, run(0, E)), (5_000, Event::End)])
    };
    let quota = |ms| Some(Quota::new(Nanos::ms(ms), Nanos::ms(100)).expect("it is in range"));
    assert_eq!(within(GroupParams { quota: quota(50), ..GroupParams::default() }), [0]);
    assert_eq!(within(GroupParams { quota: quota(100), ..GroupParams::default() }), [0_u8; 0]);
    assert_eq!(within(GroupParams { cap_percent: Some(40), ..GroupParams::default() }), [0]);
    assert_eq!(within(GroupParams { cap_percent: Some(100), ..GroupParams::default() }), [0_u8; 0]);
}

#[test]
fn shares_fill_up_whole_cpus_first() {
    assert_eq!(fair_shares(&[1, 1, 2], 1), [250_000, 250_000, 500_000]);
    assert_eq!(fair_shares(&[1, 1, 8], 2), [500_000, 500_000, 1_000_000]);
    assert_eq!(fair_shares(&[3, 1], 4), [1_000_000, 1_000_000]);
}
