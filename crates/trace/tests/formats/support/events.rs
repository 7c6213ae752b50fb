//! Random events of every type. A sequence of these events need not be consistent.

use super::Random;
use sched::id::ENTITIES_MAX;
use sched::{
    Action, Alarm, AlarmOwner, Class, CpuId, CpuSet, EntityId, GroupId, GroupParams, Input, Instant, Limit, Nanos,
    Notice, Params, Quota, Reservation, RtPriority, Wake, Warp, Weight,
};
use trace::{Event, Header, MACHINES_MAX, MachineHeader, MachineId, Request, Trace, WorldHeader, WorldTrace};

/// Number of types of events.
pub const KINDS: u64 = 47;

const INDEX_MOST: u64 = ENTITIES_MAX as u64 - 1;
const GENERATION_MOST: u64 = u32::MAX as u64 - 1;

pub fn trace(random: &mut Random, length: usize) -> Trace {
    let cpus = 1 + random.index(1024);
    let mut trace = Trace::new(Header { policy: name(random), cpus, seed: random.number(u64::MAX) });
    let mut now = 0_u64;
    for _ in 0..length {
        now = if random.chance(500) { u64::MAX } else { now.saturating_add(random.below(1_000_000)) };
        let kind = random.below(KINDS);
        trace.events.push((Instant::at_ns(now), event(random, kind)));
    }
    trace
}

/// Returns a random trace of one to five machines.
pub fn world(random: &mut Random, length: usize) -> WorldTrace {
    let mut header = WorldHeader::default();
    for id in 0..1 + u32::try_from(random.below(5)).unwrap() {
        let cpus = 1 + random.index(1024);
        let of = Header { policy: name(random), cpus, seed: random.number(u64::MAX) };
        let host = (id > 0 && random.chance(2)).then(|| MachineId(u32::try_from(random.below(id.into())).unwrap()));
        header.machines.push(MachineHeader { name: name(random), header: of, host });
    }
    let mut world = WorldTrace::new(header);
    for (at, event) in trace(random, length).events {
        let machine = MachineId(u32::try_from(random.index(world.header.machines.len())).unwrap());
        world.events.push((machine, at, event));
    }
    world
}

fn entity(random: &mut Random) -> EntityId {
    let index = u32::try_from(random.number(INDEX_MOST)).unwrap();
    EntityId::new(index, u32::try_from(random.number(GENERATION_MOST)).unwrap())
}

fn group(random: &mut Random) -> GroupId {
    let index = u32::try_from(random.number(INDEX_MOST)).unwrap();
    GroupId::new(index, u32::try_from(random.number(GENERATION_MOST)).unwrap())
}

fn cpu(random: &mut Random) -> CpuId {
    CpuId::new(usize::try_from(random.number(1023)).unwrap())
}

fn machine(random: &mut Random) -> MachineId {
    MachineId(u32::try_from(random.number(MACHINES_MAX as u64 - 1)).unwrap())
}

fn instant(random: &mut Random) -> Instant {
    Instant::at_ns(random.number(u64::MAX))
}

pub fn name(random: &mut Random) -> String {
    const CHARS: [char; 20] = [
        'a',
        'Z',
        '0',
        ' ',
        '"',
        '\\',
        '\n',
        '\r',
        '\t',
        '\0',
        '=',
        '#',
        '\u{7f}',
        '\u{85}',
        'é',
        '\u{202e}',
        '\u{2028}',
        '漢',
        '🎵',
        '\u{10ffff}',
    ];
    (0..random.below(12)).map(|_| random.pick(&CHARS)).collect()
}

fn weight(random: &mut Random) -> Weight {
    Weight::linux(1 + u32::try_from(random.number((1 << 28) - 1)).unwrap()).unwrap()
}

fn cpus(random: &mut Random) -> CpuSet {
    match random.below(4) {
        0 => CpuSet::ALL,
        1 => CpuSet::EMPTY,
        2 => CpuSet::first_n(random.index(1025)),
        _ => (0..random.below(20)).map(|_| cpu(random)).collect(),
    }
}

fn params(random: &mut Random) -> Params {
    let priority = RtPriority::new(1 + u8::try_from(random.below(99)).unwrap()).unwrap();
    let reservation = random.chance(2).then(|| Reservation {
        slice: Nanos::ns(random.number(u64::MAX)),
        period: Nanos::ns(random.number(u64::MAX)),
        deadline: random.chance(2).then(|| nanos(random)),
        start: random.chance(2).then(|| instant(random)),
        limit: random.pick(&[Limit::Soft, Limit::Hard]),
    });
    let classes = [
        Class::Normal,
        Class::Batch,
        Class::Idle,
        Class::Isochronous,
        Class::Stop,
        Class::Fifo(priority),
        Class::RoundRobin(priority),
    ];
    Params {
        weight: weight(random),
        reservation,
        class: random.pick(&classes),
        latency: random.chance(2).then(|| nanos(random)),
        warp: random.chance(2).then(|| Warp { by: nanos(random), limit: nanos(random), rest: nanos(random) }),
        affinity: cpus(random),
        group: group(random),
    }
}

fn nanos(random: &mut Random) -> Nanos {
    Nanos::ns(random.number(u64::MAX))
}

fn group_params(random: &mut Random) -> GroupParams {
    let quota = random
        .chance(2)
        .then(|| Quota { quota: Nanos::ns(random.number(u64::MAX)), period: Nanos::ns(random.number(u64::MAX)) });
    let cap_percent = random.chance(2).then(|| u32::try_from(random.number(u64::from(u32::MAX))).unwrap());
    GroupParams { weight: weight(random), quota, cap_percent, gang: random.chance(2) }
}

fn why(random: &mut Random) -> Wake {
    let other = entity(random);
    let sync = random.chance(2);
    random.pick(&[
        Wake::New { parent: None },
        Wake::New { parent: Some(other) },
        Wake::By { waker: other, sync },
        Wake::Interrupt,
        Wake::Timer,
        Wake::Resumed,
    ])
}

fn alarm(random: &mut Random) -> Alarm {
    let all = [
        AlarmOwner::Policy,
        AlarmOwner::Cpu(cpu(random)),
        AlarmOwner::Entity(entity(random)),
        AlarmOwner::Group(group(random)),
    ];
    Alarm { owner: random.pick(&all), slot: u8::try_from(random.number(255)).unwrap() }
}

fn flow(random: &mut Random) -> u32 {
    u32::try_from(random.number(u64::from(u32::MAX))).unwrap()
}

fn request(r: &mut Random, kind: u64) -> Request {
    match kind {
        41 => Request::CreateGroup { name: name(r), parent: group(r), params: group_params(r) },
        42 => Request::AdjustGroup { group: group(r), params: group_params(r) },
        43 => Request::Attach { name: name(r), params: params(r) },
        _ => Request::Adjust { entity: entity(r), params: params(r) },
    }
}

/// Returns an event of type `kind`, below [`KINDS`].
pub fn event(random: &mut Random, kind: u64) -> Event {
    let r = random;
    match kind {
        0 => {
            Event::GroupCreated { group: group(r), name: name(r), parent: group(r), params: Box::new(group_params(r)) }
        }
        1 => Event::GroupAdjusted { group: group(r), params: Box::new(group_params(r)) },
        2 => Event::GroupRemoved { group: group(r) },
        3 => Event::Attach { entity: entity(r), name: name(r), params: Box::new(params(r)) },
        4 => Event::Adjust { entity: entity(r), params: Box::new(params(r)) },
        5 => Event::Detach { entity: entity(r) },
        6 => Event::Input(Input::Wake { entity: entity(r), why: why(r) }),
        7 => Event::Input(Input::Event { entity: entity(r), what: Notice::Interrupt }),
        8 => Event::Input(Input::Block { cpu: cpu(r) }),
        9 => Event::Input(Input::Yield { cpu: cpu(r) }),
        10 => Event::Input(Input::YieldTo { cpu: cpu(r), to: entity(r) }),
        11 => Event::Input(Input::Expire { cpu: cpu(r) }),
        12 => Event::Input(Input::Kicked { cpu: cpu(r) }),
        13 => Event::Input(Input::Alarm { alarm: alarm(r) }),
        14 => Event::Input(Input::Pause { entity: entity(r) }),
        15 => Event::Release { entity: entity(r), deadline: instant(r) },
        16 => Event::Complete { entity: entity(r) },
        17 => Event::Action(Action::Stop { cpu: cpu(r), entity: entity(r) }),
        18 => Event::Action(Action::Run { cpu: cpu(r), entity: entity(r), until: instant(r) }),
        19 => Event::Action(Action::Extend { cpu: cpu(r), until: instant(r) }),
        20 => Event::Action(Action::Kick { cpu: cpu(r) }),
        21 => Event::Action(Action::Held { entity: entity(r), reasons: u8::try_from(r.number(255)).unwrap() }),
        22 => Event::Action(Action::SetAlarm { alarm: alarm(r), on: cpu(r), at: instant(r) }),
        23 => Event::Action(Action::ClearAlarm { alarm: alarm(r) }),
        24 => Event::Input(Input::Event { entity: entity(r), what: Notice::SpinWait { waited: nanos(r) } }),
        25 => Event::End,
        26 => Event::Input(Input::Ran { cpu: cpu(r), time: nanos(r) }),
        27 => Event::Background { entity: entity(r), time: nanos(r) },
        28 => Event::Period { entity: entity(r), due: nanos(r), delivered: nanos(r), throughout: r.chance(2) },
        47 => Event::Aborted { entity: entity(r), executed: r.chance(2) },
        46 => Event::Kept { entity: entity(r), kept: r.chance(2), missed: r.number(u64::MAX), of: r.number(u64::MAX) },
        29 => Event::Woke { entity: entity(r), late: nanos(r) },
        30 => Event::Vcpu { entity: entity(r), guest: machine(r), cpu: cpu(r) },
        31 => Event::Input(Input::Freeze { cpu: cpu(r), preempted: r.chance(2) }),
        32 => Event::Input(Input::Thaw { cpu: cpu(r), stolen: nanos(r) }),
        38 => Event::Irq { cpu: cpu(r), time: nanos(r) },
        33 => Event::Skipped { entity: entity(r), beats: r.number(u64::MAX) },
        34 => Event::Sent { entity: entity(r), flow: flow(r), bytes: r.number(u64::MAX) },
        35 => Event::Served { entity: entity(r) },
        36 => Event::Arrived { flow: flow(r), bytes: r.number(u64::MAX), took: nanos(r) },
        37 => Event::Lost { flow: flow(r), bytes: r.number(u64::MAX) },
        39 => Event::Boosted { entity: entity(r), boosted: r.chance(2) },
        40 => Event::Settled,
        45 => Event::SpinWait { entity: entity(r), waited: nanos(r) },
        41..=44 => Event::Refused(Box::new(request(r, kind))),
        other => panic!("there is no kind {other}"),
    }
}
