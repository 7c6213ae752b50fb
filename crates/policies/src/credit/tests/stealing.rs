//! Tests of version differences on several CPUs: the CPUs that a wake-up kicks, and the CPUs from which an idle CPU
//! steals.

use super::*;

const TODAY: [(&str, &str); 1] = [("version", "4.23")];

#[test]
fn a_running_vcpu_is_not_preempted_if_another_cpu_idles() {
    for (words, alone) in [(&[][..], false), (&[("tickle", "one-idle")], true), (&TODAY, true)] {
        let mut host = worded(sched::Topology::new(2), words, &[]);
        let busy = living_on(&mut host, CPU);
        let io = living_on(&mut host, CPU);
        interrupt(&mut host, busy);
        run_through(&mut host, 15);
        interrupt(&mut host, io);
        run_through(&mut host, 16);
        let (there, elsewhere) = if alone { (busy, io) } else { (io, busy) };
        assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [Some(there), Some(elsewhere)], "{words:?}");
    }
}

#[test]
fn idle_cpus_are_called_one_at_a_time_and_in_turn() {
    use sched::{Action, Input, Kicks, Machine};
    let called = |words: &[(&str, &str)]| {
        let mut knobs = POLICY.defaults();
        for &(name, word) in words {
            knobs.set_word(name, word).expect("a choice");
        }
        let mut machine = Machine::build(&POLICY, sched::Topology::new(4), &knobs, Kicks::Delivered).expect("it works");
        let now = Instant::ZERO;
        let hogs = [(), (), ()].map(|()| {
            let e = machine.attach(now, pinned(CPU)).expect("accepted");
            machine.adjust(now, e, Params::default()).expect("accepted");
            e
        });
        let kicks = |machine: &mut Machine, e: EntityId| -> Vec<usize> {
            machine.input(now, Input::Wake { entity: e, why: Wake::Timer });
            let kicks = machine.settle(now).iter().filter_map(|action| match action {
                Action::Kick { cpu } => Some(cpu.index()),
                _ => None,
            });
            kicks.collect()
        };
        assert_eq!(kicks(&mut machine, hogs[0]), [0], "its own CPU idles");
        machine.input(now, Input::Kicked { cpu: CPU });
        let _ = machine.settle(now);
        let first = kicks(&mut machine, hogs[1]);
        (first, kicks(&mut machine, hogs[2]))
    };
    assert_eq!(called(&[]), (vec![1, 2, 3], vec![0; 0]), "all at once; no idle CPU is left to kick");
    assert_eq!(called(&[("tickle", "one-idle")]), (vec![1], vec![2]));
    assert_eq!(called(&TODAY), (vec![1], vec![2]));
}

#[test]
fn a_preempted_vcpu_moves_to_an_idle_cpu() {
    for (words, moves) in [(&[][..], false), (&[("tickle", "one-idle")], true), (&TODAY, true)] {
        let mut host = worded(sched::Topology::new(2), words, &[("hand-off", 0)]);
        let free = living_on(&mut host, OTHER);
        let stays = scripted(&mut host, pinned(OTHER));
        interrupt(&mut host, free);
        run_through(&mut host, 19);
        interrupt(&mut host, stays);
        run_through(&mut host, 19);
        assert_eq!(running(&host, OTHER), Some(stays));
        assert_eq!(running(&host, CPU) == Some(free), moves, "{words:?}");
    }
}

/// Returns the CPUs from which CPU 2 steals when it runs out of work twice. CPUs 0 to 2 share a cache, and CPUs 3 to 5
/// share another cache. On each of CPUs 0, 1 and 3, a vCPU waits behind a boosted vCPU.
fn stolen_from(words: &[(&str, &str)]) -> [usize; 2] {
    let words: Vec<(&str, &str)> = words.iter().copied().chain([("tickle", "all-idle")]).collect();
    let mut host = worded(sched::Topology { cpus: 6, smt: 1, llc: 3 }, &words, &[]);
    let hogs: Vec<EntityId> = host
        .machine()
        .topology()
        .iter()
        .collect::<Vec<_>>()
        .into_iter()
        .map(|cpu| hog(&mut host, pinned(cpu)))
        .collect();
    run_through(&mut host, 31);
    let behind = [0, 1, 3].map(CpuId::new);
    let waiting = behind.map(|cpu| living_on(&mut host, cpu));
    for cpu in behind {
        let boosted = scripted(&mut host, pinned(cpu));
        interrupt(&mut host, boosted);
    }
    run_through(&mut host, 31);
    for e in waiting {
        interrupt(&mut host, e);
    }
    run_through(&mut host, 32);
    let cpu = CpuId::new(2);
    assert_eq!(running(&host, cpu), Some(hogs[2]));
    host.pause(hogs[2]);
    run_through(&mut host, 32);
    let first = waiting.iter().position(|&e| running(&host, cpu) == Some(e)).expect("a vCPU waits");
    host.run_until(at(34));
    host.block(cpu);
    run_through(&mut host, 34);
    let second = waiting.iter().position(|&e| running(&host, cpu) == Some(e)).expect("a vCPU waits");
    [first, second].map(|n| behind[n].index())
}

#[test]
fn the_same_cache_is_looked_at_first_and_in_turn() {
    assert_eq!(stolen_from(&[]), [3, 0], "the next higher number");
    assert_eq!(stolen_from(&[("steal", "any")]), [3, 0]);
    assert_eq!(
        stolen_from(&[("steal", "near")]),
        [1, 0],
        "the first of its cache after CPU 0, then the next after that"
    );
    assert_eq!(stolen_from(&TODAY), [1, 0]);
}

/// Returns the CPU that runs `next`, which waits behind the running entity of CPU 1. At one instant, the running entity
/// of CPU 1 blocks and CPU 0 runs out of work.
fn thief_of_the_only_vcpu(words: &[(&str, &str)]) -> usize {
    let mut host = worded(sched::Topology::new(2), words, &[("hand-off", 0)]);
    let [here, there] = [CPU, OTHER].map(|cpu| scripted(&mut host, pinned(cpu)));
    let next = living_on(&mut host, OTHER);
    interrupt(&mut host, here);
    interrupt(&mut host, there);
    run_through(&mut host, 1);
    interrupt(&mut host, next);
    run_through(&mut host, 2);
    assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [Some(here), Some(there)]);
    host.block(OTHER);
    host.block(CPU);
    run_through(&mut host, 2);
    (0..2).find(|&cpu| running(&host, CpuId::new(cpu)) == Some(next)).expect("it runs somewhere")
}

#[test]
fn nothing_is_taken_from_a_cpu_with_only_that_to_run() {
    assert_eq!(thief_of_the_only_vcpu(&[]), 0, "CPU 0 is the first to look");
    assert_eq!(thief_of_the_only_vcpu(&[("steal", "near")]), 1);
}

#[test]
fn the_queue_of_an_idle_cpu_is_its_own_but_not_in_3_0_3() {
    // At one instant, a vCPU wakes on idle CPU 1 and CPU 0 runs out of work.
    for (words, cpu) in [(&[][..], 1), (&[("steal", "any")], 0), (&[("version", "3.0.3")], 0)] {
        let mut host = worded(sched::Topology::new(2), words, &[("hand-off", 0)]);
        let here = scripted(&mut host, pinned(CPU));
        let next = living_on(&mut host, OTHER);
        interrupt(&mut host, here);
        run_through(&mut host, 2);
        interrupt(&mut host, next);
        host.block(CPU);
        run_through(&mut host, 2);
        assert_eq!(running(&host, CpuId::new(cpu)), Some(next), "{words:?}");
    }
}

#[test]
fn a_cpu_may_steal_only_once_in_a_while() {
    // CPU 0 runs out of work twice within a millisecond; two vCPUs wait on CPU 1.
    for (words, again) in [(&[][..], true), (&[("steal-limit", "on")], false), (&TODAY, false)] {
        let words: Vec<(&str, &str)> = words.iter().copied().chain([("ratelimit", "off")]).collect();
        let mut host = worded(sched::Topology::new(2), &words, &[("hand-off", 0)]);
        let [here, _] = [CPU, OTHER].map(|cpu| hog(&mut host, pinned(cpu)));
        run_through(&mut host, 31);
        let waiting = [(), ()].map(|()| living_on(&mut host, OTHER));
        let boosted = scripted(&mut host, pinned(OTHER));
        for e in [boosted, waiting[0], waiting[1]] {
            interrupt(&mut host, e);
        }
        run_through(&mut host, 31);
        assert_eq!(running(&host, OTHER), Some(boosted));
        host.pause(here);
        run_through(&mut host, 31);
        assert_eq!(running(&host, CPU), Some(waiting[0]));
        let later = |us| Instant::at_ns(Nanos::us(us).as_ns());
        host.run_until(later(31_900));
        host.block(CPU);
        host.run_until(later(31_950));
        assert_eq!(running(&host, CPU), again.then_some(waiting[1]), "{words:?}");
    }
}

#[test]
fn the_interval_between_attempts_is_a_knob_and_ticks_offer_the_vcpus_left() {
    for (interval, hand_off, runs) in [(100_000, 0, true), (5_000_000, 0, false), (5_000_000, 1, false)] {
        let knobs = [("steal-interval", interval), ("hand-off", hand_off)];
        let mut host = worded(sched::Topology::new(2), &[("steal-limit", "on")], &knobs);
        let there = hog(&mut host, pinned(OTHER));
        run_through(&mut host, 31);
        assert_eq!(running(&host, OTHER), Some(there));
        let pinned = [(), ()].map(|()| scripted(&mut host, pinned(CPU)));
        // CPU 0 runs out of work at 32.5 ms, and again at 33.5 ms.
        for (ms, e) in [(32, pinned[0]), (33, pinned[1])] {
            host.run_until(at(ms));
            interrupt(&mut host, e);
            host.run_until(at(ms) + Nanos::us(500));
            host.block(CPU);
        }
        host.run_until(at(34));
        let boosted = scripted(&mut host, super::pinned(OTHER));
        let waits = living_on(&mut host, OTHER);
        interrupt(&mut host, boosted);
        run_through(&mut host, 34);
        assert_eq!(running(&host, OTHER), Some(boosted));
        interrupt(&mut host, waits);
        run_through(&mut host, 34);
        assert_eq!(running(&host, CPU) == Some(waits), runs, "{interval} {hand_off}");
        run_through(&mut host, 40);
        assert_eq!(running(&host, CPU) == Some(waits), runs || hand_off == 1, "{interval} {hand_off}");
    }
}

#[test]
fn a_vcpu_that_yielded_is_not_stolen() {
    for (words, stolen) in [(&[][..], true), (&[("yield", "behind-one")], false), (&TODAY, false)] {
        let mut host = worded(sched::Topology::new(2), words, &[("hand-off", 0)]);
        let [here, _] = [CPU, OTHER].map(|cpu| hog(&mut host, pinned(cpu)));
        let yields = living_on(&mut host, OTHER);
        run_through(&mut host, 31);
        interrupt(&mut host, yields);
        run_through(&mut host, 41);
        assert_eq!(running(&host, OTHER), Some(yields));
        host.yield_now(OTHER);
        run_through(&mut host, 42);
        assert_eq!(host.machine().state(yields), State::Waiting);
        host.pause(here);
        run_through(&mut host, 43);
        assert_eq!(running(&host, CPU) == Some(yields), stolen, "{words:?}");
    }
}

#[test]
fn ticks_move_no_vcpu_if_that_is_off() {
    for words in [&[("relocate", "off")][..], &[("version", "3.0.3")]] {
        let mut host = worded(sched::Topology { cpus: 4, smt: 2, llc: 4 }, words, &[]);
        let pair = [CPU, OTHER].map(|cpu| living_on(&mut host, cpu));
        for e in pair {
            interrupt(&mut host, e);
        }
        host.run_until(at(1_000));
        assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), pair.map(Some), "{words:?}");
    }
}
