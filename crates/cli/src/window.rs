//! [`Window`]: the part of a run that is drawn, and the cells of a drawing for this part.

use crate::args::Output;
use crate::failure::{Failure, usage};
use report::RunDescription;
use sched::Instant;

/// Maximum width of the column of names in a drawing. Unit: characters.
const NAMES_MOST: usize = 24;
/// A time span to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

impl Window {
    /// Returns the requested window of `run`, or the most informative one for a picture of `width` characters.
    pub(crate) fn asked(run: &RunDescription, args: &Output, width: u16) -> Result<Window, Failure> {
        let end = Instant::ZERO + run.length;
        let moment = |text: &Option<String>| match text {
            Some(text) => input::duration::moment(text).map(|time| Some(Instant::ZERO + time)),
            None => Ok(None),
        };
        let (from, to) = (moment(&args.gantt_from)?, moment(&args.gantt_to)?);
        let names = run.entities.iter().map(|entity| entity.name.as_str());
        let telling = run.telling_length(cells(names, width) as u64);
        let from = from.unwrap_or(Instant::ZERO);
        // If only the start was requested, the window keeps its default length.
        let to = to.unwrap_or(from.saturating_add(telling)).min(end);
        if from >= to {
            let reason = format!("the picture from {from} to {to} shows nothing");
            let right = format!("use --gantt-from before --gantt-to, both from 0s to {end}");
            return Err(usage(reason, &right));
        }
        Ok(Window { from, to })
    }
}

/// Returns the number of cells beside the `names` of the entities in a drawing with `width` characters.
pub(crate) fn cells<'a>(names: impl IntoIterator<Item = &'a str>, width: u16) -> usize {
    let names = names.into_iter().map(|name| name.chars().count()).max().unwrap_or(0);
    usize::from(width).saturating_sub(names.min(NAMES_MOST) + 2).max(20)
}
