//! Tests that the world behaves like a Linux host, as far as the daemon and the guardian can observe.

use super::*;
use daemon::kernel::{Cells, Joined, Kernel};
use daemon::table::ControlGroup;
use sched::{Nanos, Wake};
use sim::Periodic;
use sys::Error;
use sys::attributes::Policy;
use sys::thread::{Identity, State};

const ROOT: Owner = Owner { real: 0, effective: 0 };
const USER: Owner = Owner { real: 1000, effective: 1000 };
const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);

fn settings(cpus: usize) -> Settings {
    Settings::new(policies::find("linux").expect("it is registered"), cpus)
}

fn host(cpus: usize) -> SimulatedKernel {
    SimulatedKernel::new(&settings(cpus)).expect("linux works everywhere")
}

fn hog(host: &SimulatedKernel) -> u32 {
    host.world_mut().start("hog", USER, Workload::Hog).expect("numbers are free")
}

/// Advances time. Fails if an actor has a turn.
fn pass(host: &SimulatedKernel, time: Nanos) {
    let end = host.world().now() + time;
    assert_eq!(host.run_until(end), None, "no actor has a turn");
}

fn had(host: &SimulatedKernel, tid: u32) -> Nanos {
    host.world().had(tid).0
}

fn is_about(got: Nanos, due: Nanos) -> bool {
    got.saturating_sub(due).max(due.saturating_sub(got)) <= Nanos::ms(5)
}

#[test]
fn a_raised_hog_takes_its_cpu_from_ordinary_ones_and_gives_it_back() {
    let host = host(1);
    let hogs = [hog(&host), hog(&host), hog(&host)];
    let daemon = host.begin("daemon", ROOT);
    pass(&host, Nanos::ms(300));
    for hog in hogs {
        assert!(is_about(had(&host, hog), Nanos::ms(100)), "{}", had(&host, hog));
    }
    let chosen = daemon.open(hogs[0]).unwrap();
    let before = daemon.attributes(&chosen).unwrap();
    daemon.schedule(&chosen, Attributes::raised(97)).unwrap();
    assert_eq!(daemon.attributes(&chosen).unwrap(), Attributes::raised(97));
    let (first, usage) = (hogs.map(|hog| had(&host, hog)), daemon.usage(&chosen).unwrap());
    pass(&host, Nanos::ms(100));
    assert_eq!(had(&host, hogs[0]), first[0] + Nanos::ms(100));
    assert_eq!(host.world().had(hogs[0]).1, Nanos::ms(100), "all of it raised");
    assert_eq!((had(&host, hogs[1]), had(&host, hogs[2])), (first[1], first[2]));
    assert_eq!(daemon.usage(&chosen).unwrap().ran, usage.ran + Nanos::ms(100));
    daemon.schedule(&chosen, before).unwrap();
    pass(&host, Nanos::ms(300));
    assert!(had(&host, hogs[1]) > first[1] + Nanos::ms(50));
    assert_eq!(host.world().had(hogs[0]).1, Nanos::ms(100));
    assert!(host.world().differences().is_empty());
}

#[test]
fn nice_and_affinity_count() {
    let host = host(2);
    let daemon = host.begin("daemon", ROOT);
    let hogs = [hog(&host), hog(&host), hog(&host)];
    for (hog, cpu, nice) in [(hogs[0], CPU, 0), (hogs[1], CPU, 5), (hogs[2], OTHER, 0)] {
        let thread = daemon.open(hog).unwrap();
        daemon.set_affinity(&thread, &CpuSet::one(cpu)).unwrap();
        daemon.schedule(&thread, Attributes::of(Policy::Other { nice })).unwrap();
        assert_eq!(daemon.affinity(&thread).unwrap(), CpuSet::one(cpu));
    }
    let before = hogs.map(|hog| had(&host, hog));
    pass(&host, Nanos::s(2));
    let since: Vec<u64> = (0..3).map(|at| (had(&host, hogs[at]) - before[at]).as_ns() / 1_000_000).collect();
    // The two threads on one CPU share 2 s as 1024 to 335, and the third thread has the other CPU alone.
    assert!((1480..1530).contains(&since[0]) && (470..520).contains(&since[1]) && since[2] == 2000, "{since:?}");
}

#[test]
fn usage_tells_running_from_waiting_and_counts_dispatches() {
    let host = host(1);
    let daemon = host.begin("daemon", ROOT);
    let (one, two) = (hog(&host), hog(&host));
    let job = Workload::Periodic(Periodic::new(Nanos::ms(10), Nanos::ms(1)));
    let periodic = host.world_mut().start("periodic", USER, job).unwrap();
    let threads = [one, two, periodic].map(|tid| daemon.open(tid).unwrap());
    pass(&host, Nanos::s(1));
    let usages = threads.each_ref().map(|thread| daemon.usage(thread).unwrap());
    assert_eq!(usages[0].ran + usages[1].ran + usages[2].ran, Nanos::s(1));
    assert_eq!(usages[0].ran + usages[0].waited, Nanos::s(1));
    assert!(is_about(usages[2].ran, Nanos::ms(100)) && usages[2].dispatches >= 100, "{usages:?}");
    assert_eq!(daemon.status(&threads[0]).unwrap().state, State::Runnable);
    assert_eq!(daemon.status(&threads[2]).unwrap().name, "periodic");
}

#[test]
fn numbers_are_reused_and_a_handle_does_not_reach_a_later_thread() {
    let host = SimulatedKernel::new(&Settings { numbers: 6, ..settings(1) }).unwrap();
    let daemon = host.begin("daemon", ROOT);
    let first = hog(&host);
    let held = daemon.open(first).unwrap();
    let identity = daemon.identity(&held);
    host.world_mut().exit(first);
    assert!(matches!(daemon.status(&held), Err(Error::Gone(tid)) if tid == first));
    let mut again = 0;
    for _ in 0..6 {
        pass(&host, Nanos::ms(20));
        let next = hog(&host);
        if next == first {
            again += 1;
            let later = daemon.open(first).unwrap();
            assert_ne!(daemon.identity(&later), identity);
            assert_ne!(daemon.identity(&later).start_time, identity.start_time);
            for gone in [
                daemon.open_as(identity).err(),
                daemon.schedule(&held, Attributes::raised(97)).err(),
                daemon.set_affinity(&held, &CpuSet::one(CPU)).err(),
                daemon.cont(&held).err(),
                daemon.usage(&held).err(),
            ] {
                assert!(matches!(gone, Some(Error::Gone(tid)) if tid == first), "{gone:?}");
            }
            assert_eq!(daemon.attributes(&later).unwrap(), Attributes::of(Policy::Other { nice: 0 }));
        }
        host.world_mut().exit(next);
    }
    assert!(again >= 1, "six numbers, three of them in use");
}

#[test]
fn a_world_without_a_free_number_starts_no_thread() {
    let host = SimulatedKernel::new(&Settings { numbers: 3, ..settings(1) }).unwrap();
    let last = hog(&host);
    assert_eq!(host.world_mut().start("hog", USER, Workload::Hog), None);
    assert_eq!(host.world_mut().clone_thread(last, Workload::Hog), None);
}

#[test]
fn children_inherit_what_reset_on_fork_leaves_them() {
    let host = host(2);
    let daemon = host.begin("daemon", ROOT);
    let parent = hog(&host);
    let held = daemon.open(parent).unwrap();
    host.world_mut().reschedule(parent, Attributes::of(Policy::Other { nice: 5 }));
    let births = daemon.births().unwrap();
    let before = host.world_mut().fork(parent, Workload::Hog).unwrap();
    daemon.set_affinity(&held, &CpuSet::one(OTHER)).unwrap();
    daemon.schedule(&held, Attributes::raised(97)).unwrap();
    let after = host.world_mut().fork(parent, Workload::Hog).unwrap();
    let thread = host.world_mut().clone_thread(parent, Workload::Hog).unwrap();
    assert_eq!(daemon.births().unwrap(), births + 3);
    assert_eq!(host.world().setting(before).unwrap().attributes, Attributes::of(Policy::Other { nice: 5 }));
    for born in [after, thread] {
        let born = host.world().setting(born).unwrap();
        assert_eq!(
            born,
            Setting { attributes: Attributes::of(Policy::Other { nice: 0 }), affinity: CpuSet::one(OTHER) }
        );
    }
    assert_eq!(daemon.children(parent).unwrap(), [before, after]);
    assert_eq!(daemon.threads(parent).unwrap(), [parent, thread]);
    assert_eq!(daemon.process(&daemon.open(thread).unwrap()).unwrap(), parent);
    // Without reset-on-fork, children inherit even a real-time class.
    host.world_mut().reschedule(before, Attributes::of(Policy::Fifo { priority: 3 }));
    let fifo = host.world_mut().fork(before, Workload::Hog).unwrap();
    assert_eq!(host.world().setting(fifo).unwrap().attributes, Attributes::of(Policy::Fifo { priority: 3 }));
    let different: Vec<u32> = host.world().differences().iter().map(|found| found.tid).collect();
    assert_eq!(different, [parent, after, thread]);
}

#[test]
fn an_ended_process_leaves_its_children_to_init_and_waits_to_be_reaped() {
    let host = host(1);
    let daemon = host.begin("daemon", ROOT);
    let parent = hog(&host);
    let child = host.world_mut().fork(parent, Workload::Hog).unwrap();
    let thread = host.world_mut().clone_thread(parent, Workload::Hog).unwrap();
    let leader = daemon.open(parent).unwrap();
    host.world_mut().exit(parent);
    assert_eq!(daemon.status(&leader).unwrap().state, State::Dead, "its other thread goes on");
    assert_eq!(daemon.threads(parent).unwrap(), [parent, thread]);
    host.world_mut().set_reaps(parent, false);
    host.world_mut().kill(child);
    assert_eq!(daemon.status(&daemon.open(child).unwrap()).unwrap().state, State::Dead);
    let grandchild = host.world_mut().fork(thread, Workload::Hog).unwrap();
    host.world_mut().exit(thread);
    assert!(matches!(daemon.status(&leader), Err(Error::Gone(_))));
    assert!(matches!(daemon.open(child), Err(Error::Gone(_))), "the first process reaps it");
    let orphan = daemon.open(grandchild).unwrap();
    assert_eq!(daemon.status(&orphan).unwrap().parent, 1);
    assert!(daemon.children(1).unwrap().contains(&grandchild));
}

/// Puts process `pid` into a freezer group of `daemon`.
fn enclosed(daemon: &Caller, pid: u32) -> (Freezer, ControlGroup) {
    let leader = daemon.open(pid).unwrap();
    let group = daemon.freezer_group(&leader).unwrap();
    let freezer = daemon.open_freezer(group, &leader).unwrap();
    assert_eq!(daemon.join_freezer(&freezer, &leader).unwrap(), Joined::Moved);
    assert_eq!(daemon.join_freezer(&freezer, &leader).unwrap(), Joined::Already);
    (freezer, group)
}

#[test]
fn a_frozen_group_holds_every_thread_and_a_stop_by_another_process_lasts() {
    let host = host(2);
    let daemon = host.begin("daemon", ROOT);
    let pid = hog(&host);
    let second = host.world_mut().clone_thread(pid, Workload::Hog).unwrap();
    let job = Workload::Periodic(Periodic::new(Nanos::ms(10), Nanos::ms(1)));
    let third = host.world_mut().clone_thread(pid, job).unwrap();
    let all = [pid, second, third];
    let (freezer, group) = enclosed(&daemon, pid);
    pass(&host, Nanos::ms(50));
    daemon.freeze(&freezer).unwrap();
    let before = all.map(|tid| had(&host, tid));
    pass(&host, Nanos::ms(50));
    assert_eq!(all.map(|tid| had(&host, tid)), before);
    assert_eq!(daemon.status(&daemon.open(third).unwrap()).unwrap().state, State::Uninterruptible);
    assert_eq!(host.world().differences().len(), 3, "all three are in our group");
    host.world_mut().stop(pid);
    daemon.thaw(&freezer).unwrap();
    pass(&host, Nanos::ms(50));
    assert_eq!(all.map(|tid| had(&host, tid)), before, "the stop is another's");
    host.world_mut().cont(pid);
    pass(&host, Nanos::ms(50));
    assert!(all.iter().zip(before).all(|(&tid, before)| had(&host, tid) > before));
    host.world_mut().stop(pid);
    daemon.freeze(&freezer).unwrap();
    daemon.remove_group(group).unwrap();
    pass(&host, Nanos::s(1));
    assert!(host.world().is_stopped(pid) && host.world().differences().is_empty());
    assert!(host.world().groups_of_tactus().is_empty());
    assert_eq!(daemon.freeze(&freezer).unwrap_err().errno(), Some(19), "the group is gone");
    host.world_mut().cont(pid);
    assert!(!host.world().is_stopped(pid));
}

#[test]
fn a_group_freezes_with_the_group_above_and_a_child_starts_in_the_group_of_its_parent() {
    let host = host(1);
    let daemon = host.begin("daemon", ROOT);
    let (pid, container) = (hog(&host), host.world_mut().create_group_of_others("container"));
    host.world_mut().move_to_group(pid, container);
    let (freezer, group) = enclosed(&daemon, pid);
    let child = host.world_mut().fork(pid, Workload::Hog).unwrap();
    assert_eq!(daemon.freezer_processes(&freezer).unwrap(), [pid, child]);
    host.world_mut().freeze_by_others(container, true);
    daemon.freeze(&freezer).unwrap();
    daemon.thaw(&freezer).unwrap();
    assert!(host.world().is_frozen(pid) && host.world().is_frozen(child), "the group above is frozen");
    host.world_mut().freeze_by_others(container, false);
    assert!(!host.world().is_frozen(child));
    // A process that another process moves elsewhere stays there.
    host.world_mut().move_to_group(child, 0);
    assert_eq!(daemon.join_freezer(&freezer, &daemon.open(child).unwrap()).unwrap(), Joined::Elsewhere);
    daemon.remove_group(group).unwrap();
    assert!(host.world().differences().is_empty() && host.world().groups_of_tactus().is_empty());
}

#[test]
fn a_process_that_is_killed_while_it_is_frozen_ends_with_the_thaw() {
    let host = host(1);
    let daemon = host.begin("daemon", ROOT);
    let pid = hog(&host);
    let (freezer, group) = enclosed(&daemon, pid);
    daemon.freeze(&freezer).unwrap();
    host.world_mut().kill(pid);
    assert!(host.world().is_alive(pid));
    daemon.thaw_group(group).unwrap();
    assert!(!host.world().is_alive(pid));
}

#[test]
fn a_caller_without_permission_gets_an_error_and_changes_nothing() {
    let host = host(2);
    let (root, user) = (host.begin("daemon", ROOT), host.begin("daemon", USER));
    let stranger = host.world_mut().start("hog", Owner { real: 7, effective: 7 }, Workload::Hog).unwrap();
    let own = hog(&host);
    let is_refused =
        |error: Option<Error>| matches!(error, Some(Error::NotPermitted { .. })) && error.unwrap().errno() == Some(1);
    let thread = user.open(stranger).unwrap();
    assert_eq!(user.owner(&thread).unwrap().real, 7);
    assert!(is_refused(user.schedule(&thread, Attributes::of(Policy::Idle)).err()));
    assert!(is_refused(user.set_affinity(&thread, &CpuSet::one(CPU)).err()));
    assert!(is_refused(user.cont(&thread).err()));
    let thread = user.open(own).unwrap();
    assert!(is_refused(user.schedule(&thread, Attributes::raised(97)).err()), "no privilege");
    user.set_affinity(&thread, &CpuSet::one(CPU)).unwrap();
    host.world_mut().protect(own, Refuses { real_time: true, ..Refuses::default() });
    assert!(is_refused(root.schedule(&thread, Attributes::raised(97)).err()), "no real-time runtime in its group");
    root.schedule(&thread, Attributes::of(Policy::Other { nice: -3 })).unwrap();
    host.world_mut().protect(own, Refuses { all: true, ..Refuses::default() });
    let group = root.freezer_group(&thread).unwrap();
    let freezer = root.open_freezer(group, &thread).unwrap();
    assert!(is_refused(root.join_freezer(&freezer, &thread).err()));
    root.remove_group(group).unwrap();
    let kernels = root.open(2).unwrap();
    assert!(root.status(&kernels).unwrap().is_kernel);
    assert_eq!(root.set_affinity(&kernels, &CpuSet::one(CPU)).unwrap_err().errno(), Some(22));
    host.world_mut().stop(2);
    assert!(!host.world().is_stopped(2), "kernel threads cannot be stopped");
    for senseless in [Policy::Other { nice: 20 }, Policy::Fifo { priority: 100 }, Policy::Ext { nice: 0 }] {
        let error = root.schedule(&root.open(stranger).unwrap(), Attributes::of(senseless)).unwrap_err();
        assert_eq!(error.errno(), Some(22), "{error}");
    }
    assert!(matches!(root.open(77), Err(Error::Gone(77))));
    assert!(matches!(root.threads(77), Err(Error::Gone(77))));
}

#[test]
fn timers_wake_actors_as_late_as_they_are_and_turns_are_taken_by_priority() {
    let lateness = Lateness { most: Nanos::us(500), rare: Nanos::ms(20), rare_in: 10 };
    let host = SimulatedKernel::new(&Settings { lateness, seed: 5, ..settings(1) }).unwrap();
    let daemon = host.begin("daemon", ROOT);
    let (agent, _) = (daemon.serve(CPU), hog(&host));
    let (mut late, mut rare) = (Nanos::ZERO, 0);
    for _ in 0..200 {
        let at = host.world().now() + Nanos::ms(1);
        host.world_mut().wake_at(agent, at);
        assert_eq!(host.run_until(at + Nanos::ms(30)), Some(agent));
        let by = host.world().now().since(at);
        late = if by == Nanos::ms(20) { late } else { late.max(by) };
        rare += u32::from(by == Nanos::ms(20));
        host.world_mut().end_turn(agent);
    }
    assert!(late > Nanos::us(400) && late <= Nanos::us(500) && (5..50).contains(&rare), "{late} {rare}");
    // A more urgent thread delays the turn of an agent.
    let guard = host.begin("guardian", ROOT).employ(Attributes::raised(99), CpuSet::one(CPU));
    host.world_mut().ring(agent);
    host.world_mut().ring(guard);
    let end = host.world().now() + Nanos::ms(1);
    assert_eq!(host.run_until(end), Some(guard));
    assert_eq!(host.run_until(end), None, "the guardian has the CPU until its turn is over");
    host.world_mut().end_turn(guard);
    assert_eq!(host.run_until(end + Nanos::ms(1)), Some(agent));
    host.world_mut().ring(agent);
    host.world_mut().end_turn(agent);
    assert_eq!(host.run_until(end + Nanos::ms(1)), Some(agent), "it was rung meanwhile");
    host.world_mut().end_turn(agent);
    assert_eq!(host.run_until(end + Nanos::ms(1)), None);
}

#[test]
fn the_sentinel_rings_once_no_raised_thread_wants_the_cpu() {
    let host = host(2);
    let daemon = host.begin("daemon", ROOT);
    let agents = [daemon.serve(CPU), daemon.serve(OTHER)];
    let job = Periodic { phase: Nanos::ms(1), ..Periodic::new(Nanos::ms(100), Nanos::ms(7)) };
    let client = host.world_mut().start("client", USER, Workload::Periodic(job)).unwrap();
    let start = host.world().now();
    let _busy = hog(&host);
    let thread = daemon.open(client).unwrap();
    daemon.set_affinity(&thread, &CpuSet::one(OTHER)).unwrap();
    daemon.schedule(&thread, Attributes::raised(96)).unwrap();
    assert_eq!(host.run_until(start + Nanos::ms(2)), None);
    daemon.await_quiet(OTHER, true);
    daemon.await_quiet(CPU, true);
    daemon.await_quiet(CPU, false);
    assert_eq!(host.run_until(start + Nanos::ms(90)), Some(agents[1]));
    assert_eq!(host.world().now(), start + Nanos::ms(8), "the client slept");
    host.world_mut().end_turn(agents[1]);
    assert_eq!(host.run_until(start + Nanos::ms(200)), None, "once");
}

#[test]
fn the_agent_is_rung_when_an_awaited_thread_arrives_on_its_cpu() {
    let host = host(1);
    let daemon = host.begin("daemon", ROOT);
    let agent = daemon.serve(CPU);
    let client = host.world_mut().start("client", USER, Workload::Scripted).unwrap();
    let _busy = hog(&host);
    let mut thread = daemon.open(client).unwrap();
    daemon.schedule(&thread, Attributes::raised(97)).unwrap();
    daemon.await_entry(&mut thread, CPU, true).unwrap();
    pass(&host, Nanos::ms(10));
    host.world_mut().want(client, Wake::Interrupt);
    let now = host.world().now();
    assert_eq!(host.run_until(now + Nanos::ms(1)), Some(agent));
    assert_eq!(host.world().now(), now);
    daemon.await_entry(&mut thread, CPU, false).unwrap();
    host.world_mut().end_turn(agent);
    pass(&host, Nanos::ms(10));
    assert_eq!(had(&host, client), Nanos::ms(10));
    host.world_mut().block(client);
    pass(&host, Nanos::ms(10));
    assert_eq!(had(&host, client), Nanos::ms(10));
}

#[test]
fn a_process_fails_before_any_of_its_acts_and_does_nothing_afterwards() {
    for fault in [Fault::Crash, Fault::Hang] {
        for act in 0..6 {
            let host = host(1);
            let (daemon, guardian) = (host.begin("daemon", ROOT), host.begin("guardian", ROOT));
            let (agent, client, memory) = (daemon.serve(CPU), hog(&host), Memory::new(1));
            let cells = daemon.map(&memory);
            daemon.fails_at(act, fault);
            host.world_mut().ring(agent);
            let end = host.world().now() + Nanos::ms(1);
            assert_eq!(host.run_until(end), Some(agent));
            host.world_mut().stop(client);
            if let Ok(thread) = daemon.open(client) {
                cells.store(0, 1);
                let _ = daemon.schedule(&thread, Attributes::raised(97));
                let _ = daemon.set_affinity(&thread, &CpuSet::one(CPU));
                let _ = daemon.cont(&thread);
            }
            host.world_mut().wake_at(agent, end);
            host.world_mut().end_turn(agent);
            let happened = [
                memory_word(&guardian.map(&memory)) == 1,
                host.world().setting(client).unwrap().attributes == Attributes::raised(97),
                !host.world().is_stopped(client),
            ];
            assert_eq!(happened, [act > 1, act > 2, act > 4], "{fault:?} in place of act {act}");
            let failed = act < 5;
            assert_eq!(daemon.fault(), failed.then_some(fault));
            let turn = host.run_until(end + Nanos::ms(50));
            assert_eq!(turn.is_none(), failed, "a failed process takes no turn");
            assert_eq!(host.world().is_alive(daemon.pid()), !(failed && fault == Fault::Crash));
            assert_eq!(host.world().is_stopped(daemon.pid()), failed && fault == Fault::Hang);
            host.world_mut().kill(daemon.pid());
            assert!(matches!(daemon.open(client), Err(Error::Gone(_))));
            assert!(guardian.open(client).is_ok());
        }
    }
}

fn memory_word(cells: &Mapping) -> u64 {
    cells.load(0)
}

#[test]
fn a_stop_of_a_daemon_that_ends_lets_it_go_on() {
    let host = host(1);
    let daemon = host.begin("daemon", ROOT);
    let agent = daemon.serve(CPU);
    let at = host.world().now() + Nanos::ms(5);
    host.world_mut().wake_at(agent, at);
    host.world_mut().stop(daemon.pid());
    assert!(matches!(daemon.open(1), Err(Error::Gone(_))));
    assert_eq!(host.run_until(at + Nanos::ms(50)), None);
    host.world_mut().cont(daemon.pid());
    assert_eq!(host.run_until(at + Nanos::ms(60)), Some(agent));
    assert!(daemon.open(1).is_ok());
}

#[test]
fn calls_take_time_in_which_others_act() {
    struct Killer(Instant, u32);
    impl Others for Killer {
        fn next(&self) -> Instant {
            self.0
        }

        fn act(&mut self, world: &mut World) {
            world.kill(self.1);
            self.0 = Instant::NEVER;
        }
    }
    let host = SimulatedKernel::new(&Settings { call: Nanos::us(2), ..settings(1) }).unwrap();
    let (daemon, client) = (host.begin("daemon", ROOT), hog(&host));
    let start = host.world().now();
    host.world_mut().let_act(Box::new(Killer(start + Nanos::us(50), client)));
    let thread = daemon.open(client).unwrap();
    let mut calls = 0;
    while daemon.attributes(&thread).is_ok() {
        calls += 1;
    }
    assert!((20..60).contains(&calls), "{calls} calls of 1 to 2 us in 50 us");
    assert!(matches!(daemon.open_as(Identity { tid: client, start_time: 100 }), Err(Error::Gone(_))));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: u64| {
        let lateness = Lateness { most: Nanos::us(500), rare: Nanos::ms(20), rare_in: 9 };
        let host = SimulatedKernel::new(&Settings { lateness, seed, call: Nanos::us(2), ..settings(2) }).unwrap();
        host.world_mut().record();
        let daemon = host.begin("daemon", ROOT);
        let (agent, client) = (daemon.serve(CPU), hog(&host));
        for turn in 0..100 {
            let now = host.world().now();
            host.world_mut().wake_at(agent, now + Nanos::ms(1));
            assert_eq!(host.run_until(now + Nanos::s(1)), Some(agent));
            let thread = daemon.open(client).unwrap();
            daemon.schedule(&thread, Attributes::raised(96 + turn % 2)).unwrap();
            host.world_mut().end_turn(agent);
        }
        let recorded = host.world().recorded().to_vec();
        (recorded, host.world().steps(), had(&host, client))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn a_thread_inherits_a_lent_priority_and_keeps_its_attributes() {
    let host = host(1);
    let hogs = [hog(&host), hog(&host)];
    let daemon = host.begin("daemon", ROOT);
    let chosen = daemon.open(hogs[0]).unwrap();
    let own = daemon.attributes(&chosen).unwrap();
    let loan = daemon.begin_loan(&chosen).unwrap();
    assert!(daemon.is_lending(&loan) && host.world().differences().is_empty());
    daemon.lend(&loan, Some(97)).unwrap();
    let before = hogs.map(|hog| had(&host, hog));
    pass(&host, Nanos::ms(100));
    assert_eq!(hogs.map(|hog| had(&host, hog)), [before[0] + Nanos::ms(100), before[1]]);
    assert_eq!((daemon.attributes(&chosen).unwrap(), daemon.status(&chosen).unwrap().priority), (own, -98));
    assert!(host.world().differences()[0].is_lent);
    let child = host.world_mut().fork(hogs[0], Workload::Hog).unwrap();
    assert!(!host.world().is_lent(child), "a child inherits its parent's own attributes");
    daemon.lend(&loan, None).unwrap();
    assert_eq!(daemon.status(&chosen).unwrap().priority, 20);
    daemon.lend(&loan, Some(97)).unwrap();
    drop(loan);
    assert!(host.world().differences().is_empty());
}

#[test]
fn a_loan_ends_when_its_recipient_executes_a_program() {
    let host = host(1);
    let daemon = host.begin("daemon", ROOT);
    let tid = hog(&host);
    let thread = daemon.open(tid).unwrap();
    let loan = daemon.begin_loan(&thread).unwrap();
    daemon.lend(&loan, Some(97)).unwrap();
    host.world_mut().execute(tid);
    assert!(!daemon.is_lending(&loan) && !host.world().is_lent(tid));
    let next = daemon.begin_loan(&thread).unwrap();
    daemon.lend(&next, Some(96)).unwrap();
    drop(loan);
    assert!(daemon.is_lending(&next) && host.world().is_lent(tid), "the earlier loan has no part in it");
}

#[test]
fn a_killed_process_lends_until_its_threads_are_lowered() {
    let host = host(1);
    let (daemon, guardian) = (host.begin("daemon", ROOT), host.begin("guardian", ROOT));
    let tid = hog(&host);
    let loan = daemon.begin_loan(&daemon.open(tid).unwrap()).unwrap();
    daemon.lend(&loan, Some(97)).unwrap();
    let identity = guardian.identity(&guardian.open(daemon.pid()).unwrap());
    host.world_mut().kill(daemon.pid());
    drop(loan);
    pass(&host, Nanos::ms(10));
    assert!(host.world().is_lent(tid), "the donor waits behind the thread that inherits");
    guardian.lower_all(identity).unwrap();
    assert!(!host.world().is_lent(tid) && host.world().differences().is_empty());
}
