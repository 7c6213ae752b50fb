//! The alarm slots of a machine, as a dense table of cells. Setting an alarm replaces its previous time, so no entry
//! becomes stale.

use crate::alarm::{Alarm, AlarmKind, AlarmOwner, AlarmSlots};
use crate::id::{CpuId, EntityId, GroupId};
use crate::machine::Action;
use crate::time::Instant;
use alloc::vec::Vec;

/// One alarm slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// Alarm that was last set in this cell. Its owner may be a former entity or group with the same index.
    alarm: Alarm,
    /// Instant at which the alarm is due. NEVER if the alarm is not set.
    pub(crate) at: Instant,
    /// CPU on which the alarm fires.
    pub(crate) on: CpuId,
    reported: Alarm,
    reported_at: Instant,
    reported_on: CpuId,
    listed: bool,
}

const UNOWNED: Alarm = Alarm { owner: AlarmOwner::Policy, slot: 0 };

const UNSET: Cell = Cell {
    alarm: UNOWNED,
    at: Instant::NEVER,
    on: CpuId::new(0),
    reported: UNOWNED,
    reported_at: Instant::NEVER,
    reported_on: CpuId::new(0),
    listed: false,
};

/// The alarm cells: first the policy's cells, then the cells of each CPU. For each index, the cells of the entity and
/// of the group with this index follow.
#[derive(Debug)]
pub(crate) struct Alarms {
    slots: AlarmSlots,
    cpus: usize,
    cells: Vec<Cell>,
    /// Numbers of the cells to report.
    changed: Vec<usize>,
}

impl Alarms {
    pub(crate) fn new(slots: AlarmSlots, cpus: usize) -> Alarms {
        let owners_without_cpu = [slots.policy, slots.entity, slots.group];
        let tick = |kinds: &&[AlarmKind]| kinds.contains(&AlarmKind::Tick);
        assert!(!owners_without_cpu.iter().any(tick), "only CPUs have ticks");
        let fixed = slots.policy.len() + slots.cpu.len() * cpus;
        Alarms { slots, cpus, cells: alloc::vec![UNSET; fixed], changed: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Makes room for the alarms of `entities` entities and `groups` groups.
    pub(crate) fn reserve(&mut self, entities: usize, groups: usize) {
        let stride = self.slots.entity.len() + self.slots.group.len();
        let owners = match (self.slots.entity.len(), self.slots.group.len()) {
            (0, 0) => 0,
            (_, 0) => entities,
            (0, _) => groups,
            _ => entities.max(groups),
        };
        let len = self.fixed() + stride * owners;
        if len > self.cells.len() {
            self.cells.resize(len, UNSET);
        }
        self.changed.reserve(self.cells.len() - self.changed.len().min(self.cells.len()));
    }

    fn fixed(&self) -> usize {
        self.slots.policy.len() + self.slots.cpu.len() * self.cpus
    }

    /// Returns the dense number of an alarm, by which drivers index their timers.
    pub(crate) fn number(&self, alarm: Alarm) -> usize {
        let slot = usize::from(alarm.slot);
        let stride = self.slots.entity.len() + self.slots.group.len();
        let (declared, number) = match alarm.owner {
            AlarmOwner::Policy => (self.slots.policy.len(), slot),
            AlarmOwner::Cpu(cpu) => {
                (self.slots.cpu.len(), self.slots.policy.len() + cpu.index() * self.slots.cpu.len() + slot)
            }
            AlarmOwner::Entity(e) => (self.slots.entity.len(), self.fixed() + e.index() * stride + slot),
            AlarmOwner::Group(g) => {
                (self.slots.group.len(), self.fixed() + g.index() * stride + self.slots.entity.len() + slot)
            }
        };
        assert!(slot < declared, "{alarm:?} is not among the slots the descriptor declares");
        number
    }

    /// Returns the cell of `alarm`. `None`: the cell belongs to another alarm, or no such slot is declared.
    pub(crate) fn find(&self, alarm: Alarm) -> Option<&Cell> {
        let slots = match alarm.owner {
            AlarmOwner::Policy => self.slots.policy,
            AlarmOwner::Cpu(cpu) if cpu.index() < self.cpus => self.slots.cpu,
            AlarmOwner::Cpu(_) => return None,
            AlarmOwner::Entity(_) => self.slots.entity,
            AlarmOwner::Group(_) => self.slots.group,
        };
        slots.get(usize::from(alarm.slot))?;
        self.cells.get(self.number(alarm)).filter(|cell| cell.alarm == alarm)
    }

    pub(crate) fn get(&self, alarm: Alarm) -> &Cell {
        &self.cells[self.number(alarm)]
    }

    pub(crate) fn set(&mut self, alarm: Alarm, on: CpuId, at: Instant) {
        let number = self.number(alarm);
        let cell = &mut self.cells[number];
        cell.alarm = alarm;
        cell.at = at;
        cell.on = on;
        if !core::mem::replace(&mut cell.listed, true) {
            self.changed.push(number);
        }
    }

    /// Clears the ticks of an idle CPU.
    pub(crate) fn stop_ticks(&mut self, cpu: CpuId) {
        for slot in 0..self.slots.cpu.len() {
            if self.slots.cpu[slot] == AlarmKind::Tick {
                #[expect(clippy::cast_possible_truncation, reason = "slots are numbered in 8 bits")]
                let alarm = Alarm { owner: AlarmOwner::Cpu(cpu), slot: slot as u8 };
                if self.get(alarm).at != Instant::NEVER {
                    self.set(alarm, cpu, Instant::NEVER);
                }
            }
        }
    }

    /// Clears the alarms of an entity that is detached.
    pub(crate) fn drop_entity(&mut self, e: EntityId) {
        self.drop_all(self.slots.entity.len(), AlarmOwner::Entity(e));
    }

    /// Clears the alarms of a group that is removed.
    pub(crate) fn drop_group(&mut self, g: GroupId) {
        self.drop_all(self.slots.group.len(), AlarmOwner::Group(g));
    }

    fn drop_all(&mut self, slots: usize, of: AlarmOwner) {
        for slot in 0..slots {
            let alarm = Alarm { owner: of, slot: u8::try_from(slot).expect("slots are numbered in 8 bits") };
            if self.get(alarm).at != Instant::NEVER || self.get(alarm).listed {
                self.set(alarm, CpuId::default(), Instant::NEVER);
            }
        }
    }

    /// Returns whether any change is unreported.
    #[inline]
    pub(crate) fn any_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Reports the changes since the last call as actions.
    pub(crate) fn report(&mut self, actions: &mut Vec<Action>) {
        for i in 0..self.changed.len() {
            let number = self.changed[i];
            let cell = &mut self.cells[number];
            let alarm = cell.alarm;
            cell.listed = false;
            let known = cell.reported == alarm || cell.at == Instant::NEVER;
            if known && (cell.at, cell.on) == (cell.reported_at, cell.reported_on) {
                continue;
            }
            cell.reported = alarm;
            cell.reported_at = cell.at;
            cell.reported_on = cell.on;
            actions.push(match cell.at {
                Instant::NEVER => Action::ClearAlarm { alarm },
                at => Action::SetAlarm { alarm, on: cell.on, at },
            });
        }
        self.changed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_index_reports_its_new_owner() {
        let slots = AlarmSlots { entity: &[AlarmKind::Timer], ..AlarmSlots::NONE };
        let of = |generation| Alarm { owner: AlarmOwner::Entity(EntityId::new(0, generation)), slot: 0 };
        let on = CpuId::new(0);
        // An alarm of the new owner is reported even if its instant and CPU equal those of the old owner's alarm.
        for at in [Instant::at_ns(20), Instant::at_ns(10)] {
            let mut alarms = Alarms::new(slots, 1);
            alarms.reserve(1, 1);
            let mut actions = Vec::new();
            alarms.set(of(0), on, Instant::at_ns(10));
            alarms.report(&mut actions);
            alarms.drop_entity(EntityId::new(0, 0));
            alarms.set(of(1), on, at);
            actions.clear();
            alarms.report(&mut actions);
            assert_eq!(actions, [Action::SetAlarm { alarm: of(1), on, at }]);
        }
    }
}
