//! `[network]` and `[disk]`: reads the settings of the connections between machines, and checks that every application
//! has the devices that it uses.

use super::checked::Checked;
use super::form;
use crate::devices::{DiskSpec, Drivers, NetworkSpec, OUTSIDE, RECEIVER, Way, backend_of, thread_of};
use input::form::bandwidth;
use input::problem::{Findings, Problem, Wrong, quoted, right_instead};
use input::source::{Placed, Span};
use input::table::{Given, Table};
use sched::id::CPUS_MAX;
use sched::{CpuSet, Instant, Nanos};
use sim::program::{Length, Notify};
use std::collections::{BTreeMap, BTreeSet};
use toml::de::DeValue;
use workloads::length;
use workloads::metrics::Metric;
use workloads::network::{At, Device};

/// Keys of `[network]`.
pub(crate) const NETWORK_KEYS: &[&str] = &[
    "latency",
    "local",
    "bandwidth",
    "packet",
    "room",
    "received",
    "ring",
    "drivers",
    "domain",
    "affinity",
    "event",
    "notify",
    "delay",
    "tells",
    "kick",
];
/// Keys of `[disk]`.
pub(crate) const DISK_KEYS: &[&str] =
    &["service", "bandwidth", "drivers", "domain", "affinity", "event", "notify", "delay", "tells", "kick"];

/// Default one-way latency between two machines in one room, through a switch. The value is assumed; no source states
/// it. For comparison, the round trip in xen-three-2007 is 0.3 ms.
const LATENCY: Nanos = Nanos::us(50);
/// Default size of a packet, equal to the MTU of Ethernet (IEEE 802.3). Unit: bytes.
const PACKET: u32 = 1_500;
/// Maximum size of a packet, equal to the maximum of IP. Unit: bytes.
const PACKET_MAX: u64 = 65_535;
/// Default CPU time per event. Current hardware is assumed to take 2 to 5 us.
const EVENT: Nanos = Nanos::us(4);
/// Default maximum number of packets that wait for a guest's kernel. Source: netdev_max_backlog's default, 1000
/// (net/core/hotdata.c of Linux 6.18). Xen's and virtio's rings hold 256 packets; further packets wait in a queue of
/// about 1000 packets in front of the ring.
const RING: u32 = 1_000;
/// Maximum number of packets that can wait in front of a link.
const ROOM_MAX: u64 = 1 << 30;

/// `[network]` or `[disk]`, before the check that the driver domains exist.
#[derive(Debug)]
pub(super) struct Typed<T> {
    spec: T,
    at: Places,
}

/// The spans of the settings that choose the driver of a device.
#[derive(Clone, Debug)]
struct Places {
    /// Span of the whole table.
    table: Span,
    /// Span of each domain, if any are named.
    domains: Vec<Span>,
    /// Span of the affinity of the driver. The default span if it is absent.
    affinity: Span,
}

/// Reads the optional `[network]`.
pub(super) fn network(top: &Table<'_, '_>, findings: &mut Findings) -> Option<Typed<NetworkSpec>> {
    let table = top.table("network", ("[network]", NETWORK_KEYS), findings)?;
    let latency = table.read("latency", |value| length::length("latency", value), findings).value();
    let local = table.read("local", |value| length::length("local", value), findings).value();
    let packet = table.read("packet", |value| form::count("packet", value, 1..=PACKET_MAX), findings).value();
    let room = table.read("room", |value| form::count("room", value, 0..=ROOM_MAX), findings).right();
    let received = table.read("received", |value| length::length("received", value), findings).value();
    let ring = table.read("ring", |value| form::count("ring", value, 1..=ROOM_MAX), findings).right();
    let bandwidth = table.read("bandwidth", |value| bandwidth("bandwidth", value), findings);
    if let Some(room) = room.filter(|_| bandwidth.is_absent()) {
        let problem =
            Problem::new("no packet waits before a link without a bandwidth").at(room.at, "no packet waits here");
        findings.add(problem.help("use a `bandwidth` with it"));
    }
    if let Some(ring) = ring.as_ref().filter(|_| table.get("received").is_none()) {
        let problem = Problem::new("no guest's kernel handles packets").at(ring.at, "no kernel reads it");
        findings.add(problem.help("use `received` with it"));
    }
    let (drivers, at) = drivers(&table, (&WAYS, RIGHT_WAY), findings);
    let few = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let spec = NetworkSpec {
        latency: latency.unwrap_or(LATENCY.into()),
        local,
        bandwidth: bandwidth.value(),
        packet: packet.map_or(PACKET, few),
        room: room.map(|room| few(room.value)),
        drivers,
        ring: ring.map_or(RING, |ring| few(ring.value)),
        received: received.unwrap_or(Nanos::ZERO.into()),
        place: table.at,
    };
    Some(Typed { spec, at })
}

/// Reads the optional `[disk]`.
pub(super) fn disk(top: &Table<'_, '_>, findings: &mut Findings) -> Option<Typed<DiskSpec>> {
    let table = top.table("disk", ("[disk]", DISK_KEYS), findings)?;
    let service = table.read("service", |value| length::length("service", value), findings).value();
    let bandwidth = table.read("bandwidth", |value| bandwidth("bandwidth", value), findings).value();
    let (drivers, at) = drivers(&table, (&DISK_WAYS, RIGHT_DISK_WAY), findings);
    let service = service.unwrap_or(Nanos::ZERO.into());
    Some(Typed { spec: DiskSpec { service, bandwidth, drivers, place: table.at }, at })
}

/// Reads the driver of a device, and the spans of the settings that choose the driver.
fn drivers(table: &Table<'_, '_>, (ways, right): Words, findings: &mut Findings) -> (Drivers, Places) {
    let way = table.read("drivers", |value| form::word("drivers", value, ways, right), findings);
    let domain = table.read("domain", domains, findings);
    let affinity = table.read("affinity", form::cpu_list, findings).right();
    let event = table.read("event", |value| length::length("event", value), findings).right();
    let notify = table.read("notify", notify, findings).value().unwrap_or_default();
    let delay = table.read("delay", |value| form::time("delay", value), findings).value().unwrap_or_default();
    let passes = table.read("tells", tells, findings).value().unwrap_or_default();
    let kick = table.read("kick", |value| form::time("kick", value), findings).value().unwrap_or_default();
    let chosen = way.value_ref().copied().unwrap_or("vhost");
    let domain = domain.right().map(|Placed { mut value, at }| {
        value.iter_mut().filter(|domain| domain.at == Span::default()).for_each(|domain| domain.at = at);
        Placed { value, at }
    });
    match (chosen, &domain) {
        ("split", None) if table.get("domain").is_none() => {
            let problem = Problem::new("no domain has the back end of the split drivers");
            let problem = problem.at(way.at().unwrap_or(table.at), "no domain");
            findings.add(problem.help("use domain = \"dom0\": the VM whose kernel has the device"));
        }
        ("split", _) | (_, None) => {}
        (_, Some(domain)) if !matches!(way, Given::Wrong(_)) => {
            let problem = Problem::new("only split drivers have a domain").at(domain.at, "not used");
            findings.add(problem.help("use drivers = \"split\" with it"));
        }
        _ => {}
    }
    if let Some(affinity) = affinity.as_ref().filter(|_| chosen != "split") {
        let problem = Problem::new("only split drivers have an affinity").at(affinity.at, "not used");
        findings.add(problem.help("use drivers = \"split\" with it"));
    }
    if let (Some(event), "hypervisor") = (event, chosen)
        && !matches!(event.value, Length::Fixed(_))
    {
        let wrong =
            Wrong::new("an event in the hypervisor is not random", "random", "use one length of time, such as \"4us\"");
        findings.add(wrong.at(event.at));
    }
    let named = domain.map(|domain| domain.value).unwrap_or_default();
    let places = Places {
        table: table.at,
        domains: named.iter().map(|domain| domain.at).collect(),
        affinity: affinity.as_ref().map_or(Span::default(), |affinity| affinity.at),
    };
    let affinity = affinity.map_or(CpuSet::ALL, |affinity| affinity.value);
    let way = match chosen {
        "split" => Way::Split { domains: named.into_iter().map(|domain| domain.value).collect(), affinity },
        "emulator" => Way::Emulator,
        "hypervisor" => Way::Hypervisor,
        "none" => Way::Direct,
        _ => Way::Vhost,
    };
    (Drivers { way, event: event.map_or(EVENT.into(), |event| event.value), notify, delay, passes, kick }, places)
}

/// Reads the domains of split drivers: one name, or a list of names with their spans. A name outside a list has the
/// default span.
fn domains(value: &DeValue<'_>) -> Result<Vec<Placed<String>>, Wrong> {
    let DeValue::Array(values) = value else {
        return Ok(vec![Placed { value: form::reference("domain", value)?, at: Span::default() }]);
    };
    let name = |value: &toml::Spanned<DeValue<'_>>| {
        let at = value.span().into();
        form::reference("domain", value.get_ref()).map(|value| Placed { value, at }).map_err(|wrong| wrong.part(at))
    };
    values.iter().map(name).collect()
}

/// Words that choose the driver of a device, and the help that lists them.
type Words = (&'static [(&'static str, &'static str)], &'static str);

const WAYS: [(&str, &str); 5] =
    [("vhost", "vhost"), ("emulator", "emulator"), ("split", "split"), ("hypervisor", "hypervisor"), ("none", "none")];
const RIGHT_WAY: &str = "\"vhost\", \"emulator\", \"split\", \"hypervisor\" or \"none\"";
/// Words for the driver of a disk. The usual name of a separate thread for a disk is iothread.
const DISK_WAYS: [(&str, &str); 6] = [WAYS[0], ("iothread", "vhost"), WAYS[1], WAYS[2], WAYS[3], WAYS[4]];
const RIGHT_DISK_WAY: &str = "\"iothread\" (or \"vhost\"), \"emulator\", \"split\", \"hypervisor\" or \"none\"";

fn notify(value: &DeValue<'_>) -> Result<Notify, Wrong> {
    let words = [("when-idle", Notify::WhenIdle), ("always", Notify::Always)];
    form::word("notify", value, &words, "\"when-idle\" or \"always\"")
}

/// Reads whether guests are notified of packets at the end of a pass.
fn tells(value: &DeValue<'_>) -> Result<bool, Wrong> {
    form::word("tells", value, &[("each", false), ("passes", true)], "\"each\" or \"passes\"")
}

/// Checks that every application has the devices that it uses. The checks need all entities of the scenario. Delays the
/// arrival of each application until all VMs that it uses have booted.
pub(super) fn check(
    hosts: usize,
    (network, disk): (Option<Typed<NetworkSpec>>, Option<Typed<DiskSpec>>),
    checked: &mut Checked,
    findings: &mut Findings,
) -> (Option<NetworkSpec>, Option<DiskSpec>) {
    let known = |it: &Checked, name: &str| it.guests.iter().position(|guest| guest.name == name);
    let mut ready = Vec::new();
    let ways = [
        network.as_ref().map(|it| (Device::Network, &it.spec.drivers, &it.at)),
        disk.as_ref().map(|it| (Device::Disk, &it.spec.drivers, &it.at)),
    ];
    for (device, drivers, places) in ways.iter().flatten() {
        let Way::Split { domains, affinity } = &drivers.way else { continue };
        let mut homes: BTreeMap<usize, Span> = BTreeMap::new();
        for (domain, &at) in domains.iter().zip(&places.domains) {
            let Some(guest) = known(checked, domain) else {
                findings.add(no_guest(domain, checked).at(at));
                continue;
            };
            ready.push((*device, boots(checked, guest)));
            let vcpus = checked.guests[guest].vcpus.len();
            if affinity.iter().all(|cpu| cpu.index() >= vcpus) {
                let problem = Problem::new(format!("{} has no such vCPU", quoted(domain)));
                let problem = problem.at(places.affinity, "no vCPU").at(at, format!("vCPUs 0 to {}", vcpus - 1));
                findings.add(problem.help("use a vCPU of the domain, such as affinity = \"0\""));
            }
            let home = home(checked, guest);
            if let Some(first) = homes.insert(home, at) {
                let problem = Problem::new(format!("host {} has two driver domains", home + 1));
                let problem = problem.at(at, "on the same host").at(first, "the first");
                findings.add(problem.help("use one on each host"));
            }
        }
        if hosts > 1 {
            undriven(*device, &homes, checked, findings);
        }
    }
    one_thread(&ways, findings);
    let there = |device| ways.iter().flatten().any(|(it, ..)| *it == device);
    let arrivals = arrivals(checked, &ready, there, findings);
    outside(checked, findings);
    clashes(checked, &ways, findings);
    for (spec, arrival) in all_mut(checked).zip(arrivals) {
        spec.arrival = spec.arrival.max(arrival);
        if let Some(leaves) = spec.leaves.filter(|&leaves| leaves <= spec.arrival) {
            let problem = Problem::new(format!(
                "{} leaves ({leaves}) before the VMs that it uses have booted",
                quoted(&spec.name)
            ));
            let right = format!("use an instant later than {}, when the last of its VMs boots", spec.arrival);
            findings.add(problem.at(spec.place, "has left by then").help(right));
        }
    }
    if let Some(network) = &network {
        full_speed(hosts, &network.spec, checked);
    }
    (network.map(|it| it.spec), disk.map(|it| it.spec))
}

/// For programs whose parts exchange messages, adds the time of the exchange on an idle network to the duration of a
/// round at full speed.
fn full_speed(hosts: usize, network: &NetworkSpec, checked: &mut Checked) {
    let known = |name: &String| checked.guests.iter().position(|guest| guest.name == *name);
    let mut taken = Vec::new();
    for (of, spec) in all(checked) {
        // With a single host, each of its machines has its own link.
        let plug = |guest: usize| if hosts == 1 { 1 + guest } else { home(checked, guest) };
        let own = of.map_or(if hosts == 1 { 0 } else { spec.host }, plug);
        let peers =
            spec.reach.peers.iter().filter_map(|peer| if let At::Vm(name) = &peer.at { known(name) } else { None });
        let plugs: Vec<usize> = std::iter::once(own).chain(peers.map(plug)).collect();
        taken.push(spec.reach.exchange.map(|bytes| network.exchange(&plugs, bytes)));
    }
    for (spec, taken) in all_mut(checked).zip(taken) {
        if let (Some(Metric::Rounds { alone, .. }), Some((time, link))) = (&mut spec.metric, taken) {
            // At full speed, nodes that share a link communicate at different times, so that the link is never idle. A
            // round then takes at least the time that the link needs for all data.
            *alone = alone.saturating_add(time).max(link);
        }
    }
}

/// Returns the host of guest number `guest`.
fn home(checked: &Checked, guest: usize) -> usize {
    checked.entities[checked.guests[guest].vcpus.start].host
}

/// Checks that each host has a driver domain if one of its guests uses `device`. `homes`: the hosts that have a driver
/// domain.
fn undriven(device: Device, homes: &BTreeMap<usize, Span>, checked: &Checked, findings: &mut Findings) {
    for (of, spec) in all(checked).filter(|(_, spec)| spec.reach.uses(device)) {
        let elsewhere =
            spec.reach.peers.iter().filter(|_| device == Device::Network).filter_map(|peer| match &peer.at {
                At::Vm(name) => checked.guests.iter().position(|guest| guest.name == *name),
                At::Outside => None,
            });
        let without = of.into_iter().chain(elsewhere).find(|&guest| !homes.contains_key(&home(checked, guest)));
        if let Some(guest) = without {
            let (name, number) = (quoted(&checked.guests[guest].name), home(checked, guest) + 1);
            let problem = Problem::new(format!("{name} is on host {number}, which has no driver domain"));
            let right = "use `domain` with a VM of each host: domain = [\"dom0-1\", \"dom0-2\"]";
            findings.add(problem.at(spec.place, "needed by this").help(right));
        }
    }
}

/// If emulators drive both the network and the disk, checks that both have the same settings for notifications.
fn one_thread(ways: &[Option<(Device, &Drivers, &Places)>; 2], findings: &mut Findings) {
    let [Some((_, network, there)), Some((_, disk, here))] = ways else { return };
    if (&network.way, &disk.way) != (&Way::Emulator, &Way::Emulator) {
        return;
    }
    for (key, same) in [
        ("notify", network.notify == disk.notify),
        ("delay", network.delay == disk.delay),
        ("tells", network.passes == disk.passes),
        ("kick", network.kick == disk.kick),
    ] {
        if !same {
            let problem = Problem::new(format!("one thread drives both, but their {key} differs"));
            let problem = problem.at(there.table, "this device").at(here.table, "this one");
            findings.add(problem.help(format!("use the same `{key}` for both, or another driver for one")));
        }
    }
}

/// Returns for each application the instant at which the last VM that the application uses boots, or zero. Reports
/// missing devices and VMs.
fn arrivals(
    checked: &Checked,
    ready: &[(Device, Instant)],
    there: impl Fn(Device) -> bool,
    findings: &mut Findings,
) -> Vec<Instant> {
    let mut arrivals = Vec::new();
    for (of, spec) in all(checked) {
        let mut arrival = Instant::ZERO;
        for (device, name, right) in [
            (Device::Network, "network", "[network] in the scenario, such as latency = \"50us\""),
            (Device::Disk, "disk", "[disk] in the scenario, such as service = \"5ms\""),
        ] {
            if !spec.reach.passes(device) {
                continue;
            }
            if spec.reach.uses(device) && !there(device) {
                let problem = Problem::new(format!("{} uses a {name}, and there is none", quoted(&spec.name)));
                findings.add(problem.at(spec.place, "by this").help(format!("use {right}")));
            }
            arrival = ready.iter().filter(|it| it.0 == device).map(|it| it.1).fold(arrival, Instant::max);
        }
        for peer in &spec.reach.peers {
            let At::Vm(name) = &peer.at else { continue };
            match checked.guests.iter().position(|guest| guest.name == *name) {
                Some(guest) if of == Some(guest) => {
                    let problem = Problem::new(format!("{} is in {} itself", quoted(&spec.name), quoted(name)));
                    findings.add(problem.at(spec.place, "here").help("use the names of other VMs"));
                }
                Some(guest) => arrival = arrival.max(boots(checked, guest)),
                None => findings.add(no_guest(name, checked).at(spec.place)),
            }
        }
        arrivals.push(arrival);
    }
    arrivals
}

fn no_guest(name: &str, checked: &Checked) -> Wrong {
    let names: Vec<&str> = checked.guests.iter().map(|guest| guest.name.as_str()).collect();
    let right = match names.is_empty() {
        true => "use the name of a [[vm]] with a guest, of which there is none".to_string(),
        false => right_instead(name, &names),
    };
    if checked.groups.iter().any(|group| group.name == name) {
        return Wrong::new(
            format!("{} has no guest, and therefore no kernel for this task", quoted(name)),
            "no guest",
            right,
        );
    }
    Wrong::new(format!("there is no vm {}", quoted(name)), "unknown vm", right)
}

/// Checks that every client outside can have its own CPU.
fn outside(checked: &Checked, findings: &mut Findings) {
    let mut tasks = 0;
    for (_, spec) in all(checked) {
        let peers = spec.reach.peers.iter().filter(|peer| peer.at == At::Outside);
        tasks += peers.map(|peer| peer.application.tasks.len()).sum::<usize>();
        if tasks > CPUS_MAX {
            let problem = Problem::new("too many clients run outside").at(spec.place, "too many from here on");
            findings.add(problem.help(format!("use at most {CPUS_MAX} in total: each has a CPU of its own")));
            return;
        }
    }
}

/// Reports names that are taken: by a driver's thread, by a kernel thread of a guest, by the machine outside, or by an
/// application on a machine where the named application has a part.
fn clashes(checked: &Checked, ways: &[Option<(Device, &Drivers, &Places)>], findings: &mut Findings) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut inside: BTreeSet<String> = BTreeSet::new();
    for (device, drivers, _) in ways.iter().flatten() {
        taken.extend(checked.guests.iter().filter_map(|guest| thread_of(&guest.name, &drivers.way, *device)));
        inside.insert(backend_of(*device).to_string());
        inside.insert(RECEIVER.to_string());
    }
    let mut refuse = |name: &str, at: Span, whose: &str| {
        let problem = Problem::new(format!("{} is the name of {whose}", quoted(name))).at(at, "taken");
        findings.add(problem.help("use another name"));
    };
    let host = checked.entities.iter().map(|it| (&it.name, it.place));
    for (name, at) in host.chain(checked.applications.iter().map(|it| (&it.name, it.place))) {
        if taken.contains(name) {
            refuse(name, at, "a thread that drives a device of a VM");
        }
    }
    for spec in &checked.applications {
        let peers =
            spec.reach.peers.iter().filter_map(|peer| if let At::Vm(name) = &peer.at { Some(name) } else { None });
        let guests = peers.filter_map(|name| checked.guests.iter().find(|guest| guest.name == *name));
        if guests.flat_map(|guest| &guest.applications).any(|it| it.name == spec.name) {
            refuse(&spec.name, spec.place, "an application of a VM in which this has a part");
        }
    }
    for guest in &checked.guests {
        if guest.name == OUTSIDE && !ways.iter().all(Option::is_none) {
            refuse(&guest.name, guest.place, "the machine on which clients run");
        }
        let entities = guest.entities.iter().map(|it| (&it.name, it.place));
        for (name, at) in entities.chain(guest.applications.iter().map(|it| (&it.name, it.place))) {
            if inside.contains(name) {
                refuse(name, at, "a kernel thread that handles packets");
            }
        }
    }
}

/// Returns the instant at which guest number `guest` boots.
fn boots(checked: &Checked, guest: usize) -> Instant {
    let vcpus = &checked.entities[checked.guests[guest].vcpus.clone()];
    vcpus.iter().map(|vcpu| vcpu.arrival).max().unwrap_or(Instant::ZERO)
}

fn all(checked: &Checked) -> impl Iterator<Item = (Option<usize>, &super::AppSpec)> {
    let host = checked.applications.iter().map(|spec| (None, spec));
    let guests = checked.guests.iter().enumerate();
    host.chain(guests.flat_map(|(index, guest)| guest.applications.iter().map(move |spec| (Some(index), spec))))
}

fn all_mut(checked: &mut Checked) -> impl Iterator<Item = &mut super::AppSpec> {
    checked.applications.iter_mut().chain(checked.guests.iter_mut().flat_map(|guest| &mut guest.applications))
}
