//! What keys do.

use super::super::history::Trend;
use super::super::model::Dialog;
use super::super::model::form::Verdict;
use super::*;

fn selected(session: &Session) -> String {
    session.model.selected().map(|vm| vm.name.clone()).unwrap_or_default()
}

fn verdict(session: &Session) -> Verdict {
    let Dialog::Form(form) = &session.model.dialog else { panic!("there is no form") };
    form.verdict.clone()
}

#[test]
fn keys_select_a_vm_and_the_selection_stays_at_the_vm() {
    let mut session = Session::begin();
    for (key, name) in [
        (Key::Down, "database"),
        (Key::Letter('j'), "idle"),
        (Key::Up, "database"),
        (Key::End, "web"),
        (Key::Down, "web"),
        (Key::Letter('k'), "video"),
        (Key::PageUp, "build"),
        (Key::PageDown, "web"),
        (Key::Home, "build"),
        (Key::Up, "build"),
    ] {
        session.type_keys(&[key]);
        assert_eq!(selected(&session), name, "{key:?}");
    }
    // The order by CPU time is that of the numbers, the largest first.
    session.type_text("jc");
    assert_eq!((selected(&session), session.model.shown()[0].name.as_str()), ("database".to_string(), "web"));
    session.type_text("t");
    assert_eq!(session.model.trend, Trend::Misses);
    session.type_text("q");
    assert!(session.is_ended);
}

#[test]
fn a_search_shows_only_the_names_with_a_text() {
    let mut session = Session::begin();
    session.type_text("/B");
    let names = |session: &Session| session.model.shown().iter().map(|vm| vm.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&session), ["build", "database", "web"]);
    session.type_text("u");
    session.type_keys(&[Key::Enter]);
    assert_eq!((names(&session), session.model.is_searching), (vec!["build".to_string()], false));
    session.type_keys(&[Key::Escape]);
    assert_eq!(names(&session).len(), 6);
}

#[test]
fn an_edit_changes_one_value_and_can_be_undone() {
    let mut session = Session::begin();
    session.type_text("je3ms");
    assert_eq!(verdict(&session), Verdict::Accepted);
    assert_eq!(session.service.slice_of("database"), Some(2_000_000), "a check changes nothing");
    session.type_keys(&[Key::Enter]);
    let desired = Desired { promise: Some(promise(3, 10)), ..Desired::default() };
    assert_eq!((session.service.vm("database").desired, session.service.vm("database").generation), (desired, 4));
    assert_eq!(session.model.notice.as_ref().unwrap().text, "database: changed");
    let shown = session.model.selected().unwrap();
    assert_eq!(shown.promise, "3ms in 10ms", "the list has the new value before the next sample");
    session.type_text("u");
    assert_eq!(session.service.slice_of("database"), Some(2_000_000));
    session.type_text("u");
    assert!(session.model.notice.as_ref().unwrap().is_error, "there is nothing else to undo");
}

#[test]
fn steps_and_alternatives_change_the_values_of_the_form() {
    let mut session = Session::begin();
    session.type_text("j");
    session.type_keys(&[Key::Enter, Key::Right, Key::Right, Key::Tab, Key::Left]);
    // 3 ms in 8 ms.
    assert_eq!(verdict(&session), Verdict::Accepted);
    session.type_keys(&[Key::Up]);
    session.type_text("9ms");
    assert!(matches!(verdict(&session), Verdict::Refused(_)));
    session.type_keys(&[Key::Enter]);
    assert!(matches!(verdict(&session), Verdict::Refused(_)), "a refused change leaves the form open");
    session.type_text("S");
    assert_eq!(verdict(&session), Verdict::Accepted);
    session.type_text("9msP");
    assert_eq!(verdict(&session), Verdict::Accepted);
    session.type_keys(&[Key::Enter]);
    let promise = session.service.vm("database").desired.promise.clone().unwrap();
    assert_eq!((promise.slice_ns, promise.period_ns), (9_000_000, 12_857_143));
}

#[test]
fn the_form_of_a_refused_vm_begins_with_the_alternatives() {
    let mut session = Session::begin();
    session.type_text("jjjje");
    assert!(matches!(verdict(&session), Verdict::Refused(_)));
    session.type_text("S");
    session.type_keys(&[Key::Enter]);
    assert_eq!(session.service.slice_of("video"), Some(7_000_000));
}

#[test]
fn a_form_that_is_closed_by_esc_or_has_a_wrong_value_changes_nothing() {
    let mut session = Session::begin();
    session.type_text("je5");
    assert!(matches!(verdict(&session), Verdict::Wrong(reason) if reason.contains("use a unit with it")));
    session.type_keys(&[Key::Enter]);
    assert!(matches!(session.model.dialog, Dialog::Form(_)));
    session.type_keys(&[Key::Delete]);
    assert_eq!(verdict(&session), Verdict::Wrong("a promise needs a slice; use one, or no period".to_string()));
    session.type_keys(&[Key::Escape]);
    assert!(matches!(session.model.dialog, Dialog::None));
    assert_eq!(*session.service.vms(), sample(2).vms);
}

#[test]
fn a_vm_that_is_changed_meanwhile_is_reloaded_and_told() {
    let mut session = Session::begin();
    session.type_text("je3ms");
    session.service.change_meanwhile("database", Desired { promise: Some(promise(1, 20)), ..Desired::default() });
    session.type_keys(&[Key::Enter]);
    let Dialog::Form(form) = &session.model.dialog else { panic!("the form stays open") };
    assert!(form.is_reloaded && form.verdict == Verdict::Accepted, "{form:?}");
    assert_eq!((form.entries[0].text.as_str(), form.entries[0].former.as_deref()), ("3ms", Some("1ms")));
    assert_eq!(form.entries[1].text, "20ms", "a value that the user has not changed is that of the service");
    session.type_keys(&[Key::Enter]);
    assert_eq!(session.service.vm("database").desired.promise, Some(promise(3, 20)));
}

#[test]
fn an_edit_applies_to_all_marked_vms_and_keeps_their_other_values() {
    let mut session = Session::begin();
    // build, database and idle.
    session.type_text("   e");
    let Dialog::Form(form) = &session.model.dialog else { panic!("there is no form") };
    assert!(form.entries[0].is_mixed() && !form.entries[3].is_mixed());
    session.type_keys(&[Key::Up, Key::Up]);
    session.type_text("300");
    session.type_keys(&[Key::Enter]);
    let Dialog::Results(_, outcomes) = &session.model.dialog else { panic!("there are no results") };
    assert!(outcomes.len() == 3 && outcomes.iter().all(|it| it.result.is_ok()));
    let weights = |session: &Session| ["build", "database", "idle"].map(|name| session.service.vm(name).desired.weight);
    assert_eq!(weights(&session), [Some(300); 3]);
    assert_eq!(
        (session.service.slice_of("database"), session.service.vm("build").desired.cap_percent),
        (Some(2_000_000), Some(150))
    );
    // All of them are undone together, except one that another client has changed.
    session.service.change_meanwhile("idle", Desired::default());
    session.type_keys(&[Key::Escape]);
    session.type_text("u");
    let Dialog::Results(_, outcomes) = &session.model.dialog else { panic!("there are no results") };
    assert_eq!(outcomes.iter().filter(|it| it.result.is_err()).count(), 1);
    assert_eq!(weights(&session), [Some(50), None, None]);
}

#[test]
fn a_vm_is_paused_resumed_and_loses_its_promise_only_after_a_question() {
    let mut session = Session::begin();
    session.type_text("jp");
    assert!(session.service.vm("database").desired.paused);
    session.type_text("p");
    assert!(!session.service.vm("database").desired.paused);
    session.type_text("dn");
    assert_eq!(session.service.slice_of("database"), Some(2_000_000));
    session.type_text("dy");
    assert_eq!(session.service.slice_of("database"), None);
    session.type_text("jp");
    assert!(session.model.notice.as_ref().unwrap().text.contains("nothing is desired"));
}

#[test]
fn a_client_without_permission_is_offered_no_change() {
    for (name, role, may) in [
        ("cert:a", "view", [false, false]),
        ("uid:64055", "own", [true, false]),
        ("uid:7", "own", [false, true]),
        ("cert:a", "operate", [true, false]),
        ("uid:0", "admin", [true, true]),
    ] {
        let mut session = Session::begin();
        let mut sample = sample(4);
        sample.caller = Caller { name: name.to_string(), role: role.to_string() };
        let process = &mut sample.vms[1];
        (process.kind, process.id) = (Kind::Process, "pid:4002".to_string());
        process.process = process.process.map(|it| Process { user: 7, ..it });
        session.model.reply(Reply::Sample(Ok(Box::new(sample))));
        let found = ["id-build", "pid:4002"].map(|id| session.model.may_change(id));
        assert_eq!(found, may, "{name} with the role {role}");
        session.type_text("e");
        assert_eq!(matches!(session.model.dialog, Dialog::Form(_)), may[0], "{name} with the role {role}");
    }
    let mut session = Session::begin();
    let mut sample = sample(4);
    sample.caller = Caller { name: "uid:7".to_string(), role: "own".to_string() };
    sample.vms[1].process = sample.vms[1].process.map(|it| Process { user: 7, ..it });
    session.model.reply(Reply::Sample(Ok(Box::new(sample))));
    session.type_text("o");
    assert_eq!(session.model.shown().iter().map(|vm| vm.name.as_str()).collect::<Vec<_>>(), ["database"]);
}

#[test]
fn values_are_old_when_the_service_fails_or_does_not_reply() {
    let mut session = Session::begin();
    assert!(!session.model.tick(at(5)) && session.model.age().is_none());
    assert!(session.model.tick(at(7)), "interval and patience are over");
    assert_eq!((session.model.age(), session.model.failure()), (Some(5), "it does not reply"));
    session.model.reply(Reply::Sample(Ok(Box::new(sample(7)))));
    assert_eq!(session.model.age(), None);
    session.model.reply(Reply::Sample(Err("cannot reach the service".to_string())));
    assert_eq!((session.model.age(), session.model.failure()), (Some(0), "cannot reach the service"));
}
