//! Tests of the printed numbers of the papers, and of their marks in plots.

use crate::all::papers;
use crate::tiny::Tiny;
use lab::experiment::{Kind, Plot};
use lab::plot::Figure;
use lab::{Paper, Printed};

/// Returns the plots of `paper` and of its live part.
fn plots(paper: &Paper) -> impl Iterator<Item = &Plot> {
    let live = paper.live.iter().flat_map(|live| &live.experiments);
    paper.experiments.iter().chain(live).flat_map(|experiment| &experiment.plot)
}

/// Returns the references to the printed numbers of `paper` that no plot marks, and whose place has no reason for this.
fn unmarked(paper: &Paper) -> Vec<String> {
    let printed = Printed::of(&paper.directory).unwrap_or_else(|problem| panic!("{problem}"));
    let marked: Vec<&String> = plots(paper).flat_map(Plot::references).collect();
    let is_marked = |reference: &str| marked.iter().any(|other| *other == reference);
    let mut open = Vec::new();
    for (name, place) in printed.places.iter().filter(|(_, place)| place.no_plot.is_none()) {
        for (series, numbers) in &place.series {
            let series = format!("{name}/{series}");
            let references = numbers.keys().map(|position| format!("{series}/{position}"));
            open.extend(references.filter(|reference| !is_marked(&series) && !is_marked(reference)));
        }
    }
    open
}

#[test]
fn every_printed_number_is_a_mark_or_has_a_reason() {
    for paper in papers() {
        assert!(paper.directory.join(lab::printed::PRINTED).is_file(), "{}", paper.key);
        assert_eq!(unmarked(&paper), Vec::<String>::new(), "{}", paper.key);
    }
}

#[test]
fn a_printed_number_without_a_mark_is_found() {
    assert_eq!(unmarked(&Tiny::new().paper()), Vec::<String>::new());
    let more = Tiny::but("printed.toml", "3072 = 75", "3072 = 75\n[fig-1.series.round-robin]\n2048 = 50");
    assert_eq!(unmarked(&more.paper()), ["fig-1/round-robin/2048"]);
    let excused = Tiny::but("experiments/shares.toml", "paper = { \"eevdf\" = \"fig-1/eevdf\" }", "");
    assert_eq!(unmarked(&excused.paper()).len(), 2);
    let text = std::fs::read_to_string(excused.path("printed.toml")).expect("it is there");
    excused.write("printed.toml", &text.replace("page = 1", "page = 1\nno_plot = \"It is a test.\""));
    assert_eq!(unmarked(&excused.paper()), Vec::<String>::new());
}

#[test]
fn a_plot_with_an_unknown_printed_number_is_refused() {
    let tiny = Tiny::but("experiments/shares.toml", "\"fig-1/eevdf\"", "\"fig-2/eevdf\"");
    let said = tiny.read().expect_err("there is no figure 2").to_string();
    assert!(said.contains("the plot `fig-1`") && said.contains("no place `fig-2`") && said.contains("fig-1"), "{said}");
}

fn plot(key: &str, name: &str) -> (Paper, Plot) {
    let paper = papers().into_iter().find(|paper| paper.key == key).expect("the paper is there");
    let plot = plots(&paper).find(|plot| plot.name == name).cloned();
    (paper, plot.unwrap_or_else(|| panic!("{key} has no plot {name}")))
}

/// Returns the picture of the recorded results.
fn svg(key: &str, name: &str) -> String {
    let (paper, plot) = plot(key, name);
    let results = paper.recorded().unwrap_or_else(|problem| panic!("{problem}")).expect("results are recorded");
    let has_it = |plot: &&lab::Experiment| plot.plot.iter().any(|plot| plot.name == name);
    let experiment = paper.experiments.iter().find(has_it).expect("the plot is there");
    let figure = Figure::of(key, experiment, &plot, &results).unwrap_or_else(|problem| panic!("{problem}"));
    figure.expect("it has results").svg()
}

#[test]
fn figures_5_7_and_11_of_vsched_show_what_the_paper_shows() {
    let (_, fig_5) = plot("vsched-2005", "fig-5");
    assert_eq!((fig_5.kind, fig_5.x.as_str(), fig_5.y.as_str()), (Kind::Points, "utilisation", "miss_rate"));
    let (_, fig_7) = plot("vsched-2005", "fig-7");
    assert_eq!((fig_7.kind, fig_7.rows.as_deref()), (Kind::Surface, Some("period_us")));
    let (_, fig_11) = plot("vsched-2005", "fig-11");
    assert_eq!(fig_11.only.get("policy"), Some(&"vsched".into()), "EEVDF has a figure of its own");
    assert_eq!(fig_11.printed.values().map(Vec::len).sum::<usize>(), 60, "all cells of the figure");
}

#[test]
fn table_1_of_xen_has_only_schedulers_with_its_parameter() {
    let svg = svg("xen-three-2007", "table-1");
    assert!(svg.contains("sedf, not wc (paper)") && !svg.contains("credit") && !svg.contains("eevdf"), "{svg}");
}

#[test]
fn histograms_have_bins_and_hosts_are_whole() {
    for name in ["fig-2", "fig-3"] {
        let (_, histogram) = plot("coordinated-2015", name);
        assert!(histogram.kind == Kind::Distribution && histogram.bins.is_some_and(|bins| bins >= 10), "{name}");
    }
    for name in ["fig-10", "fig-11"] {
        let svg = svg("poris", name);
        assert!(svg.contains("hosts of four VMs") && svg.lines().all(|line| line.trim() != "1.5"), "{name}: {svg}");
    }
}
