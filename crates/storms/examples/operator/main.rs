//! An operator of Debian with systemd, libvirt and the package of Tactus. The program starts VMs of libvirt, executes each
//! command of the operator's page in order, and compares its output with the page. Then it checks the service: promises
//! beside hogs, after restarts and kills of its parts, while the clock is stepped, and while the disk is full.
//!
//! `cargo xtask vm-test guest-debian` runs this program as root in a guest. It changes the whole system, and must not run
//! on a host.
//!
//! Exit code 0: the commands and the checks passed. Exit code 1: one failed. Exit code 2: invalid input.

mod checks;
mod host;
mod page;

use anyhow::Result;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use sys::clock;

#[derive(Parser, Debug)]
#[command(about = "Executes the operator's page, and checks the service", version)]
struct Line {
    /// The operator's page, in Markdown
    #[arg(long)]
    page: PathBuf,
}

fn main() -> ExitCode {
    let line = Line::parse();
    let outcome = work(&line);
    if let Err(error) = &outcome {
        println!("error: {error:#}");
        let journal = host::run("journalctl --no-pager --lines 60 --identifier tactus --identifier tactus-core");
        println!("{}", journal.unwrap_or_default());
    }
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn work(line: &Line) -> Result<()> {
    let _process = host::prepare()?;
    page::execute(&std::fs::read_to_string(&line.page)?)?;
    for (name, check) in checks::ALL {
        let begin = clock::now();
        let figures = check().map_err(|error| error.context(format!("{name}: FAILED")))?;
        println!("{name}: ok ({figures}; {})", clock::now().since(begin));
    }
    Ok(())
}
