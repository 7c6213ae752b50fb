//! Chrome traces of worlds contain the timelines of all machines, on the right tracks, in a format that readers accept.

use crate::support::Random;
use crate::support::world::{HOST, SHOP, Story, damaged, machine, two_levels, walk};
use expect_test::expect;
use sched::{CpuId, Input, Instant};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trace::timeline::State;
use trace::{Event, MachineId, WorldChromeWriter, WorldHeader, WorldTimeline, WorldTrace};

fn written(trace: &WorldTrace) -> std::io::Result<String> {
    let mut writer = WorldChromeWriter::new(Vec::new(), &trace.header);
    trace.show(&mut writer);
    writer.finish().map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Returns microseconds with decimals as nanoseconds.
fn ns(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1000.0).round() as u64
}

/// The events of a file, and its tracks by name.
struct File {
    events: Vec<Value>,
    /// Numbers of the process and the track, by the names of the process and the track.
    tracks: BTreeMap<(String, String), (u64, u64)>,
}

/// Start, end and name of a slice.
type Slice = (u64, u64, String);

impl File {
    fn of(trace: &WorldTrace) -> File {
        let file: Value = serde_json::from_str(&written(trace).unwrap()).unwrap();
        let events = file["traceEvents"].as_array().unwrap().clone();
        let named = |what: &'static str| events.iter().filter(move |event| event["name"] == what);
        let name = |event: &Value| event["args"]["name"].as_str().unwrap().to_string();
        let processes: BTreeMap<u64, String> =
            named("process_name").map(|event| (event["pid"].as_u64().unwrap(), name(event))).collect();
        assert_eq!(processes.len(), named("process_name").count(), "every process has a number of its own");
        let mut tracks = BTreeMap::new();
        let mut numbers: BTreeSet<u64> = processes.keys().copied().collect();
        for event in named("thread_name") {
            let (process, track) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
            assert!(numbers.insert(track), "every track has a number of its own");
            tracks.insert((processes[&process].clone(), name(event)), (process, track));
        }
        assert_eq!(tracks.len(), named("thread_name").count(), "no two tracks of a process have one name");
        let known: BTreeSet<(u64, u64)> = tracks.values().copied().collect();
        let places = |what| -> BTreeSet<(u64, u64)> { named(what).map(place).collect() };
        assert_eq!(places("thread_sort_index"), known);
        let timed = events.iter().filter(|event| event["ph"] != "M");
        assert!(timed.map(place).all(|track| known.contains(&track)));
        File { events, tracks }
    }

    fn slices(&self, process: &str, track: &str) -> Vec<Slice> {
        let key = (process.to_string(), track.to_string());
        let track = self.tracks.get(&key).unwrap_or_else(|| panic!("no {key:?} in {:?}", self.tracks.keys()));
        let slices = self.events.iter().filter(|event| event["ph"] == "X" && place(event) == *track);
        let slice = |event: &Value| {
            (ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"]), event["name"].as_str().unwrap().to_string())
        };
        slices.map(slice).collect()
    }
}

fn place(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

fn check(trace: &WorldTrace) {
    let (world, file) = (WorldTimeline::of(trace).unwrap(), File::of(trace));
    let mut ends: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for event in file.events.iter().filter(|event| event["ph"] == "X") {
        let end = ends.entry(place(event)).or_default();
        assert!(ns(&event["ts"]) >= *end && ns(&event["dur"]) > 0, "{event} after {end}");
        *end = ns(&event["ts"]) + ns(&event["dur"]);
    }
    for (machine, timeline) in world.header.machines.iter().zip(&world.machines) {
        let guest = machine.host.is_some();
        let name = |entity| timeline.row(entity).unwrap().name.clone();
        for cpu in 0..timeline.cpus.len() {
            let ran = timeline.cpus[cpu].iter().map(|run| (run.from.as_ns(), run.to.as_ns(), name(run.entity)));
            let frozen = timeline.stolen[cpu].iter().map(|run| (run.from.as_ns(), run.to.as_ns(), "frozen".into()));
            let mut expected: Vec<Slice> = ran.chain(frozen).collect();
            expected.sort();
            let track = format!("{} {cpu}", if guest { "vCPU" } else { "CPU" });
            assert_eq!(file.slices(&machine.name, &track), expected, "{} {track}", machine.name);
        }
        let process = if guest { machine.name.clone() } else { format!("{}: entities", machine.name) };
        for row in &timeline.rows {
            let spans = row.spans.iter().map(|span| {
                let state = match span.state {
                    State::Running(_) => "running",
                    State::Stolen(_) => "stolen",
                    State::Waiting => "waiting",
                    State::Held(_) => "held",
                    State::Blocked => "blocked",
                };
                (span.from.as_ns(), span.to.as_ns(), state.to_string())
            });
            let track = format!("{} ({})", row.name, row.entity);
            assert_eq!(file.slices(&process, &track), spans.collect::<Vec<_>>(), "{process} {track}");
        }
    }
    within(&world, &file);
    flows_pair_up(&file);
}

/// Checks that the tracks below the CPUs of the host show each run of a guest's task on the CPU on which its vCPU ran.
fn within(world: &WorldTimeline, file: &File) {
    let host = &world.machines[0];
    let mut expected: Vec<Vec<Slice>> = vec![Vec::new(); host.cpus.len()];
    for (id, timeline) in world.header.ids().zip(&world.machines).skip(1) {
        for (cpu, runs) in timeline.cpus.iter().enumerate() {
            let vcpu = world.links.entity(id, CpuId::new(cpu)).unwrap();
            for run in runs {
                let name =
                    format!("{}: {}", world.header.machines[id.index()].name, timeline.row(run.entity).unwrap().name);
                for span in host.row(vcpu).unwrap().spans_in(run.from, run.to) {
                    let State::Running(seat) = span.state else { panic!("{run:?} in {span:?}") };
                    let (from, to) = (span.from.max(run.from).as_ns(), span.to.min(run.to).as_ns());
                    expected[seat.index()].push((from, to, name.clone()));
                }
            }
        }
    }
    for (cpu, mut expected) in expected.into_iter().enumerate() {
        expected.sort();
        assert_eq!(file.slices("host", &format!("CPU {cpu}: guests")), expected);
    }
}

/// Checks that every arrow begins on an entity's track and ends at the start of the entity's slice on a CPU of the same
/// machine.
fn flows_pair_up(file: &File) {
    let ends = |phase: &str| -> BTreeMap<u64, &Value> {
        let all = file.events.iter().filter(|event| event["ph"] == phase);
        all.map(|event| (event["id"].as_u64().unwrap(), event)).collect()
    };
    let (starts, finishes) = (ends("s"), ends("f"));
    let arrows = file.events.iter().filter(|event| event["ph"] == "s").count();
    assert_eq!((starts.len(), finishes.len()), (arrows, arrows), "an arrow begins once and ends once");
    let names: BTreeMap<(u64, u64), &(String, String)> =
        file.tracks.iter().map(|(name, &track)| (track, name)).collect();
    for (id, start) in &starts {
        let finish = finishes[id];
        assert!(ns(&start["ts"]) <= ns(&finish["ts"]), "arrow {id} goes back in time");
        let (from, to) = (names[&place(start)], names[&place(finish)]);
        assert_eq!(from.0.trim_end_matches(": entities"), to.0, "an arrow stays on its machine");
        let name = from.1.split(" (").next().unwrap();
        let at = ns(&finish["ts"]);
        let slices = file.slices(&to.0, &to.1);
        assert!(
            slices.iter().any(|(begin, _, what)| *begin == at && what == name),
            "{from:?} runs at {at}: {slices:?}"
        );
    }
}

#[test]
fn a_chrome_trace_of_a_world_holds_what_all_timelines_hold() {
    check(&two_levels());
    let mut arrows = 0;
    for seed in 0..150 {
        let trace = walk(seed, 150);
        check(&trace);
        arrows += written(&trace).unwrap().matches("\"ph\":\"s\"").count();
    }
    assert!(arrows > 1000, "{arrows}");
}

#[test]
fn hundreds_of_guests_of_one_name_stay_apart() {
    let mut machines = vec![machine("host", "x", 1024, None)];
    machines.extend((0..500).map(|n| machine("vm", "x", 1 + n % 4, Some(HOST))));
    let mut story = Story::new(machines);
    for n in 1..=500 {
        story.attach(HOST, n - 1, "vcpu").vcpu(HOST, n - 1, MachineId(n), 0).attach(MachineId(n), 0, "task");
        story.wake(MachineId(n), 0).wake(HOST, n - 1).run_on(HOST, n as usize, n - 1).run(MachineId(n), 0);
    }
    story.at_ms(1).say(SHOP, Event::End);
    let file: Value = serde_json::from_str(&written(&story.trace).unwrap()).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    let processes: Vec<u64> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["pid"].as_u64().unwrap())
        .collect();
    let tracks: Vec<u64> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| event["tid"].as_u64().unwrap())
        .collect();
    assert_eq!((processes.len(), tracks.len()), (502, 2 * 1024 + 125 * (1 + 2 + 3 + 4) + 1000));
    let all: BTreeSet<u64> = processes.iter().chain(&tracks).copied().collect();
    assert_eq!(all.len(), processes.len() + tracks.len(), "no two have one number");
}

#[test]
fn the_file_of_a_world_looks_like_this() {
    let mut story = Story::new(vec![machine("host", "edf", 1, None), machine("vm \"1\"", "eevdf", 1, Some(HOST))]);
    story.attach(HOST, 0, "vm/0").vcpu(HOST, 0, SHOP, 0).attach(SHOP, 0, "task").freeze(SHOP);
    story.wake(SHOP, 0).wake(HOST, 0);
    story.at_ms(1).run(HOST, 0).thaw(SHOP).run(SHOP, 0);
    story.at_ms(2).stop(HOST, 0).freeze(SHOP);
    story.at_ms(3).say(SHOP, Event::End);
    expect![[r#"
        {"displayTimeUnit":"ns","otherData":{"m0":{"name":"host","policy":"edf","cpus":1,"seed":"7"},"m1":{"name":"vm \"1\"","policy":"eevdf","cpus":1,"seed":"7","host":"m0"}},
        "traceEvents":[
        {"ph":"M","name":"process_name","pid":1,"args":{"name":"host"}},
        {"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":0}},
        {"ph":"M","name":"process_name","pid":2,"args":{"name":"host: entities"}},
        {"ph":"M","name":"process_sort_index","pid":2,"args":{"sort_index":1}},
        {"ph":"M","name":"thread_name","pid":1,"tid":10000,"args":{"name":"CPU 0"}},
        {"ph":"M","name":"thread_sort_index","pid":1,"tid":10000,"args":{"sort_index":0}},
        {"ph":"M","name":"thread_name","pid":1,"tid":10001,"args":{"name":"CPU 0: guests"}},
        {"ph":"M","name":"thread_sort_index","pid":1,"tid":10001,"args":{"sort_index":1}},
        {"ph":"M","name":"process_name","pid":3,"args":{"name":"vm \"1\""}},
        {"ph":"M","name":"process_sort_index","pid":3,"args":{"sort_index":2}},
        {"ph":"M","name":"thread_name","pid":3,"tid":10002,"args":{"name":"vCPU 0"}},
        {"ph":"M","name":"thread_sort_index","pid":3,"tid":10002,"args":{"sort_index":0}},
        {"ph":"M","name":"thread_name","pid":2,"tid":10003,"args":{"name":"vm/0 (e0)"}},
        {"ph":"M","name":"thread_sort_index","pid":2,"tid":10003,"args":{"sort_index":10003}},
        {"ph":"M","name":"thread_name","pid":3,"tid":10004,"args":{"name":"task (e0)"}},
        {"ph":"M","name":"thread_sort_index","pid":3,"tid":10004,"args":{"sort_index":10004}},
        {"ph":"X","name":"waiting","cat":"state","cname":"thread_state_runnable","pid":2,"tid":10003,"ts":0.000,"dur":1000.000,"args":{}},
        {"ph":"X","name":"waiting","cat":"state","cname":"thread_state_runnable","pid":3,"tid":10004,"ts":0.000,"dur":1000.000,"args":{}},
        {"ph":"X","name":"running","cat":"state","cname":"thread_state_running","pid":2,"tid":10003,"ts":1000.000,"dur":1000.000,"args":{"cpu":0}},
        {"ph":"X","name":"vm/0","cat":"run","pid":1,"tid":10000,"ts":1000.000,"dur":1000.000,"args":{"entity":"e0"}},
        {"ph":"s","name":"wake","cat":"wake","id":1,"pid":2,"tid":10003,"ts":0.000},
        {"ph":"f","name":"wake","cat":"wake","id":1,"bp":"e","pid":1,"tid":10000,"ts":1000.000},
        {"ph":"C","name":"latency of vm/0 (e0)","pid":2,"tid":10003,"ts":1000.000,"args":{"ns":1000000}},
        {"ph":"X","name":"running","cat":"state","cname":"thread_state_running","pid":3,"tid":10004,"ts":1000.000,"dur":1000.000,"args":{"cpu":0}},
        {"ph":"X","name":"task","cat":"run","pid":3,"tid":10002,"ts":1000.000,"dur":1000.000,"args":{"entity":"e0"}},
        {"ph":"s","name":"wake","cat":"wake","id":2,"pid":3,"tid":10004,"ts":0.000},
        {"ph":"f","name":"wake","cat":"wake","id":2,"bp":"e","pid":3,"tid":10002,"ts":1000.000},
        {"ph":"C","name":"latency of task (e0)","pid":3,"tid":10004,"ts":1000.000,"args":{"ns":1000000}},
        {"ph":"X","name":"vm \"1\": task","cat":"guest","pid":1,"tid":10001,"ts":1000.000,"dur":1000.000,"args":{"entity":"e0","machine":"m1","vcpu":"e0"}},
        {"ph":"X","name":"waiting","cat":"state","cname":"thread_state_runnable","pid":2,"tid":10003,"ts":2000.000,"dur":1000.000,"args":{}},
        {"ph":"X","name":"stolen","cat":"state","cname":"thread_state_iowait","pid":3,"tid":10004,"ts":2000.000,"dur":1000.000,"args":{"cpu":0}},
        {"ph":"X","name":"frozen","cat":"frozen","cname":"thread_state_iowait","pid":3,"tid":10002,"ts":2000.000,"dur":1000.000,"args":{"entity":"e0"}}
        ]}
    "#]].assert_eq(&written(&story.trace).unwrap());
}

#[test]
fn a_world_that_cannot_be_is_an_error_at_the_end() {
    let error = |trace: &WorldTrace| {
        let error = written(trace).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        error.to_string()
    };
    let mut late = two_levels();
    late.events.push((SHOP, Instant::ZERO, Event::End));
    let mut frozen = two_levels();
    let end = frozen.events.last().unwrap().1;
    frozen.events.push((MachineId(2), end, Event::Input(Input::Kicked { cpu: CpuId::new(0) })));
    let texts = [error(&WorldTrace::new(WorldHeader::default())), error(&late), error(&frozen)];
    expect![[r#"
        event 0 at 0s: a world of 0 machines; help: use 1 to 4096
        event 70 at 0s: time goes back from 60ms
        event 70 at 60ms: m2 (books): something happens on CPU 0, but it is frozen; help: record a `thaw` before it"#]]
    .assert_eq(&texts.join("\n"));
}

#[test]
fn damaged_worlds_never_panic() {
    let mut told = 0;
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let trace = damaged(&mut random, walk(seed, 80));
        match written(&trace) {
            Ok(text) => {
                let _: Value = serde_json::from_str(&text).unwrap();
                told += 1;
            }
            Err(_) => assert!(WorldTimeline::of(&trace).is_err(), "seed {seed}: what a timeline bears, a file bears"),
        }
    }
    assert!((20..450).contains(&told), "{told}");
}
