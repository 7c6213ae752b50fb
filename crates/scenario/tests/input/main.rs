//! Tests of the input: the accepted values, and the errors for rejected values.

mod copies;
mod errors;
mod examples;
mod hostile;
mod knobs;
mod levels;
mod rtapp;
mod taskset;

use input::problem::Problems;
use miette::{GraphicalReportHandler, GraphicalTheme};

/// Returns problems as displayed on a terminal of 100 columns, without colours.
fn rendered(problems: &Problems) -> String {
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(100);
    handler.render_report(&mut text, problems.report().as_ref()).expect("a string takes any text");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}
