//! [`PortPolicy`]: a port as a policy of a machine.
//!
//! The process has the part of the kernel below the machine: its queues, its timers and the order of the operations. Each call
//! of the machine is one line, and the answer says which CPUs have to pick, which timers are set and which threads are held.
//!
//! A port takes its promises before it starts. It starts with the first decision, so an entity with a reservation must be
//! attached before that.

use crate::process::Process;
use crate::{Port, Promises};
use sched::{
    Alarm, AlarmOwner, Class, CpuId, CpuSet, Cx, Decision, EntityId, GroupChange, GroupId, GroupParams, Held, Instant,
    Kicks, Limit, Machine, Nanos, Params, Policy, PromiseState, Refused, Reservation, StopReason, Stopped, Topology,
    Wake,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The tid of the first entity. Lower numbers mean no thread, or are easily mistaken for CPUs.
const FIRST_TID: i32 = 1000;
/// Flags of a wake-up: `WF_FORK`, `WF_TTWU`, `WF_SYNC` of kernel/sched/sched.h, Linux 7.2.
const FORK: u32 = 0x04;
const TTWU: u32 = 0x08;
const SYNC: u32 = 0x10;

/// An attached entity.
#[derive(Clone, Debug)]
struct Thread {
    tid: i32,
    params: Params,
    attached: Instant,
    /// The entity of the admission machine, and the CPU of the promise.
    admitted: Option<(EntityId, CpuId)>,
    /// The gang in which its promise was admitted: a group of the admission machine.
    gang: Option<GroupId>,
    /// Whether the thread begins after the port has started, and has not woken yet.
    is_new: bool,
}

/// A port that a machine drives.
pub struct PortPolicy {
    port: &'static Port,
    process: RefCell<Process>,
    /// Admits promises, as the user side of the port does. `None`: the port keeps no promises.
    admission: Option<Machine>,
    /// The group of the admission machine for each gang.
    gangs: BTreeMap<GroupId, GroupId>,
    /// Attached threads, by the index of their entity.
    threads: Vec<Option<Thread>>,
    /// The entity of each tid, from [`FIRST_TID`] on.
    entities: Vec<EntityId>,
    is_started: bool,
    /// Wake-ups before the start: the entity, the CPU of the waker, and the flags.
    early: Vec<(EntityId, CpuId, u32)>,
    /// Whether the thread that is about to stop has yielded to another one, which the port knows already.
    has_yielded: bool,
    /// The answer to the last line.
    reply: String,
    /// Number of lines so far, and the state of each promise as of a number of lines.
    lines: u64,
    shown: RefCell<BTreeMap<i32, (u64, Option<Shown>)>>,
}

impl fmt::Debug for PortPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortPolicy").field("port", &self.port.name).finish_non_exhaustive()
    }
}

/// The answer that is not a consequence for the machine.
#[derive(Clone, Copy, Default)]
struct Answer {
    /// The tid of the thread that a CPU runs, and its slice.
    picked: Option<(i32, u64)>,
    /// Whether a directed yield has an effect.
    yields: bool,
}

const fn timer(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 0 }
}

/// Returns the weight in the scale of control groups, as `sched_weight_to_cgroup()` does.
fn cgroup_weight(params: &Params) -> u64 {
    (u64::from(params.weight.as_linux()) * 100 + 512).div_euclid(1024).clamp(1, 10_000)
}

/// Returns the scheduling policy of a thread: SCHED_NORMAL, SCHED_BATCH or SCHED_IDLE. Real-time classes are above sched_ext,
/// so a thread of such a class is an ordinary one here.
const fn scheduling_policy(class: Class) -> u32 {
    match class {
        Class::Batch => 3,
        Class::Idle => 5,
        _ => 0,
    }
}

/// Returns the words of a mask in hexadecimal.
fn mask(affinity: &CpuSet, host: &Topology) -> String {
    let mut words = vec![0_u64; host.cpus.div_ceil(64)];
    for cpu in affinity.and(&host.all()).iter() {
        words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }
    words.iter().map(|word| format!("{word:x}")).collect::<Vec<_>>().join(",")
}

impl PortPolicy {
    /// Starts a process with this port for a machine with this topology.
    ///
    /// # Errors
    /// The program does not start, or has no such port.
    ///
    /// # Panics
    /// The registered policy lacks the knobs of the port.
    pub fn start(port: &'static Port, program: &Path, host: &Topology) -> Result<PortPolicy, Refused> {
        let process = Process::start(program, port.program).map_err(|_| Refused::Unsupported {
            reason: "the program with the ports does not start",
            remedy: "build it with `cargo build --release --package scx --features port`",
        })?;
        let admission = port.promises.map(|_| {
            let policy = policies::find(port.name).expect("a port has the name of a policy");
            let knobs = port.policy_knobs().expect("the policy has these knobs");
            Machine::build(policy, *host, &knobs, Kicks::Immediate)
        });
        let mut policy = PortPolicy {
            port,
            process: RefCell::new(process),
            admission: admission.transpose()?,
            gangs: BTreeMap::new(),
            threads: Vec::new(),
            entities: Vec::new(),
            is_started: false,
            early: Vec::new(),
            has_yielded: false,
            reply: String::new(),
            lines: 0,
            shown: RefCell::new(BTreeMap::new()),
        };
        policy.tell(format_args!("cpus {}", host.cpus));
        if let Some(settings) = port.settings {
            let bytes = settings(&port.policy_knobs().expect("the policy has these knobs"));
            let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            policy.tell(format_args!("settings {bytes}"));
        }
        Ok(policy)
    }

    fn tell(&mut self, line: fmt::Arguments<'_>) {
        self.lines += 1;
        let reply = self.process.get_mut().ask(line);
        self.reply.clear();
        self.reply.push_str(reply);
    }

    fn thread(&self, e: EntityId) -> &Thread {
        self.threads[e.index()].as_ref().expect("it is attached")
    }

    fn tid(&self, e: EntityId) -> i32 {
        self.thread(e).tid
    }

    fn entity(&self, tid: i32) -> EntityId {
        let at = usize::try_from(tid - FIRST_TID).ok();
        at.and_then(|at| self.entities.get(at).copied()).unwrap_or_else(|| panic!("the port names thread {tid}"))
    }

    /// Sends a line, and carries out the consequences.
    fn apply(&mut self, cx: &mut Cx<'_>, line: fmt::Arguments<'_>) -> Answer {
        self.tell(line);
        let reply = std::mem::take(&mut self.reply);
        let mut words = reply.split_whitespace();
        let mut answer = Answer::default();
        while let Some(word) = words.next() {
            let mut number = || -> i64 {
                let word = words.next();
                let number = word.and_then(|word| word.parse::<i128>().ok());
                // The largest slice means no end.
                let number = number.unwrap_or_else(|| panic!("no number in the answer {reply:?}"));
                i64::try_from(number).unwrap_or(i64::MAX)
            };
            let cpu = |number: i64| CpuId::new(usize::try_from(number).expect("CPUs have positive numbers"));
            let tid = |number: i64| i32::try_from(number).expect("tids are small");
            match word {
                "k" => cx.kick(cpu(number())),
                "t" => {
                    let (cpu, at) = (cpu(number()), number().unsigned_abs());
                    if at == 0 {
                        cx.clear_alarm(timer(cpu));
                    } else {
                        // A timer that is due fires at once.
                        cx.set_alarm(timer(cpu), cpu, Instant::at_ns(at).max(cx.now() + Nanos::ns(1)));
                    }
                }
                "h" => cx.hold(self.entity(tid(number())), Held::Depleted),
                "r" => cx.release(self.entity(tid(number())), Held::Depleted),
                "p" => answer.picked = Some((tid(number()), number().unsigned_abs())),
                "y" => answer.yields = number() != 0,
                // An event for the user side, which admits promises and counts what threads receive.
                "e" => drop([number(), number(), number(), number()]),
                _ => panic!("the port answers {reply:?}"),
            }
        }
        self.reply = reply;
        answer
    }

    /// Starts the port, with the promises, threads and wake-ups so far.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.is_started = true;
        let now = cx.now();
        let mut threads: Vec<Thread> = self.threads.iter().flatten().cloned().collect();
        threads.sort_by_key(|thread| (thread.attached, thread.tid));
        // The first thread of each gang, whose promise begins first.
        let mut firsts = BTreeMap::new();
        for Thread { tid, params, admitted, gang, .. } in &threads {
            let (Some((_, cpu)), Some(asked)) = (admitted, params.reservation) else { continue };
            let Reservation { slice, period, limit, .. } = asked;
            let (slice, period, is_hard) = (slice.as_ns(), period.as_ns(), u8::from(limit == Limit::Hard));
            let gang = gang.map_or(0, |gang| *firsts.entry(gang).or_insert(*tid));
            self.tell(format_args!("promise {tid} {slice} {period} {is_hard} {} {gang}", cpu.index()));
        }
        let first = threads.first().map_or(now, |thread| thread.attached);
        self.apply(cx, format_args!("start {}", first.as_ns()));
        for thread in &threads {
            self.add(thread, cx);
        }
        for (entity, here, flags) in std::mem::take(&mut self.early) {
            self.wake_up(entity, here, flags, cx);
        }
    }

    fn wake_up(&mut self, e: EntityId, here: CpuId, flags: u32, cx: &mut Cx<'_>) {
        let (tid, now) = (self.tid(e), cx.now().as_ns());
        self.apply(cx, format_args!("wake {now} {} {tid} {flags}", here.index()));
    }

    fn add(&mut self, thread: &Thread, cx: &mut Cx<'_>) {
        let Thread { tid, params, attached, is_new, .. } = thread;
        let is_fork = u8::from(*is_new);
        let (weight, nice) = (cgroup_weight(params), params.weight.nearest_nice() + 20);
        let (policy, mask) = (scheduling_policy(params.class), mask(&params.affinity, cx.topology()));
        self.apply(cx, format_args!("new {} {tid} {weight} {nice} {policy} {mask} {is_fork}", attached.as_ns()));
    }

    /// Returns the group of the admission machine for the gang of these parameters; `None`: they are in no gang.
    fn gang_of(&mut self, params: &Params, cx: &Cx<'_>) -> Result<Option<GroupId>, Refused> {
        if params.reservation.is_none() || !self.is_gang(params.group, cx) {
            return Ok(None);
        }
        if let Some(gang) = self.gangs.get(&params.group) {
            return Ok(Some(*gang));
        }
        let machine = self.admission.as_mut().expect("a port with gangs keeps promises");
        let is_gang = GroupParams { gang: true, ..GroupParams::default() };
        let gang = machine.create_group(cx.now(), is_gang, GroupId::ROOT)?;
        self.gangs.insert(params.group, gang);
        Ok(Some(gang))
    }

    fn is_gang(&self, group: GroupId, cx: &Cx<'_>) -> bool {
        self.port.promises.is_some_and(|promises| promises.has_gangs) && cx.group_params(group).gang
    }

    /// Admits the reservation of new or changed parameters. Returns the entity of the admission machine and its CPU.
    fn admit(
        &mut self,
        before: Option<EntityId>,
        params: &Params,
        gang: Option<GroupId>,
        now: Instant,
    ) -> Result<Option<(EntityId, CpuId)>, Refused> {
        let (Some(machine), Some(Promises { period_max, .. })) = (self.admission.as_mut(), self.port.promises) else {
            return Ok(None);
        };
        let group = gang.unwrap_or(GroupId::ROOT);
        let asked = Params { reservation: params.reservation, affinity: params.affinity, group, ..Params::default() };
        let Some(reservation) = params.reservation else {
            if let Some(before) = before {
                machine.detach(now, before);
            }
            return Ok(None);
        };
        if reservation.period > period_max {
            return Err(Refused::TooLong { what: "period", most: period_max });
        }
        if reservation.start.is_some() {
            return Err(Refused::Unsupported {
                reason: "the periods of a port begin with the first wake-up",
                remedy: "leave the start out, or use the policy without `scx:`",
            });
        }
        let entity = match before {
            Some(before) => machine.adjust(now, before, asked).map(|()| before)?,
            None => machine.attach(now, asked)?,
        };
        Ok(Some((entity, machine.allowed(entity).first().unwrap_or_default())))
    }

    fn refuse_late() -> Refused {
        Refused::Unsupported {
            reason: "a port takes its promises before it starts",
            remedy: "begin with the reservation, or use the policy without `scx:`",
        }
    }
}

impl Policy for PortPolicy {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let (params, now) = (*cx.params(e), cx.now());
        if self.is_started && self.admission.is_some() && params.reservation.is_some() {
            return Err(PortPolicy::refuse_late());
        }
        let gang = self.gang_of(&params, cx)?;
        let admitted = self.admit(None, &params, gang, now)?;
        let tid = FIRST_TID + i32::try_from(self.entities.len()).expect("there are fewer entities than tids");
        self.entities.push(e);
        let is_new = self.is_started;
        let thread = Thread { tid, params, attached: now, admitted, gang, is_new };
        if self.threads.len() <= e.index() {
            self.threads.resize(e.index() + 1, None);
        }
        if self.is_started {
            self.add(&thread, cx);
        }
        self.threads[e.index()] = Some(thread);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let thread = self.threads[e.index()].take().expect("it is attached");
        if let (Some((admitted, _)), Some(machine)) = (thread.admitted, self.admission.as_mut()) {
            machine.detach(cx.now(), admitted);
        }
        if self.is_started {
            let now = cx.now().as_ns();
            self.apply(cx, format_args!("end {now} {}", thread.tid));
        }
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let (params, now) = (*cx.params(e), cx.now());
        let before = self.thread(e).admitted;
        if !self.is_started {
            let gang = self.gang_of(&params, cx)?;
            let admitted = self.admit(before.map(|(entity, _)| entity), &params, gang, now)?;
            let thread = self.threads[e.index()].as_mut().expect("it is attached");
            (thread.admitted, thread.gang, thread.params) = (admitted, gang, params);
            return Ok(());
        }
        let has_moved = params.group != old.group && [params.group, old.group].iter().any(|&g| self.is_gang(g, cx));
        let is_same = params.reservation == old.reservation && !(has_moved && params.reservation.is_some());
        if self.admission.is_some() && !is_same {
            return Err(PortPolicy::refuse_late());
        }
        let tid = self.tid(e);
        if cgroup_weight(&params) != cgroup_weight(old) {
            let nice = params.weight.nearest_nice() + 20;
            self.apply(cx, format_args!("weight {} {tid} {} {nice}", now.as_ns(), cgroup_weight(&params)));
        }
        if params.affinity != old.affinity {
            let mask = mask(&params.affinity, cx.topology());
            self.apply(cx, format_args!("mask {} {tid} {mask}", now.as_ns()));
        }
        self.threads[e.index()].as_mut().expect("it is attached").params = params;
        Ok(())
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        match change {
            GroupChange::Params { old } if !old.gang && self.is_gang(g, cx) => {
                if cx.members(g).any(|e| self.thread(e).admitted.is_some()) {
                    return Err(Refused::Unsupported {
                        reason: "the group has members with reservations of their own",
                        remedy: "make the group a gang before its members are attached",
                    });
                }
            }
            GroupChange::Removed => {
                let gang = self.gangs.remove(&g);
                if let (Some(gang), Some(machine)) = (gang, self.admission.as_mut()) {
                    // The periods of threads that have left the group, which was no gang any longer, stay in phase.
                    let _ = machine.remove_group(cx.now(), gang);
                }
            }
            GroupChange::Created { .. } | GroupChange::Params { .. } => {}
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        let here = cx.here();
        let thread = self.threads[e.index()].as_mut().expect("it is attached");
        let is_new = std::mem::take(&mut thread.is_new);
        let flags = match why {
            Wake::New { .. } if is_new => FORK,
            Wake::By { sync: true, .. } => TTWU | SYNC,
            _ => TTWU,
        };
        match self.is_started {
            true => self.wake_up(e, here, flags, cx),
            false => self.early.push((e, here, flags)),
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if !self.is_started {
            self.begin(cx);
        }
        let (tid, now) = (self.tid(e), cx.now().as_ns());
        self.apply(cx, format_args!("block {now} {tid}"));
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        if !self.is_started && !self.early.is_empty() {
            self.begin(cx);
        }
    }

    fn charge(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    fn yield_to(&mut self, _from: EntityId, to: EntityId, cx: &mut Cx<'_>) -> bool {
        let (cpu, now, to) = (cx.here().index(), cx.now().as_ns(), self.tid(to));
        self.has_yielded = self.apply(cx, format_args!("yield {now} {cpu} {to}")).yields;
        self.has_yielded
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let AlarmOwner::Cpu(cpu) = alarm.owner else { unreachable!("only CPUs have alarms here") };
        let now = cx.now().as_ns();
        self.apply(cx, format_args!("timers {now} {}", cpu.index()));
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let (tid, now) = (self.tid(prev.entity), cx.now().as_ns());
        match prev.why {
            StopReason::Blocked => drop(self.apply(cx, format_args!("block {now} {tid}"))),
            StopReason::Yielded if std::mem::take(&mut self.has_yielded) => {}
            StopReason::Yielded => drop(self.apply(cx, format_args!("yield {now} {} 0", cpu.index()))),
            // The thread stays on its CPU until the CPU picks.
            StopReason::Expired | StopReason::Kicked => {}
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let now = cx.now();
        let answer = self.apply(cx, format_args!("pick {} {}", now.as_ns(), cpu.index()));
        match answer.picked {
            Some((tid, slice)) if tid != 0 => {
                // A slice that the port has ended already: the kick that it has sent follows.
                let slice = Nanos::ns(slice.max(1));
                Decision::until(self.entity(tid), now.saturating_add(slice))
            }
            _ => Decision::IDLE,
        }
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        let Thread { tid, params, admitted, .. } = self.thread(e);
        admitted.as_ref()?;
        let Reservation { slice, period, .. } = params.reservation?;
        if !self.is_started {
            return Some(PromiseState { slice, period, deadline: Instant::NEVER, remaining: 0 });
        }
        let state = self.show(*tid)?;
        Some(PromiseState { slice, period, deadline: Instant::at_ns(state.deadline), remaining: state.remaining })
    }
}

/// The state of a promise in the port.
#[derive(Clone, Copy, Debug)]
struct Shown {
    deadline: u64,
    remaining: i64,
}

impl PortPolicy {
    /// Returns the state of the promise of a thread. Asks again only after another line.
    fn show(&self, tid: i32) -> Option<Shown> {
        if let Some((lines, shown)) = self.shown.borrow().get(&tid)
            && *lines == self.lines
        {
            return *shown;
        }
        let shown = Shown::read(self.process.borrow_mut().ask(format_args!("show {tid}")));
        self.shown.borrow_mut().insert(tid, (self.lines, shown));
        shown
    }
}

impl Shown {
    fn read(reply: &str) -> Option<Shown> {
        let words: Vec<&str> = reply.split_whitespace().collect();
        let ["s", "1", deadline, remaining] = words[..] else { return None };
        Some(Shown { deadline: deadline.parse().ok()?, remaining: remaining.parse().ok()? })
    }
}
