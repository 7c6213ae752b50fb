//! Co-scheduling: all vCPUs of a VM run at the same time, one VM after another.
//!
//! A parallel program whose threads wait for each other makes little progress when only half of the threads run. The
//! vCPUs of its VM therefore form a *gang*. They are placed side by side in one row of a matrix whose columns are the
//! CPUs. Whole rows run in turn. A row's time slice ends for all of its CPUs at the same instant.
//!
//! ```text
//! two CPUs; gang a = a0, a1; gang b = b0, b1; h alone; quantum 30 ms        row 0   a0 a1
//! 0         30        60        90        120       150       180           row 1   b0 b1
//! a0        b0        h         a0        b0        h         a0            row 2   h  .
//! a1        b1        a1        a1        b1        a1        a1
//! ```
//!
//! **Rows.** A gang is placed in the first row with room for all of its members. An entity in no gang is placed in the
//! first free cell of a CPU in its affinity. A gang takes several rows if the members cannot all run at the same time,
//! because of too few CPUs or because of affinities. The members of a group that is marked as a gang are one gang;
//! other groups have no effect.
//!
//! **Time slices.** Rows without a runnable entity are skipped. A row's time slice ends after one quantum, or when no
//! entity in the row is runnable. A member that wakes during its row's time slice preempts the entity that fills its
//! cell.
//!
//! **Fragmentation.** If a CPU's cell in the current row is empty, or the entity of this cell is blocked, the CPU runs
//! another waiting entity. The CPU searches its own column first, then the next columns. Without affinities, no CPU
//! therefore idles while an entity waits. With affinities, a CPU may idle for one quantum at most while an entity that
//! may run on it waits. The entity that fills a cell leaves the cell at the end of the row's time slice.
//!
//! Deadlines, weights and the length of sleeps are ignored. On a host with many VMs, a vCPU that wakes may wait for the
//! time slices of all other VMs. Parallel soft real-time scheduling (`poris`) shortens this wait. `cosched-strict` is a
//! different policy, which measures the drift between siblings.
//!
//! Source: Ousterhout 1982 (the matrix); Poris (Wu et al.) figures 2b and 3b, which show this policy for comparison.

mod matrix;
#[cfg(test)]
mod tests;

use matrix::{Matrix, Place};
use sched::queue::Lists;
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, Conserving, CpuId, CpuSet, Cx, Decision, Descriptor, EntityId,
    GroupChange, GroupId, Guarantees, Instant, Knob, Knobs, LoadBounds, Nanos, Params, Policy, Refused, Running, State,
    StopReason, Stopped, Topology, Wake,
};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cosched",
    title: "all vCPUs of a VM run at the same time, one VM after another",
    source: "Ousterhout 1982; Poris (Wu et al.) figures 2b and 3b",
    good_for: "parallel VMs whose vCPUs wait for each other all the time",
    bad_at: "short response times: a woken vCPU may wait for the time slices of all other VMs; weights are ignored",
    text: include_str!("mod.rs"),
    conserving: |load| Conserving::Global { slack: call_bound(load) },
    starvation,
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots { policy: &[AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: &[Knob::time("quantum", Nanos::ms(30), (Nanos::us(10), Nanos::s(10)), "the longest time slice of a row")
        .from("the time slice of Credit in the comparison of Poris (Wu et al.) §6")],
    build,
};

/// Returns the maximum time until an entity runs after a kick for the entity. The kicked CPU picks the first entity
/// that may run on this CPU, which may be another entity. In that case, the entity waits at most until the end of the
/// row's time slice. Without affinities, the time is zero.
fn call_bound(load: &LoadBounds<'_>) -> Nanos {
    if load.has_affinity { load.knobs.time("quantum") } else { Nanos::ZERO }
}

/// Returns the maximum wait of an entity. There are no more rows than entities, and each row runs once before any row
/// runs twice. But a gang is placed again whenever a member arrives or changes, and the new row may have just run.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    let moved = load.has_changes && load.group_depth > 0;
    (!moved).then(|| load.knobs.time("quantum").saturating_mul(load.entities + 1))
}

const TURN_END: Alarm = Alarm { owner: AlarmOwner::Policy, slot: 0 };

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Cosched {
        quantum: knobs.time("quantum"),
        matrix: Matrix::new(host.cpus),
        waiting: Lists::new(host.cpus),
        cpus: host.cpus,
        row: None,
        end: Instant::ZERO,
        yielded: Vec::new(),
    }))
}

struct Cosched {
    quantum: Nanos,
    matrix: Matrix,
    /// Waiting entities, by their column.
    waiting: Lists,
    cpus: usize,
    /// Current row; `None` before the first row.
    row: Option<usize>,
    /// End of the row's time slice.
    end: Instant,
    /// Whether each entity has yielded during its current or last time slice.
    yielded: Vec<bool>,
}

impl Cosched {
    fn has_its_turn(&self, e: EntityId) -> bool {
        Some(self.matrix.place(e).row) == self.row && !self.yielded[e.index()]
    }

    /// Enqueues `e` and kicks a CPU: its own CPU if that CPU idles or the row of `e` is current, else an idle CPU.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let Place { cpu, .. } = self.matrix.place(e);
        self.waiting.push_back(cpu.index(), e);
        self.call_for(e, cx);
    }

    fn call_for(&self, e: EntityId, cx: &mut Cx<'_>) {
        let Place { cpu, .. } = self.matrix.place(e);
        if cx.kicked(cpu) && self.has_its_turn(e) {
            return;
        }
        let its_own = match cx.running(cpu) {
            Running::Idle => true,
            Running::Mine { .. } | Running::Below => self.has_its_turn(e),
            Running::Above => false,
        };
        if its_own && !cx.kicked(cpu) {
            cx.kick(cpu);
        } else if let Some(idle) = cx.idle_cpu_for(e) {
            cx.kick(idle);
        }
    }

    /// Makes `row` the current row, and kicks CPUs so that the entities of `row` run in their cells.
    fn advance(&mut self, row: usize, cx: &mut Cx<'_>) {
        self.row = Some(row);
        self.end = cx.now() + self.quantum;
        cx.set_alarm(TURN_END, CpuId::new(0), self.end);
        for cpu in (0..self.cpus).map(CpuId::new) {
            let Some(owner) = self.matrix.at(row, cpu) else { continue };
            self.yielded[owner.index()] = false;
            match cx.state(owner) {
                State::Waiting => cx.kick(cpu),
                // The entity fills a cell of another CPU: it is preempted there and runs on its own CPU.
                State::Running(other) if other != cpu => cx.kick(other),
                State::Running(_) | State::Blocked => {}
            }
        }
    }

    /// Kicks an idle CPU for a waiting entity that is not about to run on its own CPU. `picking` may have been kicked
    /// for this entity, but may have picked another entity.
    fn call_for_stranded(&self, picking: CpuId, cx: &mut Cx<'_>) {
        let idle = |cpu: CpuId| cpu != picking && cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
        if self.waiting.all_empty() || !cx.topology().iter().any(idle) {
            return;
        }
        let waiting = (0..self.cpus).flat_map(|column| self.waiting.iter(column));
        if let Some(idle) = waiting.filter(|&e| !self.has_its_turn(e)).find_map(|e| cx.idle_cpu_for(e)) {
            cx.kick(idle);
        }
    }

    /// Places all members of `gang` again, together.
    fn reseat(&mut self, gang: &[EntityId], cx: &mut Cx<'_>) {
        let waiting: Vec<EntityId> = gang.iter().copied().filter(|&e| self.waiting.remove(e)).collect();
        gang.iter().for_each(|&e| self.matrix.remove(e));
        let allowed = |&e: &EntityId| (e, cx.params(e).affinity.and(&cx.topology().all()));
        let seated: Vec<(EntityId, CpuSet)> = gang.iter().map(allowed).collect();
        self.matrix.seat(&seated);
        waiting.into_iter().for_each(|e| self.enqueue(e, cx));
    }

    /// Places `e` again, together with its gang if it is in a gang.
    fn reseat_with(&mut self, e: EntityId, group: GroupId, cx: &mut Cx<'_>) {
        if group == GroupId::ROOT || !cx.group_params(group).gang {
            return self.reseat(&[e], cx);
        }
        let mut gang: Vec<EntityId> = cx.members(group).collect();
        gang.sort_by_key(|e| e.index());
        self.reseat(&gang, cx);
    }

    /// Returns the entity to run on `cpu`: the entity in the CPU's cell of the current row, if it waits. Otherwise,
    /// returns another waiting entity that may run on `cpu`.
    fn choose(&self, cpu: CpuId, cx: &Cx<'_>) -> Option<EntityId> {
        let owner = self
            .row
            .and_then(|row| self.matrix.at(row, cpu))
            .filter(|&e| self.waiting.contains(e) && self.has_its_turn(e));
        if owner.is_some_and(|e| cx.may_run(e, cpu)) {
            return owner;
        }
        let columns = (0..self.cpus).map(|n| (cpu.index() + n) % self.cpus);
        // An entity of the current row is about to run on its own CPU.
        let fills = |e: &EntityId| cx.may_run(*e, cpu) && !self.has_its_turn(*e);
        columns
            .clone()
            .find_map(|column| self.waiting.iter(column).find(|e| fills(e) && !self.yielded[e.index()]))
            .or_else(|| columns.clone().find_map(|column| self.waiting.iter(column).find(fills)))
    }
}

impl Policy for Cosched {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.waiting.reserve(e);
        self.matrix.reserve(e);
        if self.yielded.len() <= e.index() {
            self.yielded.resize(e.index() + 1, false);
        }
        self.yielded[e.index()] = false;
        self.reseat_with(e, cx.params(e).group, cx);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.matrix.remove(e);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let (affinity, group) = (cx.params(e).affinity, cx.params(e).group);
        if old.affinity != affinity || old.group != group {
            self.reseat_with(e, group, cx);
        }
        Ok(())
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let GroupChange::Params { old } = change else { return Ok(()) };
        let gang = cx.group_params(g).gang;
        if g == GroupId::ROOT || gang == old.gang {
            return Ok(());
        }
        let mut members: Vec<EntityId> = cx.members(g).collect();
        members.sort_by_key(|e| e.index());
        match gang {
            true => self.reseat(&members, cx),
            false => members.iter().for_each(|&e| self.reseat(&[e], cx)),
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.matrix.set_runnable(e, true);
        self.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.waiting.remove(e);
        self.yielded[e.index()] = false;
        self.matrix.set_runnable(e, false);
    }

    fn charge(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    /// Does nothing: `plan` finds that the row's time slice has ended.
    fn alarm(&mut self, _alarm: Alarm, _cx: &mut Cx<'_>) {}

    fn plan(&mut self, cx: &mut Cx<'_>) {
        let over = cx.now() >= self.end || !self.row.is_some_and(|row| self.matrix.is_active(row));
        match self.matrix.next_active(self.row) {
            None => cx.clear_alarm(TURN_END),
            Some(row) if over => self.advance(row, cx),
            // All entities were blocked until now, so no alarm is set.
            Some(_) if cx.alarm_at(TURN_END).is_none() => cx.set_alarm(TURN_END, CpuId::new(0), self.end),
            Some(_) => {}
        }
    }

    fn put(&mut self, _cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        self.yielded[e.index()] = prev.why == StopReason::Yielded;
        if prev.why == StopReason::Blocked {
            self.matrix.set_runnable(e, false);
        } else {
            self.enqueue(e, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let Some(e) = self.choose(cpu, cx) else { return Decision::IDLE };
        self.waiting.remove(e);
        self.call_for_stranded(cpu, cx);
        self.yielded[e.index()] = false;
        // If the end has passed because its alarm is late, the entity runs for a nanosecond, until `plan` starts the
        // next row.
        Decision::until(e, self.end.max(cx.now() + Nanos::ns(1)))
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let Place { row, cpu } = self.matrix.place(e);
        show("row", i64::try_from(row).unwrap_or(i64::MAX));
        show("column", i64::try_from(cpu.index()).unwrap_or(i64::MAX));
    }
}
