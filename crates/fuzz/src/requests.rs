//! Random parameters of entities and groups.

use super::dice::Dice;
use super::options::{Options, WARP_MOST, WEIGHTS};
use sched::{
    Class, CpuSet, GroupId, GroupParams, Instant, Limit, Nanos, Params, Quota, Reservation, RtPriority, Warp, Weight,
};

/// Returns random parameters of an entity.
pub(super) fn params(options: &Options, groups: &[GroupId], now: Instant, dice: &mut Dice) -> Params {
    let group = dice.choose(groups).expect("the root is always there");
    let weight = dice.choose(&WEIGHTS).and_then(Weight::linux).expect("it is in range");
    let mut params = Params { group, weight, ..Params::default() };
    if options.affinities && dice.one_in(2) {
        let cpus = options.host.iter().filter(|_| dice.one_in(2)).collect::<CpuSet>();
        params.affinity = if cpus.is_empty() { CpuSet::ALL } else { cpus };
    }
    if options.real_time && dice.one_in(4) {
        let number = u8::try_from(1 + dice.below(99)).expect("it is small");
        let urgency = RtPriority::new(number).expect("it is in range");
        params.class = match dice.below(16) {
            0 => Class::Stop,
            1..8 => Class::Fifo(urgency),
            _ => Class::RoundRobin(urgency),
        };
    } else if dice.one_in(8) {
        params.class = dice.choose(&[Class::Batch, Class::Idle, Class::Isochronous]).expect("there are three");
    }
    if options.reservations && dice.one_in(2) {
        params.reservation = Some(reservation(now, dice));
    }
    if dice.one_in(8) {
        params.latency = Some(Nanos::us(100) + dice.span(Nanos::ms(100)));
    }
    if dice.one_in(8) {
        let mut span = || dice.span(WARP_MOST);
        params.warp = Some(Warp { by: span(), limit: span(), rest: span() });
    }
    params
}

fn reservation(now: Instant, dice: &mut Dice) -> Reservation {
    let period = Nanos::us(100) + dice.span(Nanos::ms(100));
    let slice = Nanos::ns(1) + dice.span(period.scale(1, 2));
    let limit = if dice.one_in(2) { Limit::Soft } else { Limit::Hard };
    let deadline = dice.one_in(8).then(|| slice + dice.span(period - slice)).map(|deadline| deadline.min(period));
    let start = dice.one_in(8).then(|| now + dice.span(Nanos::ms(50)));
    Reservation { slice, period, deadline, start, limit }
}

/// Returns `old` with a new random value for one parameter, or new random values for all parameters.
pub(super) fn changed(options: &Options, groups: &[GroupId], now: Instant, old: Params, dice: &mut Dice) -> Params {
    let request = params(options, groups, now, dice);
    match dice.below(8) {
        0 => Params { weight: request.weight, ..old },
        1 => Params { affinity: request.affinity, ..old },
        2 => Params { class: request.class, ..old },
        3 => Params { group: request.group, ..old },
        4 => Params { reservation: request.reservation, ..old },
        5 => Params { latency: request.latency, ..old },
        6 => Params { warp: request.warp, ..old },
        _ => request,
    }
}

/// Returns random parameters of a group.
pub(super) fn group_params(options: &Options, dice: &mut Dice) -> GroupParams {
    let weight = dice.choose(&WEIGHTS).and_then(Weight::linux).expect("it is in range");
    let mut params = GroupParams { weight, gang: dice.one_in(2), ..GroupParams::default() };
    if options.limits && dice.one_in(2) {
        let quota = Nanos::ms(1 + dice.below(200));
        params.quota = Some(Quota::new(quota, Nanos::ms(10 + dice.below(90))).expect("it is in range"));
        params.cap_percent = Some(u32::try_from(5 + dice.below(200)).expect("it is small"));
    }
    params
}
