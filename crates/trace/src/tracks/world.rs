//! [`WorldChromeWriter`]: writes hosts and guests to one file.

use super::fail;
use super::pen::{Pen, Places, Tracks, json};
use crate::follow::{Fact, Follower};
use crate::timeline::{Span, State};
use crate::world::Levels;
use crate::{Event, MACHINES_MAX, MachineHeader, MachineId, WorldHeader, WorldSink};
use sched::{CpuId, EntityId, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Number of the first track. Tracks are numbered in order of appearance, above the numbers of the processes. A machine
/// has at most two processes.
const FIRST_TRACK: u64 = 10_000;
const _: () = assert!(2 * MACHINES_MAX < 10_000);

/// Writes the trace of a world as Chrome trace events. [`finish`](WorldChromeWriter::finish) completes the file.
#[derive(Debug)]
pub struct WorldChromeWriter<W: Write> {
    /// Followers of the machines. A follower in use is `None` in this list.
    followers: Vec<Option<Follower>>,
    /// Machines with an event at the current instant.
    touched: BTreeSet<MachineId>,
    scribe: Scribe<W>,
}

/// The writer without the followers.
#[derive(Debug)]
struct Scribe<W: Write> {
    /// Time of the world, and links between its machines. `None`: the header is invalid, and `pen` stores the error.
    levels: Option<Levels>,
    machines: Vec<Machine>,
    /// Whether the trace has ended.
    over: bool,
    pen: Pen<W>,
}

/// A machine.
#[derive(Debug)]
struct Machine {
    tracks: Tracks,
    /// Name of the machine. On the tracks of its host, the names of its slices begin with this name.
    name: String,
    host: Option<MachineId>,
    /// Number of the track for the tasks of guests on CPU 0, shown below this CPU. The tracks of the other CPUs follow.
    /// `None`: the machine has no guests.
    within: Option<u64>,
    /// Last finished run of each vCPU among the machine's entities, with its CPU.
    runs: BTreeMap<EntityId, (CpuId, Span)>,
}

impl<W: Write> WorldChromeWriter<W> {
    /// Creates a writer and writes the header. `to` need not be buffered.
    pub fn new(to: W, header: &WorldHeader) -> WorldChromeWriter<W> {
        let (followers, touched) = (Vec::new(), BTreeSet::new());
        let mut scribe = Scribe { levels: None, machines: Vec::new(), over: false, pen: Pen::new(to, FIRST_TRACK) };
        match Levels::new(header) {
            Ok(levels) => scribe.levels = Some(levels),
            Err(error) => {
                fail(&mut scribe.pen.output, error);
                return WorldChromeWriter { followers, touched, scribe };
            }
        }
        let about: Vec<String> = header.ids().zip(&header.machines).map(|(id, machine)| about(id, machine)).collect();
        scribe.pen.begin(format_args!("{}", about.join(",")));
        let tree = header.tree();
        let places: BTreeMap<MachineId, usize> =
            tree.iter().enumerate().map(|(place, &(id, _))| (id, 2 * place)).collect();
        let hosts: BTreeSet<MachineId> = header.machines.iter().filter_map(|machine| machine.host).collect();
        for (id, machine) in header.ids().zip(&header.machines) {
            let introduced = introduce(&mut scribe.pen, id, machine, hosts.contains(&id), places[&id]);
            scribe.machines.push(introduced);
        }
        let followers = header.machines.iter().map(|machine| Some(Follower::new(&machine.header))).collect();
        WorldChromeWriter { followers, touched, scribe }
    }

    /// Ends the current slices, completes the file, and returns the inner writer.
    ///
    /// # Errors
    /// The first error of the whole run: an error of the inner writer, or `InvalidData` that contains an
    /// [`Inconsistent`](crate::Inconsistent).
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(levels) = &self.scribe.levels {
            let (end, all) = (levels.now(), levels.header.ids());
            self.touched.extend(all.clone());
            self.flush(end);
            self.scribe.over = true;
            // The follower of a host finishes before the followers of its guests, because the runs of guests refer to
            // runs of the host.
            for id in all {
                let follower = self.followers[id.index()].take().expect("no follower is in use");
                let (followers, scribe) = (&self.followers, &mut self.scribe);
                follower.finish(&mut |fact| scribe.write(followers, id, &fact));
            }
        }
        self.scribe.pen.finish()
    }

    /// Writes the states that ended before `at`, the new time.
    fn flush(&mut self, at: Instant) {
        for id in std::mem::take(&mut self.touched) {
            let left = self.scribe.machines[id.index()].tracks.leaving();
            let mut follower = self.followers[id.index()].take().expect("no follower is in use");
            let (followers, scribe) = (&self.followers, &mut self.scribe);
            follower.advance(at, &mut |fact| scribe.write(followers, id, &fact));
            self.scribe.machines[id.index()].tracks.forget(&left);
            self.followers[id.index()] = Some(follower);
        }
    }
}

impl<W: Write> WorldSink for WorldChromeWriter<W> {
    fn record(&mut self, id: MachineId, at: Instant, event: &Event) {
        let Some(levels) = &mut self.scribe.levels else { return };
        if self.scribe.pen.output.has_failed() {
            return;
        }
        let moves_on = at > levels.now();
        if let Err(error) = levels.take(id, at, event) {
            fail(&mut self.scribe.pen.output, error);
            return;
        }
        if moves_on {
            self.flush(at);
        }
        self.touched.insert(id);
        let mut follower = self.followers[id.index()].take().expect("no follower is in use");
        let (followers, scribe) = (&self.followers, &mut self.scribe);
        let outcome = follower.observe(at, event, &mut |fact| scribe.write(followers, id, &fact));
        self.followers[id.index()] = Some(follower);
        if let (Err(error), Some(levels)) = (outcome, &self.scribe.levels) {
            let error = levels.wrong(id, at, &error.reason);
            fail(&mut self.scribe.pen.output, error);
        }
    }
}

impl<W: Write> Scribe<W> {
    fn write(&mut self, followers: &[Option<Follower>], id: MachineId, fact: &Fact<'_>) {
        self.machines[id.index()].tracks.write(&mut self.pen, fact);
        let (Fact::Span { entity, span, .. }, Some(levels)) = (*fact, &self.levels) else { return };
        let State::Running(cpu) = span.state else { return };
        let (below, above) = (levels.links.vcpu(id, entity), levels.links.entity(id, cpu));
        if let Some((guest, vcpu)) = below {
            self.machines[id.index()].runs.insert(entity, (cpu, span));
            // A task that still runs on the vCPU may continue when the vCPU runs on another CPU. Therefore the part of
            // its run on this CPU is written now. At the end of the trace, the follower of the guest ends the run of
            // the task.
            let now = followers[guest.index()].as_ref().filter(|_| !self.over);
            if let Some((task, from)) = now.and_then(|follower| follower.running_on(vcpu))
                && from < span.to
            {
                self.within(guest, (task, entity), cpu, Span { from: from.max(span.from), ..span });
            }
        }
        let Some(host) = self.machines[id.index()].host else { return };
        let Some(vcpu) = above else { return };
        // Parts of the task's run during earlier runs of the vCPU have already been written.
        let last =
            self.machines[host.index()].runs.get(&vcpu).filter(|(_, run)| run.from < span.to && span.to <= run.to);
        let now = || followers[host.index()].as_ref()?.running(vcpu).filter(|(_, from)| *from < span.to);
        let seat = last.map(|&(cpu, run)| (cpu, run.from)).or_else(now);
        if let Some((cpu, from)) = seat {
            self.within(id, (entity, vcpu), cpu, Span { from: from.max(span.from), ..span });
        }
    }

    /// Writes the part of a guest task's run during which the vCPU ran on `seat` of the host.
    fn within(&mut self, guest: MachineId, (task, vcpu): (EntityId, EntityId), seat: CpuId, span: Span) {
        let machine = &self.machines[guest.index()];
        let Some(host) = machine.host.map(|host| &self.machines[host.index()]) else { return };
        let Some(first) = host.within else { return };
        let name = json(&format!("{}: {}", machine.name, machine.tracks.name(task)));
        let args = format_args!("\"entity\":\"{task}\",\"machine\":\"{guest}\",\"vcpu\":\"{vcpu}\"");
        let looks = format!("\"name\":{name},\"cat\":\"guest\"");
        self.pen.slice(&looks, host.tracks.places.cpus, first + seat.index() as u64, span, args);
    }
}

/// Returns the header of a machine, as a member of a JSON object.
fn about(id: MachineId, machine: &MachineHeader) -> String {
    let (name, policy) = (json(&machine.name), json(&machine.header.policy));
    let (cpus, seed) = (machine.header.cpus, machine.header.seed);
    let host = machine.host.map(|host| format!(",\"host\":\"{host}\"")).unwrap_or_default();
    format!("\"{id}\":{{\"name\":{name},\"policy\":{policy},\"cpus\":{cpus},\"seed\":\"{seed}\"{host}}}")
}

/// Writes the names of a machine's processes and CPU tracks.
fn introduce<W: Write>(
    pen: &mut Pen<W>,
    id: MachineId,
    MachineHeader { name, header, host }: &MachineHeader,
    has_guests: bool,
    place: usize,
) -> Machine {
    let shown = if name.is_empty() { id.to_string() } else { name.clone() };
    let cpus = 2 * id.0 + 1;
    let (entities, cpu) = if host.is_none() { (cpus + 1, "CPU") } else { (cpus, "vCPU") };
    pen.process(cpus, &json(&shown), place);
    if entities != cpus {
        pen.process(entities, &json(&format!("{shown}: entities")), place + 1);
    }
    let mut row = |what: &str, offset| {
        let numbers: Vec<u64> = (0..header.cpus).map(|_| pen.next_track()).collect();
        for (cpu, &number) in numbers.iter().enumerate() {
            let name = json(&format!("{what} {cpu}{}", if offset > 0 { ": guests" } else { "" }));
            pen.track(cpus, number, &name, 2 * cpu as u64 + offset);
        }
        numbers[0]
    };
    let first_cpu = row(cpu, 0);
    let within = has_guests.then(|| row(cpu, 1));
    let tracks = Tracks::new(Places { cpus, first_cpu, entities });
    Machine { tracks, name: shown, host: *host, within, runs: BTreeMap::new() }
}
