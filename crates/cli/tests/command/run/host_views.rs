//! What the service shows of a host with a promise: the sums of its CPUs, the history and the timeline.

use super::service::Service;
use super::{HOG, soon, turn};
use serde_json::Value;
use sys::child::Child;

#[test]
fn the_views_of_a_host_show_a_promise_where_it_is_kept() {
    let _turn = turn();
    let service = Service::begin();
    let hog = Child::start(HOG).unwrap();
    let vm = format!("pid:{}", hog.pid());
    service.json(&["set", &vm, "--slice", "2ms", "--period", "10ms", "--mechanism", "inherit"]);
    let cpus = service.get("/v1/cpus");
    let of_vm = |part: &&Value| part["vm"] == vm.as_str();
    let holds = |cpu: &&Value| cpu["promises"].as_array().unwrap().iter().any(|part| of_vm(&part));
    let holders: Vec<&Value> = cpus["cpus"].as_array().unwrap().iter().filter(holds).collect();
    assert!(holders.len() == 1 && holders[0]["promised_ppm"] == 200_000, "{cpus}");
    assert_eq!((&cpus["anywhere"], &cpus["promisable_percent"]), (&serde_json::json!([]), &90.into()));
    let cpu = holders[0]["cpu"].clone();
    let mut history = Value::Null;
    soon("the history has two seconds", || {
        history = service.get("/v1/history");
        let judged = history["vms"][0]["series"][0]["judged"].as_array();
        judged.is_some_and(|judged| judged.iter().filter(|count| count.as_u64() > Some(50)).count() >= 2)
    });
    let due = history["vms"][0]["series"][0]["due_us"].as_array().unwrap();
    assert!(due.iter().flat_map(Value::as_u64).any(|us| (150_000..=250_000).contains(&us)), "{history}");
    let timeline = service.get("/v1/timeline?length_ms=100");
    if timeline["unrecorded"].is_null() {
        let threads = timeline["threads"].as_array().unwrap();
        let index = threads.iter().position(|thread| thread["vm"] == vm.as_str()).expect("it ran");
        let here = timeline["cpus"].as_array().unwrap().iter().find(|it| it["cpu"] == cpu).unwrap();
        let stretches = here["stretches"].as_array().unwrap();
        assert!(stretches.iter().any(|it| it[2] == index), "it ran on CPU {cpu}: {here}");
    }
    let demand = service.get("/v1/demand?length_ms=200");
    let left_ns = demand["vms"][0]["period_left_ns"].as_u64();
    assert!(left_ns.is_some_and(|left| (1..=10_000_000).contains(&left)), "{demand}");
    if demand["unrecorded"].is_null() {
        let threads = &demand["vms"][0]["threads"];
        // The hog never sleeps.
        assert!(threads[0]["is_observed"] == true && threads[0]["bursts"][0][2] == 0, "{demand}");
    }
    service.json(&["set", &vm, "--mechanism", "deadline"]);
    let cpus = service.get("/v1/cpus");
    assert_eq!(cpus["anywhere"], serde_json::json!([{ "vm": vm, "ppm": 200_000 }]), "{cpus}");
    service.end();
}
