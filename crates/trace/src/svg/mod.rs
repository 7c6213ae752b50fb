//! [`Picture`]: a timeline as a self-contained SVG picture: a row per entity with a bar per run, coloured per CPU, and
//! marks for arrivals, releases, deadlines and misses. Its size is bounded, however long the run.

mod canvas;
mod legend;
mod plot;
mod rows;

use crate::axis::Axis;
use crate::grid::Grid;
use crate::names;
use crate::timeline::{Row, Timeline};
use canvas::{Anchor, Canvas, Escaped, Path, Px, Type};
use legend::Legend;
use plot::Plot;
use sched::{CpuId, EntityId, Instant, Nanos};
use std::collections::BTreeMap;

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
        let panel = self.panel(timeline, self.margins(timeline));
        let (width, height) = (panel.width, panel.height);
        let mut canvas = Canvas::default();
        panel.place(&mut canvas, Px::ZERO, Px::ZERO);
        document(&self.title, canvas, (width, height), &panel.legend)
    }

    /// Everything but the legend.
    fn panel(&self, timeline: &Timeline, margins: (Px, Px)) -> Panel {
        let mut panel = Panel {
            canvas: Canvas::default(),
            legend: Legend::default(),
            width: Px::of(i64::from(self.width.clamp(WIDTH_LEAST, WIDTH_MOST))),
            height: BODY,
        };
        let how = |size, weight, fill| Type { size, weight, fill, anchor: Anchor::Start };
        panel.canvas.text((MARGIN, Px::of(30)), how(17, 600, INK), &self.title);
        let columns = usize::try_from(panel.width.as_hundredths() / 100).expect("a picture has a width");
        let Some(grid) = Grid::new(self.from, self.to, columns) else {
            let nothing = format!("nothing from {} to {}", point(self.from), point(self.to));
            panel.canvas.text((MARGIN, Px::of(49)), how(12, 400, MUTED), &nothing);
            return panel;
        };
        let subtitle = |axis: &Axis| {
            let cpus = timeline.header.cpus;
            let edge = axis.offset().map(|edge| format!(" · times from {}", point(edge)));
            let plural = if cpus == 1 { "" } else { "s" };
            format!("{} on {cpus} CPU{plural}{}", timeline.header.policy, edge.unwrap_or_default())
        };
        let axis = self.rows(timeline, grid, margins, &mut panel);
        panel.canvas.text((MARGIN, Px::of(49)), how(12, 400, MUTED), &subtitle(&axis));
        panel
    }

    /// The entities to draw with their labels, and how many more there are.
    fn cast<'t>(&self, timeline: &'t Timeline) -> Cast<'t> {
        let mut rows: Vec<&Row> = timeline.rows.iter().filter(|row| row.is_in(self.from, self.to)).collect();
        let more = rows.len().saturating_sub(self.rows_most);
        rows.truncate(self.rows_most);
        let labels = names::labels(rows.iter().copied(), NAME_MOST, fit);
        Cast { rows, labels, more }
    }

    /// Room for what stands beside the rows, on the left and on the right.
    fn margins(&self, timeline: &Timeline) -> (Px, Px) {
        let cast = self.cast(timeline);
        let names = cast.labels.iter().map(|label| wide(label, 800));
        let wishes = cast.rows.iter().map(|row| wide(&rows::wish(row, self.to), 610));
        let left = names.chain(wishes).max().unwrap_or_default().clamp(Px::of(48), Px::of(200));
        let late = cast.rows.iter().map(|row| wide(&rows::late(row, self.from, self.to).0, 660));
        let right = late.max().unwrap_or_default().max(Px::of(60));
        ((MARGIN + left + Px::of(14)).whole(), (right + Px::of(14) + MARGIN).whole())
    }

    /// Draws the rows and the axis; makes the panel as high as they need.
    fn rows(&self, timeline: &Timeline, grid: Grid, (left, right): (Px, Px), panel: &mut Panel) -> Axis {
        let Cast { rows, labels, more } = self.cast(timeline);
        let width = plot::whole_columns(panel.width - left - right);
        let plot = Plot::new(timeline, grid, &rows, self.cpus, (left, width));
        let cpus = if self.cpus { timeline.cpus.len() } else { 0 };
        let note = if more > 0 { Px::of(24) } else { Px::ZERO };
        let heights = rows.iter().map(|row| rows::height(row, self.to).1);
        let heights = heights.chain(std::iter::repeat_n(rows::cpu_height().1, cpus));
        let bottom = heights.fold(BODY + note, |sum, height| sum + height);
        let axis = self.axis(&plot, bottom, panel);

        let mut y = BODY;
        for (row, label) in rows.iter().zip(&labels) {
            let (above, height) = rows::height(row, self.to);
            rows::entity(&mut panel.canvas, &mut panel.legend, &plot, row, label, y - above);
            y += height;
        }
        if more > 0 {
            let how = Type { size: 12, weight: 400, fill: MUTED, anchor: Anchor::Start };
            panel.canvas.text((left, y + Px::of(18)), how, &format!("… and {more} more"));
            y += note;
        }
        let by_id: BTreeMap<EntityId, &str> =
            rows.iter().zip(&labels).map(|(row, label)| (row.entity, label.as_str())).collect();
        let (above, height) = rows::cpu_height();
        for cpu in (0..cpus).map(CpuId::new) {
            rows::cpu(&mut panel.canvas, &mut panel.legend, &plot, cpu, &by_id, y - above);
            y += height;
        }
        panel.height = bottom + Px::of(30);
        axis
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

/// Who is in a picture.
struct Cast<'t> {
    rows: Vec<&'t Row>,
    labels: Vec<String>,
    more: usize,
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
    const GAP: Px = Px::of(16);
    const TITLE: Px = Px::of(44);
    let mut canvas = Canvas::default();
    let mut legend = Legend::default();
    let (mut x, mut height) = (Px::ZERO, Px::ZERO);
    let pictures = &pictures[..pictures.len().min(PANELS_MOST)];
    // Equal margins, so that pictures of equal width have equal scales.
    let margins = pictures.iter().map(|(picture, timeline)| picture.margins(timeline));
    let margins = margins.fold((Px::ZERO, Px::ZERO), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    for (picture, timeline) in pictures {
        let panel = picture.panel(timeline, margins);
        x += if x > Px::ZERO { GAP } else { Px::ZERO };
        panel.place(&mut canvas, x, TITLE);
        x += panel.width;
        height = height.max(panel.height);
        legend.merge(panel.legend);
    }
    let how = Type { size: 20, weight: 600, fill: INK, anchor: Anchor::Start };
    canvas.text((MARGIN, Px::of(38)), how, title);
    document(title, canvas, (x.max(Px::of(i64::from(WIDTH_LEAST))), height + TITLE), &legend)
}

/// The whole file: what was drawn, and the legend below it.
fn document(title: &str, mut canvas: Canvas, (width, height): (Px, Px), legend: &Legend) -> String {
    let mut below = Canvas::default();
    let legend_height = legend.draw(&mut below, width - MARGIN - MARGIN);
    canvas.open_at(MARGIN, height + Px::of(14));
    canvas.append(&below);
    canvas.close();
    let height = height + legend_height + Px::of(28);
    let title = Escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"{title}\" font-family=\"{FONTS}\">\n<title>{title}</title>\n\
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
