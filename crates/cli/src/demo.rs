//! `tactus demo`: three kinds of work on this machine, first as the kernel schedules them, then under promises.

mod live;
mod outcome;
mod progress;
mod seen;
mod simulated;

use crate::args::Demo;
use crate::record::Window;
use crate::run::plan;
use crate::{Failure, output};
use daemon::Reason;
use sched::{Instant, Nanos};

/// How wide the drawing is: whole milliseconds, one to a cell.
const CELLS: usize = 84;
/// How many are drawn: the two with deadlines and a few of the others.
const ROWS_MOST: usize = 5;
/// How many the picture shows: all of them on two CPUs.
const PICTURE_ROWS_MOST: usize = 14;
/// Where the picture goes.
const PICTURE: &str = "demo.svg";
/// Where everything that happened goes.
const TRACE: &str = "demo.json";

const SCENARIO: &str = include_str!("../../../scenarios/demo.toml");

pub(crate) fn run(args: &Demo) -> Result<(), Failure> {
    if args.simulated {
        return simulated::run(args, &Reason::new("as was asked for", ""));
    }
    match plan::terms(None).and_then(|terms| live::is_possible(&terms).map(|()| terms)) {
        Ok(terms) => live::run(args, &terms),
        Err(Failure::Usage(report)) => {
            let why = Reason::new(report.to_string(), report.help().map(|help| help.to_string()).unwrap_or_default());
            output::complain(&format!("{}\n{}", why.why, why.remedy));
            simulated::run(args, &why)
        }
        Err(other) => Err(other),
    }
}

/// What is drawn: a stretch from the middle, when whatever builds up has built up.
fn window(length: Nanos) -> Window {
    let from = Instant::ZERO + Nanos::ms(length.as_ns() / 2_000_000 / 100 * 100);
    Window { from, to: from + Nanos::ms(CELLS as u64) }
}
