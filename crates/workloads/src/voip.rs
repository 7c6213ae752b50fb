use super::at_once;
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::metrics::voip::{Codec, Phone};
use crate::network::{At, Peer, Plan};
use crate::settings::CLIENTS_MAX;
use input::form;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Object, Step, TaskSpec};
use toml::de::DeValue;

/// Size of the headers of IP, UDP and RTP (RFC 791, RFC 768, RFC 3550). Unit: bytes.
const HEADERS: u64 = 20 + 8 + 12;
/// Capacity of a socket. Source: net.core.rmem_default of Linux, 212,992. Unit: bytes.
const SOCKET: u64 = 212_992;

/// Incoming telephone calls. For each call, a speaker outside sends packets at a fixed interval. A task on the
/// application's own machine reads the packets of its call. Lost packets are not retransmitted, and packets that are
/// read too late are not played.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Voip {
    /// Number of calls. Minimum: 1.
    pub calls: u32,
    /// Coding of speech, and treatment of packets.
    pub phone: Phone,
    /// CPU time to read and decode a packet.
    pub work: Length,
    /// Capacity of the socket for unread packets. Further packets are dropped. Unit: bytes.
    pub socket: u64,
}

impl Default for Voip {
    /// Returns the workload with defaults. The work is a free parameter: no source states it.
    fn default() -> Voip {
        Voip { calls: 1, phone: Phone::default(), work: Length::Fixed(Nanos::us(50)), socket: SOCKET }
    }
}

impl Voip {
    /// Returns the size of each IP packet, excluding Ethernet framing. Unit: bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        // Bit rate of the codec. Unit: bits per second.
        let rate = match self.phone.codec {
            Codec::G711 | Codec::G711Concealed => 64_000,
            Codec::G729 => 8_000,
            Codec::G7231 => 6_300,
        };
        let speech = u128::from(self.phone.packet.as_ns()) * rate / 8_000_000_000;
        HEADERS + u64::try_from(speech).unwrap_or(u64::MAX / 2).max(1)
    }

    /// Returns the listening tasks, and the speaking tasks outside.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let mut plan = Plan::default();
        let (mut here, mut there) = (Application::default(), Application::default());
        let bytes = self.bytes();
        for n in 0..self.calls {
            let inbox = here.share(format!("socket {n}"), Object::Inbox { room: self.socket });
            let body = vec![
                Step::Receive { pipe: inbox, bytes },
                Step::JobBegins { deadline: None },
                Step::Run(self.work),
                Step::JobEnds,
            ];
            let steps = vec![Step::Repeat { times: None, body }];
            here.tasks.push(TaskSpec { name: format!("call-{n}"), params, delay: at_once(), steps });
            let port = there.share(format!("microphone {n}"), Object::Port { window: u64::MAX });
            let beat = Step::Timer { timer: 0, period: self.phone.packet, mode: TimerMode::Absolute };
            let steps = vec![Step::Repeat { times: None, body: vec![beat, Step::Send { pipe: port, bytes }] }];
            // Each speaker begins at a random instant of the first interval.
            let delay = Length::Uniform { least: Nanos::ZERO, most: self.phone.packet };
            there.tasks.push(TaskSpec { name: format!("speaker-{n}"), params: Params::default(), delay, steps });
            plan.link("call", (1, port), (0, inbox)).reliable = false;
        }
        plan.application = here;
        plan.peers.push(Peer { at: At::Outside, application: there });
        plan
    }
}

/// Maximum capacity of the socket. Unit: bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "voip",
    title: "telephone calls",
    keys: &["calls", "codec", "frame", "buffer", "work", "socket"],
    example: "{ voip = { calls = 50 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Voip::default();
    let codec = settings.read("codec", codec).unwrap_or(default.phone.codec);
    // By default, a packet of G.723.1 has one frame of 30 ms (RFC 3551, section 4.5.3).
    let frame = if codec == Codec::G7231 { Nanos::ms(30) } else { default.phone.packet };
    let phone = Phone {
        codec,
        packet: settings.time("frame", frame),
        buffer: settings.read("buffer", |value| form::time("buffer", value)).unwrap_or(default.phone.buffer),
    };
    let voip = Voip {
        calls: settings.few("calls", 1, CLIENTS_MAX, default.calls),
        phone,
        work: settings.above_zero("work", default.work),
        socket: settings.count("socket", BYTES_MAX, default.socket),
    };
    if voip.bytes() > 65_535 {
        let right = "use a frame whose packet has at most 65535 bytes, such as \"20ms\"";
        settings.wrong(Wrong::new("the frame does not fit into a packet", "too long", right), "frame");
    } else if voip.socket < voip.bytes() {
        let right = format!("use {} or more", voip.bytes());
        settings.wrong(Wrong::new("the socket has no room for a packet", "too small", right), "socket");
    }
    settings.done(voip)
}

fn codec(value: &DeValue<'_>) -> Result<Codec, Wrong> {
    let words =
        [("g711", Codec::G711), ("g711-plc", Codec::G711Concealed), ("g729", Codec::G729), ("g723.1", Codec::G7231)];
    form::word("codec", value, &words, "\"g711\", \"g711-plc\", \"g729\" or \"g723.1\"")
}

impl ApplicationWorkload for Voip {
    fn tasks(&self) -> u64 {
        u64::from(self.calls)
    }

    fn plan(&self, params: Params) -> Plan {
        Voip::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Calls(self.phone))
    }
}
