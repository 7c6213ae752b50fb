//! [`WorldAuditor`]: audits a world from its trace alone. An [`Auditor`] audits each machine. Further laws hold between
//! machines:
//!
//! - A frozen CPU of a guest makes no progress (law 13). The CPU is frozen whenever its vCPU does not run on the host.
//! - CPU time is conserved across levels, to the nanosecond. The CPU time of a vCPU is the sum of three terms: the CPU
//!   time of the tasks on the vCPU, its idle time, and its time outside the guest for entries and interrupts.
//! - If a guest coordinates with its host, the boosted CPU time of its VM in a window is at most the budget. No vCPU
//!   exceeds the limit of a boost. Without a boost, a vCPU has its requested parameters.
//! - Every kick and every alarm is delivered exactly once: when due, or when its frozen CPU thaws.

use super::boosts::Boosts;
use super::{Auditor, Finding, Promises, Rule, Verdict};
use crate::costs::Costs;
use coordination::Coordination;
use sched::{Action, Alarm, AlarmOwner, CpuId, EntityId, Input, Instant, Nanos, Topology};
use std::collections::BTreeMap;
use trace::{Event, MachineId, Sink, WorldSink};

/// The state of a CPU according to the events of its own machine.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    present: bool,
    /// Instant of the last thaw, and instant of the last freeze after a presence of nonzero length.
    thawed: Instant,
    was_present: Instant,
    runs: Option<EntityId>,
    /// Instant up to which `busy` and `idle` are counted.
    upto: Instant,
    /// Busy time and idle time while the CPU is present.
    busy: Nanos,
    idle: Nanos,
    /// Instant at which the pending kick is due. `None`: no kick is pending.
    kick: Option<Instant>,
}

/// The state of a CPU of a guest according to the events of its host.
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    runs_since: Option<Instant>,
    /// Instant since which the vCPU has a CPU but is not in its guest: before its entry, or during an interrupt of its
    /// host.
    outside: Option<Instant>,
    ran: Nanos,
    /// Time for which the vCPU had a CPU but was not in its guest.
    entering: Nanos,
    /// Part of `entering` for which the vCPU had left its guest but kept its CPU, and time that interrupts of the host
    /// took from the vCPU. `out` must not exceed `interrupted`.
    out: Nanos,
    interrupted: Nanos,
    was_inside: bool,
}

impl Below {
    /// Ends the time outside the guest.
    fn come_in(&mut self, now: Instant) {
        let time = self.outside.take().map_or(Nanos::ZERO, |since| now.since(since));
        self.entering += time;
        self.out += if self.was_inside { time } else { Nanos::ZERO };
    }
}

/// The auditor's record of a machine.
#[derive(Debug)]
struct Books {
    auditor: Auditor,
    /// Delivery time of a kick, and CPU time of an alarm.
    kick: Nanos,
    tick: Nanos,
    /// Duration of an exit from a guest and of the entry back.
    exit: Nanos,
    cpus: Vec<Cpu>,
    /// State of each CPU according to the events of the host (guests only).
    below: Vec<Below>,
    /// Boosts of the vCPUs (only for a guest that coordinates with its host).
    boosts: Option<Boosts>,
    /// Guest and CPU that each vCPU represents, by entity (hosts only).
    vcpus: BTreeMap<EntityId, (MachineId, CpuId)>,
    alarms: BTreeMap<Alarm, (Instant, CpuId)>,
}

/// Audits a world from its events. Requires every event from the start of the run; [`Event::End`] of every machine ends
/// the audit.
#[derive(Debug, Default)]
pub struct WorldAuditor {
    machines: Vec<Books>,
    now: Instant,
    /// CPUs whose records at both levels must agree at the end of this instant.
    touched: Vec<(MachineId, CpuId)>,
    verdict: Verdict,
}

impl WorldAuditor {
    /// Creates an auditor of a world without machines.
    #[must_use]
    pub fn new() -> WorldAuditor {
        WorldAuditor::default()
    }

    /// Adds the machine with the next id: its topology, its own promises and its costs. The promises of a guest must
    /// hold for any amount of CPU time that its host provides.
    pub fn add(&mut self, host: Topology, promises: Promises, costs: &Costs) {
        let cpu = Cpu {
            present: true,
            thawed: Instant::ZERO,
            was_present: Instant::ZERO,
            runs: None,
            upto: Instant::ZERO,
            busy: Nanos::ZERO,
            idle: Nanos::ZERO,
            kick: None,
        };
        self.machines.push(Books {
            auditor: Auditor::new(host, promises),
            kick: costs.kick,
            tick: costs.tick,
            exit: costs.exit,
            cpus: vec![cpu; host.cpus],
            below: vec![Below::default(); host.cpus],
            boosts: None,
            vcpus: BTreeMap::new(),
            alarms: BTreeMap::new(),
        });
    }

    /// Declares that the machine added last is a guest that coordinates with its host under the settings `with`.
    ///
    /// # Panics
    /// No machine was added.
    pub fn coordinates(&mut self, with: Coordination) {
        self.machines.last_mut().expect("a machine was added").boosts = Some(Boosts::new(with));
    }

    /// Returns the findings between machines, with `None` as the id, and then the findings within each machine.
    #[must_use]
    pub fn findings(&self) -> Vec<(Option<MachineId>, Finding)> {
        let between = self.verdict.findings().iter().map(|finding| (None, finding.clone()));
        let own = self.machines.iter().zip(0..).flat_map(|(books, id)| {
            books.auditor.findings().iter().map(move |finding| (Some(MachineId(id)), finding.clone()))
        });
        between.chain(own).collect()
    }

    fn find(&mut self, rule: Rule, cpu: Option<CpuId>, what: String) {
        self.verdict.add(Finding { rule, at: self.now, entity: None, cpu, what });
    }

    fn books(&mut self, machine: MachineId) -> &mut Books {
        &mut self.machines[machine.index()]
    }

    fn cpu(&mut self, machine: MachineId, cpu: CpuId) -> &mut Cpu {
        let now = self.now;
        let cpu = &mut self.machines[machine.index()].cpus[cpu.index()];
        let since = now.saturating_since(cpu.upto);
        if cpu.present {
            *(if cpu.runs.is_some() { &mut cpu.busy } else { &mut cpu.idle }) += since;
        }
        cpu.upto = now;
        cpu
    }

    // ---- Between the levels ----

    /// At the end of an instant, checks that each touched vCPU has a CPU of the host unless the vCPU is frozen.
    fn close_instant(&mut self) {
        for (guest, cpu) in std::mem::take(&mut self.touched) {
            let books = &self.machines[guest.index()];
            if books.cpus[cpu.index()].present && books.below[cpu.index()].runs_since.is_none() {
                self.find(Rule::Level, Some(cpu), format!("{cpu:?} of {guest} continues, but has no CPU of its host"));
            }
        }
    }

    /// Records that a vCPU receives or loses a CPU of its host.
    fn move_below(&mut self, guest: MachineId, cpu: CpuId, runs: bool) {
        let now = self.now;
        let below = &mut self.machines[guest.index()].below[cpu.index()];
        if runs {
            *below = Below { runs_since: Some(now), outside: Some(now), ..*below };
        } else if let Some(since) = below.runs_since.take() {
            below.ran += now.since(since);
            below.come_in(now);
            below.was_inside = false;
        }
        self.touched.push((guest, cpu));
    }

    fn freeze(&mut self, guest: MachineId, cpu: CpuId) {
        let now = self.now;
        let it = self.cpu(guest, cpu);
        let twice = !std::mem::replace(&mut it.present, false);
        if it.thawed < now {
            it.was_present = now;
        }
        // A vCPU that still has a CPU is frozen for one of three reasons. It halts, its host handles an interrupt, or
        // it lost its CPU at this instant and already has another CPU.
        let below = &mut self.books(guest).below[cpu.index()];
        if let Some(since) = below.runs_since {
            below.outside = Some(now);
            below.was_inside &= since < now;
        }
        if twice {
            self.find(Rule::Law(13), Some(cpu), format!("{cpu:?} of {guest} freezes, but is frozen"));
        }
    }

    /// Records that an interrupt or alarm takes `time` from the entity on `cpu` of a host, so that the loss is not a
    /// finding.
    fn excuse(&mut self, machine: MachineId, cpu: CpuId, time: Nanos) {
        let books = &self.machines[machine.index()];
        let runs = books.cpus[cpu.index()].runs.and_then(|entity| books.vcpus.get(&entity).copied());
        if let Some((guest, cpu)) = runs {
            self.books(guest).below[cpu.index()].interrupted += time;
        }
    }

    fn thaw(&mut self, guest: MachineId, cpu: CpuId) {
        let now = self.now;
        let it = self.cpu(guest, cpu);
        let twice = std::mem::replace(&mut it.present, true);
        it.thawed = now;
        if twice {
            self.find(Rule::Law(13), Some(cpu), format!("{cpu:?} of {guest} thaws, but is not frozen"));
        }
        let below = &mut self.books(guest).below[cpu.index()];
        below.come_in(now);
        below.was_inside = below.runs_since.is_some();
        self.touched.push((guest, cpu));
    }

    /// Records an event of an entity of `host` if the entity is a vCPU of a coordinating guest.
    fn boosts(&mut self, host: MachineId, entity: EntityId, happens: impl FnOnce(&mut Boosts)) {
        let Some(&(guest, _)) = self.books(host).vcpus.get(&entity) else { return };
        let now = self.now;
        let Some(boosts) = &mut self.books(guest).boosts else { return };
        let counted = boosts.count(now);
        happens(boosts);
        for what in counted.into_iter().chain(boosts.wrong.take()) {
            self.verdict.add(Finding { rule: Rule::Boost, at: now, entity: Some(entity), cpu: None, what });
        }
    }

    // ---- Delivery ----

    /// Returns whether an event that was due at `due` on `cpu` arrives on time: at `due`, or at the thaw of a CPU that
    /// was frozen at `due`.
    fn is_on_time(&self, machine: MachineId, cpu: CpuId, due: Instant) -> bool {
        let it = &self.machines[machine.index()].cpus[cpu.index()];
        self.now == due || (self.now > due && it.thawed == self.now && it.was_present <= due)
    }

    fn kicked(&mut self, machine: MachineId, cpu: CpuId) {
        let Some(due) = self.books(machine).cpus[cpu.index()].kick.take() else {
            return self.find(Rule::Delivery, Some(cpu), format!("{cpu:?} of {machine} is kicked without an action"));
        };
        if !self.is_on_time(machine, cpu, due) {
            let what = format!("a kick of {cpu:?} of {machine} was due at {due}");
            self.find(Rule::Delivery, Some(cpu), what);
        }
    }

    fn alarm(&mut self, machine: MachineId, alarm: Alarm) {
        let Some((due, on)) = self.books(machine).alarms.remove(&alarm) else {
            // The machine ignores an alarm that was cleared, or whose owner left, while the alarm waited for its CPU.
            return;
        };
        if due > self.now {
            // The machine postponed the alarm while the alarm waited for its CPU.
            self.books(machine).alarms.insert(alarm, (due, on));
        } else if !self.is_on_time(machine, on, due) {
            self.find(Rule::Delivery, Some(on), format!("{alarm:?} of {machine} was due at {due}"));
        }
        self.expect_present(machine, on, "an alarm goes off");
    }

    fn expect_present(&mut self, machine: MachineId, cpu: CpuId, what: &str) {
        if !self.machines[machine.index()].cpus[cpu.index()].present {
            self.find(Rule::Law(13), Some(cpu), format!("{what} on {cpu:?} of {machine}, which is frozen"));
        }
    }

    fn end(&mut self, machine: MachineId) {
        self.close_instant();
        for cpu in 0..self.books(machine).cpus.len() {
            let cpu = CpuId::new(cpu);
            let it = *self.cpu(machine, cpu);
            if it.present && it.kick.is_some_and(|due| due < self.now) {
                self.find(Rule::Delivery, Some(cpu), format!("a kick never reached {cpu:?} of {machine}"));
            }
        }
        let overdue = |(alarm, (due, on)): (&Alarm, &(Instant, CpuId))| {
            let present = self.machines[machine.index()].cpus[on.index()].present;
            (present && *due < self.now).then_some((*alarm, *due))
        };
        let overdue: Vec<(Alarm, Instant)> = self.machines[machine.index()].alarms.iter().filter_map(overdue).collect();
        for (alarm, due) in overdue {
            self.find(Rule::Delivery, None, format!("{alarm:?} of {machine}, due at {due}, never went off"));
        }
        for (entity, (guest, cpu)) in self.books(machine).vcpus.clone() {
            self.boosts(machine, entity, |_| {});
            self.conserve(guest, cpu);
        }
    }

    /// Checks that the CPU time of a vCPU on its host is the sum of its busy time, idle time and time outside the
    /// guest. Also checks that interrupts account for the time for which the vCPU had left its guest.
    fn conserve(&mut self, guest: MachineId, cpu: CpuId) {
        let Cpu { busy, idle, .. } = *self.cpu(guest, cpu);
        let now = self.now;
        let below = self.machines[guest.index()].below[cpu.index()];
        let open = below.runs_since.map_or(Nanos::ZERO, |since| now.since(since));
        let entering = below.entering + below.outside.map_or(Nanos::ZERO, |since| now.since(since));
        let ran = below.ran + open;
        if ran != busy + idle + entering {
            let what = format!(
                "{cpu:?} of {guest} got {ran} of its host, but ran tasks for {busy}, idled for {idle} and was out of its guest for {entering}"
            );
            self.find(Rule::Level, Some(cpu), what);
        }
        if below.out > below.interrupted {
            let Below { out, interrupted, .. } = below;
            let what = format!("{cpu:?} of {guest} was out of its guest for {out}, but interrupts took {interrupted}");
            self.find(Rule::Level, Some(cpu), what);
        }
    }

    /// Records that `entity` begins to run or stops running on `cpu`.
    fn switch(&mut self, machine: MachineId, cpu: CpuId, entity: EntityId, runs: bool) {
        self.cpu(machine, cpu).runs = runs.then_some(entity);
        self.boosts(machine, entity, |boosts| boosts.runs(entity, runs));
        if let Some(&(guest, cpu)) = self.books(machine).vcpus.get(&entity) {
            self.move_below(guest, cpu, runs);
        }
    }
}

impl WorldSink for WorldAuditor {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        if at > self.now {
            self.close_instant();
            self.now = at;
        } else if at < self.now {
            self.find(Rule::Law(1), None, format!("time goes back to {at}"));
        }
        self.books(machine).auditor.record(at, event);
        match *event {
            Event::Irq { cpu, time } => self.excuse(machine, cpu, time + self.machines[machine.index()].exit),
            Event::Vcpu { entity, guest, cpu } => {
                self.books(machine).vcpus.insert(entity, (guest, cpu));
                // A guest may boot during the run. Before the boot, its CPUs were absent.
                self.books(guest).cpus[cpu.index()].upto = at;
                let params = self.books(machine).auditor.params(entity).unwrap_or_default();
                self.boosts(machine, entity, |boosts| boosts.comes(entity, params, at));
            }
            Event::Adjust { entity, ref params } => self.boosts(machine, entity, |boosts| boosts.asked(entity, params)),
            Event::Boosted { entity, boosted } => {
                self.boosts(machine, entity, |boosts| boosts.told(entity, boosted));
            }
            Event::Input(Input::Wake { entity, .. }) => self.boosts(machine, entity, |boosts| boosts.wakes(entity)),
            Event::Input(Input::Freeze { cpu, .. }) => self.freeze(machine, cpu),
            Event::Input(Input::Thaw { cpu, .. }) => self.thaw(machine, cpu),
            Event::Action(Action::Run { cpu, entity, .. }) => {
                self.expect_present(machine, cpu, "an entity runs");
                self.switch(machine, cpu, entity, true);
            }
            Event::Action(Action::Stop { cpu, entity }) => self.switch(machine, cpu, entity, false),
            Event::Input(
                Input::Block { cpu } | Input::Yield { cpu } | Input::Expire { cpu } | Input::YieldTo { cpu, .. },
            ) => {
                self.expect_present(machine, cpu, "an entity stops");
            }
            Event::Action(Action::Kick { cpu }) => {
                let due = at.saturating_add(self.books(machine).kick);
                self.books(machine).cpus[cpu.index()].kick = Some(due);
            }
            Event::Input(Input::Kicked { cpu }) => {
                self.expect_present(machine, cpu, "a kick arrives");
                self.kicked(machine, cpu);
            }
            Event::Action(Action::SetAlarm { alarm, on, at: due }) => {
                self.books(machine).alarms.insert(alarm, (due, on));
            }
            Event::Action(Action::ClearAlarm { alarm }) => drop(self.books(machine).alarms.remove(&alarm)),
            Event::Input(Input::Alarm { alarm }) => {
                if let Some(&(_, on)) = self.machines[machine.index()].alarms.get(&alarm) {
                    self.excuse(machine, on, self.machines[machine.index()].tick);
                }
                self.alarm(machine, alarm);
            }
            Event::Detach { entity } => {
                self.books(machine).alarms.retain(|alarm, _| alarm.owner != AlarmOwner::Entity(entity))
            }
            Event::GroupRemoved { group } => {
                self.books(machine).alarms.retain(|alarm, _| alarm.owner != AlarmOwner::Group(group))
            }
            Event::End => self.end(machine),
            _ => {}
        }
    }
}
