//! Tests of the kinds and the panels of figures, on results that the tests make up.

use indexmap::IndexMap;
use lab::experiment::{Experiment, Extent, Point};
use lab::plot::Figure;
use lab::results::{Measured, Row};
use lab::{Printed, Results};
use roxmltree::Document;
use std::path::Path;

/// An experiment with the axes `policy`, `hosts` and `gap_us`, and the metrics `m` and `u`.
struct Made {
    experiment: Experiment,
    results: Results,
}

impl Made {
    /// Returns an experiment with this number of policies and one plot. `m` is the value of metric `m` at a point.
    fn new(policies: usize, plot: &str, m: impl Fn(&Point) -> serde_json::Value) -> Made {
        let names: Vec<String> = (0..policies).map(|nth| format!("\"p{nth}\"")).collect();
        let text = format!(
            "figure = \"Fig 1\"\ntitle = \"t\"\nclaims = []\nscenario = \"s.toml\"\n[sweep]\npolicy = [{}]\n\
             hosts = [1, 2, 3, 4]\ngap_us = [5, 7]\n[metrics]\nm = \"1\"\nu = \"1\"\n\
             [[plot]]\nname = \"p\"\ntitle = \"A title\"\ny = \"m\"\n{plot}",
            names.join(", ")
        );
        let experiment = Experiment::from_texts(Path::new("made.toml"), text, String::new(), IndexMap::new());
        let experiment = experiment.unwrap_or_else(|problem| panic!("{problem}"));
        let row = |point: Point| {
            let seed = |u: f64| Measured::from([("m".to_string(), m(&point)), ("u".to_string(), u.into())]);
            Row { seeds: vec![seed(0.25), seed(0.75)], point }
        };
        let rows = experiment.points(Extent::Usual).into_iter().map(row).collect();
        let results = Results { experiments: [("made".to_string(), rows)].into_iter().collect(), ..Results::default() };
        Made { experiment, results }
    }

    fn svg(&self) -> String {
        let figure = Figure::of("made", &self.experiment, &self.experiment.plot[0], &self.results);
        figure.unwrap_or_else(|problem| panic!("{problem}")).expect("it has results").svg()
    }
}

fn hosts(point: &Point) -> serde_json::Value {
    point["hosts"].clone()
}

/// Returns the texts of `svg`, and the number of lines and filled shapes in the colour of the first curve.
fn parts(svg: &str) -> (Vec<String>, usize, usize) {
    const FIRST: &str = "#0072B2";
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let texts = texts.map(|node| node.text().unwrap_or_default().trim().to_string()).collect();
    let with = |key: &str| document.descendants().filter(|node| node.attribute(key) == Some(FIRST)).count();
    (texts, with("stroke"), with("fill"))
}

fn has(texts: &[String], text: &str) -> usize {
    texts.iter().filter(|other| *other == text).count()
}

#[test]
fn up_to_six_curves_are_lines_and_more_are_points() {
    let plot = "x = \"hosts\"\ncurves = [\"policy\"]\nwhere = { gap_us = 5 }";
    let (texts, lines, marks) = parts(&Made::new(6, plot, hosts).svg());
    assert!(lines > 0 && marks > 4, "{lines} lines, {marks} marks");
    assert_eq!(has(&texts, "p5"), 1);
    let (texts, lines, marks) = parts(&Made::new(7, plot, hosts).svg());
    assert_eq!((lines, marks), (0, 5), "four points and the sample in the legend");
    assert_eq!(has(&texts, "p6"), 1);
    let bars = format!("kind = \"bars\"\n{plot}");
    let filled = |policies: usize| {
        let svg = Made::new(policies, &bars, hosts).svg();
        let document = Document::parse(&svg).expect("it is a document");
        let is_bar =
            |node: &roxmltree::Node<'_, '_>| node.has_tag_name("rect") && node.attribute("fill") == Some("#0072B2");
        document.descendants().filter(is_bar).count()
    };
    assert_eq!((filled(6), filled(7)), (5, 0), "four bars and the sample in the legend; no bars");
}

#[test]
fn many_curves_over_two_axes_have_a_panel_for_each_value_of_the_first() {
    let plot = "x = \"hosts\"\ncurves = [\"policy\", \"gap_us\"]";
    let (texts, lines, _) = parts(&Made::new(4, plot, hosts).svg());
    for nth in 0..4 {
        assert_eq!(has(&texts, &format!("p{nth}")), 1, "{texts:?}");
    }
    assert_eq!((has(&texts, "gap 5 us"), has(&texts, "gap 7 us")), (1, 1), "one legend: {texts:?}");
    assert!(lines >= 4, "each panel has two lines");
    let (texts, ..) = parts(&Made::new(3, plot, hosts).svg());
    assert_eq!(has(&texts, "p0, gap 5 us"), 1, "six curves share a panel: {texts:?}");
    let other = format!("{plot}\npanels = [\"gap_us\"]");
    let (texts, ..) = parts(&Made::new(3, &other, hosts).svg());
    assert_eq!((has(&texts, "gap 5 us"), has(&texts, "p0")), (1, 1), "{texts:?}");
}

#[test]
fn integer_axes_have_integer_ticks() {
    let plot = "x = \"hosts\"\ncurves = [\"policy\"]\nwhere = { gap_us = 5 }";
    let (texts, ..) = parts(&Made::new(2, plot, |_| 0.5.into()).svg());
    assert!(["1", "2", "3", "4"].iter().all(|text| has(&texts, text) > 0), "{texts:?}");
    assert!(["1.0", "1.5", "2.5"].iter().all(|text| has(&texts, text) == 0), "{texts:?}");
}

#[test]
fn a_surface_has_a_cell_for_each_pair_of_values_and_a_scale_of_colours() {
    let plot = "kind = \"surface\"\nx = \"hosts\"\nrows = \"gap_us\"\ncurves = [\"policy\"]\nrange = { y = [0, 4] }";
    let value = |point: &Point| if point["gap_us"] == 7 { serde_json::Value::Null } else { point["hosts"].clone() };
    let svg = Made::new(2, plot, value).svg();
    let (texts, ..) = parts(&svg);
    assert_eq!((has(&texts, "p0"), has(&texts, "p1"), has(&texts, "–")), (1, 1, 8), "{texts:?}");
    assert_eq!((has(&texts, "5"), has(&texts, "7"), has(&texts, "m")), (1, 1, 1), "{texts:?}");
    // The highest value has the darkest colour, once in each panel and once in the scale.
    assert_eq!(svg.matches("fill=\"#0B2A5B\"").count(), 3);
}

#[test]
fn points_over_a_metric_are_single_runs() {
    let plot = "kind = \"points\"\nx = \"u\"\npools = [\"hosts\", \"gap_us\"]";
    let (texts, _, marks) = parts(&Made::new(1, plot, hosts).svg());
    assert_eq!(marks, 16, "eight points of two seeds each, without a legend: {texts:?}");
}

#[test]
fn printed_numbers_are_marks_and_lines_of_their_panels() {
    let text = "[a]\nplace = \"A\"\npage = 1\nunit = \"\"\nwhat = \"w\"\n[a.series.s]\n1 = 1\n3 = 40\n";
    let printed = Printed::from_text(Path::new("printed.toml"), text).unwrap_or_else(|problem| panic!("{problem}"));
    let plot = "x = \"hosts\"\ncurves = [\"policy\", \"gap_us\"]\npaper = { \"p1, 5\" = \"a/s\" }\n\
                levels = { bound = \"a/s/3\" }\npositions = { from = \"a/s/3\" }";
    let mut made = Made::new(4, plot, hosts);
    let hollow = |made: &Made| {
        let svg = made.svg();
        let document = Document::parse(&svg).expect("it is a document");
        let is_hollow =
            |node: &roxmltree::Node<'_, '_>| node.has_tag_name("circle") && node.attribute("fill") == Some("none");
        (parts(&svg).0, document.descendants().filter(is_hollow).count())
    };
    let (texts, before) = hollow(&made);
    assert_eq!((has(&texts, "bound (paper)"), before), (0, 0), "no file was read: {texts:?}");
    let file = made.experiment.path.clone();
    made.experiment.plot[0].refer(&file, &printed).unwrap_or_else(|problem| panic!("{problem}"));
    let (texts, marks) = hollow(&made);
    assert_eq!((has(&texts, "bound (paper)"), has(&texts, "gap 5 us (paper)")), (1, 1), "{texts:?}");
    assert_eq!(marks, 3, "two numbers in one panel, and the sample in the legend");
    assert_eq!(has(&texts, "from (paper)"), 1, "{texts:?}");
    assert!(
        has(&texts, "40") > 4,
        "the vertical axis and the horizontal axis of each panel reach to the lines: {texts:?}"
    );
}
