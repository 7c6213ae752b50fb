//! ftrace's text format, line by line.

use expect_test::expect;
use sched::{Action, Class, CpuId, EntityId, Input, Instant, Params, RtPriority, Wake, Weight};
use trace::{Event, FtraceWriter, Header, Sink};

const A: EntityId = EntityId::new(0, 0);
const B: EntityId = EntityId::new(1, 0);

fn attach(entity: EntityId, name: &str, params: Params) -> Event {
    Event::Attach { entity, name: name.to_string(), params: Box::new(params) }
}

fn run(cpu: usize, entity: EntityId) -> Event {
    Event::Action(Action::Run { cpu: CpuId::new(cpu), entity, until: Instant::NEVER })
}

fn stop(cpu: usize, entity: EntityId) -> Event {
    Event::Action(Action::Stop { cpu: CpuId::new(cpu), entity })
}

fn wake(entity: EntityId) -> Event {
    Event::Input(Input::Wake { entity, why: Wake::Timer })
}

/// Returns the lines that the writer writes for `events` on two CPUs, without the header. Times are in nanoseconds.
fn written(events: &[(u64, Event)]) -> String {
    let header = Header { policy: "any".to_string(), cpus: 2, seed: 0 };
    let mut writer = FtraceWriter::new(Vec::new(), &header);
    events.iter().for_each(|(at, event)| writer.record(Instant::at_ns(*at), event));
    let text = String::from_utf8(writer.finish().expect("memory takes everything")).expect("it is text");
    assert!(text.starts_with("# tracer: nop\n#\n"), "{text}");
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Returns the lines with a bar at the start, so that leading spaces are visible and kept.
fn with_margin(text: &str) -> String {
    text.lines().map(|line| format!("|{line}\n")).collect()
}

#[test]
fn what_a_task_does_has_the_kernels_lines() {
    let fifo = Params { class: Class::Fifo(RtPriority::new(50).expect("50 is one")), ..Params::default() };
    let nice = Params { weight: Weight::nice(5).expect("5 is one"), ..Params::default() };
    let on = CpuId::new(0);
    let text = written(&[
        (0, attach(A, "a name that is too long", nice)),
        (0, Event::Input(Input::Wake { entity: A, why: Wake::New { parent: None } })),
        (0, run(0, A)),
        (1_000_499, attach(B, "b\nb", fifo)),
        (1_000_500, wake(B)),
        (1_000_500, stop(0, A)),
        (1_000_500, run(0, B)),
        // `B` yields. Then `A` runs for no time at all, and blocks.
        (2_000_000, Event::Input(Input::Yield { cpu: on })),
        (2_000_000, stop(0, B)),
        (2_000_000, run(0, A)),
        (2_000_000, Event::Input(Input::Block { cpu: on })),
        (2_000_000, stop(0, A)),
        (2_000_000, run(0, B)),
        (12_345_678_901, Event::Detach { entity: B }),
        (12_345_678_901, stop(0, B)),
        (12_345_678_901, Event::Detach { entity: A }),
        (12_345_678_901, Event::End),
    ]);
    expect![[r#"
        |          <idle>-0       [000] ....     0.000000: sched_wakeup_new: comm=a name that is  pid=1 prio=125 target_cpu=000
        |          <idle>-0       [000] ....     0.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a name that is  next_pid=1 next_prio=125
        | a name that is -1       [000] ....     0.001001: sched_wakeup: comm=b?b pid=2 prio=49 target_cpu=000
        | a name that is -1       [000] ....     0.001001: sched_switch: prev_comm=a name that is  prev_pid=1 prev_prio=125 prev_state=R+ ==> next_comm=b?b next_pid=2 next_prio=49
        |             b?b-2       [000] ....     0.002000: sched_switch: prev_comm=b?b prev_pid=2 prev_prio=49 prev_state=R ==> next_comm=a name that is  next_pid=1 next_prio=125
        | a name that is -1       [000] ....     0.002000: sched_switch: prev_comm=a name that is  prev_pid=1 prev_prio=125 prev_state=S ==> next_comm=b?b next_pid=2 next_prio=49
        |             b?b-2       [000] ....    12.345679: sched_process_exit: comm=b?b pid=2 prio=49
        |             b?b-2       [000] ....    12.345679: sched_switch: prev_comm=b?b prev_pid=2 prev_prio=49 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120
        |          <idle>-0       [000] ....    12.345679: sched_process_free: comm=a name that is  pid=1 prio=125
    "#]]
    .assert_eq(&with_margin(&text));
}

#[test]
fn tasks_that_change_places_are_never_on_two_cpus() {
    let text = written(&[
        (0, attach(A, "a", Params::default())),
        (0, attach(B, "b", Params::default())),
        (0, wake(A)),
        (0, wake(B)),
        (0, run(0, A)),
        (0, run(1, B)),
        (5_000, stop(0, A)),
        (5_000, stop(1, B)),
        (5_000, run(0, B)),
        (5_000, run(1, A)),
        // Both tasks stop, and `A` moves to the CPU of `B`.
        (9_000, stop(0, B)),
        (9_000, stop(1, A)),
        (9_000, run(0, A)),
    ]);
    let after: String =
        text.lines().filter(|line| !line.contains(" 0.000000:")).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        |               a-1       [000] ....     0.000005: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=swapper/0 next_pid=0 next_prio=120
        |               b-2       [001] ....     0.000005: sched_migrate_task: comm=a pid=1 prio=120 orig_cpu=0 dest_cpu=1
        |               b-2       [001] ....     0.000005: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=R+ ==> next_comm=a next_pid=1 next_prio=120
        |          <idle>-0       [000] ....     0.000005: sched_migrate_task: comm=b pid=2 prio=120 orig_cpu=1 dest_cpu=0
        |          <idle>-0       [000] ....     0.000005: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120
        |               a-1       [001] ....     0.000009: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=swapper/1 next_pid=0 next_prio=120
        |               b-2       [000] ....     0.000009: sched_migrate_task: comm=a pid=1 prio=120 orig_cpu=1 dest_cpu=0
        |               b-2       [000] ....     0.000009: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=R+ ==> next_comm=a next_pid=1 next_prio=120
    "#]]
    .assert_eq(&with_margin(&after));
}
