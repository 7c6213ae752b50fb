//! Tests of the packets of a small world.

use super::PerfettoWriter;
use super::messages::{Data, EventType, TracePacket, Value};
use crate::{Account, Event, Header, MachineHeader, MachineId, WorldHeader, WorldSink};
use expect_test::expect;
use prost::Message;
use sched::{Action, CpuId, EntityId, Input, Instant, Nanos, Wake};

const HOST: MachineId = MachineId(0);
const SHOP: MachineId = MachineId(1);
const CPU: CpuId = CpuId::new(0);

fn entity() -> EntityId {
    EntityId::new(0, 0)
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Nanos::ms(ms)
}

/// Returns the packets of a file.
fn packets(mut bytes: &[u8]) -> Vec<TracePacket> {
    let mut packets = Vec::new();
    while let Some((key, rest)) = bytes.split_first() {
        assert_eq!(*key, super::pen::PACKET);
        bytes = rest;
        packets.push(TracePacket::decode_length_delimited(&mut bytes).expect("it is a packet"));
    }
    packets
}

/// Returns a line for a packet.
fn line(packet: &TracePacket) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match packet.data.as_ref().expect("no packet is empty") {
        Data::TrackDescriptor(track) => {
            let parent = track.parent_uuid.map(|parent| format!(" below {parent}")).unwrap_or_default();
            let rank = track.sibling_order_rank.unwrap_or_default();
            let counter = track.counter.as_ref().map(|counter| format!(" {counter:?}")).unwrap_or_default();
            let (id, name, description) = (track.uuid(), text(&track.name), text(&track.description));
            format!("track {id}{parent} rank {rank}: {name} {description}{counter}").trim_end().to_string()
        }
        Data::TrackEvent(event) => {
            let mut line = format!("{} {:?} on {}", packet.timestamp(), event.kind(), event.track_uuid());
            if let Some(name) = &event.name {
                line += &format!(": {name} [{}]", event.categories.join(", "));
            }
            for detail in &event.debug_annotations {
                let value = match detail.value.as_ref().expect("a detail has a value") {
                    Value::Bool(value) => value.to_string(),
                    Value::Uint(value) => value.to_string(),
                    Value::String(value) => value.clone(),
                };
                line += &format!(" {}={value}", text(&detail.name));
            }
            if event.kind() == EventType::Counter {
                line += &format!(": {}", event.counter_value());
            }
            line += &event.flow_ids.iter().map(|id| format!(" begins flow {id}")).collect::<String>();
            line + &event.terminating_flow_ids.iter().map(|id| format!(" ends flow {id}")).collect::<String>()
        }
    }
}

fn header() -> WorldHeader {
    let machine = |name: &str, policy: &str, host| MachineHeader {
        name: name.to_string(),
        header: Header { policy: policy.to_string(), cpus: 1, seed: 7 },
        host,
    };
    WorldHeader { machines: vec![machine("host", "edf", None), machine("shop", "cfs", Some(HOST))] }
}

/// Records a vCPU that wakes, runs from 1 to 2 ms, and waits until 3 ms. Its task runs with it.
fn record(writer: &mut PerfettoWriter<Vec<u8>>) {
    let attach = |name: &str| Event::Attach { entity: entity(), name: name.to_string(), params: Box::default() };
    let wake = Event::Input(Input::Wake { entity: entity(), why: Wake::Timer });
    let run = Event::Action(Action::Run { cpu: CPU, entity: entity(), until: Instant::NEVER });
    let freeze = Event::Input(Input::Freeze { cpu: CPU, preempted: false });
    for (ms, id, event) in [
        (0, HOST, attach("vm/0")),
        (0, HOST, Event::Vcpu { entity: entity(), guest: SHOP, cpu: CPU }),
        (0, SHOP, attach("task")),
        (0, SHOP, freeze.clone()),
        (0, SHOP, wake.clone()),
        (0, HOST, wake),
        (1, HOST, run.clone()),
        (1, SHOP, Event::Input(Input::Thaw { cpu: CPU, stolen: Nanos::ZERO })),
        (1, SHOP, run),
        (2, HOST, Event::Action(Action::Stop { cpu: CPU, entity: entity() })),
        (2, SHOP, freeze),
        (3, HOST, Event::End),
        (3, SHOP, Event::End),
    ] {
        writer.record(id, at(ms), &event);
    }
}

#[test]
fn the_packets_of_a_world_look_like_this() {
    let mut writer = PerfettoWriter::new(Vec::new(), &header());
    record(&mut writer);
    let bytes = writer.finish().expect("memory takes everything");
    let lines: Vec<String> = packets(&bytes).iter().map(line).collect();
    expect![[r#"
        track 1 rank 1048576: host policy edf, CPUs: 1, seed 7
        track 2 below 1 rank 1048577: host: entities
        track 10000 below 1 rank 0: CPU 0
        track 10001 below 10000 rank 1: CPU 0: guests
        track 3 below 1 rank 1048578: shop policy cfs, CPUs: 1, seed 7
        track 10002 below 3 rank 0: vCPU 0
        track 10003 below 2 rank 10003: vm/0 (e0)
        track 10004 below 3 rank 10004: task (e0)
        0 SliceBegin on 10003: waiting [state]
        1000000 SliceEnd on 10003
        0 SliceBegin on 10004: waiting [state]
        1000000 SliceEnd on 10004
        1000000 SliceBegin on 10003: running [state] cpu=0
        2000000 SliceEnd on 10003
        0 Instant on 10003: wake-up [wake] begins flow 1
        1000000 SliceBegin on 10000: vm/0 [run] entity=e0 ends flow 1
        2000000 SliceEnd on 10000
        track 10005 below 10003 rank 0: latency  CounterDescriptor { unit: Some(TimeNs), unit_name: None }
        1000000 Counter on 10005: 1000000
        1000000 SliceBegin on 10004: running [state] cpu=0
        2000000 SliceEnd on 10004
        0 Instant on 10004: wake-up [wake] begins flow 2
        1000000 SliceBegin on 10002: task [run] entity=e0 ends flow 2
        2000000 SliceEnd on 10002
        track 10006 below 10004 rank 0: latency  CounterDescriptor { unit: Some(TimeNs), unit_name: None }
        1000000 Counter on 10006: 1000000
        1000000 SliceBegin on 10001: shop: task [guest] entity=e0 machine=m1 vcpu=e0
        2000000 SliceEnd on 10001
        2000000 SliceBegin on 10003: waiting [state]
        3000000 SliceEnd on 10003
        2000000 SliceBegin on 10004: stolen [state] cpu=0
        3000000 SliceEnd on 10004
        2000000 SliceBegin on 10002: frozen [frozen] entity=e0
        3000000 SliceEnd on 10002"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn an_account_has_a_value_for_each_change_and_no_other() {
    let mut writer = PerfettoWriter::new(Vec::new(), &header());
    assert!(writer.reads_accounts());
    record(&mut writer);
    for (ms, value) in [(3, 5), (4, 5), (5, -1), (6, 5)] {
        writer.account(HOST, at(ms), entity(), &Account { remaining: None, credit: Some(value) });
    }
    writer.account(HOST, at(6), EntityId::new(9, 0), &Account { remaining: Some(1), credit: Some(1) });
    writer.account(SHOP, at(6), entity(), &Account { remaining: Some(0), credit: None });
    let bytes = writer.finish().expect("memory takes everything");
    let lines: Vec<String> = packets(&bytes).iter().map(line).collect();
    let shown = lines.iter().filter(|line| line.contains("3000000 Counter") || line.contains("000000 Counter on 1000"));
    expect![[r#"
        1000000 Counter on 10005: 1000000
        1000000 Counter on 10006: 1000000
        3000000 Counter on 10007: 5
        5000000 Counter on 10007: -1
        6000000 Counter on 10007: 5
        6000000 Counter on 10008: 0"#]]
    .assert_eq(&shown.cloned().collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_perfetto_file_of_a_contradiction_is_an_error_at_the_end() {
    let mut writer = PerfettoWriter::new(Vec::new(), &header());
    record(&mut writer);
    writer.record(SHOP, at(2), &Event::End);
    writer.account(HOST, at(3), entity(), &Account { remaining: None, credit: Some(1) });
    let error = writer.finish().expect_err("time goes back");
    expect!["event 14 at 2ms: time goes back from 3ms"].assert_eq(&error.to_string());
    let error = PerfettoWriter::new(Vec::new(), &WorldHeader::default()).finish().expect_err("no machine");
    expect!["event 0 at 0s: a world of 0 machines; help: use 1 to 4096"].assert_eq(&error.to_string());
}
