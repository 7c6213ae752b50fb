use super::at_once;
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::{At, Peer, Plan};
use crate::settings::CLIENTS_MAX;
use input::form;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Object, Step, TaskSpec};
use toml::de::DeValue;

/// The direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the application's machine to the machine outside.
    Out,
    /// From the machine outside to the application's machine.
    In,
}

/// Bulk transfers over the network, like iperf: each stream sends as fast as its window permits. The metric counts
/// received data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Iperf {
    /// Number of connections. Minimum: 1.
    pub streams: u32,
    /// Maximum amount of unacknowledged data per connection. Unit: bytes. Minimum: [`BLOCK`](Iperf::BLOCK).
    pub window: u64,
    /// Direction of the data.
    pub direction: Direction,
    /// CPU time to send or receive a block, excluding the handling of packets.
    pub work: Length,
}

impl Default for Iperf {
    fn default() -> Iperf {
        // The maximum window of TCP without window scaling (RFC 9293), rounded up to whole blocks. The work is the time
        // to copy a block at 4 GB/s.
        let (window, work) = (8 * Iperf::BLOCK, Length::Fixed(Nanos::us(2)));
        Iperf { streams: 1, window, direction: Direction::Out, work }
    }
}

impl Iperf {
    /// Size of a write and of a read. Source: option -l of iperf 2.0, 8 KB. Unit: bytes.
    pub const BLOCK: u64 = 8_192;

    /// Returns a sender and a receiver for each stream: one on the application's machine and one outside.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let mut plan = Plan::default();
        let (mut here, mut there) = (Application::default(), Application::default());
        for n in 0..self.streams {
            let add = |application: &mut Application, params, sends: bool| {
                let (bytes, work) = (Iperf::BLOCK, Step::Run(self.work));
                let object = match sends {
                    true => Object::Port { window: self.window },
                    false => Object::Inbox { room: 1 << 40 },
                };
                let pipe = application.share(format!("stream {n}"), object);
                let body = match sends {
                    true => vec![work, Step::Send { pipe, bytes }],
                    false => {
                        vec![Step::Receive { pipe, bytes }, Step::JobBegins { deadline: None }, work, Step::JobEnds]
                    }
                };
                let steps = vec![Step::Repeat { times: None, body }];
                application.tasks.push(TaskSpec { name: format!("stream-{n}"), params, delay: at_once(), steps });
                pipe
            };
            let sends = self.direction == Direction::Out;
            let (mine, other) = (add(&mut here, params, sends), add(&mut there, Params::default(), !sends));
            let (from, to) = if sends { ((0, mine), (1, other)) } else { ((1, other), (0, mine)) };
            // One acknowledgement is sent for every two full packets (RFC 5681, section 4.2).
            plan.link("stream", from, to).acks = Some(2);
            plan.measured = to.0;
        }
        plan.application = here;
        plan.peers.push(Peer { at: At::Outside, application: there });
        plan
    }
}

/// Maximum window. Unit: bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "iperf",
    title: "bulk transfers over the network, like iperf",
    keys: &["streams", "window", "direction", "work"],
    example: "{ iperf = { streams = 1 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Iperf::default();
    let window = |value: &DeValue<'_>| form::count("window", value, Iperf::BLOCK..=BYTES_MAX);
    let iperf = Iperf {
        streams: settings.few("streams", 1, CLIENTS_MAX, default.streams),
        window: settings.read("window", window).unwrap_or(default.window),
        direction: settings.read("direction", direction).unwrap_or(default.direction),
        work: settings.above_zero("work", default.work),
    };
    settings.done(iperf)
}

fn direction(value: &DeValue<'_>) -> Result<Direction, Wrong> {
    form::word("direction", value, &[("out", Direction::Out), ("in", Direction::In)], "\"out\" or \"in\"")
}

impl ApplicationWorkload for Iperf {
    fn tasks(&self) -> u64 {
        u64::from(self.streams)
    }

    fn plan(&self, params: Params) -> Plan {
        Iperf::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Transfer { bytes: Iperf::BLOCK })
    }
}
