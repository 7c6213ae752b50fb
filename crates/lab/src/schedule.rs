//! Gantt charts of the runs of an experiment.

use crate::cell::Cell;
use crate::experiment::{Experiment, Extent, Schedule};
use crate::problem::Problem;
use run::Observers;
use sched::{Instant, Nanos};
use trace::WorldWatch;
use trace::svg::Picture;

/// Width of a chart. Unit: pixels.
const WIDTH: u32 = 1_100;
/// Maximum number of entities in a chart.
const ROWS_MOST: usize = 40;

impl Schedule {
    /// Returns the start and the end of the chart's time span.
    pub(crate) fn window(&self, experiment: &Experiment) -> Result<(Nanos, Nanos), Problem> {
        let moment = |text: &str| {
            input::duration::moment(text).map_err(|why| {
                let what = format!("the schedule `{}`: {why}", self.name);
                Problem::wrong(&experiment.path, what, "a time with its unit, such as \"250ms\"")
            })
        };
        let (from, to) = (moment(&self.from)?, moment(&self.to)?);
        if from >= to {
            let what = format!("the schedule `{}` from {from} to {to} shows nothing", self.name);
            return Err(Problem::wrong(&experiment.path, what, "`from` before `to`"));
        }
        Ok((from, to))
    }

    /// Runs the chart's point of `experiment` with the first seed and draws the Gantt chart as an SVG document.
    ///
    /// # Errors
    /// The number of matching points is not one, or the point cannot be run.
    pub fn draw(&self, experiment: &Experiment) -> Result<String, Problem> {
        let mut points = experiment.points(Extent::Usual);
        points.retain(|point| self.point.iter().all(|(axis, value)| point.get(axis) == Some(value)));
        let [point] = points.as_slice() else {
            let what = format!("{} points match `where` of the schedule `{}`", points.len(), self.name);
            return Err(Problem::wrong(&experiment.path, what, "one point: a value for each axis"));
        };
        let (from, to) = self.window(experiment)?;
        let cell = Cell::new(experiment, Extent::Usual, point, 1)?;
        let scenario = cell.scenario()?;
        let unplayable = |why| cell.unplayable(&why);
        let choice = run::choose(&scenario, &[], &[]).map_err(unplayable)?.remove(0);
        let run = cell.run(scenario, choice);
        let (from, to) = (Instant::ZERO + from, Instant::ZERO + to);
        let mut watch = WorldWatch::new(&run.header().map_err(unplayable)?, to);
        run.play(Observers::none().world(&mut watch)).map_err(unplayable)?;
        let world = watch.finish().map_err(|why| {
            let what = format!("the schedule `{}`: the run contradicts itself: {why}", self.name);
            Problem::wrong(&experiment.path, what, "a trace that makes sense; this is a defect of Tactus")
        })?;
        let title = format!("{}: {}", experiment.figure, self.title);
        let picture = Picture { title, from, to, width: WIDTH, rows_most: ROWS_MOST, cpus: true };
        Ok(picture.render_world(&world))
    }
}
