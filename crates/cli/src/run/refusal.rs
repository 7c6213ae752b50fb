//! A refused promise as JSON.

use daemon::Explanation;
use daemon::dispatch::{Alternatives, NoRoom};
use daemon::interfering::{self, InterferingThread};
use sched::Nanos;
use serde::Serialize;

/// A run whose promise was refused.
#[derive(Serialize)]
pub(super) struct RefusedRun {
    /// A refused run has measured nothing.
    simulated: bool,
    refused: RefusedPromise,
}

#[derive(Serialize)]
struct RefusedPromise {
    name: String,
    reason: String,
    remedy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    alternatives: Option<Ways>,
}

/// Changes that each make room for the promise. `null`: no such change makes room.
#[derive(Serialize)]
struct Ways {
    slice_ns: Option<u64>,
    period_ns: Option<u64>,
    cpus: Option<usize>,
    affinity: Option<String>,
    end_of: Vec<String>,
    end_of_threads: Vec<u32>,
    held: Vec<Held>,
    interfering: Vec<Interfering>,
}

/// A thread of another program that runs above all clients.
#[derive(Serialize)]
struct Interfering {
    tid: u32,
    name: String,
    affinity: String,
    demand: Demand,
}

/// What an interfering thread may take: a reservation of the kernel, or its observed share of a CPU.
#[derive(Serialize)]
#[serde(untagged)]
enum Demand {
    Reserved { runtime_ns: u64, period_ns: u64, overrun_ns: u64 },
    Observed { priority: u32, share_ppm: u64 },
}

/// An existing promise on a CPU. `cpu` is `null` if the kernel runs the client on any CPU.
#[derive(Serialize)]
struct Held {
    name: String,
    cpu: Option<usize>,
    slice_ns: u64,
    period_ns: u64,
}

impl RefusedRun {
    /// Returns the report of a refusal of the promise to `name`. `ways` has what would make room.
    pub(super) fn new(name: &str, why: &Explanation, ways: Option<(&NoRoom, &Alternatives)>) -> RefusedRun {
        let alternatives = ways.map(|(room, ways)| Ways {
            slice_ns: ways.slice.map(Nanos::as_ns),
            period_ns: ways.period.map(Nanos::as_ns),
            cpus: ways.cpus,
            affinity: ways.affinity.map(|cpus| cpus.to_string()),
            end_of: ways.ends.clone(),
            end_of_threads: ways.threads.iter().map(|thread| thread.tid).collect(),
            held: room.held().iter().map(Held::of).collect(),
            interfering: room.interfering().iter().map(Interfering::of).collect(),
        });
        let (reason, remedy) = (why.reason.to_string(), why.remedy.to_string());
        RefusedRun {
            simulated: false,
            refused: RefusedPromise { name: name.to_string(), reason, remedy, alternatives },
        }
    }
}

impl Interfering {
    fn of(thread: &InterferingThread) -> Interfering {
        let demand = match thread.demand {
            interfering::Demand::Reserved { runtime, period, overrun } => {
                let [runtime_ns, period_ns, overrun_ns] = [runtime, period, overrun].map(Nanos::as_ns);
                Demand::Reserved { runtime_ns, period_ns, overrun_ns }
            }
            interfering::Demand::Observed { priority, ppm } => Demand::Observed { priority, share_ppm: ppm },
        };
        Interfering { tid: thread.tid, name: thread.name.clone(), affinity: thread.cpus.to_string(), demand }
    }
}

impl Held {
    fn of(held: &daemon::dispatch::HeldPromise) -> Held {
        let sched::Reservation { slice, period, .. } = held.reservation;
        Held {
            name: held.name.clone(),
            cpu: held.cpu.map(sched::CpuId::index),
            slice_ns: slice.as_ns(),
            period_ns: period.as_ns(),
        }
    }
}
