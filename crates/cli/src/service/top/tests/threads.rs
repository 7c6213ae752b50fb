//! The threads that wait, over a service that is a value.

use super::super::requests::{Action, Change, Request};
use super::super::screen::Report;
use super::super::worker::{News, Worker};
use super::*;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Maximum time for a step of a few milliseconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal that reports what a channel has, and then waits.
fn terminal(keys: Receiver<Report>) -> impl Fn() -> std::io::Result<Report> + Send {
    move || keys.recv().map_err(|_| std::io::ErrorKind::UnexpectedEof.into())
}

#[test]
fn keys_arrive_while_the_service_does_not_reply() {
    let service = Simulation::new();
    let (type_key, keys) = mpsc::channel();
    let worker = Worker::start(service.clone(), Nanos::ms(10), terminal(keys));
    let change = Change {
        id: "id-database".to_string(),
        name: "database".to_string(),
        generation: 3,
        desired: Desired::default(),
        before: Desired::default(),
    };
    // Requests and samples wait for this lock.
    let busy = service.vms();
    worker.ask(Request::Apply { number: 1, action: Action::Edit, changes: vec![change] });
    type_key.send(Report::Key(Key::Down)).unwrap();
    let is_key = |news: &News| matches!(news, News::Report(Ok(Report::Key(Key::Down))));
    while !is_key(&worker.news.recv_timeout(PATIENCE).unwrap()) {}
    drop(busy);
    let is_applied = |news: &News| match news {
        News::Reply(Reply::Applied { number: 1, outcomes, .. }) => outcomes[0].result.is_ok(),
        _ => false,
    };
    while !is_applied(&worker.news.recv_timeout(PATIENCE).unwrap()) {}
    assert_eq!(service.slice_of("database"), None);
    let is_sample = |news: &News| matches!(news, News::Reply(Reply::Sample(Ok(_))));
    while !is_sample(&worker.news.recv_timeout(PATIENCE).unwrap()) {}
    assert!(!worker.has_failed());
    // The terminal hangs up.
    drop(type_key);
    while !matches!(worker.news.recv_timeout(PATIENCE).unwrap(), News::Report(Err(_))) {}
}
