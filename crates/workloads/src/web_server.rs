use super::{at_once, least, mean};
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::metrics::requests::ARRIVALS;
use crate::network::{At, Peer, Plan};
use crate::settings::CLIENTS_MAX;
use input::form;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::{Length, ObjectId};
use sim::{Application, Object, Step, TaskSpec};

/// Size of a packet without data, or with a request: headers alone (RFC 791 and RFC 9293). Unit: bytes.
const SMALL: u64 = 40;
/// Maximum amount of data in an Ethernet packet of 1500 bytes with 40 bytes of headers. Unit: bytes.
const SEGMENT_MOST: u64 = 1_460;
/// Maximum number of unacknowledged segments: 64 KB, the window of TCP without scaling (RFC 9293, section 3.1).
const WINDOW_MOST: u64 = 65_535 / SEGMENT_MOST;
/// Capacity of an inbox: more than the data of a connection in transit. Unit: bytes.
const ROOM: u64 = 1 << 30;

/// The arrival process of requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// Each client sends its next request when the think time after an answer has passed.
    Closed {
        /// Think time of a client.
        think: Length,
    },
    /// Requests arrive at random instants, independent of other requests (a Poisson process).
    Open {
        /// Mean number of requests per second, in thousandths. Minimum: 1.
        rate_milli: u64,
    },
}

/// A web server with a worker for each connection, and its clients outside. As with httperf in xen-three-2007, section
/// 5.1, each request has its own connection, which is simulated packet by packet. The packets are SYN, SYN/ACK, ACK and
/// GET, then the answer, then FIN, FIN, ACK. The answer has equal segments, sent all at once or by slow start, with an
/// acknowledgement for every two segments. Half of the mean CPU time is spent on the segments. The rest precedes the
/// first byte of the answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WebServer {
    /// Arrival process of requests.
    pub arrivals: Arrivals,
    /// Number of concurrent connections. Minimum: 1.
    pub clients: u32,
    /// Size of an answer. Unit: bytes. Range: 1 to [`RESPONSE_MAX`](WebServer::RESPONSE_MAX).
    pub response: u64,
    /// Number of segments of an answer before the first acknowledgement: 3 in Linux (RFC 3390). Each acknowledgement is
    /// for two segments, and opens the window by one segment, so it releases three segments (slow start, RFC 5681).
    /// `None`: all segments. Minimum: 2.
    pub window: Option<u32>,
    /// CPU time of a request, excluding the handling of packets.
    pub service: Length,
    /// Interval in which the clients of [`Arrivals::Closed`] start at random instants, so that their requests do not
    /// coincide.
    pub spread: Nanos,
}

impl Default for WebServer {
    /// Returns the server fitted to tables 1 and 2 of xen-three-2007: 60 clients without think time, and files of 10
    /// KB. In the fit, a request takes 641 us of CPU time in the guest on average: 545 us for the service, and the rest
    /// for the handling of packets. The service varies by up to 30 % in both directions.
    fn default() -> WebServer {
        let service = Length::Uniform { least: Nanos::ns(381_500), most: Nanos::ns(708_500) };
        let think = Length::Fixed(Nanos::ZERO);
        WebServer {
            arrivals: Arrivals::Closed { think },
            clients: 60,
            response: 10_240,
            window: None,
            service,
            spread: Nanos::ms(100),
        }
    }
}

impl WebServer {
    /// Maximum size of an answer. Unit: bytes.
    pub const RESPONSE_MAX: u64 = 1 << 30;

    /// Returns the number of segments of an answer.
    fn segments(&self) -> u64 {
        self.response.div_ceil(SEGMENT_MOST)
    }

    /// Returns the approximate number of steps of all tasks.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let rounds = if self.window.is_some() { 3 * self.segments().min(3 * WINDOW_MOST) } else { 0 };
        (40 + rounds) * u64::from(self.clients)
    }

    /// Returns the CPU time before the first byte, and the CPU time of each segment. Only the time before the first
    /// byte is random. If the minimum CPU time of a request is less than half of the mean, all CPU time precedes the
    /// first byte.
    fn service(&self) -> (Length, Nanos) {
        let half = Nanos::ns(mean(self.service).as_ns() / 2);
        let each = Nanos::ns(half.as_ns() / self.segments());
        let later = each.saturating_mul(self.segments());
        if least(self.service) < later {
            return (self.service, Nanos::ZERO);
        }
        let less = |time: Nanos| time.saturating_sub(later);
        let before = match self.service {
            Length::Fixed(time) => Length::Fixed(less(time)),
            Length::Uniform { least, most } => Length::Uniform { least: less(least), most: less(most) },
            Length::AtLeast { least, mean } => Length::AtLeast { least: less(least), mean: less(mean) },
            Length::Exponential { .. } => unreachable!("it may be nothing, which is less than a half"),
        };
        (before, each)
    }

    /// Returns the server, its clients, and two links for each connection.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let mut plan = Plan { measured: 1, ..Plan::default() };
        let (mut server, mut clients) = (Application::default(), Application::default());
        let wanted = match self.arrivals {
            Arrivals::Closed { .. } => None,
            Arrivals::Open { rate_milli } => Some(self.made(rate_milli, &mut clients)),
        };
        for n in 0..self.clients {
            let request = server.share(format!("request {n}"), Object::Inbox { room: ROOM });
            let reply = server.share(format!("reply {n}"), Object::Port { window: u64::MAX });
            let body = self.serve(request, reply);
            server.tasks.push(TaskSpec { name: format!("worker-{n}"), params, delay: at_once(), steps: forever(body) });
            let down = clients.share(format!("down {n}"), Object::Inbox { room: ROOM });
            let up = clients.share(format!("up {n}"), Object::Port { window: u64::MAX });
            let delay = match wanted {
                None => Length::Uniform { least: Nanos::ZERO, most: self.spread },
                Some(_) => at_once(),
            };
            let steps = forever(self.ask(up, down, wanted));
            clients.tasks.push(TaskSpec { name: format!("client-{n}"), params: Params::default(), delay, steps });
            plan.link("request", (1, up), (0, request));
            plan.link("reply", (0, reply), (1, down));
        }
        plan.application = server;
        plan.peers.push(Peer { at: At::Outside, application: clients });
        plan
    }

    /// Adds the task that creates requests at random instants. An idle client sends each request.
    fn made(&self, rate_milli: u64, clients: &mut Application) -> ObjectId {
        let wanted = clients.share("wanted", Object::Semaphore { most: u32::MAX });
        let gap = Length::Exponential { mean: Nanos::ns(1_000_000_000_000 / rate_milli) };
        let job = [Step::JobBegins { deadline: None }, Step::JobEnds, Step::Post(wanted)];
        let steps = forever([Step::Sleep(gap)].into_iter().chain(job).collect());
        let name = ARRIVALS.to_string();
        clients.tasks.push(TaskSpec { name, params: Params::default(), delay: at_once(), steps });
        wanted
    }

    fn serve(&self, request: ObjectId, reply: ObjectId) -> Vec<Step> {
        let (before, each) = self.service();
        let (receive, send) =
            (|bytes| Step::Receive { pipe: request, bytes }, |bytes| Step::Send { pipe: reply, bytes });
        let segments = self.segments();
        let segment = vec![Step::Run(each.into()), send(self.response.div_ceil(segments))];
        let some = |times| Step::Repeat { times: Some(times), body: segment.clone() };
        let mut steps = vec![receive(SMALL), send(SMALL), receive(2 * SMALL), Step::Run(before)];
        let mut window = self.window.map_or(u64::MAX, |window| u64::from(window).clamp(2, WINDOW_MOST));
        let (mut sent, mut acks) = (window.min(segments), 0);
        steps.push(some(sent));
        while sent < segments {
            // Each acknowledgement is for two segments, and opens the window by one segment.
            let room = if window < WINDOW_MOST { 3 } else { 2 };
            let round = vec![receive(SMALL), some(room)];
            let rounds = if room == 3 { 1 } else { ((segments - sent) / room).max(1) };
            window += room - 2;
            if sent + room > segments {
                steps.extend([receive(SMALL), some(segments - sent)]);
                sent = segments;
            } else {
                steps.push(Step::Repeat { times: Some(rounds), body: round });
                sent += rounds * room;
            }
            acks += rounds;
        }
        steps.extend([send(SMALL), receive((segments.div_ceil(2) + 1 - acks) * SMALL), send(SMALL)]);
        steps
    }

    fn ask(&self, up: ObjectId, down: ObjectId, wanted: Option<ObjectId>) -> Vec<Step> {
        let (receive, send) = (|bytes| Step::Receive { pipe: down, bytes }, |bytes| Step::Send { pipe: up, bytes });
        let segments = self.segments();
        let segment = self.response.div_ceil(segments);
        let mut body: Vec<Step> = wanted.map(Step::Take).into_iter().collect();
        body.extend([Step::JobBegins { deadline: None }, send(SMALL), receive(SMALL), send(SMALL), send(SMALL)]);
        body.push(Step::Repeat { times: Some(segments / 2), body: vec![receive(2 * segment), send(SMALL)] });
        if segments % 2 == 1 {
            body.extend([receive(segment), send(SMALL)]);
        }
        body.extend([receive(SMALL), send(SMALL), receive(SMALL), Step::JobEnds]);
        if let Arrivals::Closed { think } = self.arrivals
            && !super::is_nothing(think)
        {
            body.push(Step::Sleep(think));
        }
        body
    }
}

fn forever(body: Vec<Step>) -> Vec<Step> {
    vec![Step::Repeat { times: None, body }]
}

/// Maximum number of requests per second, in thousandths: a million requests.
const RATE_MILLI_MAX: u64 = 1_000_000_000;

/// Maximum number of segments in a configured window.
const SEGMENTS_MAX: u64 = 65_535;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "web_server",
    title: "a web server and its clients, like httperf",
    keys: &["clients", "think", "rate", "response", "window", "service", "spread"],
    example: "{ web_server = { clients = 60 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = WebServer::default();
    let rate = settings.read("rate", |value| form::thousandths("rate", value, 1..=RATE_MILLI_MAX));
    let think = settings.length("think", Nanos::ZERO.into());
    let arrivals = match rate {
        Some(rate_milli) => Arrivals::Open { rate_milli },
        None => Arrivals::Closed { think },
    };
    if let (Some(_), Some(_)) = (rate, settings.table.get("think")) {
        let right = "use one of the two: clients that think (`think`), or requests at random moments (`rate`)";
        settings.wrong(Wrong::new("requests have both a rate and a think time", "not with `rate`", right), "think");
    }
    let server = WebServer {
        arrivals,
        clients: settings.few("clients", 1, CLIENTS_MAX, default.clients),
        response: settings.count("response", WebServer::RESPONSE_MAX, default.response),
        window: settings.read("window", |value| form::count("window", value, 2..=SEGMENTS_MAX)).map(segments),
        service: settings.above_zero("service", default.service),
        spread: settings.read("spread", |value| form::time("spread", value)).unwrap_or(default.spread),
    };
    settings.done(server)
}

/// Converts the setting `window`, a number of segments.
fn segments(window: u64) -> u32 {
    u32::try_from(window).expect("at most what there may be")
}

impl ApplicationWorkload for WebServer {
    fn tasks(&self) -> u64 {
        u64::from(self.clients)
    }

    fn steps(&self) -> u64 {
        WebServer::steps(self)
    }

    fn plan(&self, params: Params) -> Plan {
        WebServer::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Requests)
    }
}
