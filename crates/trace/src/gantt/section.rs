//! [`Section`]: the part of a picture for one machine.

use super::alphabet::Alphabet;
use super::settings::{Gantt, Glyphs};
use crate::grid::{Grid, Tally};
use crate::names;
use crate::row_budget::Share;
use crate::timeline::{Row, Run, State, Timeline};
use crate::world::WorldTimeline;
use sched::{CpuId, EntityId, Nanos};
use std::iter;

/// Maximum width of the column of names.
const NAME_MOST: usize = 24;

/// Maximum number of nested machines for which the indentation increases.
const INDENTS_MOST: usize = 4;

/// Letters for entities in CPU rows, in order of the rows.
const LETTERS: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Returns the character of a CPU: its number in base 36. `None` from CPU 36 on.
fn digit(cpu: CpuId) -> Option<char> {
    char::from_digit(u32::try_from(cpu.index()).ok()?, 36)
}

/// A line of a picture: its label and its cells.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) cells: String,
}

/// The use of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seat {
    Ran(EntityId),
    /// The CPU is frozen; the entity on it makes no progress.
    Stolen,
}

/// The part of a picture for one machine.
pub(super) struct Section<'a> {
    gantt: &'a Gantt,
    timeline: &'a Timeline,
    grid: Grid,
    alphabet: Alphabet,
    /// Entities to draw, by id.
    rows: Vec<&'a Row>,
    /// Number of omitted entities.
    more: usize,
    /// Number of CPUs to draw.
    cpus: usize,
    /// Title above the rows, in a picture of several machines.
    title: Option<String>,
    indent: usize,
    is_guest: bool,
}

impl<'a> Section<'a> {
    /// Creates a section with at most `rows_most` entities and the first `cpus` CPUs of `timeline`.
    pub(super) fn new(
        gantt: &'a Gantt,
        timeline: &'a Timeline,
        grid: Grid,
        (rows_most, cpus): (usize, usize),
    ) -> Section<'a> {
        let mut rows: Vec<&Row> = timeline.rows.iter().filter(|row| row.is_in(gantt.from, gantt.to)).collect();
        let more = rows.len().saturating_sub(rows_most);
        rows.truncate(rows_most);
        let alphabet = gantt.glyphs.alphabet();
        Section { gantt, timeline, grid, alphabet, rows, more, cpus, title: None, indent: 0, is_guest: false }
    }

    /// Adds the title of one of several machines, and indents the section.
    pub(super) fn of_machine(mut self, world: &WorldTimeline, share: &Share) -> Section<'a> {
        let machine = &world.header.machines[share.machine.index()];
        self.indent = 2 * share.depth.min(INDENTS_MOST);
        self.is_guest = machine.host.is_some();
        let policy = self.fit(&names::shown(&machine.header.policy), NAME_MOST);
        let names =
            names::machines(&world.header, iter::once(share.machine), NAME_MOST, |text, most| self.fit(text, most));
        let name = names.concat();
        let (cpus, what) = (machine.header.cpus, if self.is_guest { "vCPU" } else { "CPU" });
        let plural = if cpus == 1 { "" } else { "s" };
        self.title = Some(format!("{:pad$}{name}: {policy} on {cpus} {what}{plural}", "", pad = self.indent));
        // The rows of a machine are indented further than its name.
        self.indent += 1;
        self
    }

    pub(super) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns the number of omitted entities.
    pub(super) fn more(&self) -> usize {
        self.more
    }

    /// Returns the number of omitted CPUs.
    pub(super) fn cpus_more(&self) -> usize {
        if self.gantt.cpus { self.timeline.cpus.len() - self.cpus } else { 0 }
    }

    pub(super) fn rows(&self) -> Vec<Line> {
        self.rows.iter().zip(self.labels()).map(|(row, label)| self.row(row, label)).collect()
    }

    pub(super) fn cpus(&self) -> Vec<Line> {
        (0..self.cpus).map(|n| self.cpu(CpuId::new(n))).collect()
    }

    /// Returns `text` in at most `most` columns. In an ASCII picture, `?` replaces each non-ASCII character.
    fn fit(&self, text: &str, most: usize) -> String {
        let text = match self.gantt.glyphs {
            Glyphs::Ascii => text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect(),
            Glyphs::Unicode => text.to_string(),
        };
        names::cut(&text, most, self.alphabet.ellipsis)
    }

    fn labels(&self) -> Vec<String> {
        let labels = names::labels(self.rows.iter().copied(), NAME_MOST, |text, most| self.fit(text, most));
        let label = |(index, label): (usize, String)| {
            let indent = self.indent;
            match LETTERS.get(index) {
                Some(letter) if self.gantt.cpus => format!("{:indent$}{} {label}", "", char::from(*letter)),
                None if self.gantt.cpus => format!("{:indent$}{} {label}", "", self.alphabet.other),
                _ => format!("{:indent$}{label}", ""),
            }
        };
        labels.into_iter().enumerate().map(label).collect()
    }

    fn row(&self, row: &Row, label: String) -> Line {
        let spans = row.spans_in(self.grid.from(), self.grid.to());
        let tallies = self.grid.tally(spans.iter().map(|span| (span.from, span.to, span.state)));
        let cell = |(index, tally)| self.cell(tally, self.grid.length_of(index));
        let mut cells: Vec<char> = tallies.iter().enumerate().map(cell).collect();
        for job in row.jobs.iter().filter(|job| job.missed()) {
            if let Some(index) = self.grid.cell_of(job.deadline) {
                cells[index] = self.alphabet.missed;
            }
        }
        Line { label, cells: cells.into_iter().collect() }
    }

    fn cell(&self, tally: &Tally<State>, length: Nanos) -> char {
        let runs = |state| matches!(state, State::Running(_));
        if let Some((State::Running(cpu), _)) = tally.longest(runs) {
            let several = self.timeline.cpus.len() > 1;
            return match tally.total(runs) {
                ran if ran == length => digit(cpu).filter(|_| several).unwrap_or(self.alphabet.full),
                ran => self.share(ran, length),
            };
        }
        match tally.longest(|_| true) {
            Some((State::Waiting, _)) => self.alphabet.waiting,
            Some((State::Held(_), _)) => self.alphabet.held,
            Some((State::Stolen(_), _)) => self.alphabet.stolen,
            Some((State::Blocked | State::Running(_), _)) => self.alphabet.blocked,
            None => ' ',
        }
    }

    fn share(&self, part: Nanos, length: Nanos) -> char {
        if part >= length - part { self.alphabet.most } else { self.alphabet.some }
    }

    fn cpu(&self, cpu: CpuId) -> Line {
        let timeline = self.timeline;
        let ran = self.shown(&timeline.cpus[cpu.index()]).map(|run| (run.from, run.to, Seat::Ran(run.entity)));
        let stolen = self.shown(&timeline.stolen[cpu.index()]).map(|run| (run.from, run.to, Seat::Stolen));
        let tallies = self.grid.tally(ran.chain(stolen));
        let cell = |(index, tally): (usize, &Tally<Seat>)| {
            let length = self.grid.length_of(index);
            let is_run = |seat| matches!(seat, Seat::Ran(_));
            let Some((Seat::Ran(entity), ran)) = tally.longest(is_run) else {
                let stolen = tally.total(|_| true);
                return if stolen > length - stolen { self.alphabet.stolen } else { self.alphabet.idle };
            };
            if ran <= length - ran {
                return self.share(tally.total(is_run), length);
            }
            let place = self.rows.binary_search_by_key(&entity, |row| row.entity).ok();
            match place.and_then(|place| LETTERS.get(place)).map(|&letter| char::from(letter)) {
                Some(letter) if ran == length => letter,
                Some(letter) => letter.to_ascii_lowercase(),
                None => self.alphabet.other,
            }
        };
        let what = if self.is_guest { "vCPU" } else { "CPU" };
        let indent = self.indent;
        Line { label: format!("{:indent$}{what} {cpu}", ""), cells: tallies.iter().enumerate().map(cell).collect() }
    }

    /// Returns the part of `runs` that overlaps the picture.
    fn shown<'r>(&self, runs: &'r [Run]) -> impl Iterator<Item = &'r Run> + use<'r> {
        let (from, to) = (self.grid.from(), self.grid.to());
        let first = runs.partition_point(|run| run.to <= from);
        runs[first..].iter().take_while(move |run| run.from < to)
    }
}
