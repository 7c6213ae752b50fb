//! [`RunTerms`]: the terms of the promises of a run.

use super::plan::{Plan, PlannedProcess, directory};
use crate::failure::{Failure, refused};
use crate::measurement;
use crate::output;
use crate::raising::Raising;
use daemon::Explanation;
use daemon::directory::Directory;
use daemon::dispatch::KeptBy;
use daemon::doctor::{self, Mechanism};
use daemon::host_profile::HostProfile;
use daemon::live::Setup;
use daemon::terms::Terms;

/// The terms of the promises of a run, one for each mechanism.
pub(crate) struct RunTerms {
    /// Mechanism of the promises that request none.
    usual: Raising,
    /// At least one: the terms of the usual mechanism if a promise has it, or if there are no promises.
    all: Vec<(Raising, Terms)>,
}

impl RunTerms {
    /// Returns the terms on which this host keeps the promises of `plan`. A promise that requests no mechanism has the
    /// mechanism `usual`.
    ///
    /// # Errors
    /// A mechanism does not work on this host.
    pub(crate) fn of(plan: &Plan, usual: Raising) -> Result<RunTerms, Failure> {
        let promised = plan.processes.iter().filter(|planned| planned.request.is_some());
        let mut wanted: Vec<Raising> = promised.map(|planned| planned.mechanism.unwrap_or(usual)).collect();
        if wanted.is_empty() {
            wanted.push(usual);
        }
        // Promises by turns come first, because the report shows their policy.
        wanted.sort_unstable();
        wanted.dedup();
        let all = wanted.into_iter().map(|raising| Ok((raising, on_this_host(raising)?)));
        Ok(RunTerms { usual, all: all.collect::<Result<_, Failure>>()? })
    }

    /// Returns the terms of the promise to a process.
    pub(crate) fn for_process(&self, planned: &PlannedProcess) -> &Terms {
        let wanted = planned.mechanism.unwrap_or(self.usual);
        self.all.iter().find(|(raising, _)| *raising == wanted).map_or(self.first(), |(_, terms)| terms)
    }

    /// Returns what keeps the promise to a process.
    pub(crate) fn by(&self, planned: &PlannedProcess) -> KeptBy {
        self.for_process(planned).by()
    }

    /// Returns the terms whose policy the report names.
    pub(crate) fn first(&self) -> &Terms {
        &self.all[0].1
    }

    /// Returns the parameters of the daemon.
    pub(crate) fn setup(&self, directory: Directory) -> Setup {
        Terms::setup(self.all.iter().map(|(_, terms)| terms), directory)
    }

    /// Returns the terms as sentences for users.
    pub(crate) fn in_words(&self) -> String {
        Terms::in_words(&self.all.iter().map(|(_, terms)| terms).collect::<Vec<_>>())
    }
}

/// Returns the terms of promises by one mechanism on this host: the share of each CPU that may be promised, and the knobs of
/// the policy.
pub(crate) fn on_this_host(mechanism: Raising) -> Result<Terms, Failure> {
    let host = HostProfile::read().map_err(|error| refused(&error.into()))?;
    let policy = |name: &str| policies::find(name).expect("it is registered");
    let inheritance = match mechanism {
        Raising::Deadline => {
            let terms = Terms::by_deadline(&host, policy(daemon::terms::DEADLINE_POLICY));
            return terms.map_err(|reason| refused(&reason));
        }
        Raising::Fifo => Err(Explanation::new("as requested", "")),
        Raising::Auto | Raising::Inherit => doctor::examine(Mechanism::Inheritance).verdict.map(drop),
    };
    let measured = match mechanism {
        Raising::Auto => directory(None).ok().and_then(|directory| {
            let found = measurement::of_this_boot(&directory);
            found.inspect_err(|why| output::complain(&why.to_string())).unwrap_or_default()
        }),
        _ => None,
    };
    match (mechanism, &inheritance) {
        (Raising::Inherit, Err(reason)) => Err(refused(reason)),
        _ => Terms::on(&host, policy(daemon::terms::POLICY), inheritance, measured.as_ref())
            .map_err(|reason| refused(&reason)),
    }
}
