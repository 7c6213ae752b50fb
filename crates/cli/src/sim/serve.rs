//! `tactus sim --serve` and `tactus demo --page`: a scenario as a simulated host.

use super::plan::{Plan, plan};
use crate::args::Sim;
use crate::failure::{Failure, refused, usage};
use crate::output;
use anyhow::{Context, anyhow};
use page::Page;
use run::{Budget, Observers, Run};
use service::LocalService;
use simservice::{SimulatedHost, Speed};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Name of the socket in a temporary directory.
const SOCKET: &str = "tactus.sock";

/// Serves the scenario of `args` until this process is interrupted.
pub(super) fn run(args: &Sim) -> Result<(), Failure> {
    let plan = plan(args)?;
    if plan.choices.len() > 1 {
        return Err(usage("a simulated host has one policy".to_string(), "use --policy with one policy"));
    }
    let Plan { scenario, choices, seed, .. } = &plan;
    let title = format!("{} under {}, simulated at speed {}", scenario.name, choices[0].name(), args.serving.speed);
    let serving = &args.serving;
    serve(&plan.run(&choices[0], *seed), &title, serving.speed, serving.socket.as_deref(), serving.page)
}

/// Serves a run as a simulated host at `socket`, by default in a temporary directory, until this process is interrupted.
/// With `has_page`, prints the address of its page.
pub(crate) fn serve(
    run: &Run,
    title: &str,
    speed: Speed,
    socket: Option<&Path>,
    has_page: bool,
) -> Result<(), Failure> {
    // The problems of the scenario have their places, as without a service.
    run.start(Observers::none())?.step(Budget::STEP)?;
    SimulatedHost::new(run, speed, Arc::default()).map_err(|reason| refused(&reason))?;
    let in_order = output::end_in_order();
    // Only this user may enter it.
    let own = TempDir::with_prefix("tactus-").context("cannot create a directory for the socket")?;
    let socket = socket.map_or_else(|| own.path().join(SOCKET), Path::to_path_buf);
    let service = LocalService::open(&socket).map_err(|reason| refused(&reason))?;
    let page = has_page.then(|| Page::open(socket.clone(), 0)).transpose().map_err(|reason| refused(&reason))?;
    output::complain(&format!("serving {title}, at {0}; try `tactus top --socket {0}`", socket.display()));
    if let Some(page) = &page {
        output::print(&format!("{}\n", page.url()))?;
        output::complain("open the address in a browser; it admits one browser, and works until this command ends");
    }
    let run = run.clone();
    let begin = move |events| SimulatedHost::new(&run, speed, events);
    let paging = page.map(|page| std::thread::spawn(move || page.serve(output::is_interrupted)));
    let served = service.serve(begin, output::is_interrupted);
    if let Some(paging) = paging.filter(|_| served.is_ok()) {
        let paged = paging.join().map_err(|_| anyhow!("the page has failed"))?;
        paged.context("the page has failed")?;
    }
    drop(own);
    drop(in_order);
    served.map_err(|reason| Failure::Failed(anyhow!("{reason}")))
}
