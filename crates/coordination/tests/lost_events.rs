//! Random traces of a guest's kernel, in which any event may be lost, late or wrong.

mod seeds;

use coordination::wire::{FromGuest, Source};
use coordination::{Coordination, GuestAgent, Inbox, Protocol, Rule, Traced};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use sched::{Class, CpuId, Instant, Nanos, RtPriority, Weight};

const CPUS: usize = 3;

fn below(random: &mut ChaCha8Rng, most: u64) -> u64 {
    random.next_u64() % most
}

fn event(random: &mut ChaCha8Rng) -> Traced {
    let mut tid = || below(random, 6) as u32;
    let (one, other) = (tid(), tid());
    // The last CPU does not exist.
    let cpu = CpuId::new(below(random, CPUS as u64 + 1) as usize);
    match below(random, 12) {
        0..6 => Traced::Switch { cpu, from: one, blocks: below(random, 2) == 0, to: other },
        6..8 => {
            let source = [None, Some(Source::Network), Some(Source::Disk)][below(random, 3) as usize];
            Traced::Wake { tid: one, waker: (below(random, 2) == 0).then_some(other), source, cpu }
        }
        8 => Traced::Timer { tid: one, expiry: Instant::at_ns(below(random, 1 << 32)) },
        9 => Traced::Begin { tid: one, parent: other },
        10 => Traced::End { tid: one },
        _ => {
            let class = [Class::Normal, Class::Fifo(RtPriority::new(9).unwrap())][below(random, 2) as usize];
            Traced::Params { tid: one, class, weight: Weight::NORMAL, allowed: 1 }
        }
    }
}

/// Every hint is new, is one of the guest's vCPUs, and is accepted by the host.
fn follows(seed: u64, random: &mut ChaCha8Rng) {
    let (_, rule) = Rule::ALL[seed as usize % Rule::ALL.len()];
    let mut agent = GuestAgent::new(Coordination { detector: rule, ..Coordination::new(Protocol::S0) }, CPUS);
    let (mut inbox, mut at, mut last) = (Inbox::new(CPUS), Instant::ZERO, Instant::ZERO);
    for _ in 0..300 {
        at = at.saturating_add(Nanos::us(below(random, 3_000)));
        if below(random, 8) == 0 {
            agent.review(at);
        } else {
            let late = Nanos::us(below(random, 2) * 100);
            agent.process(Instant::at_ns(at.as_ns().saturating_sub(late.as_ns())), event(random));
        }
        agent.publish(|hint| {
            assert_eq!(FromGuest::read(&FromGuest::Hint(hint).bytes()), Ok(FromGuest::Hint(hint)));
            assert!(inbox.receive(hint), "it is newer than all before");
            assert!(hint.sent >= last, "time does not go back");
            assert!(hint.choice.runs || hint.choice.task_boost.is_none(), "an idle vCPU has no urgent task: {hint:?}");
            last = hint.sent;
        });
    }
    agent.publish(|hint| panic!("nothing is new: {hint:?}"));
}

#[test]
fn any_trace_gives_valid_hints() {
    seeds::each("lost_events", 2_000, follows);
}
