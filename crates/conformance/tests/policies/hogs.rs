//! Hogs that start one after another, as in the measurements on real kernels.

use sched::{Descriptor, GroupId, GroupParams, Instant, Nanos, Params, Topology, Wake, Weight};
use sim::{Costs, Driver, Workload};
use trace::Sink;

/// Length of a run.
pub(crate) const LENGTH: Nanos = Nanos::s(10);

/// Returns the policy with this name.
pub(crate) fn policy(name: &str) -> &'static Descriptor {
    policies::find(name).expect("it is registered")
}

/// Where hogs run.
pub(crate) struct Place {
    /// Number of CPUs.
    pub(crate) cpus: usize,
    /// Whether the hogs form a group.
    pub(crate) grouped: bool,
}

/// Runs hogs with these nice values under `policy` with the knobs `settings`. The hogs start at intervals of `apart`.
pub(crate) fn play(
    place: &Place,
    policy: &'static Descriptor,
    settings: &[(&str, i64)],
    nice: &[i32],
    apart: Nanos,
    sink: impl Sink,
) {
    let mut knobs = policy.defaults();
    for &(name, value) in settings {
        knobs.set(name, value).expect("it is a knob");
    }
    let topology = Topology::new(place.cpus);
    let mut host = Driver::new(policy, topology, &knobs, Costs::NONE).expect("it works with these knobs");
    host.watch(sink);
    let group = if place.grouped {
        host.create_group("session", GroupParams::default(), GroupId::ROOT).expect("groups are supported")
    } else {
        GroupId::ROOT
    };
    for &nice in nice {
        let params = Params { weight: Weight::nice(nice).expect("it is in range"), group, ..Params::default() };
        let e = host.attach("hog", params, Workload::Scripted).expect("there is no reservation to refuse");
        host.wake(e, Wake::New { parent: None });
        let next = host.now() + apart;
        host.run_until(next);
    }
    host.finish(Instant::ZERO + LENGTH);
}
