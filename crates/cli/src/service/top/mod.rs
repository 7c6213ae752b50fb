//! `tactus top`: what the VMs of the service are promised, receive, use and miss, as it changes, and keys to change it.
//!
//! [`model`] is the state and does no input or output, [`draw`] converts it to a frame, and [`worker`] waits for the
//! service.

mod columns;
mod draw;
mod history;
mod model;
mod order;
mod permission;
mod rates;
mod requests;
mod sample;
mod screen;
#[cfg(test)]
mod tests;
mod worker;

use super::views::client;
use crate::failure::Failure;
use crate::output;
use crate::service_args::Top;
use anyhow::{Context, anyhow};
use columns::{Column, fitting};
use model::{Effect, Model};
pub(crate) use order::Order;
use rates::Rates;
use report::Grid;
use sample::Service;
use sched::Nanos;
use screen::{Report, Screen, wait_for_report};
use std::io::IsTerminal;
use std::time::Duration;
use sys::clock;
use worker::{News, Worker};

/// Longest wait between two checks for interrupts.
const CHECK: Duration = Duration::from_millis(50);

pub(crate) fn top(args: &Top) -> Result<(), Failure> {
    let client = client(&args.at)?;
    let interval = input::duration::length(&args.interval)?;
    let count = if args.once { Some(1) } else { args.count };
    if args.at.json || count.is_some() || !std::io::stdout().is_terminal() {
        return print(&client, interval, count.unwrap_or(u64::MAX), args);
    }
    show(client, interval, args.order)
}

/// Prints `count` tables, or lines of JSON.
fn print(service: &impl Service, interval: Nanos, count: u64, args: &Top) -> Result<(), Failure> {
    let is_terminal = std::io::stdout().is_terminal();
    let width = terminal_size::terminal_size().filter(|_| is_terminal).map(|(width, _)| usize::from(width.0));
    let mut before = service.sample()?;
    for _ in 0..count {
        clock::sleep(interval);
        let after = service.sample()?;
        let mut rates = Rates::between(&before, &after);
        rates.sort(args.order);
        output::print(&match args.at.json {
            true => serde_json::to_string(&rates).map_err(anyhow::Error::from)? + "\n",
            false => table(&rates, width) + "\n",
        })?;
        before = after;
    }
    Ok(())
}

/// Returns the table with all columns, or with those that fit into `width` characters.
fn table(rates: &Rates, width: Option<usize>) -> String {
    if rates.vms.is_empty() {
        return "no VMs run here\n".to_string();
    }
    let needed = |column: Column| {
        let cells = rates.vms.iter().map(|vm| column.cell(vm).chars().count());
        (column, cells.chain([column.title().len()]).max().unwrap_or(0))
    };
    let all = Column::ALL.into_iter().filter(|column| *column != Column::Trend).map(needed).collect::<Vec<_>>();
    let shown = fitting(&all, width.unwrap_or(usize::MAX));
    // A grid aligns its first columns to the left, and all others to the right.
    let (left, right): (Vec<Column>, Vec<Column>) =
        shown.into_iter().map(|(column, _)| column).partition(|column| column.is_left());
    let count = left.len();
    let columns = [left, right].concat();
    let mut grid = Grid::new(columns.iter().map(|column| column.title().to_string()).collect(), count);
    rates.vms.iter().for_each(|vm| grid.add(columns.iter().map(|column| column.cell(vm)).collect()));
    grid.to_string()
}

/// Shows the VMs on the whole terminal until the user ends it.
fn show<S: Service + Clone + Send + 'static>(service: S, interval: Nanos, order: Order) -> Result<(), Failure> {
    // The first reading reports a service that does not run before the terminal changes.
    let first = service.sample()?;
    // An interrupt ends the loop below, which restores the terminal.
    let _in_order = output::end_in_order();
    let mut screen = Screen::open()?;
    let worker = Worker::start(service, interval, wait_for_report);
    let mut model = Model::new(first, interval, order, clock::now());
    screen.draw(&mut model)?;
    loop {
        let next = worker.news.recv_timeout(CHECK).ok();
        if output::is_interrupted() {
            return Err(Failure::Interrupted);
        }
        if worker.has_failed() {
            return Err(anyhow!("a thread of this program has failed").into());
        }
        let mut is_changed = model.tick(clock::now());
        for news in next.into_iter().chain(worker.news.try_iter()) {
            is_changed = true;
            let effects = match news {
                News::Report(report) => match report.context("cannot read from the terminal")? {
                    Report::Key(key) => model.key(key),
                    Report::Resized => Vec::new(),
                },
                News::Reply(reply) => model.reply(reply),
            };
            for effect in effects {
                match effect {
                    Effect::Ask(request) => worker.ask(request),
                    Effect::Quit => return Ok(()),
                    Effect::Interrupt => return Err(Failure::Interrupted),
                }
            }
        }
        if is_changed {
            screen.draw(&mut model)?;
        }
    }
}
