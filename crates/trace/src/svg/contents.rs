//! [`Contents`]: the sections of a picture, laid out and written as a document.

use super::canvas::{Anchor, Canvas, Escaped, Path, Px, Type};
use super::legend::Legend;
use super::panel::Panel;
use super::picture::{Picture, WIDTH_LEAST, WIDTH_MOST};
use super::plot::{COLUMN, Plot, whole_columns};
use super::rows;
use super::section::{NOTE, Section, note};
use super::style::{BODY, CLASS, FONTS, INK, MARGIN, MUTED, point, wide};
use crate::axis::Axis;
use crate::grid::Grid;
use crate::timeline::{Row, State};

/// Maximum number of bars that are drawn individually. If a picture has more bars, its rows are drawn by column.
const BARS_MOST: usize = 1500;
/// Maximum number of columns in all rows together, for rows that are drawn by column.
const COLUMNS_MOST: usize = 16_000;

/// The contents of a picture before layout.
pub(super) struct Contents<'t> {
    pub(super) picture: &'t Picture,
    /// Text below the title.
    pub(super) about: String,
    /// Sections of the machines, from top to bottom.
    pub(super) sections: Vec<Section<'t>>,
    /// Number of omitted machines.
    pub(super) more: usize,
}

impl Contents<'_> {
    /// Returns the widths of the areas to the left and to the right of the rows, including labels and margins.
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

    /// Draws everything except the legend.
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

    /// Draws the rows and the axis, and sets the height of the panel.
    fn rows(&self, grid: Grid, (left, right): (Px, Px), panel: &mut Panel) -> Axis {
        let width = whole_columns(panel.width - left - right);
        let columns = columns(grid, &self.sections, width);
        let plots: Vec<Plot<'_>> =
            self.sections.iter().map(|section| section.plot(grid, columns, (left, width))).collect();
        let room = if self.more > 0 { NOTE } else { Px::ZERO };
        let heights = self.sections.iter().map(|section| section.height(self.picture));
        let bottom = heights.fold(BODY + room, |sum, height| sum + height);
        let mut y = BODY;
        for section in &self.sections {
            section.ground(self.picture, panel, y);
            y += section.height(self.picture);
        }
        let axis = axis(&plots[0], bottom, panel);
        let mut y = BODY;
        for (section, plot) in self.sections.iter().zip(&plots) {
            section.draw(self.picture, panel, plot, y);
            y += section.height(self.picture);
        }
        note(&mut panel.canvas, (left, y), self.more, " machine");
        panel.height = bottom + Px::of(30);
        axis
    }
}

/// Returns the columns within `width`, if the rows of `sections` are drawn by column. `None`: the rows are drawn span
/// by span.
fn columns(grid: Grid, sections: &[Section<'_>], width: Px) -> Option<Grid> {
    let (from, to) = (grid.from(), grid.to());
    let drawn = |row: &&Row| row.spans_in(from, to).iter().filter(|span| span.state != State::Blocked).count();
    let (mut bars, mut lines) = (0, 0);
    for section in sections {
        let spans: usize = section.rows.iter().map(drawn).sum();
        bars += spans * if section.cpus > 0 { 2 } else { 1 };
        lines += section.rows.len() + section.cpus;
    }
    let most = usize::try_from(width.as_hundredths() / COLUMN.as_hundredths()).expect("a plot has a width");
    let most = most.min(COLUMNS_MOST / lines.max(1)).max(1);
    if bars > BARS_MOST { Grid::new(from, to, most) } else { None }
}

/// Draws the axis: ticks, their labels, and vertical lines through all rows.
fn axis(plot: &Plot<'_>, bottom: Px, panel: &mut Panel) -> Axis {
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

/// Returns a document with one picture, and `style` verbatim.
pub(super) fn alone(title: &str, contents: Contents<'_>, style: &str) -> String {
    let panel = contents.panel(contents.margins());
    let (width, height) = (panel.width, panel.height);
    let mut canvas = Canvas::default();
    panel.place(&mut canvas, Px::ZERO, Px::ZERO);
    document(title, canvas, (width, height), &panel.legend, style)
}

/// Returns a document for each picture, all with one time axis: the plots have equal edges, which are returned as the
/// left edge and the width.
pub(super) fn aligned(pictures: &[(&str, Contents<'_>)], style: &str) -> (Vec<String>, (Px, Px)) {
    let margins = margins_of_all(pictures.iter().map(|(_, contents)| contents));
    let mut plot = (Px::ZERO, Px::ZERO);
    let documents = pictures.iter().map(|(title, contents)| {
        let panel = contents.panel(margins);
        let (width, height) = (panel.width, panel.height);
        plot = (margins.0, whole_columns(width - margins.0 - margins.1));
        let mut canvas = Canvas::default();
        panel.place(&mut canvas, Px::ZERO, Px::ZERO);
        document(title, canvas, (width, height), &panel.legend, style)
    });
    (documents.collect(), plot)
}

/// Returns the widest margins of several pictures. With these margins, the rows of pictures of equal width have equal
/// widths.
fn margins_of_all<'c, 't: 'c>(pictures: impl Iterator<Item = &'c Contents<'t>>) -> (Px, Px) {
    let margins = pictures.map(Contents::margins);
    margins.fold((Px::ZERO, Px::ZERO), |a, b| (a.0.max(b.0), a.1.max(b.1)))
}

/// Returns a document with several pictures.
pub(super) fn beside(title: &str, pictures: Vec<Contents<'_>>, style: &str) -> String {
    const GAP: Px = Px::of(16);
    const TITLE: Px = Px::of(44);
    let mut canvas = Canvas::default();
    let mut legend = Legend::default();
    let (mut x, mut height) = (Px::ZERO, Px::ZERO);
    let margins = margins_of_all(pictures.iter());
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

/// Returns the whole document: the drawing, and the legend below the drawing.
fn document(title: &str, mut canvas: Canvas, (width, height): (Px, Px), legend: &Legend, style: &str) -> String {
    let mut below = Canvas::default();
    let legend_height = legend.draw(&mut below, width - MARGIN - MARGIN);
    canvas.open_at(MARGIN, height + Px::of(14));
    canvas.append(&below);
    canvas.close();
    let height = height + legend_height + Px::of(28);
    let class = if style.is_empty() { "" } else { CLASS };
    shell(title, (width, height), class, style, &canvas.into_text())
}

/// Returns a document of this size around `drawing`. `class` is a class of its root, and may be empty; `style` is verbatim.
pub(super) fn shell(title: &str, (width, height): (Px, Px), class: &str, style: &str, drawing: &str) -> String {
    let title = Escaped(title);
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"{title}\" font-family=\"{FONTS}\"{class}>\n<title>{title}</title>\n{style}\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{drawing}</svg>\n"
    )
}
