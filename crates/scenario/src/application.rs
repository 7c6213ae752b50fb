//! Converts the workload of a VM or task to the workload of an entity or to an application.

use super::Workload;
use super::asked::Asked;
use super::tables::MemberTable;
use super::work::Work;
use crate::rtapp::RtApp;
use input::files::resolved;
use input::problem::{Findings, Problem, Wrong};
use input::source::Span;
use workloads::metrics::Metric;
use workloads::network::{Peer, Plan, Reach};

use sched::{Nanos, Params, Topology};
use sim::Application;
use std::collections::BTreeMap;

/// Maximum number of rt-app events in a scenario. A file counts once per member that uses the file.
const EVENTS_MAX: u64 = 1 << 22;

/// The workload of a member, as the scenario stores it.
#[derive(Debug)]
pub(super) enum Made {
    Entity(Workload),
    Application {
        application: Box<Application>,
        reach: Box<Reach>,
        /// Time from the arrival of the application until its unfinished tasks leave, if limited.
        duration: Option<Nanos>,
        metric: Option<Metric>,
        place: Span,
    },
}

/// The rt-app files that have been read.
#[derive(Debug, Default)]
pub(super) struct Applications {
    /// Files by path. `None`: the file has a problem, which has been reported.
    files: BTreeMap<String, Option<RtApp>>,
    /// Number of events so far. A file counts once per member that uses the file.
    events: u64,
}

impl Applications {
    /// Converts `work`, the workload of `member` at span `at`. Returns the result, and the number of its tasks that the
    /// caller has not counted yet. `None`: the workload has a problem, which has been reported.
    pub(super) fn make(
        &mut self,
        work: &Work,
        at: Span,
        member: &MemberTable,
        asked: &Asked,
        host: Option<&Topology>,
        findings: &mut Findings,
    ) -> Option<(Made, u64)> {
        match work {
            Work::Entity(workload) => Some((Made::Entity(*workload), 1)),
            Work::Application(workload) => {
                let Plan { application, peers, links, measured, exchange } = workload.plan(asked.params);
                let name = member.group.name.value_ref().map_or("", String::as_str);
                let called = |peer: Peer| Peer { application: workloads::within(name, &peer.application), ..peer };
                let peers = peers.into_iter().map(called).collect();
                let (application, reach) =
                    (Box::new(application), Box::new(Reach { peers, links, measured, exchange }));
                Some((
                    Made::Application { application, reach, duration: None, metric: workload.metric(), place: at },
                    0,
                ))
            }
            Work::RtApp(file) => {
                asks_itself(member, at, findings);
                let path = resolved(findings.source().name(), file);
                let app = match self.files.entry(path) {
                    std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::btree_map::Entry::Vacant(new) => {
                        let read = RtApp::read(new.key(), &*findings.files())
                            .map_err(|problems| findings.include(at, problems));
                        new.insert(read.ok())
                    }
                };
                let app = app.as_ref()?;
                self.events = self.events.saturating_add(app.events);
                if self.events > EVENTS_MAX {
                    let problem =
                        Problem::new("the files of rt-app have too many events").at(at, "too many from here on");
                    findings.add(problem.help(format!("use at most {EVENTS_MAX}, of all their threads")));
                    return None;
                }
                runs_here(&app.asked, host, at, findings);
                let application = Box::new(app.application.clone());
                let made = Made::Application {
                    application,
                    reach: Box::default(),
                    duration: app.duration,
                    metric: None,
                    place: at,
                };
                Some((made, app.threads as u64))
            }
        }
    }
}

/// Reports parameters of a member with an rt-app file. In the file, each thread has its own parameters.
fn asks_itself(member: &MemberTable, work: Span, findings: &mut Findings) {
    let asked = [
        (member.group.weight.at(), "share"),
        (member.slice.at(), "slice"),
        (member.period.at(), "period"),
        (member.affinity.at(), "affinity"),
        (member.class.at(), "class"),
        (member.latency.at(), "latency"),
        (member.warp.at(), "warp"),
    ];
    for (at, what) in asked {
        if let Some(at) = at {
            let problem = Problem::new(format!("the threads of a file of rt-app have a {what} of their own"))
                .at(at, "not for a file");
            let right = "set it in the file, or in a parent [[group]]";
            findings.add(problem.at(work, "the file").help(right));
        }
    }
}

/// Checks that every thread may run on some CPU of `host`.
fn runs_here(asked: &[(String, Params)], host: Option<&Topology>, at: Span, findings: &mut Findings) {
    let Some(host) = host else { return };
    for (name, params) in asked {
        let placed = Params { affinity: params.affinity, ..Params::default() };
        if let Err(refused) = placed.check(host) {
            findings.add(Wrong::from(&refused).said_of(name).at(at));
        }
    }
}
