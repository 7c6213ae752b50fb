//! Tests of figures and pages, drawn from measurements.

use crate::played::play;
use crate::tiny::Tiny;
use lab::experiment::{Extent, Kind, Plot};
use lab::page::{Drawing, Picture, Report, html};
use lab::plot::Figure;
use lab::{Paper, Results};
use roxmltree::{Document, ParsingOptions};

fn tiny() -> (Paper, Results) {
    let paper = Tiny::new().paper();
    let results = play(std::slice::from_ref(&paper), Extent::Usual);
    (paper, results)
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or_default().trim().to_string()).collect()
}

fn drawn(paper: &Paper, plot: &Plot, results: &Results) -> Figure {
    let figure = Figure::of(&paper.key, &paper.experiments[0], plot, results);
    figure.unwrap_or_else(|problem| panic!("{problem}")).expect("it was played")
}

#[test]
fn a_figure_has_its_title_axes_curves_and_the_papers_values() {
    let (paper, results) = tiny();
    let svg = drawn(&paper, &paper.experiments[0].plot[0], &results).svg();
    let texts = texts(&svg);
    for text in ["Shares", "Fig 1, tiny", "weight", "share, %", "eevdf", "round-robin", "eevdf (paper)"] {
        assert!(texts.iter().any(|other| other == text), "{text}: {texts:?}");
    }
    assert!(
        texts.iter().any(|text| text
            == "Medians over the seeds, with their 95 % intervals (fewer than six seeds: minimum to maximum)."),
        "{texts:?}"
    );
}

#[test]
fn the_same_results_give_the_same_bytes_and_others_do_not() {
    let (paper, mut results) = tiny();
    let plot = &paper.experiments[0].plot[0];
    let both = |results: &Results| {
        let figure = drawn(&paper, plot, results);
        (figure.svg(), figure.png())
    };
    let before = both(&results);
    assert_eq!(before, both(&results));
    results.experiments["shares"][0].seeds[0].insert("share".to_string(), 20.0.into());
    let after = both(&results);
    assert!(before.0 != after.0 && before.1 != after.1);
}

/// Returns the figure of the tiny paper as an SVG document, drawn as a figure of `kind`. In every run, the metric has
/// the value `values`.
fn of_kind(kind: Kind, log: bool, values: &serde_json::Value) -> String {
    let (paper, mut results) = tiny();
    for seed in results.experiments["shares"].iter_mut().flat_map(|row| &mut row.seeds) {
        seed.insert("share".to_string(), values.clone());
    }
    let mut plot = paper.experiments[0].plot[0].clone();
    plot.kind = kind;
    if log {
        plot.log = vec![lab::experiment::Axis::X, lab::experiment::Axis::Y];
    }
    drawn(&paper, &plot, &results).svg()
}

#[test]
fn every_kind_is_drawn_with_and_without_logarithms() {
    let list = serde_json::json!([1.0, 2.5, 40.0]);
    let pairs = serde_json::json!([[1, 10], [2, 300], [90, 4]]);
    for log in [false, true] {
        for (kind, values) in [
            (Kind::Lines, serde_json::json!(7.5)),
            (Kind::Bars, serde_json::json!(7.5)),
            (Kind::Boxes, list.clone()),
            (Kind::Cdf, list.clone()),
            (Kind::Distribution, pairs.clone()),
        ] {
            let texts = texts(&of_kind(kind, log, &values));
            assert!(texts.iter().any(|text| text == "eevdf"), "{kind:?}: {texts:?}");
            assert!(!texts.iter().any(|text| text.contains("NaN") || text.contains("inf")), "{kind:?}: {texts:?}");
        }
    }
}

#[test]
fn values_that_a_plot_cannot_show_are_refused_with_the_plot() {
    let (paper, mut results) = tiny();
    results.experiments["shares"][0].seeds[0].insert("share".to_string(), serde_json::json!([1, 2]));
    let plot = &paper.experiments[0].plot[0];
    let said = |plot: &Plot| Figure::of("tiny", &paper.experiments[0], plot, &results).expect_err("a list").to_string();
    let as_lines = said(plot);
    assert!(as_lines.contains("the plot `fig-1`") && as_lines.contains("is a list"), "{as_lines}");
    let as_pairs = said(&Plot { kind: Kind::Distribution, ..plot.clone() });
    assert!(as_pairs.contains("no pair of numbers"), "{as_pairs}");
}

#[test]
fn nothing_that_is_measured_is_still_a_figure() {
    for values in [serde_json::Value::Null, serde_json::json!([])] {
        for kind in [Kind::Boxes, Kind::Cdf, Kind::Distribution] {
            texts(&of_kind(kind, true, &values));
        }
    }
    texts(&of_kind(Kind::Lines, true, &serde_json::Value::Null));
    texts(&of_kind(Kind::Bars, true, &serde_json::json!(0)));
}

#[test]
fn names_that_are_no_numbers_stand_at_places_and_long_ones_are_cut() {
    let (paper, results) = tiny();
    let mut plot = paper.experiments[0].plot[0].clone();
    (plot.x, plot.curves) = ("policy".to_string(), vec!["weight".to_string()]);
    let texts = texts(&drawn(&paper, &plot, &results).svg());
    for text in ["eevdf", "round-robin", "weight 2048", "weight 3072"] {
        assert!(texts.iter().any(|other| other == text), "{text}: {texts:?}");
    }
}

#[test]
fn a_schedule_shows_when_each_task_ran() {
    let (paper, _) = tiny();
    let experiment = &paper.experiments[0];
    let svg = experiment.schedule[0].draw(experiment).unwrap_or_else(|problem| panic!("{problem}"));
    let texts = texts(&svg);
    assert!(texts.iter().any(|text| text == "Fig 1: Turns"), "{texts:?}");
    assert!(texts.iter().any(|text| text == "a") && texts.iter().any(|text| text == "b"), "{texts:?}");
    let mut several = experiment.schedule[0].clone();
    several.point.shift_remove("weight");
    let said = several.draw(experiment).expect_err("two points").to_string();
    assert!(said.contains("2 points match `where`") && said.contains("a value for each axis"), "{said}");
}

#[test]
fn the_page_has_every_claim_with_its_numbers_and_needs_no_other_file() {
    let tiny = Tiny::but("claims.toml", "Author: A paper", "Author & <b>Editor</b>: A paper");
    let paper = tiny.paper();
    let results = play(std::slice::from_ref(&paper), Extent::Usual);
    let mut report = Report::new(&paper, Some(results), |_| true).unwrap_or_else(|problem| panic!("{problem}"));
    let experiment = &paper.experiments[0];
    let schedule = &experiment.schedule[0];
    let drawing = Drawing::Svg(schedule.draw(experiment).unwrap_or_else(|problem| panic!("{problem}")));
    report.pictures.push(Picture { experiment, name: &schedule.name, title: &schedule.title, drawing });
    let page = html(&[report]);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    for part in [
        "1 predicted",
        "1 partly",
        "1 not",
        "id=\"T1\"",
        "id=\"T2\"",
        "id=\"T3\"",
        "Author &amp; &lt;b&gt;Editor",
        "share at weight 3072",
        "67.5 to 82.5",
        "&gt; 60",
        "It gets its share.",
        "seeds 1 to 2",
        "id=\"tiny-fig-1\"",
        "href=\"#tiny-fig-1\"",
        "id=\"tiny-fig-1-turns\"",
        "experiments/shares.toml",
        "Nothing was chosen.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import") && !page.contains("url("));
    for at in page.match_indices("http").map(|(at, _)| at) {
        assert!(page[at..].starts_with("http://www.w3.org/2000/svg"), "{}", &page[at..at + 40]);
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    let svg = &page[page.find("<svg").expect("there is one")..page.find("</svg>").expect("there is one") + 6];
    assert!(Document::parse_with_options(svg, options).is_ok(), "{svg}");
}

#[test]
fn a_paper_of_which_nothing_is_measured_is_on_the_page_in_words() {
    let (paper, results) = tiny();
    let page = html(&[Report::new(&paper, None, |_| true).expect("there is nothing to judge")]);
    assert!(page.contains("not measured yet") && page.contains("T1, T2, T3"), "{page}");
    let one = Report::new(&paper, Some(results), |id| id == "T2").expect("it is judged");
    let page = html(&[one]);
    assert!(page.contains("id=\"T2\"") && !page.contains("id=\"T1\""), "{page}");
}

#[test]
fn a_caption_has_the_claims_with_their_verdicts_the_settings_and_the_meaning_of_the_intervals() {
    let (paper, mut results) = tiny();
    results.experiments["shares"][0].seeds[0].insert("share".to_string(), 20.0.into());
    let mut report = Report::new(&paper, Some(results), |id| id != "T3").unwrap_or_else(|problem| panic!("{problem}"));
    let caption = |report: Report<'_>| {
        let page = html(&[report]);
        let from = page.find("<figcaption>").expect("there is a figure");
        page[from..from + page[from..].find("</figcaption>").expect("it ends")].to_string()
    };
    let words = [report.verdicts[0].status, report.verdicts[1].status].map(|status| status.word());
    let claims = [paper.claims[0].claim.trim(), paper.claims[1].claim.trim()];
    let drawing = report.pictures[0].drawing.clone();
    let text = caption(report);
    for part in [
        "Fig 1: Shares.",
        "href=\"#T1\"",
        "not judged",
        claims[0],
        claims[1],
        &format!("class=\"{}\"", words[0]),
        &format!("class=\"{}\"", words[1]),
        "length = &quot;300ms&quot;",
        "simulation noise only",
        "They do not include the uncertainty of the model.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let Drawing::Figure(figure) = drawing else { panic!("it is a figure") };
    assert!(figure.has_intervals());
    let (_, results) = tiny();
    report = Report::new(&paper, Some(results), |_| true).unwrap_or_else(|problem| panic!("{problem}"));
    report.pictures[0].drawing = Drawing::Svg("<svg></svg>".to_string());
    let text = caption(report);
    assert!(text.contains("One run, with the first seed.") && !text.contains("simulation noise"), "{text}");
}
