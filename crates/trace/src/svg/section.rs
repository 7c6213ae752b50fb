//! [`Section`]: the part of a picture for one machine.

use super::canvas::{Anchor, Canvas, Px, Type};
use super::panel::Panel;
use super::picture::Picture;
use super::plot::Plot;
use super::rows;
use super::style::{INK, MARGIN, MUTED, NAME_MOST, about, fit};
use crate::grid::Grid;
use crate::names;
use crate::row_budget::Share;
use crate::timeline::{Row, Timeline};
use crate::world::WorldTimeline;
use sched::{CpuId, EntityId};
use std::collections::BTreeMap;
use std::iter;

/// Height of the note about omitted rows or machines.
pub(super) const NOTE: Px = Px::of(24);
/// Height of a machine's name.
const TITLE: Px = Px::of(34);
/// Height of the space below a machine.
const BELOW: Px = Px::of(10);

/// The title above the rows of one of several machines.
struct Title {
    name: String,
    about: String,
    id: String,
    is_guest: bool,
}

/// One machine of a picture.
pub(super) struct Section<'t> {
    timeline: &'t Timeline,
    /// Entities to draw, by id, and their labels.
    pub(super) rows: Vec<&'t Row>,
    pub(super) labels: Vec<String>,
    more: usize,
    /// Number of CPUs to draw.
    pub(super) cpus: usize,
    cpus_more: usize,
    title: Option<Title>,
}

impl<'t> Section<'t> {
    /// Creates the section of a single machine.
    pub(super) fn one(picture: &Picture, timeline: &'t Timeline) -> Section<'t> {
        let cpus = if picture.cpus { timeline.cpus.len() } else { 0 };
        Section::of(picture, timeline, (picture.rows_most, cpus))
    }

    /// Creates the section of one of several machines.
    pub(super) fn within(picture: &Picture, world: &'t WorldTimeline, share: &Share) -> Section<'t> {
        let timeline = &world.machines[share.machine.index()];
        let is_guest = world.header.machines[share.machine.index()].host.is_some();
        let names = names::machines(&world.header, iter::once(share.machine), NAME_MOST, fit);
        let about = fit(&about(timeline, is_guest), 2 * NAME_MOST);
        let title = Title { name: names.concat(), about, id: share.machine.to_string(), is_guest };
        let mut section = Section::of(picture, timeline, (share.rows, share.cpus));
        section.cpus_more = if picture.cpus { timeline.cpus.len() - share.cpus } else { 0 };
        section.title = Some(title);
        section
    }

    fn of(picture: &Picture, timeline: &'t Timeline, (rows_most, cpus): (usize, usize)) -> Section<'t> {
        let mut rows: Vec<&Row> = timeline.rows.iter().filter(|row| row.is_in(picture.from, picture.to)).collect();
        let more = rows.len().saturating_sub(rows_most);
        rows.truncate(rows_most);
        let labels = names::labels(rows.iter().copied(), NAME_MOST, fit);
        Section { timeline, rows, labels, more, cpus, cpus_more: 0, title: None }
    }

    pub(super) fn plot(&self, grid: Grid, columns: Option<Grid>, (left, width): (Px, Px)) -> Plot<'t> {
        let is_guest = self.title.as_ref().is_some_and(|title| title.is_guest);
        Plot { timeline: self.timeline, from: grid.from(), to: grid.to(), left, width, columns, is_guest }
    }

    pub(super) fn height(&self, picture: &Picture) -> Px {
        let notes = [self.more, self.cpus_more].map(|more| if more > 0 { NOTE } else { Px::ZERO });
        let around = if self.title.is_some() { TITLE + BELOW } else { Px::ZERO };
        let rows = self.rows.iter().map(|row| rows::height(row, picture.to).1);
        let all = rows.chain(iter::repeat_n(rows::cpu_height().1, self.cpus)).chain(notes);
        all.fold(around, |sum, height| sum + height)
    }

    /// Draws the block behind the rows of a guest.
    pub(super) fn ground(&self, picture: &Picture, panel: &mut Panel, y: Px) {
        let Some(Title { is_guest: true, .. }) = self.title else { return };
        let (left, beyond) = (MARGIN - Px::of(10), Px::of(20));
        let size = (panel.width - left - beyond + Px::of(10), self.height(picture) - Px::of(6));
        panel.canvas.block((left, y), size, "rx=\"6\" fill=\"#f6f8fa\" stroke=\"#d0d7de\" stroke-width=\"1\"");
    }

    pub(super) fn draw(&self, picture: &Picture, panel: &mut Panel, plot: &Plot<'_>, mut y: Px) {
        let (canvas, legend) = (&mut panel.canvas, &mut panel.legend);
        if let Some(Title { name, about, id, .. }) = &self.title {
            canvas.open(&format!("data-machine=\"{id}\""));
            let how = |size, weight, fill| Type { size, weight, fill, anchor: Anchor::Start };
            canvas.text((MARGIN, y + Px::of(20)), how(13, 600, INK), name);
            canvas.text((plot.left, y + Px::of(20)), how(11, 400, MUTED), about);
            y += TITLE;
        }
        for (row, label) in self.rows.iter().zip(&self.labels) {
            let (above, height) = rows::height(row, picture.to);
            rows::entity(canvas, legend, plot, row, label, y - above);
            y += height;
        }
        y += note(canvas, (plot.left, y), self.more, "");
        let by_id: BTreeMap<EntityId, &str> =
            self.rows.iter().zip(&self.labels).map(|(row, label)| (row.entity, label.as_str())).collect();
        let (above, height) = rows::cpu_height();
        for cpu in (0..self.cpus).map(CpuId::new) {
            rows::cpu(canvas, legend, plot, cpu, &by_id, y - above);
            y += height;
        }
        note(canvas, (plot.left, y), self.cpus_more, if plot.is_guest { " vCPU" } else { " CPU" });
        if self.title.is_some() {
            canvas.close();
        }
    }
}

/// Draws a note about `more` omitted rows or machines, if there are any. Returns the height of the note, or zero.
pub(super) fn note(canvas: &mut Canvas, (x, y): (Px, Px), more: usize, what: &str) -> Px {
    if more == 0 {
        return Px::ZERO;
    }
    let plural = if more > 1 && !what.is_empty() { "s" } else { "" };
    let how = Type { size: 12, weight: 400, fill: MUTED, anchor: Anchor::Start };
    canvas.text((x, y + Px::of(18)), how, &format!("… and {more} more{what}{plural}"));
    NOTE
}
