//! Traces in Perfetto's native format, read with the schema of Perfetto. The reader, `oracle/perfetto_read.py`, checks
//! that the tracks are trees, that slices nest, and that each flow has one start and one end. This test compares the
//! reader's totals with the meter's totals of the same trace, and the policy's accounts with a replay of the trace.
//!
//! `cargo xtask test` installs the schema and runs this test. By hand: `TACTUS_PERFETTO_PYTHON=python-with-perfetto
//! cargo test -p conformance --test perfetto`.

use measure::{Member, Meter};
use run::{Choice, Observers, Run};
use scenario::Scenario;
use sched::{Action, EntityId, Input, Kicks, Machine, Nanos};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use trace::replay::replay;
use trace::{Account, Event, MachineHeader, MachineId, PerfettoWriter, Trace, WorldTrace};

const HOST: MachineId = MachineId(0);

/// A run, its trace, and the reader's summary of the file.
struct Recorded {
    run: Run,
    world: WorldTrace,
    file: Value,
}

/// Runs the scenario in `file` under `policy` for `length`, and reads its trace.
fn record(file: &str, policy: Option<&str>, length: Nanos) -> Recorded {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    let bytes = std::fs::read(&path).expect("it is in the tree");
    let Ok(mut scenario) = Scenario::from_bytes(file, bytes) else { panic!("{} is right", path.display()) };
    scenario.length = length;
    let names: Vec<String> = policy.iter().map(ToString::to_string).collect();
    let Ok(choices) = run::choose(&scenario, &names, &[]) else { panic!("there is {policy:?}") };
    let run = Run { seed: 1, ..Run::new(scenario, choices[0].clone()) };
    let Ok(header) = run.header() else { panic!("its guests have policies") };
    let mut world = WorldTrace::new(header.clone());
    let mut writer = PerfettoWriter::new(Vec::new(), &header);
    if run.play(Observers::none().world(&mut world).world(&mut writer)).is_err() {
        panic!("it runs");
    }
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("tactus-perfetto-{}-{number}.pftrace", std::process::id()));
    std::fs::write(&path, writer.finish().expect("memory takes everything")).expect("there is room");
    let file = read(&path);
    std::fs::remove_file(&path).expect("it is ours");
    Recorded { run, world, file }
}

/// Returns the reader's summary of the file at `path`.
fn read(path: &Path) -> Value {
    let python = std::env::var("TACTUS_PERFETTO_PYTHON");
    let python = python.expect("TACTUS_PERFETTO_PYTHON names a Python with the package perfetto 0.59.1");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/perfetto_read.py");
    let output = Command::new(python).arg(script).arg(path).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

impl Recorded {
    fn machine(&self, id: MachineId) -> &MachineHeader {
        self.world.header.machine(id).expect("it is there")
    }

    fn trace(&self, id: MachineId) -> Trace {
        self.world.of(id).expect("it is there")
    }

    fn meter(&self, id: MachineId) -> Meter {
        let mut meter = Meter::new();
        self.trace(id).show(&mut meter);
        meter
    }

    /// Returns the track of a machine, as a path.
    fn track(&self, id: MachineId) -> String {
        let machine = self.machine(id);
        let above = machine.host.map(|host| self.track(host) + " / ").unwrap_or_default();
        above + &machine.name
    }

    /// Returns the track of an entity, as a path.
    fn track_of(&self, id: MachineId, member: &Member) -> String {
        let machine = self.track(id);
        let entities =
            if self.machine(id).host.is_none() { format!("{machine} / {machine}: entities") } else { machine };
        format!("{entities} / {} ({})", member.name, member.entity)
    }

    /// Returns the track of a CPU, as a path.
    fn track_of_cpu(&self, id: MachineId, cpu: usize) -> String {
        format!("{} / {} {cpu}", self.track(id), if self.machine(id).host.is_none() { "CPU" } else { "vCPU" })
    }

    /// Returns the total length of the slices of `track` with this name, in nanoseconds.
    fn total(&self, track: &str, name: &str) -> u64 {
        let slices = &self.file["slices"][track];
        assert!(slices.is_object(), "no track {track}");
        slices[name][1].as_u64().unwrap_or(0)
    }

    /// Returns the times and values of a counter. `None`: the track has no such counter.
    fn values(&self, track: &str, counter: &str) -> Option<Vec<(u64, i64)>> {
        let counter = &self.file["counters"][format!("{track} / {counter}")];
        let values = counter["values"].as_array()?;
        Some(
            values.iter().map(|pair| (pair[0].as_u64().expect("a time"), pair[1].as_i64().expect("a value"))).collect(),
        )
    }

    /// Returns the wake-up and the run of each flow from `track`, with the track of the run, in order of time.
    fn flows(&self, track: &str, entity: &str) -> Vec<(u64, u64, &str)> {
        let flows = self.file["flows"].as_array().expect("a list").iter().filter(|flow| flow[0] == track);
        let mut flows: Vec<_> = flows
            .map(|flow| {
                assert_eq!(flow[4], entity, "the run is a run of the entity that woke");
                (
                    flow[1].as_u64().expect("a time"),
                    flow[3].as_u64().expect("a time"),
                    flow[2].as_str().expect("a track"),
                )
            })
            .collect();
        flows.sort_unstable();
        flows
    }

    /// Compares the tracks of every machine with the totals of its meter. Returns the number of flows, and the number of
    /// latencies that the meter has as well.
    fn check_totals(&self) -> (usize, usize) {
        let (mut flows, mut latencies) = (0, 0);
        for id in self.world.header.ids() {
            let (meter, trace) = (self.meter(id), self.trace(id));
            for member in meter.members() {
                let checked = self.check_member(id, member, has_metered_flows(&trace, member.entity));
                (flows, latencies) = (flows + checked.0, latencies + checked.1);
            }
            self.check_cpus(id, &meter);
        }
        let all = self.file["flows"].as_array().map_or(0, Vec::len);
        assert_eq!(flows, all, "every flow begins at an entity");
        (flows, latencies)
    }

    /// Checks the times and flows of an entity and, if `is_metered`, its latencies. Returns the number of flows, and the
    /// number of checked latencies.
    fn check_member(&self, id: MachineId, member: &Member, is_metered: bool) -> (usize, usize) {
        let (track, got) = (self.track_of(id, member), &member.got);
        assert_eq!(self.total(&track, "running"), got.delivered.as_ns(), "CPU time of {track}");
        assert_eq!(self.total(&track, "stolen"), got.stolen.as_ns(), "steal time of {track}");
        assert_eq!(self.total(&track, "held"), got.held.as_ns(), "held time of {track}");
        let flows = self.flows(&track, &member.entity.to_string());
        let latencies = self.values(&track, "latency").unwrap_or_default();
        let of_flows: Vec<(u64, i64)> = flows.iter().map(|&(wake, run, _)| (run, (run - wake).cast_signed())).collect();
        assert_eq!(latencies, of_flows, "each latency of {track} is the length of a flow");
        let cpus = self.machine(id).header.cpus;
        assert!(flows.iter().all(|&(_, _, to)| (0..cpus).any(|cpu| self.track_of_cpu(id, cpu) == to)), "{track}");
        if !is_metered {
            return (flows.len(), 0);
        }
        let (count, total) = (latencies.len() as u64, latencies.iter().map(|(_, ns)| ns).sum::<i64>());
        let longest = latencies.iter().map(|&(_, ns)| ns).max().unwrap_or(0);
        let metered = (got.wakeups.count(), got.wakeups.total().as_ns(), got.wakeups.longest().as_ns());
        assert_eq!((count, total.cast_unsigned(), longest.cast_unsigned()), metered, "latencies of {track}");
        (flows.len(), flows.len())
    }

    /// Checks the CPU time of each entity on the tracks of the CPUs and, in a guest, on the tracks of the host's CPUs.
    fn check_cpus(&self, id: MachineId, meter: &Meter) {
        let names: BTreeSet<&str> = meter.members().iter().map(|it| it.name.as_str()).collect();
        for name in names {
            let members = meter.members().iter().filter(|member| member.name == name);
            let delivered: Nanos = members.map(|member| member.got.delivered).sum();
            let cpus = 0..self.machine(id).header.cpus;
            let ran: u64 = cpus.map(|cpu| self.total(&self.track_of_cpu(id, cpu), name)).sum();
            assert_eq!(ran, delivered.as_ns(), "CPU time of {name} on the CPUs");
            let Some(host) = self.machine(id).host else { continue };
            let shown = format!("{}: {name}", self.machine(id).name);
            let tracks = (0..self.machine(host).header.cpus).map(|cpu| {
                let above = self.track_of_cpu(host, cpu);
                format!("{above} / CPU {cpu}: guests")
            });
            let ran: u64 = tracks.map(|track| self.total(&track, &shown)).sum();
            assert_eq!(ran, delivered.as_ns(), "CPU time of {shown} on the CPUs of the host");
        }
    }

    /// Compares the counter `name` of every entity of the host with the policy's account after replays of parts of the
    /// trace. Returns the number of compared values.
    fn check_account(&self, name: &str) -> usize {
        let (trace, meter) = (self.trace(HOST), self.meter(HOST));
        let instants: Vec<_> = trace.events.iter().map(|(at, _)| *at).collect();
        let mut compared = 0;
        for part in 1..=20 {
            let cut = instants[(instants.len() - 1) * part / 20];
            let events = trace.events.iter().take_while(|(at, event)| *at <= cut && *event != Event::End);
            let mut start = Trace { header: trace.header.clone(), events: events.cloned().collect() };
            // The next instant implies the last settle, and the part has no next instant.
            start.events.push((cut, Event::Settled));
            let machine = replay(self.fresh_machine(), &start).expect("a part of a trace replays");
            for member in meter.members().iter().filter(|member| machine.is_attached(member.entity)) {
                let track = self.track_of(HOST, member);
                let values = self.values(&track, name).unwrap_or_default();
                let last = values.iter().rev().find(|(at, _)| *at <= cut.as_ns()).map(|(_, value)| *value);
                let Account { remaining, credit } = Account::of(&machine, member.entity);
                assert_eq!(last, if name == "credit" { credit } else { remaining }, "{name} of {track} at {cut}");
                compared += usize::from(last.is_some());
            }
        }
        compared
    }

    /// Returns a machine like the host at its start.
    fn fresh_machine(&self) -> Machine {
        let Choice { policy, knobs, .. } = &self.run.choice;
        let kicks = if self.run.scenario.costs.kick.is_zero() { Kicks::Immediate } else { Kicks::Delivered };
        Machine::build(&**policy, self.run.scenario.host, knobs, kicks).expect("the policy is right")
    }
}

/// Returns whether the meter has a latency for each flow of `entity` and no other. The meter also counts wake-ups that
/// led to a run without length, which has no slice. If the entity reports its wake-ups, the meter has the latencies of
/// these reports.
fn has_metered_flows(trace: &Trace, entity: EntityId) -> bool {
    let (mut on, mut changed) = (None, None);
    trace.events.iter().all(|(at, event)| match *event {
        Event::Woke { entity: of, .. } => of != entity,
        Event::Action(Action::Run { cpu, entity: of, .. }) if of == entity => {
            (on, changed) = (Some(cpu), Some(*at));
            true
        }
        Event::Input(Input::Wake { entity: of, .. }) if of == entity => on.is_none(),
        Event::Action(Action::Stop { entity: of, .. }) if of == entity => {
            on = None;
            changed != Some(*at)
        }
        Event::Input(Input::Block { cpu }) if on == Some(cpu) => changed != Some(*at),
        _ => true,
    })
}

#[test]
fn the_schema_of_perfetto_reads_tracks_flows_and_latencies_that_equal_the_totals_of_the_trace() {
    for (file, policy, seconds, least) in [
        ("two-levels.toml", "cfs", 10, (1_000, 50)),
        ("two-levels.toml", "credit", 3, (500, 10)),
        ("parallel.toml", "muqss", 3, (40, 40)),
        ("desktop.toml", "bfs", 3, (500, 300)),
        ("xen-io.toml", "credit", 1, (10_000, 5_000)),
    ] {
        let (flows, latencies) = record(file, Some(policy), Nanos::s(seconds)).check_totals();
        assert!(
            flows >= least.0 && latencies >= least.1,
            "{file} under {policy}: {flows} flows, {latencies} latencies"
        );
    }
}

#[test]
fn the_schema_of_perfetto_reads_the_accounts_that_a_replay_of_the_trace_has() {
    for (file, policy, counter) in [
        ("three-vms.toml", None, "remaining"),
        ("three-vms.toml", Some("rtds"), "remaining"),
        ("three-vms.toml", Some("deadline"), "remaining"),
        ("weights.toml", Some("credit"), "credit"),
        ("weights.toml", Some("credit2"), "credit"),
        ("parallel.toml", Some("poris"), "credit"),
    ] {
        let compared = record(file, policy, Nanos::s(2)).check_account(counter);
        assert!(compared > 50, "{file} under {policy:?}: {compared} values of {counter}");
    }
}

/// With hard reservations, a VM executes only while it has time left. So its slice is replenished once per period, and
/// the sum of the decreases is its CPU time.
#[test]
fn the_remaining_time_in_a_perfetto_file_adds_up_to_the_periods_and_the_cpu_time_of_each_vm() {
    let recorded = record("three-vms.toml", None, Nanos::s(2));
    // Slice in ns, and number of periods that begin in 2 s: from 0 every 50 ms, from 30 ms every 100 ms, from 60 ms
    // every 1 s.
    let expected = [("a", 20_000_000, 40), ("b", 10_000_000, 20), ("c", 300_000_000, 2)];
    for (member, (name, slice, periods)) in recorded.meter(HOST).members().iter().zip(expected) {
        assert_eq!(member.name, name);
        let values = recorded.values(&recorded.track_of(HOST, member), "remaining").expect("it has a reservation");
        assert_eq!(values[0].1, slice, "{name} begins with its slice");
        let changes: Vec<(i64, i64)> = values.windows(2).map(|pair| (pair[0].1, pair[1].1)).collect();
        let rises: Vec<i64> = changes.iter().filter(|(from, to)| to > from).map(|(_, to)| *to).collect();
        assert_eq!(rises, vec![slice; periods - 1], "replenishments of {name}");
        let falls: i64 = changes.iter().map(|(from, to)| (from - to).max(0)).sum();
        assert_eq!(falls.cast_unsigned(), member.got.delivered.as_ns(), "CPU time of {name}");
        assert!(values.iter().all(|(_, value)| (0..=slice).contains(value)));
    }
}
