//! [`Screen`]: the terminal, as keys and frames.

use super::draw;
use super::model::{Key, Model};
use crate::failure::Failure;
use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io;

/// What the terminal reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Report {
    Key(Key),
    Resized,
}

/// The terminal. Dropping this value restores it, and so does a panic of any thread.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn open() -> Result<Screen, Failure> {
        Ok(Screen(ratatui::try_init().context("cannot use the terminal")?))
    }

    pub(super) fn draw(&mut self, model: &mut Model) -> Result<(), Failure> {
        let size = self.0.size().context("cannot read the size of the terminal")?;
        model.page = draw::rows_of_table(size.height, model);
        self.0.draw(|frame| draw::draw(frame, model)).context("cannot write to the terminal")?;
        Ok(())
    }
}

/// Waits for a report of the terminal.
pub(super) fn wait_for_report() -> io::Result<Report> {
    loop {
        if let Some(report) = meaning(&event::read()?) {
            return Ok(report);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn meaning(event: &Event) -> Option<Report> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(Report::Key),
        Event::Resize(..) => Some(Report::Resized),
        _ => None,
    }
}

fn key_of(key: &KeyEvent) -> Option<Key> {
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if has_control => Key::Interrupt,
        KeyCode::Char('u') if has_control => Key::Delete,
        KeyCode::Char(letter) if !has_control => Key::Letter(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::super::tests::Session;
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn keys_of_the_terminal_are_keys_of_the_model() {
        let key = |code, modifiers| meaning(&Event::Key(KeyEvent::new(code, modifiers)));
        let of = |key| Some(Report::Key(key));
        assert_eq!(key(KeyCode::Char('m'), KeyModifiers::NONE), of(Key::Letter('m')));
        assert_eq!(key(KeyCode::Char('S'), KeyModifiers::SHIFT), of(Key::Letter('S')));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), of(Key::Interrupt));
        assert_eq!(key(KeyCode::Char('z'), KeyModifiers::CONTROL), None);
        assert_eq!(meaning(&Event::Resize(80, 24)), Some(Report::Resized));
    }

    /// The program of the test below.
    #[test]
    #[ignore = "it needs a terminal, and panics"]
    fn a_screen_whose_thread_panics() {
        let mut screen = Screen::open().unwrap();
        let session = Session::begin();
        screen.0.draw(|frame| draw::draw(frame, &session.model)).unwrap();
        std::thread::spawn(|| panic!("on purpose")).join().unwrap_err();
        panic!("the other thread has failed");
    }

    #[test]
    fn a_panic_of_any_thread_restores_the_terminal() {
        let program = std::env::current_exe().unwrap();
        let test = "service::top::screen::tests::a_screen_whose_thread_panics";
        let line = format!("stty -a; '{}' --ignored --exact {test}; echo; stty -a", program.display());
        let mut terminal = Command::new("script");
        terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("TERM", "xterm");
        let done = match terminal.stdin(Stdio::null()).output() {
            Ok(done) => done,
            Err(error) => {
                eprintln!("SKIPPED: `script` (apt-get install bsdutils) cannot be run: {error}");
                return;
            }
        };
        let said = String::from_utf8_lossy(&done.stdout);
        let (opened, left) = (said.find("\x1b[?1049h"), said.rfind("\x1b[?1049l"));
        assert!(opened.is_some() && opened < left, "{said}");
        assert!(said[left.unwrap()..].contains("\x1b[?25h"), "the cursor is hidden: {said}");
        let settings: Vec<&str> =
            said.lines().filter(|line| line.contains("icanon") || line.contains("echo ")).collect();
        let (before, after) = settings.split_at(settings.len() / 2);
        assert!(!before.is_empty() && before == after, "{said}");
        assert!(said.contains("on purpose"), "{said}");
    }
}
