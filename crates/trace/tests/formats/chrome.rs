//! Chrome traces contain the timeline in a format that readers accept.

use crate::support::Random;
use crate::support::edf::{self, FIGURE_2, Order};
use crate::support::walk::{damaged, walk};
use expect_test::expect;
use sched::{CpuId, Input, Instant, Nanos};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trace::timeline::State;
use trace::{ChromeWriter, Event, Header, Sink, Timeline, Trace};

fn written(trace: &Trace) -> std::io::Result<String> {
    let mut writer = ChromeWriter::new(Vec::new(), &trace.header);
    trace.show(&mut writer);
    writer.finish().map(|bytes| String::from_utf8(bytes).unwrap())
}

/// An event of a file.
#[derive(Clone, Debug)]
struct Entry {
    phase: String,
    name: String,
    track: (u64, u64),
    ts: u64,
    dur: u64,
    id: u64,
    args: Value,
    /// Index of the event in the file.
    place: usize,
}

/// Returns microseconds with decimals as nanoseconds.
fn ns(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1000.0).round() as u64
}

fn entries(file: &Value) -> Vec<Entry> {
    let entry = |(place, event): (usize, &Value)| {
        let text = |key: &str| event[key].as_str().unwrap_or_else(|| panic!("no {key} in {event}")).to_string();
        let phase = text("ph");
        let timed = phase != "M";
        Entry {
            name: text("name"),
            track: (event["pid"].as_u64().unwrap(), if timed { event["tid"].as_u64().unwrap() } else { 0 }),
            ts: if timed { ns(&event["ts"]) } else { 0 },
            dur: if phase == "X" { ns(&event["dur"]) } else { 0 },
            id: event["id"].as_u64().unwrap_or(0),
            args: event["args"].clone(),
            place,
            phase,
        }
    };
    file["traceEvents"].as_array().unwrap().iter().enumerate().map(entry).collect()
}

/// Returns the names of the tracks.
fn tracks(file: &Value) -> BTreeMap<(u64, u64), String> {
    let events = file["traceEvents"].as_array().unwrap();
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let track = |event: &Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
    names.map(|event| (track(event), event["args"]["name"].as_str().unwrap().to_string())).collect()
}

fn check(trace: &Trace) {
    let timeline = Timeline::of(trace).unwrap();
    let file: Value = serde_json::from_str(&written(trace).unwrap()).unwrap();
    assert_eq!(file["otherData"]["policy"], trace.header.policy.as_str());
    assert_eq!(file["otherData"]["cpus"], trace.header.cpus);
    assert_eq!(file["otherData"]["seed"], trace.header.seed.to_string());
    let (entries, tracks) = (entries(&file), tracks(&file));
    let sorted: BTreeSet<(u64, u64)> = file["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["name"] == "thread_sort_index")
        .map(|event| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap()))
        .collect();
    assert!(entries.iter().filter(|entry| entry.phase != "M").all(|entry| tracks.contains_key(&entry.track)));
    assert_eq!(sorted, tracks.keys().copied().collect());
    let numbers: BTreeSet<u64> = tracks.keys().map(|track| track.1).collect();
    assert_eq!(numbers.len(), tracks.len(), "every track has a number of its own");

    slices_are_sound(&entries);
    for (cpu, runs) in timeline.cpus.iter().enumerate() {
        let track = *tracks.iter().find(|(_, name)| **name == format!("CPU {cpu}")).unwrap().0;
        let told: Vec<(u64, u64, String)> = slices(&entries, track)
            .map(|entry| (entry.ts, entry.ts + entry.dur, entry.args["entity"].as_str().unwrap().to_string()))
            .collect();
        let runs = runs.iter().map(|run| (run.from.as_ns(), run.to.as_ns(), run.entity.to_string()));
        assert_eq!(told, runs.collect::<Vec<_>>(), "CPU {cpu}");
    }
    for row in &timeline.rows {
        let name = format!("{} ({})", row.name, row.entity);
        let track = *tracks.iter().find(|(_, shown)| **shown == name).unwrap().0;
        let told: Vec<(u64, u64, State)> =
            slices(&entries, track).map(|entry| (entry.ts, entry.ts + entry.dur, state(entry))).collect();
        let spans = row.spans.iter().map(|span| (span.from.as_ns(), span.to.as_ns(), plain(span.state)));
        assert_eq!(told, spans.collect::<Vec<_>>(), "{name}");
        let instants = |name: &str| -> Vec<u64> {
            let named = entries.iter().filter(|entry| entry.phase == "i" && entry.track == track && entry.name == name);
            named.map(|entry| entry.ts).collect()
        };
        let jobs = row.jobs.iter();
        assert_eq!(instants("release"), jobs.clone().map(|job| job.released.as_ns()).collect::<Vec<_>>());
        let done = jobs.clone().filter(|job| job.completed);
        assert_eq!(instants("complete"), done.map(|job| job.ended.as_ns()).collect::<Vec<_>>());
        let missed = jobs.filter(|job| job.ended > job.deadline);
        assert_eq!(instants("deadline missed"), missed.map(|job| job.deadline.as_ns()).collect::<Vec<_>>());
    }
    flows_pair_up(&entries, &tracks);
}

fn slices(entries: &[Entry], track: (u64, u64)) -> impl Iterator<Item = &Entry> {
    entries.iter().filter(move |entry| entry.phase == "X" && entry.track == track)
}

fn state(entry: &Entry) -> State {
    match entry.name.as_str() {
        "running" => State::Running(CpuId::new(usize::try_from(entry.args["cpu"].as_u64().unwrap()).unwrap())),
        "stolen" => State::Stolen(CpuId::new(usize::try_from(entry.args["cpu"].as_u64().unwrap()).unwrap())),
        "waiting" => State::Waiting,
        "held" => {
            assert!(!entry.args["reasons"].as_str().unwrap().is_empty());
            State::Held(0)
        }
        "blocked" => State::Blocked,
        other => panic!("{other} is not a state"),
    }
}

fn plain(state: State) -> State {
    if let State::Held(_) = state { State::Held(0) } else { state }
}

/// Checks that, on each track, slices are in order of time, do not overlap and are not empty.
fn slices_are_sound(entries: &[Entry]) {
    let mut ends: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.phase == "X") {
        let end = ends.entry(entry.track).or_default();
        assert!(entry.ts >= *end && entry.dur > 0, "{entry:?} after {end}");
        *end = entry.ts + entry.dur;
    }
    let known = ["M", "X", "s", "f", "i", "C"];
    assert!(entries.iter().all(|entry| known.contains(&entry.phase.as_str())), "there are no begins without an end");
}

/// Checks that every arrow leaves a slice of an entity and ends at the start of a slice of that entity on a CPU. Both
/// slices must precede the arrow in the file, because some readers sort by time alone.
fn flows_pair_up(entries: &[Entry], tracks: &BTreeMap<(u64, u64), String>) {
    let ends = |phase: &str| -> BTreeMap<u64, Entry> {
        let all = entries.iter().filter(|entry| entry.phase == phase);
        let by_id: Vec<(u64, Entry)> = all.map(|entry| (entry.id, entry.clone())).collect();
        let map: BTreeMap<u64, Entry> = by_id.iter().cloned().collect();
        assert_eq!(map.len(), by_id.len(), "an arrow begins once and ends once");
        map
    };
    let (starts, finishes) = (ends("s"), ends("f"));
    assert_eq!(starts.keys().collect::<Vec<_>>(), finishes.keys().collect::<Vec<_>>());
    latencies_are_lengths(starts.values().zip(finishes.values()), entries, tracks);
    for (id, start) in &starts {
        let finish = &finishes[id];
        assert!(start.ts <= finish.ts, "arrow {id} goes back in time");
        let holds = |slice: &&Entry, flow: &Entry| {
            slice.ts <= flow.ts && flow.ts < slice.ts + slice.dur && slice.place < flow.place
        };
        let from = slices(entries, start.track).find(|slice| holds(slice, start)).expect("an arrow leaves a slice");
        assert!(["waiting", "held", "running"].contains(&from.name.as_str()), "{from:?}");
        let to = slices(entries, finish.track).find(|slice| holds(slice, finish)).expect("an arrow ends at a slice");
        assert_eq!(to.ts, finish.ts);
        let entity = to.args["entity"].as_str().unwrap();
        assert!(tracks[&start.track].ends_with(&format!("({entity})")));
        let mut between =
            slices(entries, start.track).filter(|slice| start.ts < slice.ts + slice.dur && slice.ts < finish.ts);
        assert!(between.all(|slice| slice.name != "running"), "arrow {id} leads to the first run");
    }
}

/// Checks that the latency of each entity has a value at the end of every arrow, the length of this arrow.
fn latencies_are_lengths<'a>(
    arrows: impl Iterator<Item = (&'a Entry, &'a Entry)>,
    entries: &[Entry],
    tracks: &BTreeMap<(u64, u64), String>,
) {
    let expected: BTreeSet<(String, u64, u64)> = arrows
        .map(|(start, finish)| (format!("latency of {}", tracks[&start.track]), finish.ts, finish.ts - start.ts))
        .collect();
    let values = entries.iter().filter(|entry| entry.phase == "C");
    let told: Vec<(String, u64, u64)> =
        values.map(|entry| (entry.name.clone(), entry.ts, entry.args["ns"].as_u64().unwrap())).collect();
    assert_eq!(told.len(), expected.len());
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), expected);
}

#[test]
fn a_chrome_trace_holds_what_the_timeline_holds() {
    let mut arrows = 0;
    for seed in 0..150 {
        let trace = walk(seed, 120).trace;
        check(&trace);
        arrows += written(&trace).unwrap().matches("\"ph\":\"s\"").count();
    }
    assert!(arrows > 1000, "{arrows}");
    check(&edf::run(&FIGURE_2, 2, Order::Turns(Nanos::us(333)), Instant::ZERO + Nanos::ms(777)));
    check(&Trace::new(Header { policy: "\"\\\n</script>".into(), cpus: 1024, seed: u64::MAX }));
}

/// In the first 200 ms of figure 2 of the VSched paper, a run follows every wake-up. An arrow leads from every wake-up
/// to this run.
#[test]
fn every_wake_that_led_to_a_run_has_an_arrow() {
    let trace = edf::run(&FIGURE_2, 1, Order::Deadline, Instant::ZERO + Nanos::ms(200));
    let wakes = trace.events.iter().filter(|(_, event)| matches!(event, Event::Input(Input::Wake { .. }))).count();
    let file: Value = serde_json::from_str(&written(&trace).unwrap()).unwrap();
    let starts: Vec<u64> = entries(&file).iter().filter(|entry| entry.phase == "s").map(|entry| entry.ts).collect();
    assert_eq!(starts.len(), wakes);
    assert_eq!(starts.iter().map(|ts| ts / 1_000_000).collect::<BTreeSet<_>>(), [0, 30, 50, 60, 100, 130, 150].into());
}

/// An arrow leads to every first run after a blocked state, even if the entity stops and runs several times at one
/// instant.
#[test]
fn no_wake_that_led_to_a_run_is_forgotten() {
    let mut expected = 0;
    for seed in 0..150 {
        let trace = walk(seed, 120).trace;
        let file: Value = serde_json::from_str(&written(&trace).unwrap()).unwrap();
        let (entries, tracks) = (entries(&file), tracks(&file));
        for row in &Timeline::of(&trace).unwrap().rows {
            let track = *tracks.iter().find(|(_, name)| name.ends_with(&format!("({})", row.entity))).unwrap().0;
            for awake in row.spans.split(|span| span.state == State::Blocked).filter(|spans| !spans.is_empty()) {
                let Some(run) = awake.iter().find(|span| matches!(span.state, State::Running(_))) else { continue };
                let since = awake[0].from.as_ns();
                let mut arrows = entries.iter().filter(|entry| entry.phase == "s" && entry.track == track);
                let found = arrows.any(|arrow| since <= arrow.ts && arrow.ts <= run.from.as_ns());
                assert!(found, "seed {seed}: {} awake since {since} runs at {}", row.entity, run.from);
                expected += 1;
            }
        }
    }
    assert!(expected > 1000, "{expected}");
}

#[test]
fn the_file_looks_like_this() {
    let mut trace = edf::run(&FIGURE_2[..1], 1, Order::Deadline, Instant::at_ns(20_000_001));
    trace.header.seed = u64::MAX;
    expect![[r#"
        {"displayTimeUnit":"ns","otherData":{"policy":"edf","cpus":1,"seed":"18446744073709551615"},
        "traceEvents":[
        {"ph":"M","name":"process_name","pid":1,"args":{"name":"host"}},
        {"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":0}},
        {"ph":"M","name":"process_name","pid":2,"args":{"name":"entities"}},
        {"ph":"M","name":"process_sort_index","pid":2,"args":{"sort_index":1}},
        {"ph":"M","name":"thread_name","pid":1,"tid":1000,"args":{"name":"CPU 0"}},
        {"ph":"M","name":"thread_sort_index","pid":1,"tid":1000,"args":{"sort_index":0}},
        {"ph":"M","name":"thread_name","pid":2,"tid":10000,"args":{"name":"VM1 (e0)"}},
        {"ph":"M","name":"thread_sort_index","pid":2,"tid":10000,"args":{"sort_index":10000}},
        {"ph":"i","name":"release","cat":"job","s":"t","pid":2,"tid":10000,"ts":0.000,"args":{"deadline":"50ms"}},
        {"ph":"i","name":"complete","cat":"job","s":"t","pid":2,"tid":10000,"ts":20000.000,"args":{"response":"20ms"}},
        {"ph":"X","name":"running","cat":"state","cname":"thread_state_running","pid":2,"tid":10000,"ts":0.000,"dur":20000.000,"args":{"cpu":0}},
        {"ph":"X","name":"VM1","cat":"run","pid":1,"tid":1000,"ts":0.000,"dur":20000.000,"args":{"entity":"e0"}},
        {"ph":"s","name":"wake","cat":"wake","id":1,"pid":2,"tid":10000,"ts":0.000},
        {"ph":"f","name":"wake","cat":"wake","id":1,"bp":"e","pid":1,"tid":1000,"ts":0.000},
        {"ph":"C","name":"latency of VM1 (e0)","pid":2,"tid":10000,"ts":0.000,"args":{"ns":0}},
        {"ph":"X","name":"blocked","cat":"state","cname":"thread_state_sleeping","pid":2,"tid":10000,"ts":20000.000,"dur":0.001,"args":{}}
        ]}
    "#]].assert_eq(&written(&trace).unwrap());
}

#[test]
fn a_trace_that_contradicts_itself_is_an_error_at_the_end() {
    let mut trace = edf::run(&FIGURE_2, 1, Order::Deadline, Instant::ZERO + Nanos::ms(200));
    trace.record(trace.events.last().unwrap().0, &Event::Input(Input::Block { cpu: CpuId::new(5) }));
    let error = written(&trace).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    expect!["event 50 at 200ms: there is no CPU 5; help: use a CPU below 1, the number in the header"]
        .assert_eq(&error.to_string());
}

#[test]
fn damaged_traces_never_panic() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let trace = damaged(&mut random, walk(seed, 60).trace);
        if let Ok(text) = written(&trace) {
            let _: Value = serde_json::from_str(&text).unwrap();
        }
    }
}
