//! [`FairServers`]: the fair servers of Linux 6.12 and later, which prevent real-time tasks from starving fair tasks.
//!
//! Each CPU has a server, a deadline reservation on behalf of all fair tasks. The server is *deferred*: it becomes
//! active only when the time left before its deadline equals the rest of its budget. Before that, the CPU time that
//! fair tasks receive is charged to the budget. From its activation on, the server runs fair tasks at that deadline,
//! receives a full budget in every period and is not deferred. The server is deferred again once fair tasks run outside
//! the server after its budget is used up. It is also deferred again once no fair task waits for the CPU.

use sched::{Alarm, AlarmOwner, CpuId, Cx, Instant, Knob, Knobs, Nanos, Reservation, Running};

/// Knobs of the servers.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::switch("fair-server", false, "a deferred server for fair tasks in place of real-time throttling")
        .from("kernel/sched/deadline.c, v6.12: on"),
    Knob::time("fair-server-runtime", Nanos::ms(50), (Nanos::us(1), Nanos::s(1)), "the budget of the fair server")
        .from("fair_server/cpuX/runtime, kernel/sched/deadline.c, v6.12"),
    Knob::time(
        "fair-server-period",
        Nanos::s(1),
        (Nanos::us(100), Nanos::s(4)),
        "the period of the fair server; at least its runtime",
    )
    .from("fair_server/cpuX/period, kernel/sched/deadline.c, v6.12"),
];

/// Minimum postponement of the alarm. Source: `dl_server_min_res`, kernel/sched/deadline.c, v6.12.
const RESOLUTION: Nanos = Nanos::ms(1);

/// The state of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No fair task is runnable.
    Off,
    /// The server waits for the last instant at which its budget still fits before its deadline.
    Deferred,
    /// The server competes at its deadline.
    Active,
    /// The budget of the server is used up; the server waits for the next period.
    Throttled,
}

#[derive(Clone, Copy, Debug)]
struct Server {
    phase: Phase,
    left: i64,
    deadline: Instant,
    /// Whether fair tasks starved, so that the next period is not deferred.
    starved: bool,
    /// Instant up to which the CPU time of fair tasks has been charged; `None`: no fair task runs on the CPU.
    since: Option<Instant>,
}

/// The servers of all CPUs.
#[derive(Debug)]
pub(crate) struct FairServers {
    servers: Vec<Server>,
    budget: i64,
    period: Nanos,
    /// Number of fair tasks that are not blocked.
    runnable: u64,
    /// Granularity of time slices: each time slice ends at a multiple of this time.
    grain: Nanos,
}

const fn alarm_of(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 0 }
}

impl FairServers {
    /// Returns the reservation of each server; `None` if the knobs select no servers.
    pub(crate) fn promise(knobs: &Knobs) -> Option<Reservation> {
        let (runtime, period) = (knobs.time("fair-server-runtime"), knobs.time("fair-server-period"));
        knobs.on("fair-server").then(|| Reservation::new(runtime, period.max(runtime)))
    }

    pub(crate) fn new(cpus: usize, promise: &Reservation, grain: Nanos) -> FairServers {
        let off = Server { phase: Phase::Off, left: 0, deadline: Instant::ZERO, starved: false, since: None };
        FairServers {
            servers: vec![off; cpus],
            budget: promise.slice.as_ns().cast_signed(),
            period: promise.period,
            runnable: 0,
            grain,
        }
    }

    fn server(&mut self, cpu: CpuId) -> &mut Server {
        &mut self.servers[cpu.index()]
    }

    // ---- Runnable fair tasks ----

    /// Increments the number of runnable fair tasks, because a task has unblocked or joined the class.
    pub(crate) fn add_runnable(&mut self, cx: &mut Cx<'_>) {
        self.runnable += 1;
        if self.runnable == 1 {
            for cpu in cx.topology().iter() {
                self.start(cpu, cx);
            }
        }
    }

    /// Decrements the number of runnable fair tasks, because a task has blocked or left the class.
    pub(crate) fn remove_runnable(&mut self, cx: &mut Cx<'_>) {
        self.runnable -= 1;
        if self.runnable == 0 {
            for cpu in cx.topology().iter() {
                self.server(cpu).phase = Phase::Off;
                cx.clear_alarm(alarm_of(cpu));
            }
        }
    }

    /// Starts the server like a deadline entity that wakes. The server keeps the rest of its old budget if the rest,
    /// divided by the time to the old deadline, does not exceed its bandwidth.
    fn start(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let (budget, period, now) = (self.budget, self.period, cx.now());
        let server = self.server(cpu);
        let ahead = i128::from(server.deadline.saturating_since(now).as_ns());
        let too_much = i128::from(server.left) * i128::from(period.as_ns()) > ahead * i128::from(budget);
        if server.deadline < now || too_much || server.left <= 0 {
            return self.begin(cpu, cx);
        }
        self.wait_or_go(cpu, cx);
    }

    /// Starts a period now.
    fn begin(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let (budget, deadline) = (self.budget, cx.now().saturating_add(self.period));
        let server = self.server(cpu);
        (server.left, server.deadline) = (budget, deadline);
        self.wait_or_go(cpu, cx);
    }

    /// Activates the server if fair tasks starved, or if the last instant has come at which its budget fits before its
    /// deadline. Otherwise defers the server to this instant.
    fn wait_or_go(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let server = self.server(cpu);
        let last = server.last_moment();
        if server.starved || last <= cx.now() {
            server.phase = Phase::Active;
            server.starved = true;
            cx.clear_alarm(alarm_of(cpu));
            cx.kick(cpu);
        } else {
            server.phase = Phase::Deferred;
            cx.set_alarm(alarm_of(cpu), cpu, last);
        }
    }

    // ---- Budgets ----

    /// Records that fair tasks run on `cpu` from now on.
    pub(crate) fn begins_to_run(&mut self, cpu: CpuId, now: Instant) {
        self.server(cpu).since = Some(now);
    }

    /// Records that fair tasks stop running on `cpu`.
    pub(crate) fn ceases_to_run(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.count(cpu, cx);
        self.server(cpu).since = None;
    }

    /// Charges the CPU time of fair tasks to the budget.
    fn count(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let now = cx.now();
        let server = self.server(cpu);
        let Some(since) = server.since.replace(now) else {
            server.since = None;
            return;
        };
        if server.phase == Phase::Off || since == now {
            return;
        }
        server.left = server.left.saturating_sub_unsigned(now.since(since).as_ns());
        if server.left > 0 {
            return;
        }
        if server.phase == Phase::Active {
            self.throttle(cpu, cx);
        } else {
            // Fair tasks used up the budget outside the server, so no fair task starves.
            server.starved = false;
            self.begin(cpu, cx);
        }
    }

    /// Throttles the server, whose budget is used up. The budget is replenished at the deadline.
    fn throttle(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let server = self.server(cpu);
        if server.deadline <= cx.now() {
            return self.replenish(cpu, cx);
        }
        server.phase = Phase::Throttled;
        let at = server.deadline;
        cx.set_alarm(alarm_of(cpu), cpu, at);
    }

    fn replenish(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let (budget, period, now) = (self.budget, self.period, cx.now());
        let server = self.server(cpu);
        let periods = (-server.left).max(0) / budget + 1;
        server.left += periods * budget;
        server.deadline = server.deadline.saturating_add(period.saturating_mul(periods.unsigned_abs()));
        if server.deadline < now {
            return self.begin(cpu, cx);
        }
        self.wait_or_go(cpu, cx);
    }

    /// Handles the alarm of `cpu`.
    pub(crate) fn ring(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.count(cpu, cx);
        let (now, idle) = (cx.now(), cx.running(cpu) == Running::Idle && !cx.kicked(cpu));
        let server = self.server(cpu);
        match server.phase {
            Phase::Throttled if server.deadline <= now => self.replenish(cpu, cx),
            // No other task prevents fair tasks from running on this CPU.
            Phase::Deferred if idle => {
                server.starved = false;
                self.begin(cpu, cx);
            }
            Phase::Deferred if server.last_moment() > now.saturating_add(RESOLUTION) => {
                let at = server.last_moment();
                cx.set_alarm(alarm_of(cpu), cpu, at);
            }
            Phase::Deferred => {
                (server.phase, server.starved) = (Phase::Active, true);
                cx.kick(cpu);
            }
            // The server no longer waits for this alarm.
            Phase::Throttled | Phase::Active | Phase::Off => {}
        }
    }

    // ---- The decision ----

    /// Returns the deadline at which fair tasks compete on `cpu` now; `None` if they do not compete.
    pub(crate) fn deadline(&self, cpu: CpuId) -> Option<Instant> {
        let server = &self.servers[cpu.index()];
        (server.phase == Phase::Active).then_some(server.deadline)
    }

    /// Returns the instant at which the budget is used up if fair tasks run from `now` on, rounded up to a multiple of
    /// `grain`.
    pub(crate) fn end(&self, cpu: CpuId, now: Instant) -> Instant {
        let left = Nanos::ns(self.servers[cpu.index()].left.max(1).unsigned_abs());
        now.saturating_add(left).round_up(self.grain)
    }

    /// Gives up the budget of the server, because no fair task waits for `cpu`.
    pub(crate) fn give_up_budget(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let (now, period) = (cx.now(), self.period);
        let server = self.server(cpu);
        (server.phase, server.left, server.starved) = (Phase::Throttled, 0, false);
        if server.deadline <= now {
            server.deadline = now.saturating_add(period);
        }
        let at = server.deadline;
        cx.set_alarm(alarm_of(cpu), cpu, at);
    }
}

impl Server {
    /// Returns the last instant at which the budget still fits before the deadline.
    fn last_moment(&self) -> Instant {
        let left = self.left.max(0).unsigned_abs();
        Instant::at_ns(self.deadline.as_ns().saturating_sub(left))
    }
}
