//! Tests of the order of the lists, as in sched(7), and of time slices of SCHED_RR.

use super::*;

/// Blocks the running entity of CPU 0, `count` times in succession. Returns the entities that run after each block.
fn order(host: &mut Driver<'_>, count: usize) -> Vec<EntityId> {
    (0..count)
        .map(|_| {
            host.block(CPU);
            run_through(host, 0);
            running(host, CPU).expect("an entity waits")
        })
        .collect()
}

/// Returns a host on which an entity of priority 50 runs. The returned entities have these `priorities`, were enqueued
/// in this order, and wait.
fn waiting<'a>(priorities: [u8; 3]) -> (Driver<'a>, [EntityId; 3]) {
    let mut host = host(1);
    let above = hog(&mut host, fifo(50));
    run_through(&mut host, 0);
    assert_eq!(running(&host, CPU), Some(above));
    let three = priorities.map(|priority| hog(&mut host, fifo(priority)));
    run_through(&mut host, 0);
    (host, three)
}

#[test]
fn equals_run_in_the_order_in_which_they_came() {
    let (mut host, [a, b, c]) = waiting([10, 10, 10]);
    assert_eq!(order(&mut host, 3), [a, b, c]);
    let (mut host, [a, b, c]) = waiting([10, 30, 20]);
    assert_eq!(order(&mut host, 3), [b, c, a]);
}

#[test]
fn a_preempted_entity_goes_first() {
    let mut host = host(1);
    let [a, b] = [(), ()].map(|()| hog(&mut host, fifo(10)));
    let above = scripted(&mut host, fifo(11));
    host.run_until(at(5));
    wake(&mut host, above);
    run_through(&mut host, 5);
    assert_eq!(running(&host, CPU), Some(above), "at once");
    host.block(CPU);
    run_through(&mut host, 6);
    assert_eq!(running(&host, CPU), Some(a));
    host.run_until(at(10_000));
    assert_eq!((running(&host, CPU), used(&mut host, b)), (Some(a), Nanos::ZERO), "SCHED_FIFO has no turns");
}

#[test]
fn an_equal_does_not_preempt() {
    let mut host = host(1);
    let [a, b] = [(), ()].map(|()| hog(&mut host, fifo(10)));
    run_through(&mut host, 5);
    assert_eq!((running(&host, CPU), host.machine().state(b)), (Some(a), State::Waiting));
}

#[test]
fn an_entity_that_yields_goes_last() {
    let mut host = host(1);
    let [a, b, c] = [10, 10, 9].map(|priority| hog(&mut host, fifo(priority)));
    run_through(&mut host, 1);
    for expected in [b, a, b] {
        host.yield_now(CPU);
        run_through(&mut host, 1);
        assert_eq!(running(&host, CPU), Some(expected));
    }
    assert_eq!(used(&mut host, c), Nanos::ZERO, "of its list, not of all");
}

#[test]
fn a_higher_priority_puts_an_entity_last_in_its_new_list() {
    let (mut host, [a, b, c]) = waiting([10, 20, 20]);
    host.adjust(a, fifo(20)).expect("accepted");
    assert_eq!(order(&mut host, 3), [b, c, a]);
}

#[test]
fn a_lower_priority_puts_an_entity_first_in_its_new_list() {
    let (mut host, [a, b, c]) = waiting([10, 10, 20]);
    host.adjust(c, fifo(10)).expect("accepted");
    assert_eq!(order(&mut host, 3), [c, a, b]);
}

#[test]
fn the_same_priority_moves_no_entity() {
    let (mut host, [a, b, c]) = waiting([10, 10, 10]);
    host.adjust(b, fifo(10)).expect("accepted");
    host.adjust(a, round_robin(10)).expect("accepted");
    assert_eq!(order(&mut host, 3), [a, b, c]);
}

#[test]
fn a_running_entity_that_is_lowered_is_preempted_and_goes_first() {
    let (mut host, [a, b, _]) = waiting([40, 20, 20]);
    let above = running(&host, CPU).expect("it runs");
    host.adjust(above, fifo(20)).expect("accepted");
    run_through(&mut host, 0);
    assert_eq!(running(&host, CPU), Some(a));
    host.block(CPU);
    run_through(&mut host, 0);
    assert_eq!(running(&host, CPU), Some(above), "before {b}");
}

#[test]
fn a_waiting_entity_raised_above_the_running_one_preempts() {
    let (mut host, [a, ..]) = waiting([10, 10, 10]);
    host.adjust(a, fifo(51)).expect("accepted");
    run_through(&mut host, 0);
    assert_eq!(running(&host, CPU), Some(a));
}

#[test]
fn round_robin_has_time_slices_of_100_ms_among_equals() {
    let mut host = host(1);
    let [a, b] = [(), ()].map(|()| hog(&mut host, round_robin(10)));
    let low = hog(&mut host, round_robin(9));
    for (turn, expected) in [a, b, a, b].into_iter().enumerate() {
        host.run_until(at(100 * turn as u64 + 50));
        assert_eq!(running(&host, CPU), Some(expected));
    }
    host.run_until(at(10_000));
    let all = [a, b, low].map(|e| used(&mut host, e));
    assert_eq!(all, [Nanos::s(5), Nanos::s(5), Nanos::ZERO]);
}

#[test]
fn a_time_slice_continues_after_a_preemption() {
    let mut host = host(1);
    let [a, b] = [(), ()].map(|()| hog(&mut host, round_robin(10)));
    let above = scripted(&mut host, fifo(20));
    host.run_until(at(60));
    wake(&mut host, above);
    host.run_until(at(500));
    host.block(CPU);
    host.run_until(at(539));
    assert_eq!(running(&host, CPU), Some(a), "it has 40 ms left");
    run_through(&mut host, 540);
    assert_eq!(running(&host, CPU), Some(b));
}

#[test]
fn a_fifo_entity_does_not_take_turns_with_its_equals_of_round_robin() {
    let mut host = host(1);
    let turns = hog(&mut host, round_robin(10));
    let stays = hog(&mut host, fifo(10));
    host.run_until(at(150));
    assert_eq!(running(&host, CPU), Some(stays), "the turn of the other is over");
    host.run_until(at(10_000));
    assert_eq!((running(&host, CPU), used(&mut host, turns)), (Some(stays), Nanos::ms(100)));
}

#[test]
fn a_wake_up_stays_on_its_cpu_unless_an_entity_as_urgent_runs_there() {
    let mut host = host(3);
    let home = hog(&mut host, pinned(fifo(20), OTHER));
    let mover = scripted(&mut host, pinned(fifo(30), OTHER));
    wake(&mut host, mover);
    run_through(&mut host, 1);
    assert_eq!(running(&host, OTHER), Some(mover));
    host.block(OTHER);
    host.adjust(mover, fifo(30)).expect("accepted");
    run_through(&mut host, 1);
    // CPUs 0 and 2 idle. `mover` nevertheless stays on its last CPU, which runs a less urgent entity.
    wake(&mut host, mover);
    run_through(&mut host, 1);
    assert_eq!((running(&host, OTHER), host.machine().state(home)), (Some(mover), State::Waiting));
    host.block(OTHER);
    host.adjust(mover, fifo(20)).expect("accepted");
    run_through(&mut host, 1);
    wake(&mut host, mover);
    run_through(&mut host, 1);
    assert_eq!((running(&host, OTHER), running(&host, CPU)), (Some(home), Some(mover)));
}

#[test]
fn a_preempted_entity_is_pushed_to_the_least_urgent_cpu() {
    let mut host = host(3);
    let [low, middle] = [(5, CPU), (7, OTHER)].map(|(priority, cpu)| hog(&mut host, pinned(fifo(priority), cpu)));
    let last = CpuId::new(2);
    let free = hog(&mut host, pinned(fifo(10), last));
    run_through(&mut host, 1);
    host.adjust(free, fifo(10)).expect("accepted");
    assert_eq!(running(&host, last), Some(free));
    let above = scripted(&mut host, pinned(fifo(20), last));
    wake(&mut host, above);
    run_through(&mut host, 1);
    assert_eq!([CPU, OTHER, last].map(|cpu| running(&host, cpu)), [Some(free), Some(middle), Some(above)]);
    // CPU 1 becomes idle. `low`, which waits on CPU 0, is pinned to CPU 0.
    host.pause(middle);
    run_through(&mut host, 1);
    assert_eq!((running(&host, OTHER), host.machine().state(low)), (None, State::Waiting));
    host.adjust(low, fifo(5)).expect("accepted");
    run_through(&mut host, 1);
    assert_eq!(running(&host, OTHER), Some(low));
}

#[test]
fn a_cpu_without_work_pulls_the_most_urgent_waiting_entity() {
    let mut host = host(2);
    let [first, second] = [CPU, OTHER].map(|cpu| hog(&mut host, pinned(fifo(50), cpu)));
    let [low, high] = [10, 40].map(|priority| hog(&mut host, fifo(priority)));
    run_through(&mut host, 1);
    host.pause(second);
    run_through(&mut host, 1);
    assert_eq!(running(&host, OTHER), Some(high));
    host.pause(first);
    run_through(&mut host, 1);
    assert_eq!(running(&host, CPU), Some(low));
}
