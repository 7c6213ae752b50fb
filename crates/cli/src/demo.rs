//! `tactus demo`: three kinds of work on this machine, first as the kernel schedules them, then under promises.

mod live;
mod outcome;
mod seen;
mod simulated;

use crate::args::Demo;
use crate::failure::Failure;
use crate::output;
use crate::record::Window;
use crate::run::plan;
use daemon::Explanation;
use sched::{Instant, Nanos};

/// Width of the drawing: one cell per millisecond.
const CELLS: usize = 84;
/// Number of rows in the drawing: the two VMs with deadlines and a few others.
const ROWS_MOST: usize = 5;
/// Number of rows in the picture: all VMs on two CPUs.
const PICTURE_ROWS_MOST: usize = 14;
/// File of the picture.
const PICTURE: &str = "demo.svg";
/// File of the trace.
const TRACE: &str = "demo.json";

const SCENARIO: &str = include_str!("../../../scenarios/demo.toml");

pub(crate) fn run(args: &Demo) -> Result<(), Failure> {
    if args.simulated {
        return simulated::run(args, &Explanation::new("as was asked for", ""));
    }
    match plan::terms().and_then(|terms| live::is_possible().map(|()| terms)) {
        Ok(terms) => live::run(args, &terms),
        Err(Failure::Usage(report)) => {
            let why =
                Explanation::new(report.to_string(), report.help().map(|help| help.to_string()).unwrap_or_default());
            output::complain(&format!("{}\n{}", why.reason, why.remedy));
            simulated::run(args, &why)
        }
        Err(other) => Err(other),
    }
}

/// The window to draw: from the middle of the run, after any transient.
fn window(length: Nanos) -> Window {
    let from = Instant::ZERO + Nanos::ms(length.as_ns() / 2_000_000 / 100 * 100);
    Window { from, to: from + Nanos::ms(CELLS as u64) }
}
