//! SVG pictures of worlds are well-formed and bounded, and show the states of all machines' timelines.

use crate::support::Random;
use crate::support::world::{HOST, Story, machine, two_levels, walk};
use roxmltree::{Document, Node};
use sched::{Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use trace::svg::{self, Picture};
use trace::{Event, MachineId, WorldTimeline};

fn ms(n: u64) -> Instant {
    Instant::ZERO + Nanos::ms(n)
}

fn texts(document: &Document<'_>) -> Vec<String> {
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or("").to_string()).collect()
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(node: Node<'_, '_>, name: &str) -> T {
    node.attribute(name).unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Returns the SVG group of each machine, by the id of the machine.
fn machines<'a>(document: &'a Document<'_>) -> BTreeMap<String, Node<'a, 'a>> {
    let all = document.descendants().filter(|node| node.has_attribute("data-machine"));
    all.map(|node| (node.attribute("data-machine").unwrap().to_string(), node)).collect()
}

/// Returns whether a node shows stolen time.
fn is_stolen(node: &Node<'_, '_>) -> bool {
    node.has_tag_name("path") && node.attribute("stroke-dasharray") == Some("2 2")
}

#[test]
fn each_machine_shows_its_own_runs_and_what_was_stolen() {
    let world = WorldTimeline::of(&two_levels()).unwrap();
    let (from, to) = (ms(5), ms(51));
    let picture = Picture { from, to, ..Picture::whole_world(&world, "Two levels") };
    let text = picture.render_world(&world);
    let document = Document::parse(&text).unwrap();
    let drawn = machines(&document);
    assert_eq!(drawn.keys().collect::<Vec<_>>(), ["m0", "m1", "m2"]);
    for (id, timeline) in world.header.ids().zip(&world.machines) {
        let node = drawn[&id.to_string()];
        let mut bars: Vec<(u64, u64)> = node
            .descendants()
            .filter(|node| node.has_attribute("data-cpu"))
            .map(|node| (number(node, "data-from"), number(node, "data-to")))
            .collect();
        bars.sort_unstable();
        let runs = timeline.cpus[0].iter().filter(|run| run.from < to && run.to > from);
        // Each run is drawn in the entity's row and in the CPU's row.
        let mut expected: Vec<(u64, u64)> =
            runs.flat_map(|run| [(run.from.as_ns(), run.to.as_ns()), (run.from.as_ns(), run.to.as_ns())]).collect();
        expected.sort_unstable();
        assert_eq!(bars, expected, "{id}");
        let boxes: usize =
            node.descendants().filter(is_stolen).map(|node| node.attribute("d").unwrap().matches('M').count()).sum();
        let stolen = timeline.stolen[0].iter().filter(|run| run.from < to && run.to > from).count();
        assert_eq!(boxes, 2 * stolen, "{id}");
    }
    let texts = texts(&document);
    let wanted = [
        "Two levels",
        "3 machines",
        "host",
        "turns on 1 CPU",
        "shop",
        "eevdf on 1 vCPU",
        "vCPU 0",
        "CPU 0",
        "1 of 3 late",
        "stolen: its vCPU is frozen",
    ];
    for wanted in wanted {
        assert!(texts.iter().any(|text| text == wanted), "no {wanted} in {texts:?}");
    }
    let blocks = document.descendants().filter(|node| node.attribute("fill") == Some("#f6f8fa"));
    assert_eq!(blocks.count(), 2, "a block for each guest");
}

/// On a dark page, elements whose light-page colour would be invisible have another colour.
#[test]
fn every_colour_of_the_light_picture_has_one_for_dark_pages() {
    let world = WorldTimeline::of(&two_levels()).unwrap();
    let text = Picture::whole_world(&world, "x").render_world(&world);
    let document = Document::parse(&text).unwrap();
    let style = document.descendants().find(|node| node.has_tag_name("style")).unwrap().text().unwrap();
    // Colours of elements that look the same on both pages, such as bars and marks of misses.
    let on_both = ["none", "#0072b2", "#e69f00", "#d55e00", "#8c959f"];
    let mut seen = BTreeSet::new();
    for node in document.descendants().filter(|node| node.attribute("font-size") != Some("10")) {
        for kind in ["fill", "stroke"] {
            let Some(colour) = node.attribute(kind).filter(|colour| !on_both.contains(colour)) else { continue };
            let stroke_of_block = node.attribute("fill") == Some("#f6f8fa");
            let known = style.contains(&format!("[{kind}=\"{colour}\"]")) || stroke_of_block;
            assert!(known, "{kind} {colour} stays as it is on a dark page");
            seen.insert(colour.to_string());
        }
    }
    assert!(seen.len() >= 6, "{seen:?}");
    assert!(style.lines().filter(|line| line.contains('{')).skip(1).all(|line| line.starts_with(".tactus-world ")));
    assert_eq!(document.root_element().attribute("class"), Some("tactus-world"));
}

/// Returns a host with 16 CPUs and `guests` guests of 4 vCPUs. In each guest, 3 tasks take turns on vCPU 0.
fn crowd(guests: u32, rounds: u32) -> WorldTimeline {
    let name = "</text><script>alert(\"x\")</script> and so on and on";
    let mut machines = vec![machine("the host", "</text>", 16, None)];
    machines.extend((0..guests).map(|_| machine(name, "eevdf", 4, Some(HOST))));
    let mut story = Story::new(machines);
    for guest in 1..=guests {
        let id = MachineId(guest);
        for cpu in 0..4 {
            let index = (guest - 1) * 4 + cpu;
            story.attach(HOST, index, name).vcpu(HOST, index, id, cpu as usize).wake(HOST, index);
            if index < 16 {
                story.run_on(HOST, index as usize, index);
            }
        }
        for task in 0..3 {
            story.attach(id, task, name).wake(id, task);
        }
    }
    for round in 0..rounds {
        for guest in (1..=guests).map(MachineId) {
            story.run_on(guest, 0, round % 3);
        }
        story.now += Nanos::us(37);
        for guest in (1..=guests).map(MachineId) {
            story.freeze(guest);
        }
        // In the last round, vCPU 0 of every guest is frozen for long enough to be visible.
        story.now += if round + 1 < rounds { Nanos::us(5) } else { Nanos::ms(20) };
        for guest in (1..=guests).map(MachineId) {
            story.thaw(guest).stop_on(guest, 0, round % 3);
        }
    }
    story.say(HOST, Event::End);
    WorldTimeline::of(&story.trace).unwrap()
}

#[test]
fn the_size_is_bounded_however_large_the_world() {
    let world = crowd(64, 2_000);
    for (rows_most, cpus) in [(40, true), (150, true), (40, false)] {
        let picture = Picture { rows_most, cpus, ..Picture::whole_world(&world, "crowd") };
        let text = picture.render_world(&world);
        let document = Document::parse(&text).unwrap();
        let elements = document.descendants().filter(Node::is_element).count();
        assert!(text.len() < 2_000_000 && elements < 8_000, "{} bytes, {elements} elements", text.len());
        assert!(!text.contains("<script"));
        let known = ["svg", "title", "style", "rect", "g", "path", "text"];
        assert!(document.descendants().filter(Node::is_element).all(|node| known.contains(&node.tag_name().name())));
        let shown = machines(&document).len();
        let more = format!("… and {} more machines", 65 - shown);
        assert!((2..65).contains(&shown) && texts(&document).contains(&more), "{shown} shown: {:?}", texts(&document));
        assert!(document.descendants().any(|node| is_stolen(&node)), "by the column, too");
    }
}

#[test]
fn worlds_stand_side_by_side() {
    let world = WorldTimeline::of(&two_levels()).unwrap();
    let pictures = ["left", "right"].map(|title| Picture { width: 700, ..Picture::whole_world(&world, title) });
    let text = svg::worlds_side_by_side("Both", &[(&pictures[0], &world), (&pictures[1], &world)]);
    let document = Document::parse(&text).unwrap();
    let shown = texts(&document);
    for (wanted, times) in [("Both", 1), ("left", 1), ("right", 1), ("shop", 2), ("stolen: its vCPU is frozen", 1)] {
        assert_eq!(shown.iter().filter(|text| *text == wanted).count(), times, "{wanted} in {shown:?}");
    }
    assert_eq!(number::<u32>(document.root_element(), "width"), 700 + 16 + 700);
}

#[test]
fn any_world_and_any_window_can_be_drawn() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let world = WorldTimeline::of(&walk(seed, 80)).unwrap();
        let picture = Picture {
            title: crate::support::events::name(&mut random),
            from: Instant::at_ns(random.number(40_000)),
            to: Instant::at_ns(random.number(u64::MAX)),
            width: u32::try_from(random.number(20_000)).unwrap(),
            rows_most: random.index(9),
            cpus: random.chance(2),
        };
        for picture in [Picture::whole_world(&world, "x"), picture] {
            let text = picture.render_world(&world);
            let document = Document::parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let (width, height): (f64, f64) =
                (number(document.root_element(), "width"), number(document.root_element(), "height"));
            for node in document.descendants() {
                for (name, most) in [("x", width), ("width", width), ("y", height), ("height", height)] {
                    let value = node.attribute(name).map_or(0.0, |value| value.parse().unwrap());
                    assert!((-20.0..=most).contains(&value), "seed {seed}: {name} is {value}");
                }
            }
        }
    }
}
