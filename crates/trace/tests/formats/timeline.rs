//! The states of a timeline equal the states of the machine, on random runs.

use crate::support::Random;
use crate::support::edf::{self, FIGURE_2, Order};
use crate::support::walk::{damaged, walk};
use expect_test::expect;
use sched::{Action, CpuId, EntityId, Input, Instant, Nanos, Params};
use std::collections::BTreeSet;
use trace::timeline::{Run, State};
use trace::{Event, Header, Sink, Timeline, Trace};

fn ms(n: u64) -> Instant {
    Instant::ZERO + Nanos::ms(n)
}

#[test]
fn a_timeline_says_what_the_machine_says() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let walk = walk(seed, 150);
        let timeline = Timeline::of(&walk.trace).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (index, truth) in walk.truths.iter().enumerate() {
            let until = walk.truths.get(index + 1).map_or(timeline.to, |next| next.at);
            if until == truth.at {
                continue;
            }
            for &(entity, state) in &truth.states {
                let spans = timeline.row(entity).unwrap().spans_in(truth.at, until);
                assert_eq!(spans.len(), 1, "seed {seed}: {entity} between {} and {until}", truth.at);
                let told = if let State::Held(_) = spans[0].state { State::Held(0) } else { spans[0].state };
                assert_eq!(told, state, "seed {seed}: {entity} at {}", truth.at);
                assert!(spans[0].from <= truth.at && until <= spans[0].to);
                seen.insert(state);
            }
        }
        for (entity, charged) in walk.charged {
            let ran = timeline.row(entity).unwrap().ran_in(timeline.from, timeline.to);
            assert_eq!(ran, charged, "seed {seed}: {entity}");
        }
    }
    assert_eq!(seen.len(), 4 + 3, "every state on every CPU: {seen:?}");
}

#[test]
fn spans_fill_a_life_and_cpus_hold_what_rows_hold() {
    for seed in 0..200 {
        let timeline = Timeline::of(&walk(seed, 150).trace).unwrap();
        let mut runs: Vec<(CpuId, Run)> = Vec::new();
        for row in &timeline.rows {
            let mut at = row.attached;
            for (span, next) in row.spans.iter().zip(row.spans.iter().skip(1).map(Some).chain([None])) {
                assert_eq!(span.from, at, "seed {seed}: no gap");
                assert!(span.from < span.to, "seed {seed}: no empty span");
                assert!(next.is_none_or(|next| next.state != span.state), "seed {seed}: neighbours differ");
                at = span.to;
                if let State::Running(cpu) = span.state {
                    runs.push((cpu, Run { from: span.from, to: span.to, entity: row.entity }));
                }
            }
            assert_eq!(at, row.detached.unwrap_or(timeline.to).max(row.attached), "seed {seed}: to the end");
        }
        runs.sort_by_key(|(cpu, run)| (*cpu, run.from));
        let by_cpu: Vec<(CpuId, Run)> = timeline
            .cpus
            .iter()
            .enumerate()
            .flat_map(|(n, runs)| runs.iter().map(move |&run| (CpuId::new(n), run)))
            .collect();
        assert_eq!(by_cpu, runs, "seed {seed}");
        assert!(by_cpu.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1.to <= pair[1].1.from), "seed {seed}");
    }
}

#[test]
fn figure_2_of_the_vsched_paper_in_intervals() {
    let timeline = Timeline::of(&edf::run(&FIGURE_2, 1, Order::Deadline, ms(200))).unwrap();
    let mut text = String::new();
    for row in &timeline.rows {
        text += &format!("{} arrived {:?}\n", row.name, row.arrived.unwrap());
        for span in &row.spans {
            text += &format!("  {:>5} {:>5} {:?}\n", span.from, span.to, span.state);
        }
        for job in &row.jobs {
            text += &format!(
                "  job of {}, due {}, {} {}\n",
                job.released,
                job.deadline,
                if job.completed { "done" } else { "not done" },
                job.ended
            );
        }
    }
    expect![[r#"
        VM1 arrived 0s
             0s  20ms Running(cpu0)
           20ms  50ms Blocked
           50ms  70ms Running(cpu0)
           70ms 100ms Blocked
          100ms 120ms Running(cpu0)
          120ms 150ms Blocked
          150ms 170ms Running(cpu0)
          170ms 200ms Blocked
          job of 0s, due 50ms, done 20ms
          job of 50ms, due 100ms, done 70ms
          job of 100ms, due 150ms, done 120ms
          job of 150ms, due 200ms, done 170ms
        VM2 arrived 30ms
             0s  30ms Blocked
           30ms  40ms Running(cpu0)
           40ms 130ms Blocked
          130ms 140ms Running(cpu0)
          140ms 200ms Blocked
          job of 30ms, due 130ms, done 40ms
          job of 130ms, due 230ms, done 140ms
        VM3 arrived 60ms
             0s  60ms Blocked
           60ms  70ms Waiting
           70ms 100ms Running(cpu0)
          100ms 120ms Waiting
          120ms 130ms Running(cpu0)
          130ms 140ms Waiting
          140ms 150ms Running(cpu0)
          150ms 170ms Waiting
          170ms 200ms Running(cpu0)
          job of 60ms, due 1.06s, not done 200ms
    "#]]
    .assert_eq(&text);
}

/// Two VMs take turns of 45 ms on one CPU.
#[test]
fn a_job_misses_its_deadline_only_when_it_ends_after_it() {
    let vms = [
        edf::Vm { name: "late", period: Nanos::ms(50), slice: Nanos::ms(30), arrival: Nanos::ZERO },
        edf::Vm { name: "hog", period: Nanos::ms(1000), slice: Nanos::ms(900), arrival: Nanos::ZERO },
    ];
    let timeline = Timeline::of(&edf::run(&vms, 1, Order::Turns(Nanos::ms(45)), ms(150))).unwrap();
    let missed: Vec<(u64, bool, bool)> =
        timeline.rows[0].jobs.iter().map(|job| (job.ended.as_ns() / 1_000_000, job.completed, job.missed())).collect();
    // The first job of `late` completes at 30 ms. Then `hog` runs until 75 ms. The second job of `late` completes at
    // 105 ms, 5 ms late. The trace ends at the deadline of the third job, which is incomplete.
    expect!["[(30, true, false), (105, true, true), (150, false, false)]"].assert_eq(&format!("{missed:?}"));
}

fn header(cpus: usize) -> Header {
    Header { policy: "x".into(), cpus, seed: 0 }
}

const E0: EntityId = EntityId::new(0, 0);
const E1: EntityId = EntityId::new(1, 0);

fn attach(entity: EntityId) -> Event {
    Event::Attach { entity, name: String::new(), params: Box::new(Params::default()) }
}

fn run_on(cpu: usize, entity: EntityId) -> Event {
    Event::Action(Action::Run { cpu: CpuId::new(cpu), entity, until: Instant::NEVER })
}

#[test]
fn a_trace_that_contradicts_itself_is_refused() {
    let cpu = CpuId::new(0);
    let error = |events: &[Event]| {
        let mut trace = Trace::new(header(2));
        for event in [attach(E0), attach(E1)].iter().chain(events) {
            trace.record(ms(1), event);
        }
        Timeline::of(&trace).unwrap_err().to_string()
    };
    let stranger = EntityId::new(7, 3);
    let texts = [
        error(&[run_on(0, E0), run_on(0, E1)]),
        error(&[run_on(0, E0), run_on(1, E0)]),
        error(&[run_on(2, E0)]),
        error(&[run_on(0, stranger)]),
        error(&[Event::Action(Action::Stop { cpu, entity: E0 })]),
        error(&[run_on(0, E0), Event::Action(Action::Stop { cpu, entity: E1 })]),
        error(&[Event::Input(Input::Block { cpu })]),
        error(&[Event::Action(Action::Extend { cpu, until: ms(5) })]),
        error(&[Event::Complete { entity: E0 }]),
        error(&[attach(E0)]),
        error(&[Event::Detach { entity: E0 }, attach(E0)]),
        error(&[Event::Detach { entity: E0 }, Event::Action(Action::Held { entity: E0, reasons: 1 })]),
    ];
    expect![[r#"
        event 4 at 1ms: e1 runs on CPU 0, but e0 does; help: record a `stop` before it
        event 4 at 1ms: e0 runs on CPU 1, but runs on CPU 0; help: record a `stop` before it
        event 3 at 1ms: there is no CPU 2; help: use a CPU below 2, the number in the header
        event 3 at 1ms: e7.3 is not attached; help: record an `attach` before it
        event 3 at 1ms: e0 stops on CPU 0, but does not run there
        event 4 at 1ms: e1 stops on CPU 0, but does not run there
        event 3 at 1ms: CPU 0 blocks, but no entity runs there
        event 3 at 1ms: CPU 0 continues, but no entity runs there
        event 3 at 1ms: e0 completes a job, but none is released
        event 3 at 1ms: e0 has been attached before
        event 4 at 1ms: e0 has been attached before
        event 4 at 1ms: e0 is not attached; help: record an `attach` before it"#]]
    .assert_eq(&texts.join("\n"));
    let mut trace = Trace::new(header(1));
    trace.record(ms(2), &Event::End);
    trace.record(ms(1), &Event::End);
    expect!["event 2 at 1ms: time goes back from 2ms"].assert_eq(&Timeline::of(&trace).unwrap_err().to_string());
}

#[test]
fn damaged_traces_never_panic() {
    let mut refused = 0;
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let trace = damaged(&mut random, walk(seed, 60).trace);
        refused += u32::from(Timeline::of(&trace).is_err());
    }
    assert!((200..500).contains(&refused), "some damage contradicts, some does not: {refused}");
    assert_eq!(Timeline::of(&Trace::new(header(usize::MAX))).unwrap().rows, []);
}
