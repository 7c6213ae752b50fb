use crate::ApplicationWorkload;
use crate::ROUNDS_MAX;
use crate::Selected;
use crate::Settings;
use crate::TASKS_MAX;
use crate::WorkloadDescriptor;
use crate::network::Plan;
use input::form;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::{Length, ObjectId};
use sim::{Application, Object, Step, TaskSpec};
use std::sync::Arc;
use toml::de::DeValue;

/// The type of channel that carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// Pairs of Unix stream sockets.
    Sockets,
    /// Pipes.
    Pipes,
}

/// Groups in which every sender writes to every receiver. Source: tools/perf/bench/sched-messaging.c, v6.12. Each group
/// has `fds` senders and `fds` receivers. Each sender writes one message to each receiver, `loops` times. Each task
/// waits until all tasks have started and the parent releases them together. The measurement lasts from this release to
/// the end of the last task.
///
/// A scheduler treats processes and threads in the same way, so the workload has no setting for this choice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hackbench {
    /// Number of groups. Minimum: 1.
    pub groups: u32,
    /// Number of senders, and of receivers, in each group. Range: 1 to [`FDS_MAX`](Hackbench::FDS_MAX).
    pub fds: u32,
    /// Number of messages from each sender to each receiver. Minimum: 1.
    pub loops: u64,
    /// Size of a message. Unit: bytes. Range: 1 to [`DATASIZE_MAX`](Hackbench::DATASIZE_MAX).
    pub datasize: u64,
    /// Type of channel that carries the messages.
    pub channel: Channel,
    /// CPU time to send or to receive a message.
    pub work: Length,
}

impl Default for Hackbench {
    /// Returns the defaults of `perf bench sched messaging`.
    fn default() -> Hackbench {
        Hackbench {
            groups: 10,
            fds: 20,
            loops: 100,
            datasize: 100,
            channel: Channel::Sockets,
            // Approximate time of a system call and a copy of 100 bytes.
            work: Length::Fixed(Nanos::us(1)),
        }
    }
}

impl Hackbench {
    /// Maximum number of senders of a group. The senders of a group have two steps per receiver.
    pub const FDS_MAX: u32 = 1000;
    /// Maximum size of a message: the capacity of a pipe. Unit: bytes.
    pub const DATASIZE_MAX: u64 = 65_536;

    /// Returns the number of tasks, including the parent.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        1 + 2 * u64::from(self.groups) * u64::from(self.fds)
    }

    /// Returns the capacity of a channel. Unit: bytes.
    fn capacity(&self) -> u64 {
        match self.channel {
            // A pipe has 16 pages. A message that does not fit into the rest of a page begins the next page (fs/pipe.c,
            // pipe_write).
            Channel::Pipes if self.datasize <= 4096 => 16 * (4096 / self.datasize) * self.datasize,
            Channel::Pipes => 65_536,
            // net.core.wmem_default is 212,992 bytes. A message takes a buffer (a power of two of at least 512 bytes,
            // including 320 bytes of overhead) and 256 bytes for the sk_buff (net/unix/af_unix.c, unix_stream_sendmsg;
            // SKB_TRUESIZE).
            Channel::Sockets => {
                let buffer = (self.datasize + 320).next_power_of_two().max(512) + 256;
                (212_992 / buffer).max(1) * self.datasize
            }
        }
    }

    /// Returns the parent, which forks all other tasks.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let children = u32::try_from(self.tasks() - 1).unwrap_or(u32::MAX - 1);
        let ready = application.share("ready", Object::Semaphore { most: children });
        let start = application.share("start", Object::Barrier { parties: children + 1 });
        let task = |name: String, steps| Arc::new(TaskSpec { name, params, delay: Length::Fixed(Nanos::ZERO), steps });
        let mut steps = Vec::new();
        for group in 0..self.groups {
            let pipes: Vec<ObjectId> = (0..self.fds)
                .map(|receiver| {
                    let pipe = Object::Pipe { capacity: self.capacity() };
                    application.share(format!("group-{group} receiver-{receiver}"), pipe)
                })
                .collect();
            for (receiver, &pipe) in pipes.iter().enumerate() {
                let body = vec![Step::Receive { pipe, bytes: self.datasize }, Step::Run(self.work)];
                let times = Some(self.loops.saturating_mul(u64::from(self.fds)));
                let steps_of = vec![Step::Post(ready), Step::Barrier(start), Step::Repeat { times, body }];
                steps.push(Step::Fork(task(format!("group-{group}-receiver-{receiver}"), steps_of)));
            }
            // All senders of a group have the same steps.
            let sends =
                pipes.iter().flat_map(|&pipe| [Step::Send { pipe, bytes: self.datasize }, Step::Run(self.work)]);
            let messages = Step::Repeat { times: Some(self.loops), body: sends.collect() };
            let sender = task(format!("group-{group}-sender"), vec![Step::Post(ready), Step::Barrier(start), messages]);
            steps.push(Step::Repeat { times: Some(u64::from(self.fds)), body: vec![Step::Fork(sender)] });
        }
        steps.extend([
            Step::Repeat { times: Some(u64::from(children)), body: vec![Step::Take(ready)] },
            Step::JobBegins { deadline: None },
            Step::Barrier(start),
            Step::Join,
            Step::JobEnds,
        ]);
        let delay = Length::Fixed(Nanos::ZERO);
        application.tasks.push(TaskSpec { name: "hackbench".to_string(), params, delay, steps });
        application
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "hackbench",
    title: "groups of senders and receivers, like hackbench and perf bench sched messaging",
    keys: &["groups", "fds", "loops", "datasize", "channel", "work"],
    example: "{ hackbench = { groups = 2 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Hackbench::default();
    let bench = Hackbench {
        groups: settings.few("groups", 1, TASKS_MAX as u32, default.groups),
        fds: settings.few("fds", 1, Hackbench::FDS_MAX, default.fds),
        loops: settings.count("loops", ROUNDS_MAX, default.loops),
        datasize: settings.count("datasize", Hackbench::DATASIZE_MAX, default.datasize),
        channel: settings.read("channel", channel).unwrap_or(default.channel),
        work: settings.above_zero("work", default.work),
    };
    settings.done(bench)
}

/// Reads the type of channel.
fn channel(value: &DeValue<'_>) -> Result<Channel, Wrong> {
    form::word(
        "channel",
        value,
        &[("sockets", Channel::Sockets), ("pipes", Channel::Pipes)],
        "\"sockets\" or \"pipes\"",
    )
}

impl ApplicationWorkload for Hackbench {
    fn tasks(&self) -> u64 {
        Hackbench::tasks(self)
    }

    fn steps(&self) -> u64 {
        // A receiver has few steps. All senders of a group together have two steps for each receiver.
        8 * u64::from(self.groups) * u64::from(self.fds)
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }
}
