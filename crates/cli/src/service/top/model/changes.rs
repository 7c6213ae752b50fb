//! The changes that the user makes: edits, pauses, ends of promises, and their undoing.

use super::super::requests::{Action, Change, Outcome, Request, Trouble, TroubleKind};
use super::field::Step;
use super::form::{Form, Verdict, change};
use super::undo::Undo;
use super::{Confirmation, Dialog, Effect, Key, Model, UNDO_MOST};
use api::{Desired, Vm};

impl Model {
    pub(super) fn edit(&mut self) -> Vec<Effect> {
        let vms = self.targets();
        if vms.is_empty() {
            return Vec::new();
        }
        self.dialog = Dialog::Form(Box::new(Form::new(vms)));
        // The form of a refused VM begins with the alternatives.
        self.check()
    }

    /// Pauses the VMs, or resumes them if all are paused.
    pub(super) fn pause(&mut self) -> Vec<Effect> {
        let mut vms = self.targets();
        let is_empty = vms.is_empty();
        vms.retain(|vm| !vm.desired.is_empty());
        if vms.is_empty() {
            if !is_empty {
                self.tell("nothing is desired, so there is nothing to pause or resume", true);
            }
            return Vec::new();
        }
        let is_resumed = vms.iter().all(|vm| vm.desired.paused);
        let action = if is_resumed { Action::Resume } else { Action::Pause };
        let paused = |vm: &Vm| Desired { paused: !is_resumed, ..vm.desired.clone() };
        self.apply(action, vms.iter().map(|vm| change(vm, paused(vm))).collect())
    }

    /// Asks whether the promises to the VMs shall end.
    pub(super) fn ask_to_end(&mut self) {
        let mut vms = self.targets();
        let is_empty = vms.is_empty();
        vms.retain(|vm| vm.desired.promise.is_some());
        if vms.is_empty() {
            if !is_empty {
                self.tell("there is no promise to end", true);
            }
            return;
        }
        let without = |vm: &Vm| Desired { promise: None, ..vm.desired.clone() };
        let changes = vms.iter().map(|vm| change(vm, without(vm))).collect();
        self.dialog = Dialog::Confirm(Confirmation { action: Action::EndPromise, changes });
    }

    pub(super) fn key_of_confirmation(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Letter('y') => {
                let Dialog::Confirm(asked) = std::mem::replace(&mut self.dialog, Dialog::None) else {
                    return Vec::new();
                };
                self.apply(asked.action, asked.changes)
            }
            Key::Letter('n' | 'q') | Key::Escape => {
                self.dialog = Dialog::None;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Undoes the last change of this session.
    pub(super) fn undo(&mut self) -> Vec<Effect> {
        match self.undo.pop() {
            Some(Undo(changes)) => self.apply(Action::Undo, changes),
            None => {
                self.tell("this session has changed nothing that can be undone", true);
                Vec::new()
            }
        }
    }

    fn apply(&mut self, action: Action, changes: Vec<Change>) -> Vec<Effect> {
        let number = self.next_number();
        vec![Effect::Ask(Request::Apply { number, action, changes })]
    }

    pub(super) fn key_of_form(&mut self, key: Key) -> Vec<Effect> {
        let Dialog::Form(form) = &mut self.dialog else { return Vec::new() };
        if key == Key::Escape {
            self.dialog = Dialog::None;
            return Vec::new();
        }
        if form.applied.is_some() {
            // The request cannot be changed any longer.
            return Vec::new();
        }
        let is_changed = match key {
            Key::Enter => return self.apply_form(),
            Key::Up | Key::BackTab => {
                form.move_focus(Step::Up);
                false
            }
            Key::Down | Key::Tab => {
                form.move_focus(Step::Down);
                false
            }
            Key::Left | Key::Right => {
                form.step(if key == Key::Left { Step::Down } else { Step::Up });
                true
            }
            Key::Backspace => {
                form.erase();
                true
            }
            Key::Delete => {
                form.clear();
                true
            }
            Key::Letter('S') => form.take_slice(),
            Key::Letter('P') => form.take_period(),
            Key::Letter(letter) => form.type_letter(letter),
            _ => false,
        };
        if is_changed { self.check() } else { Vec::new() }
    }

    /// Asks what the service would say about the values of the form.
    fn check(&mut self) -> Vec<Effect> {
        let number = self.next_number();
        let Dialog::Form(form) = &mut self.dialog else { return Vec::new() };
        form.check = number;
        if !form.is_changed() && !form.is_refused() {
            form.verdict = Verdict::Unchanged;
            return Vec::new();
        }
        match form.changes() {
            Ok(changes) => {
                // The alternatives stay while the service is asked, so that the form does not flicker.
                if !matches!(form.verdict, Verdict::Refused(_)) {
                    form.verdict = Verdict::Checking;
                }
                vec![Effect::Ask(Request::Check { number, changes })]
            }
            Err(reason) => {
                form.verdict = Verdict::Wrong(reason);
                Vec::new()
            }
        }
    }

    fn apply_form(&mut self) -> Vec<Effect> {
        let number = self.next_number();
        let Dialog::Form(form) = &mut self.dialog else { return Vec::new() };
        if !form.is_changed() {
            self.dialog = Dialog::None;
            return Vec::new();
        }
        match form.changes() {
            Ok(changes) => {
                form.applied = Some(number);
                vec![Effect::Ask(Request::Apply { number, action: Action::Edit, changes })]
            }
            Err(reason) => {
                form.verdict = Verdict::Wrong(reason);
                Vec::new()
            }
        }
    }

    /// Accepts the reply to a check. The reply to an earlier check is out of date.
    pub(super) fn checked(&mut self, number: u64, outcomes: &[Outcome]) -> Vec<Effect> {
        let Dialog::Form(form) = &mut self.dialog else { return Vec::new() };
        if form.check != number || form.applied.is_some() {
            return Vec::new();
        }
        form.judge(outcomes);
        if outcomes.iter().any(is_outdated) { self.check() } else { Vec::new() }
    }

    /// Accepts the reply to changes.
    pub(super) fn applied(&mut self, number: u64, action: Action, outcomes: Vec<Outcome>) -> Vec<Effect> {
        self.accept_changes(action, &outcomes);
        let is_of_form = matches!(&self.dialog, Dialog::Form(form) if form.applied == Some(number));
        let has_trouble = outcomes.iter().any(|outcome| outcome.result.is_err());
        match (&mut self.dialog, &outcomes[..]) {
            (Dialog::Form(form), [only]) if is_of_form && has_trouble => {
                form.applied = None;
                form.judge(&outcomes);
                return if is_outdated(only) { self.check() } else { Vec::new() };
            }
            (_, [only]) if !has_trouble => {
                let text = format!("{}: {}", only.change.name, action.done());
                if is_of_form {
                    self.dialog = Dialog::None;
                }
                self.tell(text, false);
            }
            (Dialog::Form(_), _) if !is_of_form => {
                // Another form is open, and keeps its place.
                let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
                self.tell(format!("{failed} of {} changes were not made", outcomes.len()), failed > 0);
            }
            _ => self.dialog = Dialog::Results(action, outcomes),
        }
        Vec::new()
    }

    /// Takes the new states of the VMs, and records how the changes are undone.
    fn accept_changes(&mut self, action: Action, outcomes: &[Outcome]) {
        let mut undo = Vec::new();
        for Outcome { change, result } in outcomes {
            match result {
                Ok(now) => {
                    if let Some(vm) = self.latest.vms.iter_mut().find(|vm| vm.id == now.id) {
                        vm.clone_from(now);
                    }
                    if action != Action::Undo {
                        let (desired, before) = (change.before.clone(), change.desired.clone());
                        undo.push(Change { generation: now.generation, desired, before, ..change.clone() });
                    }
                }
                // An undoing that was not answered can be repeated.
                Err(Trouble { kind: TroubleKind::Unanswered, .. }) if action == Action::Undo => {
                    undo.push(change.clone());
                }
                Err(_) => {}
            }
        }
        if !undo.is_empty() {
            self.undo.push(Undo(undo));
            let surplus = self.undo.len().saturating_sub(UNDO_MOST);
            self.undo.drain(..surplus);
        }
        self.compute();
    }
}

fn is_outdated(outcome: &Outcome) -> bool {
    matches!(&outcome.result, Err(Trouble { kind: TroubleKind::Outdated(Some(_)), .. }))
}
