//! [`Window`]: the part of a run that is drawn, and the cells of a drawing for this part.

use crate::args::Output;
use crate::failure::{Failure, usage};
use report::RunDescription;
use sched::{Instant, Nanos};

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
        let telling = Window::telling(run, cells(names, width) as u64);
        let from = from.unwrap_or(telling.from);
        // If only the start was requested, the window keeps its default length.
        let to = to.unwrap_or(from.saturating_add(telling.to.since(telling.from))).min(end);
        if from >= to {
            let reason = format!("the picture from {from} to {to} shows nothing");
            let right = format!("use --gantt-from before --gantt-to, both from 0s to {end}");
            return Err(usage(reason, &right));
        }
        Ok(Window { from, to })
    }

    /// Returns the most informative window of `run` for `cells` columns. The window begins at the start of the run, and
    /// ends at least ten of the shortest periods after the last arrival, or at the end of the run. A column is a round
    /// length of time, so that slices and periods fill whole columns.
    pub(crate) fn telling(run: &RunDescription, cells: u64) -> Window {
        let periods = run.entities.iter().flat_map(|entity| {
            let promised = entity.params.reservation.map(|reservation| reservation.period);
            promised.into_iter().chain(entity.job_period)
        });
        let shortest = periods.min().unwrap_or(Nanos::ms(30));
        let last = run.entities.iter().map(|entity| entity.arrival).max().unwrap_or(Instant::ZERO);
        let least = last.saturating_add(shortest.saturating_mul(10)).as_ns().min(run.length.as_ns());
        let to = Instant::ZERO.saturating_add(round(least.div_ceil(cells.max(1))).saturating_mul(cells));
        Window { from: Instant::ZERO, to: to.min(Instant::ZERO + run.length) }
    }
}

/// Returns the shortest length that is at least `ns` and is 1, 2 or 5 times a power of ten.
fn round(ns: u64) -> Nanos {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let steps = powers.flat_map(|power| [1, 2, 5].map(|times| power.saturating_mul(times)));
    Nanos::ns(steps.into_iter().find(|&step| step >= ns).unwrap_or(ns))
}

/// Returns the number of cells beside the `names` of the entities in a drawing with `width` characters.
pub(crate) fn cells<'a>(names: impl IntoIterator<Item = &'a str>, width: u16) -> usize {
    let names = names.into_iter().map(|name| name.chars().count()).max().unwrap_or(0);
    usize::from(width).saturating_sub(names.min(NAMES_MOST) + 2).max(20)
}
