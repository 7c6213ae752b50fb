//! [`WorldTracks`]: the tracks of hosts and guests.

use super::{Arg, Pen, Place, Places, Process, Slice, Track, Tracks};
use crate::follow::{Fact, Follower};
use crate::span::{Span, State};
use crate::world::Levels;
use crate::{Account, Event, MACHINES_MAX, MachineHeader, MachineId, WorldHeader, WorldSink};
use sched::{CpuId, EntityId, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// Number of the first track. Tracks are numbered in order of appearance, above the numbers of the processes. A machine
/// has at most two processes.
pub(crate) const FIRST_TRACK: u64 = 10_000;
const _: () = assert!(2 * MACHINES_MAX < 10_000);

/// Writes the trace of a world as tracks. [`finish`](WorldTracks::finish) completes the tracks.
#[derive(Debug)]
pub(crate) struct WorldTracks<P> {
    /// Followers of the machines. A follower in use is `None` in this list.
    followers: Vec<Option<Follower>>,
    /// Machines with an event at the current instant.
    touched: BTreeSet<MachineId>,
    scribe: Scribe<P>,
}

/// The writer without the followers.
#[derive(Debug)]
struct Scribe<P> {
    /// Time of the world, and links between its machines. `None`: the header is invalid, and `pen` stores the error.
    levels: Option<Levels>,
    machines: Vec<Machine>,
    /// Whether the trace has ended.
    over: bool,
    pen: P,
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

impl<P: Pen> WorldTracks<P> {
    /// Creates the tracks of a world, and writes their names with `pen`.
    pub(crate) fn new(pen: P, header: &WorldHeader) -> WorldTracks<P> {
        let (followers, touched) = (Vec::new(), BTreeSet::new());
        let mut scribe = Scribe { levels: None, machines: Vec::new(), over: false, pen };
        match Levels::new(header) {
            Ok(levels) => scribe.levels = Some(levels),
            Err(error) => {
                scribe.pen.fail(error);
                return WorldTracks { followers, touched, scribe };
            }
        }
        scribe.pen.begin(header);
        let tree = header.tree();
        let ranks: BTreeMap<MachineId, usize> =
            tree.iter().enumerate().map(|(rank, &(id, _))| (id, 2 * rank)).collect();
        let hosts: BTreeSet<MachineId> = header.machines.iter().filter_map(|machine| machine.host).collect();
        for (id, machine) in header.ids().zip(&header.machines) {
            let introduced = introduce(&mut scribe.pen, id, machine, hosts.contains(&id), ranks[&id]);
            scribe.machines.push(introduced);
        }
        let followers = header.machines.iter().map(|machine| Some(Follower::new(&machine.header))).collect();
        WorldTracks { followers, touched, scribe }
    }

    /// Ends the current slices, and returns the pen.
    pub(crate) fn finish(mut self) -> P {
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
        self.scribe.pen
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

impl<P: Pen> WorldSink for WorldTracks<P> {
    fn record(&mut self, id: MachineId, at: Instant, event: &Event) {
        let Some(levels) = &mut self.scribe.levels else { return };
        if self.scribe.pen.has_failed() {
            return;
        }
        let moves_on = at > levels.now();
        if let Err(error) = levels.take(id, at, event) {
            self.scribe.pen.fail(error);
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
            self.scribe.pen.fail(error);
        }
    }

    fn account(&mut self, id: MachineId, at: Instant, entity: EntityId, account: &Account) {
        let Scribe { levels: Some(_), machines, pen, .. } = &mut self.scribe else { return };
        if let Some(machine) = machines.get_mut(id.index()).filter(|_| !pen.has_failed()) {
            machine.tracks.account(pen, at, entity, account);
        }
    }
}

impl<P: Pen> Scribe<P> {
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
        let name = format!("{}: {}", machine.name, machine.tracks.name(task));
        let args = &[("entity", Arg::Text(&task)), ("machine", Arg::Text(&guest)), ("vcpu", Arg::Text(&vcpu))];
        let place = Place { process: host.tracks.places.cpus, track: first + seat.index() as u64 };
        self.pen.slice(place, &Slice { name: &name, category: "guest", colour: None, span, args, woken: None });
    }
}

/// Writes the names of a machine's processes and CPU tracks.
fn introduce<P: Pen>(
    pen: &mut P,
    id: MachineId,
    MachineHeader { name, header, host }: &MachineHeader,
    has_guests: bool,
    rank: usize,
) -> Machine {
    let shown = if name.is_empty() { id.to_string() } else { name.clone() };
    let number_of = |id: MachineId| 2 * id.0 + 1;
    let cpus = number_of(id);
    let (entities, cpu) = if host.is_none() { (cpus + 1, "CPU") } else { (cpus, "vCPU") };
    let parent = host.map(number_of);
    pen.process(&Process { number: cpus, name: &shown, rank, parent, header: Some(header) });
    if entities != cpus {
        let name = format!("{shown}: entities");
        pen.process(&Process { number: entities, name: &name, rank: rank + 1, parent: Some(cpus), header: None });
    }
    // The tracks of guests are below the tracks of the CPUs, whose first number is `above`.
    let mut row = |above: Option<u64>| {
        let numbers: Vec<u64> = (0..header.cpus).map(|_| pen.next_track()).collect();
        for (index, &track) in numbers.iter().enumerate() {
            let name = format!("{cpu} {index}{}", if above.is_some() { ": guests" } else { "" });
            let rank = 2 * index as u64 + u64::from(above.is_some());
            let parent = above.map(|first| first + index as u64);
            pen.track(&Track { place: Place { process: cpus, track }, name: &name, rank, parent });
        }
        numbers[0]
    };
    let first_cpu = row(None);
    let within = has_guests.then(|| row(Some(first_cpu)));
    let tracks = Tracks::new(Places { cpus, first_cpu, entities });
    Machine { tracks, name: shown, host: *host, within, runs: BTreeMap::new() }
}
