//! [`Picture`]: a timeline as a self-contained SVG picture: a row per entity with a bar per run, coloured per CPU, and
//! marks for arrivals, releases, deadlines and misses. Its size is bounded, however long the run.

mod canvas;
mod legend;
mod plot;
mod rows;
mod section;
mod world;

use crate::axis::Axis;
use crate::grid::Grid;
use crate::names;
use crate::timeline::Timeline;
use canvas::{Anchor, Canvas, Escaped, Path, Px, Type};
use legend::Legend;
use plot::Plot;
use sched::{Instant, Nanos};
use section::Section;

pub use world::worlds_side_by_side;

const INK: &str = "#1f2328";
const MUTED: &str = "#656d76";
const WAITING: &str = "#c4cad1";
const MISSED: &str = "#d55e00";
const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/// The narrowest picture; a narrower one is drawn as wide as this. Unit: pixels.
pub const WIDTH_LEAST: u32 = 360;
/// The widest picture; a wider one is drawn as wide as this. Unit: pixels.
pub const WIDTH_MOST: u32 = 10_000;
/// The most pictures side by side; those after them are left out.
pub const PANELS_MOST: usize = 8;

/// How to draw a timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// What it says above, in large letters.
    pub title: String,
    /// The left edge.
    pub from: Instant,
    /// The right edge.
    pub to: Instant,
    /// How wide it is, in pixels. Range: [`WIDTH_LEAST`] … [`WIDTH_MOST`].
    pub width: u32,
    /// How many entities to draw at most: the first by id of those that are there between `from` and `to`.
    pub rows_most: usize,
    /// Whether to draw a row per CPU, too.
    pub cpus: bool,
}

impl Picture {
    /// All of `timeline`, 960 pixels wide, at most 40 entities.
    #[must_use]
    pub fn whole(timeline: &Timeline, title: &str) -> Picture {
        let (from, to) = (timeline.from, timeline.to);
        Picture { title: title.to_string(), from, to, width: 960, rows_most: 40, cpus: false }
    }

    /// Draws: a complete SVG document.
    #[must_use]
    pub fn render(&self, timeline: &Timeline) -> String {
        alone(&self.title, self.one(timeline), "")
    }

    /// What a picture of one machine holds.
    fn one<'t>(&'t self, timeline: &'t Timeline) -> Contents<'t> {
        let about = about(timeline, false);
        Contents { picture: self, about, sections: vec![Section::one(self, timeline)], more: 0 }
    }

    /// Ticks, their labels, and lines through all rows.
    fn axis(&self, plot: &Plot<'_>, bottom: Px, panel: &mut Panel) -> Axis {
        let gap = |axis: &Axis| {
            let widest = axis.ticks().map(|at| axis.number(at).len()).max().unwrap_or(0);
            Px::hundredths(i64::try_from(widest).expect("a label is short") * 660) + Px::of(24)
        };
        let fits = |axis: &Axis| {
            let places: Vec<Px> = axis.ticks().map(|at| plot.x(at)).collect();
            places.windows(2).all(|pair| pair[1] - pair[0] >= gap(axis))
        };
        let axis = Axis::choose(plot.from, plot.to, fits);
        let mut lines = Path::default();
        for at in axis.ticks() {
            lines.line(&[(plot.x(at), BODY), (plot.x(at), bottom + Px::of(5))]);
        }
        panel.canvas.path(&lines, "fill=\"none\" stroke=\"#eaeef2\" stroke-width=\"1\"");
        let mut base = Path::default();
        base.line(&[(plot.left, bottom), (plot.left + plot.width, bottom)]);
        panel.canvas.path(&base, "fill=\"none\" stroke=\"#8c959f\" stroke-width=\"1\"");
        let how = |anchor| Type { size: 11, weight: 400, fill: MUTED, anchor };
        let right = plot.left + plot.width + Px::of(14);
        let mut end = right;
        for at in axis.ticks() {
            let number = axis.number(at);
            panel.canvas.text((plot.x(at), bottom + Px::of(19)), how(Anchor::Middle), &number);
            end = end.max(plot.x(at) + wide(&number, 660).half() + Px::of(4));
        }
        panel.canvas.text((right, BODY - Px::of(13)), how(Anchor::Start), "CPU used");
        panel.canvas.text((end, bottom + Px::of(19)), how(Anchor::Start), axis.unit());
        axis
    }
}

/// Room around everything.
const MARGIN: Px = Px::of(20);
/// Where the rows begin, below the title.
const BODY: Px = Px::of(62);
/// The longest name, in columns.
const NAME_MOST: usize = 24;

/// `text` in at most `most` columns.
fn fit(text: &str, most: usize) -> String {
    names::cut(text, most, "…")
}

/// About how wide `text` is, in letters of `each` hundredths of a pixel: no font can be asked here.
fn wide(text: &str, each: i64) -> Px {
    Px::hundredths(i64::try_from(names::columns(text)).expect("a label is short") * each)
}

/// Under which policy a machine runs, and on how many CPUs.
fn about(timeline: &Timeline, is_guest: bool) -> String {
    let cpus = timeline.header.cpus;
    let (what, plural) = (if is_guest { "vCPU" } else { "CPU" }, if cpus == 1 { "" } else { "s" });
    format!("{} on {cpus} {what}{plural}", timeline.header.policy)
}

/// What a picture shows, before it is laid out.
struct Contents<'t> {
    picture: &'t Picture,
    /// What it says below the title.
    about: String,
    /// By machine, from top to bottom.
    sections: Vec<Section<'t>>,
    /// How many more machines there are.
    more: usize,
}

impl Contents<'_> {
    /// Room for what stands beside the rows, on the left and on the right.
    fn margins(&self) -> (Px, Px) {
        let (from, to) = (self.picture.from, self.picture.to);
        let names = self.sections.iter().flat_map(|section| &section.labels).map(|label| wide(label, 800));
        let rows = || self.sections.iter().flat_map(|section| &section.rows);
        let wishes = rows().map(|row| wide(&rows::wish(row, to), 610));
        let left = names.chain(wishes).max().unwrap_or_default().clamp(Px::of(48), Px::of(200));
        let late = rows().map(|row| wide(&rows::late(row, from, to).0, 660));
        let right = late.max().unwrap_or_default().max(Px::of(60));
        ((MARGIN + left + Px::of(14)).whole(), (right + Px::of(14) + MARGIN).whole())
    }

    /// Everything but the legend.
    fn panel(&self, margins: (Px, Px)) -> Panel {
        let picture = self.picture;
        let mut panel = Panel {
            canvas: Canvas::default(),
            legend: Legend::default(),
            width: Px::of(i64::from(picture.width.clamp(WIDTH_LEAST, WIDTH_MOST))),
            height: BODY,
        };
        let how = |size, weight, fill| Type { size, weight, fill, anchor: Anchor::Start };
        panel.canvas.text((MARGIN, Px::of(30)), how(17, 600, INK), &picture.title);
        let columns = usize::try_from(panel.width.as_hundredths() / 100).expect("a picture has a width");
        let Some(grid) = Grid::new(picture.from, picture.to, columns) else {
            let nothing = format!("nothing from {} to {}", point(picture.from), point(picture.to));
            panel.canvas.text((MARGIN, Px::of(49)), how(12, 400, MUTED), &nothing);
            return panel;
        };
        let axis = self.rows(grid, margins, &mut panel);
        let edge = axis.offset().map(|edge| format!(" · times from {}", point(edge))).unwrap_or_default();
        panel.canvas.text((MARGIN, Px::of(49)), how(12, 400, MUTED), &format!("{}{edge}", self.about));
        panel
    }

    /// Draws the rows and the axis; makes the panel as high as they need.
    fn rows(&self, grid: Grid, (left, right): (Px, Px), panel: &mut Panel) -> Axis {
        let width = plot::whole_columns(panel.width - left - right);
        let columns = plot::columns(grid, &self.sections, width);
        let plots: Vec<Plot<'_>> =
            self.sections.iter().map(|section| section.plot(grid, columns, (left, width))).collect();
        let note = if self.more > 0 { section::NOTE } else { Px::ZERO };
        let heights = self.sections.iter().map(|section| section.height(self.picture));
        let bottom = heights.fold(BODY + note, |sum, height| sum + height);
        let mut y = BODY;
        for section in &self.sections {
            section.ground(self.picture, panel, y);
            y += section.height(self.picture);
        }
        let axis = self.picture.axis(&plots[0], bottom, panel);
        let mut y = BODY;
        for (section, plot) in self.sections.iter().zip(&plots) {
            section.draw(self.picture, panel, plot, y);
            y += section.height(self.picture);
        }
        section::note(&mut panel.canvas, (left, y), self.more, " machine");
        panel.height = bottom + Px::of(30);
        axis
    }
}

/// A picture without its legend.
struct Panel {
    canvas: Canvas,
    legend: Legend,
    width: Px,
    height: Px,
}

impl Panel {
    fn place(&self, canvas: &mut Canvas, x: Px, y: Px) {
        canvas.open_at(x, y);
        canvas.append(&self.canvas);
        canvas.close();
    }
}

/// Several pictures in one, from left to right, each under its own title, with one legend: the same virtual machines under
/// two policies, say. Pictures of equal width and length have the same scale. Those beyond [`PANELS_MOST`] are left out.
#[must_use]
pub fn side_by_side(title: &str, pictures: &[(&Picture, &Timeline)]) -> String {
    beside(title, pictures.iter().take(PANELS_MOST).map(|(picture, timeline)| picture.one(timeline)).collect(), "")
}

/// A document of one picture; `style` is put in as it is.
fn alone(title: &str, contents: Contents<'_>, style: &str) -> String {
    let panel = contents.panel(contents.margins());
    let (width, height) = (panel.width, panel.height);
    let mut canvas = Canvas::default();
    panel.place(&mut canvas, Px::ZERO, Px::ZERO);
    document(title, canvas, (width, height), &panel.legend, style)
}

/// A document of several.
fn beside(title: &str, pictures: Vec<Contents<'_>>, style: &str) -> String {
    const GAP: Px = Px::of(16);
    const TITLE: Px = Px::of(44);
    let mut canvas = Canvas::default();
    let mut legend = Legend::default();
    let (mut x, mut height) = (Px::ZERO, Px::ZERO);
    // Equal margins, so that pictures of equal width have equal scales.
    let margins = pictures.iter().map(Contents::margins);
    let margins = margins.fold((Px::ZERO, Px::ZERO), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    for contents in pictures {
        let panel = contents.panel(margins);
        x += if x > Px::ZERO { GAP } else { Px::ZERO };
        panel.place(&mut canvas, x, TITLE);
        x += panel.width;
        height = height.max(panel.height);
        legend.merge(panel.legend);
    }
    let how = Type { size: 20, weight: 600, fill: INK, anchor: Anchor::Start };
    canvas.text((MARGIN, Px::of(38)), how, title);
    document(title, canvas, (x.max(Px::of(i64::from(WIDTH_LEAST))), height + TITLE), &legend, style)
}

/// The whole file: what was drawn, and the legend below it.
fn document(title: &str, mut canvas: Canvas, (width, height): (Px, Px), legend: &Legend, style: &str) -> String {
    let mut below = Canvas::default();
    let legend_height = legend.draw(&mut below, width - MARGIN - MARGIN);
    canvas.open_at(MARGIN, height + Px::of(14));
    canvas.append(&below);
    canvas.close();
    let height = height + legend_height + Px::of(28);
    let title = Escaped(title);
    let class = if style.is_empty() { String::new() } else { format!(" class=\"{}\"", world::CLASS) };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"{title}\" font-family=\"{FONTS}\"{class}>\n<title>{title}</title>\n{style}\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
        canvas.into_text()
    )
}

/// A time with a space before its unit: `2.5 ms`, `10 µs`, `0`.
fn pretty(time: Nanos) -> String {
    if time.is_zero() {
        return "0".to_string();
    }
    let text = time.to_string();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).expect("a time has a unit");
    format!("{} {}", &text[..unit], text[unit..].replace("us", "µs"))
}

/// An instant, in the same way.
fn point(at: Instant) -> String {
    pretty(at.since(Instant::ZERO))
}
