//! Tests of the threads of one client, which share its slices, on a simulated host.

use daemon::dispatch::{Dispatcher, PromiseRequest, RaiseBy, Signals, begin_loans};
use daemon::kernel::Kernel;
use daemon::table::Table;
use sched::{CpuId, CpuSet, Limit, Nanos, Reservation};
use sim::{Periodic, Workload};
use simhost::{Caller, Memory, Settings, SimulatedKernel};
use std::sync::Arc;
use sys::thread::Owner;
use sys::usage::Usage;

const ROOT: Owner = Owner { real: 0, effective: 0 };
const USER: Owner = Owner { real: 1000, effective: 1000 };
const CPU: CpuId = CpuId::new(0);

/// A host with one CPU and two hogs, and a daemon with an agent.
struct Scene {
    host: SimulatedKernel,
    daemon: Caller,
    dispatcher: Dispatcher<Caller>,
    agent: u32,
}

impl Scene {
    fn new(by: RaiseBy) -> Scene {
        let linux = policies::find("linux").expect("it is registered");
        let host = SimulatedKernel::new(&Settings::new(linux, 1)).expect("linux works everywhere");
        for _ in 0..2 {
            host.world_mut().start("hog", USER, Workload::Hog).expect("numbers are free");
        }
        let daemon = host.begin("daemon", ROOT);
        let me = daemon.identity(&daemon.open(daemon.pid()).unwrap());
        let table = Table::create(Box::new(daemon.map(&Memory::new(Table::words(16)))), "boot", me);
        let edf = policies::find("edf").expect("it is registered");
        let knobs = daemon::terms::knobs(edf);
        let dispatcher = Dispatcher::new(daemon.clone(), Arc::new(table), edf, &knobs, 1, by).unwrap();
        let agent = daemon.serve(CPU);
        Scene { host, daemon, dispatcher, agent }
    }

    /// Starts a process with these threads, makes it a promise with a hard limit, and runs the host for two seconds.
    /// Returns the CPU time and the wait of each thread meanwhile.
    fn run(&mut self, slice: Nanos, period: Nanos, threads: &[(&str, Workload)]) -> Vec<Usage> {
        let (first, others) = threads.split_first().expect("a process has a thread");
        let pid = self.host.world_mut().start(first.0, USER, first.1).expect("numbers are free");
        let mut tids = vec![pid];
        for (name, workload) in others {
            let tid = self.host.world_mut().clone_thread(pid, *workload).expect("numbers are free");
            self.host.world_mut().rename(tid, name);
            tids.push(tid);
        }
        let reservation = Reservation { limit: Limit::Hard, ..Reservation::new(slice, period) };
        let request = PromiseRequest { name: "client".into(), reservation, cpus: 1, affinity: CpuSet::ALL };
        self.dispatcher.admit(&request, pid, &[self.daemon.pid()]).expect("there is room");
        let offers = begin_loans(&self.daemon, &self.dispatcher.without_loan());
        let (_, reasons) = self.dispatcher.give_loans(offers);
        assert!(reasons.is_empty(), "{reasons:?}");
        self.host.world_mut().ring(self.agent);
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

    fn usage(&self, tids: &[u32]) -> Vec<Usage> {
        tids.iter().map(|&tid| self.daemon.usage(&self.daemon.open(tid).unwrap()).unwrap()).collect()
    }

    fn pass(&mut self, time: Nanos) {
        let end = self.host.world().now() + time;
        while let Some(tid) = self.host.run_until(end) {
            assert_eq!(tid, self.agent, "only the agent has turns");
            let quiet = self.host.world_mut().take_quiet(tid);
            let next = self.dispatcher.turn(CPU, Signals { quiet });
            if next.call.contains(CPU) {
                self.host.world_mut().ring(tid);
            }
            self.host.world_mut().wake_at(tid, next.at);
            self.host.world_mut().end_turn(tid);
        }
    }
}

fn share(of: &Usage, all: &[Usage]) -> u64 {
    let sum: Nanos = all.iter().fold(Nanos::ZERO, |sum, one| sum + one.ran);
    of.ran.as_ns() * 100 / sum.as_ns()
}

#[test]
fn threads_that_always_want_to_run_get_equal_parts_of_the_slices() {
    for by in [RaiseBy::Inheritance, RaiseBy::Attributes] {
        // Slices with several turns, and slices shorter than a turn.
        for (slice, period) in [(Nanos::ms(8), Nanos::ms(20)), (Nanos::us(500), Nanos::ms(5))] {
            let threads: Vec<(&str, Workload)> = (0..4).map(|_| ("worker", Workload::Hog)).collect();
            let all = Scene::new(by).run(slice, period, &threads);
            let shares: Vec<u64> = all.iter().map(|one| share(one, &all)).collect();
            assert!(shares.iter().all(|share| (22..=28).contains(share)), "{by:?} {slice}: {shares:?}");
        }
    }
}

#[test]
fn a_thread_that_sleeps_in_between_is_not_kept_waiting_by_siblings_that_never_do() {
    let sleeper = Workload::Periodic(Periodic::new(Nanos::ms(20), Nanos::us(100)));
    let threads = [("worker", Workload::Hog), ("worker", Workload::Hog), ("sleeper", sleeper)];
    let all = Scene::new(RaiseBy::Inheritance).run(Nanos::ms(16), Nanos::ms(20), &threads);
    let jobs = 2_000 / 20;
    assert!(all[2].ran >= Nanos::us(100).saturating_mul(jobs - 1), "{all:?}");
    // At most the turns of the two others, and the end of the period, in which no thread of the client runs.
    assert!(all[2].waited <= Nanos::ms(8).saturating_mul(jobs), "{all:?}");
}

#[test]
fn threads_that_serve_the_vcpus_run_above_them() {
    let serves = Workload::Periodic(Periodic::new(Nanos::ms(5), Nanos::us(100)));
    let waited = |vcpu: &str| {
        let threads = [("qemu-system-x86", serves), (vcpu, Workload::Hog)];
        let all = Scene::new(RaiseBy::Inheritance).run(Nanos::ms(18), Nanos::ms(20), &threads);
        assert!(all[0].ran >= Nanos::us(100).saturating_mul(390), "{all:?}");
        all[0].waited
    };
    let (above, beside) = (waited("CPU 0/KVM"), waited("worker"));
    assert!(above.as_ns() * 3 < beside.as_ns(), "{above} above the vCPU, {beside} beside a thread like any other");
}

#[test]
fn threads_that_serve_the_vcpus_do_not_take_their_slices() {
    let threads = [("qemu-system-x86", Workload::Hog), ("CPU 0/KVM", Workload::Hog)];
    let all = Scene::new(RaiseBy::Inheritance).run(Nanos::ms(10), Nanos::ms(20), &threads);
    let vcpu = share(&all[1], &all);
    assert!((25..=50).contains(&vcpu), "{vcpu} %: {all:?}");
}
