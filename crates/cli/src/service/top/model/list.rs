//! The keys of the list: selection, marks, search and order.

use super::{Dialog, Effect, Key, Model};
use crate::service::Order;
use api::Vm;

impl Model {
    pub(super) fn key_of_list(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Letter('q') => return vec![Effect::Quit],
            Key::Letter('?' | 'h') => self.dialog = Dialog::Help,
            Key::Letter('/') => self.is_searching = true,
            Key::Letter('n') => self.sort(Order::Name),
            Key::Letter('c') => self.sort(Order::Used),
            Key::Letter('w') => self.sort(Order::Waited),
            Key::Letter('m') => self.sort(Order::Missed),
            Key::Letter('t') => self.trend = self.trend.other(),
            Key::Letter('o') => self.is_changeable_only = !self.is_changeable_only,
            Key::Letter(' ') => self.mark(),
            Key::Escape => {
                self.search.clear();
                self.marked.clear();
            }
            Key::Letter('i') => self.dialog = Dialog::Host,
            Key::Enter | Key::Letter('e') => return self.edit(),
            Key::Letter('p') => return self.pause(),
            Key::Letter('d') => self.ask_to_end(),
            Key::Letter('u') => return self.undo(),
            _ => self.move_selection(key),
        }
        Vec::new()
    }

    pub(super) fn key_of_search(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Letter(letter) => self.search.push(letter),
            Key::Backspace => {
                self.search.pop();
            }
            Key::Enter => self.is_searching = false,
            Key::Escape => {
                self.search.clear();
                self.is_searching = false;
            }
            _ => self.move_selection(key),
        }
        Vec::new()
    }

    fn sort(&mut self, order: Order) {
        self.order = order;
        self.rates.sort(order);
    }

    fn move_selection(&mut self, key: Key) {
        let shown = self.shown();
        let (at, last) = (self.position(&shown), shown.len().saturating_sub(1));
        let to = match key {
            Key::Up | Key::Letter('k') => at.saturating_sub(1),
            Key::Down | Key::Letter('j') => at + 1,
            Key::PageUp => at.saturating_sub(self.page),
            Key::PageDown => at + self.page,
            Key::Home => 0,
            Key::End => last,
            _ => at,
        };
        self.selected = shown.get(to.min(last)).map(|vm| vm.id.clone());
    }

    /// Marks the selected VM, or ends its mark, and selects the next VM.
    fn mark(&mut self) {
        let Some(id) = self.selected().map(|vm| vm.id.clone()) else { return };
        if !self.marked.remove(&id) {
            self.marked.insert(id);
        }
        self.move_selection(Key::Down);
    }

    /// Returns the VMs that a key changes: the marked ones, or else the selected one. Returns none, and says why, if the client
    /// may not change one of them.
    pub(super) fn targets(&mut self) -> Vec<Vm> {
        let ids: Vec<String> = match self.marked.is_empty() {
            true => self.selected().map(|vm| vm.id.clone()).into_iter().collect(),
            false => self.marked.iter().cloned().collect(),
        };
        if let Some(id) = ids.iter().find(|id| !self.may_change(id)) {
            let caller = &self.latest.caller;
            let text = format!("{} with the role {} may not change {}", caller.name, caller.role, self.name_of(id));
            self.tell(text, true);
            return Vec::new();
        }
        let mut vms: Vec<Vm> = ids.iter().filter_map(|id| self.latest.vm(id)).cloned().collect();
        vms.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        vms
    }

    fn name_of(&self, id: &str) -> String {
        self.latest.vm(id).map_or(id.to_string(), |vm| vm.name.clone())
    }
}
