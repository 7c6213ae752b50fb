//! `tactus top`: what the VMs of the service use, need and miss, as it changes.

mod columns;
mod order;
mod rates;
mod screen;

use super::views::client;
use crate::failure::Failure;
use crate::output;
use crate::service_args::Top;
use api::Client;
use columns::{COLUMNS, cells};
pub(crate) use order::Order;
use rates::{Rates, Sample};
use report::Grid;
use sched::Nanos;
use screen::{Key, Screen};
use std::io::IsTerminal;
use sys::clock;

/// Longest wait between two checks for keys and interrupts.
const CHECK: Nanos = Nanos::ms(50);

pub(crate) fn top(args: &Top) -> Result<(), Failure> {
    let client = client(&args.at)?;
    let interval = input::duration::length(&args.interval)?;
    let count = args.count.unwrap_or(u64::MAX);
    if args.at.json || args.count.is_some() || !std::io::stdout().is_terminal() {
        return print(&client, interval, count, args);
    }
    show(&client, interval, args.order)
}

/// Prints `count` tables, or lines of JSON.
fn print(client: &Client, interval: Nanos, count: u64, args: &Top) -> Result<(), Failure> {
    let mut before = Sample::read(client)?;
    for _ in 0..count {
        clock::sleep(interval);
        let after = Sample::read(client)?;
        let mut rates = Rates::between(&before, &after);
        rates.sort(args.order);
        output::print(&match args.at.json {
            true => serde_json::to_string(&rates).map_err(anyhow::Error::from)? + "\n",
            false => table(&rates) + "\n",
        })?;
        before = after;
    }
    Ok(())
}

fn table(rates: &Rates) -> String {
    if rates.vms.is_empty() {
        return "no VMs run here\n".to_string();
    }
    let left = COLUMNS.iter().take_while(|(_, is_left)| *is_left).count();
    let mut grid = Grid::new(COLUMNS.map(|(title, _)| title.to_string()).to_vec(), left);
    cells(rates).for_each(|row| grid.add(row.to_vec()));
    grid.to_string()
}

/// Shows the table on the whole terminal until the user ends it.
fn show(client: &Client, interval: Nanos, mut order: Order) -> Result<(), Failure> {
    let mut before = Sample::read(client)?;
    let mut rates = Rates::between(&before, &before);
    let mut screen = Screen::open()?;
    let mut next = clock::now().saturating_add(interval);
    loop {
        rates.sort(order);
        screen.draw(&rates, order, interval)?;
        loop {
            match screen.key(next.saturating_since(clock::now()).min(CHECK))? {
                Some(Key::End) => return Ok(()),
                Some(Key::Order(chosen)) => {
                    order = chosen;
                    break;
                }
                Some(Key::Resized) => break,
                None if output::is_interrupted() => return Err(Failure::Interrupted),
                None => {}
            }
            if clock::now() >= next {
                let after = Sample::read(client)?;
                rates = Rates::between(&before, &after);
                before = after;
                next = clock::now().saturating_add(interval);
                break;
            }
        }
    }
}
