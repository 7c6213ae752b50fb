//! Reads recorded numbers of instructions, and checks whether a program takes more instructions than the record allows.

use serde::Deserialize;
use std::fmt::Write as _;

/// Accepted excess over the recorded number of instructions. Unit: percent.
pub(crate) const MORE_MOST: u64 = 3;
/// Maximum number of instructions of the command on set B, relative to the bare loop.
const COMMAND_MOST: f64 = 2.0;
/// Maximum number of instructions on the two-level scenario, relative to the first record.
const TWO_LEVELS_MOST: f64 = 0.6;

/// Instructions of each program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    /// Instructions of the bare event loop on set B.
    pub(crate) bare_loop: u64,
    /// Instructions of the simulator's driver on set B, without observers.
    pub(crate) core: u64,
    /// Instructions of `tactus sim --tasks` on set B, including its report.
    pub(crate) command: u64,
    /// Instructions of `tactus sim scenarios/bench-two-level.toml`, including its report.
    pub(crate) two_levels: u64,
}

impl Counts {
    fn rows(&self) -> [(&'static str, u64); 4] {
        [("bare_loop", self.bare_loop), ("core", self.core), ("command", self.command), ("two_levels", self.two_levels)]
    }
}

/// The counts of one commit.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    /// Commit of the counted sources, and a description of its change.
    pub(crate) state: String,
    /// Compiler that built the counted programs.
    pub(crate) rustc: String,
    /// Instructions of the programs.
    pub(crate) counts: Counts,
}

/// All records, oldest first. The last record is the reference.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    recorded: Vec<Column>,
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// The text is not TOML in this format, or contains no counts.
    pub(crate) fn parse(text: &str) -> Result<Record, String> {
        let record: Record = toml::from_str(text).map_err(|error| error.to_string())?;
        if record.recorded.is_empty() {
            return Err("nothing is recorded".to_string());
        }
        Ok(record)
    }

    fn first(&self) -> &Counts {
        &self.recorded[0].counts
    }

    fn last(&self) -> &Counts {
        &self.recorded[self.recorded.len() - 1].counts
    }

    /// Returns the programs that take more instructions than the last recorded counts allow.
    pub(crate) fn exceeded(&self, counts: &Counts) -> Vec<&'static str> {
        let pairs = counts.rows().into_iter().zip(self.last().rows());
        let over = pairs.filter(|&((_, now), (_, then))| 100 * now > (100 + MORE_MOST) * then);
        over.map(|((name, _), _)| name).collect()
    }

    /// Returns a table of `counts` beside the record, followed by a line for each bound that states whether it is met.
    pub(crate) fn compare(&self, counts: &Counts) -> String {
        let mut table = String::new();
        let line = |name: &str, cells: [String; 5]| {
            format!("  {name:<12}{}\n", cells.map(|cell| format!("{cell:>16}")).concat())
        };
        let heads = ["now", "recorded", "more", "bare loops", "of the first"];
        table += &line("", heads.map(str::to_string));
        let exceeded = self.exceeded(counts);
        let rows = counts.rows().into_iter().zip(self.last().rows()).zip(self.first().rows());
        for (((name, now), (_, then)), (_, first)) in rows {
            let over = if exceeded.contains(&name) { "  MORE than recorded" } else { "" };
            let cells = [
                now.to_string(),
                then.to_string(),
                format!("{:+.2} %", percent_more(now, then)),
                format!("{:.2}", ratio(now, counts.bare_loop)),
                format!("{:.1} %", 100.0 * ratio(now, first)),
            ];
            table += line(name, cells).trim_end();
            table += over;
            table += "\n";
        }
        let met = |met: bool| if met { "met" } else { "NOT met" };
        let command = ratio(counts.command, counts.bare_loop);
        let two_levels = ratio(counts.two_levels, self.first().two_levels);
        let _ = writeln!(table, "  command at most {COMMAND_MOST:.1} bare loops: {}", met(command <= COMMAND_MOST));
        let _ = writeln!(
            table,
            "  two levels at most {:.0} % of the first record: {}",
            100.0 * TWO_LEVELS_MOST,
            met(two_levels <= TWO_LEVELS_MOST)
        );
        table
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio is shown with two digits")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn percent_more(now: u64, then: u64) -> f64 {
    100.0 * (ratio(now, then) - 1.0)
}
