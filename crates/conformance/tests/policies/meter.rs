//! The meter receives only a trace. In random runs, its results agree with the simulator's own accounts.

use measure::Meter;
use sched::{CpuId, Instant, Limit, Nanos, Params, Reservation, Topology};
use sim::{Costs, JobEnd, Periodic, Workload};

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    /// Returns a number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn workload(&mut self) -> Workload {
        if self.below(3) == 0 {
            return Workload::Hog;
        }
        let period = Nanos::us(500 + self.below(5_000));
        let work = period.scale(1 + self.below(60), 100);
        let end = if self.below(2) == 0 { JobEnd::Silent } else { JobEnd::Yield };
        let deadline = Nanos::ns(work.as_ns() + self.below(period.as_ns()));
        let phase = Nanos::us(self.below(2_000));
        Workload::Periodic(Periodic { phase, deadline, end, ..Periodic::new(period, work) })
    }

    fn params(&mut self) -> Params {
        let mut params = Params::default();
        if self.below(2) == 0 {
            let period = Nanos::us(1_000 + self.below(10_000));
            let limit = if self.below(2) == 0 { Limit::Hard } else { Limit::Soft };
            let slice = period.scale(1 + self.below(20), 100);
            params.reservation = Some(Reservation { slice, period, deadline: None, start: None, limit });
        }
        params
    }
}

fn costs(random: &mut Random) -> Costs {
    match random.below(3) {
        0 => Costs {
            context_switch: Nanos::us(3),
            cache_refill: Nanos::us(20),
            kick: Nanos::us(2),
            tick: Nanos::us(1),
            timer_slack: Nanos::us(50),
            ..Costs::NONE
        },
        _ => Costs::NONE,
    }
}

fn agree(policy: &'static sched::Descriptor, seed: u64) {
    let mut random = Random(seed);
    let machine = Topology::new(1 + usize::try_from(random.below(3)).expect("it is small"));
    let mut meter = Meter::new();
    let costs = costs(&mut random);
    let mut host = sim::Driver::new(policy, machine, &policy.defaults(), costs).expect("defaults work");
    host.watch(&mut meter);
    let (mut present, mut came) = (Vec::new(), Vec::new());
    let mut now = Instant::ZERO;
    for _ in 0..60 {
        match random.below(6) {
            0 if !present.is_empty() => {
                let leaver = present.swap_remove(random.below(present.len() as u64) as usize);
                host.detach(leaver);
            }
            1 if !present.is_empty() => {
                let paused = present[random.below(present.len() as u64) as usize];
                host.pause(paused);
                now += Nanos::us(1 + random.below(5_000));
                host.run_until(now);
                host.resume(paused);
            }
            2 if !present.is_empty() => {
                // The host may refuse the request. The accounts of the meter and of the host must agree nevertheless.
                let _ = host.adjust(present[0], random.params());
            }
            _ => {
                let (params, workload) = (random.params(), random.workload());
                if let Ok(entity) = host.attach("x", params, workload) {
                    present.push(entity);
                    came.push(entity);
                }
            }
        }
        now += Nanos::us(random.below(10_000));
        host.run_until(now);
    }
    host.finish(now + Nanos::ms(20));
    let counts = host.counts();
    let running = (0..machine.cpus).map(CpuId::new).filter_map(|cpu| host.machine().running(cpu)).collect::<Vec<_>>();
    let charged: Vec<_> = present.iter().map(|&entity| (entity, host.machine().charged(entity))).collect();
    drop(host);
    assert_eq!(meter.total().counts(), counts, "{} with seed {seed}", policy.name);
    assert_eq!(meter.members().len(), came.len());
    for (entity, charged) in charged {
        let member = meter.members().iter().find(|member| member.entity == entity).expect("it was seen");
        // The current run of a running entity may not be charged yet.
        let agrees =
            if running.contains(&entity) { member.got.delivered >= charged } else { member.got.delivered == charged };
        assert!(agrees, "{} with seed {seed}: {entity} {} {charged}", policy.name, member.got.delivered);
    }
}

#[test]
fn the_meter_and_the_simulator_keep_the_same_books() {
    for policy in fuzz::chosen_policies() {
        for seed in 0..40 {
            agree(policy, seed);
        }
    }
}
