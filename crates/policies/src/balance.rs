//! Balance scheduling: CFS that queues the vCPUs of a VM on different CPUs as far as possible.
//!
//! Two siblings in one run queue can never run at the same time, even if other CPUs are free. Strict co-scheduling
//! prevents this conflict at the cost of fragmentation: CPUs idle although vCPUs wait. Balance scheduling prevents the
//! conflict by placement alone. When a vCPU wakes, is forked or migrates, every CPU on which a sibling runs or waits is
//! excluded. CFS chooses among the other CPUs as usual. Siblings are then likely, but not certain, to run at the same
//! time.
//!
//! ```text
//! two CPUs; vm = v0, v1; hogs h, i
//! cfs may queue      v0 v1 | h i      v0 and v1 alternate, never together
//! balance queues     v0 h  | v1 i     both run, both wait, or one runs
//! ```
//!
//! Siblings are the direct members of one group; members of its subgroups do not count. Members of the root group are
//! not siblings. The rule does not apply to a vCPU if, on each CPU in its affinity, a sibling runs or waits. This
//! occurs, for example, in a VM with more vCPUs than the host has CPUs. The rule applies to placement only, so a vCPU
//! that is already queued stays in its queue.
//!
//! The paper compares balance scheduling with co-scheduling on CFS, which the knob `coschedule` adds. When a vCPU is
//! dispatched, the CPUs of its waiting siblings are kicked, except CPUs that run another sibling. Each kicked CPU picks
//! the sibling first, within the limit that CFS sets for a `next` buddy. A sibling far ahead of its share is not picked
//! first. The members of one VM kick CPUs at most once per instant; otherwise VMs could preempt each other endlessly.
//! With this knob, siblings run together more often, at the cost of more context switches.
//!
//! Groups, quotas and the other knobs are as in `cfs`.
//!
//! Source: Sukwong and Kim, "Is co-scheduling too expensive for SMP VMs?", EuroSys 2011 (abstract); Wu et al. (Poris)
//! §2.

use crate::cfs::{self, LeastVruntime};
use crate::fair::Fair;
use sched::{
    Alarm, CpuId, Cx, Decision, Descriptor, EntityId, GroupChange, GroupId, Instant, Knob, Knobs, Nanos, Notice,
    Params, Policy, Position, Refused, Running, Stopped, Topology, Wake,
};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "balance",
    title: "CFS that queues the vCPUs of a VM on different CPUs as far as possible",
    source: "Sukwong and Kim, EuroSys 2011; Linux v5.13, kernel/sched/fair.c",
    good_for: "parallel VMs beside other VMs: no CPU is left idle, and no VM is marked",
    bad_at: "certainty: when CPUs are loaded unevenly, siblings are only likely to run at the same time",
    text: include_str!("balance.rs"),
    knobs: &KNOBS,
    build,
    ..cfs::POLICY
};

const COSCHEDULE: Knob =
    Knob::switch("coschedule", false, "when a vCPU is dispatched, the CPUs of its waiting siblings pick them first")
        .from("Sukwong and Kim compare with co-scheduling on CFS; its details are assumed");

const KNOBS: [Knob; cfs::POLICY.knobs.len() + 1] = Knob::join(&[COSCHEDULE], cfs::POLICY.knobs);

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let fair = cfs::new(host, knobs).keeping_siblings_apart();
    Ok(Box::new(Balance { fair, coschedule: knobs.on("coschedule"), last: vec![None; host.cpus], called: Vec::new() }))
}

struct Balance {
    fair: Fair<LeastVruntime>,
    coschedule: bool,
    /// Entity that each CPU picked last.
    last: Vec<Option<EntityId>>,
    /// Instant at which a member of each group last kicked the CPUs of its siblings, by group index.
    called: Vec<Option<Instant>>,
}

impl Balance {
    /// Kicks the CPUs of the waiting siblings of `e`, which has just been dispatched, so that these CPUs pick the
    /// siblings first. Does not kick a CPU that runs another sibling. Does nothing if a member of the VM has already
    /// kicked CPUs of its siblings at this instant.
    fn call_siblings(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        let group = cx.params(e).group;
        if group == GroupId::ROOT || self.called[group.index()] == Some(cx.now()) {
            return;
        }
        let is_to_come = |cx: &Cx<'_>, sibling: EntityId| sibling != e && cx.is_waiting(sibling);
        let mut next = cx.members(group).find(|&sibling| is_to_come(cx, sibling));
        while let Some(sibling) = next {
            let its_cpu = self.fair.cpu_of(sibling);
            let runs_another =
                matches!(cx.running(its_cpu), Running::Mine { entity, .. } if cx.params(entity).group == group);
            // `yield_to` also kicks the CPU of the sibling.
            if its_cpu != cpu && !runs_another && self.fair.yield_to(e, sibling, cx) {
                self.called[group.index()] = Some(cx.now());
            }
            next = cx.members(group).skip_while(|&other| other != sibling).skip(1).find(|&other| is_to_come(cx, other));
        }
    }
}

impl Policy for Balance {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.fair.attach(e, cx)
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.last.iter_mut().for_each(|last| *last = last.filter(|&last| last != e));
        self.fair.detach(e, cx);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.fair.adjust(e, old, cx)
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if let GroupChange::Created { .. } = change {
            if self.called.len() <= g.index() {
                self.called.resize(g.index() + 1, None);
            }
            self.called[g.index()] = None;
        }
        self.fair.group(g, change, cx)
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        self.fair.wake(e, why, cx);
    }

    fn event(&mut self, e: EntityId, what: Notice, cx: &mut Cx<'_>) {
        self.fair.event(e, what, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.fair.sleep(e, cx);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        self.fair.charge(e, ran, cx);
    }

    fn yield_to(&mut self, from: EntityId, to: EntityId, cx: &mut Cx<'_>) -> bool {
        self.fair.yield_to(from, to, cx)
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        self.fair.alarm(alarm, cx);
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        self.fair.plan(cx);
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        self.fair.put(cpu, prev, cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let slice = self.fair.pick(cpu, cx);
        let last = std::mem::replace(&mut self.last[cpu.index()], slice.run);
        if let Some(e) = slice.run.filter(|_| self.coschedule && last != slice.run) {
            self.call_siblings(e, cpu, cx);
        }
        slice
    }

    fn interactive(&self, e: EntityId) -> bool {
        self.fair.interactive(e)
    }

    fn position(&self, e: EntityId) -> Option<Position> {
        self.fair.position(e)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.fair.inspect(e, show);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Dice, at_ms, at_us, group, hog, host_under, is_running, member, scripted, shows};
    use sched::{GroupParams, State};
    use sim::Driver;

    fn vm(host: &mut Driver<'_>, vcpus: usize) -> Vec<EntityId> {
        let vm = group(host, GroupParams::default());
        (0..vcpus).map(|_| scripted(host, member(vm))).collect()
    }

    /// Returns the number of pairs of siblings that are on one CPU, summed over 400 samples. The host has two VMs of
    /// three vCPUs that sleep and wake, and five hogs.
    fn stacked(policy: &Descriptor) -> usize {
        let mut host = host_under(policy, Topology::new(4), &[]);
        let vms = [vm(&mut host, 3), vm(&mut host, 3)];
        let hogs: Vec<_> = (0..5).map(|_| hog(&mut host, Params::default())).collect();
        let all: Vec<EntityId> = vms.iter().flatten().copied().collect();
        let (mut stacked, mut dice) = (0, Dice(1));
        for step in 0..400 {
            let e = all[dice.index(all.len())];
            match host.machine().state(e) {
                State::Blocked => host.wake(e, Wake::By { waker: hogs[0], sync: false }),
                State::Running(cpu) => host.block(cpu),
                State::Waiting => {}
            }
            host.run_until(at_ms(3 * (step + 1)));
            for vm in &vms {
                let awake: Vec<_> = vm.iter().filter(|&&e| host.machine().state(e) != State::Blocked).collect();
                let mut cpus: Vec<i64> = awake.iter().map(|&&e| shows(&host, e, "cpu")).collect();
                cpus.sort_unstable();
                stacked += cpus.windows(2).filter(|pair| pair[0] == pair[1]).count();
            }
        }
        stacked
    }

    #[test]
    fn siblings_never_share_a_queue_while_there_is_another() {
        assert_eq!(stacked(&POLICY), 0);
        assert!(stacked(&cfs::POLICY) > 20, "CFS stacks them all the time");
    }

    /// In a VM with more vCPUs than the host has CPUs, siblings share CPUs, and every vCPU runs.
    #[test]
    fn a_vm_wider_than_the_machine_still_runs() {
        let mut host = host_under(&POLICY, Topology::new(2), &[]);
        let all = vm(&mut host, 5);
        all.iter().for_each(|&e| host.wake(e, Wake::New { parent: None }));
        host.run_until(at_ms(1_000));
        all.iter().for_each(|&e| host.pause(e));
        for &e in &all {
            assert!(host.machine().charged(e) > Nanos::ms(250), "{e} got {}", host.machine().charged(e));
        }
    }

    /// Returns the number of milliseconds, of 2,000, in which both vCPUs of a VM run. The host has two CPUs and three
    /// hogs.
    fn together(coschedule: bool) -> usize {
        let mut host = host_under(&POLICY, Topology::new(2), &[("coschedule", i64::from(coschedule))]);
        let both = vm(&mut host, 2);
        both.iter().for_each(|&e| host.wake(e, Wake::New { parent: None }));
        for _ in 0..3 {
            hog(&mut host, Params::default());
        }
        let looks = (0..2_000).filter(|ms| {
            host.run_until(at_us(ms * 1_000 + 500));
            both.iter().all(|&e| is_running(&host, e))
        });
        looks.count()
    }

    #[test]
    fn co_scheduling_makes_siblings_run_together_more_often() {
        let (without, with) = (together(false), together(true));
        assert!(with > without, "{with} ms with, {without} ms without");
    }
}
