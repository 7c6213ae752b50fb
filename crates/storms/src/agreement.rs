//! Checks that the dispatcher agrees with its machine. The dispatcher derives the state of its clients from the
//! machine's actions alone. After a lost action, a client would stay at a wrong level until its state changes again.

use daemon::dispatch::{Dispatcher, Level, RaiseBy};
use daemon::kernel::{Kernel, priority};
use sched::{CpuId, EntityId, Machine, State};
use simhost::{Difference, World};
use sys::attributes::Policy;

/// Returns a description of the first difference between `dispatcher` and `machine` in the state of `clients`, or in
/// the end of a time slice.
pub(super) fn wrong_state<K: Kernel>(
    dispatcher: &Dispatcher<K>,
    machine: &Machine,
    clients: &[EntityId],
) -> Option<String> {
    let of_client = |&e: &EntityId| {
        let (is, expected) = (dispatcher.state(e), machine.is_attached(e).then(|| machine.state(e)));
        (is != expected).then(|| format!("{e} is {is:?} in the dispatcher, {expected:?} in the machine"))
    };
    let of_cpu = |cpu: CpuId| {
        let (is, expected) = (dispatcher.until(cpu), machine.until(cpu));
        (is != expected)
            .then(|| format!("the slice on {cpu} ends at {is} in the dispatcher, {expected} in the machine"))
    };
    clients.iter().find_map(of_client).or_else(|| machine.topology().all().iter().find_map(of_cpu))
}

/// Returns a description of the first of `clients` with threads at a wrong level on `cpu`, after a turn of the agent of
/// `cpu`. The client's state in `machine` determines the correct level.
pub(super) fn wrong_level<K: Kernel>(
    dispatcher: &Dispatcher<K>,
    machine: &Machine,
    clients: &[EntityId],
    cpu: CpuId,
) -> Option<String> {
    let is_here = |e: &EntityId| machine.is_attached(*e) && machine.allowed(*e).first() == Some(cpu);
    let here: Vec<EntityId> = clients.iter().copied().filter(is_here).collect();
    let alone = |e: EntityId| if dispatcher.has_helpers(e) { priority::AMONG_OTHERS } else { priority::RAISED };
    let expected = |e: EntityId| match machine.state(e) {
        State::Running(_) if here.len() > 1 => Level::Raised(priority::AMONG_OTHERS),
        State::Running(_) => Level::Raised(alone(e)),
        State::Waiting => Level::Original,
        State::Blocked => match machine.promise(e) {
            Some(promise) if promise.remaining > 0 || promise.deadline <= machine.now() => {
                Level::Raised(if here.len() > 1 { priority::RAISED } else { alone(e) })
            }
            _ => Level::Original,
        },
    };
    here.iter().find_map(|&e| {
        let (is, expected, state) = (dispatcher.level(e), expected(e), machine.state(e));
        (is != Some(expected)).then(|| format!("{e} is {state:?} but its level is {is:?}, not {expected:?}"))
    })
}

/// Returns a description of a thread whose scheduling attributes Tactus has changed, although it raises threads by
/// inheritance.
pub(super) fn changed_attributes(world: &World, by: RaiseBy) -> Option<String> {
    if by == RaiseBy::Attributes {
        return None;
    }
    // A thread with such a priority of its own cannot inherit the priority that Tactus lends.
    let inherits = |found: &Difference| !matches!(found.untouched.attributes.policy, Policy::Fifo { priority } if priority >= priority::AMONG_OTHERS);
    let is_changed = |found: &Difference| found.is.attributes != found.untouched.attributes && inherits(found);
    world.differences().iter().find(|found| is_changed(found)).map(|found| format!("attributes have changed: {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Served;
    use crate::session::Session;
    use crate::{Options, Policies, set_up};
    use sched::Nanos;

    /// Runs a storm without a fault for `length`.
    fn session(length: Nanos) -> Session {
        let find = |name| policies::find(name).expect("it is registered");
        let policies = Policies { linux: find("linux"), daemon: find(daemon::terms::POLICY) };
        let drawn = Options::draw(3);
        let options =
            Options { cpus: 1, clients: 3, others: false, refusals: false, adjusts: false, plan: None, ..drawn };
        let (mut session, _) = set_up(&options, &policies, false);
        let end = session.host.world().now() + length;
        session.run_until(end, &mut |_, _| Ok(false)).expect("dispatcher and machine agree");
        session
    }

    #[test]
    fn a_dispatcher_that_missed_actions_is_found_by_state_and_by_level() {
        let (mut states, mut levels) = (0, 0);
        for ms in 100..180 {
            let (earlier, later) = (session(Nanos::ms(ms)), session(Nanos::ms(ms + 2)));
            let clients: Vec<EntityId> = earlier.daemon.served.iter().map(Served::entity).collect();
            assert!(clients.len() > 1, "{clients:?}");
            let (dispatcher, machine) = (&earlier.daemon.dispatcher, later.daemon.dispatcher.machine());
            states += u32::from(wrong_state(dispatcher, machine, &clients).is_some());
            levels += u32::from(wrong_level(dispatcher, machine, &clients, CpuId::new(0)).is_some());
            assert_eq!(wrong_state(dispatcher, dispatcher.machine(), &clients), None);
        }
        assert!(states > 5 && levels > 5, "{states} wrong states and {levels} wrong levels");
    }
}
