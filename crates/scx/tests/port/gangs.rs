//! The timers of a gang: the first one that fires begins the period of every sibling.

use crate::program::{Program, Rival, SCX_GANG_EDF};
use sched::{
    Action, Alarm, CpuId, EntityId, GroupId, GroupParams, Input, Instant, Kicks, Limit, Machine, Nanos, Params,
    Reservation, Topology, Wake,
};

const RIVAL: Rival = Rival {
    name: "each sibling waits for its own timer",
    file: "periods.h",
    from: "		begin_siblings(*number, promise, now);\n",
    to: "		if (!number)\n			begin_siblings(*number, promise, now);\n",
};

/// Runs a gang of two threads with a hard promise of 2 ms in 10 ms on two CPUs. At 10 ms, the alarm of one CPU fires, and that of
/// the other one is late. Returns which thread each CPU runs then.
fn with_a_late_timer(program: &Program) -> [Option<EntityId>; 2] {
    let host = Topology::new(2);
    let policy = Box::new(program.policy(&port::GANG_EDF, &host));
    let mut machine = Machine::new(policy, SCX_GANG_EDF.alarms, host, Kicks::Immediate);
    let gang = GroupParams { gang: true, ..GroupParams::default() };
    let group = machine.create_group(Instant::ZERO, gang, GroupId::ROOT).expect("it fits");
    let reservation = Reservation { limit: Limit::Hard, ..Reservation::new(Nanos::ms(2), Nanos::ms(10)) };
    let params = Params { group, reservation: Some(reservation), ..Params::default() };
    let both = [0, 1].map(|_| machine.attach(Instant::ZERO, params).expect("it fits"));
    let mut alarms: Vec<(Alarm, Instant)> = Vec::new();
    for ms in [0, 1, 3, 10] {
        let now = Instant::ZERO + Nanos::ms(ms);
        let mut due: Vec<Alarm> = alarms.iter().filter(|&&(_, at)| at <= now).map(|&(alarm, _)| alarm).collect();
        if ms == 10 {
            assert_eq!(due.len(), 2, "each CPU has a timer");
            due.truncate(1);
        }
        for alarm in due {
            alarms.retain(|&(other, _)| other != alarm);
            machine.input(now, Input::Alarm { alarm });
        }
        for entity in both.into_iter().filter(|_| ms < 2) {
            // The second wake-up is on the CPU of the thread, and so is its timer from then on.
            if ms == 1 {
                machine.input(now, Input::Pause { entity });
            }
            machine.input(now, Input::Wake { entity, why: Wake::Interrupt });
        }
        for action in machine.settle(now) {
            if let Action::SetAlarm { alarm, at, .. } = *action {
                alarms.retain(|(other, _)| *other != alarm);
                alarms.push((alarm, at));
            }
        }
        let running = [0, 1].map(|cpu| machine.running(CpuId::new(cpu)));
        assert!(ms != 3 || running == [None, None], "their slices are used up: {running:?}");
    }
    [0, 1].map(|cpu| machine.running(CpuId::new(cpu)))
}

#[test]
fn the_first_timer_of_a_gang_begins_the_period_of_every_sibling() {
    let Some(program) = Program::edf(None) else { return };
    let both = with_a_late_timer(&program);
    assert!(both.iter().all(Option::is_some), "a sibling does not run: {both:?}");
    let Some(rival) = Program::edf(Some(&RIVAL)) else { return };
    let both = with_a_late_timer(&rival);
    assert_eq!(both.iter().flatten().count(), 1, "the rival calls all siblings: {both:?}");
}
