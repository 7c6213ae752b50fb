//! Changes of promises at random instants, and the check that each change is in force soon.

use crate::options::Options;
use daemon::dispatch::{Dispatcher, PromiseRequest};
use daemon::interfering::{Demand, InterferingThread};
use sched::{CpuId, CpuSet, EntityId, Instant, Nanos, Reservation};
use simhost::{Caller, Dice, SimulatedKernel, World};
use std::collections::BTreeMap;

/// Maximum time from a change of a promise to the next turn of the agent of its CPU, without late timers and the CPU
/// time of Tactus. The time for one call is not excused, because the agent is woken at once.
const TURN_MOST: Nanos = Nanos::ms(1);
/// One in `CHANGE_IN` steps of the front end changes a promise.
const CHANGE_IN: u64 = 2;
/// One in `INTERFERING_IN` of these steps changes the interfering threads.
const INTERFERING_IN: u64 = 4;

/// An admitted client.
#[derive(Clone, Debug)]
pub(super) struct Served {
    /// Entities of the client, one per CPU. Not empty.
    pub(super) entities: Vec<EntityId>,
    pub(super) tag: usize,
    pub(super) request: PromiseRequest,
    /// Number of changes of the promise.
    pub(super) changes: u64,
}

impl Served {
    /// Returns the first entity of the client.
    pub(super) fn entity(&self) -> EntityId {
        self.entities[0]
    }
}

/// Draws the reservations of promises.
#[derive(Clone, Debug)]
pub(super) struct Wishes {
    /// Maximum share of a CPU. Unit: parts per million.
    pub(super) each: u64,
}

impl Wishes {
    /// Returns the wishes of a storm, small enough that CPU time is left on each CPU.
    pub(super) fn of(options: &Options) -> Wishes {
        Wishes { each: 800_000 * options.cpus as u64 / options.clients as u64 }
    }

    /// Returns a random slice and period.
    pub(super) fn draw(&self, dice: &mut Dice) -> Reservation {
        let period = match dice.below(3) {
            0 => dice.between(Nanos::ms(1), Nanos::ms(5)),
            1 => dice.between(Nanos::ms(5), Nanos::ms(30)),
            _ => dice.between(Nanos::ms(30), Nanos::ms(100)),
        };
        let most = period.scale(self.each.min(500_000), 1_000_000);
        let slice = dice.between(Nanos::us(50), most.max(Nanos::us(60)));
        Reservation::new(slice, period)
    }
}

/// Returns up to two threads that admission control takes into account. The host does not run them.
fn interfering(dice: &mut Dice) -> Vec<InterferingThread> {
    let count = dice.below(3);
    let thread = |tid: u64| {
        let period = dice.between(Nanos::us(100), Nanos::ms(50));
        let demand = match dice.below(2) {
            0 => Demand::Reserved { runtime: period.scale(1 + dice.below(200), 1_000), period, overrun: Nanos::ZERO },
            _ => Demand::Observed { priority: 99, ppm: dice.below(300_000) },
        };
        let cpus = if dice.one_in(2) { CpuSet::ALL } else { CpuSet::one(CpuId::new(0)) };
        InterferingThread { tid: tid as u32, name: format!("thread {tid}"), demand, cpus }
    };
    (0..count).map(thread).collect()
}

/// The changes of a storm.
pub(super) struct Changes {
    wishes: Wishes,
    dice: Dice,
    /// Whether the turns after changes are checked. Other processes that change the threads of clients may delay them.
    is_checked: bool,
    /// Number of changed promises.
    pub(super) count: u64,
    /// Number of refused changes.
    pub(super) refused: u64,
    /// CPUs whose agents have had no turn since a change, with the instant of the change, and until then the lateness
    /// of all timers and the CPU time of Tactus.
    awaited: BTreeMap<CpuId, (Instant, Nanos, Nanos)>,
}

impl Changes {
    pub(super) fn new(options: &Options) -> Changes {
        Changes {
            wishes: Wishes::of(options),
            dice: Dice::new(options.seed ^ 0xc4a6_e500),
            is_checked: !options.others,
            count: 0,
            refused: 0,
            awaited: BTreeMap::new(),
        }
    }

    /// Records that the agent of `cpu` has taken a turn.
    pub(super) fn note_turn(&mut self, cpu: CpuId) {
        self.awaited.remove(&cpu);
    }
}

impl Changes {
    /// Changes a promise from time to time. Returns the CPUs whose agents must be woken.
    pub(super) fn step(
        &mut self,
        dispatcher: &mut Dispatcher<Caller>,
        served: &mut [Served],
        host: &SimulatedKernel,
    ) -> CpuSet {
        if !self.dice.one_in(CHANGE_IN) {
            return CpuSet::EMPTY;
        }
        if self.dice.one_in(INTERFERING_IN) {
            dispatcher.set_interfering(interfering(&mut self.dice));
        }
        let Reservation { slice, period, .. } = self.wishes.draw(&mut self.dice);
        let entities: Vec<EntityId> = served.iter().map(Served::entity).collect();
        let Some(entity) = self.dice.choose(&entities) else { return CpuSet::EMPTY };
        let all = served.iter().find(|served| served.entity() == entity).map_or(&[][..], |served| &served.entities);
        let all: Vec<EntityId> = all.iter().copied().filter(|&e| dispatcher.machine().is_attached(e)).collect();
        let slice = slice.saturating_mul(all.len().max(1) as u64);
        let (answer, call) = dispatcher.adjust(entity, slice, period);
        if answer.is_err() {
            self.refused += 1;
            return call;
        }
        self.count += 1;
        let (now, late, ours) = (host.world().now(), host.world().late(), host.world().had_by_us());
        for cpu in all.iter().filter_map(|&e| dispatcher.machine().allowed(e).first()) {
            self.awaited.entry(cpu).or_insert((now, late, ours));
        }
        for Served { request, changes, .. } in served.iter_mut().filter(|served| served.entities[0] == entity) {
            request.reservation = Reservation { slice, period, ..request.reservation };
            request.cpus = all.len();
            *changes += 1;
        }
        call
    }

    /// Returns a description of an agent that has taken no turn in time after a change.
    pub(super) fn late_turn(&self, world: &World) -> Option<String> {
        let is_late = |(_, (since, late, ours)): &(&CpuId, &(Instant, Nanos, Nanos))| {
            let excuse = world.late().saturating_sub(*late) + world.had_by_us().saturating_sub(*ours);
            self.is_checked && world.now() > since.saturating_add(TURN_MOST).saturating_add(excuse)
        };
        let (cpu, (since, ..)) = self.awaited.iter().find(is_late)?;
        Some(format!("the agent of {cpu} has had no turn since a promise changed at {since}"))
    }
}
