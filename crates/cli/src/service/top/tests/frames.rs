//! Frames at three sizes of the terminal, as committed text.

use super::super::draw;
use super::*;
use expect_test::{ExpectFile, expect_file};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const SIZES: [(u16, u16); 3] = [(80, 24), (160, 50), (50, 20)];

/// Compares the frames of a session at all sizes with those of a file.
#[expect(clippy::needless_pass_by_value, reason = "it is the result of a macro")]
fn assert_frames(expected: ExpectFile, session: &Session) {
    let mut frames = String::new();
    for (width, height) in SIZES {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw::draw(frame, &session.model)).unwrap();
        let shown = terminal.backend().to_string();
        let lines = shown.lines().map(|line| line.trim_start_matches('"').trim_end_matches('"').trim_end());
        frames += &format!("--- {width}x{height}\n{}\n", lines.collect::<Vec<_>>().join("\n").trim_end());
    }
    expected.assert_eq(&frames);
}

#[test]
fn the_list_shows_what_is_asked_granted_delivered_and_missed() {
    let mut session = Session::begin();
    session.type_text("jjj");
    assert_frames(expect_file!["list.out"], &session);
}

#[test]
fn the_details_of_a_refused_vm_have_reason_and_remedy() {
    let mut session = Session::begin();
    session.type_text("jjjj");
    assert_frames(expect_file!["refused.out"], &session);
}

#[test]
fn the_form_shows_the_refusal_and_its_alternatives() {
    let mut session = Session::begin();
    session.type_text("je9ms");
    assert_frames(expect_file!["form.out"], &session);
}

#[test]
fn the_form_says_that_a_vm_was_changed_meanwhile() {
    let mut session = Session::begin();
    session.type_text("je3ms");
    session.service.change_meanwhile("database", Desired { promise: Some(promise(1, 20)), ..Desired::default() });
    session.type_keys(&[Key::Enter]);
    assert_frames(expect_file!["reloaded.out"], &session);
}

#[test]
fn a_banner_says_that_values_are_old_and_how_old() {
    let mut session = Session::begin();
    session.model.tick(at(14));
    session.model.reply(Reply::Sample(Err("cannot reach the service at /run/tactus.sock: gone".to_string())));
    assert_frames(expect_file!["old.out"], &session);
}

#[test]
fn the_results_of_a_change_of_several_vms_are_shown_for_each() {
    let mut session = Session::begin();
    session.type_text(" j j e");
    session.type_text("5ms");
    session.type_keys(&[Key::Tab]);
    session.type_text("10ms");
    session.service.change_meanwhile("build", Desired::default());
    session.type_keys(&[Key::Enter]);
    assert_frames(expect_file!["results.out"], &session);
}

#[test]
fn the_help_names_all_keys() {
    let mut session = Session::begin();
    session.type_text("?");
    assert_frames(expect_file!["help.out"], &session);
}

#[test]
fn a_question_names_the_vms_that_lose_their_promises() {
    let mut session = Session::begin();
    session.type_text("jd");
    assert_frames(expect_file!["question.out"], &session);
}

#[test]
fn the_host_and_all_warnings_are_shown_by_a_key() {
    let mut session = Session::begin();
    session.type_text("i");
    assert_frames(expect_file!["host.out"], &session);
}

#[test]
fn a_terminal_of_any_size_is_drawn() {
    for keys in ["", "jjjj", "?", "i", "jjje9ms", "jd", "  e", "/x"] {
        let mut session = Session::begin();
        session.type_text(keys);
        for (width, height) in
            (1..100).step_by(11).flat_map(|width| (1..30).step_by(4).map(move |height| (width, height)))
        {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw::draw(frame, &session.model)).unwrap();
            assert!(draw::rows_of_table(height, &session.model) > 0);
        }
    }
}

#[test]
fn the_selection_is_visible_in_a_long_list_and_names_do_not_drive_the_terminal() {
    let mut session = Session::begin();
    let mut long = sample(4);
    long.vms = (0..300).map(|number| vm(&format!("vm-{number:03}"), number, Desired::default(), Phase::None)).collect();
    long.vms[0].name = "\x1b[2Jvm".to_string();
    session.model.reply(Reply::Sample(Ok(Box::new(long))));
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    session.model.page = draw::rows_of_table(24, &session.model);
    let mut shown = |session: &Session| {
        terminal.draw(|frame| draw::draw(frame, &session.model)).unwrap();
        terminal.backend().to_string()
    };
    let first = shown(&session);
    assert!(first.contains(r">\u{1b}[2Jvm") && !first.contains('\x1b'), "{first}");
    for (key, name) in [(Key::End, ">vm-299"), (Key::Up, ">vm-298"), (Key::PageUp, ">vm-28"), (Key::Home, ">\\u{1b}")] {
        session.type_keys(&[key]);
        let frame = shown(&session);
        assert!(frame.contains(name), "{key:?}: {frame}");
    }
}
