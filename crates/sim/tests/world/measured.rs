//! The sums of the meters of both levels agree.

use crate::town::{at, forever, guest, hog, host, run, sleep, task, vcpus};
use measure::Meter;
use sched::{Nanos, Params};
use sim::{Application, Costs, Guest, Workload, World};

/// Two vCPUs of an overloaded guest share one CPU with a hog. The guest's tasks receive the CPU time of the vCPUs. The
/// rest of the time is steal time, or the wait of a vCPU after a wake-up.
#[test]
fn what_the_host_gives_to_vcpus_their_tasks_get_and_the_rest_is_stolen() {
    for policy in ["cfs", "credit", "eevdf"] {
        let (mut above, mut below) = (Meter::new(), Meter::new());
        let mut world = World::new(7);
        let machine = host(&mut world, policy, 1, Costs::NONE);
        world.watch(machine, &mut above);
        let cpus = vcpus(&mut world, machine, "vm", 2, false);
        hog(&mut world, machine, "beside");
        let inside = guest(&mut world, machine, "cfs", &cpus, Guest::default(), Costs::NONE);
        world.watch(inside, &mut below);
        for name in ["one", "two", "three"] {
            world.attach(inside, name, Params::default(), Workload::Hog).expect("there is room");
        }
        let naps = forever(vec![run(Nanos::us(300)), sleep(Nanos::ms(7))]);
        let application = Application { tasks: vec![task("naps", vec![naps])], ..Application::default() };
        world.start(inside, &application, sched::GroupId::ROOT).expect("it can be done");
        world.run_until(at(2_000)).expect("no task waits for ever");
        world.finish(at(2_000)).expect("no task waits for ever");
        drop(world);
        let delivered = |name: &str| {
            let found = above.members().iter().find(|member| member.name == name);
            found.unwrap_or_else(|| panic!("{name} was there")).got.delivered
        };
        let given = delivered("vm/0") + delivered("vm/1");
        assert_eq!(below.total().delivered, given, "under {policy}");
        assert_eq!(given + delivered("beside"), Nanos::s(2), "under {policy}: the CPU was always busy");
        // Once the hogs run, neither vCPU halts. Time without a physical CPU is then stolen from the task on the vCPU.
        let stolen = below.cpus().iter().fold(Nanos::ZERO, |sum, cpu| sum + cpu.stolen);
        // After a wake-up from a halt, no task is on the vCPU. The vCPU's wait for a physical CPU is wake-up latency on
        // the host, not steal time.
        let mut woken = Nanos::ZERO;
        above.members().iter().filter(|member| member.name != "beside").for_each(|it| woken += it.got.wakeups.total());
        assert_eq!(given + stolen + woken, Nanos::s(4), "under {policy}");
        assert_eq!(below.total().stolen, stolen, "under {policy}");
        let naps = below.members().iter().find(|member| member.name.contains("naps")).expect("it was there");
        assert!(naps.got.wakeups.longest() > Nanos::ms(1), "under {policy}: it wakes while its vCPU is away, too");
    }
}
