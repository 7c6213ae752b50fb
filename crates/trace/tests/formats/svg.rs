//! SVG pictures are well-formed and bounded, and show the states of the timeline.

use crate::support::Random;
use crate::support::edf::{self, FIGURE_2, Order, Vm};
use crate::support::walk::{damaged, walk};
use roxmltree::{Document, Node};
use sched::{Action, CpuId, EntityId, Input, Instant, Limit, Nanos, Params, Reservation, Wake};
use std::collections::{BTreeMap, BTreeSet};
use trace::svg::{self, Picture};
use trace::timeline::State;
use trace::{Event, Header, Sink, Timeline, Trace};

fn ms(n: u64) -> Instant {
    Instant::ZERO + Nanos::ms(n)
}

fn vms(cpus: usize, order: Order, end: u64) -> Timeline {
    Timeline::of(&edf::run(&FIGURE_2, cpus, order, ms(end))).unwrap()
}

fn texts(document: &Document<'_>) -> Vec<String> {
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or("").to_string()).collect()
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(node: Node<'_, '_>, name: &str) -> T {
    node.attribute(name).unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Returns the CPU, the start and end time, the left edge and the width of each bar.
fn bars(document: &Document<'_>) -> Vec<(usize, u64, u64, f64, f64)> {
    let bars = document.descendants().filter(|node| node.has_attribute("data-cpu"));
    bars.map(|node| {
        let (x, width) = (number(node, "x"), number(node, "width"));
        (number(node, "data-cpu"), number(node, "data-from"), number(node, "data-to"), x, width)
    })
    .collect()
}

#[test]
fn bars_are_the_runs_of_the_timeline() {
    for (cpus, order) in [(1, Order::Deadline), (2, Order::Deadline), (1, Order::Turns(Nanos::us(7777)))] {
        let timeline = vms(cpus, order, 400);
        let (from, to) = (ms(45), ms(333));
        let picture = Picture { from, to, ..Picture::whole(&timeline, "x") };
        let text = picture.render(&timeline);
        let document = Document::parse(&text).unwrap();
        let shown = bars(&document);

        let mut expected: Vec<(usize, u64, u64)> = Vec::new();
        for (cpu, runs) in timeline.cpus.iter().enumerate() {
            let runs = runs.iter().filter(|run| run.from < to && run.to > from);
            expected.extend(runs.map(|run| (cpu, run.from.as_ns(), run.to.as_ns())));
        }
        expected.sort_unstable();
        let mut told: Vec<(usize, u64, u64)> = shown.iter().map(|bar| (bar.0, bar.1, bar.2)).collect();
        told.sort_unstable();
        assert_eq!(told, expected);

        // The longest bar that is shown in full determines the scale. Every edge and every number of the axis must
        // match this scale.
        let whole = shown.iter().filter(|bar| bar.1 >= from.as_ns() && bar.2 <= to.as_ns());
        let longest = whole.max_by_key(|bar| bar.2 - bar.1).unwrap();
        let scale = longest.4 / (longest.2 - longest.1) as f64;
        let edge = |at: u64| at.clamp(from.as_ns(), to.as_ns());
        let origin = longest.3 - (longest.1 - from.as_ns()) as f64 * scale;
        for (_, start, end, x, width) in shown {
            let left = origin + (edge(start) - from.as_ns()) as f64 * scale;
            let length = (edge(end) - edge(start)) as f64 * scale;
            assert!((x - left).abs() < 0.2 && (width - length).abs() < 0.2, "{start}..{end} at {x} + {width}");
        }
        let middle = document.descendants().filter(|node| node.attribute("text-anchor") == Some("middle"));
        let ticks: Vec<(u64, f64)> = middle
            .filter(|node| node.attribute("font-size") == Some("11"))
            .map(|node| (ms(node.text().unwrap().parse().unwrap()).as_ns(), number(node, "x")))
            .collect();
        assert!(ticks.len() > 3);
        for (at, x) in ticks {
            assert!((x - origin - (at - from.as_ns()) as f64 * scale).abs() < 0.2, "{at} at {x}");
        }
    }
}

#[test]
fn the_figure_of_the_paper_names_each_vm_and_its_share() {
    let timeline = vms(1, Order::Deadline, 1100);
    let text = Picture { to: ms(200), ..Picture::whole(&timeline, "Three VMs") }.render(&timeline);
    let document = Document::parse(&text).unwrap();
    let texts = texts(&document);
    for wanted in ["Three VMs", "edf on 1 CPU", "VM1", "20 ms every 50 ms", "40.0 %", "0 of 4 late", "ms", "arrival"] {
        assert!(texts.iter().any(|text| text == wanted), "no {wanted} in {texts:?}");
    }
    assert!(!texts.iter().any(|text| text.contains("missed")), "nothing is missed");

    let timeline = vms(1, Order::Turns(Nanos::ms(30)), 1100);
    let text = Picture { to: ms(300), ..Picture::whole(&timeline, "In turns") }.render(&timeline);
    let document = Document::parse(&text).unwrap();
    assert!(self::texts(&document).iter().any(|text| text == "2 of 6 late"));
    assert_eq!(crosses(&document), 2 + 1, "two misses, and one in the legend");
}

/// Returns the number of crosses. One of the two strokes of a cross goes down and to the right by 6 pixels; the
/// function counts these strokes.
fn crosses(document: &Document<'_>) -> usize {
    let missed = document.descendants().filter(|node| node.attribute("stroke") == Some("#d55e00"));
    let strokes = |node: Node<'_, '_>| {
        let path = node.attribute("d").unwrap().to_string();
        let strokes: Vec<Vec<f64>> = path
            .split('M')
            .skip(1)
            .map(|stroke| stroke.split(['L', ' ']).map(|number| number.parse().unwrap()).collect())
            .collect();
        strokes.into_iter().filter(|s| s.len() == 4 && s[2] - s[0] > 5.9 && s[3] - s[1] > 5.9).count()
    };
    missed.map(strokes).sum()
}

const BUSY: [Vm; 3] = [
    Vm { name: "a", period: Nanos::us(900), slice: Nanos::us(400), arrival: Nanos::ZERO },
    Vm { name: "b", period: Nanos::us(1700), slice: Nanos::us(1500), arrival: Nanos::us(3) },
    Vm { name: "c", period: Nanos::ms(70), slice: Nanos::ms(3), arrival: Nanos::ms(5) },
];

/// Returns the boxes of a path: left edge, top, width.
fn boxes(path: &str) -> Vec<(f64, f64, f64)> {
    let numbers = |part: &str| -> (f64, f64, f64) {
        let (x, rest) = part.split_once(' ').unwrap();
        let (y, rest) = rest.split_once('h').unwrap();
        (x.parse().unwrap(), y.parse().unwrap(), rest.split_once('v').unwrap().0.parse().unwrap())
    };
    path.split('M').skip(1).map(numbers).collect()
}

/// In a long run, the colour of each column shows the CPU that was used longest, and the opacity shows the share of
/// running time. The test computes both from the spans.
#[test]
fn long_runs_are_drawn_by_the_column() {
    let timeline = Timeline::of(&edf::run(&BUSY, 2, Order::Turns(Nanos::us(300)), ms(3_000))).unwrap();
    let text = Picture::whole(&timeline, "long").render(&timeline);
    let document = Document::parse(&text).unwrap();
    assert_eq!(bars(&document), []);
    let axis = document.descendants().find(|node| node.attribute("stroke") == Some("#8c959f")).unwrap();
    let ends: Vec<f64> = axis.attribute("d").unwrap()[1..].split(['L', ' ']).map(|n| n.parse().unwrap()).collect();
    let (left, columns) = (ends[0], ((ends[2] - ends[0]) / 2.0).round() as u64);
    let mut painted: BTreeMap<(i64, u64), String> = BTreeMap::new();
    for node in document.descendants().filter(|node| node.has_tag_name("path") && node.has_attribute("fill-opacity")) {
        for (x, y, width) in boxes(node.attribute("d").unwrap()) {
            let kind = format!("{} {}", node.attribute("fill").unwrap(), node.attribute("fill-opacity").unwrap());
            // Columns are two pixels wide; their edges are rounded down to hundredths.
            let column = |x: f64| ((x - left) / 2.0).round() as u64;
            for column in column(x)..column(x + width) {
                assert_eq!(painted.insert((y.round() as i64, column), kind.clone()), None, "painted twice");
            }
        }
    }
    let rows: BTreeSet<i64> = painted.keys().map(|(y, _)| *y).collect();
    assert_eq!(rows.len(), timeline.rows.len());
    let length = timeline.to.as_ns();
    for (row, y) in timeline.rows.iter().zip(rows) {
        for column in 0..columns {
            let (from, to) = (length * column / columns, length * (column + 1) / columns);
            let mut ran = [0_u64; 2];
            for span in row.spans_in(Instant::at_ns(from), Instant::at_ns(to)) {
                if let State::Running(cpu) = span.state {
                    ran[cpu.index()] += span.to.as_ns().min(to) - span.from.as_ns().max(from);
                }
            }
            let hue = if ran[1] > ran[0] { "#e69f00" } else { "#0072b2" };
            let expected = match (ran[0] + ran[1]).saturating_mul(4).div_ceil(to - from) {
                0 => None,
                level => Some(format!("{hue} {}", ["0.3", "0.5", "0.75", "1"][usize::try_from(level).unwrap() - 1])),
            };
            assert_eq!(painted.get(&(y, column)), expected.as_ref(), "{} column {column}", row.name);
        }
    }
}

#[test]
fn the_size_is_bounded_however_long_the_run() {
    let mut trace = Trace::new(Header { policy: "x".into(), cpus: 8, seed: 0 });
    let id = |index| EntityId::new(index, 0);
    for index in 0..60 {
        let promise = Reservation::new(Nanos::ns(1), Nanos::ns(2));
        let params = Params { reservation: Some(promise), ..Params::default() };
        trace.record(ms(0), &Event::Attach { entity: id(index), name: format!("vm{index}"), params: Box::new(params) });
    }
    let mut now = ms(0);
    for round in 0..20_000_u32 {
        now += Nanos::us(37);
        for cpu in 0..8 {
            let (cpu, entity) = (CpuId::new(cpu), id((round * 8 + u32::try_from(cpu).unwrap()) % 60));
            trace.record(now, &Event::Release { entity, deadline: now + Nanos::us(3) });
            trace.record(now, &Event::Input(Input::Wake { entity, why: Wake::Timer }));
            trace.record(now, &Event::Action(Action::Run { cpu, entity, until: Instant::NEVER }));
        }
        now += Nanos::us(5);
        for cpu in 0..8 {
            let (cpu, entity) = (CpuId::new(cpu), id((round * 8 + u32::try_from(cpu).unwrap()) % 60));
            trace.record(now, &Event::Complete { entity });
            trace.record(now, &Event::Input(Input::Block { cpu }));
            trace.record(now, &Event::Action(Action::Stop { cpu, entity }));
        }
    }
    let timeline = Timeline::of(&trace).unwrap();
    for (cpus, to) in [(false, ms(9)), (true, ms(4))] {
        let text = Picture { cpus, ..Picture::whole(&timeline, "long") }.render(&timeline);
        let elements = Document::parse(&text).unwrap().descendants().filter(Node::is_element).count();
        assert!(text.len() < 1_000_000 && elements < 3_000, "{} bytes, {elements} elements", text.len());
        // In a short interval, more than 1000 bars are drawn individually.
        let text = Picture { cpus, to, ..Picture::whole(&timeline, "short") }.render(&timeline);
        let document = Document::parse(&text).unwrap();
        assert!(bars(&document).len() > 1000);
        assert!(document.descendants().filter(Node::is_element).count() < 7_000);
    }
}

#[test]
fn names_cannot_break_out() {
    let name = "</text><script>alert(\"x\")</script>&\0\u{1b}[2J\u{202e}";
    let mut trace = Trace::new(Header { policy: name.into(), cpus: 1, seed: 0 });
    let e = EntityId::new(0, 0);
    trace.record(ms(0), &Event::Attach { entity: e, name: name.into(), params: Box::default() });
    trace.record(ms(1), &Event::Input(Input::Wake { entity: e, why: Wake::Timer }));
    trace.record(ms(1), &Event::Action(Action::Run { cpu: CpuId::new(0), entity: e, until: Instant::NEVER }));
    trace.record(ms(3), &Event::End);
    let timeline = Timeline::of(&trace).unwrap();
    let text = Picture { cpus: true, ..Picture::whole(&timeline, name) }.render(&timeline);
    let document = Document::parse(&text).unwrap();
    let known = ["svg", "title", "rect", "g", "path", "text"];
    let tags: BTreeSet<&str> =
        document.descendants().filter(Node::is_element).map(|node| node.tag_name().name()).collect();
    assert!(tags.iter().all(|tag| known.contains(tag)), "{tags:?}");
    assert!(!text.contains("<script") && !text.contains('\u{202e}') && !text.contains('\u{1b}'));
    let used: BTreeSet<&str> = document.descendants().flat_map(|node| node.attributes()).map(|a| a.name()).collect();
    assert!(used.iter().all(|name| !name.starts_with("on") && *name != "href"), "self-contained, no scripts: {used:?}");
}

#[test]
fn a_reservation_without_jobs_shows_its_periods() {
    let mut trace = Trace::new(Header { policy: "x".into(), cpus: 1, seed: 0 });
    let (e, cpu) = (EntityId::new(0, 0), CpuId::new(0));
    let promise =
        Reservation { slice: Nanos::ms(2), period: Nanos::ms(10), deadline: None, start: None, limit: Limit::Hard };
    let params = Params { reservation: Some(promise), ..Params::default() };
    trace.record(ms(0), &Event::Attach { entity: e, name: "hog".into(), params: Box::new(params) });
    trace.record(ms(3), &Event::Input(Input::Wake { entity: e, why: Wake::New { parent: None } }));
    trace.record(ms(3), &Event::Action(Action::Run { cpu, entity: e, until: ms(5) }));
    trace.record(ms(5), &Event::Action(Action::Stop { cpu, entity: e }));
    trace.record(ms(5), &Event::Action(Action::Held { entity: e, reasons: 4 }));
    trace.record(ms(53), &Event::End);
    let timeline = Timeline::of(&trace).unwrap();
    let picture = Picture::whole(&timeline, "x");
    let text = picture.render(&timeline);
    let document = Document::parse(&text).unwrap();
    let ticks = |document: &Document<'_>| {
        let mut paths = document.descendants().filter(|node| node.attribute("stroke") == Some("#8c959f"));
        paths.find_map(|node| node.attribute("d").map(|d| d.matches('M').count()).filter(|&n| n > 1)).unwrap_or(0)
    };
    assert_eq!(ticks(&document), 6, "3, 13, 23, 33, 43 and 53 ms");
    let shown = texts(&document);
    assert!(shown.iter().any(|text| text == "period") && shown.iter().any(|text| text == "held"), "{shown:?}");
    let text = Picture { from: ms(14), to: ms(40), ..picture }.render(&timeline);
    assert_eq!(ticks(&Document::parse(&text).unwrap()), 2, "23 and 33 ms");
}

#[test]
fn pictures_stand_side_by_side() {
    let (left, right) = (vms(1, Order::Turns(Nanos::ms(30)), 300), vms(1, Order::Deadline, 300));
    let pictures = [
        Picture { width: 700, ..Picture::whole(&left, "In turns") },
        Picture { width: 500, rows_most: 2, ..Picture::whole(&right, "By deadline") },
    ];
    let text = svg::side_by_side("Both", &[(&pictures[0], &left), (&pictures[1], &right)]);
    let document = Document::parse(&text).unwrap();
    let shown = texts(&document);
    for wanted in ["Both", "In turns", "By deadline", "turns on 1 CPU", "edf on 1 CPU", "… and 1 more"] {
        assert!(shown.iter().any(|text| text == wanted), "no {wanted} in {shown:?}");
    }
    assert_eq!(shown.iter().filter(|text| *text == "arrival").count(), 1, "one legend");
    assert_eq!(number::<u32>(document.root_element(), "width"), 700 + 16 + 500);
    let alone: usize = [(&pictures[0], &left), (&pictures[1], &right)]
        .map(|(picture, timeline)| bars(&Document::parse(&picture.render(timeline)).unwrap()).len())
        .iter()
        .sum();
    assert_eq!(bars(&document).len(), alone);
    assert!(Document::parse(&svg::side_by_side("None", &[])).is_ok());

    // Pictures of equal width have equal scales, even if a job is late in only one of the pictures.
    let wide = |timeline| Picture { width: 700, ..Picture::whole(timeline, "x") };
    let text = svg::side_by_side("Both", &[(&wide(&left), &left), (&wide(&right), &right)]);
    let document = Document::parse(&text).unwrap();
    let axes = document.descendants().filter(|node| node.attribute("stroke") == Some("#8c959f"));
    let axes: BTreeSet<String> =
        axes.map(|node| node.attribute("d").unwrap().split_once('L').unwrap().1.into()).collect();
    assert_eq!(axes.len(), 1, "{axes:?}");
}

#[test]
fn any_trace_and_any_window_can_be_drawn() {
    let mut drawn = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let Ok(timeline) = Timeline::of(&damaged(&mut random, walk(seed, 60).trace)) else { continue };
        let picture = Picture {
            title: crate::support::events::name(&mut random),
            from: Instant::at_ns(random.number(u64::MAX)),
            to: Instant::at_ns(random.number(u64::MAX)),
            width: u32::try_from(random.number(20_000)).unwrap(),
            rows_most: random.index(4),
            cpus: random.chance(2),
        };
        for picture in [Picture::whole(&timeline, "x"), picture] {
            let text = picture.render(&timeline);
            let document = Document::parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let width: f64 = number(document.root_element(), "width");
            for node in document.descendants() {
                for name in ["x", "width"] {
                    let value = node.attribute(name).map_or(0.0, |value| value.parse().unwrap());
                    assert!((0.0..=width).contains(&value), "seed {seed}: {name} is {value}");
                }
            }
            drawn += 1;
        }
    }
    assert!(drawn > 100, "{drawn}");
}
