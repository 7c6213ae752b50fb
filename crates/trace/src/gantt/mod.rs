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
//! Every cell is as wide in time as the others, to the nanosecond; what it shows is decided by whole numbers.

use crate::axis::Axis;
use crate::grid::{Grid, Tally};
use crate::names;
use crate::timeline::{Row, State, Timeline};
use sched::{CpuId, EntityId, Instant, Nanos};

/// Which characters a picture may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glyphs {
    /// Only ASCII.
    Ascii,
    /// Box drawing and block elements, all one column wide.
    Unicode,
}

/// How to draw a timeline with characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gantt {
    /// The left edge.
    pub from: Instant,
    /// The right edge, not shown itself.
    pub to: Instant,
    /// How many cells to cut that into. Range: 1 …; fewer are drawn if there are not as many nanoseconds.
    pub width: usize,
    /// With which characters.
    pub glyphs: Glyphs,
    /// How many entities to draw at most: the first by id of those that are there between `from` and `to`.
    pub rows_most: usize,
    /// Whether to draw a row per CPU, too; its cells name the entities by the letters in front of their names.
    pub cpus: bool,
    /// Whether to explain the characters used, in a last line.
    pub legend: bool,
}

impl Gantt {
    /// All of `timeline`, 80 cells wide, at most 40 entities, in Unicode, with a legend.
    #[must_use]
    pub fn whole(timeline: &Timeline) -> Gantt {
        Gantt {
            from: timeline.from,
            to: timeline.to,
            width: 80,
            glyphs: Glyphs::Unicode,
            rows_most: 40,
            cpus: false,
            legend: true,
        }
    }

    /// Draws. Every line ends with a line feed and has no spaces before it.
    #[must_use]
    pub fn render(&self, timeline: &Timeline) -> String {
        let Some(grid) = Grid::new(self.from, self.to, self.width) else {
            return format!("(nothing from {} to {})\n", self.from, self.to);
        };
        Picture::new(self, timeline, grid).draw()
    }
}

/// The widest name column.
const NAME_MOST: usize = 24;

/// The letters that stand for entities in CPU rows, in order of the rows.
const LETTERS: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The characters of a picture, by meaning.
struct Alphabet {
    /// It ran all the time, on the machine's only CPU.
    full: char,
    /// It ran half of the time or more.
    most: char,
    /// It ran less than half of the time.
    some: char,
    waiting: char,
    held: char,
    /// Its CPU was frozen.
    stolen: char,
    blocked: char,
    missed: char,
    /// In a CPU's row: an entity without a letter.
    other: char,
    idle: char,
    tick: char,
    line: char,
    ellipsis: &'static str,
}

impl Glyphs {
    fn alphabet(self) -> Alphabet {
        match self {
            Glyphs::Ascii => Alphabet {
                full: '#',
                most: '+',
                some: '-',
                waiting: '.',
                held: ':',
                stolen: '~',
                blocked: '_',
                missed: '!',
                other: '*',
                idle: '_',
                tick: '|',
                line: '-',
                ellipsis: "...",
            },
            Glyphs::Unicode => Alphabet {
                full: '█',
                most: '▓',
                some: '░',
                waiting: '·',
                held: '×',
                stolen: '≈',
                blocked: '─',
                missed: '!',
                other: '*',
                idle: '─',
                tick: '┬',
                line: '─',
                ellipsis: "…",
            },
        }
    }
}

impl Alphabet {
    /// What the characters mean, in the order in which a legend tells.
    fn meanings(&self, cpus: bool) -> Vec<(char, &'static str)> {
        let mut meanings = vec![
            ('0', "0-9a-z ran on that CPU"),
            (self.full, "ran"),
            (self.most, "ran half of it or more"),
            (self.some, "ran less"),
            (self.waiting, "waited"),
            (self.held, "held"),
            (self.blocked, if cpus { "blocked, idle" } else { "blocked" }),
            (self.missed, "missed a deadline"),
        ];
        if cpus {
            meanings.push(('A', "A-Z who ran (a-z: most of it)"));
            meanings.push((self.other, "another ran"));
        }
        meanings
    }
}

/// The character of a CPU: its number in base 36.
fn digit(cpu: CpuId) -> Option<char> {
    char::from_digit(u32::try_from(cpu.index()).ok()?, 36)
}

struct Picture<'a> {
    gantt: &'a Gantt,
    timeline: &'a Timeline,
    grid: Grid,
    alphabet: Alphabet,
    /// The entities to draw, by id.
    rows: Vec<&'a Row>,
    /// How many more there are.
    more: usize,
}

/// A line of a picture: what stands in front, and the cells.
struct Line {
    label: String,
    cells: String,
}

impl<'a> Picture<'a> {
    fn new(gantt: &'a Gantt, timeline: &'a Timeline, grid: Grid) -> Picture<'a> {
        let mut rows: Vec<&Row> = timeline.rows.iter().filter(|row| row.is_in(gantt.from, gantt.to)).collect();
        let more = rows.len().saturating_sub(gantt.rows_most);
        rows.truncate(gantt.rows_most);
        Picture { gantt, timeline, grid, alphabet: gantt.glyphs.alphabet(), rows, more }
    }

    fn draw(&self) -> String {
        let rows: Vec<Line> = self.rows.iter().zip(self.labels()).map(|(row, label)| self.row(row, label)).collect();
        let cpus = if self.gantt.cpus { self.timeline.cpus.len() } else { 0 };
        let cpus: Vec<Line> = (0..cpus).map(|n| self.cpu(CpuId::new(n))).collect();
        let labels = rows.iter().chain(&cpus).map(|line| names::columns(&line.label));
        let margin = labels.max().unwrap_or(0) + 2;
        let mut out = String::new();
        let mut put = |label: &str, rest: &str| {
            let pad = margin - names::columns(label);
            out += format!("{label}{:pad$}{rest}", "").trim_end();
            out.push('\n');
        };
        self.axis().iter().for_each(|line| put("", line));
        rows.iter().for_each(|row| put(&row.label, &row.cells));
        if self.more > 0 {
            put("", &format!("{} and {} more", self.alphabet.ellipsis, self.more));
        }
        cpus.iter().for_each(|cpu| put(&cpu.label, &cpu.cells));
        if self.gantt.legend {
            self.legend(&rows, &cpus).iter().for_each(|line| put("", line));
        }
        out
    }

    fn labels(&self) -> Vec<String> {
        let labels = names::labels(self.rows.iter().copied());
        let ascii = |label: String| match self.gantt.glyphs {
            Glyphs::Ascii => label.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect(),
            Glyphs::Unicode => label,
        };
        let label = |(index, label): (usize, String)| {
            let label = names::cut(&ascii(label), NAME_MOST, self.alphabet.ellipsis);
            match LETTERS.get(index) {
                Some(letter) if self.gantt.cpus => format!("{} {label}", char::from(*letter)),
                None if self.gantt.cpus => format!("{} {label}", self.alphabet.other),
                _ => label,
            }
        };
        labels.into_iter().enumerate().map(label).collect()
    }

    // ---- Cells ----

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
        let runs = &self.timeline.cpus[cpu.index()];
        let first = runs.partition_point(|run| run.to <= self.grid.from());
        let runs = runs[first..].iter().take_while(|run| run.from < self.grid.to());
        let tallies = self.grid.tally(runs.map(|run| (run.from, run.to, run.entity)));
        let cell = |(index, tally): (usize, &Tally<EntityId>)| {
            let length = self.grid.length_of(index);
            let Some((entity, ran)) = tally.longest(|_| true) else { return self.alphabet.idle };
            if ran <= length - ran {
                return self.share(tally.total(|_| true), length);
            }
            let place = self.rows.binary_search_by_key(&entity, |row| row.entity).ok();
            match place.and_then(|place| LETTERS.get(place)).map(|&letter| char::from(letter)) {
                Some(letter) if ran == length => letter,
                Some(letter) => letter.to_ascii_lowercase(),
                None => self.alphabet.other,
            }
        };
        Line { label: format!("CPU {cpu}"), cells: tallies.iter().enumerate().map(cell).collect() }
    }

    // ---- Around the cells ----

    /// Labels and ticks; and before them, where the labels count from, if that is not zero.
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

    /// What the characters used mean, in lines about as wide as the cells.
    fn legend(&self, rows: &[Line], cpus: &[Line]) -> Vec<String> {
        let any = |lines: &[Line], is: &dyn Fn(char) -> bool| lines.iter().flat_map(|line| line.cells.chars()).any(is);
        let used = |glyph: char| match glyph {
            '0' => any(rows, &|c| c.is_ascii_alphanumeric()),
            'A' => any(cpus, &|c| c.is_ascii_alphabetic()),
            glyph => any(rows, &|c| c == glyph) || any(cpus, &|c| c == glyph),
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
