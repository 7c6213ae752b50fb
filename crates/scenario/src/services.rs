//! Applications that use the network or a disk, as typed.

use super::network::vms;
use super::settings::{ROUNDS_MAX, Settings};
use super::table::Table;
use super::{form, number};
use input::problem::{Findings, Wrong};
use sched::Nanos;
use sched::id::CPUS_MAX;
use toml::de::DeValue;
use workloads::metrics::voip::{Codec, Phone};
use workloads::{Arrivals, CdReader, Dd, Direction, Iperf, Search, Voip, WebServer};

/// The keys of `web_server`.
pub(crate) const WEB_SERVER_KEYS: &[&str] = &["clients", "think", "rate", "response", "window", "service", "spread"];
/// The keys of `iperf`.
pub(crate) const IPERF_KEYS: &[&str] = &["streams", "window", "direction", "work"];
/// The keys of `dd`.
pub(crate) const DD_KEYS: &[&str] = &["block", "count", "work"];
/// The keys of `cd_reader`.
pub(crate) const CD_READER_KEYS: &[&str] = &["turns", "turn", "buffer", "seek", "work"];
/// The keys of `voip`.
pub(crate) const VOIP_KEYS: &[&str] = &["calls", "codec", "frame", "buffer", "work", "socket"];
/// The keys of `search`.
pub(crate) const SEARCH_KEYS: &[&str] = &["leaves", "searches", "think", "work", "merge", "query", "answer"];

/// The most requests in a second, in thousandths: a million.
const RATE_MILLI_MAX: u64 = 1_000_000_000;
/// The most of anything in bytes.
const BYTES_MAX: u64 = 1 << 30;
/// The most segments that may be asked for at once.
const SEGMENTS_MAX: u64 = 65_535;
/// The most clients: each has a CPU to itself, and who makes requests has one, too.
const CLIENTS_MAX: u32 = CPUS_MAX as u32 - 1;

pub(super) fn web_server(table: &Table<'_, '_>, findings: &mut Findings) -> Option<WebServer> {
    let mut settings = Settings::new(table, findings);
    let default = WebServer::default();
    let rate = settings.read("rate", |value| number::thousandths("rate", value, 1..=RATE_MILLI_MAX));
    let think = settings.length("think", Nanos::ZERO.into());
    let arrivals = match rate {
        Some(rate_milli) => Arrivals::Open { rate_milli },
        None => Arrivals::Closed { think },
    };
    if let (Some(_), Some(_)) = (rate, table.get("think")) {
        let right = "use one of the two: clients that think (`think`), or requests at random moments (`rate`)";
        settings.wrong(Wrong::new("requests come at a rate, and after thinking", "not with `rate`", right), "think");
    }
    let server = WebServer {
        arrivals,
        clients: settings.few("clients", 1, CLIENTS_MAX, default.clients),
        response: settings.count("response", WebServer::RESPONSE_MAX, default.response),
        window: settings.read("window", |value| form::count("window", value, 2..=SEGMENTS_MAX)).map(segments),
        service: settings.above_zero("service", default.service),
        spread: settings.read("spread", |value| form::time("spread", value)).unwrap_or(default.spread),
    };
    settings.right.then_some(server)
}

/// How many segments that are.
fn segments(window: u64) -> u32 {
    u32::try_from(window).expect("at most what there may be")
}

pub(super) fn iperf(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Iperf> {
    let mut settings = Settings::new(table, findings);
    let default = Iperf::default();
    let window = |value: &DeValue<'_>| form::count("window", value, Iperf::BLOCK..=BYTES_MAX);
    let iperf = Iperf {
        streams: settings.few("streams", 1, CLIENTS_MAX, default.streams),
        window: settings.read("window", window).unwrap_or(default.window),
        direction: settings.read("direction", direction).unwrap_or(default.direction),
        work: settings.above_zero("work", default.work),
    };
    settings.right.then_some(iperf)
}

fn direction(value: &DeValue<'_>) -> Result<Direction, Wrong> {
    form::word("direction", value, &[("out", Direction::Out), ("in", Direction::In)], "\"out\" or \"in\"")
}

pub(super) fn dd(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Dd> {
    let mut settings = Settings::new(table, findings);
    let dd = Dd {
        // Figures 5 and 6 of S2: 1000 blocks of 1 KB.
        block: settings.count("block", Dd::BLOCK_MAX, 1_024),
        count: settings.times("count", None),
        work: settings.above_zero("work", Nanos::us(10).into()),
    };
    settings.right.then_some(dd)
}

pub(super) fn cd_reader(table: &Table<'_, '_>, findings: &mut Findings) -> Option<CdReader> {
    let mut settings = Settings::new(table, findings);
    let default = CdReader::default();
    let reader = CdReader {
        turns: settings.count("turns", ROUNDS_MAX, default.turns),
        turn: settings.time("turn", default.turn),
        buffer: settings.count("buffer", 1 << 20, default.buffer),
        seek: settings.length("seek", default.seek),
        work: settings.above_zero("work", default.work),
    };
    settings.right.then_some(reader)
}

pub(super) fn voip(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Voip> {
    let mut settings = Settings::new(table, findings);
    let default = Voip::default();
    let codec = settings.read("codec", codec).unwrap_or(default.phone.codec);
    // A packet of G.723.1 is a frame of 30 ms (RFC 3551, section 4.5.3).
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
        settings.wrong(Wrong::new("no packet carries so much speech", "too long", right), "frame");
    } else if voip.socket < voip.bytes() {
        let right = format!("use {} or more", voip.bytes());
        settings.wrong(Wrong::new("the socket has no room for a packet", "too small", right), "socket");
    }
    settings.right.then_some(voip)
}

fn codec(value: &DeValue<'_>) -> Result<Codec, Wrong> {
    let words =
        [("g711", Codec::G711), ("g711-plc", Codec::G711Concealed), ("g729", Codec::G729), ("g723.1", Codec::G7231)];
    form::word("codec", value, &words, "\"g711\", \"g711-plc\", \"g729\" or \"g723.1\"")
}

pub(super) fn search(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Search> {
    let mut settings = Settings::new(table, findings);
    if table.get("leaves").is_none() {
        let right = "use leaves = [\"vm2\", \"vm3\"]: the VMs that are asked";
        settings.wrong(Wrong::new("the workload `search` has no leaves", "who is asked?", right), "leaves");
    }
    let default = Search::new(settings.read("leaves", |value| vms("leaves", value)).unwrap_or_default());
    let search = Search {
        searches: settings.times("searches", default.searches),
        think: settings.length("think", default.think),
        work: settings.above_zero("work", default.work),
        merge: settings.length("merge", default.merge),
        query: settings.count("query", BYTES_MAX, default.query),
        answer: settings.count("answer", BYTES_MAX, default.answer),
        ..default
    };
    settings.right.then_some(search)
}
