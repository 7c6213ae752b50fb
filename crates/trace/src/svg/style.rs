//! Colours, sizes and formatting functions that several parts of a picture use.

use super::canvas::Px;
use crate::names;
use crate::timeline::Timeline;
use sched::{Instant, Nanos};

pub(super) const INK: &str = "#1f2328";
pub(super) const MUTED: &str = "#656d76";
pub(super) const WAITING: &str = "#c4cad1";
pub(super) const MISSED: &str = "#d55e00";
pub(super) const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/// Size of labels.
pub(super) const FONT_SMALL: u32 = 11;

/// CSS class of the root element of a world's picture. The stylesheet of the picture selects this class.
pub(super) const CLASS: &str = "tactus-world";

/// Width of the margin around the picture.
pub(super) const MARGIN: Px = Px::of(20);
/// Top of the rows, below the title.
pub(super) const BODY: Px = Px::of(62);
/// Maximum length of a name, in columns.
pub(super) const NAME_MOST: usize = 24;

/// Shortens `text` to at most `most` columns.
pub(super) fn fit(text: &str, most: usize) -> String {
    names::cut(text, most, "…")
}

/// Returns the estimated width of `text`, with `each` hundredths of a pixel per column. Font metrics are unknown.
pub(super) fn wide(text: &str, each: i64) -> Px {
    Px::hundredths(i64::try_from(names::columns(text)).expect("a label is short") * each)
}

/// Returns the policy and the number of CPUs of a machine.
pub(super) fn about(timeline: &Timeline, is_guest: bool) -> String {
    let cpus = timeline.header.cpus;
    let (what, plural) = (if is_guest { "vCPU" } else { "CPU" }, if cpus == 1 { "" } else { "s" });
    format!("{} on {cpus} {what}{plural}", timeline.header.policy)
}

/// Returns a time with a space before its unit: `2.5 ms`, `10 µs`, `0`.
pub(super) fn pretty(time: Nanos) -> String {
    if time.is_zero() {
        return "0".to_string();
    }
    let text = time.to_string();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).expect("a time has a unit");
    format!("{} {}", &text[..unit], text[unit..].replace("us", "µs"))
}

/// Returns an instant with a space before its unit.
pub(super) fn point(at: Instant) -> String {
    pretty(at.since(Instant::ZERO))
}
