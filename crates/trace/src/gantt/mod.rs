//! [`Gantt`]: a timeline drawn with characters, for terminals, documentation and tests.
//!
//! ```text
//!      0         20ms      40ms      60ms
//!      |---------|---------|---------|---------
//! VM1  ##########_______________##########_____
//! VM2  _______________#####____________________
//! VM3  ______________________________.....#####
//! ```
//!
//! The durations of the cells differ by at most one nanosecond. The content of a cell is computed with integers.

mod alphabet;
mod section;
mod settings;

use crate::axis::Axis;
use crate::grid::Grid;
use crate::names;
use crate::row_budget::{RowBudget, Share};
use crate::timeline::Timeline;
use crate::world::WorldTimeline;
use alphabet::Alphabet;
use sched::Nanos;
use section::{Line, Section};

pub use settings::{Gantt, Glyphs};

impl Gantt {
    /// Draws a timeline. Every line ends with a line feed and has no trailing spaces.
    #[must_use]
    pub fn render(&self, timeline: &Timeline) -> String {
        let Some(grid) = Grid::new(self.from, self.to, self.width) else {
            return format!("(nothing from {} to {})\n", self.from, self.to);
        };
        let cpus = if self.cpus { timeline.cpus.len() } else { 0 };
        let section = Section::new(self, timeline, grid, (self.rows_most, cpus));
        Picture { gantt: self, grid, alphabet: self.glyphs.alphabet(), sections: vec![section], more: 0 }.draw()
    }

    /// Draws each host, and its guests below the host. All machines share `rows_most` rows for entities, and another
    /// `rows_most` rows for CPUs, by max-min fairness. The picture states the number of omitted machines.
    #[must_use]
    pub fn render_world(&self, world: &WorldTimeline) -> String {
        match Grid::new(self.from, self.to, self.width) {
            Some(grid) => self.picture(world, grid).draw(),
            None => format!("(nothing from {} to {})\n", self.from, self.to),
        }
    }

    /// Returns the number of characters before the cells in a picture of `world`.
    #[must_use]
    pub fn margin(&self, world: &WorldTimeline) -> usize {
        let Some(grid) = Grid::new(self.from, self.to, 1) else { return 0 };
        let picture = self.picture(world, grid);
        margin(&picture.lines())
    }

    fn picture<'a>(&'a self, world: &'a WorldTimeline, grid: Grid) -> Picture<'a> {
        let RowBudget { shares, more } = RowBudget::of(world, (self.from, self.to), self.rows_most, self.cpus);
        let section = |share: &Share| {
            let timeline = &world.machines[share.machine.index()];
            Section::new(self, timeline, grid, (share.rows, share.cpus)).of_machine(world, share)
        };
        let sections = shares.iter().map(section).collect();
        Picture { gantt: self, grid, alphabet: self.glyphs.alphabet(), sections, more }
    }
}

/// Lines of the entities and of the CPUs of a machine.
type Lines = (Vec<Line>, Vec<Line>);

/// Returns the total width of the labels and of the gap between the labels and the cells.
fn margin(drawn: &[Lines]) -> usize {
    let lines = drawn.iter().flat_map(|(rows, cpus)| rows.iter().chain(cpus));
    lines.map(|line| names::columns(&line.label)).max().unwrap_or(0) + 2
}

/// A picture of one or more machines.
struct Picture<'a> {
    gantt: &'a Gantt,
    grid: Grid,
    alphabet: Alphabet,
    /// Sections of the machines, from top to bottom.
    sections: Vec<Section<'a>>,
    /// Number of omitted machines.
    more: usize,
}

impl Picture<'_> {
    fn lines(&self) -> Vec<Lines> {
        self.sections.iter().map(|section| (section.rows(), section.cpus())).collect()
    }

    fn draw(&self) -> String {
        let drawn = self.lines();
        let margin = margin(&drawn);
        let mut out = String::new();
        let mut put = |label: &str, rest: &str| {
            let pad = margin.saturating_sub(names::columns(label));
            out += format!("{label}{:pad$}{rest}", "").trim_end();
            out.push('\n');
        };
        let note = |put: &mut dyn FnMut(&str, &str), more: usize, what: &str| {
            if more > 0 {
                let plural = if more > 1 && !what.is_empty() { "s" } else { "" };
                put("", &format!("{} and {more} more{what}{plural}", self.alphabet.ellipsis));
            }
        };
        self.axis().iter().for_each(|line| put("", line));
        for (section, (rows, cpus)) in self.sections.iter().zip(&drawn) {
            section.title().iter().for_each(|title| put(title, ""));
            rows.iter().for_each(|row| put(&row.label, &row.cells));
            note(&mut put, section.more(), "");
            cpus.iter().for_each(|cpu| put(&cpu.label, &cpu.cells));
            note(&mut put, section.cpus_more(), " CPU");
        }
        note(&mut put, self.more, " machine");
        if self.gantt.legend {
            self.legend(&drawn).iter().for_each(|line| put("", line));
        }
        out
    }

    /// Returns the line of labels and the line of ticks. If the origin of the labels is not zero, a line with the
    /// origin precedes them.
    fn axis(&self) -> Vec<String> {
        let places = |axis: &Axis| -> Vec<(usize, String)> {
            axis.ticks().filter_map(|at| Some((self.grid.cell_of(at)?, axis.label(at)))).collect()
        };
        let fits = |axis: &Axis| places(axis).windows(2).all(|pair| pair[1].0 - pair[0].0 >= pair[0].1.len() + 2);
        let axis = Axis::choose(self.grid.from(), self.grid.to(), fits);
        let mut labels = String::new();
        let mut ticks = vec![self.alphabet.line; self.grid.cells()];
        for (place, label) in places(&axis) {
            ticks[place] = self.alphabet.tick;
            labels += &format!("{:pad$}{label}", "", pad = place - labels.len());
        }
        let offset = axis.offset().map(|offset| format!("from {offset}"));
        offset.into_iter().chain([labels, ticks.into_iter().collect()]).collect()
    }

    /// Returns the meanings of the used characters, in lines of at most 60 columns, or of at most the width of the
    /// cells if this is wider.
    fn legend(&self, drawn: &[Lines]) -> Vec<String> {
        let any = |lines: &[Line], is: &dyn Fn(char) -> bool| lines.iter().flat_map(|line| line.cells.chars()).any(is);
        let of_rows = |is: &dyn Fn(char) -> bool| drawn.iter().any(|(rows, _)| any(rows, is));
        let of_cpus = |is: &dyn Fn(char) -> bool| drawn.iter().any(|(_, cpus)| any(cpus, is));
        let used = |glyph: char| match glyph {
            '0' => of_rows(&|c| c.is_ascii_alphanumeric()),
            'A' => of_cpus(&|c| c.is_ascii_alphabetic()),
            glyph => of_rows(&|c| c == glyph) || of_cpus(&|c| c == glyph),
        };
        let length = self.grid.to().since(self.grid.from());
        let cells = self.grid.cells() as u64;
        let mut items = vec![match length.as_ns() % cells {
            0 => format!("cell {}", Nanos::ns(length.as_ns() / cells)),
            _ => format!("{cells} cells"),
        }];
        let meanings = self.alphabet.meanings(self.gantt.cpus);
        items.extend(meanings.into_iter().filter(|&(glyph, _)| used(glyph)).map(|(glyph, meaning)| match glyph {
            '0' | 'A' => meaning.to_string(),
            glyph => format!("{glyph} {meaning}"),
        }));
        let mut out: Vec<String> = Vec::new();
        for item in items {
            match out.last_mut() {
                Some(line) if names::columns(line) + 3 + names::columns(&item) <= self.grid.cells().max(60) => {
                    *line += "   ";
                    *line += &item;
                }
                _ => out.push(item),
            }
        }
        out
    }
}
