//! `tactus top` in a terminal, with a core: a refusal and its alternative.

use super::super::top::Terminal;
use super::service::Service;
use super::{HOG, soon, turn};
use sys::child::Child;

#[test]
fn the_form_takes_the_alternative_of_a_refusal_and_the_core_keeps_it() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let service = Service::begin();
    let vm = format!("pid:{}", hog.pid());
    let set = service.json(&["set", &vm, "--slice", "1ms", "--period", "10ms"]);
    let name = set["name"].as_str().unwrap();
    let Some(terminal) = Terminal::open(&service.place) else { return };
    terminal.start_top(name);
    terminal.until("the promise is in force", |shown| shown.contains("10.0%") && shown.contains("kept"));
    terminal.keys(&["e", "9500us"]);
    let shown = terminal.until("it is refused", |shown| shown.contains("take the slice 9ms"));
    assert!(shown.contains("refused:") && shown.contains("take the period"), "{shown}");
    terminal.keys(&["S"]);
    terminal.until("the alternative is accepted", |shown| shown.contains("the service would accept this"));
    let slice = || service.json(&["show", &vm])["desired"]["promise"]["slice_ns"].as_u64();
    assert_eq!(slice(), Some(1_000_000), "a check changes nothing");
    terminal.keys(&["Enter"]);
    soon("the promise is longer", || slice() == Some(9_000_000));
    terminal.until("the list says so", |shown| shown.contains("9ms/10ms") && shown.contains("90.0%"));
    terminal.keys(&["p"]);
    soon("it is paused", || service.json(&["show", &vm])["state"]["phase"] == "paused");
    terminal.until("the list says so", |shown| shown.contains(": paused"));
    terminal.keys(&["u"]);
    soon("it is resumed", || service.json(&["show", &vm])["state"]["phase"] == "kept");
    terminal.keys(&["q"]);
    terminal.expect_end(0);
    drop(terminal);
    service.end();
}
