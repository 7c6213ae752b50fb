//! Recording and drawing of runs with several machines, hosts and guests.

use crate::failure::Failure;
use crate::output::Draft;
use crate::picture::{ALONE, BESIDE};
use crate::record::{Form, begin};
use crate::window::Window;
use anyhow::Context;
use sched::{EntityId, Instant};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use trace::gantt::{Gantt, Glyphs};
use trace::svg::{Picture, worlds_side_by_side};
use trace::{
    Account, Event, MachineId, PerfettoWriter, WorldChromeWriter, WorldHeader, WorldSink, WorldTextWriter,
    WorldTimeline,
};

/// The trace of a world under construction.
pub(crate) struct WorldTraceFile {
    draft: Draft,
    writer: WorldWriter,
}

enum WorldWriter {
    Text(WorldTextWriter<File>),
    Chrome(Box<WorldChromeWriter<File>>),
    Perfetto(Box<PerfettoWriter<File>>),
}

impl WorldTraceFile {
    pub(crate) fn create(path: &Path, header: &WorldHeader) -> Result<WorldTraceFile, Failure> {
        let (form, draft, file) = begin(path)?;
        let writer = match form {
            Form::Text => WorldWriter::Text(WorldTextWriter::new(file, header)),
            Form::Chrome => WorldWriter::Chrome(Box::new(WorldChromeWriter::new(file, header))),
            Form::Perfetto => WorldWriter::Perfetto(Box::new(PerfettoWriter::new(file, header))),
        };
        Ok(WorldTraceFile { draft, writer })
    }

    /// Completes the file without moving it to its target.
    pub(crate) fn finish(self) -> anyhow::Result<Draft> {
        let outcome = match self.writer {
            WorldWriter::Text(writer) => writer.finish(),
            WorldWriter::Chrome(writer) => writer.finish(),
            WorldWriter::Perfetto(writer) => writer.finish(),
        };
        outcome.context("cannot write the trace")?;
        Ok(self.draft)
    }
}

impl WorldSink for WorldTraceFile {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        match &mut self.writer {
            WorldWriter::Text(writer) => writer.record(machine, at, event),
            WorldWriter::Chrome(writer) => writer.record(machine, at, event),
            WorldWriter::Perfetto(writer) => writer.record(machine, at, event),
        }
    }

    fn reads_accounts(&self) -> bool {
        matches!(self.writer, WorldWriter::Perfetto(_))
    }

    fn account(&mut self, machine: MachineId, at: Instant, entity: EntityId, account: &Account) {
        if let WorldWriter::Perfetto(writer) = &mut self.writer {
            writer.account(machine, at, entity, account);
        }
    }
}

/// Draws the part of `world` in `window` as text, `width` characters wide, with at most `rows_most` entities of all
/// machines.
pub(crate) fn gantt(world: &WorldTimeline, window: Window, width: u16, rows_most: usize) -> String {
    let Window { from, to } = window;
    let gantt = Gantt { from, to, width: 1, glyphs: Glyphs::Unicode, rows_most, cpus: true, legend: true };
    let width = usize::from(width).saturating_sub(gantt.margin(world)).max(20);
    Gantt { width, ..gantt }.render_world(world)
}

/// Draws the parts of `worlds` in `window` as one SVG document, side by side if there are several.
pub(crate) fn svg(title: &str, worlds: &[&WorldTimeline], window: Window, rows_most: usize) -> String {
    let Window { from, to } = window;
    let picture = |title: String, width| Picture { title, from, to, width, rows_most, cpus: true };
    if let [world] = worlds {
        return picture(title.to_string(), ALONE).render_world(world);
    }
    let pictures: Vec<Picture> = worlds.iter().map(|world| picture(policies(world), BESIDE)).collect();
    let panels: Vec<(&Picture, &WorldTimeline)> = pictures.iter().zip(worlds.iter().copied()).collect();
    worlds_side_by_side(title, &panels)
}

/// Returns the policies of the hosts and, if there are guests, of the guests: `edf`, or `edf over cfs, eevdf`.
fn policies(world: &WorldTimeline) -> String {
    let of = |guests: bool| -> Vec<&str> {
        let machines = world.header.machines.iter().filter(|machine| machine.host.is_some() == guests);
        let names: BTreeSet<&str> = machines.map(|machine| machine.header.policy.as_str()).collect();
        names.into_iter().collect()
    };
    let (hosts, guests) = (of(false).join(", "), of(true).join(", "));
    if guests.is_empty() { hosts } else { format!("{hosts} over {guests}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Action, CpuId, EntityId, Input, Nanos};
    use trace::{Header, MachineHeader, WorldTrace, WorldWatch};

    fn header() -> WorldHeader {
        let machine = |name: &str, policy: &str, host| MachineHeader {
            name: name.to_string(),
            header: Header { policy: policy.to_string(), cpus: 1, seed: 0 },
            host,
        };
        WorldHeader { machines: vec![machine("host", "edf", None), machine("vm", "cfs", Some(MachineId(0)))] }
    }

    fn send_events(sink: &mut dyn WorldSink) {
        let cpu = CpuId::new(0);
        for (ms, machine, event) in [
            (0, 0, Event::Action(Action::Kick { cpu })),
            (1, 1, Event::Input(Input::Freeze { cpu, preempted: false })),
            (3, 1, Event::Input(Input::Thaw { cpu, stolen: Nanos::ZERO })),
            (9, 0, Event::End),
            (9, 1, Event::End),
        ] {
            sink.record(MachineId(machine), Instant::ZERO + Nanos::ms(ms), &event);
        }
    }

    #[test]
    fn a_world_is_watched_to_the_end_of_the_window_and_no_further() {
        let at = |ms| Instant::ZERO + Nanos::ms(ms);
        for (end, to) in [(2, 2), (5, 5), (100, 9)] {
            let mut watch = WorldWatch::new(&header(), at(end));
            send_events(&mut watch);
            let world = watch.finish().expect("it makes sense");
            assert_eq!(world.machines.iter().map(|timeline| timeline.to).collect::<Vec<_>>(), [at(to), at(to)]);
        }
    }

    #[test]
    fn the_trace_of_a_world_is_written_in_the_form_that_its_name_asks_for() {
        let folder = std::env::temp_dir().join(format!("tactus-world-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room");
        for (name, begin) in [("a.txt", "tactus-world 1 machines=2\n"), ("a.json", "{\"displayTimeUnit\":\"ns\",")] {
            let path = folder.join(name);
            let Ok(mut file) = WorldTraceFile::create(&path, &header()) else { panic!("it can be written") };
            send_events(&mut file);
            file.finish().and_then(Draft::keep).expect("it was written");
            let text = std::fs::read_to_string(&path).expect("it is there");
            assert!(text.starts_with(begin) && text.ends_with('\n'), "{text}");
        }
        let path = folder.join("a.pftrace");
        let Ok(mut file) = WorldTraceFile::create(&path, &header()) else { panic!("it can be written") };
        send_events(&mut file);
        file.finish().and_then(Draft::keep).expect("it was written");
        let bytes = std::fs::read(&path).expect("it is there");
        assert!(bytes[0] == 1 << 3 | 2 && bytes.windows(9).any(|part| part == b"host: ent"), "{bytes:?}");
        assert!(WorldTraceFile::create(&folder.join("a.xml"), &header()).is_err());
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    fn world(name: &str) -> WorldTimeline {
        let mut trace = WorldTrace::new(header());
        let (entity, cpu) = (EntityId::new(0, 0), CpuId::new(0));
        for id in [MachineId(0), MachineId(1)] {
            let attach = Event::Attach { entity, name: name.to_string(), params: Box::default() };
            trace.record(id, Instant::ZERO, &attach);
            trace.record(id, Instant::ZERO, &Event::Action(Action::Run { cpu, entity, until: Instant::NEVER }));
        }
        trace.record(MachineId(0), Instant::ZERO + Nanos::ms(7), &Event::End);
        WorldTimeline::of(&trace).expect("it makes sense")
    }

    const WINDOW: Window = Window { from: Instant::ZERO, to: Instant::at_ns(7_000_000) };

    #[test]
    fn a_world_is_drawn_as_wide_as_the_terminal() {
        for name in ["x", "a name that is much too long for its column"] {
            let world = world(name);
            for width in [60, 80, 200] {
                let text = gantt(&world, WINDOW, width, 20);
                let rows = text.lines().filter(|line| line.contains('█') && !line.contains("ran"));
                let widest = rows.map(|line| line.chars().count()).max();
                assert_eq!(widest, Some(usize::from(width)), "{text}");
            }
        }
    }

    #[test]
    fn worlds_side_by_side_are_told_apart_by_their_policies() {
        let world = world("x");
        let alone = svg("title", &[&world], WINDOW, 20);
        assert!(alone.contains(">title</text>") && !alone.contains("edf over cfs"), "{alone}");
        let both = svg("title", &[&world, &world], WINDOW, 20);
        assert_eq!(both.matches(">edf over cfs</text>").count(), 2, "{both}");
    }
}
