//! Schedules, drawn for a terminal or a browser.

use crate::window::Window;
use trace::Timeline;
use trace::gantt::{Gantt, Glyphs};
use trace::svg::{Picture, side_by_side};

/// Width of a single picture, and width of a picture beside others. Unit: pixels.
pub(crate) const ALONE: u32 = 1_100;
pub(crate) const BESIDE: u32 = 720;

/// Draws the part of `timeline` in `window` as text, for the first `rows_most` entities.
pub(crate) fn gantt(timeline: &Timeline, window: Window, width: usize, rows_most: usize) -> String {
    let Window { from, to } = window;
    Gantt { from, to, width, glyphs: Glyphs::Unicode, rows_most, cpus: false, legend: true }.render(timeline)
}

/// Draws the parts of `timelines` in `window` as one SVG document, side by side if there are several.
pub(crate) fn svg(title: &str, timelines: &[&Timeline], window: Window, rows_most: usize) -> String {
    let Window { from, to } = window;
    let picture = |timeline: &Timeline, title: String, width| {
        let cpus = timeline.header.cpus > 1;
        Picture { title, from, to, width, rows_most, cpus }
    };
    if let [timeline] = timelines {
        return picture(timeline, title.to_string(), ALONE).render(timeline);
    }
    let pictures: Vec<Picture> =
        timelines.iter().map(|timeline| picture(timeline, timeline.header.policy.clone(), BESIDE)).collect();
    let panels: Vec<(&Picture, &Timeline)> = pictures.iter().zip(timelines.iter().copied()).collect();
    side_by_side(title, &panels)
}
