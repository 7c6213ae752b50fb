//! Worlds as text and as intervals: a written world is read back unchanged, and the run times of both levels agree.

use crate::support::world::{BOOKS, HOST, SHOP, Story, damaged, e, machine, two_levels, walk};
use crate::support::{Random, events};
use expect_test::{Expect, expect};
use sched::{CpuId, EntityId, Input, Instant, Nanos};
use trace::timeline::{Run, State};
use trace::{Event, MACHINES_MAX, MachineId, TextError, WorldHeader, WorldTextWriter, WorldTimeline, WorldTrace, text};

fn try_write(trace: &WorldTrace) -> std::io::Result<String> {
    let mut writer = WorldTextWriter::new(Vec::new(), &trace.header);
    trace.show(&mut writer);
    writer.finish().map(|bytes| String::from_utf8(bytes).unwrap())
}

fn written(trace: &WorldTrace) -> String {
    try_write(trace).unwrap()
}

// ---- Text ----

#[test]
fn every_world_reads_back_as_it_was_written() {
    for seed in 0..300 {
        let trace = events::world(&mut Random::new(seed), 200);
        let text = written(&trace);
        let back = text::read_world(text.as_bytes()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(back, trace, "seed {seed}");
        assert_eq!(written(&back), text, "seed {seed}");
    }
}

const GOLDEN: &str = r#"tactus-world 1 machines=2
machine m0 name="host" policy="edf" cpus=2 seed=7 host=none
machine m1 name="web \"farm\"" policy="eevdf" cpus=1 seed=8 host=m0
           0 m0 vcpu e0 guest=m1 cpu=0
           0 m1 freeze cpu=0 preempted=no
     1000000 m0 run cpu=1 e0 until=21000000
     1000000 m1 thaw cpu=0 stolen=1000000
     1000000 m1 run cpu=0 e3.2 until=never
123456789012345 m1 end
"#;

#[test]
fn the_form_is_what_the_documentation_says() {
    assert_eq!(written(&text::read_world(GOLDEN.as_bytes()).unwrap()), GOLDEN);
}

fn fails(line: &str, expected: &Expect) {
    let head: String = GOLDEN.lines().take(4).map(|line| format!("{line}\n")).collect();
    let text = format!("{head}{line}\n");
    expected.assert_eq(&text::read_world(text.as_bytes()).unwrap_err().to_string());
}

#[test]
fn an_error_in_a_world_names_the_place_the_reason_and_the_remedy() {
    fails("10 m2 end", &expect!["line 5, column 4: there is no machine m2; help: use a machine below m2"]);
    fails("10 run cpu=0 e3 until=20", &expect!["line 5, column 4: `run` is not a machine; help: use an id like `m0`"]);
    fails("10 mx end", &expect!["line 5, column 5: `x` is not a number; help: use a whole number from 0 to 4095"]);
    fails("10 m99999 end", &expect!["line 5, column 5: `99999` is too large; help: use a whole number from 0 to 4095"]);
    fails(
        "10 m1 vcpu e0 guest=e1 cpu=0",
        &expect!["line 5, column 21: `e1` is not a machine; help: use an id like `m0`"],
    );
    fails("10 m1 freeze", &expect!["line 5, column 13: the line ends too early; help: add the field `cpu=`"]);
    fails(
        "10 m1",
        &expect!["line 5, column 6: the line has no verb; help: use a verb of the format, such as `run` or `wake`"],
    );
    let error = |text: &str| text::read_world(text.as_bytes()).unwrap_err().to_string();
    let lines = [
        error(""),
        error("tactus-trace 1 policy=\"x\" cpus=1 seed=0\n"),
        error("{\"traceEvents\": []}\n"),
        error("tactus-world 2 machines=1\n"),
        error("tactus-world 1 machines=0\n"),
        error("tactus-world 1 machines=4097\n"),
        error("tactus-world 1 machines=2\nmachine m0 name=\"\" policy=\"\" cpus=1 seed=0 host=none\n"),
        error("tactus-world 1 machines=1\n0 m0 end\n"),
        error("tactus-world 1 machines=1\nmachine m1 name=\"\" policy=\"\" cpus=1 seed=0 host=none\n"),
        error("tactus-world 1 machines=1\nmachine m0 name=\"\" policy=\"\" cpus=1 seed=0 host=m0\n"),
        error("tactus-world 1 machines=1\nmachine m0 name=\"\" policy=\"\" cpus=1025 seed=0 host=none\n"),
        text::read(GOLDEN.as_bytes()).unwrap_err().to_string(),
    ];
    expect![[r#"
        line 1, column 1: there is no header; help: write `tactus-world 1 machines=…`
        line 1, column 1: this is a trace of one machine; help: write `tactus-world 1 machines=…`
        line 1, column 1: this is not a trace of a world; help: write `tactus-world 1 machines=…`
        line 1, column 14: version 2 of the format is not known; help: use version 1
        line 1, column 16: a world without machines; help: use `machines=1` to `machines=4096`
        line 1, column 25: `4097` is too large; help: use a whole number from 0 to 4096
        line 3, column 1: the headers of machines from m1 on are missing; help: write 2 headers, the number in the first line
        line 2, column 1: `0` is not the header of a machine; help: write `machine m0 name="…" policy="…" cpus=… seed=… host=…`
        line 2, column 9: m1 is not the next machine; help: write `machine m0 name="…" policy="…" cpus=… seed=… host=…`
        line 2, column 44: the host of m0 does not come before it; help: use `none` or a machine above
        line 2, column 35: `1025` is too large; help: use a whole number from 0 to 1024
        line 1, column 1: this is a trace of several machines; help: write `tactus-trace 1 policy="…" cpus=… seed=…`"#]].assert_eq(&lines.join("\n"));
}

/// A damaged file of a world is read or refused. Neither the reader nor a consumer of the result panics.
#[test]
fn damaged_files_of_worlds_never_panic() {
    const PARTS: [&[u8]; 9] =
        [b"", b" ", b"\n", b"m0", b"m4095", b"machines=9", b"host=m0", b"99999999999999999999999", b"\xff\xfe"];
    let mut refused = 0;
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let mut bytes = written(&events::world(&mut random, 6)).into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.index(bytes.len());
            let end = (at + random.index(12)).min(bytes.len());
            match random.below(3) {
                0 if at > 0 => bytes.truncate(at),
                1 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                _ => drop(bytes.splice(at..end, random.pick(&PARTS).iter().copied())),
            }
            if bytes.is_empty() {
                break;
            }
        }
        match text::read_world(bytes.as_slice()) {
            Ok(trace) => {
                assert_eq!(text::read_world(written(&trace).as_bytes()).unwrap(), trace, "seed {seed}");
                drop(WorldTimeline::of(&trace));
            }
            Err(TextError::Wrong { reason, help, .. }) => {
                assert!(!reason.is_empty() && !help.is_empty(), "seed {seed}");
                refused += 1;
            }
            Err(TextError::Read { .. }) => panic!("seed {seed}: memory can be read"),
        }
    }
    assert!(refused > 1000, "the damage must be noticed often, not {refused} times");
}

#[test]
fn what_the_form_cannot_hold_is_an_error_and_not_a_broken_file() {
    let one = |cpus, host| vec![machine("a", "x", cpus, host)];
    let empty = |machines| try_write(&WorldTrace::new(WorldHeader { machines })).unwrap_err().to_string();
    let mut story = Story::new(one(1, None));
    story.say(SHOP, Event::End);
    let texts = [
        empty(Vec::new()),
        empty(one(0, None)),
        empty(one(1025, None)),
        empty(one(1, Some(HOST))),
        empty(vec![machine("a", "x", 1, None); MACHINES_MAX + 1]),
        try_write(&story.trace).unwrap_err().to_string(),
    ];
    expect![[r#"
        a world of 0 machines; help: use 1 to 4096
        m0 has 0 CPUs; help: use 1 to 1024
        m0 has 1025 CPUs; help: use 1 to 1024
        the host of m0 is m0, which does not come before it; help: put a host before its guests
        a world of 4097 machines; help: use 1 to 4096
        an event of m1; help: use a machine below m1"#]]
    .assert_eq(&texts.join("\n"));
}

// ---- Intervals ----

#[test]
fn stolen_time_is_what_a_task_misses_while_its_vcpu_is_away() {
    let world = WorldTimeline::of(&two_levels()).unwrap();
    let mut text = String::new();
    for (machine, timeline) in world.header.machines.iter().zip(&world.machines) {
        for row in &timeline.rows {
            text += &format!("{} {}:", machine.name, row.name);
            for span in &row.spans {
                text += &format!(" {}-{} {:?}", span.from, span.to, span.state);
            }
            text.push('\n');
        }
    }
    expect![[r#"
        host shop/0: 0s-10ms Running(cpu0) 10ms-20ms Waiting 20ms-30ms Running(cpu0) 30ms-40ms Waiting 40ms-50ms Running(cpu0) 50ms-53ms Waiting 53ms-60ms Running(cpu0)
        host books/0: 0s-10ms Waiting 10ms-20ms Running(cpu0) 20ms-30ms Waiting 30ms-40ms Running(cpu0) 40ms-50ms Waiting 50ms-53ms Running(cpu0) 53ms-60ms Blocked
        shop hog: 0s-4ms Running(cpu0) 4ms-6ms Waiting 6ms-10ms Running(cpu0) 10ms-20ms Stolen(cpu0) 20ms-22ms Waiting 22ms-29ms Running(cpu0) 29ms-41ms Waiting 41ms-50ms Running(cpu0) 50ms-53ms Stolen(cpu0) 53ms-60ms Running(cpu0)
        shop shell: 0s-4ms Blocked 4ms-6ms Running(cpu0) 6ms-20ms Blocked 20ms-22ms Running(cpu0) 22ms-29ms Blocked 29ms-30ms Running(cpu0) 30ms-40ms Stolen(cpu0) 40ms-41ms Running(cpu0) 41ms-60ms Blocked
        books scan: 0s-10ms Waiting 10ms-20ms Running(cpu0) 20ms-30ms Stolen(cpu0) 30ms-40ms Running(cpu0) 40ms-50ms Stolen(cpu0) 50ms-53ms Running(cpu0) 53ms-60ms Blocked
    "#]].assert_eq(&text);
    assert_eq!(world.links.vcpu(HOST, e(1)), Some((BOOKS, CpuId::new(0))));
    assert_eq!(world.links.vcpu(SHOP, e(1)), None);
    assert_eq!(world.links.entity(SHOP, CpuId::new(0)), Some(e(0)));
    assert_eq!(world.named("books").map(|timeline| timeline.to), Some(world.to));
}

/// A task of a guest runs only while its vCPU runs. Its run and steal times on a vCPU do not overlap.
#[test]
fn what_runs_in_a_guest_runs_within_its_vcpu() {
    let (mut ran, mut stolen) = (Nanos::ZERO, Nanos::ZERO);
    for seed in 0..200 {
        let world = WorldTimeline::of(&walk(seed, 200)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (id, timeline) in world.header.ids().zip(&world.machines).skip(1) {
            assert_eq!(timeline.to, world.to, "seed {seed}: all end together");
            for (cpu, runs) in timeline.cpus.iter().enumerate() {
                let vcpu = world.machines[0].row(world.links.entity(id, CpuId::new(cpu)).unwrap()).unwrap();
                let length = |run: &Run| run.to.since(run.from);
                for run in runs {
                    assert_eq!(vcpu.ran_in(run.from, run.to), length(run), "seed {seed}: {id} CPU {cpu} {run:?}");
                    ran += length(run);
                }
                for run in &timeline.stolen[cpu] {
                    assert_eq!(vcpu.ran_in(run.from, run.to), Nanos::ZERO, "seed {seed}: {id} CPU {cpu} {run:?}");
                    stolen += length(run);
                }
                let mut all: Vec<(Instant, Instant)> =
                    runs.iter().chain(&timeline.stolen[cpu]).map(|run| (run.from, run.to)).collect();
                all.sort_unstable();
                assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0), "seed {seed}: {id} CPU {cpu}");
            }
            for row in &timeline.rows {
                let is_stolen = |state| matches!(state, State::Stolen(_));
                let lost: Nanos =
                    row.spans.iter().filter(|span| is_stolen(span.state)).map(|span| span.to.since(span.from)).sum();
                let by_cpu = timeline.stolen.iter().flatten().filter(|run| run.entity == row.entity);
                assert_eq!(lost, by_cpu.map(|run| run.to.since(run.from)).sum(), "seed {seed}: {id} {}", row.name);
            }
        }
    }
    assert!(ran > Nanos::us(1000) && stolen > Nanos::us(1000), "{ran} run, {stolen} stolen");
}

fn error(tell: for<'s> fn(&'s mut Story) -> &'s mut Story) -> String {
    let mut story = Story::new(vec![
        machine("host", "x", 2, None),
        machine("a\nb", "x", 1, Some(HOST)),
        machine("alone", "x", 1, None),
    ]);
    story.attach(HOST, 0, "vcpu").attach(HOST, 1, "other").attach(SHOP, 0, "task").attach(SHOP, 1, "other");
    tell(story.at_ms(1));
    WorldTimeline::of(&story.trace).unwrap_err().to_string()
}

#[test]
fn a_world_that_contradicts_itself_is_refused() {
    const CPU: CpuId = CpuId::new(0);
    let texts = [
        error(|story| story.freeze(SHOP).run(SHOP, 0)),
        error(|story| story.run(SHOP, 0).freeze(SHOP).stop(SHOP, 0)),
        error(|story| story.run(SHOP, 0).freeze(SHOP).block(SHOP, 0)),
        error(|story| story.freeze(SHOP).say(SHOP, Event::Input(Input::Kicked { cpu: CPU }))),
        error(|story| story.freeze(SHOP).freeze(SHOP)),
        error(|story| story.thaw(SHOP)),
        error(|story| story.say(SHOP, Event::Input(Input::Freeze { cpu: CpuId::new(1), preempted: false }))),
        error(|story| story.say(MachineId(3), Event::End)),
        error(|story| story.say(SHOP, Event::End).at_ms(0).say(HOST, Event::End)),
        error(|story| story.vcpu(HOST, 7, SHOP, 0)),
        error(|story| story.vcpu(HOST, 0, SHOP, 1)),
        error(|story| story.vcpu(HOST, 0, BOOKS, 0)),
        error(|story| story.vcpu(HOST, 0, MachineId(9), 0)),
        error(|story| story.vcpu(HOST, 0, SHOP, 0).vcpu(HOST, 1, SHOP, 0)),
        WorldTimeline::of(&WorldTrace::new(WorldHeader::default())).unwrap_err().to_string(),
    ];
    expect![[r#"
        event 6 at 1ms: m1 (a\nb): e0 runs on CPU 0, but it is frozen; help: record a `thaw` before it
        event 7 at 1ms: m1 (a\nb): something happens on CPU 0, but it is frozen; help: record a `thaw` before it
        event 7 at 1ms: m1 (a\nb): something happens on CPU 0, but it is frozen; help: record a `thaw` before it
        event 6 at 1ms: m1 (a\nb): something happens on CPU 0, but it is frozen; help: record a `thaw` before it
        event 6 at 1ms: m1 (a\nb): CPU 0 freezes, but it is frozen; help: record a `thaw` before it
        event 5 at 1ms: m1 (a\nb): CPU 0 thaws, but it is not frozen; help: record a `freeze` before it
        event 5 at 1ms: m1 (a\nb): there is no CPU 1; help: use a CPU below 1, the number in the header
        event 5 at 1ms: there is no m3; help: use a machine below m3, the number in the header
        event 6 at 0s: time goes back from 1ms
        event 5 at 1ms: m0 (host): e7 is not attached; help: record an `attach` before it
        event 5 at 1ms: m0 (host): e0 is CPU 1 of m1, which has only 1; help: use a CPU below 1
        event 5 at 1ms: m0 (host): e0 is CPU 0 of m2, which is no guest of m0; help: name a machine with `host=m0`
        event 5 at 1ms: m0 (host): e0 is CPU 0 of m9, which is no guest of m0; help: name a machine with `host=m0`
        event 6 at 1ms: m0 (host): e1 is CPU 0 of m1, but e0 is; help: link one entity to each CPU
        event 0 at 0s: a world of 0 machines; help: use 1 to 4096"#]]
    .assert_eq(&texts.join("\n"));
}

/// The guest's CPU freezes and thaws twice at one instant. No time is stolen, and the task continues to run.
#[test]
fn no_time_is_stolen_between_freeze_and_thaw_at_one_instant() {
    let mut story = Story::new(vec![machine("host", "x", 1, None), machine("vm", "x", 1, Some(HOST))]);
    story.attach(SHOP, 0, "task").wake(SHOP, 0).run(SHOP, 0);
    story.at_ms(5).freeze(SHOP).thaw(SHOP).freeze(SHOP).thaw(SHOP);
    story.at_ms(9).say(HOST, Event::End);
    let world = WorldTimeline::of(&story.trace).unwrap();
    let spans = &world.machines[1].row(EntityId::new(0, 0)).unwrap().spans;
    assert_eq!(spans.iter().map(|span| (span.from, span.to)).collect::<Vec<_>>(), [(Instant::ZERO, world.to)]);
    assert_eq!(world.machines[1].stolen, [[]]);
}

#[test]
fn damaged_worlds_never_panic() {
    let mut refused = 0;
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let trace = damaged(&mut random, walk(seed, 80));
        refused += u32::from(WorldTimeline::of(&trace).is_err());
    }
    assert!((150..500).contains(&refused), "some damage contradicts, some does not: {refused}");
}
