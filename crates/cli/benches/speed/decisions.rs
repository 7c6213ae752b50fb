//! The time of one decision (wake + put + pick) per policy, with many runnable entities.

use crate::Spread;
use sched::{
    Action, Alarm, Class, CpuId, Descriptor, EntityId, Input, Instant, Kicks, Machine, Nanos, Params, Reservation,
    RtPriority, Topology, Wake,
};

const CPUS: usize = 4;
const SIZES: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Number of rounds that are timed together, so that the cost of the clock is negligible.
const BATCH: usize = 64;
const BATCHES: usize = 400;

pub(crate) fn measure(runs: usize) {
    println!(
        "decisions: wake + put + pick on {CPUS} CPUs, median nanoseconds by runnable entities (least to most of {runs} runs)"
    );
    println!("  {:<14}{}", "policy", SIZES.map(|size| format!("{size:>18}")).concat());
    for policy in policies::ALL {
        let cells = SIZES.map(|size| {
            let spread = Spread::of((0..runs).map(|_| one(policy, size)).collect());
            (spread, format!("{:>7.0} ({:.0}-{:.0})", spread.median, spread.least, spread.most))
        });
        let met = if cells[2].0.median < 1_000.0 { "" } else { "  NOT under 1 us at 1,000" };
        println!("  {:<14}{}{met}", policy.name, cells.map(|(_, cell)| format!("{cell:>18}")).concat());
    }
}

/// A machine with runnable hogs and one blocked entity, the sleeper.
pub(crate) struct Crowd {
    machine: Machine,
    now: Instant,
    /// Pending alarms, by number. Alarms are handled only while every CPU is idle.
    alarms: Vec<Option<(Instant, Alarm)>>,
    pub(crate) sleeper: EntityId,
}

pub(crate) fn crowd(policy: &Descriptor, size: usize) -> Crowd {
    let mut machine = Machine::build(policy, Topology::new(CPUS), &policy.defaults(), Kicks::Immediate)
        .expect("it takes its defaults");
    let mut now = Instant::ZERO;
    let mut alarms = Vec::new();
    for i in 0..size {
        let e = machine.attach(now, params(policy, i, size)).expect("there is room for it");
        machine.input(now, Input::Wake { entity: e, why: Wake::New { parent: None } });
        now += Nanos::ns(1);
        settle(&mut machine, &mut alarms, now);
    }
    let sleeper = machine.attach(now, params(policy, 0, size)).expect("there is room for it");
    Crowd { machine, now, alarms, sleeper }
}

/// Interval between two inputs. It is so short that hardly any entity uses up its time slice during a run.
const STEP: Nanos = Nanos::us(1);

/// Returns the parameters of entity `i` of `size`. Every entity has a reservation, and all reservations add up to about
/// half a CPU. Under `linux`, however, a tenth of the entities are real-time, and only another tenth have reservations.
fn params(policy: &Descriptor, i: usize, size: usize) -> Params {
    let period = Nanos::ms(4_000 + (i % 90) as u64);
    let reservation = Some(Reservation::new(period.scale(1, 2 * size as u64 + 2), period));
    let class = RtPriority::new(50).map_or(Class::Normal, Class::RoundRobin);
    match (policy.name, i % 10) {
        ("linux", 0) => Params { class, ..Params::default() },
        ("linux", 1) => Params { reservation, ..Params::default() },
        ("linux", _) => Params::default(),
        _ => Params { reservation, ..Params::default() },
    }
}

/// Returns the median duration of one round in nanoseconds. In a round, the blocked entity wakes, and then a running
/// entity blocks. The latter entity wakes in the next round. The policy decides after each step. The number of runnable
/// entities is the same after every round.
fn one(policy: &Descriptor, size: usize) -> f64 {
    let mut crowd = crowd(policy, size);
    let mut blocked = crowd.sleeper;
    let mut times = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = std::time::Instant::now();
        for _ in 0..BATCH {
            blocked = round(&mut crowd, blocked);
        }
        times.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    Spread::of(times).median
}

pub(crate) fn round(crowd: &mut Crowd, blocked: EntityId) -> EntityId {
    let Crowd { machine, now, alarms, .. } = crowd;
    *now += STEP;
    machine.input(*now, Input::Wake { entity: blocked, why: Wake::Timer });
    settle(machine, alarms, *now);
    *now += STEP;
    // The rounds use each CPU in turn. A CPU can be idle while reservations are throttled.
    let first = (now.as_ns() / STEP.saturating_mul(2).as_ns()) as usize;
    let running = |machine: &Machine| {
        let mut cpus = (first..first + CPUS).map(|n| CpuId::new(n % CPUS));
        cpus.find_map(|cpu| Some((cpu, machine.running(cpu)?)))
    };
    let (cpu, runs) = loop {
        if let Some(found) = running(machine) {
            break found;
        }
        let next = alarms.iter_mut().filter(|alarm| alarm.is_some()).min_by_key(|alarm| alarm.map(|(at, _)| at));
        let (at, alarm) = next.and_then(Option::take).expect("an alarm ends the idle time");
        *now = at.max(*now);
        machine.input(*now, Input::Alarm { alarm });
        settle(machine, alarms, *now);
    };
    machine.input(*now, Input::Block { cpu });
    settle(machine, alarms, *now);
    runs
}

fn settle(machine: &mut Machine, alarms: &mut Vec<Option<(Instant, Alarm)>>, now: Instant) {
    machine.settle(now);
    for action in machine.actions() {
        match *action {
            Action::SetAlarm { alarm, at, .. } => {
                let number = machine.alarm_number(alarm);
                if alarms.len() <= number {
                    alarms.resize(number + 1, None);
                }
                alarms[number] = Some((at, alarm));
            }
            Action::ClearAlarm { alarm } => alarms[machine.alarm_number(alarm)] = None,
            _ => {}
        }
    }
    std::hint::black_box(alarms);
}
