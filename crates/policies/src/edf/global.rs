//! `placement = global`: the earliest deadlines of the whole machine run; one choice for all CPUs at once.

use super::Edf;
use super::account::Standing;
use sched::{
    Alarm, CpuId, Cx, EntityId, Instant, Nanos, Of, Params, Policy, Refused, Running, Slice, State, Stopped, Wake, Why,
};

const READY: usize = 0;

pub(super) struct Global {
    edf: Edf,
    /// Whom the plan wants on each CPU.
    seats: Vec<Option<EntityId>>,
    /// How many seats are taken.
    seated: usize,
    /// The chosen of the current plan that have no seat yet, in order of (deadline, index).
    chosen: Vec<EntityId>,
    /// CPUs that the current plan may give away, ascending where it matters.
    free: Vec<CpuId>,
    /// Whether a CPU is among `free`.
    is_free: Vec<bool>,
    /// How many entities may not run on every CPU.
    restricted: usize,
}

impl Global {
    pub(super) fn new(edf: Edf, cpus: usize) -> Global {
        Global {
            edf,
            seats: vec![None; cpus],
            seated: 0,
            chosen: Vec::with_capacity(cpus),
            free: Vec::with_capacity(cpus),
            is_free: vec![false; cpus],
            restricted: 0,
        }
    }

    /// Notes whether `e` may run everywhere.
    fn note_restricted(&mut self, e: EntityId, restricted: bool) {
        let before = std::mem::replace(&mut self.edf.account_mut(e).restricted, restricted);
        self.restricted = self.restricted + usize::from(restricted) - usize::from(before);
    }

    /// Gives back what an earlier plan wanted and nobody has come for.
    #[inline]
    fn unseat_all(&mut self) {
        for cpu in 0..self.seats.len() {
            if self.seated == 0 {
                break;
            }
            if let Some(e) = self.take_seat(CpuId::new(cpu)) {
                self.edf.ready.push(READY, self.edf.account(e).key(e), e);
            }
        }
    }

    #[inline]
    fn take_seat(&mut self, cpu: CpuId) -> Option<EntityId> {
        let e = self.seats[cpu.index()].take()?;
        self.seated -= 1;
        Some(e)
    }

    /// Takes `e` out of its seat, queue or hold.
    fn dequeue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if let Some(cpu) = self.seats.iter().position(|&seat| seat == Some(e)) {
            self.take_seat(CpuId::new(cpu));
            return;
        }
        self.edf.dequeue(e, cx);
    }

    /// The key of who runs on `cpu`: later than all others for an entity on unreserved time; `None` if it is free.
    #[inline]
    fn running_key(&self, cpu: CpuId, cx: &Cx<'_>) -> Option<(Instant, usize)> {
        match cx.running(cpu) {
            Running::Mine { entity, .. } => {
                let account = self.edf.account(entity);
                let reserved = account.standing == Standing::Reserved;
                Some(if reserved { account.key(entity) } else { (Instant::NEVER, usize::MAX) })
            }
            Running::Idle => None,
            Running::Above | Running::Below => Some((Instant::ZERO, 0)),
        }
    }

    /// Finds who is to be on the CPUs besides those who run and stay, and seats them.
    fn choose(&mut self, cx: &mut Cx<'_>) {
        for cpu in cx.host().iter() {
            self.is_free[cpu.index()] = cx.running(cpu) == Running::Idle;
            if self.is_free[cpu.index()] {
                self.free.push(cpu);
            }
        }
        while let Some((key, e)) = self.edf.ready.first(READY) {
            if self.chosen.len() == self.free.len() {
                let taken = cx.host().iter().filter(|cpu| !self.is_free[cpu.index()]);
                match taken.map(|cpu| (self.running_key(cpu, cx), cpu)).max() {
                    Some((Some(running), cpu)) if running > key => {
                        self.is_free[cpu.index()] = true;
                        self.free.push(cpu);
                    }
                    _ => break,
                }
            }
            self.edf.ready.pop(READY);
            self.chosen.push(e);
        }
        for i in 0..self.chosen.len() {
            let e = self.chosen[i];
            let last = cx.last_cpu(e);
            let at = self.free.iter().position(|&cpu| cpu == last);
            let cpu = self.free.swap_remove(at.unwrap_or_else(|| lowest(&self.free)));
            self.seat(cpu, e, cx);
        }
        self.chosen.clear();
        self.free.clear();
    }

    /// The same where some may not run everywhere: one after the other, each to the best CPU left for it.
    fn choose_restricted(&mut self, cx: &mut Cx<'_>) {
        while let Some((key, e)) = self.edf.ready.pop(READY) {
            let last = cx.last_cpu(e);
            let open = |cpu: &CpuId| cx.may_run(e, *cpu) && self.seats[cpu.index()].is_none();
            let order = |cpu: &CpuId| (self.running_key(*cpu, cx).map(std::cmp::Reverse), *cpu != last, *cpu);
            let best = cx.host().iter().filter(open).min_by_key(order);
            match best.map(|cpu| (cpu, self.running_key(cpu, cx))) {
                Some((cpu, None)) => self.seat(cpu, e, cx),
                Some((cpu, Some(running))) if running > key => self.seat(cpu, e, cx),
                _ => self.chosen.push(e), // Nobody gives way to it for now.
            }
            if self.seated == self.seats.len() {
                break;
            }
        }
        while let Some(e) = self.chosen.pop() {
            self.edf.ready.push(READY, self.edf.account(e).key(e), e);
        }
    }

    fn seat(&mut self, cpu: CpuId, e: EntityId, cx: &mut Cx<'_>) {
        self.seats[cpu.index()] = Some(e);
        self.seated += 1;
        cx.kick(cpu);
    }

    /// Calls a CPU for `e`, which has just been queued outside a plan: an idle one, or the one that runs the least
    /// urgent entity of those less urgent than `e`.
    fn call_for(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if let Some(cpu) = cx.idle_cpu_for(e) {
            cx.kick(cpu);
            return;
        }
        let account = self.edf.account(e);
        if account.standing == Standing::Reserved {
            let open = cx.host().iter().filter(|&cpu| cx.may_run(e, cpu) && !cx.kicked(cpu));
            let worst = open.map(|cpu| (self.running_key(cpu, cx), cpu)).max();
            if let Some((Some(key), cpu)) = worst
                && key > account.key(e)
            {
                cx.kick(cpu);
            }
        }
    }
}

/// The position of the lowest CPU.
fn lowest(cpus: &[CpuId]) -> usize {
    let least = cpus.iter().enumerate().min_by_key(|&(_, &cpu)| cpu);
    least.expect("there are as many free CPUs as chosen entities").0
}

impl Policy for Global {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.edf.attach(e, cx)?;
        self.note_restricted(e, !cx.may_run_anywhere(e));
        // One look at the queue may find them all unable to run anywhere.
        self.chosen.reserve(self.edf.members);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.note_restricted(e, false);
        self.edf.detach(e);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.edf.renegotiate(e, old, cx)?;
        self.note_restricted(e, !cx.may_run_anywhere(e));
        match cx.state(e) {
            State::Blocked => return Ok(()),
            State::Running(cpu) => cx.kick(cpu),
            State::Waiting => {
                self.dequeue(e, cx);
                self.edf.enqueue(e, cx);
                self.call_for(e, cx);
            }
        }
        self.edf.arm(e, cx);
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.edf.begin(e, cx);
        self.edf.enqueue(e, cx);
        if self.edf.account(e).standing == Standing::Background
            && let Some(cpu) = cx.idle_cpu_for(e)
        {
            cx.kick(cpu);
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.dequeue(e, cx);
        self.edf.rest(e, cx);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.edf.account_mut(e).charge(ran);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let Of::Entity(e) = alarm.of else { unreachable!("only entities have alarms here") };
        if let State::Running(cpu) = cx.state(e) {
            if let Some((e, ran)) = cx.take_ran(cpu) {
                self.edf.account_mut(e).charge(ran);
            }
            cx.kick(cpu);
        }
        let waiting = cx.state(e) == State::Waiting;
        if waiting {
            self.dequeue(e, cx);
        }
        let (late, now) = (self.edf.late, cx.now());
        self.edf.account_mut(e).renew(late, now);
        self.edf.arm(e, cx);
        if waiting {
            self.edf.enqueue(e, cx);
        }
    }

    #[inline]
    fn plan(&mut self, cx: &mut Cx<'_>) {
        if self.seated > 0 {
            self.unseat_all();
        }
        if self.edf.ready.is_empty(READY) {
            return;
        }
        if self.restricted == 0 {
            self.choose(cx);
        } else {
            self.choose_restricted(cx);
        }
    }

    fn put(&mut self, _cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        if prev.why == Why::Blocked {
            self.edf.rest(e, cx);
            return;
        }
        self.edf.judge(e, prev.why);
        self.edf.enqueue(e, cx);
        // With the plan made, only who may not run everywhere (or runs on unreserved time) can have been overlooked.
        if self.restricted > 0 || self.edf.account(e).standing == Standing::Background {
            self.call_for(e, cx);
        }
    }

    #[inline]
    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Slice {
        if let Some(e) = self.take_seat(cpu) {
            return self.edf.reserved_slice(e, cx.now());
        }
        let best = match self.restricted {
            0 => self.edf.ready.first(READY).map(|(_, e)| e),
            _ => {
                let allowed = self.edf.ready.iter(READY).filter(|&(_, e)| cx.may_run(e, cpu));
                allowed.min_by_key(|&(key, _)| key).map(|(_, e)| e)
            }
        };
        if let Some(e) = best {
            self.edf.ready.remove(e);
            return self.edf.reserved_slice(e, cx.now());
        }
        match self.edf.pop_background(cpu, cx) {
            Some(e) => self.edf.background_slice(e, cx.now()),
            None => Slice::IDLE,
        }
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.edf.inspect(e, show);
    }
}
