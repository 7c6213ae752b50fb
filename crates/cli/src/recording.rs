//! Recording and drawing of simulated runs, of one machine or of a world.

use crate::failure::Failure;
use crate::output::Draft;
use crate::picture;
use crate::record::{Form, TraceFile, Watch};
use crate::window::{Window, cells};
use crate::world::{self, WorldTraceFile};
use anyhow::Context;
use scenario::Scenario;
use sched::{EntityId, Instant};
use std::path::Path;
use trace::{Account, Event, MachineId, Sink, Timeline, WorldHeader, WorldSink, WorldTimeline, WorldWatch};

/// The recorded schedule within the window.
pub(crate) enum Recording {
    One(Timeline),
    World(Box<WorldTimeline>),
}

/// Recorder of a run until the end of the window.
pub(crate) enum Watching {
    One(Box<Watch>),
    World(Box<WorldWatch>),
}

impl Watching {
    pub(crate) fn new(header: &WorldHeader, window: Window) -> Watching {
        match header.machines.as_slice() {
            [alone] => Watching::One(Box::new(Watch::new(&alone.header, window))),
            _ => Watching::World(Box::new(WorldWatch::new(header, window.to))),
        }
    }

    pub(crate) fn finish(self) -> anyhow::Result<Recording> {
        Ok(match self {
            Watching::One(watch) => Recording::One(watch.finish()?),
            Watching::World(watch) => Recording::World(Box::new(watch.finish().context("the run contradicts itself")?)),
        })
    }
}

impl WorldSink for Watching {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        match self {
            Watching::One(watch) => watch.record(at, event),
            Watching::World(watch) => watch.record(machine, at, event),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Watching::One(watch) => watch.is_over(),
            Watching::World(watch) => watch.is_over(),
        }
    }
}

/// A trace under construction.
pub(crate) enum Writing {
    One(TraceFile),
    World(WorldTraceFile),
}

impl Writing {
    pub(crate) fn create(path: &Path, header: &WorldHeader) -> Result<Writing, Failure> {
        Ok(match header.machines.as_slice() {
            [alone] if Form::of(path)? != Form::Perfetto => Writing::One(TraceFile::create(path, &alone.header)?),
            _ => Writing::World(WorldTraceFile::create(path, header)?),
        })
    }

    /// Completes the file without moving it to its target.
    pub(crate) fn finish(self) -> anyhow::Result<Draft> {
        match self {
            Writing::One(file) => file.finish(),
            Writing::World(file) => file.finish(),
        }
    }
}

impl WorldSink for Writing {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        match self {
            Writing::One(file) => file.record(at, event),
            Writing::World(file) => file.record(machine, at, event),
        }
    }

    fn reads_accounts(&self) -> bool {
        match self {
            Writing::One(_) => false,
            Writing::World(file) => file.reads_accounts(),
        }
    }

    fn account(&mut self, machine: MachineId, at: Instant, entity: EntityId, account: &Account) {
        if let Writing::World(file) = self {
            file.account(machine, at, entity, account);
        }
    }
}

/// Draws the recorded `window` as text, `width` characters wide, with at most `rows_most` entities.
pub(crate) fn gantt(
    recording: &Recording,
    scenario: &Scenario,
    window: Window,
    width: u16,
    rows_most: usize,
) -> String {
    match recording {
        Recording::One(timeline) => {
            let names = scenario.entities.iter().map(|entity| entity.name.as_str());
            picture::gantt(timeline, window, cells(names, width), rows_most)
        }
        Recording::World(world) => world::gantt(world, window, width, rows_most),
    }
}

/// Draws the recorded `window` as one SVG document. Several runs of one scenario are drawn side by side.
pub(crate) fn svg(title: &str, recordings: &[&Recording], window: Window, rows_most: usize) -> String {
    let mut alone = Vec::new();
    let mut worlds = Vec::new();
    for recording in recordings {
        match recording {
            Recording::One(timeline) => alone.push(timeline),
            Recording::World(world) => worlds.push(&**world),
        }
    }
    if worlds.is_empty() {
        picture::svg(title, &alone, window, rows_most)
    } else {
        world::svg(title, &worlds, window, rows_most)
    }
}
