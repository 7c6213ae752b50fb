//! One row of a picture: its bars, its marks, and the text on both sides of the bars.

use super::canvas::{Anchor, Canvas, Path, Px, Type};
use super::legend::{
    ARROW_STROKE, COLOURS, HELD_STROKE, Legend, PERIOD_STROKE, STOLEN_LOOKS, arrival, cross, deadline, missed_stroke,
    release, shade,
};
use super::plot::Plot;
use super::style::{INK, MISSED, MUTED, WAITING, point, pretty};
use crate::grid::{Grid, Tally};
use crate::names;
use crate::timeline::{Job, Row, Run, State};
use sched::{CpuId, EntityId, Instant, Nanos, Weight};
use std::collections::{BTreeMap, BTreeSet};

/// Height of a row.
const PITCH: Px = Px::of(56);
/// Height saved by a row without marks of misses and without a second line of text: above the bars, and in total.
const SPARED: (Px, Px) = (Px::of(6), Px::of(14));
/// Distance from the top of a row to its marks of misses. The arrows are below these marks, and the bars are below the
/// arrows.
const MISS: Px = Px::of(5);
const ARROW_TOP: Px = Px::of(9);
const ARROW_BOTTOM: Px = Px::of(19);
const BAR_TOP: Px = Px::of(20);
const BAR: Px = Px::of(22);
const BASE: Px = Px::of(42);
const WAIT: Px = Px::of(5);
/// Minimum width of a bar, so that every run is visible.
const THINNEST: Px = Px::hundredths(50);
/// Minimum distance between marks of one type. Unit: pixels.
const MARK_ROOM: i64 = 9;

/// Draws the text to the left and to the right of a row.
fn beside(canvas: &mut Canvas, plot: &Plot<'_>, y: Px, texts: [(&str, &str); 2], alarm: bool) {
    let right = plot.left + plot.width + Px::of(14);
    let [(name, wish), (share, late)] = texts;
    let how = |size, weight, fill, anchor| Type { size, weight, fill, anchor };
    canvas.text((plot.left - Px::of(14), y + Px::of(29)), how(13, 600, INK, Anchor::End), name);
    canvas.text((plot.left - Px::of(14), y + Px::of(44)), how(11, 400, MUTED, Anchor::End), wish);
    canvas.text((right, y + Px::of(29)), how(12, 400, INK, Anchor::Start), share);
    let (weight, fill) = if alarm { (600, MISSED) } else { (400, MUTED) };
    canvas.text((right, y + Px::of(44)), how(11, weight, fill, Anchor::Start), late);
}

/// Returns `part` of `whole` in percent, to a tenth.
fn percent(part: Nanos, whole: Nanos) -> String {
    let (part, whole) = (u128::from(part.as_ns()), u128::from(whole.as_ns()));
    let tenths = (part * 1000 + whole / 2) / whole;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Returns the request of a row's entity in words: a reservation, or a weight other than the normal weight. Empty
/// without such a request.
pub(super) fn wish(row: &Row, at: Instant) -> String {
    let params = row.asked_at(at);
    match params.reservation {
        Some(promise) => format!("{} every {}", pretty(promise.slice), pretty(promise.period)),
        None if params.weight != Weight::NORMAL => format!("weight {}", params.weight),
        None => String::new(),
    }
}

/// Returns two heights of an entity's row: the unused height at its top, and the distance to the next row.
pub(super) fn height(row: &Row, at: Instant) -> (Px, Px) {
    if row.jobs.is_empty() && wish(row, at).is_empty() { cpu_height() } else { (Px::ZERO, PITCH) }
}

/// Returns the heights of a CPU's row, like [`height`].
pub(super) fn cpu_height() -> (Px, Px) {
    (SPARED.0, PITCH - SPARED.1)
}

fn colour(cpu: usize) -> &'static str {
    COLOURS[cpu % COLOURS.len()].0
}

/// Draws an entity's row, from `y` down.
pub(super) fn entity(canvas: &mut Canvas, legend: &mut Legend, plot: &Plot<'_>, row: &Row, label: &str, y: Px) {
    let mut life = Path::default();
    let end = row.detached.unwrap_or(plot.timeline.to);
    life.line(&[(plot.x(row.attached), y + BASE), (plot.x(end), y + BASE)]);
    canvas.path(&life, "fill=\"none\" stroke=\"#d0d7de\" stroke-width=\"1\"");
    marks(canvas, legend, plot, row, y);
    match &plot.columns {
        None => bars(canvas, legend, plot, row, label, y),
        Some(grid) => columns(canvas, legend, plot, grid, row, y),
    }
    arrived(canvas, legend, plot, row, y);
    misses(canvas, legend, plot, row, y);
    let share = percent(row.ran_in(plot.from, plot.to), plot.to.since(plot.from));
    let (late, alarm) = late(row, plot.from, plot.to);
    beside(canvas, plot, y, [(label, &wish(row, plot.to)), (&share, &late)], alarm);
}

/// Returns a string with the number of late jobs among the jobs due after `from` and not after `to`, and whether any of
/// these jobs was late. The string is empty if no job was due.
pub(super) fn late(row: &Row, from: Instant, to: Instant) -> (String, bool) {
    let due: Vec<&Job> = row.jobs.iter().filter(|job| from < job.deadline && job.deadline <= to).collect();
    let missed = due.iter().filter(|job| job.missed()).count();
    let words = if due.is_empty() { String::new() } else { format!("{missed} of {} late", due.len()) };
    (words, missed > 0)
}

/// Draws a CPU's row, from `y` down. `labels` are the names of the drawn entities.
pub(super) fn cpu(
    canvas: &mut Canvas,
    legend: &mut Legend,
    plot: &Plot<'_>,
    cpu: CpuId,
    labels: &BTreeMap<EntityId, &str>,
    y: Px,
) {
    let runs = shown(plot, &plot.timeline.cpus[cpu.index()]);
    let frozen = shown(plot, &plot.timeline.stolen[cpu.index()]);
    let label = plot.cpu(cpu);
    let mut stolen = Path::default();
    let mut line = Path::default();
    line.line(&[(plot.left, y + BASE), (plot.left + plot.width, y + BASE)]);
    canvas.path(&line, "fill=\"none\" stroke=\"#d0d7de\" stroke-width=\"1\"");
    if let Some(grid) = &plot.columns {
        let ran = runs.iter().map(|run| (run.from, run.to, Some(cpu)));
        let tallies = grid.tally(ran.chain(frozen.iter().map(|run| (run.from, run.to, None))));
        let frozen = |index: usize| {
            let (ran, all) = (tallies[index].total(|kind| kind.is_some()), tallies[index].total(|_| true));
            (ran.is_zero() && all > grid.length_of(index) - all).then_some(())
        };
        for (from, to, ()) in stretches(grid.cells(), frozen) {
            let (left, right) = (plot.x(grid.start_of(from)), plot.x(grid.start_of(to)));
            stolen.block(left, y + BAR_TOP, right - left, BAR);
        }
        lower(canvas, legend, &Lower { stolen, ..Lower::default() });
        shades(canvas, legend, plot, grid, &tallies, y, &|kind| kind);
    } else {
        for run in frozen {
            let (left, right) = (plot.x(run.from), plot.x(run.to));
            stolen.block(left, y + BAR_TOP, (right - left).max(THINNEST), BAR);
        }
        lower(canvas, legend, &Lower { stolen, ..Lower::default() });
        let mut labelled = Vec::new();
        canvas.open(&format!("fill=\"{}\"", colour(cpu.index())));
        for run in runs {
            legend.cpus.insert(cpu.index());
            let id = run.entity.to_string();
            let name = labels.get(&run.entity).copied().unwrap_or(&id);
            let place = bar(canvas, plot, run, cpu, name, y);
            labelled.push((place, name.to_string()));
        }
        canvas.close();
        within(canvas, cpu.index(), &labelled, y);
    }
    let busy: Nanos = runs.iter().map(|run| run.to.min(plot.to).since(run.from.max(plot.from))).sum();
    let share = percent(busy, plot.to.since(plot.from));
    beside(canvas, plot, y, [(&label, ""), (&share, "")], false);
}

/// Returns the part of `runs` that overlaps the picture.
fn shown<'r>(plot: &Plot<'_>, runs: &'r [Run]) -> &'r [Run] {
    let first = runs.partition_point(|run| run.to <= plot.from);
    let after = runs.partition_point(|run| run.from < plot.to);
    &runs[first..after.max(first)]
}

/// Draws a bar for one run. Returns the left edge and the width of the bar.
fn bar(canvas: &mut Canvas, plot: &Plot<'_>, run: &Run, cpu: CpuId, name: &str, y: Px) -> (Px, Px) {
    let (left, right) = (plot.x(run.from), plot.x(run.to));
    let width = (right - left).max(THINNEST);
    let label = format!(
        "{name} on {}: {} from {} to {}",
        plot.cpu(cpu),
        pretty(run.to.since(run.from)),
        point(run.from),
        point(run.to)
    );
    let (from, to) = (run.from.as_ns(), run.to.as_ns());
    let data = format!("rx=\"1.5\" data-cpu=\"{cpu}\" data-from=\"{from}\" data-to=\"{to}\"");
    canvas.labelled_block((left, y + BAR_TOP), (width, BAR), &data, &label);
    (left, width)
}

/// Draws the labels within those bars that are wide enough.
fn within(canvas: &mut Canvas, cpu: usize, bars: &[((Px, Px), String)], y: Px) {
    let how = Type { size: 10, weight: 400, fill: COLOURS[cpu % COLOURS.len()].1, anchor: Anchor::Middle };
    for ((left, width), text) in bars {
        let columns = i64::try_from(names::columns(text)).expect("a label is short");
        if Px::hundredths(columns * 620 + 400) <= *width {
            canvas.text((*left + width.half(), y + Px::of(34)), how, text);
        }
    }
}

/// Draws the row span by span.
fn bars(canvas: &mut Canvas, legend: &mut Legend, plot: &Plot<'_>, row: &Row, label: &str, y: Px) {
    let mut low = Lower::default();
    let mut runs: BTreeMap<CpuId, Vec<Run>> = BTreeMap::new();
    for span in row.spans_in(plot.from, plot.to) {
        let (left, right) = (plot.x(span.from), plot.x(span.to));
        match span.state {
            State::Running(cpu) => {
                let run = Run { from: span.from, to: span.to, entity: row.entity };
                runs.entry(cpu).or_default().push(run);
            }
            State::Waiting => low.waiting.block(left, y + BASE - WAIT, (right - left).max(THINNEST), WAIT),
            State::Held(_) => low.held.line(&[(left, y + BASE - Px::of(3)), (right, y + BASE - Px::of(3))]),
            State::Stolen(_) => low.stolen.block(left, y + BAR_TOP, (right - left).max(THINNEST), BAR),
            State::Blocked => {}
        }
    }
    lower(canvas, legend, &low);
    for (cpu, runs) in runs {
        legend.cpus.insert(cpu.index());
        canvas.open(&format!("fill=\"{}\"", colour(cpu.index())));
        let place = |run: &Run| (bar(canvas, plot, run, cpu, label, y), cpu.to_string());
        let labelled: Vec<((Px, Px), String)> = runs.iter().map(place).collect();
        canvas.close();
        if plot.timeline.cpus.len() > 1 {
            within(canvas, cpu.index(), &labelled, y);
        }
    }
}

/// Intervals in which an entity is ready to run but makes no progress.
#[derive(Default)]
struct Lower {
    waiting: Path,
    held: Path,
    stolen: Path,
}

/// Draws the intervals without progress: waiting and held time at the bottom of the row, stolen time at the height of
/// the bars.
fn lower(canvas: &mut Canvas, legend: &mut Legend, Lower { waiting, held, stolen }: &Lower) {
    legend.waiting |= !waiting.is_empty();
    legend.held |= !held.is_empty();
    legend.stolen |= !stolen.is_empty();
    canvas.path(waiting, &format!("fill=\"{WAITING}\""));
    canvas.path(held, HELD_STROKE);
    canvas.path(stolen, STOLEN_LOOKS);
}

/// Draws the row column by column.
fn columns(canvas: &mut Canvas, legend: &mut Legend, plot: &Plot<'_>, grid: &Grid, row: &Row, y: Px) {
    let spans = row.spans_in(plot.from, plot.to).iter();
    let tallies = grid.tally(spans.map(|span| (span.from, span.to, span.state)));
    let mut low = Lower::default();
    let idle = |index: usize| {
        let runs = tallies[index].total(|state| matches!(state, State::Running(_)));
        if runs.is_zero() { tallies[index].longest(|_| true).map(|(state, _)| state) } else { None }
    };
    for (from, to, state) in stretches(grid.cells(), idle) {
        let (left, right) = (plot.x(grid.start_of(from)), plot.x(grid.start_of(to)));
        match state {
            State::Waiting => low.waiting.block(left, y + BASE - WAIT, right - left, WAIT),
            State::Held(_) => low.held.line(&[(left, y + BASE - Px::of(3)), (right, y + BASE - Px::of(3))]),
            State::Stolen(_) => low.stolen.block(left, y + BAR_TOP, right - left, BAR),
            State::Running(_) | State::Blocked => {}
        }
    }
    lower(canvas, legend, &low);
    shades(canvas, legend, plot, grid, &tallies, y, &|state| match state {
        State::Running(cpu) => Some(cpu),
        _ => None,
    });
}

/// Draws bars by column. The colour shows the CPU that was used longest in the column, and the opacity shows the used
/// part of the column.
fn shades<K: Ord + Copy>(
    canvas: &mut Canvas,
    legend: &mut Legend,
    plot: &Plot<'_>,
    grid: &Grid,
    tallies: &[Tally<K>],
    y: Px,
    cpu_of: &dyn Fn(K) -> Option<CpuId>,
) {
    let kind = |index: usize| {
        let tally: &Tally<K> = &tallies[index];
        let (longest, _) = tally.longest(|kind| cpu_of(kind).is_some())?;
        let ran = tally.total(|kind| cpu_of(kind).is_some()).as_ns();
        let level = (u128::from(ran) * 4).div_ceil(u128::from(grid.length_of(index).as_ns()));
        Some((cpu_of(longest)?.index() % COLOURS.len(), i64::try_from(level).expect("at most four quarters")))
    };
    let mut paths: BTreeMap<(usize, i64), Path> = BTreeMap::new();
    for (from, to, kind) in stretches(grid.cells(), kind) {
        let (left, right) = (plot.x(grid.start_of(from)), plot.x(grid.start_of(to)));
        paths.entry(kind).or_default().block(left, y + BAR_TOP, right - left, BAR);
        legend.shaded |= kind.1 < 4;
    }
    let cpus = tallies.iter().filter_map(|tally| cpu_of(tally.longest(|kind| cpu_of(kind).is_some())?.0));
    legend.cpus.extend(cpus.map(CpuId::index).collect::<BTreeSet<usize>>());
    for ((hue, level), path) in paths {
        canvas.path(&path, &format!("fill=\"{}\" fill-opacity=\"{}\"", COLOURS[hue].0, shade(level)));
    }
}

/// Merges neighbouring columns of the same kind. Returns, for each stretch, its first column, the column after its last
/// column, and its kind.
fn stretches<K: PartialEq + Copy>(columns: usize, kind: impl Fn(usize) -> Option<K>) -> Vec<(usize, usize, K)> {
    let mut out: Vec<(usize, usize, K)> = Vec::new();
    for index in 0..columns {
        let Some(kind) = kind(index) else { continue };
        match out.last_mut() {
            Some(last) if last.1 == index && last.2 == kind => last.1 += 1,
            _ => out.push((index, index + 1, kind)),
        }
    }
    out
}

/// Draws releases and deadlines, or the periods of a reservation without jobs. The bars are drawn later, over the stems
/// of these marks.
fn marks(canvas: &mut Canvas, legend: &mut Legend, plot: &Plot<'_>, row: &Row, y: Px) {
    let (top, bottom, base) = (y + ARROW_TOP, y + ARROW_BOTTOM, y + BASE);
    let shown = |instants: &mut dyn Iterator<Item = Instant>| -> Vec<Instant> {
        instants.filter(|&at| plot.shows(at)).collect()
    };
    let releases = shown(&mut row.jobs.iter().map(|job| job.released));
    let deadlines = shown(&mut row.jobs.iter().map(|job| job.deadline));
    let (mut stems, mut arrows) = (Path::default(), Path::default());
    if plot.has_room_for(releases.len().max(deadlines.len()), MARK_ROOM) {
        for &at in releases.iter().filter(|&&at| Some(at) != row.arrived) {
            release(&mut arrows, plot.x(at), top, bottom);
        }
        for &at in &deadlines {
            deadline(&mut arrows, plot.x(at), top, bottom);
        }
        for at in releases.iter().chain(&deadlines).copied().collect::<BTreeSet<Instant>>() {
            stems.line(&[(plot.x(at), bottom), (plot.x(at), base)]);
        }
        legend.release |= releases.iter().any(|&at| Some(at) != row.arrived);
        legend.deadline |= !deadlines.is_empty();
    } else {
        legend.too_dense = true;
    }
    canvas.path(&stems, "fill=\"none\" stroke=\"#d0d7de\" stroke-width=\"1\"");
    canvas.path(&arrows, ARROW_STROKE);
    if row.jobs.is_empty() {
        periods(canvas, legend, plot, row, y);
    }
}

/// Draws the arrival of the entity.
fn arrived(canvas: &mut Canvas, legend: &mut Legend, plot: &Plot<'_>, row: &Row, y: Px) {
    let Some(at) = row.arrived.filter(|&at| plot.shows(at)) else { return };
    let mut path = Path::default();
    arrival(&mut path, plot.x(at), y + ARROW_TOP, y + BASE);
    canvas.path(&path, &format!("fill=\"{INK}\" stroke=\"{INK}\" stroke-width=\"1.5\""));
    legend.arrival = true;
}

/// Draws a cross at every missed deadline, if there is room, and a line from the cross to the end of the job.
fn misses(canvas: &mut Canvas, legend: &mut Legend, plot: &Plot<'_>, row: &Row, y: Px) {
    let cells = plot.cells_of(MARK_ROOM);
    let (mut path, mut last, mut lined) = (Path::default(), None, plot.from);
    for job in row.jobs.iter().filter(|job| job.missed()) {
        let at = y + MISS;
        let from = job.deadline.max(lined);
        if from < job.ended && plot.x(from) < plot.x(job.ended) {
            path.line(&[(plot.x(from), at), (plot.x(job.ended), at)]);
            lined = job.ended;
        }
        let cell = cells.cell_of(job.deadline);
        if cell.is_some() && cell != last {
            cross(&mut path, plot.x(job.deadline), at);
            last = cell;
        }
    }
    legend.missed |= !path.is_empty();
    canvas.path(&path, &missed_stroke());
}

/// Draws ticks at the starts of the reservation's periods.
fn periods(canvas: &mut Canvas, legend: &mut Legend, plot: &Plot<'_>, row: &Row, y: Px) {
    let ends = row.asked.iter().skip(1).map(|(at, _)| *at).chain([row.detached.unwrap_or(Instant::NEVER)]);
    let mut path = Path::default();
    for ((since, params), until) in row.asked.iter().zip(ends) {
        let Some(promise) = params.reservation.filter(|promise| !promise.period.is_zero()) else { continue };
        let start = promise.start.or(row.arrived).unwrap_or(row.attached);
        let (from, to) = (plot.from.max(*since).max(start), plot.to.min(until));
        let most = to.saturating_since(from).as_ns() / promise.period.as_ns();
        if !plot.has_room_for(usize::try_from(most).unwrap_or(usize::MAX), MARK_ROOM) {
            legend.too_dense = true;
            continue;
        }
        let (offset, period) = (from.since(start).as_ns(), promise.period.as_ns());
        let first = offset.div_ceil(period).checked_mul(period).and_then(|offset| start.as_ns().checked_add(offset));
        let next = |at: &u64| at.checked_add(period);
        for at in std::iter::successors(first, next).map(Instant::at_ns).take_while(|&at| at <= to) {
            path.line(&[(plot.x(at), y + BASE), (plot.x(at), y + BASE + Px::of(6))]);
        }
    }
    legend.period |= !path.is_empty();
    canvas.path(&path, PERIOD_STROKE);
}
