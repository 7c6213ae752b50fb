//! [`Scene`]: a simulated host with a daemon.

use daemon::dispatch::{
    Dispatcher, Enclosure, KeptBy, PromiseRequest, RaiseBy, Refusal, Signals, begin_loans, enclose, find,
};
use daemon::kernel::Kernel;
use daemon::table::Table;
use sched::{CpuId, EntityId, Instant, Limit, Nanos, Reservation};
use sim::Workload;
use simhost::{Caller, Memory, Settings, SimulatedKernel};
use std::sync::Arc;
use sys::thread::Owner;
use sys::usage::Usage;

const ROOT: Owner = Owner { real: 0, effective: 0 };
const USER: Owner = Owner { real: 1000, effective: 1000 };
pub(crate) const CPU: CpuId = CpuId::new(0);

/// A host with two hogs per CPU, and a daemon with an agent per CPU.
pub(crate) struct Scene {
    pub(crate) host: SimulatedKernel,
    pub(crate) daemon: Caller,
    pub(crate) dispatcher: Dispatcher<Caller>,
    /// How the threads of clients are raised.
    by: RaiseBy,
    /// Agents, indexed by CPU.
    pub(crate) agents: Vec<u32>,
    /// Number of turns so far.
    pub(crate) turns: u64,
    /// Number of turns whose instant was known two turns before, within 3 us.
    pub(crate) foreseen: u64,
    /// For each CPU, the expected instant of the turn after the next.
    then: Vec<Instant>,
}

impl Scene {
    pub(crate) fn new(by: RaiseBy, cpus: usize) -> Scene {
        let linux = policies::find("linux").expect("it is registered");
        let host = SimulatedKernel::new(&Settings::new(linux, cpus)).expect("linux works everywhere");
        for _ in 0..2 * cpus {
            host.world_mut().start("hog", USER, Workload::Hog).expect("numbers are free");
        }
        let daemon = host.begin("daemon", ROOT);
        let me = daemon.identity(&daemon.open(daemon.pid()).unwrap());
        let table = Table::create(Box::new(daemon.map(&Memory::new(Table::words(80)))), "boot", me);
        let policy = policies::find(daemon::terms::POLICY).expect("it is registered");
        let knobs = daemon::terms::knobs(policy);
        let dispatcher = Dispatcher::new(daemon.clone(), Arc::new(table), policy, &knobs, cpus).unwrap();
        let agents = (0..cpus).map(|cpu| daemon.serve(CpuId::new(cpu))).collect();
        Scene { host, daemon, dispatcher, by, agents, turns: 0, foreseen: 0, then: vec![Instant::NEVER; cpus] }
    }

    /// Starts a process with these threads. Returns the tids.
    pub(crate) fn start(&mut self, threads: &[(&str, Workload)]) -> Vec<u32> {
        let (first, others) = threads.split_first().expect("a process has a thread");
        let pid = self.host.world_mut().start(first.0, USER, first.1).expect("numbers are free");
        let mut tids = vec![pid];
        for (name, workload) in others {
            let tid = self.host.world_mut().clone_thread(pid, *workload).expect("numbers are free");
            self.host.world_mut().rename(tid, name);
            tids.push(tid);
        }
        tids
    }

    /// Starts a process with these threads, and requests a promise to the process. Returns the entities and the tids.
    pub(crate) fn admit(
        &mut self,
        request: &PromiseRequest,
        threads: &[(&str, Workload)],
    ) -> (Result<Vec<EntityId>, Refusal>, Vec<u32>) {
        let tids = self.start(threads);
        let pid = tids[0];
        let enclosure = match request.reservation.limit {
            Limit::Hard => enclose(&self.daemon, self.dispatcher.table(), pid, &|| {}).expect("it can be frozen"),
            Limit::Soft => Enclosure::none(),
        };
        let request = &PromiseRequest { by: KeptBy::Dispatcher(self.by), ..request.clone() };
        let admitted = self.dispatcher.admit_scanned(request, pid, &[self.daemon.pid()], None, enclosure);
        if let Ok(admission) = &admitted {
            while self.dispatcher.adopt_further(admission.tree, 1).expect("it can be adopted").is_some() {}
        }
        self.lend();
        (admitted.map(|admission| admission.entities), tids)
    }

    /// Starts another thread of process `pid`, and adopts the new threads of all clients.
    pub(crate) fn clone_thread(&mut self, pid: u32, workload: Workload) -> u32 {
        let tid = self.host.world_mut().clone_thread(pid, workload).expect("numbers are free");
        self.adopt();
        tid
    }

    /// Adopts the new threads of all clients.
    pub(crate) fn adopt(&mut self) {
        for known in self.dispatcher.known() {
            let found = find(&self.daemon, &known);
            self.dispatcher.adopt(known.tree, found).expect("it can be adopted");
        }
        self.lend();
    }

    /// Begins the loans that threads wait for.
    fn lend(&mut self) {
        let offers = begin_loans(&self.daemon, &self.dispatcher.without_loan());
        let (_, reasons) = self.dispatcher.give_loans(offers);
        assert!(reasons.is_empty(), "{reasons:?}");
        self.ring();
    }

    /// Wakes all agents.
    pub(crate) fn ring(&mut self) {
        self.agents.iter().for_each(|&agent| self.host.world_mut().ring(agent));
    }

    /// Makes a promise on one CPU with a hard limit, as [`Scene::admit`]. Returns the entity of the client and the tids.
    pub(crate) fn promise(
        &mut self,
        slice: Nanos,
        period: Nanos,
        threads: &[(&str, Workload)],
    ) -> (EntityId, Vec<u32>) {
        let reservation = Reservation { limit: Limit::Hard, ..Reservation::new(slice, period) };
        let request = PromiseRequest::new("client", reservation);
        let (entities, tids) = self.admit(&request, threads);
        (entities.expect("there is room")[0], tids)
    }

    /// Returns the tids of the threads that have ended since the last call.
    pub(crate) fn take_former(&mut self) -> String {
        format!("{:?}", self.dispatcher.take_former())
    }

    /// Makes a [promise](Scene::promise), and runs the host for two seconds. Returns the CPU time and the wait of each
    /// thread meanwhile.
    pub(crate) fn run(&mut self, slice: Nanos, period: Nanos, threads: &[(&str, Workload)]) -> Vec<Usage> {
        let (_, tids) = self.promise(slice, period, threads);
        self.pass(Nanos::ms(200));
        let before = self.usage(&tids);
        self.pass(Nanos::s(2));
        let since = |(now, before): (Usage, Usage)| Usage {
            ran: now.ran - before.ran,
            waited: now.waited - before.waited,
            dispatches: now.dispatches - before.dispatches,
        };
        self.usage(&tids).into_iter().zip(before).map(since).collect()
    }

    pub(crate) fn usage(&self, tids: &[u32]) -> Vec<Usage> {
        tids.iter().map(|&tid| self.daemon.usage(&self.daemon.open(tid).unwrap()).unwrap()).collect()
    }

    pub(crate) fn pass(&mut self, time: Nanos) {
        let end = self.host.world().now() + time;
        while let Some(tid) = self.host.run_until(end) {
            let cpu = self.agents.iter().position(|&agent| agent == tid).expect("only agents have turns");
            self.turns += 1;
            let quiet = self.host.world_mut().take_quiet(tid);
            let entered = self.host.world_mut().take_entered(tid);
            let next = self.dispatcher.turn(CpuId::new(cpu), Signals { quiet, entered });
            let then = std::mem::replace(&mut self.then[cpu], next.then);
            let is_foreseen = then >= next.at && then.saturating_since(next.at) <= Nanos::us(3);
            self.foreseen += u64::from(is_foreseen);
            for called in next.call.iter() {
                self.host.world_mut().ring(self.agents[called.index()]);
            }
            self.host.world_mut().wake_at(tid, next.at);
            self.host.world_mut().end_turn(tid);
        }
    }
}
